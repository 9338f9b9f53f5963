//! Faults of a process's syncs, made by `strace`.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that a tracer may take to attach to all threads of a process.
const ATTACHED_WITHIN: Duration = Duration::from_secs(60);
/// The pause between two checks of the threads.
const PAUSE: Duration = Duration::from_millis(5);

/// A tracer that makes the syncs of another process fail or hang for as long as this lives.
pub struct SyncFault(Child);

impl SyncFault {
    /// Attaches to a process. `fault` is what `strace` injects into its syncs. Returns once no
    /// thread of the process can sync without the fault.
    pub async fn start(process: u32, fault: &str) -> SyncFault {
        let calls = "fsync,fdatasync";
        let tracer = Command::new("strace")
            .args(["-f", "-q", "-o", "/dev/null", "-p", &process.to_string()])
            .args(["-e", &format!("trace={calls}")])
            .args(["-e", &format!("inject={calls}:{fault}")])
            .stdin(Stdio::null())
            .spawn();
        let started = SyncFault(tracer.unwrap());
        let begun = Instant::now();
        while !is_traced(process) {
            assert!(begun.elapsed() < ATTACHED_WITHIN, "strace does not attach");
            tokio::time::sleep(PAUSE).await;
        }
        started
    }
}

impl Drop for SyncFault {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether every thread of a process has a tracer, or has ended.
fn is_traced(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let has_ended = status.is_empty() || status.contains("State:\tZ");
        has_ended || !status.contains("TracerPid:\t0\n")
    })
}
