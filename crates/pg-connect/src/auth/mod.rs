//! Authenticates clients, and logs in to servers: SCRAM-SHA-256 for both, bound to the TLS
//! connection if there is one, md5 for old servers, certificates for both.
//!
//! Passwords come from files and URLs, and are never printed: a type that holds a password has no
//! `Debug` that shows it.

pub mod certificate;
pub mod scram;
pub mod tls;
pub mod users;
