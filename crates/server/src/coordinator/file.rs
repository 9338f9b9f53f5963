//! A coordinator's state in a file of its folder: one process leads, always.

use std::collections::VecDeque;
use std::path::Path;

use protocol::change_log::encode_record;
use protocol::message::Leadership;
use protocol::state::{CoordinatorState, StateChange, decode_state_and_changes, encode_state};

use super::keeper::{KeeperEvent, StateKeeper};
use crate::change_file::ChangeFile;
use crate::error::ServerError;
use crate::folder::DataFolder;
use crate::random;

const STATE_FILE: &str = "coordinator";
/// Where the state has moved, in words: it is not to be used here any more.
const MOVED_FILE: &str = "moved";

/// A folder with a coordinator's state in it, for one process.
pub(super) struct StateFolder {
    folder: DataFolder,
    files: ChangeFile,
    /// What is there, as far as this process has written it.
    written: Option<CoordinatorState>,
}

impl StateFolder {
    /// Opens and locks it.
    ///
    /// # Errors
    /// Another process has it open, or the system refuses.
    pub fn open(path: &Path) -> Result<StateFolder, ServerError> {
        let folder = DataFolder::open(path)?;
        Ok(StateFolder {
            folder,
            files: ChangeFile::new(STATE_FILE),
            written: None,
        })
    }

    /// Returns where it is, for people.
    pub fn place(&self) -> String {
        format!("folder {}", self.folder.path().display())
    }

    /// Returns the state; none if there is none.
    ///
    /// # Errors
    /// It is damaged, or of another format. Nothing was changed.
    pub fn load(&self) -> Result<Option<CoordinatorState>, ServerError> {
        let Some((value, log)) = self.files.read(&self.folder)? else {
            return Ok(None);
        };
        let state = decode_state_and_changes(&value, &log).map_err(|error| {
            let path = self.folder.path().join(STATE_FILE);
            ServerError::Folder(format!("{}: {error}", path.display()))
        })?;
        Ok(Some(state))
    }

    /// Makes it the state; it is durable when this returns. Only what differs from the state before
    /// is written, as long as this process has written that one and the changes are not too many.
    ///
    /// # Errors
    /// The system refuses: which state is there is then unknown (R23).
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

    /// Returns where the state has moved, if it has.
    ///
    /// # Errors
    /// The system refuses.
    pub fn moved_to(&self) -> Result<Option<String>, ServerError> {
        let text = self.folder.read(MOVED_FILE)?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).trim().to_owned()))
    }

    /// Records that the state has moved, or that it is here.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_moved(&self, to: Option<&str>) -> Result<(), ServerError> {
        match to {
            Some(to) => self.folder.replace(MOVED_FILE, to.as_bytes()),
            None => self.folder.remove(MOVED_FILE),
        }
    }
}

/// Keeps in a file at once.
pub(super) struct FileKeeper {
    folder: StateFolder,
    events: VecDeque<KeeperEvent>,
    address: String,
}

impl FileKeeper {
    /// Leads from the state in the folder, or from a new one.
    ///
    /// # Errors
    /// The folder is in use, its state has moved or cannot be used, or the system refuses.
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
