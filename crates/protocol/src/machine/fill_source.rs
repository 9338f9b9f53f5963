//! What a member of a cover gives to a partition that is being filled: those of its rows that belong
//! there, page by page, and those that are needed at once.
//!
//! Every answer follows from the question and the tables alone, so that it may be asked for twice.
//! What is in the tables is settled (SAFETY R3); nothing here waits for what is under way, because
//! the partition that asks is a member of all that.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::RowView;
use placement::tables::{Tables, TablesError};

use super::settle::stored_row;
use super::table::TableInfo;
use super::{CoreMachine, Output, Send, fill};
use crate::codec::Bytes;
use crate::configuration::PartitionState;
use crate::identity::{CoreId, PartitionId, Position};
use crate::message::{PeerMessage, RowPage};

impl CoreMachine {
    /// The table of a cover's member on this core, if it can give rows for `of`: not before it
    /// knows again what it may have forgotten, nor while it lacks rows itself.
    fn gives_rows(&self, of: PartitionId, from: PartitionId) -> Option<Arc<TableInfo>> {
        let table = &self.partitions.get(&from)?.table;
        let serves = table.place(from)?.state == PartitionState::Serving;
        let is_asked = of.table == from.table && table.place(of).is_some();
        let gives = serves && is_asked && self.recovering.is_none();
        gives.then(|| Arc::clone(table))
    }

    /// A page of a member's rows is asked for.
    pub(super) fn on_copy<T: Tables>(
        &mut self,
        asker: CoreId,
        (of, from): (PartitionId, PartitionId),
        start: Bytes,
        (tables, output): (&T, &mut Output),
    ) -> Result<(), TablesError> {
        let Some(table) = self.gives_rows(of, from) else {
            return Ok(());
        };
        let mut page = RowPage::default();
        let mut looked_at_bytes = 0;
        let mut keys_left = self.limits.fill_page_keys_max;
        let bytes_max = self.limits.fill_page_bytes_max;
        tables.scan(from.rows_table(), &start, None, &mut |key, value| {
            if keys_left == 0 || page.rows.len() >= bytes_max {
                page.next = Some(key.into());
                return ControlFlow::Break(());
            }
            keys_left -= 1;
            looked_at_bytes += value.len() as u64;
            let (version, row) = stored_row(value);
            let view = RowView::parse(&table.schema.columns, row);
            let view = view.expect("a committed row decodes");
            if table.layout.partition_of_row(usize::from(of.replex), &view) == of.number {
                page.push(version, row);
            }
            ControlFlow::Continue(())
        })?;
        output.sends.push(Send {
            to: asker,
            after: Position(0),
            message: PeerMessage::Copied {
                of,
                from,
                start,
                sum: fill::sum_of(&page),
                page,
                looked_at_bytes,
            },
        });
        Ok(())
    }

    /// The last rows of a range of the partition that is filled are asked for.
    pub(super) fn on_fetch<T: Tables>(
        &mut self,
        asker: CoreId,
        (of, from): (PartitionId, PartitionId),
        (prefix, end): (Bytes, Option<Bytes>),
        start: Bytes,
        (tables, output): (&T, &mut Output),
    ) -> Result<(), TablesError> {
        let Some(table) = self.gives_rows(of, from) else {
            return Ok(());
        };
        let (replex, own) = (usize::from(of.replex), usize::from(from.replex));
        // A member in the same order has them in one place.
        let in_order = table.replexes[own].entry_columns == table.replexes[replex].entry_columns;
        let (first, beyond) = match in_order {
            true => ((&prefix).max(&start), end.clone()),
            false => (&start, None),
        };
        let mut found = BTreeMap::new();
        let mut next = None;
        let mut left_out = false;
        let rows_max = self.limits.fetched_rows_max;
        let mut keys_left = self.limits.page_keys_max;
        tables.scan(
            from.rows_table(),
            first,
            beyond.as_deref(),
            &mut |key, value| {
                let is_beyond = in_order && !key.starts_with(&prefix);
                if is_beyond || keys_left == 0 {
                    next = (!is_beyond).then(|| Bytes::from(key));
                    return ControlFlow::Break(());
                }
                keys_left -= 1;
                let (_, row) = stored_row(value);
                let view = RowView::parse(&table.schema.columns, row);
                let view = view.expect("a committed row decodes");
                if table.layout.partition_of_row(replex, &view) != of.number {
                    return ControlFlow::Continue(());
                }
                let entry = table.entry_key(replex, &view);
                if entry.starts_with(&prefix) && end.as_ref().is_none_or(|end| entry[..] < **end) {
                    found.insert(entry, value.to_vec());
                    if found.len() > rows_max {
                        found.pop_first();
                        left_out = true;
                    }
                }
                ControlFlow::Continue(())
            },
        )?;
        let message = PeerMessage::Fetched {
            of,
            from,
            prefix,
            end,
            start,
            page: page_of(found, next),
            left_out,
        };
        output.sends.push(Send {
            to: asker,
            after: Position(0),
            message,
        });
        Ok(())
    }
}

fn page_of(found: BTreeMap<Vec<u8>, Vec<u8>>, next: Option<Bytes>) -> RowPage {
    let mut page = RowPage {
        next,
        ..RowPage::default()
    };
    for value in found.values() {
        let (version, row) = stored_row(value);
        page.push(version, row);
    }
    page
}
