//! The login of clients at a server that speaks the PostgreSQL protocol: who may log in, and by
//! what. The store's front door and the proxy use it.
//!
//! ```text
//! admission        the rules: users, certificates, encryption
//! ├── password     the exchange about a password, as a machine without I/O
//! │   ├── scram    SCRAM-SHA-256 and SCRAM-SHA-256-PLUS
//! │   └── users    a file of users and their secrets
//! └── identity     the server's certificate
//!     └── certificate  names and channel bindings of certificates
//! ```
//!
//! Passwords come from files and URLs, and are never printed: a type that holds a password has no
//! `Debug` that shows it. This crate must not know sockets.

pub mod admission;
pub mod certificate;
pub mod identity;
pub mod password;
pub mod scram;
pub mod users;
