//! The life of replicas and of the buffer: they are added, receive commits, and are lost or
//! removed.

use super::{Action, World};
use crate::buffer::{Buffer, Given};
use crate::replica::Extractor;
use proxy_core::freshness::{ReplicaId, ServerLife};
use proxy_core::planted::{self, ProxyBug};
use replication::handover::{self, CommitSource};
use replication::locked;
use replication::pages::BufferPages;

impl World {
    /// Confirms the commits that the log need not keep any more, as `Reader::confirm` does.
    pub(super) fn confirm(&mut self) {
        let pages = self.buffer.as_ref().map(|buffer| buffer.pages.as_ref());
        if let Some(pages) = pages {
            let until = pages.map(BufferPages::until).unwrap_or_default();
            self.reader.recent.forget(until);
        }
        if self.durable.len() < self.databases.len() {
            return;
        }
        let is_unavailable = |id: &&ReplicaId| !self.extractors.contains_key(id);
        let unavailable = self
            .databases
            .keys()
            .filter(is_unavailable)
            .copied()
            .collect();
        let waits = self.other.as_ref().is_some_and(|other| other.waits);
        let slot = waits.then_some(self.confirmed);
        let durable = handover::forgettable(&self.durable, &unavailable, (pages.flatten(), slot));
        let durable = durable.unwrap_or_default();
        let follows = self.buffer.as_ref().is_some_and(Buffer::is_following);
        let durable = match pages.flatten().filter(|_| follows) {
            Some(pages) => handover::forgettable_by_buffer(durable, pages),
            None => durable,
        };
        self.confirmed = self.confirmed.max(durable);
        self.are_less_helpless();
    }

    /// Takes up a replica, as `follow` does.
    pub(super) fn join(&mut self, id: ReplicaId) -> Result<(), String> {
        let database = self.databases.get_mut(&id).expect("it is there");
        if !planted::is(ProxyBug::OldExtractorGoesOn) {
            database.hang_up();
        }
        // The position that it reports is on its disk before it counts.
        if !planted::is(ProxyBug::UnflushedCounts) {
            database.flush(database.noted);
        }
        let noted = database.noted;
        let pages = self.buffer.as_ref().map(|buffer| buffer.pages.as_ref());
        let is_kept = pages.flatten().is_some_and(|pages| pages.covers(noted));
        if noted < self.confirmed && !is_kept {
            // Whether it is in the buffer is not known before that was reached.
            if pages.is_some_and(|pages| pages.is_none()) {
                return Ok(());
            }
            return self.refill(id);
        }
        self.locks += 1;
        let lock = ServerLife(self.locks);
        let extractor = Extractor::new(&self.databases[&id], lock, self.pace);
        self.extractors.insert(id, extractor);
        locked(&self.manager).connected(id, lock, noted);
        self.durable.insert(id, noted);
        self.delivered.insert(id, noted);
        self.confirm();
        self.report(id);
        self.deliver(id)
    }

    /// Fills a replica again, because no source has its missing commits. Returns an error if a
    /// source must have them.
    fn refill(&mut self, id: ReplicaId) -> Result<(), String> {
        let noted = self.databases[&id].noted;
        if !self.may_lack(id) {
            return Err(format!(
                "replica {} has {noted}, and the slot gives only what is behind {}",
                id.0, self.confirmed
            ));
        }
        self.counts.refilled += 1;
        let mut states = self.primary.states.range(..=self.confirmed);
        let (_, data) = states.next_back().expect("the first is there");
        let (data, place) = (data.clone(), self.confirmed);
        self.database(id).fill(&data, place);
        self.durable.insert(id, place);
        Ok(())
    }

    /// Gives a replica the next page, or hands it over to the reader, as `delivery::deliver` does.
    pub(super) fn deliver(&mut self, id: ReplicaId) -> Result<(), String> {
        let applied = self.delivered[&id];
        let extractor = self.extractors.get_mut(&id).expect("it is there");
        let buffer = self.buffer.as_ref();
        if let Some((given, until)) = buffer.and_then(|buffer| buffer.read(applied)) {
            for Given(tsid, commit) in given {
                extractor.give(tsid, commit);
            }
            extractor.give_nothing(until);
            self.delivered.insert(id, until);
            self.counts.pages_given += 1;
            return Ok(());
        }
        // Where the buffer cannot be read, it insists.
        let log = (&self.primary, self.confirmed);
        match self.reader.join((id, extractor), applied, log) {
            CommitSource::Buffer => unreachable!("it has been read"),
            CommitSource::Lost => return self.perform(Action::Notice(id)),
            CommitSource::Stream | CommitSource::Recent | CommitSource::RestartedStream => {
                self.delivered.remove(&id);
            }
        }
        Ok(())
    }

    pub(super) fn keep_buffer(&mut self, action: Action) {
        let buffer = self.buffer.as_mut().expect("there is one");
        match action {
            Action::OpenBuffer => {
                let confirmed = self.confirmed;
                let leaves = self.random.one_in(2);
                let log = (&self.primary, confirmed);
                self.reader.join_buffer(buffer, log, leaves);
            }
            Action::WriteBuffer => {
                let count = 1 + self.random.below(buffer.queued() as u64) as usize;
                let dies = self.has_faults && self.random.one_in(10);
                buffer.write(self.epoch, count, dies);
            }
            Action::StartBuffer => buffer.is_up = true,
            Action::LoseBuffer => buffer.lose(),
            _ => buffer.crash(),
        }
        self.confirm();
    }
}
