//! Keeps a coordinator's state in a file of its folder, so that only one process can lead.

use std::collections::VecDeque;
use std::path::Path;

use protocol::change_log::encode_record;
use protocol::message::Leadership;
use protocol::state::{CoordinatorState, StateChange, decode_state_and_changes, encode_state};

use super::keeper::{KeeperEvent, StateKeeper};
use crate::change_file::{ChangeFile, WrittenValue};
use crate::error::ServerError;
use crate::folder::DataFolder;
use crate::random;

const STATE_FILE: &str = "coordinator";
/// Where the state has moved, in words: it is not to be used here any more.
const MOVED_FILE: &str = "moved";

/// A folder with a coordinator's state, locked by one process.
pub(super) struct StateFolder {
    folder: DataFolder,
    files: ChangeFile,
    /// The state in the folder, if this process has written it.
    written: Option<CoordinatorState>,
}

impl StateFolder {
    /// Opens and locks the folder.
    ///
    /// # Errors
    /// Another process has the folder open, or a system call fails.
    pub fn open(path: &Path) -> Result<StateFolder, ServerError> {
        let folder = DataFolder::open(path)?;
        Ok(StateFolder {
            folder,
            files: ChangeFile::new(STATE_FILE),
            written: None,
        })
    }

    /// Returns the location of the folder, to be displayed.
    pub fn place(&self) -> String {
        format!("folder {}", self.folder.path().display())
    }

    /// Returns the state; none if there is none.
    ///
    /// # Errors
    /// The state is damaged, or of another format. The folder is unchanged.
    pub fn load(&self) -> Result<Option<CoordinatorState>, ServerError> {
        let Some(WrittenValue { value, log }) = self.files.read(&self.folder)? else {
            return Ok(None);
        };
        let state = decode_state_and_changes(&value, &log).map_err(|error| {
            let path = self.folder.path().join(STATE_FILE);
            ServerError::Folder(format!("{}: {error}", path.display()))
        })?;
        Ok(Some(state))
    }

    /// Stores a state. It is durable when this returns. If this process has written the previous
    /// state and the changes are few, it writes only the differences.
    ///
    /// # Errors
    /// A system call fails. The folder may then contain the old or the new state (R23).
    pub fn replace(&mut self, state: CoordinatorState) -> Result<(), ServerError> {
        match self.written.take().filter(|_| !self.files.wants_value()) {
            Some(before) => {
                let record = encode_record(&StateChange::between(&before, &state));
                self.files.append(&self.folder, &record)?;
            }
            None => self.files.replace(&self.folder, &encode_state(&state))?,
        }
        self.written = Some(state);
        Ok(())
    }

    /// Returns the new location if the state has moved.
    ///
    /// # Errors
    /// A system call fails.
    pub fn moved_to(&self) -> Result<Option<String>, ServerError> {
        let text = self.folder.read(MOVED_FILE)?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).trim().to_owned()))
    }

    /// Records that the state has moved to a location, or that it is in this folder.
    ///
    /// # Errors
    /// A system call fails.
    pub fn set_moved(&self, to: Option<&str>) -> Result<(), ServerError> {
        match to {
            Some(to) => self.folder.replace(MOVED_FILE, to.as_bytes()),
            None => self.folder.remove(MOVED_FILE),
        }
    }
}

/// Stores each state in a file at once.
pub(super) struct FileKeeper {
    folder: StateFolder,
    events: VecDeque<KeeperEvent>,
    address: String,
}

impl FileKeeper {
    /// Opens the folder and leads with its state, or with a new state if the folder has none.
    ///
    /// # Errors
    /// Another process has the folder open, its state has moved or is damaged, or a system call
    /// fails.
    pub fn open(path: &Path, address: String) -> Result<FileKeeper, ServerError> {
        let folder = StateFolder::open(path)?;
        if let Some(place) = folder.moved_to()? {
            return Err(ServerError::Folder(format!(
                "the state of {} has moved to {place}: start the coordinator there, or bring it \
                 back with `replex admin coordinator migrate --to file`",
                folder.place()
            )));
        }
        let state = match folder.load()? {
            Some(state) => state,
            None => CoordinatorState::new(random::number()?),
        };
        let lead = KeeperEvent::Lead {
            state: Box::new(state),
            reason: String::new(),
        };
        Ok(FileKeeper {
            folder,
            events: VecDeque::from([lead]),
            address,
        })
    }
}

impl StateKeeper for FileKeeper {
    fn next_event(&mut self) -> Result<Option<KeeperEvent>, ServerError> {
        Ok(self.events.pop_front())
    }

