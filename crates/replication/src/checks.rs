//! CHECK constraints at replicas.
//!
//! A row that a replica applies has passed the primary's checks. A check whose result depends on
//! more than the row (the time, the user, a setting, other tables) could fail at the replica all
//! the same. Such a check is replaced by one of the same name that holds in sessions with
//! `session_replication_role = replica`, in which rows are applied. It is enforced for all others
//! once the replica is promoted. Checks that only call immutable functions of PostgreSQL's own stay
//! as they are: the planner uses them.
//!
//! A statement that merges a replaced check of a table with the same check of a table that inherits
//! from it fails at the replica, since there the two are no longer the same.

/// The statement that replaces checks; `{which}` stands for a condition on them.
const REPLACE: &str = include_str!("checks.sql");

/// Returns a statement that replaces every check constraint of the database that may fail at a
/// replica.
pub fn replace_all() -> String {
    REPLACE.replace("{which}", "true")
}

/// Returns a statement that replaces such check constraints that its own transaction has created.
pub fn replace_new() -> String {
    let is_new = "age(c.xmin) <= age(pg_current_xact_id()::xid)";
    REPLACE.replace("{which}", is_new)
}
