//! Samples of reads: of a partition, of a range, held, and of a lost partition's rows.

use placement::{Residue, SlotConstraints};
use protocol::codec::Bytes;
use protocol::identity::Epoch;
use protocol::message::{Agreement, Consistency, Message, Read, Redirect, Request};

use super::snapshots::snapshot;
use super::{condition, partition, pk};

pub fn reads() -> Vec<(&'static str, Message)> {
    let read = |read| Message::Request(Request::Read(read));
    let all = Read {
        limit: 100,
        ..Read::of(Epoch(6), partition(1, 0))
    };
    vec![
        ("request-read-partition", read(all.clone())),
        (
            "request-read-filtered",
            read(Read {
                start: pk(),
                end: Some(Bytes(vec![255])),
                filter: Some(condition()),
                projection: Some(vec![0, 3]),
                limit: 1,
                descending: true,
                count_only: true,
                consistency: Consistency::Stale,
                ..all.clone()
            }),
        ),
        (
            "request-read-held",
            read(Read {
                agreement: Agreement::Hold(25_000),
                ..all.clone()
            }),
        ),
        (
            "request-read-of-snapshot",
            read(Read {
                snapshot: Some(snapshot()),
                keys: vec![pk(), Bytes(vec![255])],
                ..all.clone()
            }),
        ),
        (
            "request-read-redirected",
            read(Read {
                redirect: Some(Redirect {
                    replex: 1,
                    constraints: SlotConstraints {
                        residues: vec![
                            vec![Residue {
                                stride: 1,
                                divisions: 12,
                                coordinate: 7,
                            }],
                            vec![],
                        ],
                    },
                    scan_from: Some(pk()),
                }),
                agreement: Agreement::Quiet,
                ..all
            }),
        ),
    ]
}
