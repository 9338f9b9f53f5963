//! SIGTERM and SIGINT end the process in good order. A second signal ends it at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::ServerError;
use crate::journal::{self, JournalLevel};

/// The exit status of a process that a second signal ends: 128 and the signal's number, as shells
/// do.
const EXIT_BASE: i32 = 128;

/// Calls `stop` at the first signal, on a thread that sleeps until then.
///
/// # Errors
/// A system call fails.
pub fn stop_on_signals(stop: impl Fn() + Send + 'static) -> Result<(), ServerError> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(ServerError::io("listen for signals"))?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut asked = false;
            for signal in signals.forever() {
                journal::line(JournalLevel::Info, "signal", &[("number", &signal)]);
                if asked {
                    std::process::exit(EXIT_BASE + signal);
                }
                asked = true;
                stop();
            }
        })
        .map_err(ServerError::io("start the thread that waits for signals"))?;
    Ok(())
}
