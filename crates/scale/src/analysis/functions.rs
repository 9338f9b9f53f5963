//! Which of PostgreSQL's own functions and types are the same on every node.
//!
//! Immutable ones are known from the catalogue. These lists are of the others: a stable function is
//! here if it depends on nothing but its arguments, the time and settings that the proxy carries to
//! every node. Everything else is unknown, and what calls it goes to the Primary.

use super::catalogue::Catalogue;

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

/// Those of them that give or use the time at which the transaction began.
pub const OF_TRANSACTION_TIME: &[&str] = &["age", "now", "transaction_timestamp"];

/// Texts that are read as the time at which the transaction began, or a day beside it.
pub const TIMES: &[&str] = &["now", "today", "tomorrow", "yesterday"];

/// Volatile functions whose effects, if they have any, are sequences' values, chance, or locks that pools of drivers give
/// back: they touch no table. A statement with one runs on the Primary.
const VOLATILE: &[&str] = &[
    "clock_timestamp",
    "currval",
    "gen_random_uuid",
    "lastval",
    "nextval",
    "pg_advisory_unlock_all",
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

/// Whether a call of this function may run on any node, and touches no table.
pub fn is_same_everywhere(catalogue: &Catalogue, name: &str) -> bool {
    !catalogue.user_functions.contains(name)
        && (catalogue.immutable_functions.contains(name) || STABLE.contains(&name))
}

/// Whether a call of this function touches no table.
pub fn touches_no_table(catalogue: &Catalogue, name: &str) -> bool {
    is_same_everywhere(catalogue, name)
        || (!catalogue.user_functions.contains(name) && VOLATILE.contains(&name))
}

/// Whether values can be cast to this type on any node.
pub fn is_plain_type(catalogue: &Catalogue, name: &str) -> bool {
    !catalogue.user_types.contains(name) && TYPES.contains(&name)
}
