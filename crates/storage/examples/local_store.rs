//! Measures the local store: CPU per operation, memory per row, group commit, and a restart.
//!
//! `cargo run --release -p storage --example local_store [-- ROWS]`. Every figure stands beside a
//! baseline that ran in the same process, interleaved with it; each step is a process of its own,
//! so that memory is that of one store. It asserts nothing.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use placement::median;
use placement::tables::Tables;
use storage::log::{FlushTiming, ReplayItem};
use storage::tables::DurableTables;
use storage::{DurableStore, StoreOptions};

type Outcome = Result<(), Box<dyn Error>>;

const VALUE_BYTES: usize = 100;
const KEY_BYTES: usize = 16;
const TABLES: u64 = 3;
const PAIRS: usize = 5;
/// Operations in flight, as with so many clients that wait for each answer.
const IN_FLIGHT: u64 = 64;

fn main() -> Outcome {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let rows = |at: usize| arguments.get(at).map_or(Ok(1_000_000), |text| text.parse());
    match arguments.first().map(String::as_str) {
        Some("map") => memory_map(rows(1)?),
        Some("tables") => memory_tables(rows(1)?),
        Some("commit") => group_commit(),
        Some("restart") => restart(rows(1)?),
        _ => {
            let rows = rows(0)?.to_string();
            println!("CPU µs per operation, {rows} rows of {KEY_BYTES} + {VALUE_BYTES} bytes");
            println!(
                "{:<24}{:>8}{:>8}{:>8}{:>16}",
                "", "insert", "get", "scan 10", "memory / data"
            );
            for step in ["map", "tables", "commit", "restart"] {
                let status = Command::new(std::env::current_exe()?)
                    .args([step, &rows])
                    .status()?;
                if !status.success() {
                    return Err(format!("step {step} failed").into());
                }
            }
            Ok(())
        }
    }
}

/// Keys in an order that looks random.
fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"row-....ABCDEFGH";
    key[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn value(number: u64) -> [u8; VALUE_BYTES] {
    [number as u8; VALUE_BYTES]
}

/// CPU time of this thread.
fn cpu() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split(' ').next().unwrap_or_default();
    Ok(Duration::from_nanos(first.parse()?))
}

fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap_or_default().trim().trim_end_matches(" kB");
    Ok(kilobytes.trim().parse::<u64>()? * 1024)
}

fn each(rows: u64, mut operation: impl FnMut(u64)) -> Result<f64, Box<dyn Error>> {
    let before = cpu()?;
    (0..rows).for_each(&mut operation);
    Ok((cpu()? - before).as_secs_f64() * 1e6 / rows as f64)
}

fn report(name: &str, rows: u64, times: [f64; 3], before: u64) -> Outcome {
    let data = rows * (KEY_BYTES + VALUE_BYTES) as u64;
    let ratio = (resident_bytes()? - before) as f64 / data as f64;
    let [insert, get, scan] = times;
    println!("{name:<24}{insert:>8.2}{get:>8.2}{scan:>8.2}{ratio:>16.2}");
    Ok(())
}

fn memory_map(rows: u64) -> Outcome {
    let before = resident_bytes()?;
    let mut map = BTreeMap::<Box<[u8]>, Box<[u8]>>::new();
    let insert = each(rows, |number| {
        map.insert(key(number).into(), value(number).into());
    })?;
    let get = each(rows, |number| {
        black_box(map.get(&key(number * 7 % rows)[..]));
    })?;
    let scan = each(rows, |number| {
        let start: Box<[u8]> = key(number).into();
        map.range(start..).take(10).for_each(|entry| {
            black_box(entry);
        });
    })?;
    report("BTreeMap", rows, [insert, get, scan], before)
}

