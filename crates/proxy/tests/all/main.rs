//! The proxy in front of real PostgreSQL servers, one module per subject. All are one program, so
//! that the code they share is built and linked once:
//!
//! ```sh
//! cargo test -p proxy --test all sessions::      # one module
//! ```

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod as_prepared;
mod bad_input;
mod binding;
mod check;
mod client_certificates;
mod clients;
mod comparing;
mod console;
mod early;
mod effects;
mod every_type;
mod filling;
mod gone_back;
mod groups;
mod history;
mod many_rows;
mod names;
mod of_nodes;
mod of_servers;
mod orders;
mod processes;
mod promotion;
mod random_schemas;
mod refused_changes;
mod register;
mod replication;
mod result_types;
mod routing;
mod schema_changes;
mod seed;
mod sessions;
mod settings;
mod silence;
mod skipped;
mod snapshots;
mod standby;
mod support;
mod tls;
mod torn;
mod trace;
mod transactions;
mod two_failures;
mod two_proxies;
mod unix_sockets;
mod waiting;
