//! `COPY`: rows as lines of text or CSV, in PostgreSQL's formats.
//!
//! ```text
//! read     the bytes of a client, as lines and fields
//! target   the fields of a line or binary values, as a row of a table
//! batch    rows, as many as fit into one transaction
//! write    the rows of a result, as lines
//! ```
//!
//! The formats are written by hand and not by the crate `csv`: PostgreSQL distinguishes the fields
//! `""` and nothing, has an escape character of its own, and ends a file at `\.`. All parts are
//! without I/O, and hold at most a line and a transaction. The binary format is where the values of
//! the protocol are, in crate `pg-server`.

mod batch;
mod read;
mod target;
mod write;

pub use batch::CopyBatch;
pub use read::{CopyReader, LINE_LEN_MAX};
pub use target::{CopyFault, CopyTarget};
pub use write::CopyWriter;