fn memory_tables(rows: u64) -> Outcome {
    let before = resident_bytes()?;
    let mut tables = DurableTables::in_memory();
    let insert = each(rows, |number| tables.put(0, &key(number), &value(number)))?;
    let mut found = 0;
    let get = each(rows, |number| {
        let read = tables.read(0, &key(number * 7 % rows), &mut |value| {
            black_box(value);
        });
        found += u64::from(read.is_ok_and(|found| found));
    })?;
    let scan = each(rows, |number| {
        let mut left = 10;
        let scanned = tables.scan(0, &key(number), None, &mut |key, value| {
            black_box((key, value));
            left -= 1;
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        black_box(scanned.is_ok());
    })?;
    if found != rows {
        return Err(format!("{found} of {rows} rows were found").into());
    }
    report("tables", rows, [insert, get, scan], before)
}

/// A loop sleeps on this until the store has news.
#[derive(Default)]
struct Wakeup {
    news: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    fn wake(&self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(news, |news| !*news);
        *waited.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

fn open(
    folder: &Path,
) -> Result<(DurableStore, storage::StoreRecovery, Arc<Wakeup>), Box<dyn Error>> {
    let wakeup = Arc::<Wakeup>::default();
    let waker = Arc::clone(&wakeup);
    let options = StoreOptions {
        memory_bytes: 8 << 30,
        ..StoreOptions::default()
    };
    let (store, recovery) = DurableStore::open(folder, 1, options, move || waker.wake())?;
    Ok((store, recovery, wakeup))
}

/// Durable records per second with 64 in flight, beside a plain flush of each 64 in turn.
fn group_commit() -> Outcome {
    let folder = tempfile::tempdir_in(".")?;
    let (mut store, _, wakeup) = open(&folder.path().join("store"))?;
    let plain = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.path().join("plain"))?;
    fill(&plain)?;
    let (mut grouped, mut single) = (vec![], vec![]);
    for _ in 0..PAIRS {
        grouped.push(commit_records(&mut store, &wakeup)?);
        single.push(flush_plainly(&plain)?);
    }
    let (grouped, single) = (median(&grouped), median(&single));
    println!("durable records per second, {IN_FLIGHT} in flight: {grouped:.0}");
    println!("fdatasyncs per second of one record each: {single:.0}");
    println!(
        "records per flush of the plain file's time: {:.1}",
        grouped / single
    );
    store.close()?;
    Ok(())
}

fn fill(file: &File) -> Outcome {
    let mut file = file;
    file.write_all(&vec![0; 8 << 20])?;
    Ok(file.sync_all()?)
}

fn commit_records(store: &mut DurableStore, wakeup: &Wakeup) -> Result<f64, Box<dyn Error>> {
    let records = 100_000;
    let first = store.log.last().0;
    let start = Instant::now();
    while store.log.durable().0 < first + records {
        store.health()?;
        let answered = store.log.durable().0;
        while store.log.last().0 < (answered + IN_FLIGHT).min(first + records) {
            store.log.append(1, &[7; VALUE_BYTES], FlushTiming::Now)?;
        }
        store.submit();
        if store.log.durable().0 == answered {
            wakeup.wait();
        }
    }
    Ok(records as f64 / start.elapsed().as_secs_f64())
}

fn flush_plainly(file: &File) -> Result<f64, Box<dyn Error>> {
    let flushes = 2_000;
    let start = Instant::now();
    for number in 0..flushes {
        file.write_all_at(&[7; VALUE_BYTES + 32], number * 136)?;
        file.sync_data()?;
    }
    Ok(flushes as f64 / start.elapsed().as_secs_f64())
}

/// Loads three tables through the log with checkpoints, and opens the store again.
fn restart(rows: u64) -> Outcome {
    let folder = tempfile::tempdir_in(".")?;
    let folder = folder.path().join("store");
    load(&folder, rows)?;
    let start = Instant::now();
    let (mut store, recovery, _) = open(&folder)?;
    let tables = &mut store.tables;
    let mut count = 0_u64;
    recovery.log.replay(&mut |item| {
        if let ReplayItem::Record(record) = item {
            let table = (record.position.0 - 1) % TABLES;
            let (key, value) = record.payload.split_at(KEY_BYTES);
            tables.put(table, key, value);
            count += 1;
        }
        Ok(())
    })?;
    println!(
        "restart: {:.2} s, {count} records replayed",
        start.elapsed().as_secs_f64()
    );
    let sample = 100_000.min(rows);
    let mut found = 0;
    let cold = each(sample, |number| {
        let read = store
            .tables
            .read(1, &key((number * 31 % rows) ^ (1 << 40)), &mut |_| {});
        found += u64::from(read.is_ok_and(|found| found));
    })?;
    let warm = each(sample, |number| {
        let read = store
            .tables
            .read(1, &key((number * 31 % rows) ^ (1 << 40)), &mut |_| {});
        black_box(read.is_ok());
    })?;
    println!(
        "get after it: first {cold:.2} µs, then {warm:.2} µs of CPU; {found} of {sample} found"
    );
    store.close()?;
    Ok(())
}

fn load(folder: &Path, rows: u64) -> Outcome {
    let (mut store, _, wakeup) = open(folder)?;
    let (start, before) = (Instant::now(), cpu()?);
    let mut longest = Duration::ZERO;
    let mut turn = cpu()?;
    for number in 0..rows {
        for table in 0..TABLES {
            let (key, value) = (key(number ^ (table << 40)), value(number));
            store
                .log
                .append(1, &[&key[..], &value].concat(), FlushTiming::Interval)?;
            store.tables.put(table, &key, &value);
        }
        if number % 16 == 0 {
            store.submit();
            if store.checkpoint_due() {
                let next = store.log.last().next();
                store.checkpoint(next);
            }
            // CPU, because wall time depends more on the neighbours.
            let now = cpu()?;
            longest = longest.max(now - turn);
            turn = now;
        }
    }
    let loaded = start.elapsed();
    let spent = (cpu()? - before).as_secs_f64() * 1e6 / (rows * TABLES) as f64;
    println!(
        "load of {TABLES} tables: {:.1} s, {spent:.2} µs of the loop's CPU per row, longest turn of 16 rows {:.2} ms of CPU",
        loaded.as_secs_f64(),
        longest.as_secs_f64() * 1e3,
    );
    let data = rows * TABLES * (KEY_BYTES + VALUE_BYTES) as u64;
    println!(
        "memory / data: tables {:.2}, process {:.2}",
        store.tables.memory_bytes() as f64 / data as f64,
        resident_bytes()? as f64 / data as f64
    );
    while store.checkpoint_running() {
        wakeup.wait();
        store.submit();
    }
    for (name, value) in store.counters() {
        println!("  {name} {value}");
    }
    store.close()?;
    Ok(())
}
