//! Connects to peers that speak the PostgreSQL protocol, and authenticates them: addresses, streams
//! with and without TLS, passwords and certificates, and the detection of silent peers.
//!
//! This crate must not know the messages over a connection once its client has logged in.

pub mod address;
pub mod auth;
pub mod silence;
pub mod stream;
