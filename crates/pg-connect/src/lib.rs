//! How peers that speak the PostgreSQL protocol are reached and recognised: addresses, streams with
//! and without TLS, passwords and certificates, and how long a silent peer is believed to be there.
//!
//! This crate must not know the messages over a connection once its client has logged in.

pub mod address;
pub mod auth;
pub mod silence;
pub mod stream;
