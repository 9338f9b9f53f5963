//! Checks schema changes that also fill rows, and whose new rows are in no row image. Replicas run
//! such a change again, so it must give the same rows there.
//!
//! Invariant: each listed construct gives the same rows on every node, for the same rows and the
//! settings that are passed with it (`replication::schema_changes`). Everything else is refused.

use pg_raw_parse::Node;
use pg_raw_parse::nodes::{
    AlterTableCmd, AlterTableStmt, ColumnDef, CreateStmt, PartitionBoundSpec, TypeName,
};
use pg_raw_parse::raw::{AlterTableType, ConstrType, ObjectType};

use super::catalogue::{ColumnInfo, Relation};
use super::facts::{QualifiedName, StatementFacts};
use super::{NameScope, StatementAction};

/// Why a change that fills rows is refused.
const FILLS: &str = "this ALTER TABLE fills existing rows with values that may differ between databases: add the column \
                     without a default, fill it with UPDATE, then set the default";
/// Why a change of a column's type is refused.
const CONVERTS: &str = "this ALTER TABLE converts existing rows to values that may differ between databases: add another \
                        column of that type, fill it with UPDATE, then drop the first one and rename the other";
/// Why an unlogged table cannot become another one.
const LOGGED: &str = "SET LOGGED is not replicated, since replicas do not have the rows of unlogged tables: make another \
                      table that is LIKE this one, fill it with INSERT … SELECT, then drop this one and rename the other";
/// The reason why triggers that fire for applied changes are refused.
pub const FIRES: &str = "triggers and rules that are ENABLE ALWAYS or ENABLE REPLICA would run again at replicas, where rows come \
                         with their effects: use ENABLE alone";
/// Error text: a column generated from `tableoid` differs between databases.
pub const PLACE: &str =
    "a column GENERATED from tableoid would differ between databases: leave tableoid out";

/// The reason why a partition is refused whose bounds are not constants.
pub const BOUNDS: &str =
    "a partition whose bounds are not constants would have others at replicas: write their values";

/// Columns that every table has, and every database has otherwise.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"];
/// Types whose input gives the same at all times.
const TIMELESS: &[&str] = &[
    "bit",
    "bool",
    "box",
    "bpchar",
    "bytea",
    "char",
    "cidr",
    "circle",
    "float4",
    "float8",
    "inet",
    "int2",
    "int4",
    "int4range",
    "int8",
    "int8range",
    "interval",
    "json",
    "jsonb",
    "line",
    "lseg",
    "macaddr",
    "macaddr8",
    "name",
    "numeric",
    "numrange",
    "path",
    "point",
    "polygon",
    "text",
    "tsquery",
    "tsvector",
    "uuid",
    "varbit",
    "varchar",
];
/// Types whose input gives the same unless it is `now` or the like.
const TIMES: &[&str] = &["date", "time", "timestamp", "timestamptz"];
/// Types of columns that are never read as texts when they are cast: whole and other numbers,
/// `date`, `time`, `timestamp`, `timestamptz`, `interval`.
const NO_TEXTS: &[u32] = &[20, 21, 23, 700, 701, 1700, 1082, 1083, 1114, 1184, 1186];
/// The type `timetz`. Its zone may be the current one.
const TIMETZ: u32 = 1266;
/// Words that stand for the time at which they are read.
const WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
/// Functions that are not immutable in all their forms, with arguments with which they give the
/// same. The settings by which values become texts, and times are of a zone, go with the statement.
const SAME: &[(&str, usize)] = &[
    ("age", 2),
    ("array_to_json", 1),
    ("array_to_string", 2),
    ("array_to_string", 3),
    ("date_part", 2),
    ("date_trunc", 2),
    ("date_trunc", 3),
    ("extract", 2),
    ("length", 1),
    ("timezone", 2),
    ("to_json", 1),
    ("to_jsonb", 1),
    ("to_timestamp", 1),
    ("to_tsvector", 2),
];
/// Functions with any number of arguments that give the same.
const SAME_WITH_ANY: &[&str] = &["concat", "concat_ws", "format"];
/// Functions from which no text comes.
const NO_TEXT_FUNCTIONS: &[&str] = &[
    "age",
    "date_part",
    "date_trunc",
    "extract",
    "length",
    "timezone",
    "to_timestamp",
];

