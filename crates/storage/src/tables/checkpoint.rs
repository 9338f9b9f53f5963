//! The thread that saves a generation of changes to the cold store.
//!
//! It gets copies of the changed entries of each leaf, puts them in order, and ingests them all at
//! once. If the disk is full it keeps them and tries again. Module `store` decides when a
//! checkpoint is made.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use placement::tables::TablesError;

use super::Generations;
use super::changes::Changes;
use super::cold::{CheckpointMark, ColdStore, Ingestion};
use super::leaf::{Entry, Generation};
use crate::error::StorageError;

/// How long until a checkpoint that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Entries written between looks at whether the store is being closed.
const STOP_CHECK_ENTRIES: usize = 4096;

/// The result of the work on checkpoints so far.
#[derive(Default)]
pub(crate) struct CheckpointProgress {
    /// The checkpoint that has become durable since the last call.
    pub(crate) completed: Option<CompletedCheckpoint>,
    /// The reason why the last attempt failed; none once an attempt has succeeded.
    pub(crate) failure: Option<String>,
}

pub(crate) struct CompletedCheckpoint {
    pub(crate) mark: CheckpointMark,
    pub(crate) generation: Generation,
    /// One key of every leaf whose tombstones are saved now.
    pub(crate) purge: Vec<(u64, Vec<u8>)>,
}

enum Message {
    Begin(CheckpointMark, Generations),
    Changes(Changes),
    /// All changes are written, and the log is durable up to the mark.
    Finish,
}

pub(crate) struct Checkpointer {
    sender: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    progress: Arc<Mutex<CheckpointProgress>>,
    stop: Arc<AtomicBool>,
}

impl Checkpointer {
    /// Starts the thread. It calls `wake` after every change of the progress.
    pub(crate) fn start(
        cold: ColdStore,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self, StorageError> {
        let (sender, receiver) = mpsc::channel();
        let progress = Arc::<Mutex<CheckpointProgress>>::default();
        let stop = Arc::<AtomicBool>::default();
        let worker = Worker {
            cold,
            receiver,
            progress: Arc::clone(&progress),
            stop: Arc::clone(&stop),
            wake,
        };
        let thread = thread::Builder::new()
            .name("checkpointer".into())
            .spawn(move || worker.run())
            .map_err(StorageError::io("start thread checkpointer"))?;
        Ok(Self {
            sender: Some(sender),
            thread: Some(thread),
            progress,
            stop,
        })
    }

    pub(crate) fn begin(&self, mark: CheckpointMark, generations: Generations) {
        self.send(Message::Begin(mark, generations));
    }

    pub(crate) fn add(&self, changes: Changes) {
        self.send(Message::Changes(changes));
    }

    pub(crate) fn finish(&self) {
        self.send(Message::Finish);
    }

    fn send(&self, message: Message) {
        let sender = self.sender.as_ref().expect("taken by drop only");
        // A thread that is gone shows as a failure in the progress.
        let _ = sender.send(message);
    }

    /// Returns the events since the last call.
    pub(crate) fn progress(&self) -> CheckpointProgress {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        CheckpointProgress {
            completed: progress.completed.take(),
            failure: progress.failure.clone(),
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // Its panic was printed, and an unfinished checkpoint is as if never begun.
            let _ = thread.join();
        }
    }
}

struct Worker {
    cold: ColdStore,
    receiver: Receiver<Message>,
    progress: Arc<Mutex<CheckpointProgress>>,
    stop: Arc<AtomicBool>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Worker {
    fn run(self) {
        while let Ok(Message::Begin(mark, generations)) = self.receiver.recv() {
            let mut changes = vec![];
            loop {
                match self.receiver.recv() {
                    Ok(Message::Changes(more)) => changes.push(more),
                    Ok(Message::Finish) => break,
                    Ok(Message::Begin(..)) => unreachable!("one checkpoint at a time"),
                    Err(_) => return,
                }
            }
            let job = CheckpointJob::new(mark, generations, changes);
            while !self.save(&job) {
                match self.receiver.recv_timeout(RETRY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Ok(_) => unreachable!("one checkpoint at a time"),
                }
            }
        }
    }

    fn save(&self, job: &CheckpointJob) -> bool {
        let write = |to: &mut Ingestion| job.write(&self.cold, &self.stop, to);
        let result = self.cold.ingest(job.mark, write);
        let saved = result.is_ok();
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(()) => {
                progress.failure = None;
                progress.completed = Some(job.completed());
            }
            Err(error) => progress.failure = Some(error.to_string()),
        }
        drop(progress);
        (self.wake)();
        saved
    }
}

struct CheckpointJob {
    mark: CheckpointMark,
    generations: Generations,
    changes: Vec<Changes>,
    /// Which runs of which changes, in order of table and key.
    order: Vec<(usize, usize)>,
}

impl CheckpointJob {
    fn new(mark: CheckpointMark, generations: Generations, changes: Vec<Changes>) -> Self {
        let runs = changes.iter().enumerate();
        let runs = runs.flat_map(|(at, changes)| (0..changes.runs()).map(move |run| (at, run)));
        let mut order = runs.collect::<Vec<_>>();
        // Leaves cover ranges that do not overlap, so that their first keys order all.
        let first = |&(at, run): &(usize, usize)| {
            let changes: &Changes = &changes[at];
            let key = changes.entries(run).next().map(|entry| entry.key);
            (changes.table(run), key)
        };
        order.sort_by(|left, right| first(left).cmp(&first(right)));
        Self {
            mark,
            generations,
            changes,
            order,
        }
    }

