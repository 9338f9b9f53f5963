//! Tests the log on a disk in memory that loses unflushed data, fails, and becomes full.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::disk::{DiskFile, FolderDisk};
use crate::record::{Gap, record_bytes};

const SEGMENT_BYTES: u64 = 8 * 1024;

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Files in memory; writes are durable at once unless a test looks at `flushed`.
#[derive(Clone, Default)]
struct MemoryDisk {
    files: Arc<Mutex<BTreeMap<String, Bytes>>>,
    capacity: Arc<AtomicU64>,
    /// Writes of more than the zeroes that spare segments are filled with.
    writes: Arc<AtomicU64>,
    fail_sync: Arc<AtomicBool>,
}

impl MemoryDisk {
    fn new() -> Self {
        let disk = Self::default();
        disk.capacity.store(u64::MAX, Ordering::Relaxed);
        disk
    }

    fn file(&self, name: &str) -> io::Result<Bytes> {
        let files = lock(&self.files);
        files
            .get(name)
            .cloned()
            .ok_or(io::ErrorKind::NotFound.into())
    }

    fn used(&self) -> u64 {
        let files = lock(&self.files);
        files.values().map(|bytes| lock(bytes).len() as u64).sum()
    }

    /// Returns a deep copy, for trying different damage on one log.
    fn fork(&self) -> Self {
        let fork = Self::new();
        for (name, bytes) in lock(&self.files).iter() {
            let bytes = Arc::new(Mutex::new(lock(bytes).clone()));
            lock(&fork.files).insert(name.clone(), bytes);
        }
        fork
    }

    fn segments(&self) -> Vec<String> {
        let names = self.names().unwrap().into_iter();
        let names = names.filter(|name| segment::parse_segment_name(name).is_some());
        names.collect()
    }

    fn tail(&self) -> Bytes {
        self.file(self.segments().last().unwrap()).unwrap()
    }
}

struct MemoryFile(MemoryDisk, Bytes);

impl Disk for MemoryDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.files).keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(MemoryFile(self.clone(), self.file(name)?)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let bytes = Bytes::default();
        lock(&self.files).insert(name.into(), Arc::clone(&bytes));
        Ok(Box::new(MemoryFile(self.clone(), bytes)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = lock(&self.files);
        let bytes = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.into(), bytes);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = lock(&self.files).remove(name);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_folder(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(lock(&self.1).len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        let bytes = lock(&self.1);
        let found = bytes.get(start..start + buffer.len());
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let filled = bytes.iter().any(|byte| *byte != 0);
        self.0.writes.fetch_add(filled.into(), Ordering::Relaxed);
        let end = offset as usize + bytes.len();
        let grows = (end as u64).saturating_sub(self.bytes()?);
        if grows > 0 && self.0.used() + grows > self.0.capacity.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut file = lock(&self.1);
        if file.len() < end {
            file.resize(end, 0);
        }
        file[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        match self.0.fail_sync.load(Ordering::Relaxed) {
            true => Err(io::Error::other("planted flush error")),
            false => Ok(()),
        }
    }
}

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: SEGMENT_BYTES,
        flush_interval: Duration::from_millis(1),
        ..LogOptions::new(42)
    }
}

fn reopening() -> LogOptions {
    LogOptions {
        create: false,
        ..options()
    }
}

/// Returns an open log, and a channel on which its wake-ups arrive.
fn open(disk: &MemoryDisk, options: &LogOptions) -> (Log, Recovery, mpsc::Receiver<()>) {
    let (sender, wakes) = mpsc::channel();
    let wake = Box::new(move || sender.send(()).unwrap_or_default());
    let (log, recovery) = Log::open(Arc::new(disk.clone()), options, wake).unwrap();
    (log, recovery, wakes)
}

fn payload(position: u64) -> Vec<u8> {
    vec![position as u8; (position * 7 % 300) as usize + 1]
}

/// Appends records up to position `last` and waits until they are durable.
fn fill(log: &mut Log, wakes: &mpsc::Receiver<()>, last: u64) {
    while log.last().0 < last {
        let position = log.last().0 + 1;
        let flush = if position.is_multiple_of(3) {
            FlushTiming::Interval
        } else {
            FlushTiming::Now
        };
        let given = log
            .append(position / 10, &payload(position), flush)
            .unwrap();
        assert_eq!(given, Position(position));
        log.submit();
    }
    while log.durable() < log.last() {
        log.health().unwrap();
        wakes.recv().unwrap();
    }
}

/// Returns a closed log of records 1 to `last`.
fn written(last: u64) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (mut log, _, wakes) = open(&disk, &options());
    fill(&mut log, &wakes, last);
    log.close().unwrap();
    disk
}

