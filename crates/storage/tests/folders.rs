//! Folders that are in use, another's, newer, incomplete or damaged: each is distinguished from the
//! others, and nothing is changed or made up.

#![allow(
    clippy::unwrap_used,
    reason = "a failure to set up is a failure of the test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use placement::tables::Tables;
use storage::log::FlushTiming;
use storage::store::QUIET;
use storage::{DurableStore, StorageError, StoreOptions};

const IDENTITY: u64 = 77;
const ROWS: u64 = 3000;

fn options(create: bool) -> StoreOptions {
    StoreOptions {
        create,
        memory_bytes: 1 << 20,
        segment_bytes: 64 * 1024,
        flush_interval: Duration::from_millis(1),
        ..StoreOptions::default()
    }
}

fn try_open(folder: &Path, identity: u64, create: bool) -> Result<DurableStore, StorageError> {
    DurableStore::open(folder, identity, options(create), || {}).map(|(store, _)| store)
}

fn error(folder: &Path, identity: u64, create: bool) -> StorageError {
    try_open(folder, identity, create).err().unwrap()
}

/// Every file and its bytes, but for the lock, which names the last process.
fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = vec![];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap() != "lock" {
                found.push((path.clone(), fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in content(from) {
        let path = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn value(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(8)
}

/// A closed store whose rows are all in the cold store.
fn checkpointed(folder: &Path) {
    let (sender, wakes) = mpsc::channel();
    let wake = move || sender.send(()).unwrap_or_default();
    let (mut store, _) = DurableStore::open(folder, IDENTITY, options(true), wake).unwrap();
    for number in 0..ROWS {
        store.log.append(0, b"row", FlushTiming::Interval).unwrap();
        store.tables.put(1, &number.to_be_bytes(), &value(number));
    }
    store.checkpoint(store.log.last().next());
    while store.checkpoint_running() {
        wakes.recv().unwrap();
        store.submit();
    }
    store.close().unwrap();
}

#[test]
fn a_quiet_log_is_due_for_a_checkpoint_before_a_busy_one() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        checkpoint_bytes: u64::MAX,
        quiet_checkpoint_bytes: 10_000,
        ..options(true)
    };
    let (mut store, _) = DurableStore::open(folder.path(), IDENTITY, options, || {}).unwrap();
    for _ in 0..10 {
        store.log.append(0, &[1; 1000], FlushTiming::Now).unwrap();
    }
    store.submit();
    let begun = Instant::now();
    while !store.checkpoint_due() {
        assert!(begun.elapsed() < 20 * QUIET, "it is never due");
        std::thread::yield_now();
    }
    store.close().unwrap();
}

#[test]
fn folder_in_use_names_folder_and_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = try_open(folder.path(), IDENTITY, true).unwrap();
    let error = error(folder.path(), IDENTITY, false);
    assert!(matches!(error, StorageError::Locked { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&folder.path().display().to_string()),
        "{text}"
    );
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    store.close().unwrap();
    try_open(folder.path(), IDENTITY, false).unwrap();
}

#[test]
fn newer_or_foreign_or_lost_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let lost = error(folder.path(), IDENTITY, false);
    assert!(matches!(lost, StorageError::Lost { .. }), "{lost}");
    checkpointed(folder.path());
    let before = content(folder.path());
    let foreign = error(folder.path(), IDENTITY + 1, true);
    assert!(matches!(foreign, StorageError::Foreign { .. }), "{foreign}");
    let manifest = folder.path().join("manifest");
    let good = fs::read(&manifest).unwrap();

    let mut newer = good.clone();
    newer[12] = 2;
    let checksum = crc32c::crc32c(&newer[12..]);
    newer[8..12].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&manifest, newer).unwrap();
    let newer = error(folder.path(), IDENTITY, true);
    assert!(
        matches!(newer, StorageError::NewerFormat { found: 2, .. }),
        "{newer}"
    );

    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 4;
        fs::write(&manifest, damaged).unwrap();
        let damaged = error(folder.path(), IDENTITY, true);
        assert!(matches!(damaged, StorageError::Lost { .. }), "{damaged}");
    }
    fs::remove_file(&manifest).unwrap();
    let lost = error(folder.path(), IDENTITY, true);
    assert!(matches!(lost, StorageError::Lost { .. }), "{lost}");
    fs::write(&manifest, &good).unwrap();
    assert_eq!(content(folder.path()), before);
    try_open(folder.path(), IDENTITY, false).unwrap();
}

#[test]
fn log_that_is_gone_is_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    checkpointed(folder.path());
    fs::remove_dir_all(folder.path().join("log")).unwrap();
    let lost = error(folder.path(), IDENTITY, true);
    assert!(matches!(lost, StorageError::Lost { .. }), "{lost}");
}

#[test]
fn damaged_cold_store_never_answers_wrongly() {
    let whole = tempfile::tempdir().unwrap();
    checkpointed(whole.path());
    let files = content(whole.path());
    let (path, bytes) = files
        .iter()
        .filter(|(path, _)| {
            path.strip_prefix(whole.path())
                .unwrap()
                .starts_with("tables")
        })
        .filter(|(_, bytes)| {
            bytes
                .windows(8)
                .any(|found| found == 1500_u64.to_be_bytes())
        })
        .max_by_key(|(_, bytes)| bytes.len())
        .unwrap();
    let path = path.strip_prefix(whole.path()).unwrap();
    let mut noticed = 0;
    for step in 0..12 {
        let damaged = tempfile::tempdir().unwrap();
        copy(whole.path(), damaged.path());
        let mut bytes = bytes.clone();
        let at = bytes.len() * step / 12 + 37;
        bytes[at] ^= 0x10;
        fs::write(damaged.path().join(path), bytes).unwrap();
        let Ok(store) = try_open(damaged.path(), IDENTITY, false) else {
            noticed += 1;
            continue;
        };
        let mut failed = false;
        for number in 0..ROWS {
            match store.tables.value(1, &number.to_be_bytes()) {
                Err(_) => failed = true,
                Ok(found) => assert_eq!(found, Some(value(number)), "flip at {at}"),
            }
        }
        noticed += usize::from(failed);
    }
    assert!(noticed >= 6, "{noticed} of 12 flips were noticed");
}
