//! One state of a case: the state of the members, their disks, the network and the coordinator, and
//! the outcomes that a client has seen. A state is packed into few bytes.
//!
//! Invariants: Epochs are renumbered from 0 without gaps, because only their order matters.
//! Messages that no member will accept are removed. Of a member that is down, only its disk is
//! kept.

use crate::commit::case::{Case, MEMBERS_MAX, OPERATIONS_MAX, PLACES_MAX, Symmetry};

/// The most messages in flight at a time.
const MESSAGES_MAX: usize = 30;

/// A bit of [`ModelState::reports`]: with `replicated`, the prepare has come down the chain.
pub const CAME_DOWN: u8 = 8;

/// The most bytes of a packed state.
pub const PACKED_MAX: usize = 2 * (4 + MEMBERS_MAX + OPERATIONS_MAX * PLACES_MAX + MESSAGES_MAX);

/// The logical AND of all votes, or the outcome of a resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelDecision {
    /// All members voted yes.
    Commit,
    /// A member voted no.
    Abort,
}

/// An outcome, as one member sends it to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncedOutcome {
    /// The outcome.
    pub decision: ModelDecision,
    /// Whether clients may see the outcome.
    pub settled: bool,
    /// Whether every later member of the chain knows the outcome, because it has come up the chain.
    pub in_order: bool,
}

/// The stage of an operation at a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The member does not know the operation.
    #[default]
    None,
    /// The operation waits for keys, and the member has not voted.
    Waiting,
    /// The member has voted on the operation and logged it.
    Prepared,
}

/// One member's part in one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberPart {
    /// The stage of the operation at this member.
    pub stage: Stage,
    /// The chain indexes of the members that voted no, as a set. The member's own vote is included
    /// once the operation is prepared.
    pub refusals: u8,
    /// Whether the prepare is on the disk.
    pub prepare_durable: bool,
    /// The outcome, if the member knows it.
    pub decision: Option<ModelDecision>,
    /// With `replicated`: whether later members may lack the outcome, because it has not come up
    /// the chain.
    pub skipped: bool,
    /// Whether the outcome is on the disk.
    pub decision_durable: bool,
    /// Whether clients may see the outcome at this member (R3).
    pub settled: bool,
    /// The outcome that a recovering member has received, and applies when all peers have answered.
    pub received: Option<AnnouncedOutcome>,
}

/// The state of one member, without its parts in operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelMember {
    /// Whether the member runs.
    pub up: bool,
    /// Whether the member has restarted, and has not yet received from its peers, or by a
    /// resolution, the records that it may have forgotten.
    pub recovering: bool,
    /// Whether the member has sealed the earlier epochs, and the newest epoch does not serve yet.
    pub sealed: bool,
    /// Whether the member has applied the resolution of the newest epoch, in memory.
    pub resolved: bool,
    /// The newest epoch that the member knows.
    pub epoch: u8,
    /// The peers that have sent all their reports to the recovering member, as a set.
    pub answered: u8,
}

/// The contents of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageContent {
    /// Phase 1, with the set of members that voted no.
    Prepare {
        /// The chain indexes of the members that voted no.
        refusals: u8,
    },
    /// Phase 2: the decision, from a member to the previous one.
    Decision {
        /// The outcome.
        decision: ModelDecision,
        /// Whether clients may see the outcome.
        settled: bool,
    },
    /// A side member tells the decider that it has the prepare durably.
    Report {
        /// The number of the side member, from 0.
        side: usize,
    },
    /// The sender knows the outcome, and asks whether the next member knows it.
    Confirm {
        /// Whether clients may see the outcome.
        settled: bool,
    },
}

/// A message between two members of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelMessage {
    /// The operation.
    pub operation: usize,
    /// The index of the receiver in the chain.
    pub to: usize,
    /// The epoch in which the message was sent.
    pub epoch: u8,
    /// The content of the message.
    pub content: MessageContent,
}

/// The messages in flight. They are a set, because the network may delay, lose and duplicate them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    packed: [u16; MESSAGES_MAX],
    count: u8,
}

