//! A page of rows with their versions, as cores send them to clients and to each other.

use alloc::vec::Vec;

use crate::codec::{Bytes, Wire, wire_struct};
use crate::identity::Version;

/// A page of rows. Each row is packed as a version (`u64`), a length (`u32`) and the row's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowPage {
    /// The number of rows in `rows`, or for a `count_only` read the number of counted rows.
    pub count: u64,
    /// The rows, packed.
    pub rows: Bytes,
    /// The `start` of the next page (or its `end`, if descending). None if this page is the last.
    pub next: Option<Bytes>,
    /// The microseconds for which nothing had changed in the range when the rows were read. None if
    /// the read stands alone.
    pub quiet_us: Option<u64>,
    /// Whether operations that change the page's rows wait from now on
    /// ([`Hold`](crate::message::Agreement::Hold)).
    pub held: bool,
    /// Only for present reads of a thin index: the indexes of marked entries in `rows`, rising. An
    /// unsettled operation adds or removes them (R28).
    pub marked: Vec<u32>,
    /// Only for redirected reads: `rows` and `next` are in the member's own order, because it
    /// cannot use the requested one.
    pub own_order: bool,
}

wire_struct!(RowPage {
    count,
    rows,
    next,
    quiet_us,
    held,
    marked,
    own_order
});

impl RowPage {
    /// Appends a row.
    pub fn push(&mut self, version: Version, row: &[u8]) {
        version.encode(&mut self.rows.0);
        u32::try_from(row.len())
            .expect("a row is at most 1 MiB")
            .encode(&mut self.rows.0);
        self.rows.0.extend_from_slice(row);
        self.count += 1;
    }

    /// Returns the rows. Ends early at malformed bytes.
    pub fn rows(&self) -> impl Iterator<Item = (Version, &[u8])> {
        let mut reader = crate::codec::Reader::new(&self.rows);
        core::iter::from_fn(move || {
            let version = Version::decode(&mut reader).ok()?;
            Some((version, reader.bytes().ok()?))
        })
    }
}
