//! Prints the report of a measurement to stdout and its progress to stderr. The measurement
//! continues if the reader of its output has closed the pipe, because the results are files.

use std::fmt;
use std::io::{self, Write};

/// Prints a line to stdout.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::console::write_out(format_args!($($argument)*))
    };
}

/// Prints a line to stderr.
macro_rules! note {
    ($($argument:tt)*) => {
        $crate::console::write_err(format_args!($($argument)*))
    };
}

/// Writes a line to stdout.
pub fn write_out(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Writes a line to stderr.
pub fn write_err(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}
