//! Analyses statements that are neither SELECT nor INSERT, UPDATE, DELETE.
//!
//! Statements that change the schema run on replicas too, unchanged, alone and in order. Statements
//! that concern one server only run on the primary alone. A kind that is not listed changes the
//! schema.

use pg_raw_parse::Node;
use pg_raw_parse::nodes::{CopyStmt, CreateTableAsStmt, RangeVar};
use pg_raw_parse::raw::{ObjectType, TransactionStmtKind};

use super::facts::QualifiedName;
use super::fills;
use super::select_into::makes_empty;
use super::{
    AnalysedStatement, NameScope, StatementAction, TableUse, TransactionCommand, statement,
};
use proxy_core::freshness::TableAccess;
use proxy_core::touched::TEMPORARY_SCHEMA;

/// Returns whether event triggers fire for each statement of the query string that changes the
/// schema. They do not fire for objects that all databases of a server share, nor for event
/// triggers.
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
        Node::AlterTableSpaceOptionsStmt(_)
        | Node::CreateEventTrigStmt(_)
        | Node::AlterEventTrigStmt(_) => false,
        Node::DropStmt(drop) => !is_shared(drop.remove_type),
        node => !is_of_role(node) && !kind_of(node).is_some_and(is_shared),
    };
    pg_raw_parse::parse(text).is_ok_and(|tree| tree.iter().all(|raw| fires(raw.stmt())))
}

/// Returns whether each statement of the text only concerns roles or comments on a database, and
/// means the same for every user and all settings.
pub fn is_of_roles_alone(text: &str) -> bool {
    let is = |node: Node<'_>| match node {
        Node::CommentStmt(comment) => {
            [ObjectType::OBJECT_ROLE, ObjectType::OBJECT_DATABASE].contains(&comment.objtype)
        }
        Node::RenameStmt(rename) => rename.rename_type == ObjectType::OBJECT_ROLE,
        node => is_of_role(node),
    };
    // CURRENT_USER, FROM CURRENT and the like; VALID UNTIL a time; texts with escapes.
    let lower = text.to_ascii_lowercase();
    let depends = ["current", "session_user", "valid", "\\"];
    text.is_ascii()
        && !depends.iter().any(|word| lower.contains(word))
        && pg_raw_parse::parse(text).is_ok_and(|tree| tree.iter().all(|raw| is(raw.stmt())))
}

/// Returns whether the statement is of a kind that is only about roles.
fn is_of_role(node: Node<'_>) -> bool {
    matches!(
        node,
        Node::CreateRoleStmt(_)
            | Node::AlterRoleStmt(_)
            | Node::AlterRoleSetStmt(_)
            | Node::DropRoleStmt(_)
            | Node::GrantRoleStmt(_)
            | Node::ReassignOwnedStmt(_)
    )
}

/// Returns the kind of object that gets an owner, a comment, rights, a name or a label.
fn kind_of(node: Node<'_>) -> Option<ObjectType::Type> {
    match node {
        Node::AlterOwnerStmt(alter) => Some(alter.object_type),
        Node::CommentStmt(comment) => Some(comment.objtype),
        Node::GrantStmt(grant) => Some(grant.objtype),
        Node::RenameStmt(rename) => Some(rename.rename_type),
        Node::SecLabelStmt(label) => Some(label.objtype),
        _ => None,
    }
}

const TEMPORARY: u8 = b't';

const EXPLAINED_TABLE: &str = "EXPLAIN of a statement that makes a table is not replicated";