fn replayed(recovery: &Recovery) -> (Vec<u64>, Vec<Gap>) {
    let (mut records, mut gaps) = (vec![], vec![]);
    recovery
        .replay(&mut |item| {
            match item {
                ReplayItem::Record(record) => {
                    assert_eq!(record.payload, payload(record.position.0));
                    assert_eq!(record.epoch, record.position.0 / 10);
                    records.push(record.position.0);
                }
                ReplayItem::Gap(gap) => gaps.push(gap),
            }
            Ok(())
        })
        .unwrap();
    (records, gaps)
}

fn up_to(last: u64) -> Vec<u64> {
    (1..=last).collect()
}

#[test]
fn records_return_in_order_over_many_segments_and_openings() {
    let disk = MemoryDisk::new();
    let mut expected = 0;
    for round in 0..6 {
        let options = if round == 0 { options() } else { reopening() };
        let (mut log, recovery, wakes) = open(&disk, &options);
        assert!(recovery.tail_trusted(), "{:?}", recovery.damage);
        assert_eq!(replayed(&recovery), (up_to(expected), vec![]));
        assert_eq!(recovery.records, expected);
        expected += 70;
        fill(&mut log, &wakes, expected);
        log.close().unwrap();
    }
    assert!(disk.segments().len() > 5);
}

#[test]
fn tail_moves_to_another_file_at_every_opening() {
    let disk = written(3);
    assert_eq!(disk.segments(), ["00000000000000000001-000000.log"]);
    drop(open(&disk, &reopening()));
    assert_eq!(disk.segments(), ["00000000000000000001-000001.log"]);
    drop(open(&disk, &reopening()));
    assert_eq!(disk.segments(), ["00000000000000000001-000002.log"]);
}

#[test]
fn interval_records_become_durable_by_themselves() {
    let disk = MemoryDisk::new();
    let (mut log, _, wakes) = open(&disk, &options());
    log.append(0, b"x", FlushTiming::Interval).unwrap();
    log.submit();
    while log.durable() < Position(1) {
        wakes.recv().unwrap();
    }
}

/// Returns options with which nothing is written before a test asks for it.
fn gathering() -> LogOptions {
    LogOptions {
        write_interval: Duration::from_secs(3600),
        flush_interval: Duration::from_secs(3600),
        ..options()
    }
}

#[test]
fn interval_records_are_written_with_the_next_that_asks_for_a_flush() {
    let disk = MemoryDisk::new();
    let (mut log, _, wakes) = open(&disk, &gathering());
    let before = disk.writes.load(Ordering::Relaxed);
    for _ in 0..5 {
        log.append(0, b"x", FlushTiming::Interval).unwrap();
        log.submit();
    }
    log.append(0, b"y", FlushTiming::Now).unwrap();
    log.submit();
    while log.durable() < Position(6) {
        wakes.recv().unwrap();
    }
    assert_eq!(disk.writes.load(Ordering::Relaxed) - before, 1);
}

#[test]
fn many_interval_records_are_written_before_their_time() {
    let disk = MemoryDisk::new();
    let (mut log, _, wakes) = open(&disk, &gathering());
    let record = [7; 512];
    for _ in 0..=GATHERED_BYTES_MAX / record.len() {
        log.append(0, &record, FlushTiming::Interval).unwrap();
        log.submit();
    }
    // They fill segments, and each but the last is flushed before the next begins.
    while log.durable() == Position(0) {
        wakes.recv().unwrap();
    }
}

