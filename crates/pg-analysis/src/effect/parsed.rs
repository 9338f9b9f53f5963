//! Determines the state that a query string leaves in its session, from the parse tree of
//! PostgreSQL's grammar.
//!
//! A statement is known by its kind, and by the functions that it calls anywhere.

use pg_raw_parse::nodes::{FuncCall, RangeVar, SelectStmt, VariableSetStmt};
use pg_raw_parse::raw::{DiscardMode, TransactionStmtKind, VariableSetKind};
use pg_raw_parse::{ConstValue, Node};

use super::{KEEPS_FUNCTIONS, LEAVES_NOTHING, READS_SEQUENCE_STATE, calls};
use crate::select::is_list_alone;
use pg_wire::settings;
use proxy_core::grammar::SessionEffect;
use proxy_core::touched::{TEMPORARY_SCHEMA, is_temporary_schema};

/// Longer texts are not parsed, in bytes.
const TEXT_LENGTH_MAX: usize = 1024 * 1024;
/// `DECLARE … WITH HOLD`, among the options of a cursor.
const CURSOR_WITH_HOLD: i32 = 0x20;
/// The persistence of a temporary table.
const TEMPORARY: u8 = b't';

/// Functions whose names begin so leave state: connections to other databases, or the memory of a
/// server under upgrade.
const KEEPS_CALLS_OF: &[&str] = &["binary_upgrade_", "dblink"];

/// Returns the state that a query string leaves in its session; none if the grammar cannot parse
/// the string.
pub fn of(text: &[u8]) -> Option<SessionEffect> {
    // A backslash may be an escape, or in another encoding a part of a character.
    if text.len() > TEXT_LENGTH_MAX || text.contains(&b'\\') {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    let tree = pg_raw_parse::parse(text).ok()?;
    let mut effect = SessionEffect::Nothing;
    for raw in tree.iter() {
        let start = usize::try_from(raw.stmt_location).unwrap_or(0);
        let length = usize::try_from(raw.stmt_len).unwrap_or(0);
        let own = text.get(start..)?;
        let own = own.get(..length).filter(|_| length > 0).unwrap_or(own);
        effect = effect.and(of_statement(raw.stmt(), own)?);
    }
    Some(effect)
}

fn of_statement(node: Node<'_>, text: &str) -> Option<SessionEffect> {
    match node {
        Node::VariableSetStmt(set) => return Some(of_set(set)),
        Node::SelectStmt(select) => {
            if let Some(effect) = of_set_config(select) {
                return Some(effect);
            }
        }
        _ => {}
    }
    let found = calls::of(text)?;
    let mut effect = of_kind(node, &found);
    for call in found.iter().filter(|found| found.is_called) {
        let is = |known: &&str| **known == call.name;
        let begins = |known: &&str| call.name.starts_with(known);
        if KEEPS_FUNCTIONS.iter().any(is) || KEEPS_CALLS_OF.iter().any(begins) {
            effect = effect.and(SessionEffect::KeepsSession);
        } else if READS_SEQUENCE_STATE.iter().any(is) {
            effect = effect.and(SessionEffect::ReadsSequenceState);
        }
    }
    Some(effect)
}

/// Returns the state that a statement of this kind leaves.
fn of_kind(node: Node<'_>, found: &[calls::FoundName<'_>]) -> SessionEffect {
    let keeps = match node {
        Node::SelectStmt(select) => makes_temporary(select),
        Node::InsertStmt(_)
        | Node::UpdateStmt(_)
        | Node::DeleteStmt(_)
        | Node::MergeStmt(_)
        | Node::FetchStmt(_)
        | Node::ClosePortalStmt(_)
        | Node::NotifyStmt(_)
        | Node::UnlistenStmt(_)
        | Node::VariableShowStmt(_) => false,
        Node::CopyStmt(copy) => matches!(copy.query(), Node::SelectStmt(it) if makes_temporary(it)),
        Node::ExplainStmt(explain) => return of_kind(explain.query(), found),
        Node::DeclareCursorStmt(cursor) => cursor.options & CURSOR_WITH_HOLD != 0,
        Node::DiscardStmt(discard) => discard.target == DiscardMode::DISCARD_ALL,
        Node::TransactionStmt(transaction) => [
            TransactionStmtKind::TRANS_STMT_PREPARE,
            TransactionStmtKind::TRANS_STMT_COMMIT_PREPARED,
            TransactionStmtKind::TRANS_STMT_ROLLBACK_PREPARED,
        ]
        .contains(&transaction.kind),
        Node::PrepareStmt(_)
        | Node::ExecuteStmt(_)
        | Node::DeallocateStmt(_)
        | Node::ListenStmt(_)
        | Node::LoadStmt(_)
        | Node::DoStmt(_)
        | Node::CallStmt(_) => true,
        Node::CreateTableAsStmt(create) => {
            matches!(create.query(), Node::ExecuteStmt(_))
                || is_temporary(create.into().and_then(|into| into.rel()))
        }
        Node::CreateStmt(create) => is_temporary(create.relation()),
        Node::ViewStmt(view) => is_temporary(view.view()),
        Node::CreateSeqStmt(create) => is_temporary(create.sequence()),
        // Any other statement changes the schema, or concerns one server: only objects that it
        // makes for its session alone are left.
        _ => {
            let first = found.first().map_or("", |found| &found.name);
            let is_known = LEAVES_NOTHING.contains(&first) || first == "import";
            !is_known || found.iter().any(|found| is_temporary_schema(&found.name))
        }
    };
    match keeps {
        true => SessionEffect::KeepsSession,
        false => SessionEffect::Nothing,
    }
}

