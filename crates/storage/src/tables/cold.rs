//! The cold store: sorted bytes on disk that memory does not hold. Only checkpoints write it.
//!
//! The LSM store of a library holds this data. A checkpoint is written by bulk ingestion, which
//! bypasses the library's journal and becomes visible as a whole or not at all. The checkpoint's
//! position is an entry of the same ingestion, so that it is exactly as durable as the other
//! entries. Another module decides on the contents.

use std::ops::Bound;
use std::path::Path;

use fjall::config::PartitioningPolicy;
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions};
use placement::Position;
use placement::tables::TablesError;

use crate::error::StorageError;

/// The key of this module's own entry, which sorts before all keys of tables.
const CHECKPOINT_KEY: &[u8] = b"\x00checkpoint";
const TABLE_PREFIX: u8 = 1;
const KEY_PREFIX_BYTES: usize = 9;

/// The position of a checkpoint, and the first record that is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointMark {
    /// The tables include all records up to this one.
    pub position: Position,
    /// Records from here on are still needed, although the tables may include them.
    pub retain_from: Position,
}

impl CheckpointMark {
    /// Returns the first record that a restart replays.
    pub fn replay_from(&self) -> Position {
        self.position.next().min(self.retain_from)
    }

    fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.position.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.retain_from.0.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (position, retain_from) = bytes.split_first_chunk::<8>()?;
        Some(Self {
            position: Position(u64::from_le_bytes(*position)),
            retain_from: Position(u64::from_le_bytes(retain_from.try_into().ok()?)),
        })
    }
}

/// The cold store of one core. Clones share it. It can be read while a checkpoint is written.
#[derive(Clone)]
pub(crate) struct ColdStore {
    /// Keeps the library's background work alive.
    _database: Database,
    keyspace: Keyspace,
}

impl ColdStore {
    /// Opens or creates the store. Its filters, indexes and blocks use `cache_bytes` of memory.
    pub(crate) fn open(folder: &Path, cache_bytes: u64) -> Result<Self, StorageError> {
        // In parts, filters and indexes are read as far as they are needed; a whole filter is
        // hundreds of kilobytes, and was read again for every lookup once the cache was short.
        let options = || {
            KeyspaceCreateOptions::default()
                .filter_block_partitioning_policy(PartitioningPolicy::all(true))
                .index_block_partitioning_policy(PartitioningPolicy::all(true))
        };
        let open = || {
            let database = Database::builder(folder)
                .cache_size(cache_bytes)
                .worker_threads(1)
                .open()?;
            let keyspace = database.keyspace("tables", options)?;
            Ok(Self {
                _database: database,
                keyspace,
            })
        };
        open().map_err(|error: fjall::Error| StorageError::Io {
            action: format!("open the tables in {}", folder.display()),
            source: std::io::Error::other(error),
        })
    }

    /// Returns the last checkpoint; none if there is none.
    pub(crate) fn mark(&self) -> Result<Option<CheckpointMark>, StorageError> {
        let unreadable = || StorageError::Lost {
            what: "the position of the tables' checkpoint cannot be read".into(),
        };
        match self.keyspace.get(CHECKPOINT_KEY) {
            Err(_) => Err(unreadable()),
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => CheckpointMark::decode(&bytes)
                .map(Some)
                .ok_or_else(unreadable),
        }
    }

    pub(super) fn get(
        &self,
        table: u64,
        key: &[u8],
    ) -> Result<Option<fjall::UserValue>, TablesError> {
        self.keyspace.get(cold_key(table, key)).map_err(failed)
    }

    /// Returns entries with `start <= key < end`, in order. They can be read from both ends.
    pub(super) fn range(&self, table: u64, start: &[u8], end: Option<&[u8]>) -> ColdEntries {
        let end = match end {
            Some(end) => Bound::Excluded(cold_key(table, end)),
            // The first key after the table's own.
            None => match table.checked_add(1) {
                Some(next) => Bound::Excluded(cold_key(next, b"")),
                None => Bound::Excluded(vec![TABLE_PREFIX + 1]),
            },
        };
        let start = Bound::Included(cold_key(table, start));
        ColdEntries(self.keyspace.range::<Vec<u8>, _>((start, end)))
    }

    /// Returns the lowest table number from `first` on that has entries.
    pub(super) fn table_from(&self, first: u64) -> Result<Option<u64>, TablesError> {
        let range = cold_key(first, b"")..vec![TABLE_PREFIX + 1];
        let entry = self.keyspace.range::<Vec<u8>, _>(range).next();
        let key = entry.map(|entry| entry.key().map_err(failed)).transpose()?;
        Ok(key.map(|key| table_of(&key)))
    }

    /// Writes a checkpoint: the puts and deletes of `fill`, in ascending order of table and key,
    /// each key once. It becomes durable and visible as a whole, or after an error not at all.
    pub(super) fn ingest(
        &self,
        mark: CheckpointMark,
        fill: impl FnOnce(&mut Ingestion) -> Result<(), TablesError>,
    ) -> Result<(), TablesError> {
        let mut inner = self.keyspace.start_ingestion().map_err(failed)?;
        let mut write = |key: Vec<u8>, value: Option<&[u8]>| {
            let written = match value {
                Some(value) => inner.write(key, value),
                None => inner.write_tombstone(key),
            };
            written.map_err(failed)
        };
        write(CHECKPOINT_KEY.to_vec(), Some(&mark.encode()))?;
        fill(&mut Ingestion { write: &mut write })?;
        inner.finish().map_err(failed)
    }

    /// Returns the bytes of the store on disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.keyspace.disk_space()
    }
}

pub(super) struct ColdEntries(fjall::Iter);

/// A key without the number of its table, and its value.
pub(super) type ColdEntry = (Vec<u8>, fjall::UserValue);

impl ColdEntries {
    fn entry(guard: Guard) -> Result<ColdEntry, TablesError> {
        let (key, value) = guard.into_inner().map_err(failed)?;
        Ok((key[KEY_PREFIX_BYTES..].to_vec(), value))
    }
}

impl Iterator for ColdEntries {
    type Item = Result<ColdEntry, TablesError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Self::entry)
    }
}

impl DoubleEndedIterator for ColdEntries {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(Self::entry)
    }
}

/// A checkpoint that is being written.
pub(super) struct Ingestion<'a> {
    write: &'a mut Write<'a>,
}

/// Writes a key with its value, or its absence.
type Write<'a> = dyn FnMut(Vec<u8>, Option<&[u8]>) -> Result<(), TablesError> + 'a;

impl Ingestion<'_> {
    pub(super) fn put(&mut self, table: u64, key: &[u8], value: &[u8]) -> Result<(), TablesError> {
        (self.write)(cold_key(table, key), Some(value))
    }

    pub(super) fn delete(&mut self, table: u64, key: &[u8]) -> Result<(), TablesError> {
        (self.write)(cold_key(table, key), None)
    }
}

fn cold_key(table: u64, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(KEY_PREFIX_BYTES + key.len());
    bytes.push(TABLE_PREFIX);
    bytes.extend_from_slice(&table.to_be_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// Returns the table of a key that [`cold_key`] made.
fn table_of(key: &[u8]) -> u64 {
    let number = key[1..KEY_PREFIX_BYTES].try_into();
    u64::from_be_bytes(number.expect("a key of a table has its whole prefix"))
}

fn failed(error: fjall::Error) -> TablesError {
    TablesError::new(format!("the cold tables cannot be used: {error}"))
}