#[test]
fn torn_tail_at_every_byte_of_the_last_two_records() {
    let disk = written(20);
    let tail_first = segment::parse_segment_name(disk.segments().last().unwrap())
        .unwrap()
        .0;
    let ends = (tail_first.0..=20).scan(BLOCK_BYTES, |end, position| {
        *end += record_bytes(payload(position).len());
        Some(*end)
    });
    let ends = ends.collect::<Vec<_>>();
    let (start, middle, end) = (
        ends[ends.len() - 3],
        ends[ends.len() - 2],
        ends[ends.len() - 1],
    );
    for keep in start..end {
        let disk = disk.fork();
        lock(&disk.tail())[keep..].fill(0);
        // A cut within the padding loses nothing.
        let padding = |position: u64| {
            record_bytes(payload(position).len()) - record::HEADER_BYTES - payload(position).len()
        };
        let last =
            18 + u64::from(keep >= middle - padding(19)) + u64::from(keep >= end - padding(20));
        let (log, recovery, _) = open(&disk, &reopening());
        if last == 18 {
            // Record 20 was appended when 18 or 19 was durable; it is gone, and with it all that
            // could show whether 19 was.
            assert_eq!(replayed(&recovery).0, up_to(18), "{keep}");
        } else {
            assert_eq!(replayed(&recovery), (up_to(last), vec![]), "{keep}");
            assert_eq!(log.last(), Position(last));
        }
    }
}

#[test]
fn flipped_bit_in_the_last_two_records() {
    let disk = written(20);
    let last = record_bytes(payload(20).len());
    let both = last + record_bytes(payload(19).len());
    let used = disk.tail();
    let end = lock(&used).iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let end = end.next_multiple_of(record::ALIGNMENT);
    for at in end - both..end {
        let disk = disk.fork();
        lock(&disk.tail())[at] ^= 1 << (at % 8);
        let (mut log, recovery, wakes) = open(&disk, &reopening());
        let (records, gaps) = replayed(&recovery);
        if records == up_to(20) {
            let payload_end = |start: usize, position: u64| {
                start + record::HEADER_BYTES + payload(position).len()
            };
            let padding = (payload_end(end - both, 19)..end - last).contains(&at)
                || (payload_end(end - last, 20)..end).contains(&at);
            assert!(padding, "a flip at {at} went unnoticed");
        } else if at >= end - last {
            assert_eq!((records, gaps), (up_to(19), vec![]), "{at}");
            assert!(recovery.tail_trusted());
        } else {
            let gap = Gap {
                from: Position(19),
                to: Position(20),
            };
            let expected = [up_to(18), vec![20]].concat();
            assert_eq!((records, gaps), (expected, vec![gap]), "{at}");
            assert!(!recovery.tail_trusted());
            // New records follow, and the damage is reported again.
            fill(&mut log, &wakes, 25);
            log.close().unwrap();
            let (_, again, _) = open(&disk, &reopening());
            assert_eq!(replayed(&again).1, [gap]);
            assert_eq!(again.damage[0].gap, gap);
        }
    }
}

#[test]
fn loss_below_the_recorded_durable_position_is_damage() {
    let disk = written(200);
    // A whole segment reads as zeroes; the next one records that all before it was durable.
    let names = disk.segments();
    lock(&disk.file(&names[1]).unwrap())[BLOCK_BYTES..].fill(0);
    let (_, recovery, _) = open(&disk, &reopening());
    let first = |name: &str| segment::parse_segment_name(name).unwrap().0;
    let gap = Gap {
        from: first(&names[1]),
        to: first(&names[2]),
    };
    assert_eq!(replayed(&recovery).1, [gap]);
    assert_eq!(recovery.damage.len(), 1);
    assert!(recovery.damage[0].was_durable);
    assert_eq!(recovery.damage[0].gap, gap);
}

#[test]
fn missing_segments_are_damage() {
    for missing in [0, 1, 2] {
        let disk = written(200);
        let names = disk.segments();
        disk.remove(&names[missing]).unwrap();
        let (_, recovery, _) = open(&disk, &reopening());
        assert!(!recovery.tail_trusted());
        assert_eq!(replayed(&recovery).1.len(), 1);
        assert!(recovery.damage[0].was_durable);
    }
    let disk = written(20);
    disk.remove(&disk.segments()[0]).unwrap();
    let disk = Arc::new(disk);
    let error = Log::open(disk, &reopening(), Box::new(|| {}))
        .err()
        .unwrap();
    assert!(matches!(error, StorageError::Lost { .. }), "{error}");
}

