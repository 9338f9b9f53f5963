//! Encodes and decodes the transaction states in the pages of the buffer.
//!
//! All numbers are little-endian. A state: TSID (8 bytes), transaction (4), whether it has
//! statements (1), number of tables (4); of each table its number (4), and the number of its rows
//! (4, all ones where they are not named) with the rows (8 each); why its changes cannot be done,
//! as length (4) and text, empty if they can; the length of what it does (8), and that, as `spill`
//! writes it. The last does not stand in the page where it is too long for memory, but in its
//! further rows.

use std::io;

use bytes::Bytes;

use super::super::apply;
use super::super::spill::{self, encode_length, encode_text};
use super::super::tstate::{CommitEffect, RecordedChanges, TState};
use proxy_core::freshness::sets::AffectingClass;
use proxy_core::freshness::{AccessSets, RowHash, TableOid, Tsid};

/// Stands for rows that are not named.
const ROWS_UNKNOWN: u32 = u32::MAX;

/// A transaction state from a page.
pub enum ReadRecord {
    /// The whole state.
    Whole(TState),
    /// A state whose changes follow in other pages.
    Continued {
        /// The state, which does nothing yet.
        tstate: TState,
        /// Bytes of its changes.
        length: u64,
        /// Why no replica can do that, if so.
        failure: Option<String>,
    },
}

/// Appends a state. Leaves out its changes if they are in a file.
pub fn encode(tstate: &TState, page: &mut Vec<u8>) -> io::Result<()> {
    page.extend(tstate.tsid.0.to_le_bytes());
    page.extend(tstate.xid.to_le_bytes());
    page.push(tstate.has_statements.into());
    encode_sets(&tstate.sets, page)?;
    match &tstate.effect {
        CommitEffect::Long(spill) => {
            encode_text(spill.failure().unwrap_or_default(), page)?;
            page.extend(spill.length().to_le_bytes());
        }
        CommitEffect::Recorded(recorded) => {
            encode_text(recorded.failure.as_deref().unwrap_or_default(), page)?;
            page.extend((recorded.parts.len() as u64).to_le_bytes());
            page.extend_from_slice(&recorded.parts);
        }
        CommitEffect::Short(changes) => {
            let mut parts = Vec::new();
            let mut failure = String::new();
            match apply::parts(changes) {
                Ok(all) => all
                    .iter()
                    .try_for_each(|it| spill::encode(it, &mut parts))?,
                Err(error) => failure = error.to_string(),
            }
            encode_text(&failure, page)?;
            page.extend((parts.len() as u64).to_le_bytes());
            page.extend(parts);
        }
    }
    Ok(())
}

fn encode_sets(sets: &AccessSets, page: &mut Vec<u8>) -> io::Result<()> {
    let tables: Vec<_> = sets.tables().collect();
    encode_length(tables.len(), page)?;
    for (table, sets) in tables {
        page.extend(table.0.to_le_bytes());
        let written = &sets.written().rows;
        if sets.class() != AffectingClass::Rows || written.is_all() {
            page.extend(ROWS_UNKNOWN.to_le_bytes());
            continue;
        }
        let rows: Vec<RowHash> = written.named().collect();
        encode_length(rows.len(), page)?;
        page.extend(rows.iter().flat_map(|row| row.0.to_le_bytes()));
    }
    Ok(())
}

/// Removes the first state of a page, and returns it.
pub fn decode(page: &mut Bytes) -> io::Result<ReadRecord> {
    let tsid = Tsid(u64::from_le_bytes(take(page)?));
    let xid = u32::from_le_bytes(take(page)?);
    let has_statements = take::<1>(page)? != [0];
    let mut writes = Vec::new();
    for _ in 0..u32::from_le_bytes(take(page)?) {
        let table = TableOid(u32::from_le_bytes(take(page)?));
        let rows = match u32::from_le_bytes(take(page)?) {
            ROWS_UNKNOWN => None,
            count => {
                let rows = (0..count).map(|_| Ok(RowHash(u64::from_le_bytes(take(page)?))));
                Some(rows.collect::<io::Result<_>>()?)
            }
        };
        writes.push((table, rows));
    }
    let length = u32::from_le_bytes(take(page)?) as usize;
    let failure = String::from_utf8(split(page, length)?.to_vec()).map_err(|_| broken())?;
    let failure = (!failure.is_empty()).then_some(failure);
    let length = u64::from_le_bytes(take(page)?);
    let is_continued = page.is_empty() && length > 0;
    let parts = match is_continued {
        true => Bytes::new(),
        false => split(page, usize::try_from(length).map_err(io::Error::other)?)?,
    };
    let in_memory = parts.len();
    let mut recorded = RecordedChanges { parts, failure };
    let failure = recorded.failure.take_if(|_| is_continued);
    let tstate = TState {
        tsid,
        xid,
        mark: None,
        effect: CommitEffect::Recorded(recorded),
        sets: TState::sets_of(writes, has_statements),
        has_statements,
        length: in_memory,
    };
    Ok(match is_continued {
        true => ReadRecord::Continued {
            tstate,
            length,
            failure,
        },
        false => ReadRecord::Whole(tstate),
    })
}

