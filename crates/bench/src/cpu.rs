//! CPU time of processes, from the kernel's own accounts in nanoseconds.

use std::fs;
use std::io;

/// CPU time that all threads of a process have used so far, in microseconds: the first field of
/// each thread's `schedstat`. Threads that have ended are not counted.
///
/// # Errors
/// The process is gone.
pub fn process_us(id: u32) -> io::Result<f64> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let used = text
            .split(' ')
            .next()
            .and_then(|field| field.parse::<u64>().ok());
        nanoseconds += used.ok_or_else(|| io::Error::other("schedstat has no CPU time"))?;
    }
    Ok(nanoseconds as f64 / 1000.0)
}

/// The sum over processes.
///
/// # Errors
/// One of them is gone.
pub fn processes_us(ids: &[u32]) -> io::Result<f64> {
    ids.iter().map(|id| process_us(*id)).sum()
}

/// The processes that a process has started and that still run.
///
/// # Errors
/// The process is gone.
pub fn children(id: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let text = fs::read_to_string(thread?.path().join("children"))?;
        children.extend(
            text.split_whitespace()
                .filter_map(|word| word.parse::<u32>().ok()),
        );
    }
    Ok(children)
}

/// Memory that a process holds, in bytes.
///
/// # Errors
/// The process is gone.
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
    fn work_shows_in_the_account() {
        let id = std::process::id();
        let before = process_us(id).unwrap();
        let mut sum = 0u64;
        for number in 0..20_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        assert!(process_us(id).unwrap() > before, "{sum}");
        assert!(resident_bytes(id).unwrap() > 100_000);
    }
}