/// A state of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelState {
    /// The newest epoch.
    pub epoch: u8,
    /// Whether the resolution of the newest epoch is not durable yet. Then no member serves in this
    /// epoch (R5).
    pub resolving: bool,
    /// Members that the newest epoch excludes, as a set.
    pub removed: u8,
    /// The removed members whose leases have ended, as a set. No member accepts their messages any
    /// more.
    pub fenced: u8,
    /// The number of crashes that may still happen.
    pub crashes_left: u8,
    /// The number of losses that may still happen.
    pub losses_left: u8,
    /// The number of waits that may still end with a conflict.
    pub conflicts_left: u8,
    /// The operations that have begun, as a set.
    pub begun: u8,
    /// The operations whose commit a client may have seen, as a set.
    pub seen_commit: u8,
    /// The operations whose abort the client or a later vote may have seen, as a set.
    pub seen_abort: u8,
    /// The operations that were resolved before an epoch that has served, as a set. Their record
    /// shows that clients may see the outcome.
    pub resolved: u8,
    /// For each operation, the side members that have reported to its decider, as a set, and
    /// [`CAME_DOWN`]. The decider keeps this in memory.
    pub reports: [u8; OPERATIONS_MAX],
    /// Whether a member has received an outcome that differs from the one that it had.
    pub contradiction: bool,
    /// The members, by number.
    pub members: [ModelMember; MEMBERS_MAX],
    /// The members' parts, by operation and by index in the operation's chain.
    pub parts: [[MemberPart; PLACES_MAX]; OPERATIONS_MAX],
    /// The messages in flight.
    pub messages: Messages,
}

impl Messages {
    /// Adds a message. Returns false if the set already has it.
    pub fn insert(&mut self, message: ModelMessage) -> bool {
        let packed = pack_message(message);
        let count = usize::from(self.count);
        match self.packed[..count].binary_search(&packed) {
            Ok(_) => false,
            Err(at) => {
                assert!(
                    count < MESSAGES_MAX,
                    "cases are too small for so many messages"
                );
                self.packed.copy_within(at..count, at + 1);
                self.packed[at] = packed;
                self.count += 1;
                true
            }
        }
    }

    /// Removes a message.
    pub fn remove(&mut self, message: ModelMessage) {
        self.retain(|other| other != message);
    }

    /// Keeps the messages for which `keep` returns true.
    pub fn retain(&mut self, keep: impl Fn(ModelMessage) -> bool) {
        let before = *self;
        *self = Messages::default();
        for packed in &before.packed[..usize::from(before.count)] {
            if keep(unpack_message(*packed)) {
                self.packed[usize::from(self.count)] = *packed;
                self.count += 1;
            }
        }
    }

    /// Returns all messages, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = ModelMessage> + '_ {
        let packed = &self.packed[..usize::from(self.count)];
        packed.iter().map(|packed| unpack_message(*packed))
    }
}

impl AnnouncedOutcome {
    /// Returns an announced outcome that has come up the chain.
    pub fn in_order(decision: ModelDecision, settled: bool) -> AnnouncedOutcome {
        AnnouncedOutcome {
            decision,
            settled,
            in_order: true,
        }
    }
}

impl Default for Messages {
    fn default() -> Messages {
        Messages {
            packed: [0; MESSAGES_MAX],
            count: 0,
        }
    }
}

impl ModelState {
    /// Returns the initial state: all members run, and no operation has begun.
    pub fn start(case: &Case) -> ModelState {
        let mut state = ModelState {
            epoch: 0,
            resolving: false,
            removed: 0,
            fenced: 0,
            crashes_left: case.faults.crashes,
            losses_left: case.faults.losses,
            conflicts_left: case.faults.conflicts,
            begun: 0,
            seen_commit: 0,
            seen_abort: 0,
            resolved: 0,
            reports: [0; OPERATIONS_MAX],
            contradiction: false,
            members: [ModelMember::default(); MEMBERS_MAX],
            parts: [[MemberPart::default(); PLACES_MAX]; OPERATIONS_MAX],
            messages: Messages::default(),
        };
        for member in &mut state.members[..case.members.len()] {
            member.up = true;
        }
        state
    }

