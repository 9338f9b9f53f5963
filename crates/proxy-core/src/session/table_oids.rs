//! Replaces the OIDs of tables in a replica's row descriptions by those of the primary, which the
//! client knows.

use alloc::vec::Vec;
use bytes::{Buf, BufMut, BytesMut};

use pg_wire::framing::HEADER_LEN;

/// Bytes of a column's description behind the table and the column's number in it.
const FURTHER_LEN: usize = 12;

/// The OIDs of a batch's tables at its server and on the primary. For the client, the column of a
/// table without an entry has no table, like the value of an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TableOidMap {
    /// The OIDs are unknown.
    #[default]
    Unknown,
    /// There is only one table, with this OID on the primary.
    One(u32),
    /// OIDs of several tables, at the replica and on the primary.
    Pairs(Vec<(u32, u32)>),
}

impl TableOidMap {
    /// Adds the OIDs of more tables.
    pub(super) fn add(&mut self, further: &[(u32, u32)]) {
        match self {
            _ if further.is_empty() => {}
            TableOidMap::Pairs(known) => {
                for pair in further {
                    if !known.contains(pair) {
                        known.push(*pair);
                    }
                }
            }
            TableOidMap::Unknown | TableOidMap::One(_) => {
                *self = TableOidMap::Pairs(further.to_vec())
            }
        }
    }

    fn on_primary(&self, there: u32) -> u32 {
        match self {
            TableOidMap::Unknown => 0,
            TableOidMap::One(number) => *number,
            TableOidMap::Pairs(pairs) => {
                let found = pairs.iter().find(|(known, _)| *known == there);
                found.map_or(0, |(_, number)| *number)
            }
        }
    }

    /// Writes a RowDescription with the primary's OIDs.
    pub(super) fn write(&self, frame: &[u8], out: &mut BytesMut) {
        let start = out.len();
        out.extend_from_slice(frame);
        let mut rest = out.get_mut(start + HEADER_LEN + 2..).unwrap_or_default();
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            let Some((column, after)) = rest[end + 1..].split_at_mut_checked(6) else {
                return;
            };
            let there = (&column[..]).get_u32();
            if there != 0 {
                let number = self.on_primary(there);
                (&mut column[..4]).put_u32(number);
                if number == 0 {
                    column[4..].fill(0);
                }
            }
            rest = after.get_mut(FURTHER_LEN..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn described(columns: &[(&str, u32, u16)]) -> Vec<u8> {
        let mut frame = b"T\0\0\0\0\0\x02".to_vec();
        for (name, table, number) in columns {
            frame.extend_from_slice(name.as_bytes());
            frame.put_u8(0);
            frame.put_u32(*table);
            frame.put_u16(*number);
            frame.extend_from_slice(b"further data");
        }
        frame
    }

    #[test]
    fn numbers_become_the_primarys() {
        let there = [
            ("a", 20_000, 1),
            ("", 0, 0),
            ("c", 20_001, 3),
            ("d", 20_002, 1),
        ];
        let pairs = TableOidMap::Pairs(vec![(20_000, 30_000), (20_001, 20_000)]);
        let two = [("a", 30_000, 1), ("", 0, 0), ("c", 20_000, 3), ("d", 0, 0)];
        let none = [("a", 0, 0), ("", 0, 0), ("c", 0, 0), ("d", 0, 0)];
        let one = [("a", 7, 1), ("", 0, 0), ("c", 7, 3), ("d", 7, 1)];
        for (numbers, expected) in [
            (pairs, two),
            (TableOidMap::Unknown, none),
            (TableOidMap::One(7), one),
        ] {
            let mut out = BytesMut::from(&b"before"[..]);
            numbers.write(&described(&there), &mut out);
            assert_eq!(out[b"before".len()..], described(&expected), "{numbers:?}");
            for length in 0..described(&there).len() {
                let mut out = BytesMut::new();
                numbers.write(&described(&there)[..length], &mut out);
                assert_eq!(out.len(), length);
            }
        }
    }
}
