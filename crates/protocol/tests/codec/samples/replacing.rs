//! One message of each kind that cores exchange while members are replaced.

use protocol::codec::Bytes;
use protocol::identity::*;
use protocol::message::*;
use protocol::operation::Decision;
use protocol::record::SavedCompletion;

use super::{partition, peer, pk, prepare, request_id, row};

/// Returns the messages that cores send while an epoch ends.
pub fn seals() -> Vec<(&'static str, Message)> {
    let messages = [
        (
            "peer-ask-sealed",
            PeerMessage::AskSealed {
                table: TableId(3),
                attempt: 3,
            },
        ),
        (
            "peer-witness",
            PeerMessage::Witness {
                table: TableId(3),
                attempt: 3,
                prepare: prepare(),
                decision: Some((Decision::Commit, Some(Epoch(5)))),
            },
        ),
        (
            "peer-end-of-witness",
            PeerMessage::WitnessEnd {
                table: TableId(3),
                attempt: 3,
                count: 1,
                forgot_nothing: true,
            },
        ),
    ];
    messages.map(|(name, message)| (name, peer(message))).into()
}

/// Returns the messages that cores send while a partition moves.
pub fn moves() -> Vec<(&'static str, Message)> {
    let (of, question) = (partition(1, 2), 4);
    let mut page = RowPage::default();
    page.push(Version(1 << 40), &row());
    let messages = [
        (
            "peer-compare",
            PeerMessage::Compare {
                of,
                question,
                start: Bytes::default(),
                ranges: vec![(Some(pk()), 7), (None, 8)],
            },
        ),
        (
            "peer-compared",
            PeerMessage::Compared {
                of,
                question,
                list: 3,
                changes: 17,
                differing: vec![(pk(), None)],
                page: page.clone(),
                looked_at_bytes: 4_096,
            },
        ),
        (
            "peer-changes",
            PeerMessage::Changes {
                of,
                question,
                list: 3,
                since: 17,
            },
        ),
        (
            "peer-changed",
            PeerMessage::Changed {
                of,
                question,
                list: 3,
                page,
                gone: vec![pk()],
                until: 19,
                is_all: true,
            },
        ),
    ];
    messages.map(|(name, message)| (name, peer(message))).into()
}

/// Returns the messages that cores send while a partition is being filled.
// tidy: long — a list of messages, one of each kind.
pub fn fills() -> Vec<(&'static str, Message)> {
    let (of, from) = (partition(1, 2), partition(0, 3));
    let looked = ScanCounts {
        rows: 7,
        bytes: 4_096,
        of_rows: 100,
    };
    let mut page = RowPage::default();
    page.push(Version(1 << 40), &row());
    let messages = [
        (
            "peer-copy",
            PeerMessage::Copy {
                of: vec![of, partition(1, 3)],
                from,
                start: pk(),
            },
        ),
        (
            "peer-copied",
            PeerMessage::Copied {
                of,
                from,
                start: pk(),
                page: page.clone(),
                sum: 7,
                looked,
            },
        ),
        (
            "peer-fetch",
            PeerMessage::Fetch {
                of,
                from,
                pass: 3,
                wanted: vec![(pk(), Some(pk())), (pk(), None)],
                start: Bytes::default(),
            },
        ),
        (
            "peer-fetched",
            PeerMessage::Fetched {
                of,
                from,
                pass: 3,
                start: Bytes::default(),
                page,
                complete_from: vec![(pk(), pk())],
            },
        ),
        (
            "peer-copy-completions",
            PeerMessage::CopyCompletions {
                of,
                start: request_id(),
            },
        ),
        (
            "peer-copied-completions",
            PeerMessage::CopiedCompletions {
                of,
                start: RequestId::default(),
                completions: vec![SavedCompletion {
                    head: partition(0, 3),
                    request: prepare().requests[0].clone(),
                }],
                next: Some(request_id()),
                last_version: Version(1 << 40),
            },
        ),
    ];
    messages.map(|(name, message)| (name, peer(message))).into()
}
