//! The slot's reader: gives every commit of the log to the manager and then, once the Primary shows it, to
//! the Extensions, in order; and settles what is in doubt.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::extension::{Commit, Extractor};
use super::primary::{Change, Entry, Primary};
use crate::manager::mark::Message;
use crate::manager::{
    Committed, ExtensionId, Manager, Mark, Row, Sets, TStateId, Table, Touch, Tsid,
};

/// See the module.
#[derive(Debug)]
pub struct Reader {
    /// The next commit of the log.
    next: usize,
    /// Every commit up to here has been read.
    pub position: Tsid,
    /// It was read, and waits until the Primary shows it.
    unshown: Option<usize>,
    /// The last that each Extension was given.
    given: BTreeMap<ExtensionId, Tsid>,
    /// Commits in doubt whose process is gone, and the log's end then.
    doubts: BTreeMap<TStateId, Tsid>,
}

impl Reader {
    /// One that begins behind `confirmed`.
    pub fn new(primary: &Primary, confirmed: Tsid) -> Reader {
        Reader {
            next: place(primary, confirmed),
            position: Tsid(0),
            unshown: None,
            given: BTreeMap::new(),
            doubts: BTreeMap::new(),
        }
    }

    /// The stream broke, and begins again behind `confirmed`.
    pub fn restart(&mut self, primary: &Primary, confirmed: Tsid) {
        self.next = place(primary, confirmed);
        self.unshown = None;
    }

    /// An Extension wants what is behind `applied`. The stream begins again if it has gone past that.
    pub fn join(&mut self, id: ExtensionId, applied: Tsid, primary: &Primary, confirmed: Tsid) {
        self.given.insert(id, applied);
        if applied < self.position {
            self.restart(primary, confirmed);
        }
    }

    /// An Extension takes nothing any more.
    pub fn leave(&mut self, id: ExtensionId) {
        self.given.remove(&id);
    }

    /// Whether it can go on.
    pub fn can_go_on(&self, primary: &Primary) -> bool {
        match self.unshown {
            Some(place) => primary.log[place].is_shown,
            None => self.next < primary.log.len() || self.position < primary.position(),
        }
    }

    /// Reads on, or gives what was read.
    pub fn go_on(
        &mut self,
        primary: &Primary,
        manager: &mut Manager,
        extractors: &mut BTreeMap<ExtensionId, Extractor>,
    ) {
        if let Some(place) = self.unshown.take() {
            self.give(&primary.log[place], extractors);
            return;
        }
        let place = self.next;
        let Some(entry) = primary.log.get(place) else {
            // A keep-alive message: there is nothing up to the log's end.
            self.position = self.position.max(primary.position());
            self.give_each(self.position, None, extractors);
            return;
        };
        self.next += 1;
        let is_shown = manager.committed(&Committed {
            tsid: entry.tsid,
            mark: mark(entry, manager),
            writes: &sets(entry),
            has_statements: entry.has_statements,
        });
        match is_shown || entry.is_shown {
            true => self.give(entry, extractors),
            false => self.unshown = Some(place),
        }
    }

    /// Looks at what is in doubt.
    pub fn settle(&mut self, primary: &Primary, manager: &mut Manager) {
        let in_doubt = manager.in_doubt();
        for (id, backend) in &in_doubt {
            if !primary.is_alive(*backend) {
                self.doubts.entry(*id).or_insert(primary.position());
            }
        }
        let settled = self.doubts.iter().filter(|(_, end)| **end <= self.position);
        let settled: Vec<TStateId> = settled.map(|(id, _)| *id).collect();
        self.doubts
            .retain(|id, _| in_doubt.iter().any(|(doubt, _)| doubt == id));
        manager.settle_doubts(&settled);
    }

    fn give(&mut self, entry: &Entry, extractors: &mut BTreeMap<ExtensionId, Extractor>) {
        self.position = self.position.max(entry.tsid);
        let commit = Rc::new(Commit {
            tsid: entry.tsid,
            changes: entry.changes.clone(),
            sets: sets(entry),
        });
        self.give_each(entry.tsid, Some(&commit), extractors);
    }

    fn give_each(
        &mut self,
        tsid: Tsid,
        commit: Option<&Rc<Commit>>,
        extractors: &mut BTreeMap<ExtensionId, Extractor>,
    ) {
        for (id, given) in &mut self.given {
            if *given < tsid
                && let Some(extractor) = extractors.get_mut(id)
            {
                *given = tsid;
                extractor.give(tsid, commit.cloned());
            }
        }
    }
}

/// The first commit behind a place of the log.
fn place(primary: &Primary, confirmed: Tsid) -> usize {
    primary.log.partition_point(|entry| entry.tsid <= confirmed)
}

fn mark(entry: &Entry, manager: &Manager) -> Option<Mark> {
    let (prefix, bytes) = entry.message.as_ref()?;
    match Message::decode(prefix, bytes, manager.key())? {
        Message::Mark(mark) => Some(mark),
        Message::Statement(_) => None,
    }
}

/// What a commit has written, by its row images.
fn sets(entry: &Entry) -> Sets {
    let mut sets = Sets::default();
    for Change { key, .. } in &entry.changes {
        sets.touch(Table(key.table), &Touch::write_rows([Row(key.row)]));
    }
    if entry.has_statements {
        sets.merge(&Sets::writes_anything());
    }
    sets
}
