//! A sample of each question to the coordinator.

use protocol::identity::*;
use protocol::message::*;

use super::copies::fill_report;
use super::{configuration, core, partition, schema};

// tidy: long — one sample a message
pub fn asks() -> Vec<(&'static str, Message)> {
    let join = |server| CoordinatorRequest::Join {
        server,
        instance: 0xabcd,
        folder: FolderReport {
            disk: 0x1234,
            last: 0xabcc,
            incarnation: Incarnation(2),
            epoch: Epoch(5),
            has_stopped: true,
            is_old: false,
        },
        domain: "rack-1".into(),
        cores: vec!["127.0.0.1:7001".into(), "127.0.0.1:7002".into()],
    };
    let requests = [
        ("ask-join-new", join(None)),
        ("ask-join-again", join(Some(ServerId(2)))),
        (
            "ask-heartbeat",
            CoordinatorRequest::Heartbeat {
                core: core(2, 1),
                incarnation: Incarnation(3),
                epoch: Epoch(6),
                sent_us: 123_456,
                durable: Position(77),
                filled: vec![partition(1, 2)],
                fills: vec![fill_report()],
                seals: vec![SealReport {
                    table: TableId(3),
                    stage: SealStage::Resolved,
                    vouched_ago_us: Some(50_000),
                }],
                room: Room::Full,
                ranges: vec![RangeReport {
                    partition: partition(1, 2),
                    entries: 9,
                    requests: 12_000,
                    split_at: Some(vec![1, 2, 3].into()),
                }],
            },
        ),
        ("ask-fetch", CoordinatorRequest::Fetch { known: Epoch(5) }),
        ("ask-open-session", CoordinatorRequest::OpenSession),
        (
            "ask-create-table",
            CoordinatorRequest::CreateTable {
                schema: schema(),
                if_not_exists: true,
                sequences: Vec::new(),
                owner: Default::default(),
            },
        ),
        (
            "ask-drop-table",
            CoordinatorRequest::DropTable {
                name: "flights".into(),
                if_exists: false,
            },
        ),
    ];
    let server = ServerId(2);
    let about_servers = [
        ("ask-leave", CoordinatorRequest::Leave { server }),
        ("ask-remove", CoordinatorRequest::Remove { server }),
        (
            "ask-accept-folder",
            CoordinatorRequest::AcceptFolder { server },
        ),
        ("ask-drain", CoordinatorRequest::Drain { server }),
        ("ask-end-drain", CoordinatorRequest::EndDrain { server }),
    ];
    let all = requests
        .into_iter()
        .chain(of_servers())
        .chain(about_servers);
    all.map(|(name, request)| (name, Message::Ask(request)))
        .collect()
}

/// Returns the reports of servers on their logs and on what they know.
fn of_servers() -> [(&'static str, CoordinatorRequest); 2] {
    [
        (
            "ask-stopped",
            CoordinatorRequest::Stopped {
                server: ServerId(2),
                incarnation: Incarnation(3),
                logs: vec![Position(77), Position(12)],
            },
        ),
        (
            "ask-remember",
            CoordinatorRequest::Remember(RecallReport {
                core: core(2, 1),
                incarnation: Incarnation(3),
                runs: true,
                folder: FolderReport {
                    disk: 0x1234,
                    last: 0xabcd,
                    incarnation: Incarnation(3),
                    epoch: Epoch(6),
                    has_stopped: false,
                    is_old: false,
                },
                session_floor: SessionId(40),
                configuration: configuration(),
            }),
        ),
    ]
}
