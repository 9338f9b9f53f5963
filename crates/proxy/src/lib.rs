//! Hihooi: a PostgreSQL proxy whose replicas answer consistently.
//!
//! Clients speak the PostgreSQL protocol to it. Writes go to the primary; each read goes to any
//! replica that is fresh for just what it reads. `wire`, `manager` and `analysis` do no I/O.
//!
//! It must not know the store's servers, partitions and messages.

pub mod address;
pub mod analysis;
pub mod auth;
pub mod check;
pub mod console;
pub mod local;
pub mod manager;
mod planted;
pub mod pool;
pub mod replication;
pub mod serve;
#[cfg(test)]
mod simulation;
mod sql;
mod told;
pub mod wire;
