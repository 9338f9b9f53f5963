//! Samples of snapshots: what clients ask for and are answered, and how cores open one.

use protocol::identity::{
    CoreId, Epoch, Incarnation, ReaderId, ServerId, SnapshotId, TableId, Version,
};
use protocol::message::{
    Message, OpenedSnapshot, PeerHeader, PeerMessage, Refusal, Reply, Request, SnapshotFailure,
    SnapshotMessage, SnapshotReply, SnapshotRequest, SnapshotUse,
};

pub fn snapshot() -> SnapshotId {
    SnapshotId {
        opener: CoreId {
            server: ServerId(2),
            core: 1,
        },
        incarnation: Incarnation(4),
        number: 1 << 33,
    }
}

fn tables() -> Vec<(TableId, Epoch)> {
    vec![(TableId(1), Epoch(6)), (TableId(7), Epoch(2))]
}

pub fn snapshots() -> Vec<(&'static str, Message)> {
    [of_clients(), of_peers()].concat()
}

fn of_clients() -> Vec<(&'static str, Message)> {
    let snapshot = snapshot();
    let reader = ReaderId(0x5eed << 32);
    let share = SnapshotUse {
        snapshot,
        reader,
        user: 9,
    };
    let opened = OpenedSnapshot {
        share,
        at: Version(1 << 40),
        lease_us: 10_000_000,
    };
    let request = |request| Message::Request(Request::Snapshot(request));
    let reply = |reply| Message::Reply(Reply::Snapshot(reply));
    let refused = |failure| Message::Reply(Reply::Refused(Refusal::Snapshot(failure)));
    let missing = SnapshotFailure::ServerMissing(ServerId(3));
    vec![
        (
            "request-snapshot-open",
            request(SnapshotRequest::Open {
                reader,
                tables: tables(),
            }),
        ),
        (
            "request-snapshot-keep",
            request(SnapshotRequest::Keep(share)),
        ),
        (
            "request-snapshot-close",
            request(SnapshotRequest::Close(share)),
        ),
        (
            "reply-snapshot-opened",
            reply(SnapshotReply::Opened(opened)),
        ),
        ("reply-snapshot-kept", reply(SnapshotReply::Kept)),
        ("reply-snapshot-closed", reply(SnapshotReply::Closed)),
        (
            "refused-snapshot-unknown",
            refused(SnapshotFailure::Unknown),
        ),
        ("refused-snapshot-missing", refused(missing)),
        (
            "refused-snapshot-too-many",
            refused(SnapshotFailure::TooMany),
        ),
    ]
}

fn of_peers() -> Vec<(&'static str, Message)> {
    let snapshot = snapshot();
    let header = PeerHeader {
        from: snapshot.opener,
        incarnation: Incarnation(4),
        epoch: Epoch(6),
        table_epoch: Epoch(0),
    };
    let peer = |message| Message::Peer(header, PeerMessage::Snapshot(message));
    vec![
        (
            "peer-snapshot-hold",
            peer(SnapshotMessage::Hold {
                snapshot,
                tables: tables(),
                hold_us: 20_000,
            }),
        ),
        (
            "peer-snapshot-held",
            peer(SnapshotMessage::Held {
                snapshot,
                clock: Version(3),
            }),
        ),
        (
            "peer-snapshot-close",
            peer(SnapshotMessage::Close {
                snapshot,
                at: Version(1 << 40),
                lease_us: 10_000_000,
            }),
        ),
        (
            "peer-snapshot-closed",
            peer(SnapshotMessage::Closed { snapshot }),
        ),
        (
            "peer-snapshot-refused",
            peer(SnapshotMessage::Refused {
                snapshot,
                reason: SnapshotFailure::Busy,
            }),
        ),
        (
            "peer-snapshot-keep",
            peer(SnapshotMessage::Keep {
                snapshot,
                lease_us: 10_000_000,
            }),
        ),
        ("peer-snapshot-end", peer(SnapshotMessage::End { snapshot })),
    ]
}
