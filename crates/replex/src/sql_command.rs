//! `replex sql`: runs SQL on a cluster, from a script, a pipe or a terminal. Also has the code that
//! all commands of a cluster's clients share.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use client::{Client, ConnectOptions};
use indicatif::ProgressBar;
use replex::failure::CommandFailure;
use replex::{console, credentials};
use sql::SqlSession;
use sql::shell::{self, OnError, ScriptError, ScriptInput, Shell, ShellOutput};
use tokio::sync::mpsc;

use crate::arguments::{ClusterArguments, FormatArgument, SqlArguments};
use crate::{interruptible, runtime};

/// The file in the home folder with the typed lines.
const HISTORY_FILE: &str = ".replex_history";
/// The name of a file that means stdin.
pub const STDIN: &str = "-";
/// The most bytes of a script that are read at once, as many as a pipe holds.
const PIECE_BYTES: usize = 64 << 10;
/// The most pieces of a script that are read ahead.
const PIECES_AHEAD: usize = 2;

/// Connects, or returns where no coordinator was found.
pub async fn connect(cluster: &ClusterArguments) -> Result<Client, CommandFailure> {
    let options = ConnectOptions::new(cluster.coordinator.iter().cloned())
        .credentials(credentials::current())
        .deadline(Duration::from_secs(cluster.deadline));
    Client::connect(options).await.map_err(|error| match error {
        client::Error::NoCoordinator { .. } => CommandFailure::Unreachable(format!(
            "{error}\nStart one with `replex coordinator --data FOLDER`, or name its address \
             with --coordinator HOST:PORT or REPLEX_COORDINATOR."
        )),
        other => CommandFailure::Failed(other.to_string()),
    })
}

/// The source of statements for `replex sql`.
enum Source {
    /// A person at a terminal.
    Person,
    /// Whole scripts, with their names in errors.
    Scripts(Vec<(String, String)>),
    /// A script that comes piece by piece.
    Pieces(String, mpsc::Receiver<io::Result<Vec<u8>>>),
}

/// Runs `replex sql`.
pub fn sql(arguments: &SqlArguments) -> Result<(), CommandFailure> {
    let runtime = runtime()?;
    let client = runtime.block_on(interruptible(connect(&arguments.cluster)))?;
    let options = shell::ShellOptions {
        format: match arguments.format {
            FormatArgument::Table => sql::format::OutputFormat::Table,
            FormatArgument::Csv => sql::format::OutputFormat::Csv,
            FormatArgument::Json => sql::format::OutputFormat::Json,
        },
        timing: false,
        on_error: OnError::Stop,
    };
    let mut shell = Shell::new(SqlSession::new(client), options);
    let work = match source(arguments)? {
        Source::Person => {
            let history = std::env::home_dir().map(|home| home.join(HISTORY_FILE));
            return match shell::interactive(shell, &runtime, history.as_deref()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    Err(CommandFailure::OutputEnded)
                }
                talked => talked.map_err(CommandFailure::at("talk to the terminal")),
            };
        }
        Source::Scripts(scripts) => runtime.block_on(interruptible(async {
            for (name, text) in &scripts {
                let mut feed = shell.feed_named(name);
                run_piece(&mut shell, &mut feed, text.as_bytes(), ScriptInput::Ended).await?;
                shell.end(&feed).map_err(script_failure)?;
                if shell.is_over() {
                    break;
                }
            }
            Ok(())
        })),
        Source::Pieces(name, mut pieces) => runtime.block_on(interruptible(async {
            let mut feed = shell.feed_named(&name);
            let mut goes_on = true;
            while goes_on {
                let (piece, input) = match pieces.recv().await {
                    Some(piece) => {
                        let piece = piece.map_err(CommandFailure::at(format!("read {name}")))?;
                        (piece, ScriptInput::Open)
                    }
                    None => (Vec::new(), ScriptInput::Ended),
                };
                let more = run_piece(&mut shell, &mut feed, &piece, input).await?;
                goes_on = more && input == ScriptInput::Open;
            }
            shell.end(&feed).map_err(script_failure)
        })),
    };
    work.map_err(|failure| match failure {
        CommandFailure::Interrupted => CommandFailure::InterruptedAfter(
            "a change that was under way may still be made: read before repeating it".to_owned(),
        ),
        other => other,
    })
}

/// Runs a piece of a script. Returns whether the script continues.
async fn run_piece(
    shell: &mut Shell<Client>,
    feed: &mut shell::ScriptFeed,
    piece: &[u8],
    input: ScriptInput,
) -> Result<bool, CommandFailure> {
    let (mut out, mut err) = (io::stdout(), console::Stderr);
    let mut output = ShellOutput {
        out: &mut out,
        err: &mut err,
    };
    let ran = shell.feed(feed, piece, input, &mut output).await;
    ran.map_err(script_failure)
}

fn script_failure(error: ScriptError) -> CommandFailure {
    match error {
        ScriptError::Failed(_) => CommandFailure::Reported,
        ScriptError::Output(error) => {
            console::end(&error);
            CommandFailure::OutputEnded
        }
    }
}

fn source(arguments: &SqlArguments) -> Result<Source, CommandFailure> {
    if !arguments.command.is_empty() {
        let named = arguments
            .command
            .iter()
            .map(|text| ("-c".to_owned(), text.clone()));
        return Ok(Source::Scripts(named.collect()));
    }
    let stdin = || {
        let descriptor = io::stdin().as_fd().try_clone_to_owned();
        let descriptor =
            descriptor.map_err(CommandFailure::at("read the statements from stdin"))?;
        script("stdin".to_owned(), File::from(descriptor))
    };
    match &arguments.file {
        Some(path) if path.as_os_str() == STDIN => stdin(),
        Some(path) => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(CommandFailure::at(format!("read {name}")))?;
            script(name, file)
        }
        None if io::stdin().is_terminal() => Ok(Source::Person),
        None => stdin(),
    }
}

/// Returns a file as the source of statements. A regular file is one script. Another file, such as
/// a pipe, is run as it arrives, so that another program can wait for the answer to a statement
/// before it writes the next one.
fn script(name: String, mut file: File) -> Result<Source, CommandFailure> {
    let metadata = file
        .metadata()
        .map_err(CommandFailure::at(format!("read {name}")))?;
    if metadata.is_file() {
        let mut text = String::new();
        let read = file.read_to_string(&mut text);
        read.map_err(CommandFailure::at(format!("read {name}")))?;
        return Ok(Source::Scripts(vec![(name, text)]));
    }
    let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
    // No signal ends a read of a pipe, so it has a thread of its own, which ends with the process.
    let reader = std::thread::Builder::new().name("script".to_owned());
    let read = move || {
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = match file.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    piece.truncate(count);
                    Ok(piece)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_over = read.is_err();
            if sender.blocking_send(read).is_err() || is_over {
                return;
            }
        }
    };
    reader
        .spawn(read)
        .map_err(CommandFailure::at(format!("read {name}")))?;
    Ok(Source::Pieces(name, pieces))
}

/// Returns a bar over a table's rows for a person; hidden where a program reads.
pub fn bar(label: &str, quiet: bool) -> ProgressBar {
    if quiet {
        ProgressBar::hidden()
    } else {
        sql::import::progress_bar(label)
    }
}
