//! A PostgreSQL proxy that sends reads to replicas and returns consistent answers.
//!
//! Clients speak the PostgreSQL protocol to it. Writes go to the primary. Each read goes to any
//! replica that is fresh enough for it. `serve` has the sessions, `console` the operators'
//! commands, `check` the requirements on databases.
//!
//! It must not know the store's servers, partitions and messages.

pub mod check;
pub mod console;
pub mod serve;
