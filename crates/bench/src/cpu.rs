//! Reads the CPU time that processes have used, in nanoseconds, from the kernel's accounting.

use std::fs;
use std::io;

/// Returns the CPU time that all threads of a process have used so far, in microseconds: the first
/// field of each thread's `schedstat`. Threads that have ended are not counted.
///
/// # Errors
/// The process has ended.
pub fn process_us(id: u32) -> io::Result<f64> {
    let mut nanoseconds = 0;
    for text in of_threads(id, "schedstat")? {
        let used = text
            .split(' ')
            .next()
            .and_then(|field| field.parse::<u64>().ok());
        nanoseconds += used.ok_or_else(|| io::Error::other("schedstat has no CPU time"))?;
    }
    Ok(nanoseconds as f64 / 1000.0)
}

/// Returns the CPU time of a process and of all that it has started and that have ended, in
/// microseconds, to the kernel's tick of 10 ms.
///
/// # Errors
/// The process has ended.
pub fn with_ended_us(id: u32) -> io::Result<f64> {
    const TICK_US: f64 = 10_000.0;
    let text = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let unknown = || io::Error::other(format!("process {id} has no CPU time"));
    // The name before may contain anything, spaces and brackets, too.
    let rest = text.rsplit_once(')').ok_or_else(unknown)?.1;
    let ticks = rest.split_whitespace().skip(11).take(4);
    let ticks = ticks.map(|field| field.parse::<u64>());
    let sum: Result<u64, _> = ticks.sum();
    Ok(sum.map_err(|_| unknown())? as f64 * TICK_US)
}

/// Returns the CPU time of several processes together, in microseconds.
///
/// # Errors
/// A process has ended.
pub fn processes_us(ids: &[u32]) -> io::Result<f64> {
    ids.iter().map(|id| process_us(*id)).sum()
}

/// Returns the processes that a process has started and that still run.
///
/// # Errors
/// The process has ended.
pub fn children(id: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for text in of_threads(id, "children")? {
        children.extend(
            text.split_whitespace()
                .filter_map(|word| word.parse::<u32>().ok()),
        );
    }
    Ok(children)
}

/// Returns the kernel's file of this name of each of a process's threads. A thread that ends while
/// they are being read is left out.
fn of_threads(id: u32, file: &str) -> io::Result<Vec<String>> {
    let mut texts = Vec::new();
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        match fs::read_to_string(thread?.path().join(file)) {
            Ok(text) => texts.push(text),
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(texts)
}

/// Returns whether an error means that a thread has ended. Its files are gone then, and reading an
/// open file of it fails with "no such process".
fn has_ended(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

/// Returns the resident memory of a process, in bytes.
///
/// # Errors
/// The process has ended.
pub fn resident_bytes(id: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix("kB"));
    let kilobytes = kilobytes.and_then(|number| number.trim().parse::<u64>().ok());
    let missing = || io::Error::other(format!("process {id} has no resident size"));
    Ok(kilobytes.ok_or_else(missing)? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_while_they_run() {
        let own = std::process::id();
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(children(own).unwrap().contains(&child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children(own).unwrap().contains(&child.id()));
    }

    #[test]
    fn threads_that_end_meanwhile_are_left_out() {
        let id = std::process::id();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::spawn(|| {}).join().unwrap();
                }
            });
            let all = (0..2000).try_for_each(|_| process_us(id).map(drop));
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            all.unwrap();
        });
    }

    #[test]
    fn work_shows_in_the_account() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let before = process_us(child.id()).unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let mut after = before;
        while after == before && std::time::Instant::now() < until {
            after = process_us(child.id()).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(after > before, "{before} µs, then {after} µs");
        let resident = resident_bytes(std::process::id()).unwrap();
        assert!(resident > 100_000, "{resident} bytes");
    }
}
