//! The asynchronous client of Replex: finds the right core for every key, keeps many requests in
//! flight, repeats what was lost so that it still happens exactly once, and says *unknown* where
//! nobody can know.
//!
//! ```no_run
//! use client::placement::{ColumnType, Value};
//! use client::{Client, ConnectOptions, IfExists, SchemaBuilder};
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
//! flights.insert(&row).await?;
//!
//! // Every index is a full copy: one hop, whichever key is known.
//! let rows = flights.lookup("by_tail", &[Value::Text("N14228".into())])?.await?;
//! assert_eq!(rows[0].values, row);
//! # Ok(())
//! # }
//! ```
//! `examples/flights.rs` is a longer one, which runs against a cluster.
//!
//! A [`Client`] is cheap to clone and may be used from any task; it needs a tokio runtime, of one
//! thread or several, for as long as it lives. What is decided (routes, names, repeats) is
//! decided by `protocol::session`, which the simulator runs too; this crate adds sockets and time.
//! It must not know how servers store anything.

#![forbid(unsafe_code)]

mod checksum;
mod client;
mod coordinator;
mod copies;
mod error;
mod framing;
mod hub;
mod link;
mod lookup;
mod options;
mod rows;
mod schema;
mod table;

pub use placement;
pub use protocol;

pub use checksum::Sum;
pub use client::{Client, IfExists, IfMissing};
pub use copies::Fills;
pub use error::{Error, Retry};
pub use lookup::{By, Lookup, Scan};
pub use options::ConnectOptions;
pub use rows::{Row, Rows};
pub use schema::{PARTITIONS_DEFAULT, SchemaBuilder};
pub use table::Table;
