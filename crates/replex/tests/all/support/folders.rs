//! Copies of data folders, as people make them, and servers that may have to wait with theirs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use replex::cluster::Cluster;

const PATIENCE: Duration = Duration::from_secs(60);

/// Copies a folder with all that is in it. A file that goes meanwhile is left out, as `cp` does.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            let _ = fs::copy(entry.path(), target);
        }
    }
}

/// Puts a copy in the place of a folder.
pub fn restore(copied: &Path, folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
    copy(copied, folder);
}

/// A server that cannot serve yet, so that no test waits for its `ready` line.
pub struct Waiting {
    process: Child,
    log: PathBuf,
}

impl Waiting {
    /// Starts it on its folder.
    pub fn start(cluster: &Cluster, server: usize) -> Waiting {
        let log = cluster.folder().join(format!("waiting-{server}.log"));
        let folder = cluster.server_folder(server).display().to_string();
        let process = Command::new(super::program())
            .args([
                "server",
                "--data",
                &folder,
                "-C",
                cluster.coordinator_address(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn();
        let process = process.unwrap();
        Waiting { process, log }
    }

    /// Waits until its log has this, and gives the log.
    pub async fn wait_for_line(&mut self, what: &str) -> String {
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(&self.log).unwrap();
            if text.contains(what) {
                return text;
            }
            assert!(
                self.process.try_wait().unwrap().is_none(),
                "it ended: {text}"
            );
            assert!(
                begin.elapsed() < PATIENCE,
                "it never prints {what:?}: {text}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