/// Checks that a change which fills columns of existing rows fills them with the same values on
/// every server.
pub fn of_alter(names: &NameScope<'_>, alter: &AlterTableStmt, text: &str) -> StatementAction {
    let table = alter.relation().and_then(QualifiedName::of);
    let table = table.and_then(|name| names.resolve(&name));
    // The reasons, and whether they hold only if the table has rows.
    let refused = alter.cmds().iter().filter_map(|command| match command {
        Node::AlterTableCmd(command) => {
            let why = of_command(names, table, (alter.objtype, command))?;
            let is_of_rows = alter.objtype == ObjectType::OBJECT_TABLE;
            Some((why, is_of_rows && [FILLS, CONVERTS].contains(&why)))
        }
        _ => Some((FILLS, false)),
    });
    let refused: Vec<(&'static str, bool)> = refused.collect();
    match refused.first() {
        None => StatementAction::Schema(text.to_owned()),
        Some((why, _)) if refused.iter().all(|(_, is_of_rows)| *is_of_rows) => {
            StatementAction::MayFill(text.to_owned(), why)
        }
        Some((why, _)) => StatementAction::MayDiffer(text.to_owned(), why),
    }
}

/// Returns whether the bounds of a partition may have other values on another server.
pub fn has_other_bounds(names: &NameScope<'_>, bounds: Option<&PartitionBoundSpec>) -> bool {
    let Some(bounds) = bounds else {
        return false;
    };
    let all = bounds.listdatums().iter();
    let all = all.chain(bounds.lowerdatums()).chain(bounds.upperdatums());
    let facts = StatementFacts::of(names.catalogue, all);
    let is_same = |(name, _): &(String, usize)| {
        let is_builtin = !names.catalogue.user_functions.contains(name);
        is_builtin && names.catalogue.immutable_functions.contains(name)
    };
    facts.unknown
        || facts.primary.is_some()
        || facts.transaction_time
        || facts.asks_for_time
        || facts.texts.iter().any(|text| reads_clock(text))
        || !facts.calls.iter().all(is_same)
}

/// Returns the reason why a part of an ALTER statement is refused; none if it is not.
fn of_command(
    names: &NameScope<'_>,
    table: Option<&Relation>,
    (kind, command): (ObjectType::Type, &AlterTableCmd),
) -> Option<&'static str> {
    let column = match command.def() {
        Node::ColumnDef(column) => Some(column),
        _ => None,
    };
    match command.subtype {
        AlterTableType::AT_AttachPartition => match command.def() {
            Node::PartitionCmd(partition) => {
                has_other_bounds(names, partition.bound()).then_some(BOUNDS)
            }
            _ => Some(BOUNDS),
        },
        // It must name its columns to be understood; a view's have no rows.
        AlterTableType::AT_AddColumn => {
            let fills = column.is_none_or(|column| fills(names, table, column));
            fills.then_some(FILLS)
        }
        AlterTableType::AT_AlterColumnType if kind == ObjectType::OBJECT_TABLE => {
            let name = command.name().unwrap_or_default();
            let converts = column.is_none_or(|column| converts(names, table, (name, column)));
            converts.then_some(CONVERTS)
        }
        AlterTableType::AT_SetLogged if kind != ObjectType::OBJECT_SEQUENCE => Some(LOGGED),
        AlterTableType::AT_EnableAlwaysTrig
        | AlterTableType::AT_EnableReplicaTrig
        | AlterTableType::AT_EnableAlwaysRule
        | AlterTableType::AT_EnableReplicaRule => Some(FIRES),
        _ => None,
    }
}

