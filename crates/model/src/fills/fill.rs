//! Fills a partition from the copy, page by page, and replaces lost partitions.

use super::FillRules;
use super::planted::FillBug;
use super::state::{
    COPY, FIRST, FillState, PARTITIONS, PageMessage, PartitionStage, PartitionState, SECOND,
};

/// The number of pages of the copy.
const PAGES: u8 = 2;

impl FillRules {
    /// Answers a question for the next page with the rows that are settled at the copy.
    pub fn read_page(&self, state: &mut FillState, partition: usize) -> bool {
        let row = *state.row(COPY);
        let is_owned = |key: u8| state.owner(key) == partition;
        let number = state.partitions[partition].pages_taken;
        let has = |place: &super::Place| place.page == number && is_owned(place.key);
        let found = row.place.is_some_and(|place| has(&place));
        let it = &mut state.partitions[partition];
        if it.stage != PartitionStage::Filling || number == PAGES {
            return false;
        }
        it.pages[usize::from(number)] = Some(match found {
            true => PageMessage { row },
            false => PageMessage::default(),
        });
        true
    }

    /// Takes the awaited page, or an earlier one again.
    pub fn take_page(&self, state: &mut FillState, partition: usize, page: usize) -> bool {
        let it = &mut state.partitions[partition];
        let taken = usize::from(it.pages_taken);
        let (Some(message), true) = (it.pages[page], page <= taken) else {
            return false;
        };
        if it.stage != PartitionStage::Filling {
            return false;
        }
        if let Some(place) = message.row.place {
            let key = usize::from(place.key);
            let version = message.row.version;
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
            stage: PartitionStage::Serving,
            entries: it.entries,
            ..PartitionState::default()
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
                state.taken_up_to = None;
                state.sent = None;
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
        state.partitions[partition] = PartitionState {
            stage: PartitionStage::Lost,
            ..PartitionState::default()
        };
        if is_following {
            state.partitions[SECOND] = PartitionState::default();
            state.taken_up_to = None;
            state.sent = None;
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
                *it = PartitionState {
                    stage: PartitionStage::Filling,
                    ..PartitionState::default()
                };
            }
        }
        if half {
            let it = &mut state.partitions[SECOND];
            match self.has(FillBug::LostGiverTrusted) {
                true => it.stage = PartitionStage::Serving,
                false => {
                    *it = PartitionState {
                        stage: PartitionStage::Filling,
                        ..PartitionState::default()
                    };
                }
            }
            state.taken_up_to = None;
            state.sent = None;
        }
        state.is_sealed = false;
        true
    }
}
