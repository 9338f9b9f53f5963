//! Models the coordinator's changes of the table, and how cores adopt them.

use super::lease::LeaseRules;
use super::planted::LeaseBug;
use super::state::{ASKER, LEASE, LeaseState, TableConfiguration};

impl LeaseRules {
    /// Delivers the next change to a core.
    pub fn learn(&self, state: &mut LeaseState, core: usize) -> bool {
        state.cores[core].number += 1;
        state.cores[core].number <= state.newest
    }

    /// Reports that a core that remains has sealed the table, with the time when it last vouched.
    pub fn report(&self, state: &mut LeaseState, core: usize) -> bool {
        let current = state.current();
        let known = state.configuration(state.cores[core].number);
        let same =
            known.epoch == current.epoch || self.is(LeaseBug::EarlierReportCounts) && known.sealed;
        let holder = &mut state.cores[core];
        if !current.sealed || current.holders >> core & 1 == 0 || !same || holder.reported {
            return false;
        }
        // A process does not know when the one before it vouched.
        holder.reported = true;
        holder.reported_age = match self.is(LeaseBug::VouchingForgotten) {
            true => holder.vouched_age,
            false => holder.vouched_age.min(holder.process_age),
        };
        true
    }

    /// Restarts a voucher, which is a change of its tables.
    pub fn restart(&self, state: &mut LeaseState, core: usize) -> bool {
        if core == ASKER || state.restarts_left == 0 {
            return false;
        }
        state.restarts_left -= 1;
        let current = state.current();
        let holder = &mut state.cores[core];
        if self.is(LeaseBug::ProcessRunsOn) {
            holder.ghost = Some(holder.number);
        }
        holder.process_age = 0;
        holder.vouched_age = LEASE;
        if holder.exchange.is_some_and(|exchange| !exchange.answered) {
            holder.exchange = None;
        }
        current.holders >> core & 1 == 0 || state.change(true, current)
    }

    /// Seals the table and removes cores from it.
    pub fn seal(&self, state: &mut LeaseState, removed: u8) -> bool {
        let current = state.current();
        let all = match self.is(LeaseBug::LimitPerSealing) {
            true => removed,
            false => state.removed | removed,
        };
        let most = u32::from(current.tolerated.max(1));
        let too_many = all.count_ones() > most || removed & !current.holders != 0;
        let leased = removed >> ASKER & 1 != 0 && state.coordinator_age < LEASE;
        if state.seals_left == 0
            || too_many
            || current.holders & !removed == 0
            || leased && !self.is(LeaseBug::OwnLeaseNotWaitedFor)
        {
            return false;
        }
        state.seals_left -= 1;
        let reported = state.cores.map(|core| (core.reported, core.reported_age));
        state.removed |= removed;
        let sealed = state.change(
            true,
            TableConfiguration {
                sealed: true,
                holders: current.holders & !removed,
                ..current
            },
        );
        if self.is(LeaseBug::EarlierReportCounts) {
            for (core, reported) in state.cores.iter_mut().zip(reported) {
                (core.reported, core.reported_age) = reported;
            }
        }
        sealed
    }