/// Returns whether a new table has a generated column that depends on the rows' location, such as
/// `tableoid`.
pub fn has_place(create: &CreateStmt) -> bool {
    let mut elements = create.table_elts().iter();
    elements.any(|element| match element {
        Node::ColumnDef(column) => is_of_place(column),
        _ => false,
    })
}

fn is_of_place(column: &ColumnDef) -> bool {
    let mut constraints = column.constraints().iter();
    constraints.any(|constraint| match constraint {
        Node::Constraint(it) if it.contype == ConstrType::CONSTR_GENERATED => {
            let nothing = super::Catalogue::default();
            has_system_column(&StatementFacts::of(&nothing, [it.raw_expr()]))
        }
        _ => false,
    })
}

fn has_system_column(facts: &StatementFacts) -> bool {
    SYSTEM_COLUMNS
        .iter()
        .any(|name| facts.names.contains(*name))
}

/// Returns whether a new column may have other values elsewhere.
fn fills(names: &NameScope<'_>, table: Option<&Relation>, column: &ColumnDef) -> bool {
    let Some(target) = column.type_name() else {
        return true;
    };
    let last = last_name(target);
    if last.contains("serial") || is_of_place(column) {
        return true;
    }
    let mut default = column.raw_default();
    for constraint in column.constraints().iter() {
        let Node::Constraint(constraint) = constraint else {
            return true;
        };
        match constraint.contype {
            ConstrType::CONSTR_IDENTITY => return true,
            ConstrType::CONSTR_DEFAULT => default = constraint.raw_expr(),
            // PostgreSQL accepts only immutable expressions.
            ConstrType::CONSTR_GENERATED => return false,
            _ => {}
        }
    }
    match default {
        Node::None => names.catalogue.domains_with_default.contains(last),
        default => is_different(names, table, (default, target)),
    }
}

/// Returns whether the conversion of a column to a new type may result in other values on another
/// server.
fn converts(
    names: &NameScope<'_>,
    table: Option<&Relation>,
    (name, column): (&str, &ColumnDef),
) -> bool {
    let Some(target) = column.type_name() else {
        return true;
    };
    if names.catalogue.has_user_casts {
        return true;
    }
    match column.raw_default() {
        // An assignment: of a text to nothing but other texts.
        Node::None => {
            let before = table
                .and_then(|table| table.column(name))
                .map(|it| it.type_oid);
            match time_of(names, target) {
                TimeDependence::Timeless => false,
                TimeDependence::Reads => before.is_none_or(|before| !NO_TEXTS.contains(&before)),
                TimeDependence::Unknown => {
                    before.is_none_or(|before| before == TIMETZ) || is_timetz(target)
                }
            }
        }
        using => is_different(names, table, (using, target)),
    }
}

