//! Random histories: plain maps, tables in memory, and a store with little memory, tiny
//! segments, checkpoints and openings at random must never differ.

#![allow(
    clippy::unwrap_used,
    reason = "a failure to set up is a failure of the test"
)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use placement::Position;
use placement::tables::{MemoryTables, Tables};
use storage::log::{FlushTiming, ReplayItem};
use storage::tables::DurableTables;
use storage::{DurableStore, StoreOptions};

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn key(&mut self, spread: u64) -> Vec<u8> {
        let number = self.below(spread);
        let mut key = number.to_be_bytes()[5..].to_vec();
        key.extend((0..number % 4).map(|_| b'-'));
        key
    }
}

/// One change, as a record of the log.
enum Change {
    Put(u64, Vec<u8>, Vec<u8>),
    /// Puts unless there is a longer value.
    PutIf(u64, Vec<u8>, Vec<u8>),
    Delete(u64, Vec<u8>),
    Drop(u64),
}

impl Change {
    fn random(random: &mut Random, spread: u64) -> Self {
        let table = random.below(3);
        match random.below(1000) {
            0 => Change::Drop(table),
            1..300 => Change::Delete(table, random.key(spread)),
            kind => {
                let length = random.below(150) as usize;
                let byte = random.below(256) as u8;
                let (key, value) = (random.key(spread), vec![byte; length]);
                match kind % 2 {
                    0 => Change::Put(table, key, value),
                    _ => Change::PutIf(table, key, value),
                }
            }
        }
    }

    /// Returns what `put_if` has shown, if it was called.
    fn apply(&self, tables: &mut impl Tables) -> Option<Option<Vec<u8>>> {
        let mut shown = None;
        match self {
            Change::Put(table, key, value) => tables.put(*table, key, value),
            Change::PutIf(table, key, value) => {
                tables.announce(*table, &[key, b"", key]);
                // No read before it, so that the value may be in the cold store alone.
                let mut puts = false;
                let put = tables.put_if(*table, key, value, &mut |old| {
                    shown = Some(old.map(<[u8]>::to_vec));
                    puts = old.is_none_or(|old| old.len() <= value.len());
                    puts
                });
                assert_eq!(put, Ok(puts));
            }
            Change::Delete(table, key) => tables.delete(*table, key),
            Change::Drop(table) => tables.drop_table(*table),
        }
        shown
    }

    fn encode(&self) -> Vec<u8> {
        let (kind, table, key, value) = match self {
            Change::Put(table, key, value) => (0, table, &key[..], &value[..]),
            Change::Delete(table, key) => (1, table, &key[..], &[][..]),
            Change::Drop(table) => (2, table, &[][..], &[][..]),
            Change::PutIf(table, key, value) => (3, table, &key[..], &value[..]),
        };
        [&[kind, *table as u8, key.len() as u8], key, value].concat()
    }

    fn decode(bytes: &[u8]) -> Self {
        let (header, rest) = bytes.split_at(3);
        let (key, value) = rest.split_at(header[2].into());
        let (table, key, value) = (header[1].into(), key.to_vec(), value.to_vec());
        match header[0] {
            0 => Change::Put(table, key, value),
            1 => Change::Delete(table, key),
            3 => Change::PutIf(table, key, value),
            _ => Change::Drop(table),
        }
    }
}

