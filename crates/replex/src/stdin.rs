//! Ends a process at the end of its stdin, so that it ends together with the process that started
//! it.

use std::io::Read;

use signal_hook::consts::SIGTERM;

/// Stops this process when its stdin ends. A pipe ends with the process at its other end, however
/// that process ended.
pub fn stop_when_stdin_ends() {
    std::thread::spawn(|| {
        let mut stdin = std::io::stdin();
        let mut buffer = [0; 64];
        while matches!(stdin.read(&mut buffer), Ok(count) if count > 0) {}
        // The same way as any other stop, so that there is only one.
        let _ = signal_hook::low_level::raise(SIGTERM);
    });
}
