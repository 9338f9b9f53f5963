//! Statements that are neither SELECT nor INSERT, UPDATE, DELETE.
//!
//! Those that change the schema run on Extensions too, as they are, alone and in order; those that
//! only concern one server run on the Primary alone. A kind that is not listed changes the schema.

use pg_raw_parse::Node;
use pg_raw_parse::nodes::{AlterTableStmt, ColumnDef, CopyStmt, CreateTableAsStmt, RangeVar};
use pg_raw_parse::raw::{AlterTableType, ConstrType, ObjectType, TransactionStmtKind};

use super::facts::{Facts, Name};
use super::{Action, Names, Statement, TableUse, TransactionCommand, statement};
use crate::manager::Touch;

/// Do event triggers fire for each of the text's statements that change the schema? They do not for what all
/// databases of a server share, and for event triggers.
pub fn fires_triggers(text: &str) -> bool {
    let is_shared = |kind: ObjectType::Type| {
        [
            ObjectType::OBJECT_ROLE,
            ObjectType::OBJECT_DATABASE,
            ObjectType::OBJECT_TABLESPACE,
            ObjectType::OBJECT_PARAMETER_ACL,
            ObjectType::OBJECT_EVENT_TRIGGER,
        ]
        .contains(&kind)
    };
    let fires = |node: Node<'_>| match node {
        Node::CreateRoleStmt(_)
        | Node::AlterRoleStmt(_)
        | Node::AlterRoleSetStmt(_)
        | Node::DropRoleStmt(_)
        | Node::GrantRoleStmt(_)
        | Node::ReassignOwnedStmt(_)
        | Node::AlterTableSpaceOptionsStmt(_)
        | Node::CreateEventTrigStmt(_)
        | Node::AlterEventTrigStmt(_) => false,
        Node::AlterOwnerStmt(alter) => !is_shared(alter.object_type),
        Node::CommentStmt(comment) => !is_shared(comment.objtype),
        Node::DropStmt(drop) => !is_shared(drop.remove_type),
        Node::GrantStmt(grant) => !is_shared(grant.objtype),
        Node::RenameStmt(rename) => !is_shared(rename.rename_type),
        Node::SecLabelStmt(label) => !is_shared(label.objtype),
        _ => true,
    };
    pg_raw_parse::parse(text).is_ok_and(|tree| tree.iter().all(|raw| fires(raw.stmt())))
}

const TEMPORARY: u8 = b't';

/// See the module.
pub fn analyse(names: &Names<'_>, node: Node<'_>, text: &str) -> Statement {
    match node {
        Node::TransactionStmt(transaction) => {
            Statement::without_tables(Action::Transaction(command(transaction.kind)))
        }
        Node::VariableSetStmt(_) | Node::VariableShowStmt(_) | Node::ConstraintsSetStmt(_) => {
            Statement::without_tables(Action::Session)
        }
        Node::CopyStmt(copy) => of_copy(names, copy),
        Node::TruncateStmt(_) | Node::MergeStmt(_) | Node::CallStmt(_) | Node::DoStmt(_) => {
            Statement::unproven("it may write any table")
        }
        Node::ExplainStmt(explain) => {
            let inner = statement(names, explain.query(), text);
            match inner.action {
                ref action if action.may_write() => inner,
                Action::Schema(_) => Statement::writes_anything(Action::Refused(
                    "EXPLAIN of a statement that makes a table is not replicated",
                )),
                _ => Statement::reads_anything(Action::Primary("it explains")),
            }
        }
        _ => of_session(names, node).unwrap_or_else(|| of_schema(names, node, text)),
    }
}

fn command(kind: TransactionStmtKind::Type) -> TransactionCommand {
    match kind {
        TransactionStmtKind::TRANS_STMT_BEGIN | TransactionStmtKind::TRANS_STMT_START => {
            TransactionCommand::Begin
        }
        TransactionStmtKind::TRANS_STMT_COMMIT => TransactionCommand::Commit,
        TransactionStmtKind::TRANS_STMT_ROLLBACK => TransactionCommand::Rollback,
        TransactionStmtKind::TRANS_STMT_SAVEPOINT
        | TransactionStmtKind::TRANS_STMT_RELEASE
        | TransactionStmtKind::TRANS_STMT_ROLLBACK_TO => TransactionCommand::Savepoint,
        _ => TransactionCommand::TwoPhase,
    }
}

