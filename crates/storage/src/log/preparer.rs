//! The thread that keeps spare segments ready: preallocated, zero-filled or recycled.
//!
//! A full disk is not an error here: the thread reports it, and tries again when segments are given
//! up and every [`RETRY`]. It never touches a segment that is in use.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::{Shared, lock};
use crate::disk::{Disk, DiskFile};

/// The number of spares: one for the next segment, and one for the copy of a restart (R23).
pub(super) const SPARES: usize = 2;

/// How long until a full disk is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// A new file is zeroed and flushed in slices of this size, so that the committer's own flushes
/// do not queue behind all of it.
const SLICE_BYTES: usize = 1024 * 1024;

/// A file of the size of a segment, without records.
pub(super) struct Spare {
    pub(super) name: String,
    pub(super) file: Box<dyn DiskFile>,
}

/// The spares that are ready, and the one that is being made.
pub(super) struct Spares {
    segment_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Spare>,
    /// Names of segments that were given up.
    retired: VecDeque<String>,
    /// Why the last try to make a spare failed.
    exhaustion: Option<String>,
    stop: bool,
}

impl Spares {
    pub(super) fn new(segment_bytes: u64, ready: Vec<Spare>) -> Self {
        let state = State {
            ready: ready.into(),
            ..State::default()
        };
        Self {
            segment_bytes,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Returns the number of ready spares, and whether making another one failed.
    pub(super) fn state(&self) -> (u64, bool) {
        let state = lock(&self.state);
        // A segment that was given up is about to become one.
        let exhausted = state.exhaustion.is_some() && state.retired.is_empty();
        (state.ready.len() as u64, exhausted)
    }

    pub(super) fn exhaustion(&self) -> Option<String> {
        lock(&self.state).exhaustion.clone()
    }

    pub(super) fn retire(&self, names: Vec<String>) {
        lock(&self.state).retired.extend(names);
        self.changed.notify_all();
    }

    pub(super) fn stop(&self) {
        lock(&self.state).stop = true;
        self.changed.notify_all();
    }

    /// Removes and returns a spare. Waits while the disk is full. Returns none if the log is closed
    /// meanwhile.
    pub(super) fn take(&self) -> Option<Spare> {
        let missing = |state: &mut State| state.ready.is_empty() && !state.stop;
        let mut state = self
            .changed
            .wait_while(lock(&self.state), missing)
            .unwrap_or_else(PoisonError::into_inner);
        let spare = state.ready.pop_front();
        self.changed.notify_all();
        spare
    }
}

enum Work {
    Retire(String),
    Create,
}

pub(super) fn run(shared: &Shared) {
    let spares = &shared.spares;
    while let Some(work) = next_work(spares) {
        let made = match &work {
            Work::Create => create(&*shared.disk, spares.segment_bytes).map(Some),
            Work::Retire(name) => {
                let wanted = lock(&spares.state).ready.len() < SPARES;
                recycle(&*shared.disk, name, wanted.then_some(spares.segment_bytes))
            }
        };
        let mut state = lock(&spares.state);
        if matches!(work, Work::Retire(_)) {
            state.retired.pop_front();
        }
        match made {
            Ok(spare) => {
                state.exhaustion = None;
                state.ready.extend(spare);
            }
            // A segment that could not be recycled is found again at the next opening.
            Err(error) => {
                state.exhaustion = Some(format!("no space for the log's next segment: {error}"));
            }
        }
        drop(state);
        spares.changed.notify_all();
    }
}

/// Waits for something to do; None when the log is closed.
fn next_work(spares: &Spares) -> Option<Work> {
    let mut state = lock(&spares.state);
    let mut waited = false;
    loop {
        if state.stop {
            return None;
        }
        if let Some(name) = state.retired.front() {
            return Some(Work::Retire(name.clone()));
        }
        let due = state.exhaustion.is_none() || waited;
        if state.ready.len() < SPARES && due {
            return Some(Work::Create);
        }
        // Only the end of the pause earns a full disk its next try: other changes wake too.
        let pause = state.exhaustion.is_some().then_some(RETRY);
        (state, waited) = match pause {
            Some(pause) => {
                let (state, timeout) = spares
                    .changed
                    .wait_timeout(state, pause)
                    .unwrap_or_else(PoisonError::into_inner);
                (state, timeout.timed_out())
            }
            None => {
                let state = spares.changed.wait(state);
                (state.unwrap_or_else(PoisonError::into_inner), false)
            }
        };
    }
}

/// Creates a spare of `bytes` zero bytes, durably.
pub(super) fn create(disk: &dyn Disk, bytes: u64) -> std::io::Result<Spare> {
    let name = spare_name(disk)?;
    let file = disk.create(&name)?;
    let zeroes = vec![0; SLICE_BYTES];
    let fill = || {
        let mut offset = 0;
        while offset < bytes {
            let slice = (bytes - offset).min(SLICE_BYTES as u64);
            file.write_at(offset, &zeroes[..slice as usize])?;
            file.sync()?;
            offset += slice;
        }
        Ok(())
    };
    if let Err(error) = fill() {
        drop(file);
        // The part that was written would keep others from the last of the space.
        disk.remove(&name)?;
        return Err(error);
    }
    Ok(Spare { name, file })
}

/// Makes a spare of the retired segment `name` if it has the current size. Otherwise removes it.
pub(super) fn recycle(
    disk: &dyn Disk,
    name: &str,
    bytes_wanted: Option<u64>,
) -> std::io::Result<Option<Spare>> {
    let file = disk.open(name)?;
    if bytes_wanted == Some(file.bytes()?) {
        let spare = spare_name(disk)?;
        disk.rename(name, &spare)?;
        disk.sync_folder()?;
        return Ok(Some(Spare { name: spare, file }));
    }
    drop(file);
    disk.remove(name)?;
    Ok(None)
}

/// Returns whether `name` is the name of a spare.
pub(super) fn is_spare(name: &str) -> bool {
    name.starts_with("spare-")
}

/// Returns a name that no spare has yet.
fn spare_name(disk: &dyn Disk) -> std::io::Result<String> {
    let names = disk.names()?;
    let free = (0..).map(|number: u32| format!("spare-{number}"));
    let mut free = free.filter(|name| !names.contains(name));
    Ok(free.next().expect("a folder holds fewer than 2^32 files"))
}
