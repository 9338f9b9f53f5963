//! Fills a partition from the copy, page by page, and replaces lost partitions.

use super::FillRules;
use super::planted::FillBug;
use super::state::{
    COPY, FIRST, FillState, PARTITIONS, PartitionStage, PartitionState, RowState, SECOND,
};

/// The number of pages of the copy.
const PAGES: u8 = 2;

impl FillRules {
    /// Answers a question for the next page with the rows that are settled at the copy.
    pub fn read_page(&self, state: &mut FillState, partition: usize) -> bool {
        let row = state.row(COPY);
        let number = state.partitions[partition].pages_taken;
        let place = row.place;
        let is_in_page =
            place.is_some_and(|it| it.page == number && state.owner(it.key) == partition);
        let it = &mut state.partitions[partition];
        if it.stage != PartitionStage::Filling || number == PAGES {
            return false;
        }
        it.pages[usize::from(number)] = Some(match is_in_page {
            true => row,
            false => RowState::default(),
        });
        true
    }

    /// Takes the awaited page, or an earlier one again.
    pub fn take_page(&self, state: &mut FillState, partition: usize, page: usize) -> bool {
        let it = &mut state.partitions[partition];
        let taken = usize::from(it.pages_taken);
        let (Some(row), true) = (it.pages[page], page <= taken) else {
            return false;
        };
        if it.stage != PartitionStage::Filling {
            return false;
        }
        if let Some(place) = row.place {
            let key = usize::from(place.key);
            let version = row.version;
            let is_newer = version > it.entries[key] && version > it.left[key];
            if is_newer || self.has(FillBug::OlderPageWins) {
                it.entries[key] = version;
            }
        }
        it.pages_taken = it.pages_taken.max(page as u8 + 1);
        true
    }

    /// Lets a partition serve that has all pages.
    pub fn serve(&self, state: &mut FillState, partition: usize) -> bool {
        let it = &mut state.partitions[partition];
        let is_early = it.pages_taken > 0 && self.has(FillBug::ServesEarly);
        let has_all = it.pages_taken == PAGES || is_early;
        if it.stage != PartitionStage::Filling || !has_all {
            return false;
        }
        *it = PartitionState {
            entries: it.entries,
            ..PartitionState::at(PartitionStage::Serving)
        };
        true
    }

    /// Restarts a partition: it has its entries, and a fill begins again. Late pages still arrive.
    pub fn restart(&self, state: &mut FillState, partition: usize) -> bool {
        let it = &mut state.partitions[partition];
        let runs = !matches!(it.stage, PartitionStage::Empty | PartitionStage::Lost);
        if state.restarts_left == 0 || !runs {
            return false;
        }
        state.restarts_left -= 1;
        it.pages_taken = 0;
        if partition == FIRST {
            // It has forgotten which changes it had counted.
            state.changes = 0;
            if !self.has(FillBug::CountOutlivesRestart) {
                state.forget_transfer();
            }
        } else {
            state.taken_up_to = None;
        }
        true
    }

    /// Loses a partition. A transfer that is not handed over ends. The table is sealed if a range
    /// is lost.
    pub fn lose(&self, state: &mut FillState, partition: usize) -> bool {
        let stage = state.partitions[partition].stage;
        let runs = !matches!(stage, PartitionStage::Empty | PartitionStage::Lost);
        if state.losses_left == 0 || !runs {
            return false;
        }
        state.losses_left -= 1;
        let is_following = state.partitions[SECOND].stage == PartitionStage::Following;
        state.partitions[partition] = PartitionState::at(PartitionStage::Lost);
        if is_following {
            state.partitions[SECOND] = PartitionState::default();
            state.forget_transfer();
        }
        let mut partitions = state.partitions.iter();
        state.is_sealed = partitions.any(|it| it.stage == PartitionStage::Lost);
        true
    }

    /// Begins an epoch in which the lost partitions are filled from the copy. A partition that has
    /// received its range, but not all of it, is filled too if the giver is lost.
    pub fn replace(&self, state: &mut FillState) -> bool {
        let is_lost = |it: &PartitionState| it.stage == PartitionStage::Lost;
        if !state.is_at_rest() || !state.partitions.iter().any(is_lost) {
            return false;
        }
        let giver_is_lost = is_lost(&state.partitions[FIRST]);
        let half = state.partitions[SECOND].stage == PartitionStage::Taking && giver_is_lost;
        for partition in PARTITIONS {
            let it = &mut state.partitions[partition];
            if is_lost(it) {
                *it = PartitionState::at(PartitionStage::Filling);
            }
        }
        if half {
            let it = &mut state.partitions[SECOND];
            match self.has(FillBug::LostGiverTrusted) {
                true => it.stage = PartitionStage::Serving,
                false => *it = PartitionState::at(PartitionStage::Filling),
            }
            state.forget_transfer();
        }
        state.is_sealed = false;
        true
    }
}