    fn keep(&mut self, state: CoordinatorState) -> Result<(), ServerError> {
        let version = state.version;
        self.folder.replace(state)?;
        self.events.push_back(KeeperEvent::Kept(version));
        Ok(())
    }

    fn resign(&mut self) {
        unreachable!("it leads for ever")
    }

    fn leads_until_us(&self) -> u64 {
        u64::MAX
    }

    fn leadership(&self) -> Leadership {
        Leadership {
            leads: true,
            leader: Some(self.address.clone()),
            standbys: Vec::new(),
            kept_in: self.folder.place(),
        }
    }

    fn close(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::fs;

    use protocol::identity::SessionId;

    use super::*;

    const LOG_FILE: &str = "coordinator.changes";

    /// Returns the state of a version.
    fn state(version: u64) -> CoordinatorState {
        CoordinatorState {
            version,
            sessions_reserved: 1 + 4096 * version,
            session_floor: SessionId(version),
            ..CoordinatorState::new(7)
        }
    }

    /// Keeps these versions in a new folder, one after the other. Returns the two files.
    fn kept(versions: std::ops::RangeInclusive<u64>) -> (Vec<u8>, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut kept = StateFolder::open(folder.path()).expect("it is new");
        for version in versions {
            kept.replace(state(version)).expect("there is room");
        }
        let read = |name: &str| fs::read(folder.path().join(name)).expect("it was written");
        (read(STATE_FILE), read(LOG_FILE))
    }

    /// Puts two files into a new folder, as a process has left them.
    fn left(value: &[u8], log: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(STATE_FILE), value).expect("there is room");
        fs::write(folder.path().join(LOG_FILE), log).expect("there is room");
        folder
    }

    fn load(folder: &tempfile::TempDir) -> Result<CoordinatorState, ServerError> {
        let folder = StateFolder::open(folder.path())?;
        Ok(folder.load()?.expect("there is one"))
    }

    /// The log is cut at each byte, as by a loss of power while a change is written. All changes
    /// before the cut are there, and the next process continues from them.
    #[test]
    fn state_is_that_of_the_last_whole_change() {
        let (value, log) = kept(1..=4);
        assert_eq!(log.len() % 3, 0, "three changes of one length");
        for cut in 0..=log.len() {
            let folder = left(&value, &log[..cut]);
            let version = 1 + (cut / (log.len() / 3)) as u64;
            assert_eq!(load(&folder).expect("it is torn at most"), state(version));
            let mut next = StateFolder::open(folder.path()).expect("the one before is gone");
            for later in [version + 1, version + 2] {
                next.replace(state(later)).expect("there is room");
                assert_eq!(next.load().expect("it is whole"), Some(state(later)));
            }
        }
    }

    /// The process ends after it has written the whole value, and before the log begins again.
    #[test]
    fn changes_that_the_value_has_are_passed_over() {
        let (_, log) = kept(1..=4);
        let (value, none) = kept(4..=4);
        assert!(none.is_empty());
        assert_eq!(load(&left(&value, &log)).expect("it is whole"), state(4));
        let (value, _) = kept(2..=2);
        assert_eq!(load(&left(&value, &log)).expect("it is whole"), state(4));
    }

    /// A change that was kept is damaged, or is missing: nothing is led from what is left.
    #[test]
    fn damaged_log_is_refused() {
        let (value, log) = kept(1..=4);
        let one = log.len() / 3;
        for at in 0..2 * one {
            let mut damaged = log.clone();
            damaged[at] ^= 0x10;
            let error = load(&left(&value, &damaged)).expect_err("it is damaged");
            assert!(error.to_string().contains("damaged"), "byte {at}: {error}");
        }
        let error = load(&left(&value, &log[one..])).expect_err("a change is missing");
        assert!(error.to_string().contains("is missing"), "{error}");
    }

    /// A long log becomes part of the value.
    #[test]
    fn log_begins_again_when_it_is_long() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut kept = StateFolder::open(folder.path()).expect("it is new");
        let size = |name: &str| -> u64 {
            fs::metadata(folder.path().join(name)).map_or(0, |file| file.len())
        };
        let mut longest = 0;
        for version in 1..=40 {
            // Failures are written whole with each change.
            let failure = protocol::message::CopyFailure {
                table: protocol::identity::TableId(1),
                name: "copy".to_owned(),
                why: "x".repeat(60_000),
            };
            let mut next = state(version);
            next.failures = vec![failure];
            kept.replace(next).expect("there is room");
            longest = longest.max(size(LOG_FILE));
        }
        assert!(longest < 2 << 20, "{longest} bytes");
        assert!(size(LOG_FILE) < longest, "it has begun again");
        assert_eq!(kept.load().expect("it is whole").expect("kept").version, 40);
    }
}
