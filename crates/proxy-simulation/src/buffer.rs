//! The simulated transactions buffer: a table that survives crashes of its store, unless the table
//! is lost, and the proxy's knowledge of it. Its pages and the choice of a source are the real
//! code.

use std::collections::VecDeque;
use std::rc::Rc;

use super::replica::Commit;
use proxy_core::freshness::Tsid;
use replication::handover::LogPlaced;
use replication::pages::{BufferPage, BufferPages};

/// A commit, or that there is none up to here.
#[derive(Clone, Debug)]
pub(crate) struct Given(pub Tsid, pub Option<Rc<Commit>>);

impl LogPlaced for Given {
    fn tsid(&self) -> Tsid {
        self.0
    }

    fn length(&self) -> usize {
        1
    }
}

/// The simulated transactions buffer. It survives crashes of its store, unless it is lost.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// Whether the buffer's store answers.
    pub is_up: bool,
    /// Whether the buffer has lost pages that were on its disks, or has dropped pages for lack of
    /// space.
    pub has_lost: bool,
    rows: Vec<(BufferPage, Vec<Given>)>,
    /// The pages that the proxy knows; none before it has read the table.
    pub pages: Option<BufferPages>,
    /// Given to it, and not written; none while it does not follow.
    queue: Option<VecDeque<Given>>,
    length_max: u64,
}

impl Buffer {
    /// Returns an empty buffer for `length_max` commits.
    pub fn new(length_max: u64) -> Buffer {
        Buffer {
            is_up: true,
            has_lost: false,
            rows: Vec::new(),
            pages: None,
            queue: None,
            length_max,
        }
    }

    /// Returns whether the reader passes commits to the buffer.
    pub fn is_following(&self) -> bool {
        self.queue.is_some()
    }

    /// Returns whether the buffer's store is up, and commits wait to be written to it.
    pub fn can_write(&self) -> bool {
        self.is_up && self.queue.as_ref().is_some_and(|queue| !queue.is_empty())
    }

    /// Crashes the buffer's store. Pages that were not written are lost.
    pub fn crash(&mut self) {
        self.is_up = false;
        self.queue = None;
    }

    /// Crashes the buffer's store, and removes its disks, too.
    pub fn lose(&mut self) {
        self.crash();
        self.has_lost |= !self.rows.is_empty();
        self.rows.clear();
    }

    /// Drops the proxy's knowledge of the pages, and the queue, because the proxy has ended.
    pub fn leave(&mut self) {
        self.pages = None;
        self.queue = None;
    }

    /// Looks at the present pages, as `buffer::open` does. Returns behind which place it needs
    /// commits. Useless pages may be left there, as by a proxy that dies before it has removed
    /// them.
    pub fn open(&mut self, confirmed: Tsid, leaves: bool) -> Tsid {
        let found: Vec<BufferPage> = self.rows.iter().map(|(page, _)| *page).collect();
        let (pages, useless) = match BufferPages::of(found.clone()) {
            Some((pages, useless)) if pages.until() >= confirmed => (pages, useless),
            _ => (BufferPages::beginning_at(confirmed), found),
        };
        self.rows
            .retain(|(page, _)| leaves || !useless.contains(page));
        let start = pages.until();
        self.pages = Some(pages);
        self.queue = Some(VecDeque::new());
        start
    }

    /// Queues the reader's commits for the buffer.
    pub fn give(&mut self, given: Given) {
        let queue = self.queue.as_mut().expect("it follows");
        queue.push_back(given);
    }

    /// Writes some of the queued commits as a page, as `BufferWriter::write_page` does. Where its
    /// store dies just then, the page is there, and no proxy knows.
    pub fn write(&mut self, epoch: u64, count: usize, dies: bool) {
        let queue = self.queue.as_mut().expect("it follows");
        let states: Vec<Given> = queue.drain(..count).collect();
        let pages = self.pages.as_mut().expect("it was opened");
        let after = match pages.last() {
            Some(last) if last.length == 0 => last.after,
            _ => pages.until(),
        };
        let page = BufferPage {
            epoch,
            after,
            until: states.last().expect("there is one").0,
            parts: 1,
            length: states.iter().filter(|given| given.1.is_some()).count() as u64,
        };
        self.rows.push((page, states));
        if dies {
            self.crash();
            return;
        }
        let mut gone: Vec<BufferPage> = pages.push(page).into_iter().collect();
        while let Some(surplus) = pages.take_surplus(self.length_max) {
            self.has_lost = true;
            gone.push(surplus);
        }
        self.rows.retain(|(page, _)| !gone.contains(page));
    }

    /// Returns how many entries are queued.
    pub fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, VecDeque::len)
    }

    /// Returns the commits of the next page after a position, and the page's end; none if the page
    /// cannot be read, or if there is none.
    pub fn read(&self, place: Tsid) -> Option<(Vec<Given>, Tsid)> {
        let page = self.pages.as_ref()?.next(place).filter(|_| self.is_up)?;
        let (_, states) = self.rows.iter().find(|(row, _)| *row == page)?;
        let behind = states.iter().filter(|given| given.0 > place);
        Some((behind.cloned().collect(), page.until))
    }
}
