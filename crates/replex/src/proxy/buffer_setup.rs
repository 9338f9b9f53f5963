//! Opens the store of the transactions buffer, which keeps commits for offline replicas.

use std::path::{Path, PathBuf};

use replex::embedded::EmbeddedStore;
use replex::failure::CommandFailure;
use replication::buffer;

use super::arguments::ServeArguments;

/// The scheme of URLs that name a cluster's coordinators.
const CLUSTER: &str = "replex://";
/// The value of `--buffer` for no buffer.
const NOWHERE: &str = "none";

/// The transactions buffer that the options ask for.
pub struct BufferSetup {
    /// The store of the buffer if it runs in this process. It ends when this value is dropped.
    _store: Option<EmbeddedStore>,
    /// The buffer.
    pub buffer: buffer::BufferOptions,
    /// The location of the buffer, to be displayed.
    pub place: String,
}

impl BufferSetup {
    /// Returns the buffer that these options request; none if there are no replicas, or no buffer
    /// is requested.
    ///
    /// # Errors
    /// The options do not fit together, or the folder cannot be used.
    pub fn of(arguments: &ServeArguments) -> Result<Option<BufferSetup>, CommandFailure> {
        let has_replicas = !arguments.replica.is_empty() || arguments.replicate;
        if !has_replicas && arguments.buffer.is_some() {
            let text =
                "--buffer keeps commits for replicas: give --replica URL or --replicate, too";
            return Err(CommandFailure::Usage(text.into()));
        }
        let length_max = u64::from(arguments.buffer_mib) << 20;
        match arguments.buffer.as_deref() {
            Some(NOWHERE) => Ok(None),
            Some(place) => match place.strip_prefix(CLUSTER) {
                Some(coordinators) => in_cluster(coordinators, length_max).map(Some),
                None => in_folder(Path::new(place), length_max).map(Some),
            },
            None if has_replicas => {
                let folder = default_folder(arguments.listen.port())?;
                let kept = in_folder(&folder, length_max);
                kept.map(Some).map_err(with_remedy)
            }
            None => Ok(None),
        }
    }
}

fn in_folder(folder: &Path, length_max: u64) -> Result<BufferSetup, CommandFailure> {
    let store = EmbeddedStore::start(folder)?;
    let coordinators = vec![store.coordinator().to_owned()];
    Ok(BufferSetup {
        _store: Some(store),
        buffer: buffer::BufferOptions {
            coordinators,
            length_max,
            is_for_all: false,
            absence_max: buffer::ABSENCE_MAX,
        },
        place: folder.display().to_string(),
    })
}

fn in_cluster(coordinators: &str, length_max: u64) -> Result<BufferSetup, CommandFailure> {
    let place = format!("{CLUSTER}{coordinators}");
    let coordinators: Vec<String> = coordinators.split(',').map(str::to_owned).collect();
    let is_place = |it: &String| {
        let port = it.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        port.is_some_and(|port| port.is_ok())
    };
    if !coordinators.iter().all(is_place) {
        return Err(CommandFailure::Usage(format!(
            "--buffer {place}: give the coordinators as {CLUSTER}HOST:PORT,HOST:PORT"
        )));
    }
    Ok(BufferSetup {
        _store: None,
        buffer: buffer::BufferOptions {
            coordinators,
            length_max,
            is_for_all: true,
            absence_max: buffer::ABSENCE_MAX,
        },
        place,
    })
}

/// Returns the default folder of the buffer, where programs keep data that outlives them (the XDG
/// Base Directory Specification). Each port has a folder of its own, because each proxy needs one.
fn default_folder(port: u16) -> Result<PathBuf, CommandFailure> {
    let given = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let usual = || std::env::home_dir().map(|home| home.join(".local/state"));
    let folder = given.or_else(usual).filter(|folder| folder.is_absolute());
    let folder = folder.ok_or_else(|| {
        let text = "there is no folder for the transactions buffer, as neither XDG_STATE_HOME nor HOME names one";
        with_remedy(CommandFailure::Usage(text.into()))
    })?;
    Ok(folder.join(format!("replex/buffer-{port}")))
}

/// Adds the remedy for users who have not asked for a folder.
fn with_remedy(failure: CommandFailure) -> CommandFailure {
    let remedy = format!("give --buffer DIR, or --buffer {NOWHERE} to do without");
    match failure {
        CommandFailure::Failed(text) => CommandFailure::Failed(format!("{text}: {remedy}")),
        CommandFailure::Usage(text) => CommandFailure::Usage(format!("{text}: {remedy}")),
        other => other,
    }
}
