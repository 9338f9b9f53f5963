//! Runs one child process of this program. The child reports its addresses in its `ready` line.
//! Signals go to its process id.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// The time within which a started process must be ready.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// The time within which a process that is stopped gracefully must end.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// Lines of a process's log that an error shows.
const LOG_LINES_SHOWN: usize = 8;

/// A child process that has reported that it is ready. Dropping the value kills the process.
pub struct Process {
    /// `server 2`, for messages.
    name: String,
    child: Child,
    /// The child's stdin, which is open for as long as the child is to live. Waiting for the child
    /// closes it.
    #[expect(dead_code, reason = "it is there to be dropped")]
    stdin: Option<ChildStdin>,
    pid: Pid,
    log: PathBuf,
    /// The words `key=value` of the process's `ready` line.
    ready: Vec<(String, String)>,
    /// Whether the process may outlive this value.
    released: bool,
}

/// Whether children end with the process that started them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLife {
    /// The children end when the process that started them ends or is killed.
    WithParent,
    /// The children continue when the process that started them ends.
    Detached,
}

impl Process {
    /// Starts `program` with `arguments` and waits for its `ready` line. Its stderr is appended to
    /// the file `log`.
    ///
    /// # Errors
    /// The process cannot be started, or ends before it prints its `ready` line. The error contains
    /// the end of its log.
    pub async fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        log: &Path,
        life: ProcessLife,
    ) -> io::Result<Process> {
        let file = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(file)
            // Ctrl-C in a terminal is for the process that started it, which then ends it in order.
            .process_group(0);
        match life {
            ProcessLife::WithParent => {
                // The pipe's other end closes when this process ends, even by SIGKILL.
                command.stdin(Stdio::piped()).arg("--until-stdin-ends");
            }
            ProcessLife::Detached => {
                command.stdin(Stdio::null());
            }
        }
        let what = |error: io::Error| {
            let text = format!("cannot start {name} ({}): {error}", program.display());
            io::Error::new(error.kind(), text)
        };
        let mut child = command.spawn().map_err(what)?;
        let id = child
            .id()
            .expect("a child that was not waited for has an id");
        let pid = Pid::from_raw(i32::try_from(id).expect("process ids are positive integers"))
            .expect("process ids are not zero");
        let stdout = child.stdout.take().expect("stdout was asked for");
        let mut process = Process {
            name: name.to_owned(),
            stdin: child.stdin.take(),
            child,
            pid,
            log: log.to_owned(),
            ready: Vec::new(),
            released: false,
        };
        let mut lines = BufReader::new(stdout).lines();
        let ready = timeout(READY_WITHIN, async {
            while let Some(line) = lines.next_line().await? {
                if let Some(words) = line.strip_prefix("ready ") {
                    return Ok(Some(words.to_owned()));
                }
            }
            io::Result::Ok(None)
        });
        match ready.await {
            Ok(Ok(Some(words))) => {
                let words = words.split_whitespace().filter_map(|it| it.split_once('='));
                process.ready = words.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
                Ok(process)
            }
            Ok(Ok(None)) => {
                let status = process.child.wait().await?;
                Err(process.error(&format!("ended before it was ready ({status})")))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let seconds = READY_WITHIN.as_secs();
                Err(process.error(&format!("is not ready after {seconds} s")))
            }
        }
    }

    /// Returns the name of the process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns the value of a key in the process's `ready` line.
    pub fn ready_value(&self, key: &str) -> Option<&str> {
        let found = self.ready.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(self.pid, signal)?)
    }

    /// Kills the process (SIGKILL), and waits until it has ended.
    ///
    /// # Errors
    /// The process had already ended.
    pub async fn kill(&mut self) -> io::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            return Err(self.error(&format!("had ended on its own ({status})")));
        }
        self.child.kill().await
    }

    /// Stops the process in order (SIGTERM), and waits until it has ended.
    ///
    /// # Errors
    /// The process had already ended, or does not end.
    pub async fn stop(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Err(self.error(&format!("had ended on its own ({status})")));
        }
        self.signal(Signal::TERM)?;
        self.wait(STOPPED_WITHIN).await
    }

    /// Waits until the process ends by itself.
    ///
    /// # Errors
    /// The process does not end within the time.
    pub async fn wait(&mut self, within: Duration) -> io::Result<ExitStatus> {
        match timeout(within, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => Err(self.error(&format!("has not ended after {} s", within.as_secs()))),
        }
    }

    /// Checks that the process runs.
    ///
    /// # Errors
    /// The process has ended.
    pub fn check(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.error(&format!("ended on its own ({status})"))),
        }
    }

    /// Returns the resident memory in bytes, as the kernel counts it.
    ///
    /// # Errors
    /// The process has ended, or the kernel does not report it.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let kilobytes = kilobytes.ok_or_else(|| self.error("has no memory that can be read"))?;
        Ok(kilobytes << 10)
    }

    /// Returns the process's output to stderr so far.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Leaves the process running when this value is dropped.
    pub fn release(&mut self) {
        self.released = true;
    }

    /// Returns the name of the process, `what` it does, and the end of its log.
    pub fn report(&self, what: &str) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        let end = lines.len().saturating_sub(LOG_LINES_SHOWN);
        let mut message = format!("{} (process {}) {what}", self.name, self.id());
        for line in &lines[end..] {
            message.push_str("\n  | ");
            message.push_str(line);
        }
        message
    }

    fn error(&self, what: &str) -> io::Error {
        io::Error::other(self.report(what))
    }
}

impl Drop for Process {
    /// Kills the process, unless it was released, and waits until it has ended, so that its folder
    /// can be removed afterwards.
    fn drop(&mut self) {
        let runs = matches!(self.child.try_wait(), Ok(None));
        if self.released || !runs {
            return;
        }
        if self.child.start_kill().is_ok() {
            // The runtime takes the child's status; this only waits until there is one.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = waitid(WaitId::Pid(self.pid), options);
        }
    }
}
