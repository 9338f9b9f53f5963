//! The codec's proof: every message survives the way there and back, no bytes make a decoder panic
//! or take more memory than is stated, and the bytes themselves are nailed down as golden frames.

mod decoders;
mod entries;
mod golden;
mod memory;
mod samples;
mod spoil;

use std::collections::BTreeSet;
use std::fmt::Debug;

use proptest::prelude::*;
use protocol::codec::{DecodeError, MEMORY_BYTES_MAX, Wire};
use protocol::expression::Expression;
use protocol::frame::{self, FRAME_BYTES_MAX, Frame, FrameError, FrameLimits, HEADER_BYTES};
use protocol::identity::{PartitionId, TableId};
use protocol::message::{CoordinatorReply, Message};
use protocol::operation::Vote;
use protocol::record::{Record, SavedCompletion};
use protocol::state::{CoordinatorState, StateChange, decode_state, encode_state};
use samples::generate::{Generate, Source};
use samples::kinds;

/// The memory that decoding so few bytes may take beside what its result needs: some lists reserve
/// room for the items that they claim to have, up to a thousand each.
const SLACK_BYTES: usize = 1 << 20;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..400)
}

fn made<T: Generate>(bytes: &[u8]) -> T {
    T::generate(&mut Source::new(bytes))
}

fn returns<T: Generate + Wire + PartialEq + Debug>(bytes: &[u8]) {
    let value: T = made(bytes);
    let encoded = value.to_bytes();
    assert_eq!(T::decode_all(&encoded).as_ref(), Ok(&value));
    // No part of it is a whole value, and no byte may follow.
    for end in 0..encoded.len() {
        assert!(
            T::decode_all(&encoded[..end]).is_err(),
            "{end} bytes of {value:?}"
        );
    }
    let mut longer = encoded;
    longer.push(0);
    assert_eq!(T::decode_all(&longer), Err(DecodeError::TrailingBytes(1)));
}