/// Returns whether a query makes a temporary table. Of the queries that UNION and the like combine,
/// INTO stands in the first.
fn makes_temporary(mut select: &SelectStmt) -> bool {
    while let Some(left) = select.larg() {
        select = left;
    }
    is_temporary(select.into_clause().and_then(|into| into.rel()))
}

fn is_temporary(relation: Option<&RangeVar>) -> bool {
    relation.is_some_and(|relation| {
        relation.relpersistence as u8 == TEMPORARY
            || relation.schemaname().is_some_and(is_temporary_schema)
    })
}

fn of_set(set: &VariableSetStmt) -> SessionEffect {
    let name = set.name().unwrap_or_default();
    if set.is_local {
        return SessionEffect::Nothing;
    }
    match set.kind {
        VariableSetKind::VAR_RESET | VariableSetKind::VAR_RESET_ALL => {
            SessionEffect::ResetsSettings
        }
        VariableSetKind::VAR_SET_MULTI if name.starts_with("TRANSACTION") => SessionEffect::Nothing,
        VariableSetKind::VAR_SET_MULTI => {
            let of_isolation = |it: Node<'_>| {
                matches!(it, Node::DefElem(mode)
                    if mode.defname() == Some("transaction_isolation"))
            };
            match set.args().iter().all(of_isolation) {
                true => SessionEffect::SetsSettings,
                false => SessionEffect::KeepsSession,
            }
        }
        VariableSetKind::VAR_SET_VALUE | VariableSetKind::VAR_SET_DEFAULT => {
            let values = set.args().iter().filter_map(text_of);
            of_setting(name, values)
        }
        _ => SessionEffect::KeepsSession,
    }
}

/// Returns the state that is left by setting this to values with these texts.
fn of_setting<'a>(name: &str, mut values: impl Iterator<Item = &'a str>) -> SessionEffect {
    let is_path = name.eq_ignore_ascii_case("search_path");
    let is_own = settings::is_own(name.as_bytes());
    match is_own && !(is_path && values.any(|value| value.contains(TEMPORARY_SCHEMA))) {
        true => SessionEffect::SetsSettings,
        false => SessionEffect::KeepsSession,
    }
}

fn text_of(node: Node<'_>) -> Option<&str> {
    match node {
        Node::A_Const(constant) => match constant.val() {
            Some(ConstValue::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the state that a query leaves that does nothing but set settings, by `SELECT
/// set_config(…), …`. None if it is another one.
fn of_set_config(select: &SelectStmt) -> Option<SessionEffect> {
    if !is_list_alone(select) || select.into_clause().is_some() {
        return None;
    }
    let mut effect = SessionEffect::Nothing;
    for target in select.target_list() {
        let Node::FuncCall(call) = target.val() else {
            return None;
        };
        effect = effect.and(of_call_of_set_config(call)?);
    }
    Some(effect)
}

fn of_call_of_set_config(call: &FuncCall) -> Option<SessionEffect> {
    let name: Vec<&str> = call.funcname().iter().filter_map(Node::as_str).collect();
    let mut arguments = call.args().iter().map(without_cast);
    let (setting, value, is_local) = (arguments.next()?, arguments.next()?, arguments.next()?);
    let is_plain = |node: &Node<'_>| matches!(node, Node::A_Const(_) | Node::ParamRef(_));
    let is_it = matches!(name[..], ["set_config"] | ["pg_catalog", "set_config"]);
    let has_more = arguments.next().is_some()
        || !matches!(call.agg_filter(), Node::None)
        || call.over().is_some();
    if !is_it || has_more || ![setting, value, is_local].iter().all(is_plain) {
        return None;
    }
    Some(match boolean(is_local) {
        Some(true) => SessionEffect::Nothing,
        Some(false) => match text_of(setting) {
            Some(setting) => of_setting(setting, text_of(value).into_iter()),
            None => SessionEffect::KeepsSession,
        },
        None => SessionEffect::KeepsSession,
    })
}

/// Returns the argument of a cast to text.
fn without_cast(node: Node<'_>) -> Node<'_> {
    let Node::TypeCast(cast) = node else {
        return node;
    };
    let names = cast.type_name().map(|it| it.names().iter());
    let last = names.and_then(|mut names| names.next_back());
    match last.and_then(|name| name.sval()) {
        Some("text") => cast.arg(),
        _ => node,
    }
}

/// Returns the value of a constant that is a yes or no.
fn boolean(node: Node<'_>) -> Option<bool> {
    let Node::A_Const(constant) = node else {
        return None;
    };
    match constant.val()? {
        ConstValue::Boolean(boolean) => Some(boolean),
        ConstValue::String("t" | "true" | "on" | "yes" | "1") => Some(true),
        ConstValue::String("f" | "false" | "off" | "no" | "0") => Some(false),
        _ => None,
    }
}