    /// Renumbers the epochs without gaps, because only their order matters.
    pub fn renumber(&mut self) {
        let mut used = 1u32 << self.epoch;
        for member in self.members.iter().filter(|member| member.up) {
            used |= 1 << member.epoch;
        }
        for message in self.messages.iter() {
            used |= 1 << message.epoch;
        }
        if used & (used + 1) == 0 {
            return;
        }
        let rank = |epoch: u8| (used & ((1 << epoch) - 1)).count_ones() as u8;
        self.epoch = rank(self.epoch);
        for member in self.members.iter_mut().filter(|member| member.up) {
            member.epoch = rank(member.epoch);
        }
        let before = self.messages;
        self.messages = Messages::default();
        for message in before.iter() {
            let epoch = rank(message.epoch);
            self.messages.insert(ModelMessage { epoch, ..message });
        }
    }

    /// Returns the state with members and operations renamed.
    fn renamed(&self, case: &Case, symmetry: &Symmetry) -> ModelState {
        let members = |set: u8| renamed_set(set, &symmetry.members);
        let operations = |set: u8| renamed_set(set, &symmetry.operations);
        let mut renamed = ModelState {
            removed: members(self.removed),
            fenced: members(self.fenced),
            begun: operations(self.begun),
            seen_commit: operations(self.seen_commit),
            seen_abort: operations(self.seen_abort),
            resolved: operations(self.resolved),
            messages: Messages::default(),
            ..*self
        };
        for member in 0..case.members.len() {
            let mut image = self.members[member];
            image.answered = members(image.answered);
            renamed.members[symmetry.members[member]] = image;
        }
        for operation in 0..case.operations.len() {
            renamed.parts[symmetry.operations[operation]] = self.parts[operation];
            renamed.reports[symmetry.operations[operation]] = self.reports[operation];
        }
        for message in self.messages.iter() {
            let operation = symmetry.operations[message.operation];
            renamed.messages.insert(ModelMessage {
                operation,
                ..message
            });
        }
        renamed
    }

    /// Packs the state into bytes. Of all states that are equal by symmetry, it packs the one whose
    /// bytes are the lowest. Returns the number of bytes.
    pub fn pack(&self, case: &Case, bytes: &mut [u8; PACKED_MAX]) -> usize {
        let mut count = self.pack_as_is(case, bytes);
        for symmetry in &case.symmetries {
            let mut other = [0; PACKED_MAX];
            let other_count = self.renamed(case, symmetry).pack_as_is(case, &mut other);
            if other[..other_count] < bytes[..count] {
                *bytes = other;
                count = other_count;
            }
        }
        count
    }

    fn pack_as_is(&self, case: &Case, bytes: &mut [u8; PACKED_MAX]) -> usize {
        let mut count = 0;
        let mut push = |word: u16| {
            bytes[count..count + 2].copy_from_slice(&word.to_le_bytes());
            count += 2;
        };
        push(
            u16::from(self.epoch)
                | u16::from(self.resolving) << 3
                | u16::from(self.contradiction) << 4
                | u16::from(self.crashes_left) << 5
                | u16::from(self.losses_left) << 7
                | u16::from(self.conflicts_left) << 9
                | u16::from(self.begun) << 11,
        );
        push(u16::from(self.removed) | u16::from(self.fenced) << 6);
        push(
            u16::from(self.seen_commit)
                | u16::from(self.seen_abort) << 3
                | u16::from(self.resolved) << 6,
        );
        for member in &self.members[..case.members.len()] {
            push(pack_member(*member));
        }
        for (operation, parts) in case.operations.iter().zip(&self.parts) {
            for part in &parts[..operation.places.len()] {
                push(pack_part(*part));
            }
        }
        if case.operations.iter().any(|operation| operation.sides > 0) {
            push(
                self.reports
                    .iter()
                    .fold(0, |word, set| word << 4 | u16::from(*set)),
            );
        }
        for packed in &self.messages.packed[..usize::from(self.messages.count)] {
            push(*packed);
        }
        count
    }

