//! The asynchronous client of Replex. It sends each request to the core that holds the key, keeps
//! many requests in flight, and repeats lost requests so that each takes effect exactly once. If
//! the outcome of a request cannot be known, it returns [`Error::Unknown`].
//!
//! ```no_run
//! use client::{Client, ColumnType, ConnectOptions, IfExists, RequestResult, SchemaBuilder, Value};
//!
//! # async fn example() -> Result<(), client::Error> {
//! let client = Client::connect(ConnectOptions::new(["127.0.0.1:7400"])).await?;
//! let schema = SchemaBuilder::new("flights")
//!     .column("id", ColumnType::Int64)
//!     .column("tail", ColumnType::Text)
//!     .primary_key(&["id"])
//!     .index("by_tail", &["tail"])
//!     .build()?;
//! client.create_table(schema, IfExists::Accept).await?;
//!
//! let flights = client.table("flights").await?;
//! let row = [Value::Int64(1), Value::Text("N14228".into())];
//! match flights.insert(&row).await? {
//!     RequestResult::Applied { version } => println!("written as version {}", version.0),
//!     // A flight with this id exists already, for example: nothing was written.
//!     other => println!("{}", flights.explain(&other)),
//! }
//!
//! // Every index is a full copy: one hop, whichever key is known.
//! let rows = flights.lookup("by_tail", &[Value::Text("N14228".into())])?.await?;
//! assert_eq!(rows[0].values, row);
//! # Ok(())
//! # }
//! ```
//! `examples/flights.rs` is a longer one, which runs against a cluster.
//!
//! A [`Client`] is cheap to clone and may be used from any task. It needs a tokio runtime, with one
//! thread or several, for as long as it lives.
//!
//! A write returns a [`RequestResult`], which the caller must check: a duplicate key or a condition
//! that did not hold is a result, not an [`Error`]. [`Error::retry`] returns whether a request may
//! be repeated.
//!
//! Crate `session` decides where requests go and when they are repeated. The simulator runs the
//! same code. This crate adds sockets and time. It must not know how servers store rows.

#![forbid(unsafe_code)]

mod alterations;
mod checksum;
mod client;
mod coordinator;
mod coordinator_call;
mod copies;
mod defaults;
mod error;
mod framing;
mod greeting;
mod hub;
mod index_read;
mod known_statistics;
mod lookup;
mod options;
mod range;
mod read_options;
mod roles;
mod rows;
mod schema;
mod sequence;
mod sequence_blocks;
mod snapshot;
mod statistics;
mod table;
mod tolerance;
mod transaction;

pub use alterations::Cascade;
pub use defaults::{default_value, now_us, random_uuid};
pub use placement::{
    Alteration, Column, ColumnDefault, ColumnType, ComputedDefault, Constraint, Durability, Index,
    KeyError, Numeric, NumericError, NumericRef, RowError, Schema, SchemaError, SortColumn,
    ThinIndex, Value,
};
pub use protocol::configuration::Configuration;
pub use protocol::expression::{
    Assignment, BinaryOperator, Expression, FunctionCall, ScalarFunction, UnaryOperator,
};
pub use protocol::identity::{CoreId, ServerId, TableId, Version};
pub use protocol::message::{Consistency, CopyFailure, FillReport, Shortage, SnapshotFailure};
pub use protocol::operation::{Mutation, RequestResult};
pub use protocol::transaction::{AbortReason, ChangeOutcome, TransactionResult};

pub use checksum::Checksum;
pub use client::{Client, IfExists, IfMissing};
pub use copies::FillProgress;
pub use error::{Error, Retry, listed};
pub use lookup::{Lookup, Scan};
pub use options::{ConnectOptions, CredentialFiles, Credentials};
pub use range::IndexRange;
pub use rows::{Row, Rows};
pub use schema::{PARTITIONS_DEFAULT, SchemaBuilder};
pub use sequence::SequenceError;
pub use snapshot::Snapshot;
pub use table::{IndexSelector, Table};
pub use transaction::{Savepoint, Transaction, violation_text};
