//! The store's SQL: parses, plans and runs statements, and returns their rows.
//!
//! A statement is parsed ([`parse`]), given a meaning over a configuration ([`plan::plan`]), and
//! run by a [`SqlSession`] over a [`Store`], which is a `client::Client` in production. The first
//! two are pure. Invariants: a feature of PostgreSQL that the store does not have is refused by
//! name, never ignored. Nothing is sent before the whole statement has been checked. A filter and
//! the ranges it is read by together are equivalent to the `WHERE`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use client::{Client, ConnectOptions};
//! use sql::SqlSession;
//! use sql::format::{OutputFormat, write_outcome};
//! use std::io::{stderr, stdout};
//!
//! let client = Client::connect(ConnectOptions::new(["127.0.0.1:7400"])).await?;
//! let mut session = SqlSession::new(client);
//! let text = "SELECT * FROM flights WHERE tailnum = 'N14228'";
//! let outcomes = session.run_text(text).await?;
//! write_outcome(&mut stdout(), &mut stderr(), &outcomes[0], OutputFormat::Table)?;
//! # Ok(())
//! # }
//! ```
//!
//! This crate must not know of frames, epochs or retries: those are the client's.

mod adapter;
mod bind;
pub mod copy;
mod describe;
#[cfg(test)]
mod differential;
mod error;
#[cfg(test)]
mod fixture;
pub mod format;
pub mod import;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_definitions;
#[cfg(test)]
mod model_references;
#[cfg(test)]
mod model_sequences;
mod parse;
pub mod plan;
mod rights;
mod run;
mod script;
mod sequence_call;
mod session_functions;
pub mod shell;
mod spelling;
pub mod statement;
mod store;
mod zones;

pub use bind::argument_values;
pub use client::now_us;
pub use describe::{StatementDescription, describe};
pub use error::{
    ForeignKeyViolation, SqlError, StatementProgress, SyntaxError, TransactionFault, sqlstate,
};
pub use parse::{
    FAILURES_TOLERATED_DEFAULT, ParseError, ParsedStatement, UnparsedStatement, parse, split,
};
pub use plan::text::literal;
pub use rights::RoleRights;
pub use run::{
    CHANGE_ROWS_MAX, CONFLICT_ATTEMPTS_MAX, OutputColumn, ROWS_HELD_MAX, ROWS_IN_FLIGHT_MAX,
    ResultRows, RowSink, SqlSession, StatementOutcome, StreamOutcome,
};
pub use session_functions::SessionFunctions;
pub use store::{Store, StoreError};
pub use zones::{session_zone, time_input};