/// Returns whether an expression that becomes a value of this type may give another one elsewhere.
fn is_different(
    names: &NameScope<'_>,
    table: Option<&Relation>,
    (expression, target): (Node<'_>, &TypeName),
) -> bool {
    let facts = StatementFacts::of(names.catalogue, [expression]);
    let has_word = facts.texts.iter().any(|text| reads_clock(text));
    let is_constant = is_constant(expression);
    if is_constant {
        // For every type, its input gives the same as on the primary.
        return has_word || is_timetz(target);
    }
    let is_same = |(name, count): &(String, usize)| {
        let is_builtin = !names.catalogue.user_functions.contains(name);
        is_builtin
            && (names.catalogue.immutable_functions.contains(name)
                || SAME.contains(&(name, *count))
                || SAME_WITH_ANY.contains(&name.as_str()))
    };
    let differs = facts.unknown
        || facts.primary.is_some()
        || facts.transaction_time
        || facts.asks_for_time
        || has_word
        || has_system_column(&facts)
        || !facts.calls.iter().all(is_same);
    if differs {
        return true;
    }
    let column = |name: &String| table.and_then(|table| table.column(name));
    let columns = || facts.names.iter().map(column);
    // Its zone may be that of now.
    if columns().any(|it| it.is_none_or(|it| it.type_oid == TIMETZ)) && !facts.calls.is_empty() {
        return true;
    }
    let casts = facts.casts.iter().copied().chain([target]);
    casts
        .map(|cast| time_of(names, cast))
        .any(|time| match time {
            TimeDependence::Timeless => false,
            TimeDependence::Reads => {
                let reads_text =
                    |it: Option<&ColumnInfo>| it.is_none_or(|it| !NO_TEXTS.contains(&it.type_oid));
                let mut calls = facts.calls.iter();
                columns().any(reads_text)
                    || !calls.all(|(name, _)| NO_TEXT_FUNCTIONS.contains(&name.as_str()))
                    || facts.has_operators
            }
            TimeDependence::Unknown => true,
        })
}

/// Returns whether an expression is a constant, perhaps cast to a type.
fn is_constant(expression: Node<'_>) -> bool {
    match expression {
        Node::A_Const(_) => true,
        Node::TypeCast(cast) => {
            matches!(cast.arg(), Node::A_Const(_)) && !cast.type_name().is_some_and(is_timetz)
        }
        _ => false,
    }
}

/// The dependence of a type's input on the current time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeDependence {
    /// It has the same value at all times.
    Timeless,
    /// It may read a keyword for the time.
    Reads,
    /// It is unknown.
    Unknown,
}

fn time_of(names: &NameScope<'_>, target: &TypeName) -> TimeDependence {
    let last = last_name(target);
    let parts: Vec<&str> = target
        .names()
        .iter()
        .filter_map(|name| name.sval())
        .collect();
    let is_builtin = match parts[..] {
        ["pg_catalog", _] => true,
        [_] => !names.catalogue.user_types.contains(last),
        _ => false,
    };
    match is_builtin && !target.setof && !target.pct_type {
        true if TIMELESS.contains(&last) => TimeDependence::Timeless,
        true if TIMES.contains(&last) => TimeDependence::Reads,
        _ => TimeDependence::Unknown,
    }
}

fn is_timetz(target: &TypeName) -> bool {
    last_name(target) == "timetz"
}

fn last_name(target: &TypeName) -> &str {
    let last = target.names().iter().next_back();
    last.and_then(|name| name.sval()).unwrap_or_default()
}