/// Statements that bind the session, or concern only the server that they run on.
fn of_session(names: &Names<'_>, node: Node<'_>) -> Option<Statement> {
    let primary = |why| Some(Statement::reads_anything(Action::Primary(why)));
    match node {
        // What EXECUTE runs is not seen.
        Node::PrepareStmt(_) | Node::ExecuteStmt(_) => Some(Statement::writes_anything(
            Action::Pin("it has a prepared statement of SQL"),
        )),
        Node::DeallocateStmt(_) => primary("it has a prepared statement of SQL"),
        Node::DeclareCursorStmt(cursor) => {
            let mut inner = statement(names, cursor.query(), "");
            inner.action = Action::Pin("it has a cursor");
            Some(inner)
        }
        Node::FetchStmt(_) | Node::ClosePortalStmt(_) => primary("it has a cursor"),
        Node::ListenStmt(_) | Node::UnlistenStmt(_) => {
            Some(Statement::without_tables(Action::Pin("it listens")))
        }
        Node::DiscardStmt(_) => Some(Statement::without_tables(Action::Session)),
        Node::LoadStmt(_) => Some(Statement::without_tables(Action::Pin("it loads a library"))),
        Node::NotifyStmt(_) => primary("it notifies"),
        Node::LockStmt(_) => Some(Statement {
            locks: true,
            ..Statement::reads_anything(Action::Primary("it locks a table"))
        }),
        Node::VacuumStmt(_)
        | Node::ClusterStmt(_)
        | Node::ReindexStmt(_)
        | Node::CheckPointStmt(_)
        | Node::AlterSystemStmt(_)
        | Node::CreatedbStmt(_)
        | Node::DropdbStmt(_)
        | Node::AlterDatabaseStmt(_)
        | Node::AlterDatabaseSetStmt(_)
        | Node::CreateTableSpaceStmt(_)
        | Node::DropTableSpaceStmt(_)
        | Node::RefreshMatViewStmt(_)
        | Node::CreatePublicationStmt(_)
        | Node::AlterPublicationStmt(_)
        | Node::CreateSubscriptionStmt(_)
        | Node::AlterSubscriptionStmt(_)
        | Node::DropSubscriptionStmt(_) => primary("it concerns one server"),
        Node::IndexStmt(index) if index.concurrent => primary("it builds an index concurrently"),
        Node::DropStmt(drop) if drop.concurrent => primary("it drops an index concurrently"),
        Node::DropStmt(drop) if drop.remove_type == ObjectType::OBJECT_PUBLICATION => {
            primary("it concerns one server")
        }
        _ if concerns_large_object(node) => primary("large objects are on the Primary only"),
        _ => None,
    }
}

fn concerns_large_object(node: Node<'_>) -> bool {
    let kind = match node {
        Node::AlterOwnerStmt(alter) => alter.object_type,
        Node::CommentStmt(comment) => comment.objtype,
        Node::GrantStmt(grant) => grant.objtype,
        Node::SecLabelStmt(label) => label.objtype,
        _ => return false,
    };
    kind == ObjectType::OBJECT_LARGEOBJECT
}

fn of_copy(names: &Names<'_>, copy: &CopyStmt) -> Statement {
    if !copy.is_from {
        // Its query, if it has one, may write.
        let inner = match copy.query() {
            Node::None => None,
            query => Some(statement(names, query, "")),
        };
        return match inner {
            Some(inner) if inner.action.may_write() => inner,
            _ => Statement::reads_anything(Action::Primary("it copies out")),
        };
    }
    let relation = copy
        .relation()
        .and_then(Name::of)
        .and_then(|name| names.resolve(&name));
    match relation {
        Some(relation) if !relation.has_triggers && relation.children.is_empty() => {
            let whole = TableUse::new(relation.table, Touch::write_table());
            Statement::touching(Action::Write, vec![whole])
        }
        _ => Statement::unproven("it may set off more than it says"),
    }
}