#[test]
fn damaged_header_is_damage_even_of_the_tail() {
    for from_end in [0, 1] {
        let disk = written(100);
        let names = disk.segments();
        let name = &names[names.len() - 1 - from_end];
        lock(&disk.file(name).unwrap())[20] ^= 1;
        let (log, recovery, _) = open(&disk, &reopening());
        assert!(!recovery.tail_trusted());
        // The name still determines how to read the records.
        assert_eq!(replayed(&recovery).0, up_to(100));
        assert!(log.last() >= Position(100));
    }
}

#[test]
fn newer_and_foreign_segments_change_nothing() {
    let disk = written(100);
    let before = disk.fork();
    let same = |disk: &MemoryDisk| {
        let content = |disk: &MemoryDisk| {
            let files = lock(&disk.files);
            let content = files
                .iter()
                .map(|(name, bytes)| (name.clone(), lock(bytes).clone()));
            content.collect::<Vec<_>>()
        };
        content(disk) == content(&before)
    };
    let foreign = LogOptions {
        identity: 43,
        ..reopening()
    };
    let error = Log::open(Arc::new(disk.clone()), &foreign, Box::new(|| {}))
        .err()
        .unwrap();
    assert!(matches!(error, StorageError::Foreign { .. }), "{error}");
    assert!(same(&disk));
    let name = disk.segments().pop().unwrap();
    let file = disk.file(&name).unwrap();
    let kept = lock(&file).clone();
    lock(&file)[12] = 9;
    let checksum = crc32c::crc32c(&lock(&file)[12..48]);
    lock(&file)[8..12].copy_from_slice(&checksum.to_le_bytes());
    let error = Log::open(Arc::new(disk.clone()), &reopening(), Box::new(|| {}))
        .err()
        .unwrap();
    assert!(
        matches!(error, StorageError::NewerFormat { found: 9, .. }),
        "{error}"
    );
    *lock(&file) = kept;
    assert!(same(&disk));
}

#[test]
fn recycled_segments_are_never_misread() {
    let disk = MemoryDisk::new();
    let mut options = options();
    for last in (60..600).step_by(60) {
        let (mut log, recovery, wakes) = open(&disk, &options);
        assert!(recovery.tail_trusted(), "{:?}", recovery.damage);
        let expected = (options.replay_from.0..last - 60 + 1).collect();
        assert_eq!(replayed(&recovery), (expected, vec![]));
        fill(&mut log, &wakes, last);
        options.replay_from = Position(last - 30);
        log.truncate_before(options.replay_from);
        assert!(log.first_retained() <= options.replay_from);
        assert!(log.first_retained() > Position(1));
        // Every stop leaves a tail with records of earlier uses of the file behind it.
        log.close().unwrap();
    }
    assert!(disk.used() <= 8 * SEGMENT_BYTES, "segments are not reused");
}

#[test]
fn flush_error_is_fatal_and_published() {
    let disk = MemoryDisk::new();
    let (mut log, _, wakes) = open(&disk, &options());
    fill(&mut log, &wakes, 5);
    disk.fail_sync.store(true, Ordering::Relaxed);
    log.append(0, b"lost", FlushTiming::Now).unwrap();
    log.submit();
    while log.health().is_ok() {
        wakes.recv().unwrap();
    }
    assert_eq!(log.durable(), Position(5));
    disk.fail_sync.store(false, Ordering::Relaxed);
    log.append(0, b"later", FlushTiming::Now).unwrap();
    let error = log.close().unwrap_err();
    assert!(error.to_string().contains("planted flush error"), "{error}");
}