/// Returns whether a text may be read as the time at which that happens.
fn reads_clock(text: &str) -> bool {
    let mut words = text.split(|letter: char| !letter.is_ascii_alphabetic());
    words.any(|word| WORDS.iter().any(|it| word.eq_ignore_ascii_case(it)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::relation_of;
    use super::super::{Analyser, Catalogue};
    use super::*;

    /// Returns a table `t` with columns of some types, and some functions.
    fn catalogue() -> Catalogue {
        let types = [
            ("id", 23),
            ("word", 25),
            ("at", 1114),
            ("zoned", 1184),
            ("clock", 1266),
            ("amount", 701),
        ];
        let columns = types.map(|(name, type_oid)| (name.to_owned(), type_oid));
        let table = relation_of(20_000, columns);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Catalogue {
            relations: [(("public".into(), "t".into()), table)].into(),
            immutable_functions: names(&["upper", "abs", "btrim", "make_date"]),
            user_functions: names(&["mine"]),
            user_types: names(&["mood", "lucky"]),
            domains_with_default: names(&["lucky"]),
            ..Catalogue::default()
        }
    }

    fn is_refused(text: &str) -> bool {
        let analyser = Analyser::new(catalogue());
        let analysis = analyser.analyse(text, &["public".into()]);
        match &analysis[..] {
            [only] => matches!(
                only.action,
                StatementAction::Refused(_)
                    | StatementAction::MayFill(..)
                    | StatementAction::MayDiffer(..)
            ),
            _ => panic!("{text}"),
        }
    }

    #[test]
    fn deterministic_changes_may_run_again() {
        for part in [
            "ADD n int",
            "ADD n int DEFAULT 5",
            "ADD n text DEFAULT null",
            "ADD n timestamptz DEFAULT '2024-01-01 12:00'",
            "ADD n timestamptz[] DEFAULT '{}'",
            "ADD n mood DEFAULT 'sad'",
            "ADD n lucky DEFAULT 1",
            "ADD n jsonb NOT NULL DEFAULT '{}'::jsonb",
            "ADD n text DEFAULT upper('x')",
            "ADD n int GENERATED ALWAYS AS (length(word)) STORED",
            "ADD n text GENERATED ALWAYS AS (mine(word)) STORED",
            "ALTER word TYPE varchar(10)",
            "ALTER word TYPE int USING length(word)",
            "ALTER word TYPE int USING word::int + 1",
            "ALTER word TYPE text USING upper(btrim(word))",
            "ALTER at TYPE timestamptz",
            "ALTER at TYPE timestamptz USING at AT TIME ZONE 'UTC'",
            "ALTER zoned TYPE date USING zoned::date",
            "ALTER id TYPE timestamptz USING to_timestamp(id)",
            "ALTER zoned TYPE text",
            "ALTER amount TYPE text USING amount::text",
            "SET UNLOGGED",
            "ENABLE TRIGGER x",
        ] {
            let text = format!("ALTER TABLE t {part}");
            assert!(!is_refused(&text), "{part}");
        }
    }

    #[test]
    fn nondeterministic_changes_are_refused() {
        for part in [
            "ADD n timestamptz DEFAULT now()",
            "ADD n timestamptz DEFAULT CURRENT_TIMESTAMP",
            "ADD n timestamptz DEFAULT 'now'",
            "ADD n timestamp DEFAULT 'now'::timestamp",
            "ADD n timestamp DEFAULT ('now'::text)::timestamp",
            "ADD n timestamp DEFAULT ('no' || 'w')::timestamp",
            "ADD n date DEFAULT ' Tomorrow '",
            "ADD n tstzrange DEFAULT '[now,)'",
            "ADD n timestamptz[] DEFAULT '{now}'",
            "ADD n mood DEFAULT '(now)'",
            "ADD n timetz DEFAULT '12:00'",
            "ADD n float8 DEFAULT random()",
            "ADD n text DEFAULT current_user",
            "ADD n lucky",
            "ADD n public.lucky",
            "ADD n serial",
            "ADD n int GENERATED ALWAYS AS IDENTITY",
            "ADD n oid GENERATED ALWAYS AS (tableoid) STORED",
            "ADD n text DEFAULT mine('x')",
            "ADD n timestamptz DEFAULT '2024-01-01', ADD m timestamptz DEFAULT 'now'",
            "ALTER word TYPE timestamptz USING word::timestamptz",
            "ALTER word TYPE timestamptz USING 'now'::timestamptz",
            "ALTER word TYPE date USING upper(word)::date",
            "ALTER word TYPE text USING tableoid::text",
            "ALTER word TYPE text USING xmin::text",
            "ALTER word TYPE text USING ctid::text",
            "ALTER word TYPE text USING to_char(now(), 'YYYY')",
            "ALTER word TYPE mood USING word::mood",
            "ALTER clock TYPE time USING clock AT TIME ZONE 'Europe/Athens'",
            "ALTER at TYPE timetz USING at::time",
            "SET LOGGED",
            "ENABLE ALWAYS TRIGGER x",
            "ENABLE REPLICA TRIGGER x",
            "ENABLE ALWAYS RULE x",
            "ENABLE REPLICA RULE x",
        ] {
            assert!(is_refused(&format!("ALTER TABLE t {part}")), "{part}");
        }
        assert!(is_refused(
            "CREATE TABLE n (id int PRIMARY KEY, o oid GENERATED ALWAYS AS (tableoid) STORED)"
        ));
        assert!(is_refused("ALTER EVENT TRIGGER x ENABLE ALWAYS"));
        assert!(!is_refused("ALTER EVENT TRIGGER x ENABLE"));
    }
}