fn of_schema(names: &Names<'_>, node: Node<'_>, text: &str) -> Statement {
    let action = match node {
        Node::CreateStmt(create) if is_temporary(create.relation()) => Action::Pin(TEMPORARY_TABLE),
        Node::ViewStmt(view) if is_temporary(view.view()) => Action::Pin(TEMPORARY_TABLE),
        Node::CreateSeqStmt(create) if is_temporary(create.sequence()) => {
            Action::Pin(TEMPORARY_TABLE)
        }
        Node::CreateTableAsStmt(create) => of_create_as(create, text),
        Node::AlterTableStmt(alter) => of_alter(names, alter, text),
        _ => Action::Schema(text.to_owned()),
    };
    Statement::writes_anything(action)
}

/// Why a session is bound that has one, or a view or a sequence that is temporary.
pub const TEMPORARY_TABLE: &str = "it has a temporary table";

/// Is it made for the session alone?
pub fn is_temporary(relation: Option<&RangeVar>) -> bool {
    relation.is_some_and(|relation| {
        relation.relpersistence as u8 == TEMPORARY || relation.schemaname() == Some("pg_temp")
    })
}

/// Extensions make the table empty; its rows come as images.
fn of_create_as(create: &CreateTableAsStmt, text: &str) -> Action {
    let into = create.into();
    if is_temporary(into.and_then(|into| into.rel())) {
        return Action::Pin(TEMPORARY_TABLE);
    }
    if matches!(create.query(), Node::ExecuteStmt(_)) {
        return Action::Refused(
            "CREATE TABLE … AS EXECUTE is not replicated: write the query instead",
        );
    }
    if into.is_some_and(|into| into.skip_data) {
        return Action::Schema(text.to_owned());
    }
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let says_data = matches!(words[..], [.., with, data]
        if with.eq_ignore_ascii_case("with") && data.eq_ignore_ascii_case("data"));
    let query = match says_data {
        true => text[..text.len() - "data".len()].trim_end(),
        false => text,
    };
    let query = match says_data {
        true => &query[..query.len() - "with".len()],
        false => query,
    };
    // On a line of its own: the text may end with a comment.
    Action::Schema(format!("{query}\nWITH NO DATA"))
}

/// Changes that fill columns of rows that are there must fill them alike everywhere.
fn of_alter(names: &Names<'_>, alter: &AlterTableStmt, text: &str) -> Action {
    let differs = alter.cmds().iter().any(|command| match command {
        Node::AlterTableCmd(command) => match command.subtype {
            AlterTableType::AT_AddColumn | AlterTableType::AT_AlterColumnType => {
                match command.def() {
                    Node::ColumnDef(column) => fills_differently(names, column),
                    _ => true,
                }
            }
            _ => false,
        },
        _ => true,
    });
    match differs {
        true => Action::Refused(
            "this ALTER TABLE fills existing rows with values that would differ between databases: \
             add the column without a default, fill it with UPDATE, then set the default",
        ),
        false => Action::Schema(text.to_owned()),
    }
}

fn fills_differently(names: &Names<'_>, column: &ColumnDef) -> bool {
    let same = |expression: Node<'_>| {
        let facts = Facts::of(names.catalogue, [expression]);
        facts.primary.is_none() && !facts.stable
    };
    let serial = column.type_name().is_some_and(|name| {
        let last = name.names().iter().next_back().and_then(|name| name.sval());
        last.is_some_and(|name| name.contains("serial"))
    });
    let constraints = column
        .constraints()
        .iter()
        .all(|constraint| match constraint {
            Node::Constraint(constraint) => match constraint.contype {
                ConstrType::CONSTR_IDENTITY => false,
                ConstrType::CONSTR_DEFAULT | ConstrType::CONSTR_GENERATED => {
                    same(constraint.raw_expr())
                }
                _ => true,
            },
            _ => false,
        });
    serial || !constraints || !same(column.raw_default())
}