/// Analyses a utility statement, see the module.
pub fn analyse(names: &NameScope<'_>, node: Node<'_>, text: &str) -> AnalysedStatement {
    match node {
        Node::TransactionStmt(transaction) => AnalysedStatement::without_tables(
            StatementAction::Transaction(command(transaction.kind)),
        ),
        Node::VariableSetStmt(_) | Node::VariableShowStmt(_) | Node::ConstraintsSetStmt(_) => {
            AnalysedStatement::without_tables(StatementAction::Session)
        }
        Node::CopyStmt(copy) => of_copy(names, copy),
        Node::CallStmt(_) | Node::DoStmt(_) if explains_new_table(text) => {
            AnalysedStatement::writes_anything(StatementAction::Refused(EXPLAINED_TABLE))
        }
        Node::TruncateStmt(_) | Node::MergeStmt(_) | Node::CallStmt(_) | Node::DoStmt(_) => {
            AnalysedStatement::unproven("it may write any table")
        }
        Node::ExplainStmt(explain) => {
            let inner = statement(names, explain.query(), text);
            let mut options = explain.options().iter();
            let runs = options.any(|option| option.defname() == Some("analyze"));
            match inner.action {
                ref action if action.may_write() => inner,
                StatementAction::Schema(_)
                | StatementAction::Refused(_)
                | StatementAction::MayFill(..)
                | StatementAction::MayDiffer(..)
                    if runs =>
                {
                    AnalysedStatement::writes_anything(StatementAction::Refused(EXPLAINED_TABLE))
                }
                _ => AnalysedStatement::reads_anything(StatementAction::Primary("it explains")),
            }
        }
        _ => of_session(names, node, text).unwrap_or_else(|| of_schema(names, node, text)),
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
// tidy: long — a dispatching match
fn of_session(names: &NameScope<'_>, node: Node<'_>, text: &str) -> Option<AnalysedStatement> {
    use StatementAction::{Alone, Pin, Primary};

    let primary = |why| Some(AnalysedStatement::reads_anything(Primary(why)));
    let alone = |why| {
        Some(AnalysedStatement::reads_anything(Alone(
            text.to_owned(),
            why,
        )))
    };
    match node {
        // The statement that EXECUTE runs is unknown here.
        Node::PrepareStmt(_) | Node::ExecuteStmt(_) => Some(AnalysedStatement::writes_anything(
            Pin("it has a prepared statement of SQL"),
        )),
        Node::DeallocateStmt(_) => primary("it has a prepared statement of SQL"),
        Node::DeclareCursorStmt(cursor) => {
            let mut inner = statement(names, cursor.query(), "");
            inner.action = Pin("it has a cursor");
            Some(inner)
        }
        Node::FetchStmt(_) | Node::ClosePortalStmt(_) => primary("it has a cursor"),
        Node::ListenStmt(_) | Node::UnlistenStmt(_) => {
            Some(AnalysedStatement::without_tables(Pin("it listens")))
        }
        Node::DiscardStmt(_) => Some(AnalysedStatement::without_tables(StatementAction::Session)),
        Node::LoadStmt(_) => Some(AnalysedStatement::without_tables(Pin("it loads a library"))),
        Node::NotifyStmt(_) => primary("it notifies"),
        Node::LockStmt(_) => Some(AnalysedStatement {
            locks: true,
            ..AnalysedStatement::reads_anything(Primary("it locks a table"))
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
        | Node::AlterTableSpaceOptionsStmt(_)
        | Node::RefreshMatViewStmt(_)
        | Node::CreatePublicationStmt(_)
        | Node::AlterPublicationStmt(_)
        | Node::CreateSubscriptionStmt(_)
        | Node::AlterSubscriptionStmt(_)
        | Node::DropSubscriptionStmt(_) => primary("it concerns one server"),
        Node::IndexStmt(index) if index.concurrent => alone("it builds an index concurrently"),
        Node::DropStmt(drop) if drop.concurrent => alone("it drops an index concurrently"),
        Node::AlterTableStmt(alter)
            if alter
                .cmds()
                .iter()
                .any(|command| detached_concurrently(command).is_some()) =>
        {
            alone("it detaches a partition concurrently")
        }
        Node::DropStmt(drop) if drop.remove_type == ObjectType::OBJECT_PUBLICATION => {
            primary("it concerns one server")
        }
        Node::RenameStmt(rename) if rename.rename_type == ObjectType::OBJECT_DATABASE => {
            primary("it concerns one server")
        }
        Node::GrantStmt(grant)
            if concerns(node, ObjectType::OBJECT_DATABASE) && grant.objects().len() > 1 =>
        {
            Some(AnalysedStatement::writes_anything(
                StatementAction::Refused(
                    "rights in several databases are not given to replicas, which may lack one of them: name one in a \
                 statement",
                ),
            ))
        }
        _ if concerns(node, ObjectType::OBJECT_PUBLICATION)
            || concerns(node, ObjectType::OBJECT_SUBSCRIPTION)
            || concerns(node, ObjectType::OBJECT_TABLESPACE) =>
        {
            primary("it concerns one server")
        }
        _ if concerns(node, ObjectType::OBJECT_LARGEOBJECT) => {
            primary("large objects are on the primary only")
        }
        _ => None,
    }
}

/// Returns the partition that a part of ALTER TABLE detaches with CONCURRENTLY.
pub fn detached_concurrently(command: Node<'_>) -> Option<&RangeVar> {
    match command {
        Node::AlterTableCmd(command) => match command.def() {
            Node::PartitionCmd(partition) if partition.concurrent => partition.name(),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether the statement concerns objects of the given kind, which are not in a schema.
pub fn concerns(node: Node<'_>, kind: ObjectType::Type) -> bool {
    kind_of(node) == Some(kind)
}

fn of_copy(names: &NameScope<'_>, copy: &CopyStmt) -> AnalysedStatement {
    if !copy.is_from {
        // Its query, if it has one, may write.
        let inner = match copy.query() {
            Node::None => None,
            query => Some(statement(names, query, "")),
        };
        return match inner {
            Some(inner) if inner.action.may_write() => inner,
            _ => AnalysedStatement::reads_anything(StatementAction::Primary("it copies out")),
        };
    }
    let relation = copy
        .relation()
        .and_then(QualifiedName::of)
        .and_then(|name| names.resolve(&name));
    match relation {
        Some(relation) if !relation.has_triggers && relation.children.is_empty() => {
            let whole = TableUse::new(relation.table, TableAccess::write_table());
            AnalysedStatement::touching(StatementAction::Write, vec![whole])
        }
        _ => AnalysedStatement::unproven("its triggers or rules may do anything"),
    }
}

fn of_schema(names: &NameScope<'_>, node: Node<'_>, text: &str) -> AnalysedStatement {
    let action = match node {
        Node::CreateStmt(create) if is_temporary(create.relation()) => {
            StatementAction::Pin(TEMPORARY_TABLE)
        }
        Node::ViewStmt(view) if is_temporary(view.view()) => StatementAction::Pin(TEMPORARY_TABLE),
        Node::CreateSeqStmt(create) if is_temporary(create.sequence()) => {
            StatementAction::Pin(TEMPORARY_TABLE)
        }
        Node::CreateTableAsStmt(create) => of_create_as(create, text),
        Node::AlterTableStmt(alter) => fills::of_alter(names, alter, text),
        Node::CreateStmt(create) if fills::has_place(create) => {
            StatementAction::MayDiffer(text.to_owned(), fills::PLACE)
        }
        Node::CreateStmt(create) if fills::has_other_bounds(names, create.partbound()) => {
            StatementAction::MayDiffer(text.to_owned(), fills::BOUNDS)
        }
        Node::AlterEventTrigStmt(alter) if fires_elsewhere(alter.tgenabled as u8) => {
            StatementAction::Refused(fills::FIRES)
        }
        _ => StatementAction::Schema(text.to_owned()),
    };
    AnalysedStatement::writes_anything(action)
}

/// Returns whether a trigger of this state fires where rows are applied.
fn fires_elsewhere(state: u8) -> bool {
    matches!(state, b'A' | b'R')
}

/// The reason why a session with a temporary table, view or sequence is pinned.
pub const TEMPORARY_TABLE: &str = "it has a temporary table";

/// Returns whether the relation is temporary.
pub fn is_temporary(relation: Option<&RangeVar>) -> bool {
    relation.is_some_and(|relation| {
        relation.relpersistence as u8 == TEMPORARY
            || relation.schemaname() == Some(TEMPORARY_SCHEMA)
    })
}

/// Replicas make the table empty; its rows come as images.
fn of_create_as(create: &CreateTableAsStmt, text: &str) -> StatementAction {
    let into = create.into();
    if is_temporary(into.and_then(|into| into.rel())) {
        return StatementAction::Pin(TEMPORARY_TABLE);
    }
    if matches!(create.query(), Node::ExecuteStmt(_)) {
        return StatementAction::Refused(
            "CREATE TABLE … AS EXECUTE is not replicated: write the query instead",
        );
    }
    if into.is_some_and(|into| into.skip_data) {
        return StatementAction::Schema(text.to_owned());
    }
    match without_data(text) {
        Some(text) => StatementAction::Schema(text),
        None => StatementAction::Refused(
            "CREATE TABLE … AS is only replicated if nothing stands behind WITH DATA",
        ),
    }
}

/// Returns the statement in a form that creates the table without rows. The words that fill the
/// table are found by leaving words out, and parsing.
fn without_data(text: &str) -> Option<String> {
    // On a line of its own: the text may end with a comment.
    let whole = format!("{text}\nWITH NO DATA");
    let lower = text.to_ascii_lowercase();
    let cut = lower.rmatch_indices("with").map(|(at, with)| {
        let (head, rest) = text.split_at(at);
        let rest = &rest[with.len()..];
        let end = rest
            .to_ascii_lowercase()
            .find("data")
            .map(|at| at + "data".len());
        format!("{head}{}\nWITH NO DATA", &rest[end.unwrap_or(0)..])
    });
    std::iter::once(whole)
        .chain(cut)
        .find(|text| makes_empty(text))
}

/// Returns whether a code block has a string in which `EXPLAIN ANALYZE` makes a table, as
/// `EXECUTE 'EXPLAIN ANALYZE CREATE TABLE t AS …'` does. Event triggers do not see such a table. A
/// text that is put together from parts is not found.
fn explains_new_table(block: &str) -> bool {
    let block = block.to_ascii_lowercase();
    let mut rest = block.as_str();
    while let Some(at) = rest.find("explain") {
        let before = rest[..at].trim_end();
        rest = &rest[at + "explain".len()..];
        // It begins a string: after a quote, or after the tag of a dollar quote.
        let explained = match before.chars().next_back() {
            Some('\'') => until_quote(rest),
            Some('$') => rest.split(['$', ';']).next().unwrap_or(rest),
            _ => continue,
        };
        if makes_table(explained) {
            return true;
        }
    }
    false
}

/// Returns the text up to the end of a quoted string, or of its first statement.
fn until_quote(text: &str) -> &str {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' | b';' => break,
            _ => at += 1,
        }
    }
    &text[..at]
}

/// Returns whether an explained statement in lower case is run and makes a table that lasts.
fn makes_table(explained: &str) -> bool {
    let is_end = |character: char| !(character.is_alphanumeric() || character == '_');
    let words: Vec<&str> = explained
        .split(is_end)
        .filter(|word| !word.is_empty())
        .collect();
    let runs = words
        .iter()
        .any(|word| matches!(*word, "analyze" | "analyse"));
    let is_temporary = |word: Option<&&str>| {
        let word = word.map(|word| &**word);
        matches!(
            word,
            Some("temp" | "temporary" | "local" | "global" | "pg_temp")
        )
    };
    let makes = words.iter().enumerate().any(|(place, word)| {
        let before = place.checked_sub(1).map(|before| words[before]);
        match *word {
            "create" => !is_temporary(words.get(place + 1)),
            "into" => {
                !matches!(before, Some("insert" | "merge")) && !is_temporary(words.get(place + 1))
            }
            _ => false,
        }
    });
    runs && makes
}
