//! Present reads of a thin index: the settled entries of a range and, marked, the entries that
//! unsettled operations add or remove (R28).
//!
//! An operation whose outcome a client may have seen is settled here, or this side member has its
//! prepare and holds its keys: the decider waits for the report, and a side member reports when it
//! holds all keys.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeBounds;

use placement::tables::{Tables, TablesError};
use protocol::identity::{PartitionId, Version};
use protocol::message::Read;
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::partition::rows::{KeyRange, stored_row};
use crate::core::reads::page::PageBuilder;

/// The entries of a range that unsettled operations add or remove, by key: the entry that is added,
/// with its version, or none if it is only removed.
type Marks = BTreeMap<Vec<u8>, Option<(Version, Vec<u8>)>>;

impl CoreMachine {
    /// Fills a page with the settled and the marked entries of a range.
    pub(crate) fn visit_entries<T: Tables>(
        &self,
        read: &Read,
        range: KeyRange<'_>,
        tables: &T,
        page: &mut PageBuilder<'_>,
    ) -> Result<(), TablesError> {
        let mut marks = self.marks_in(read.partition, range);
        // Takes the marked entries that come before a key, or all of them.
        let mut ahead_of = |key: Option<&[u8]>| {
            let next = match range.descending {
                false => marks.first_entry(),
                true => marks.last_entry(),
            };
            let is_ahead = |mark: &[u8]| match (key, range.descending) {
                (Some(key), false) => mark <= key,
                (Some(key), true) => mark >= key,
                (None, _) => true,
            };
            next.filter(|next| is_ahead(next.key()))
                .map(|next| next.remove_entry())
        };
        let mut broken = false;
        let visit = &mut |key: &[u8], value: &[u8]| {
            let flow = (|| {
                let mut is_marked = false;
                while let Some((mark, added)) = ahead_of(Some(key)) {
                    if mark == key {
                        is_marked = true;
                    } else if let Some((version, entry)) = added {
                        page.visit_marked(&mark, version, &entry)?;
                    }
                }
                let (version, entry) = stored_row(value);
                match is_marked {
                    true => page.visit_marked(key, version, entry),
                    false => page.visit(key, value),
                }
            })();
            broken |= flow.is_break();
            flow
        };
        range.visit(read.partition.rows_table(), tables, visit)?;
        while let Some((mark, added)) = ahead_of(None) {
            let Some((version, entry)) = added.filter(|_| !broken) else {
                continue;
            };
            broken |= page.visit_marked(&mark, version, &entry).is_break();
        }
        Ok(())
    }

    /// Returns the entries of a range that unsettled operations add or remove.
    fn marks_in(&self, id: PartitionId, range: KeyRange<'_>) -> Marks {
        let mut marks = Marks::new();
        if planted::is(Bug::MarksLeftOut) {
            return marks;
        }
        let partition = &self.partitions[&id];
        let bounds = range.bounds();
        for operation in partition.locks.holders_in(range.start, range.end) {
            let Some(member) = self.members.get(&(operation, id)) else {
                continue;
            };
            for (change, effect) in member.prepare.changes.iter().zip(&member.effects) {
                if let Some(key) = effect
                    .remove
                    .as_ref()
                    .filter(|key| bounds.contains(&key[..]))
                {
                    marks.entry(key.to_vec()).or_default();
                }
                let Some(key) = effect.put.as_ref().filter(|key| bounds.contains(&key[..])) else {
                    continue;
                };
                let row = change.new.as_ref().expect("an entry comes with its row");
                let entry = member.table.stored_form(id, row);
                marks.insert(key.to_vec(), Some((change.version, entry.into_owned())));
            }
        }
        marks
    }
}