    fn entries(&self) -> impl Iterator<Item = (u64, Entry<'_>)> {
        self.order.iter().flat_map(|&(at, run)| {
            let changes = &self.changes[at];
            let table = changes.table(run);
            changes.entries(run).map(move |entry| (table, entry))
        })
    }

    fn write(
        &self,
        cold: &ColdStore,
        stop: &AtomicBool,
        to: &mut Ingestion,
    ) -> Result<(), TablesError> {
        let mut dropped = self.generations.dropped.iter().copied().peekable();
        let mut voided = DroppedTable::default();
        for (count, (table, entry)) in self.entries().enumerate() {
            if count.is_multiple_of(STOP_CHECK_ENTRIES) && stop.load(Ordering::Relaxed) {
                return Err(TablesError::new("the store is being closed"));
            }
            while let Some(next) = dropped.next_if(|&next| next <= table) {
                voided.end(to)?;
                voided = DroppedTable::of(cold, next);
            }
            voided.pass(table, entry.key, to)?;
            match entry.mark.tombstone {
                true => to.delete(table, entry.key)?,
                false => to.put(table, entry.key, entry.value)?,
            }
        }
        voided.end(to)?;
        dropped.try_for_each(|table| DroppedTable::of(cold, table).end(to))
    }

    fn completed(&self) -> CompletedCheckpoint {
        let purge = self.order.iter().filter_map(|&(at, run)| {
            let mut entries = self.changes[at].entries(run);
            let tombstone = entries.find(|entry| entry.mark.tombstone)?;
            Some((self.changes[at].table(run), tombstone.key.to_vec()))
        });
        CompletedCheckpoint {
            mark: self.mark,
            generation: self.generations.until,
            purge: purge.collect(),
        }
    }
}

/// The rest of a dropped table in the cold store. It is to be deleted, except for the keys that
/// were put again.
#[derive(Default)]
struct DroppedTable {
    rest: Option<(u64, std::iter::Peekable<super::cold::ColdEntries>)>,
}

impl DroppedTable {
    fn of(cold: &ColdStore, table: u64) -> Self {
        Self {
            rest: Some((table, cold.range(table, b"", None).peekable())),
        }
    }

    /// Deletes everything before the entry that is about to be written.
    fn pass(&mut self, table: u64, key: &[u8], to: &mut Ingestion) -> Result<(), TablesError> {
        let Some((voided, entries)) = &mut self.rest else {
            return Ok(());
        };
        while let Some(entry) = entries.peek() {
            let old = entry.as_ref().map_err(Clone::clone)?.0.as_slice();
            if (*voided, old) > (table, key) {
                return Ok(());
            }
            if (*voided, old) != (table, key) {
                to.delete(*voided, old)?;
            }
            entries.next();
        }
        Ok(())
    }

    fn end(&mut self, to: &mut Ingestion) -> Result<(), TablesError> {
        let Some((voided, entries)) = self.rest.take() else {
            return Ok(());
        };
        entries
            .into_iter()
            .try_for_each(|entry| to.delete(voided, &entry?.0))
    }
}
