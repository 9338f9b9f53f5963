//! SQL of the store: text in, rows out.
//!
//! A statement is parsed ([`parse`]), given a meaning over a configuration ([`plan::plan`]), and
//! run. The first two are pure. Invariants: what PostgreSQL has and the store has not is refused
//! by name, never ignored; nothing is sent before the whole statement has been checked; a filter
//! and the ranges it is read by together say just what the `WHERE` said.
//!
//! This crate must not know of frames, epochs or retries: those are the client's.

mod bind;
mod error;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod model;
mod parse;
pub mod plan;
mod run;
mod script;
pub mod statement;
mod store;

pub use error::{Error, Progress, SyntaxError};
pub use parse::{FAILURES_TOLERATED_DEFAULT, PARTITIONS_DEFAULT, ParseError, Parsed, parse};
pub use run::{
    CHANGE_ROWS_MAX, CONFLICT_RETRIES_MAX, Outcome, OutputColumn, ROWS_HELD_MAX,
    ROWS_IN_FLIGHT_MAX, Rows, Session,
};
pub use store::{Store, StoreError};
