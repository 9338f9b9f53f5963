//! Connects to servers that speak the PostgreSQL protocol: addresses, streams with and without TLS,
//! and the detection of silent peers.
//!
//! This crate must not know the messages over a connection once its client has logged in.

pub mod address;
pub mod silence;
pub mod stream;
pub mod tls;
