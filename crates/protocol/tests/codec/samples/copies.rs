//! One message of each kind about copies that come to tables and go from them.

use placement::{Alteration, ColumnType};
use protocol::configuration::roles::{GrantObject, Privileges, RoleChange};
use protocol::identity::*;
use protocol::message::*;

use super::schema;

// tidy: long — a list of messages
/// Returns requests to the coordinator that concern copies, and its replies.
pub fn copies() -> Vec<(&'static str, Message)> {
    vec![
        (
            "ask-add-copy",
            Message::Ask(CoordinatorRequest::AddCopy { schema: schema() }),
        ),
        (
            "ask-drop-copy",
            Message::Ask(CoordinatorRequest::DropCopy {
                table: "flights".into(),
                name: "by_route".into(),
                if_exists: true,
            }),
        ),
        (
            "ask-replace-copy",
            Message::Ask(CoordinatorRequest::ReplaceCopy {
                table: "flights".into(),
                name: "by_route".into(),
                by: "by_route__next".into(),
            }),
        ),
        (
            "ask-renew",
            Message::Ask(CoordinatorRequest::Renew {
                table: "flights".into(),
                cells: vec![(1, 7)],
            }),
        ),
        (
            "ask-set-partitions",
            Message::Ask(CoordinatorRequest::SetPartitions {
                table: "flights".into(),
                partitions: 48,
            }),
        ),
        (
            "ask-alter-table",
            Message::Ask(CoordinatorRequest::AlterTable {
                table: "flights".into(),
                alterations: alterations(),
            }),
        ),
        (
            "ask-truncate",
            Message::Ask(CoordinatorRequest::Truncate {
                tables: vec!["flights".into(), "seats".into()],
                cascade: true,
            }),
        ),
        (
            "ask-change-roles",
            Message::Ask(CoordinatorRequest::ChangeRoles {
                change: RoleChange::Grant {
                    objects: vec![(GrantObject::Relation(TableId(3)), Privileges::SELECT)],
                    grantees: vec![Some("readers".into()), None],
                },
            }),
        ),
        ("ask-progress", Message::Ask(CoordinatorRequest::Progress)),
        (
            "answer-progress",
            Message::Answer(CoordinatorReply::Progress {
                fills: vec![fill_report()],
                waiting: vec![(TableId(3), "by_route".into())],
                failures: vec![CopyFailure {
                    table: TableId(3),
                    name: "by_tail".into(),
                    why: "several rows have (tail) = (N1)".into(),
                }],
                without_room: vec![Shortage {
                    server: ServerId(3),
                    room: Room::Reserve,
                    stays: Some("no other server has room".into()),
                }],
            }),
        ),
    ]
}

/// How far a core is.
pub fn fill_report() -> FillReport {
    FillReport {
        table: TableId(3),
        replex: 2,
        partitions: 4,
        sources: 12,
        sources_done: 5,
        rows: 1000,
        of_rows: 3000,
        obstacles: vec!["several rows have (tail) = (N1)".into()],
    }
}

/// One change of each kind of a table's definition.
fn alterations() -> Vec<Alteration> {
    let schema = schema();
    vec![
        Alteration::RenameTable {
            name: "trips".into(),
        },
        Alteration::RenameColumn {
            column: "origin".into(),
            name: "source".into(),
        },
        Alteration::RenameIndex {
            index: "by_route".into(),
            name: "by_trip".into(),
        },
        Alteration::RenameConstraint {
            constraint: "flights_id_check".into(),
            name: "positive".into(),
        },
        Alteration::SetDefault {
            column: "origin".into(),
            default: None,
        },
        Alteration::SetNullable {
            column: "origin".into(),
            nullable: true,
        },
        Alteration::AddColumn {
            column: schema.columns[1].clone(),
        },
        Alteration::AddCheck {
            check: schema.constraints.checks[0].clone(),
        },
        Alteration::Validate {
            constraint: "positive".into(),
        },
        Alteration::DropConstraint {
            constraint: "positive".into(),
        },
        Alteration::DropColumn {
            column: "origin".into(),
        },
        Alteration::SetType {
            column: "origin".into(),
            column_type: ColumnType::Varchar(5),
        },
        Alteration::SetFailures { failures: 2 },
        Alteration::AddForeignKey {
            key: schema.constraints.foreign_keys[0].clone(),
        },
    ]
}
