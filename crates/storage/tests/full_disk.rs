//! A store on a small file system that fills up: new writes are refused, nothing crashes, reads
//! and decisions go on, and everything is there after a restart. Needs the right to mount.

#![allow(
    clippy::unwrap_used,
    reason = "a failure to set up is a failure of the test"
)]

#[path = "../../../tests/needs.rs"]
mod needs;

use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use placement::Position;
use placement::tables::Tables;
use storage::log::{FlushTiming, LogAdmission, ReplayItem};
use storage::{DurableStore, StoreOptions};

struct Mount(tempfile::TempDir);

impl Mount {
    /// A file system of its own in memory; None without the right to make one.
    fn new(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .status();
        status
            .is_ok_and(|status| status.success())
            .then_some(Self(folder))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

fn key(position: u64) -> [u8; 8] {
    position.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn open(folder: &Path) -> (DurableStore, mpsc::Receiver<()>) {
    let options = StoreOptions {
        memory_bytes: 1 << 20,
        checkpoint_bytes: 1 << 20,
        segment_bytes: 512 * 1024,
        flush_interval: Duration::from_millis(1),
        ..StoreOptions::default()
    };
    let (sender, wakes) = mpsc::channel();
    let wake = move || sender.send(()).unwrap_or_default();
    let (mut store, recovery) = DurableStore::open(folder, 3, options, wake).unwrap();
    assert!(recovery.log.tail_trusted(), "{:?}", recovery.log.damage);
    let tables = &mut store.tables;
    let mut replay = |item: ReplayItem| {
        if let ReplayItem::Record(record) = item {
            tables.put(0, &key(record.position.0), record.payload);
        }
        Ok(())
    };
    recovery.log.replay(&mut replay).unwrap();
    (store, wakes)
}

fn append(store: &mut DurableStore, wakes: &mpsc::Receiver<()>) {
    let position = store.log.last().next();
    let payload = vec![position.0 as u8; 1000];
    store.log.append(0, &payload, FlushTiming::Now).unwrap();
    store.tables.put(0, &key(position.0), &payload);
    store.submit();
    while store.log.durable() < position {
        store.health().unwrap();
        wakes.recv().unwrap();
        store.submit();
    }
}

fn check(store: &DurableStore) {
    for position in 1..=store.log.last().0 {
        let found = store.tables.value(0, &key(position)).unwrap();
        assert_eq!(
            found.as_deref(),
            Some(&[position as u8; 1000][..]),
            "{position}"
        );
    }
}

#[test]
fn full_disk_refuses_and_recovers() {
    let need = "the right to mount a tmpfs, which root has";
    let Some(mount) = needs::require(need, Mount::new("24m")) else {
        return;
    };
    let folder = mount.0.path().join("core");
    let ballast = mount.0.path().join("ballast");
    let (mut store, wakes) = open(&folder);
    for _ in 0..3000 {
        append(&mut store, &wakes);
        if store.checkpoint_due() {
            store.checkpoint(store.log.last().next());
        }
    }
    // Another process takes the rest of the disk.
    std::fs::write(&ballast, vec![1; 64 << 20]).unwrap_err();
    let mut refused = false;
    for _ in 0..3000 {
        match store.admission(1024) {
            LogAdmission::Open => append(&mut store, &wakes),
            LogAdmission::Busy => {
                let _ = wakes.recv_timeout(Duration::from_millis(20));
                store.submit();
            }
            LogAdmission::Reserve | LogAdmission::Full => {
                refused = true;
                break;
            }
        }
        if store.checkpoint_due() {
            store.checkpoint(store.log.last().next());
        }
    }
    assert!(refused, "a full disk was never noticed");
    // Decisions on admitted operations go on, and so do reads.
    for _ in 0..20 {
        append(&mut store, &wakes);
    }
    check(&store);
    store.close().unwrap();
    // A restart needs no further space.
    let (mut store, wakes) = open(&folder);
    check(&store);
    std::fs::remove_file(&ballast).unwrap();
    store.checkpoint(store.log.last().next());
    while store.checkpoint_running() {
        let _ = wakes.recv_timeout(Duration::from_millis(100));
        store.submit();
    }
    while store.admission(1024) != LogAdmission::Open {
        let _ = wakes.recv_timeout(Duration::from_millis(20));
        store.submit();
    }
    for _ in 0..100 {
        append(&mut store, &wakes);
    }
    check(&store);
    assert!(store.last_checkpoint().unwrap().position > Position(3000));
}