#[test]
fn full_disk_refuses_new_writes_and_opens_again_after_a_cut() {
    let disk = MemoryDisk::new();
    disk.capacity.store(4 * SEGMENT_BYTES, Ordering::Relaxed);
    let (mut log, _, wakes) = open(&disk, &options());
    let (mut refused, mut reserved) = (false, 0);
    while !refused {
        match log.admission(400) {
            // Writes that free space may use the reserve.
            LogAdmission::Reserve => {
                let last = log.last().0 + 1;
                fill(&mut log, &wakes, last);
                reserved += 1;
            }
            LogAdmission::Open => {
                let last = log.last().0 + 1;
                fill(&mut log, &wakes, last);
            }
            LogAdmission::Busy => thread::yield_now(),
            LogAdmission::Full => refused = true,
        }
        assert!(log.last() < Position(1000), "the disk never filled");
    }
    assert!(log.exhaustion().unwrap().contains("no space"));
    assert!(reserved > 0, "deletes have a reserve");
    // Decisions on admitted operations still fit.
    let admitted = log.last().0;
    fill(&mut log, &wakes, admitted + 10);
    // So does a restart, which copies the tail.
    log.close().unwrap();
    let (mut log, recovery, wakes) = open(&disk, &reopening());
    assert_eq!(replayed(&recovery).0, up_to(admitted + 10));
    log.truncate_before(Position(admitted));
    while log.admission(400) != LogAdmission::Open {
        thread::yield_now();
    }
    fill(&mut log, &wakes, admitted + 20);
}

#[test]
fn close_on_a_full_disk_reports_records_that_are_not_durable() {
    let disk = MemoryDisk::new();
    disk.capacity.store(2 * SEGMENT_BYTES, Ordering::Relaxed);
    let (mut log, _, _wakes) = open(&disk, &options());
    for _ in 0..200 {
        log.append(0, &[1; 200], FlushTiming::Now).unwrap();
    }
    assert!(matches!(log.close(), Err(StorageError::Fatal { .. })));
}

#[test]
fn record_too_large_is_refused() {
    let disk = MemoryDisk::new();
    let (mut log, _, wakes) = open(&disk, &options());
    let most = log.record_bytes_max();
    let error = log
        .append(0, &vec![0; most + 1], FlushTiming::Now)
        .unwrap_err();
    assert!(matches!(error, StorageError::RecordTooLarge { .. }));
    assert_eq!(
        log.append(0, &vec![0; most], FlushTiming::Now).unwrap(),
        Position(1)
    );
    log.submit();
    while log.durable() < Position(1) {
        wakes.recv().unwrap();
    }
}

#[test]
fn random_bytes_in_the_folder_never_panic() {
    let disk = written(100);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    println!("seed {state}");
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..150 {
        let disk = disk.fork();
        for _ in 0..random(20) + 1 {
            let names = disk.segments();
            let file = disk.file(&names[random(names.len())]).unwrap();
            let mut file = lock(&file);
            let at = random(file.len().max(1));
            match random(4) {
                0 => file.truncate(at),
                1 if !file.is_empty() => file[at] = random(256) as u8,
                2 => file[at..].fill(0),
                _ => {
                    let from = random(file.len() - at + 1);
                    let copy = file[from..].to_vec();
                    let length = copy.len().min(file.len() - at);
                    file[at..at + length].copy_from_slice(&copy[..length]);
                }
            }
        }
        if let Ok((_, recovery)) = Log::open(Arc::new(disk.clone()), &reopening(), Box::new(|| {}))
        {
            let (records, gaps) = replayed(&recovery);
            assert!(records.is_sorted());
            let whole = records.len() == 100;
            assert!(whole || !gaps.is_empty() || records == up_to(records.len() as u64));
        }
    }
}

#[test]
fn the_same_on_a_real_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, wakes) = mpsc::channel();
    let wake = Box::new(move || sender.send(()).unwrap_or_default());
    let disk = Arc::new(FolderDisk::open(folder.path().join("log")).unwrap());
    let (mut log, _) = Log::open(disk.clone(), &options(), wake).unwrap();
    fill(&mut log, &wakes, 100);
    log.close().unwrap();
    let (_, recovery) = Log::open(disk, &reopening(), Box::new(|| {})).unwrap();
    assert!(recovery.tail_trusted());
    assert_eq!(replayed(&recovery), (up_to(100), vec![]));
}
