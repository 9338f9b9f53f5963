//! Serves PostgreSQL's protocol on the store, so that drivers and tools of PostgreSQL work with it.
//!
//! ```text
//! connection   a socket, with or without TLS, and the login
//! ├── protocol     the machine of the protocol, without I/O: which message comes next
//! └── session      what the messages do: prepared statements, portals, transactions, COPY
//!     ├── statement    one statement, parsed and described
//!     ├── command      SET, SHOW and others, which the store does not know
//!     ├── settings     the settings of a session
//!     ├── audit        notes about changes of roles
//!     ├── functions    version(), current_database() and others
//!     ├── types        values as text and in binary
//!     └── errors       errors with PostgreSQL's SQLSTATEs
//! ```
//!
//! Messages and their bytes are in `pg-wire`, and logins in `pg-auth`; the proxy uses both as well.
//! Statements are in `sql`. Invariants: nothing that a client sends is ignored silently. All that
//! the server holds for a client has a named limit. An error after which a change may have taken
//! effect says so (R14).
//!
//! This crate must not know servers, partitions or epochs.

mod audit;
mod cancel;
mod catalogue;
mod command;
mod connection;
mod context;
mod definitions;
mod errors;
mod functions;
mod output;
mod protocol;
mod roles;
mod server;
mod session;
mod settings;
mod statement;
mod types;

pub use audit::{RoleJournal, RoleNote};
pub use context::{LoginJournal, LoginNote, LoginOutcome, ServerJournal, ServerLimits};
pub use protocol::MESSAGE_LEN_MAX;
pub use server::SqlServer;
pub use session::{HELD_BYTES_MAX, PORTALS_MAX, STATEMENT_LEN_MAX, STATEMENTS_MAX};
