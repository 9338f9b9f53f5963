//! Starts the measured processes, which run this same program, and ends them when their owner is
//! dropped.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running process that has reported that it is ready.
#[derive(Debug)]
pub struct BenchProcess {
    child: Child,
    /// The `key=value` pairs of its `ready` line.
    values: Vec<(String, String)>,
}

impl BenchProcess {
    /// Starts `program` with `arguments` and waits for its line `ready key=value …`.
    ///
    /// # Errors
    /// The process cannot be started, or it ends before it prints the line; the error contains the
    /// end of its stderr.
    pub fn start(program: &Path, arguments: &[&str], log: &Path) -> io::Result<BenchProcess> {
        let mut child = Command::new(program)
            .args(arguments)
            .arg("--until-stdin-ends")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(log)?)
            .spawn()?;
        let output = child.stdout.take().expect("its output is piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let values = line.trim().strip_prefix("ready").map(|rest| {
            let pairs = rest
                .split_whitespace()
                .filter_map(|word| word.split_once('='));
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect()
        });
        let mut process = BenchProcess {
            child,
            values: Vec::new(),
        };
        process.values = values.ok_or_else(|| {
            let words = std::fs::read_to_string(log).unwrap_or_default();
            io::Error::other(format!("`{}` did not start: {words}", arguments.join(" ")))
        })?;
        Ok(process)
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the value of `key` in its `ready` line.
    ///
    /// # Errors
    /// Its `ready` line does not have it.
    pub fn ready_value(&self, key: &str) -> io::Result<&str> {
        let found = self.values.iter().find(|(name, _)| name == key);
        let missing = || io::Error::other(format!("the process did not print {key}"));
        found.map(|(_, value)| value.as_str()).ok_or_else(missing)
    }

    /// Stops the process in order (SIGTERM), and waits until it has ended.
    ///
    /// # Errors
    /// The system call that waits for the process fails.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        // Its stdin ends, which it was started to take as the signal to stop.
        drop(self.child.stdin.take());
        self.child.wait().map(|_| ())
    }
}

impl Drop for BenchProcess {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kind of servers of a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerKind {
    /// Whether the servers keep everything in memory, to measure without a disk.
    pub memory: bool,
    /// The number of entries with which a range of a thin index is split, if it is not the default.
    pub range_entries: Option<u64>,
}

/// A coordinator and servers on this machine.
#[derive(Debug)]
pub struct BenchCluster {
    pub coordinator: BenchProcess,
    pub servers: Vec<BenchProcess>,
    program: PathBuf,
    folder: tempfile::TempDir,
    kind: ServerKind,
}

impl BenchCluster {
    /// Starts a coordinator and servers, with their folders in a temporary folder below `base`.
    ///
    /// # Errors
    /// A process does not start.
    pub fn start(base: &Path, servers: usize, kind: ServerKind) -> io::Result<BenchCluster> {
        let program = std::env::current_exe()?;
        std::fs::create_dir_all(base)?;
        let folder = tempfile::tempdir_in(base)?;
        let coordinator = coordinator(&program, folder.path(), "127.0.0.1:0")?;
        let mut cluster = BenchCluster {
            coordinator,
            servers: Vec::new(),
            program,
            folder,
            kind,
        };
        for number in 0..servers {
            let process = cluster.server(number)?;
            cluster.servers.push(process);
        }
        Ok(cluster)
    }

    /// Starts one server over its folder.
    ///
    /// # Errors
    /// The server does not start.
    pub fn server(&self, number: usize) -> io::Result<BenchProcess> {
        let data = self.folder.path().join(format!("server-{number}"));
        let coordinator = self.address()?;
        let mut arguments = vec![
            "server",
            "--data",
            text(&data)?,
            "--coordinator",
            coordinator,
            // Experiments compare fixed numbers of ranges.
            "--range-requests",
            "1000000000",
        ];
        if self.kind.memory {
            arguments.push("--memory");
        }
        let entries = self.kind.range_entries.map(|entries| entries.to_string());
        if let Some(entries) = &entries {
            arguments.extend(["--range-entries", entries]);
        }
        let log = self.folder.path().join(format!("server-{number}.log"));
        BenchProcess::start(&self.program, &arguments, &log)
    }

    /// Returns the coordinator's address.
    ///
    /// # Errors
    /// The coordinator has not printed its address.
    pub fn address(&self) -> io::Result<&str> {
        self.coordinator.ready_value("coordinator")
    }

    /// Stops one server in good order and starts it again over its folder.
    ///
    /// # Errors
    /// The server does not stop, or does not start again.
    pub fn restart(&mut self, number: usize) -> io::Result<()> {
        self.servers.remove(number).stop()?;
        let process = self.server(number)?;
        self.servers.insert(number, process);
        Ok(())
    }

    /// Stops the coordinator in good order and starts it again over its folder, where it was.
    ///
    /// # Errors
    /// The coordinator does not stop, or does not start again.
    pub fn restart_coordinator(&mut self) -> io::Result<()> {
        let address = self.address()?.to_owned();
        self.coordinator.end()?;
        self.coordinator = coordinator(&self.program, self.folder.path(), &address)?;
        Ok(())
    }

    /// Returns the folder of all processes. It is removed when this value is dropped.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the process ids of the servers.
    pub fn server_ids(&self) -> Vec<u32> {
        self.servers.iter().map(BenchProcess::id).collect()
    }
}

fn coordinator(program: &Path, folder: &Path, listen: &str) -> io::Result<BenchProcess> {
    let data = folder.join("coordinator");
    let arguments = [
        "coordinator",
        "--data",
        text(&data)?,
        "--listen",
        listen,
        "--replace-after",
        "never",
    ];
    BenchProcess::start(program, &arguments, &folder.join("coordinator.log"))
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str()
        .ok_or_else(|| io::Error::other("the folder's name is not UTF-8"))
}
