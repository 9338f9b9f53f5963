//! Executes reads, from the choice of a server to their result.

use super::World;
use crate::primary::Reads;
use crate::replica::Extractor;
use crate::session::{Chosen, Doing, Read};
use proxy_core::freshness::{ConsistencyLevel, ReadMoment, ReadTarget, Tsid};
use proxy_core::planted::{self, ProxyBug};
use replication::locked;

impl World {
    /// Looks again for a replica for a read that waits for one.
    pub(super) fn wait(&mut self, number: usize, mut read: Read, mut moment: ReadMoment) {
        let mut manager = locked(&self.manager);
        let (target, watch) = manager.route_moment(&mut moment);
        read.watch = watch;
        drop(manager);
        self.sessions[number].doing = match target {
            ReadTarget::Primary(_) if self.random.one_in(16) => Doing::Asks(read, None),
            ReadTarget::Primary(_) => Doing::Waits(read, moment),
            ReadTarget::Replica { id, need, life, .. } => {
                self.counts.reads_waited += 1;
                let chosen = Chosen {
                    id,
                    need,
                    life,
                    server: 0,
                };
                Doing::Asks(read, Some(chosen))
            }
        };
    }

    /// Takes a connection for a read, as `Relay::take_there` and `Node::take_for_read` do.
    pub(super) fn connect(&mut self, number: usize, read: Read, mut chosen: Chosen) {
        let database = &self.databases[&chosen.id];
        let idle = self.idle.entry(chosen.id).or_default();
        // A connection to a server that died is found to be closed.
        idle.retain(|life| database.is_up && *life == database.life);
        let is_open = match idle.pop() {
            Some(_) => true,
            None => {
                let extractor = self.extractors.get(&chosen.id);
                let holds = |extractor: &Extractor| {
                    extractor.lock == chosen.life && extractor.life == database.life
                };
                let is_in_life =
                    extractor.is_some_and(holds) || planted::is(ProxyBug::GoneBackServes);
                database.is_up && is_in_life
            }
        };
        chosen.server = database.life;
        let mut manager = locked(&self.manager);
        self.sessions[number].doing = match is_open && manager.has(chosen.id, chosen.need) {
            true => {
                manager.started(Some(chosen.id));
                Doing::Runs(read, chosen)
            }
            false => Doing::Asks(read, None),
        };
    }

    pub(super) fn read_primary(&mut self, read: &Read) -> Result<(), String> {
        self.counts.reads_at_the_primary += 1;
        let (reads, started) = (&read.reads, read.started);
        let knew = |known_at: Option<u64>| known_at.is_some_and(|at| at < started);
        let mut log = self.primary.log.iter();
        let gone = log.find(|entry| !entry.is_shown && reads.meet(entry) && knew(entry.known_at));
        if let Some(entry) = gone {
            let tsid = entry.tsid;
            return Err(format!("the commit at {tsid} was seen, and then no more"));
        }
        self.saw(read, Tsid(u64::MAX));
        Ok(())
    }

    /// Takes a read's snapshot at a replica, if that is still there.
    pub(super) fn read_replica(&mut self, number: usize, read: Read, chosen: Chosen) {
        let database = &self.databases[&chosen.id];
        if database.is_up && database.life == chosen.server {
            self.sessions[number].doing = Doing::Answers(read, chosen, database.noted);
        } else {
            locked(&self.manager).ended(Some(chosen.id));
        }
    }

    /// Reports a read's snapshot to the proxy. A read that may be torn is done again, on the
    /// primary.
    pub(super) fn receive(
        &mut self,
        number: usize,
        read: Read,
        (chosen, has): (Chosen, Tsid),
    ) -> Result<(), String> {
        self.idle.entry(chosen.id).or_default().push(chosen.server);
        let mut manager = locked(&self.manager);
        manager.ended(Some(chosen.id));
        if let Some(watch) = &read.watch
            && manager.is_torn(watch)
        {
            drop(manager);
            self.counts.reads_done_again += 1;
            self.sessions[number].doing = Doing::Asks(read, None);
            return Ok(());
        }
        drop(manager);
        self.judge(&read, (chosen, has))
    }

    /// Checks that a read at a replica has seen all that it had to see.
    fn judge(&mut self, read: &Read, (chosen, has): (Chosen, Tsid)) -> Result<(), String> {
        self.counts.reads_at_replicas += 1;
        let all = match read.level {
            ConsistencyLevel::RsiPc => &Reads::Anything,
            _ => &read.reads,
        };
        let knew = |known_at: Option<u64>| known_at.is_some_and(|at| at < read.started);
        let mut missing = self.primary.missing(all, has);
        let missed = missing.find(|entry| knew(entry.known_at));
        let missed = missed.map(|entry| entry.tsid);
        if let Some(tsid) = missed.filter(|_| read.level != ConsistencyLevel::Weak) {
            return Err(format!(
                "a read of {:?} at replica {}, which has {has}, misses the commit at {tsid}",
                read.reads, chosen.id.0
            ));
        }
        drop(missing);
        if let Some((has, lacks)) = self.primary.torn(&read.reads, has)
            && read.level == ConsistencyLevel::Gssi
        {
            return Err(format!(
                "a read of {:?} at replica {} has the commit at {has} and not that at {lacks}, which was shown before",
                read.reads, chosen.id.0
            ));
        }
        self.saw(read, has);
        Ok(())
    }

    /// Records that a client has seen all commits up to a position that its read touches. A write
    /// around the proxy counts once the slot's reader has read it.
    fn saw(&mut self, read: &Read, until: Tsid) {
        let (now, position) = (self.now, self.reader.position);
        let seen = self.primary.log.iter_mut().filter(|entry| {
            let is_there = match until {
                Tsid(u64::MAX) => entry.is_shown,
                until => entry.tsid <= until,
            };
            let is_read = entry.is_ours || entry.tsid <= position;
            is_there && is_read && read.reads.meet(entry)
        });
        for entry in seen {
            entry.known_at.get_or_insert(now);
        }
    }
}
