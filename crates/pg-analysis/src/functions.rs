//! Lists PostgreSQL's own functions and types whose results are the same on every node.
//!
//! Immutable ones are known from the catalogue. These lists are of the others: a stable function is
//! here if it depends on nothing but its arguments, the time and settings that the proxy carries to
//! every node. Everything else is unknown, and statements that call it go to the primary.

use pg_raw_parse::list::NodeList;
use pg_raw_parse::{ConstValue, Node};

use super::catalogue::Catalogue;

/// The columns of every table whose values differ between servers.
pub const SYSTEM_COLUMNS: &[&str] = &["cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"];

/// PostgreSQL's own functions that return how a server stores any value. `t.pg_typeof` is a call,
/// too.
pub const OF_ANY_VALUE: &[&str] = &[
    "pg_collation_for",
    "pg_column_compression",
    "pg_column_size",
    "pg_column_toast_chunk_id",
    "pg_typeof",
];

/// PostgreSQL's own types whose values differ between servers, and their arrays. Some identify
/// objects of the catalogue by OID (the `reg…` types, `aclitem`). The `age` of an `xid` counts the
/// server's transactions.
pub const TYPES_OF_NODES: &[u32] = &[
    24, 28, 1008, 1011, 1033, 1034, 2202, 2203, 2204, 2205, 2206, 2207, 2208, 2209, 2210, 2211,
    3734, 3735, 3769, 3770, 4089, 4090, 4096, 4097, 4191, 4192,
];

/// Functions that accept whole rows and return another type.
pub const HIDES_TYPE: &[&str] = &[
    "concat",
    "concat_ws",
    "count",
    "json_agg",
    "json_build_array",
    "json_build_object",
    "jsonb_agg",
    "jsonb_build_array",
    "jsonb_build_object",
    "row_to_json",
    "to_json",
    "to_jsonb",
];

/// Functions of [`STABLE`] with an optional configuration, which may be named by its number.
const OF_TEXT_SEARCH: &[&str] = &[
    "plainto_tsquery",
    "to_tsquery",
    "to_tsvector",
    "websearch_to_tsquery",
];

/// The reason why a call stays on the primary if its configuration may be given by number, which
/// only its constants show.
pub const BY_NUMBER: &str = "it may name a configuration by its number";

/// Returns whether a call may identify an object of the catalogue by its OID, which can belong to
/// another object on another server.
pub fn may_name_by_oid(name: &str, arguments: &NodeList) -> bool {
    let Some(first) = arguments.iter().next() else {
        return false;
    };
    let is_name = match first {
        Node::A_Const(constant) => matches!(
            constant.val(),
            Some(ConstValue::String(text)) if !text.trim_start().starts_with(|sign: char| {
                sign.is_ascii_digit()
            })
        ),
        _ => false,
    };
    OF_TEXT_SEARCH.contains(&name) && arguments.len() > 1 && !is_name
}

/// Stable functions that answer the same on every node.
const STABLE: &[&str] = &[
    "age",
    "array_agg",
    "array_to_json",
    "array_to_string",
    "concat",
    "concat_ws",
    "date_part",
    "date_trunc",
    "extract",
    "format",
    "generate_series",
    "json_agg",
    "json_build_array",
    "json_build_object",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_object_agg",
    "length",
    "now",
    "row_to_json",
    "statement_timestamp",
    "string_agg",
    "timezone",
    "to_char",
    "to_date",
    "to_json",
    "to_jsonb",
    "to_number",
    "to_timestamp",
    "to_tsquery",
    "to_tsvector",
    "plainto_tsquery",
    "transaction_timestamp",
    "websearch_to_tsquery",
];

/// The stable functions that return or use the time at which the transaction began.
pub const OF_TRANSACTION_TIME: &[&str] = &["age", "now", "transaction_timestamp"];

/// Texts that PostgreSQL reads relative to the start of the transaction: as this time (`now`), or
/// as the midnight of this day, of the next or of the previous day.
pub const TIMES: &[&str] = &["now", "today", "tomorrow", "yesterday"];

/// Volatile functions whose effects, if they have any, are sequences' values, chance, locks or
/// messages, or that look at the server: they write no table. A statement with one runs on the
/// primary.
const VOLATILE: &[&str] = &[
    "clock_timestamp",
    "currval",
    "gen_random_uuid",
    "lastval",
    "nextval",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_all",
    "pg_advisory_unlock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_blocking_pids",
    "pg_cancel_backend",
    "pg_control_system",
    "pg_current_wal_flush_lsn",
    "pg_current_wal_insert_lsn",
    "pg_current_wal_lsn",
    "pg_database_size",
    "pg_indexes_size",
    "pg_is_in_recovery",
    "pg_last_wal_receive_lsn",
    "pg_last_wal_replay_lsn",
    "pg_last_xact_replay_timestamp",
    "pg_notify",
    "pg_relation_size",
    "pg_sequence_last_value",
    "pg_sleep",
    "pg_sleep_for",
    "pg_sleep_until",
    "pg_table_size",
    "pg_tablespace_size",
    "pg_terminate_backend",
    "pg_total_relation_size",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
    "random",
    "setval",
    "timeofday",
];

/// Types whose input and output no user can change.
const TYPES: &[&str] = &[
    "bit",
    "bool",
    "bpchar",
    "bytea",
    "date",
    "float4",
    "float8",
    "inet",
    "int2",
    "int4",
    "int8",
    "interval",
    "json",
    "jsonb",
    "numeric",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "uuid",
    "varbit",
    "varchar",
];

/// Other types of PostgreSQL's own. Their values or texts read the node's catalogue, or they are
/// rare. A statement that casts to one runs on the primary.
const OTHER_TYPES: &[&str] = &[
    "aclitem",
    "char",
    "cid",
    "cidr",
    "jsonpath",
    "macaddr",
    "money",
    "name",
    "oid",
    "oidvector",
    "pg_lsn",
    "pg_snapshot",
    "regclass",
    "regcollation",
    "regconfig",
    "regdictionary",
    "regnamespace",
    "regoper",
    "regoperator",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
    "tid",
    "tsquery",
    "tsvector",
    "xid",
    "xid8",
    "xml",
];

/// Returns whether a call of this function may run on any server, and touches no table.
pub fn is_same_everywhere(catalogue: &Catalogue, name: &str) -> bool {
    !catalogue.user_functions.contains(name)
        && (catalogue.immutable_functions.contains(name) || STABLE.contains(&name))
}

/// Returns whether a call of this function changes no table.
pub fn touches_no_table(catalogue: &Catalogue, name: &str) -> bool {
    is_same_everywhere(catalogue, name)
        || (!catalogue.user_functions.contains(name)
            && (catalogue.steady_functions.contains(name) || VOLATILE.contains(&name)))
}

/// Returns whether a cast to this type gives the same value on any server.
pub fn is_plain_type(catalogue: &Catalogue, name: &str) -> bool {
    !catalogue.user_types.contains(name) && TYPES.contains(&name)
}

/// Returns whether this is a built-in type, to which no users' function casts.
pub fn is_own_type(catalogue: &Catalogue, name: &str) -> bool {
    !catalogue.user_types.contains(name) && OTHER_TYPES.contains(&name)
}
