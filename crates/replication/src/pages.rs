//! The pages of the transactions buffer. A page holds all commits between two positions in the
//! primary's WAL.
//!
//! Invariant: the known pages leave no gap. A reader that has every commit up to a covered position
//! finds every later commit up to the newest, in order.

use std::collections::BTreeMap;

use proxy_core::freshness::Tsid;
use proxy_core::planted::{self, ProxyBug};

/// A page of the transactions buffer: all commits after one position, up to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPage {
    /// The epoch of the proxy that wrote it.
    pub epoch: u64,
    /// The position before the page's first commit.
    pub after: Tsid,
    /// The position up to which it has all commits.
    pub until: Tsid,
    /// The number of the page's rows in the table.
    pub parts: u32,
    /// The bytes of these rows.
    pub length: u64,
}

/// The pages of the buffer, without gaps between them.
#[derive(Clone, Debug)]
pub struct BufferPages {
    /// By where they end. None is inside of another one.
    all: BTreeMap<Tsid, BufferPage>,
    /// The first covered position.
    from: Tsid,
    /// And ends here.
    until: Tsid,
    length: u64,
}

impl BufferPages {
    /// Returns no pages, for a buffer that begins at this position.
    pub fn beginning_at(place: Tsid) -> BufferPages {
        BufferPages {
            all: BTreeMap::new(),
            from: place,
            until: place,
            length: 0,
        }
    }

    /// Returns the pages that are contiguous up to the newest page, and the pages before a gap,
    /// which replicas cannot use.
    pub fn of(mut found: Vec<BufferPage>) -> Option<(BufferPages, Vec<BufferPage>)> {
        found.sort_by_key(|page| (page.until, std::cmp::Reverse(page.after)));
        let until = found.last()?.until;
        let mut pages = BufferPages::beginning_at(until);
        let mut useless = Vec::new();
        while let Some(page) = found.pop() {
            let leads = page.until >= pages.from || planted::is(ProxyBug::PagesHaveGaps);
            let adds = leads && page.after < pages.from;
            match adds {
                true => {
                    pages.from = page.after;
                    pages.length += page.length;
                    pages.all.insert(page.until, page);
                }
                false => useless.push(page),
            }
        }
        Some((pages, useless))
    }

    /// Returns the first covered position. The buffer does not help a replica that lacks earlier
    /// commits.
    pub fn from(&self) -> Tsid {
        self.from
    }

    /// Returns the last covered position.
    pub fn until(&self) -> Tsid {
        self.until
    }

    /// Returns the bytes of all pages.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the number of pages.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns whether the pages have every commit after this position.
    pub fn covers(&self, place: Tsid) -> bool {
        (self.from..=self.until).contains(&place)
    }

    /// Returns the next page for a reader with everything up to this position. Returns none if
    /// there is no more, or if a part of it is lost.
    pub fn next(&self, place: Tsid) -> Option<BufferPage> {
        if !self.covers(place) {
            return None;
        }
        let mut later = self
            .all
            .range((std::ops::Bound::Excluded(place), std::ops::Bound::Unbounded));
        later.next().map(|(_, page)| *page)
    }

    /// Returns the newest page.
    pub fn last(&self) -> Option<&BufferPage> {
        self.all.values().next_back()
    }

    /// Adds a page after the newest one, or in its place. Returns the replaced page.
    pub fn push(&mut self, page: BufferPage) -> Option<BufferPage> {
        assert!(page.until > self.until, "pages are added in order");
        assert!(page.after <= self.until, "pages leave no gap");
        let replaced = self.last().copied().filter(|last| last.after == page.after);
        if let Some(last) = &replaced {
            self.all.remove(&last.until);
            self.length -= last.length;
        }
        self.until = page.until;
        self.length += page.length;
        self.all.insert(page.until, page);
        replaced
    }

    /// Removes and returns the oldest page if all pages together have more than `length_max` bytes.
    /// It never removes the newest page.
    pub fn take_surplus(&mut self, length_max: u64) -> Option<BufferPage> {
        if self.length <= length_max || self.all.len() < 2 {
            return None;
        }
        let (_, page) = self.all.pop_first()?;
        self.length -= page.length;
        // Pages that overlap with it have the rest.
        self.from = page.until;
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(after: u64, until: u64) -> BufferPage {
        BufferPage {
            epoch: 1,
            after: Tsid(after),
            until: Tsid(until),
            parts: 1,
            length: until - after,
        }
    }

    #[test]
    fn pages_after_a_gap_are_dropped() {
        let found = vec![page(10, 20), page(50, 60), page(20, 30), page(40, 50)];
        let (pages, useless) = BufferPages::of(found).unwrap();
        assert_eq!((pages.from(), pages.until()), (Tsid(40), Tsid(60)));
        assert_eq!(useless, [page(20, 30), page(10, 20)]);
        assert_eq!(pages.next(Tsid(45)), Some(page(40, 50)));
        assert_eq!(pages.next(Tsid(50)), Some(page(50, 60)));
        assert_eq!(pages.next(Tsid(60)), None);
        assert_eq!(pages.next(Tsid(30)), None);
    }

    #[test]
    fn an_empty_page_makes_way_for_a_longer_one() {
        let mut pages = BufferPages::beginning_at(Tsid(10));
        assert_eq!(pages.push(page(10, 12)), None);
        assert_eq!(pages.push(page(10, 15)), Some(page(10, 12)));
        assert_eq!((pages.count(), pages.length()), (1, 5));
        assert_eq!(pages.until(), Tsid(15));
    }

    proptest! {
        /// For any pages in any order: a reader that follows them from any covered position meets
        /// each position up to the end, and none outside of the pages.
        #[test]
        fn reader_of_the_pages_misses_nothing(
            found in prop::collection::vec((0_u64..60, 1_u64..20), 1..20),
            surplus in 0_u64..80,
        ) {
            let found: Vec<BufferPage> = found.into_iter().map(|(after, length)| page(after, after + length)).collect();
            let (mut pages, useless) = BufferPages::of(found.clone()).unwrap();
            prop_assert_eq!(pages.count() + useless.len(), found.len());
            while let Some(gone) = pages.take_surplus(surplus) {
                prop_assert!(!pages.covers(Tsid(gone.until.0 - 1)));
            }
            for place in 0..80 {
                if !pages.covers(Tsid(place)) {
                    prop_assert_eq!(pages.next(Tsid(place)), None);
                    continue;
                }
                let mut reached = place;
                while let Some(next) = pages.next(Tsid(reached)) {
                    prop_assert!(next.after.0 <= reached && reached < next.until.0);
                    prop_assert!(found.contains(&next));
                    reached = next.until.0;
                }
                prop_assert_eq!(Tsid(reached), pages.until());
            }
        }
    }
}