    /// Returns the state from the bytes of [`ModelState::pack`].
    pub fn unpack(case: &Case, bytes: &[u8]) -> ModelState {
        let mut words = bytes
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let mut next = || words.next().expect("a packed state is whole");
        let mut state = ModelState::start(case);
        let word = next();
        let field = |shift: u32, width: u32| (word >> shift) as u8 & ((1 << width) - 1);
        state.epoch = field(0, 3);
        state.resolving = field(3, 1) != 0;
        state.contradiction = field(4, 1) != 0;
        state.crashes_left = field(5, 2);
        state.losses_left = field(7, 2);
        state.conflicts_left = field(9, 2);
        state.begun = field(11, 3);
        let word = next();
        (state.removed, state.fenced) = (word as u8 & 63, (word >> 6) as u8 & 63);
        let word = next();
        (state.seen_commit, state.seen_abort) = (word as u8 & 7, (word >> 3) as u8 & 7);
        state.resolved = (word >> 6) as u8 & 7;
        for member in &mut state.members[..case.members.len()] {
            *member = unpack_member(next());
        }
        for (operation, parts) in case.operations.iter().zip(&mut state.parts) {
            for part in &mut parts[..operation.places.len()] {
                *part = unpack_part(next());
            }
        }
        if case.operations.iter().any(|operation| operation.sides > 0) {
            let word = next();
            for (set, shift) in state.reports.iter_mut().rev().zip([0, 4, 8]) {
                *set = (word >> shift) as u8 & 15;
            }
        }
        for word in words {
            let count = usize::from(state.messages.count);
            state.messages.packed[count] = word;
            state.messages.count += 1;
        }
        state
    }
}

fn renamed_set(set: u8, names: &[usize]) -> u8 {
    let present = (0..names.len()).filter(|item| set >> item & 1 != 0);
    present.fold(0, |renamed, item| renamed | 1 << names[item])
}

fn pack_member(member: ModelMember) -> u16 {
    u16::from(member.up)
        | u16::from(member.recovering) << 1
        | u16::from(member.resolved) << 2
        | u16::from(member.sealed) << 3
        | u16::from(member.epoch) << 4
        | u16::from(member.answered) << 7
}

fn unpack_member(word: u16) -> ModelMember {
    ModelMember {
        up: word & 1 != 0,
        recovering: word & 2 != 0,
        resolved: word & 4 != 0,
        sealed: word & 8 != 0,
        epoch: (word >> 4) as u8 & 7,
        answered: (word >> 7) as u8 & 63,
    }
}

fn pack_decision(decision: Option<ModelDecision>) -> u16 {
    match decision {
        None => 0,
        Some(ModelDecision::Commit) => 1,
        Some(ModelDecision::Abort) => 2,
    }
}

fn unpack_decision(word: u16) -> Option<ModelDecision> {
    match word & 3 {
        0 => None,
        1 => Some(ModelDecision::Commit),
        _ => Some(ModelDecision::Abort),
    }
}

fn pack_received(received: Option<AnnouncedOutcome>) -> u16 {
    let flags = received.map_or(0, |received| {
        u16::from(received.settled) | u16::from(received.in_order) << 1
    });
    pack_decision(received.map(|received| received.decision)) | flags << 2
}

fn unpack_received(word: u16) -> Option<AnnouncedOutcome> {
    Some(AnnouncedOutcome {
        decision: unpack_decision(word)?,
        settled: word & 4 != 0,
        in_order: word & 8 != 0,
    })
}

fn pack_part(part: MemberPart) -> u16 {
    let stage = match part.stage {
        Stage::None => 0,
        Stage::Waiting => 1,
        Stage::Prepared => 2 + pack_decision(part.decision) + 2 * u16::from(part.skipped),
    };
    stage
        | u16::from(part.prepare_durable) << 3
        | u16::from(part.decision_durable) << 4
        | u16::from(part.settled) << 5
        | u16::from(part.refusals) << 7
        | pack_received(part.received) << 12
}

