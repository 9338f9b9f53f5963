//! Models side members: the partitions of thin indexes, which log an operation beside its chain
//! (R27, R48; `docs/design/2026-11-27-thin-indexes.md`).
//!
//! The head sends the prepare to the side members while it goes down the chain. A side member
//! reports to the decider once its prepare is durable, and learns the outcome from the head.

use crate::commit::chain::CaseRules;
use crate::commit::planted::ModelBug;
use crate::commit::state::{CAME_DOWN, MessageContent, ModelMessage, ModelState, Stage};

impl CaseRules<'_> {
    /// Returns whether an index in an operation's members belongs to a side member.
    pub fn is_side(&self, operation: usize, place: usize) -> bool {
        place > self.last(operation)
    }

    /// Returns the indexes of an operation's side members.
    pub fn sides(&self, operation: usize) -> std::ops::Range<usize> {
        self.last(operation) + 1..self.case.operations[operation].places.len()
    }

    /// Returns whether all side members of an operation have reported to the decider.
    pub fn have_reported(&self, state: &ModelState, operation: usize) -> bool {
        let count = self.case.operations[operation].sides;
        let reported = state.reports[operation] & !CAME_DOWN;
        reported == (1 << count) - 1 || self.is(ModelBug::DecidesWithoutReports)
    }

    /// Records that a prepare has come down the chain to the decider, so that all earlier members
    /// have it. Only the report of a side member asks for it, where no disk shows it.
    pub fn note_came_down(&self, state: &mut ModelState, operation: usize) {
        if self.case.replicated && self.case.operations[operation].sides > 0 {
            state.reports[operation] |= CAME_DOWN;
        }
    }

    /// Sends the side members what they lack: the prepare, or an outcome that clients may see. A
    /// side member that lacks nothing reports again, because the decider may have forgotten.
    pub fn tell_sides(&self, state: &mut ModelState, operation: usize) {
        let head = state.parts[operation][0];
        if head.stage != Stage::Prepared {
            return;
        }
        for side in self.sides(operation) {
            let part = state.parts[operation][side];
            if part.settled && self.is(ModelBug::ConfirmedSideLeftOut) {
                continue;
            }
            let shows = head.settled || self.is(ModelBug::SidesLearnEarly);
            let content = match head.decision {
                Some(decision) if shows && !part.settled => MessageContent::Decision {
                    decision,
                    settled: true,
                },
                _ => MessageContent::Prepare { refusals: 0 },
            };
            let lacks = match content {
                MessageContent::Prepare { .. } => part.stage != Stage::Prepared,
                _ => part.stage == Stage::Prepared,
            };
            let epoch = self.sending_epoch(state, self.member(operation, 0));
            if !self.accepts(state, self.member(operation, side), epoch) || lacks {
                self.send(state, operation, (0, side), content);
            } else {
                self.report_to_decider(state, operation, side);
            }
        }
    }

    /// Reports to the decider that a side member has the prepare, once it is durable.
    pub fn report_to_decider(&self, state: &mut ModelState, operation: usize, side: usize) {
        let part = state.parts[operation][side];
        let early = self.case.replicated || self.is(ModelBug::ReportedBeforeDurable);
        let is_durable = part.prepare_durable || early;
        let number = side - self.last(operation) - 1;
        let known = state.reports[operation] >> number & 1 != 0;
        if part.stage == Stage::Prepared && is_durable && !known {
            let content = MessageContent::Report { side: number };
            self.send(state, operation, (side, self.last(operation)), content);
        }
    }

    /// Handles the report of a side member at the decider.
    pub fn on_report(&self, state: &mut ModelState, operation: usize, side: usize) {
        state.reports[operation] |= 1 << side;
        let last = self.last(operation);
        let part = state.parts[operation][last];
        let came_down = state.reports[operation] & CAME_DOWN != 0;
        let is_due = match self.case.replicated {
            false => part.prepare_durable,
            true => came_down || self.is(ModelBug::AdoptedIsDecided),
        };
        if part.stage == Stage::Prepared && part.decision.is_none() && is_due {
            self.decide(state, operation);
        }
    }

    /// Forgets what a decider had in memory: the reports, and that a prepare has come down.
    pub fn forget_reports(&self, state: &mut ModelState, member: usize) {
        for (operation, place) in self.parts_of(member) {
            if place == self.last(operation) {
                state.reports[operation] = 0;
            }
        }
    }

    /// Sends a message from one of an operation's members to another, if it can still arrive.
    fn send(
        &self,
        state: &mut ModelState,
        operation: usize,
        (from, to): (usize, usize),
        content: MessageContent,
    ) {
        let epoch = self.sending_epoch(state, self.member(operation, from));
        if self.can_reach(state, self.member(operation, to), epoch) {
            state.messages.insert(ModelMessage {
                operation,
                to,
                epoch,
                content,
            });
        }
    }
}
