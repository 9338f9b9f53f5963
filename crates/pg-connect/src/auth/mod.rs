//! Authentication: SCRAM-SHA-256 from clients and to servers, tied to TLS where there is TLS, md5
//! to old servers, certificates on both sides.
//!
//! Passwords come from files and URLs, and are never printed: a type that holds a password has no
//! `Debug` that shows it.

pub mod certificate;
pub mod scram;
pub mod tls;
pub mod users;