fn unpack_part(word: u16) -> MemberPart {
    let (stage, decision, skipped) = match word & 7 {
        0 => (Stage::None, None, false),
        1 => (Stage::Waiting, None, false),
        prepared @ 2..=4 => (Stage::Prepared, unpack_decision(prepared - 2), false),
        skipped => (Stage::Prepared, unpack_decision(skipped - 4), true),
    };
    MemberPart {
        stage,
        decision,
        skipped,
        prepare_durable: word & 8 != 0,
        decision_durable: word & 16 != 0,
        settled: word & 32 != 0,
        refusals: (word >> 7) as u8 & 31,
        received: unpack_received(word >> 12),
    }
}

fn pack_message(message: ModelMessage) -> u16 {
    let content = match message.content {
        MessageContent::Prepare { refusals } => u16::from(refusals) << 2,
        MessageContent::Decision { decision, settled } => {
            1 | u16::from(settled) << 2 | pack_decision(Some(decision)) << 3
        }
        MessageContent::Confirm { settled } => 2 | u16::from(settled) << 2,
        MessageContent::Report { side } => 3 | (side as u16) << 2,
    };
    content
        | (message.operation as u16) << 7
        | (message.to as u16) << 9
        | u16::from(message.epoch) << 12
}

fn unpack_message(word: u16) -> ModelMessage {
    let settled = word & 4 != 0;
    let content = match word & 3 {
        0 => MessageContent::Prepare {
            refusals: (word >> 2) as u8 & 31,
        },
        1 => MessageContent::Decision {
            decision: unpack_decision(word >> 3).expect("a decision travels"),
            settled,
        },
        2 => MessageContent::Confirm { settled },
        _ => MessageContent::Report {
            side: usize::from(word >> 2 & 31),
        },
    };
    ModelMessage {
        operation: usize::from(word >> 7 & 3),
        to: usize::from(word >> 9 & 7),
        epoch: (word >> 12) as u8 & 7,
        content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::case;
    use crate::commit::chain::CaseRules;

    /// Visits the states along 100 paths through a case, each with other choices.
    fn walk(case: &Case, mut visit: impl FnMut(&ModelState)) {
        let world = CaseRules::new(case, None);
        for way in 0..100 {
            let mut state = ModelState::start(case);
            for step in 0..60 {
                visit(&state);
                let mut next = Vec::new();
                world.possible_steps(&state, &mut |step| {
                    let mut after = state;
                    if world.act(&mut after, step) && after != state {
                        next.push(after);
                    }
                });
                let turn = (way * 31 + step * step * 7) % next.len().max(1);
                let Some(chosen) = next.get(turn) else {
                    break;
                };
                state = *chosen;
            }
        }
    }

    #[test]
    fn a_packed_state_is_unpacked() {
        for case in case::cases() {
            walk(&case, |state| {
                let mut bytes = [0; PACKED_MAX];
                let count = state.pack_as_is(&case, &mut bytes);
                let unpacked = ModelState::unpack(&case, &bytes[..count]);
                assert_eq!(unpacked, *state, "{}", case.name);
            });
        }
    }

    #[test]
    fn symmetric_states_are_packed_alike() {
        for case in case::cases() {
            walk(&case, |state| {
                let mut bytes = [0; PACKED_MAX];
                let count = state.pack(&case, &mut bytes);
                for symmetry in &case.symmetries {
                    let mut other = [0; PACKED_MAX];
                    let renamed = state.renamed(&case, symmetry);
                    let other_count = renamed.pack(&case, &mut other);
                    assert_eq!(other[..other_count], bytes[..count], "{}", case.name);
                }
            });
        }
    }

    #[test]
    fn unused_epochs_leave_no_gap() {
        let case = case::named("one").expect("it is listed");
        let mut state = ModelState::start(&case);
        state.epoch = 5;
        state.members[0].epoch = 3;
        state.renumber();
        let epochs = state.members.map(|member| member.epoch);
        assert_eq!((state.epoch, &epochs[..3]), (2, &[1, 0, 0][..]));
    }
}