/// Decoding may fail; it does not panic or take much, and what it accepts it would have written.
fn is_safe<T: Wire>(bytes: &[u8]) {
    let (result, most_bytes) = memory::most_bytes_during(|| T::decode_all(bytes));
    assert!(
        most_bytes <= SLACK_BYTES + 64 * bytes.len(),
        "{most_bytes} bytes of memory"
    );
    if let Ok(value) = result {
        assert_eq!(value.to_bytes(), bytes, "every value has one form in bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn messages_return(bytes in bytes()) {
        returns::<Message>(&bytes);
    }

    #[test]
    fn log_records_return(bytes in bytes()) {
        returns::<Record>(&bytes);
        returns::<SavedCompletion>(&bytes);
    }

    #[test]
    fn coordinator_states_return(bytes in bytes()) {
        returns::<CoordinatorState>(&bytes);
    }

    #[test]
    fn frames_return_one_after_the_other(bytes in bytes(), correlation: u64) {
        let message: Message = made(&bytes);
        let mut buffer = Vec::new();
        frame::encode(correlation, &message, &mut buffer);
        let first = buffer.len();
        frame::encode(7, &Message::Goodbye { reason: String::new() }, &mut buffer);
        for end in 0..first {
            prop_assert_eq!(frame::decode(&buffer[..end]), Ok(None));
        }
        let expected = Frame { correlation, message };
        prop_assert_eq!(frame::decode(&buffer), Ok(Some((expected, first))));
        let (last, _) = frame::decode(&buffer[first..]).unwrap().expect("it is whole");
        prop_assert_eq!(last.correlation, 7);
    }

    /// One bit that flips on its way is noticed, wherever it is.
    #[test]
    fn flipped_bit_spoils_a_frame(bytes in bytes(), flip: proptest::sample::Index) {
        let mut buffer = Vec::new();
        frame::encode(1, &made(&bytes), &mut buffer);
        let bit = flip.index(buffer.len() * 8);
        buffer[bit / 8] ^= 1 << (bit % 8);
        // The length may now ask for bytes that never come; nothing else passes for a frame.
        match frame::decode(&buffer) {
            Ok(None) => prop_assert!(bit < 32),
            Ok(Some(_)) => prop_assert!(false, "bit {} was not noticed", bit),
            Err(_) => {}
        }
    }

    #[test]
    fn arbitrary_bytes_are_safe(bytes in bytes()) {
        is_safe::<Message>(&bytes);
        is_safe::<Record>(&bytes);
        is_safe::<CoordinatorState>(&bytes);
        is_safe::<Expression>(&bytes);
        let _ = frame::decode(&bytes);
        let _ = decode_state(&bytes);
    }

    /// Bytes that are a message but for a few reach further into the decoder.
    #[test]
    fn changed_messages_are_safe(
        seed in bytes(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        cut: proptest::sample::Index,
    ) {
        let mut message = made::<Message>(&seed).to_bytes();
        let mut state = made::<CoordinatorState>(&seed).to_bytes();
        for (at, value) in &changes {
            let (at_message, at_state) = (at.index(message.len()), at.index(state.len()));
            message[at_message] = *value;
            state[at_state] = *value;
        }
        is_safe::<Message>(&message);
        is_safe::<Message>(&message[..cut.index(message.len())]);
        is_safe::<CoordinatorState>(&state);
    }
}

#[test]
fn every_kind_of_message_is_generated() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..20_000 {
        let tree = bytes()
            .new_tree(&mut runner)
            .expect("bytes are not filtered");
        seen.insert(kinds::kind(&made(&proptest::strategy::ValueTree::current(
            &tree,
        ))));
    }
    let missing = kinds::KINDS.iter().filter(|kind| !seen.contains(*kind));
    assert_eq!(missing.count(), 0, "of {seen:?}");
}

#[test]
fn state_survives_its_file_form() {
    let state = CoordinatorState::new(9);
    assert_eq!(decode_state(&encode_state(&state)), Ok(state));
}

/// A change has the tables that differ, and no others. It applies to the state that it was made
/// for, and to no other one.
#[test]
fn change_of_a_state_leads_from_one_to_the_other() {
    let whole = samples::state();
    let mut empty = whole.clone();
    empty.version += 1;
    empty.changes.clear();
    empty.configuration.tables = Default::default();
    let mut again = whole.clone();
    again.version += 2;
    again.configuration.tables[0].schema.failures_tolerated += 1;
    let states = [&whole, &empty, &again];
    for (before, after) in [(0, 1), (1, 2), (0, 2)] {
        let (before, after) = (states[before], states[after]);
        let change = StateChange::between(before, after);
        let decoded = StateChange::decode_all(&change.to_bytes());
        assert_eq!(decoded.as_ref(), Ok(&change));
        assert_eq!(change.clone().apply(before).as_ref(), Some(after));
        assert_eq!(change.apply(after), None);
    }
    assert_eq!(StateChange::between(&whole, &empty).dropped.len(), 1);
    let mut later = whole.clone();
    later.version += 1;
    let unchanged = StateChange::between(&whole, &later).state.configuration;
    assert!(unchanged.tables.is_empty());
}

/// A frame with a configuration is taken only by a connection that expects one.
#[test]
fn large_frame_needs_a_connection_that_expects_it() {
    let large = CoordinatorReply::Refused {
        message: "x".repeat(FRAME_BYTES_MAX),
        retry: false,
    };
    let mut buffer = Vec::new();
    frame::encode(1, &Message::Answer(large), &mut buffer);
    let refused = frame::decode(&buffer);
    assert_eq!(refused, Err(FrameError::Length(buffer.len() as u32 - 4)));
    let taken = frame::decode_within(&buffer, FrameLimits::Configurations);
    assert!(taken.expect("it is expected").is_some());
}

#[test]
fn frame_that_claims_four_gigabytes_takes_no_memory() {
    let mut buffer = u32::MAX.to_le_bytes().to_vec();
    buffer.extend_from_slice(&[0; 100]);
    let (result, most_bytes) = memory::most_bytes_during(|| frame::decode(&buffer));
    assert_eq!(result, Err(FrameError::Length(u32::MAX)));
    assert_eq!(most_bytes, 0);
    assert_eq!(
        frame::size(
            &(FRAME_BYTES_MAX as u32 - 4).to_le_bytes(),
            FrameLimits::Ordinary
        ),
        Ok(Some(FRAME_BYTES_MAX))
    );
    let too_large = FRAME_BYTES_MAX as u32 - 3;
    assert_eq!(
        frame::size(&too_large.to_le_bytes(), FrameLimits::Ordinary),
        Err(FrameError::Length(too_large))
    );
    let too_small = HEADER_BYTES as u32 - 5;
    assert_eq!(
        frame::size(&too_small.to_le_bytes(), FrameLimits::Ordinary),
        Err(FrameError::Length(too_small))
    );
}

#[test]
fn counts_that_lie_take_little_memory() {
    // A list of servers that claims to be as long as the message.
    let mut lie = vec![6, 2];
    lie.extend_from_slice(&[0; 16]);
    let count = 1 << 18;
    lie.extend_from_slice(&(count as u32).to_le_bytes());
    lie.resize(lie.len() + count, 0xff);
    let (result, most_bytes) = memory::most_bytes_during(|| Message::decode_all(&lie));
    assert_eq!(result, Err(DecodeError::Truncated));
    assert!(most_bytes < SLACK_BYTES, "{most_bytes} bytes");
}

/// A vote takes a byte in a frame and some fifty in memory: the largest frame full of them is
/// refused before it takes more than is stated.
#[test]
fn lists_of_small_items_have_a_bound() {
    let votes = MEMORY_BYTES_MAX / size_of::<Vote>();
    let list = |count: usize| {
        let mut bytes = (count as u32).to_le_bytes().to_vec();
        bytes.resize(4 + count, 0);
        bytes
    };
    let (result, most_bytes) = memory::most_bytes_during(|| {
        Vec::<Vote>::decode_all(&list(votes)).map(|votes| votes.len())
    });
    assert_eq!(result, Ok(votes));
    // A list that grows holds its old and new room for a moment.
    assert!(most_bytes < 4 * MEMORY_BYTES_MAX, "{most_bytes} bytes");
    let (result, most_bytes) =
        memory::most_bytes_during(|| Vec::<Vote>::decode_all(&list(votes + 1)).is_ok());
    assert!(!result);
    assert!(most_bytes < SLACK_BYTES + votes + 8, "{most_bytes} bytes");
    // The longest chain of an operation takes far less.
    let longest_chain = 4096 * size_of::<PartitionId>();
    assert!(longest_chain < MEMORY_BYTES_MAX / 100);
    assert_eq!(size_of::<TableId>(), 4);
}

#[test]
fn other_versions_are_named() {
    let mut buffer = Vec::new();
    frame::encode(
        1,
        &Message::Goodbye {
            reason: "so".into(),
        },
        &mut buffer,
    );
    buffer[8] = 9;
    let checksum = crc32c::crc32c(&buffer[8..]);
    buffer[4..8].copy_from_slice(&checksum.to_le_bytes());
    let error = frame::decode(&buffer).expect_err("no such version");
    assert_eq!(error, FrameError::Version(9));
    assert_eq!(
        error.to_string(),
        "a frame of format version 9; this side speaks 1: use the same release on both"
    );
}