fn take<const N: usize>(page: &mut Bytes) -> io::Result<[u8; N]> {
    let bytes = split(page, N)?;
    Ok(*bytes.first_chunk().expect("it was split there"))
}

fn split(page: &mut Bytes, length: usize) -> io::Result<Bytes> {
    match page.len() >= length {
        true => Ok(page.split_to(length)),
        false => Err(broken()),
    }
}

/// Returns the error of a damaged page.
pub fn broken() -> io::Error {
    io::Error::other("a page of the transactions buffer is damaged")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tstate::statement;
    use proxy_core::freshness::TableAccess;

    fn state(tsid: u64, sets: AccessSets, effect: CommitEffect) -> TState {
        TState {
            tsid: Tsid(tsid),
            xid: 7,
            mark: None,
            effect,
            sets,
            has_statements: false,
            length: 0,
        }
    }

    fn whole(read: ReadRecord) -> TState {
        match read {
            ReadRecord::Whole(tstate) => tstate,
            ReadRecord::Continued { .. } => panic!("it is all there"),
        }
    }

    #[test]
    fn states_come_back() {
        let mut sets = AccessSets::default();
        sets.touch(
            TableOid(3),
            TableAccess::write_rows([RowHash(1), RowHash(2)]),
        );
        sets.touch(TableOid(4), TableAccess::write_table());
        let changes = vec![statement("SELECT 1"), statement("SELECT 2")];
        let parts = apply::parts(&changes).unwrap();
        let mut page = Vec::new();
        for (tsid, effect) in [
            (8, CommitEffect::Short(Vec::new())),
            (9, CommitEffect::Short(changes)),
        ] {
            encode(&state(tsid, sets.clone(), effect), &mut page).unwrap();
        }
        let mut page = Bytes::from(page);
        let first = whole(decode(&mut page).unwrap());
        assert!(first.effect.is_empty());
        let second = whole(decode(&mut page).unwrap());
        assert!(page.is_empty());
        assert_eq!((second.tsid, second.xid, &second.sets), (Tsid(9), 7, &sets));
        let CommitEffect::Recorded(recorded) = &second.effect else {
            panic!("it was recorded");
        };
        assert_eq!(recorded.parts().unwrap(), parts);
    }

    /// A schema change touches everything, here as there.
    #[test]
    fn statements_touch_everything() {
        let written = TState {
            has_statements: true,
            sets: TState::sets_of([(TableOid(3), None)], true),
            ..state(
                8,
                AccessSets::default(),
                CommitEffect::Short(vec![statement("DROP TABLE t")]),
            )
        };
        let mut page = Vec::new();
        encode(&written, &mut page).unwrap();
        let read = whole(decode(&mut Bytes::from(page)).unwrap());
        assert!(read.has_statements && read.sets.may_write_anything());
        assert_eq!(read.sets, written.sets);
    }

    #[tokio::test]
    async fn changes_beyond_memory_are_continued() {
        let mut spill = spill::SpillFile::new().unwrap();
        spill.add(&[statement("SELECT 1")]).await.unwrap();
        let (length, effect) = (spill.length(), CommitEffect::Long(spill));
        let mut page = Vec::new();
        encode(&state(8, AccessSets::default(), effect), &mut page).unwrap();
        let read = decode(&mut Bytes::from(page)).unwrap();
        let ReadRecord::Continued {
            tstate,
            length: written,
            failure,
        } = read
        else {
            panic!("it is elsewhere");
        };
        assert_eq!((tstate.tsid, written, failure), (Tsid(8), length, None));
    }

    proptest! {
        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let mut page = Bytes::from(bytes);
            while !page.is_empty() {
                if decode(&mut page).is_err() {
                    break;
                }
            }
        }
    }
}