    /// Lets the table serve, once every holder has reported and no removed server can have a lease.
    /// Only in this step, or when it is removed, a server stops holding partitions of the table,
    /// because all holders have reported. The number of tolerated failures also rises only in this
    /// step.
    pub fn serve(&self, state: &mut LeaseState, changes: bool) -> bool {
        let current = state.current();
        let holders = (0..self.case.cores.len()).filter(|core| current.holders >> core & 1 != 0);
        let missing = holders.clone().filter(|core| !state.cores[*core].reported);
        let tolerable = usize::from(self.is(LeaseBug::HolderNotWaitedFor));
        let asker_removed = state.removed >> ASKER & 1 != 0;
        let leased = holders.filter(|core| state.cores[*core].reported_age < LEASE);
        let waits = asker_removed
            && leased.count() > 0
            && !self.is(LeaseBug::VouchingNotWaitedFor)
            && !self.is(LeaseBug::HolderNotWaitedFor);
        if !current.sealed || missing.count() > tolerable || waits {
            return false;
        }
        let mut next = TableConfiguration {
            sealed: false,
            ..current
        };
        if let Some((giver, taker)) = self
            .case
            .moved
            .filter(|(_, taker)| current.takers >> taker & 1 != 0)
        {
            next.holders = next.holders & !(1 << giver) | 1 << taker;
            next.takers = 0;
        }
        if changes {
            let dropped = self.case.dropped.map_or(0, |core| 1 << core) & next.holders;
            if state.changes_left == 0 || dropped == 0 && !self.case.raised {
                return false;
            }
            state.changes_left -= 1;
            next.holders &= !dropped;
            next.tolerated += u8::from(self.case.raised);
        }
        if let Some(core) = self
            .case
            .replaced
            .filter(|core| state.removed >> core & 1 != 0)
        {
            // The new process starts with the newest change; the one before may run on.
            next.holders |= 1 << core;
            let returned = &mut state.cores[core];
            returned.ghost = Some(returned.number);
            returned.number = state.newest;
            returned.process_age = 0;
            returned.vouched_age = LEASE;
        }
        state.removed = 0;
        state.change(true, next)
    }

    /// Begins to move a place, by a change without a sealing.
    pub fn begin_move(&self, state: &mut LeaseState) -> bool {
        let current = state.current();
        let Some((giver, taker)) = self.case.moved else {
            return false;
        };
        let can_give = current.holders >> giver & 1 != 0 && current.holders >> taker & 1 == 0;
        if current.takers != 0 || !can_give || current.sealed || state.changes_left == 0 {
            return false;
        }
        state.changes_left -= 1;
        let takers = 1 << taker;
        state.change(true, TableConfiguration { takers, ..current })
    }

    /// Cancels a move, by a change without a sealing.
    pub fn cancel_move(&self, state: &mut LeaseState) -> bool {
        let current = state.current();
        if current.takers == 0 || current.sealed || state.changes_left == 0 {
            return false;
        }
        state.changes_left -= 1;
        let mut next = TableConfiguration {
            takers: 0,
            ..current
        };
        if let Some((giver, taker)) = self
            .case
            .moved
            .filter(|_| self.is(LeaseBug::MovedWithoutSeal))
        {
            next.holders = next.holders & !(1 << giver) | 1 << taker;
        }
        state.change(true, next)
    }

    /// Drops a copy, and so all partitions of the table on its server, without a sealing. Only a
    /// planted bug does this.
    pub fn drop_copy(&self, state: &mut LeaseState) -> bool {
        let mut next = state.current();
        let may = self.is(LeaseBug::DroppedWithoutSeal) && !next.sealed && state.changes_left > 0;
        let dropped = self.case.dropped.filter(|_| may);
        let Some(core) = dropped.filter(|core| next.holders >> core & 1 != 0) else {
            return false;
        };
        state.changes_left -= 1;
        next.holders &= !(1 << core);
        state.change(true, next)
    }

    /// Raises the number of failures that the table tolerates, without a sealing. Only a planted
    /// bug does this.
    pub fn raise_tolerance(&self, state: &mut LeaseState) -> bool {
        let mut next = state.current();
        let may = self.is(LeaseBug::ToleranceWithoutSeal) && !next.sealed;
        if !may || state.changes_left == 0 {
            return false;
        }
        state.changes_left -= 1;
        next.tolerated += 1;
        state.change(true, next)
    }

    /// Changes another table.
    pub fn change_other(&self, state: &mut LeaseState) -> bool {
        if state.others_left == 0 {
            return false;
        }
        state.others_left -= 1;
        let current = state.current();
        state.change(false, current)
    }

    /// Acknowledges a write in which the requesting core takes no part. All holders know the
    /// table's epoch.
    pub fn write(&self, state: &mut LeaseState) -> bool {
        let current = state.current();
        let holders = (0..self.case.cores.len()).filter(|core| current.holders >> core & 1 != 0);
        let mut known = holders.map(|core| state.configuration(state.cores[core].number).epoch);
        let asker_holds = current.holders >> ASKER & 1 != 0;
        if current.sealed || asker_holds || !known.all(|epoch| epoch == current.epoch) {
            return false;
        }
        state.written = current.epoch;
        true
    }
}
