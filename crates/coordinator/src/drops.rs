//! Remembers the last dropped tables. A core or client that knows an earlier configuration receives
//! only the changes since that configuration. A configuration does not contain dropped tables, so
//! the coordinator keeps this list of them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use protocol::configuration::{Configuration, ConfigurationChanges};
use protocol::identity::{Epoch, TableId};

/// Drops that are remembered.
const DROPS_MAX: usize = 1024;

/// The tables that were dropped since epoch `since`. It is empty when the coordinator starts.
#[derive(Debug)]
pub(super) struct RecentDrops {
    /// The record has all drops of later epochs.
    since: Epoch,
    /// The dropped tables, each with the first epoch without it, by ascending epoch.
    drops: VecDeque<(Epoch, TableId)>,
}

impl RecentDrops {
    /// Returns a record of drops that starts with this epoch.
    pub fn new(since: Epoch) -> RecentDrops {
        RecentDrops {
            since,
            drops: VecDeque::new(),
        }
    }

    /// Records that a table was dropped in this epoch.
    pub fn note(&mut self, epoch: Epoch, table: TableId) {
        self.drops.push_back((epoch, table));
        if self.drops.len() > DROPS_MAX
            && let Some((forgotten, _)) = self.drops.pop_front()
        {
            self.since = forgotten;
        }
    }

    /// Returns the changes from the configuration of epoch `known` to the newest. Returns none if
    /// `known` is older than the record.
    pub fn changes(&self, newest: &Configuration, known: Epoch) -> Option<ConfigurationChanges> {
        if known < self.since {
            return None;
        }
        let later = self.drops.iter().filter(|(epoch, _)| *epoch > known);
        let mut dropped: Vec<TableId> = later.map(|(_, table)| *table).collect();
        dropped.sort_unstable();
        Some(ConfigurationChanges::between(newest, known, dropped))
    }
}
