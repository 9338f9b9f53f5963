//! Writes the output of the commands to stdout and stderr. Their readers may have closed them.
//!
//! The reader of a pipe may leave, as `head` does, which ends a command quietly. Anything else that
//! keeps stdout from being written, such as a full disk, is an error of the command. Text that
//! cannot be written to stderr is dropped.

use std::fmt;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::PoisonError;

use tokio::sync::Notify;

/// Why stdout takes no more; the first reason stays.
static ENDED: Mutex<Option<io::ErrorKind>> = Mutex::new(None);
/// The fault of the output, unless the reader left.
static WRONG: Mutex<Option<String>> = Mutex::new(None);
/// Wakes the task that waits for the end of stdout.
static END: Notify = Notify::const_new();

/// Prints a line to stdout, as `println!` does, but never panics.
#[macro_export]
macro_rules! say {
    () => { $crate::console::print(format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::console::print(format_args!("{}\n", format_args!($($argument)*)))
    };
}

/// Prints a line to stderr, as `eprintln!` does, but never panics.
#[macro_export]
macro_rules! note {
    ($($argument:tt)*) => {
        $crate::console::report(format_args!("{}\n", format_args!($($argument)*)))
    };
}

/// Writes to stdout. After a failure it writes nothing more.
pub fn print(text: fmt::Arguments<'_>) {
    if lock(&ENDED).is_some() {
        return;
    }
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        end(&error);
    }
}

/// Writes to stderr.
pub fn report(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Records that stdout cannot be written any more. Any error but a closed pipe is kept for the
/// report at the command's end.
pub fn end(error: &io::Error) {
    let kind = error.kind();
    if lock(&ENDED).replace(kind).is_none() && kind != io::ErrorKind::BrokenPipe {
        *lock(&WRONG) = Some(error.to_string());
    }
    END.notify_one();
}

/// Waits until stdout takes no more.
pub async fn ended() {
    while lock(&ENDED).is_none() {
        END.notified().await;
    }
}

/// Returns the reason why stdout could not be written, unless its reader has closed it.
pub fn failure() -> Option<String> {
    let wrong = lock(&WRONG).take();
    wrong.map(|error| format!("cannot write to stdout: {error}"))
}

/// A writer to stderr whose errors do not count.
#[derive(Debug)]
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A value is set in one step, so a panic leaves none half set.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
