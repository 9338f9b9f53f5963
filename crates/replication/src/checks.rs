//! Replaces those CHECK constraints at replicas that could reject a row which the primary has
//! accepted.
//!
//! A row that a replica applies has passed the primary's checks. But a check could fail at the
//! replica if its result depends on more than the row (the time, the user, a setting, other
//! tables). Such a check is replaced by one of the same name that holds in sessions with
//! `session_replication_role = replica`, in which rows are applied. It is enforced for all others
//! once the replica is promoted. Checks that only call immutable functions of PostgreSQL's own stay
//! as they are: the planner uses them.
//!
//! A statement that merges such a check with the same check of a parent or a child table would fail
//! at the replica, since there the statement's check and the replaced one are not the same. The
//! primary refuses it (`hihooi.merges_check` in `schema_checks.sql`).

/// The statement that replaces checks; `{which}` and `{may_fail}` stand for conditions on them.
const REPLACE: &str = include_str!("checks.sql");

/// The condition in SQL that the check constraint `c`, a row of `pg_constraint`, may fail at a
/// replica.
pub const MAY_FAIL: &str = r"(c.conbin::text ~ '\{(SQLVALUEFUNCTION|COERCEVIAIO|XMLEXPR)'
            OR EXISTS (
              SELECT FROM regexp_matches(c.conbin::text, ':(?:funcid|opfuncid) (\d+)', 'g') AS calls (numbers)
                     JOIN pg_proc f ON f.oid = numbers[1]::oid
               WHERE f.provolatile <> 'i' OR f.oid >= 16384))";

/// Returns a statement that replaces every check constraint of the database that may fail at a
/// replica.
pub fn replace_all() -> String {
    replace("true")
}

/// Returns a statement that replaces such check constraints that its own transaction has created.
pub fn replace_new() -> String {
    let is_new = "age(c.xmin) <= age(pg_current_xact_id()::xid)";
    replace(is_new)
}

fn replace(which: &str) -> String {
    let statement = REPLACE.replace("{which}", which);
    statement.replace("{may_fail}", MAY_FAIL)
}
