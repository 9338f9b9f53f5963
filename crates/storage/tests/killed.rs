//! A process that logs, applies and checkpoints is killed at random moments. Afterwards all records
//! that it had called durable are there, and the tables are exactly as the log describes.

#![allow(
    clippy::unwrap_used,
    reason = "a failure to set up is a failure of the test"
)]

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use placement::Position;
use placement::tables::{MemoryTables, Tables};
use storage::log::{FlushTiming, ReplayItem};
use storage::{DurableStore, StoreOptions};

/// Set in the process that is to be killed.
const FOLDER: &str = "REPLEX_KILLED_FOLDER";

/// The change of a record follows from its position alone, so that no process has to remember it.
fn apply(position: u64, tables: &mut impl Tables) {
    let mut state = position.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for _ in 0..3 {
        random(2);
    }
    let (table, key) = (random(2), random(2000).to_be_bytes());
    match random(3000) {
        0 => tables.drop_table(table),
        1..800 => tables.delete(table, &key),
        _ => tables.put(table, &key, &vec![position as u8; random(200) as usize]),
    }
}

fn open(folder: &Path) -> (DurableStore, mpsc::Receiver<()>) {
    let options = StoreOptions {
        memory_bytes: 100_000,
        checkpoint_bytes: 150_000,
        segment_bytes: 64 * 1024,
        flush_interval: Duration::from_millis(1),
        ..StoreOptions::default()
    };
    let (sender, wakes) = mpsc::channel();
    let wake = move || sender.send(()).unwrap_or_default();
    let (mut store, recovery) = DurableStore::open(folder, 9, options, wake).unwrap();
    assert!(recovery.log.tail_trusted(), "{:?}", recovery.log.damage);
    let saved = recovery
        .checkpoint
        .map_or(Position::ZERO, |mark| mark.position);
    let tables = &mut store.tables;
    let mut replay = |item: ReplayItem| {
        match item {
            ReplayItem::Record(record) if record.position > saved => {
                apply(record.position.0, tables);
            }
            ReplayItem::Record(_) => {}
            ReplayItem::Gap(gap) => panic!("{gap:?} in an undamaged log"),
        }
        Ok(())
    };
    recovery.log.replay(&mut replay).unwrap();
    (store, wakes)
}

/// Never returns: the test kills the process.
fn work(folder: &Path) {
    let (mut store, wakes) = open(folder);
    let mut printed = Position::ZERO;
    loop {
        while store.log.last().0 < store.log.durable().0 + 32 {
            let position = store.log.last().0 + 1;
            let payload = [0; 60];
            store.log.append(0, &payload, FlushTiming::Now).unwrap();
            apply(position, &mut store.tables);
        }
        store.submit();
        store.health().unwrap();
        if store.checkpoint_due() {
            let retain_from = Position(store.log.last().0.saturating_sub(20).max(1));
            store.checkpoint(retain_from);
        }
        if store.log.durable() > printed {
            printed = store.log.durable();
            println!("durable {printed}");
            std::io::stdout().flush().unwrap();
        } else {
            wakes.recv().unwrap();
        }
    }
}

fn all(tables: &impl Tables, table: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = vec![];
    let mut visit = |key: &[u8], value: &[u8]| {
        seen.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    tables.scan(table, b"", None, &mut visit).unwrap();
    seen
}

#[test]
fn durable_changes_survive_kill() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return work(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut model, mut applied, mut checkpoint) = (MemoryTables::new(), 0, Position::ZERO);
    for round in 1..=8_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "durable_changes_survive_kill", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let positions = lines.map_while(Result::ok).filter_map(|line| {
            let (_, position) = line.split_once("durable ")?;
            position.parse::<u64>().ok()
        });
        // Different moments of the cycle of checkpoints, which come every 1,600 records.
        let mut acknowledged = 0;
        for position in positions {
            acknowledged = position;
            if position > applied + 1500 + round * 397 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let (store, _wakes) = open(folder.path());
        let last = store.log.last().0;
        assert!(
            last >= acknowledged,
            "{acknowledged} was durable, the log ends at {last}"
        );
        assert!(acknowledged > applied, "round {round} did nothing");
        for position in applied + 1..=last {
            apply(position, &mut model);
        }
        applied = last;
        for table in 0..2 {
            assert_eq!(
                all(&store.tables, table),
                all(&model, table),
                "round {round}"
            );
        }
        let mark = store
            .last_checkpoint()
            .map_or(Position::ZERO, |mark| mark.position);
        assert!(mark >= checkpoint, "a checkpoint disappeared");
        checkpoint = mark;
        store.close().unwrap();
    }
    assert!(checkpoint.0 > 1000, "no checkpoint was ever completed");
}