fn open(folder: &Path, first: bool) -> (DurableStore, mpsc::Receiver<()>) {
    let options = StoreOptions {
        create: first,
        memory_bytes: 60_000,
        checkpoint_bytes: 100_000,
        segment_bytes: 32 * 1024,
        flush_interval: Duration::from_millis(1),
        ..StoreOptions::default()
    };
    let (sender, wakes) = mpsc::channel();
    let wake = move || sender.send(()).unwrap_or_default();
    let (mut store, recovery) = DurableStore::open(folder, 5, options, wake).unwrap();
    assert!(recovery.log.tail_trusted(), "{:?}", recovery.log.damage);
    assert_eq!(
        first,
        recovery.checkpoint.is_none() && recovery.log.records == 0
    );
    let saved = recovery
        .checkpoint
        .map_or(Position::ZERO, |mark| mark.position);
    let tables = &mut store.tables;
    recovery
        .log
        .replay(&mut |item| {
            match item {
                ReplayItem::Record(record) if record.position > saved => {
                    Change::decode(record.payload).apply(tables);
                }
                ReplayItem::Record(_) => {}
                ReplayItem::Gap(gap) => panic!("{gap:?} in an undamaged log"),
            }
            Ok(())
        })
        .unwrap();
    (store, wakes)
}

fn scan(
    tables: &impl Tables,
    table: u64,
    range: (&[u8], Option<&[u8]>),
    limit: usize,
    reverse: bool,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = vec![];
    let mut visit = |key: &[u8], value: &[u8]| {
        seen.push((key.to_vec(), value.to_vec()));
        match seen.len() < limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let scanned = match reverse {
        true => tables.scan_reverse(table, range.0, range.1, &mut visit),
        false => tables.scan(table, range.0, range.1, &mut visit),
    };
    scanned.unwrap();
    seen
}

fn compare(random: &mut Random, spread: u64, model: &MemoryTables, tables: &impl Tables) {
    let table = random.below(4);
    let (start, end) = (random.key(spread), random.key(spread));
    assert_eq!(
        tables.value(table, &start).unwrap(),
        model.value(table, &start).unwrap()
    );
    let end = (random.below(4) > 0).then_some(&end[..]);
    let start = if random.below(8) == 0 {
        &b""[..]
    } else {
        &start
    };
    let limit = [1, 10, 100, usize::MAX][random.below(4) as usize];
    let reverse = random.below(2) == 1;
    assert_eq!(
        scan(tables, table, (start, end), limit, reverse),
        scan(model, table, (start, end), limit, reverse),
    );
}

fn history(seed: u64) {
    println!("seed {seed}");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let spread = [50, 3_000, 100_000][random.below(3) as usize];
    let folder = tempfile::tempdir().unwrap();
    let mut model = MemoryTables::new();
    let mut hot = DurableTables::in_memory();
    let (mut store, mut wakes) = open(folder.path(), true);
    let mut checkpoints = 0;
    for step in 0..8_000 {
        let change = Change::random(&mut random, spread);
        store
            .log
            .append(0, &change.encode(), FlushTiming::Interval)
            .unwrap();
        let shown = change.apply(&mut model);
        assert_eq!(change.apply(&mut hot), shown);
        assert_eq!(change.apply(&mut store.tables), shown);
        if random.below(4) == 0 {
            store.submit();
        }
        if random.below(6) == 0 {
            compare(&mut random, spread, &model, &hot);
            compare(&mut random, spread, &model, &store.tables);
        }
        if store.checkpoint_due() || random.below(2000) == 0 {
            // Sometimes the machine still needs older records.
            let retain_from = store.log.last().0 + 1 - random.below(50).min(store.log.last().0);
            store.checkpoint(Position(retain_from));
            checkpoints += 1;
        }
        if store.checkpoint_running() && random.below(50) == 0 {
            while store.checkpoint_running() {
                wakes.recv().unwrap();
                store.submit();
            }
        }
        if random.below(2000) == 0 || step == 7_999 {
            store.close().unwrap();
            (store, wakes) = open(folder.path(), false);
        }
    }
    for table in 0..3 {
        let expected = scan(&model, table, (b"", None), usize::MAX, false);
        assert_eq!(scan(&hot, table, (b"", None), usize::MAX, false), expected);
        assert_eq!(
            scan(&store.tables, table, (b"", None), usize::MAX, false),
            expected
        );
    }
    assert!(checkpoints > 3);
}

#[test]
fn random_histories_agree() {
    for seed in 1..=6 {
        history(seed);
    }
}
