//! Formats results: as tables with a little colour at a terminal, as plain text elsewhere.

use std::fmt::{self, Display};
use std::io::{IsTerminal, stdout};
use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Table, presets};

/// The capabilities of stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Whether stdout is a terminal that supports colours and lines.
    pub is_terminal: bool,
    colours: bool,
}

impl Screen {
    /// Returns the present properties of stdout. `NO_COLOR` turns colours off, see
    /// <https://no-color.org>.
    pub fn of_stdout() -> Screen {
        let is_terminal = stdout().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Screen {
            is_terminal,
            colours: is_terminal && !unwanted && !dumb,
        }
    }

    /// Returns the text in bold.
    pub fn bold(self, text: impl Display) -> String {
        self.styled("1", text)
    }

    /// Returns the text dimmed.
    pub fn dim(self, text: impl Display) -> String {
        self.styled("2", text)
    }

    /// Returns text marked as right.
    pub fn good(self, text: impl Display) -> String {
        self.styled("32", text)
    }

    /// Returns text marked as wrong.
    pub fn bad(self, text: impl Display) -> String {
        self.styled("1;31", text)
    }

    fn styled(self, code: &str, text: impl Display) -> String {
        if self.colours {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_string()
        }
    }

    /// Returns a table with a header. Names of columns that start with `#` are shown without it,
    /// and their cells to the right.
    pub fn table(self, header: &[&str], rows: &[Vec<String>]) -> String {
        let right: Vec<bool> = header.iter().map(|name| name.starts_with('#')).collect();
        let mut table = Table::new();
        table.load_style(if self.is_terminal {
            presets::UTF8_FULL_CONDENSED
        } else {
            presets::ASCII_FULL_CONDENSED
        });
        table.set_header(header.iter().map(|name| name.trim_start_matches('#')));
        for row in rows {
            assert_eq!(row.len(), header.len(), "a cell for each column");
            let cells = row.iter().zip(&right).map(|(text, right)| {
                let alignment = if *right {
                    CellAlignment::Right
                } else {
                    CellAlignment::Left
                };
                Cell::new(text).set_alignment(alignment)
            });
            table.add_row(cells.collect::<Vec<_>>());
        }
        let mut text = String::new();
        for line in table.lines() {
            text.push_str("  ");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Returns a number with separators of thousands, as in 27,004.
pub fn count(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number of things, as in `1 row` or `27,004 rows`.
pub fn plural(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", count(number))
}

/// A duration in the unit in which it reads best.
pub struct ShortDuration(pub Duration);

impl Display for ShortDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.as_secs_f64() * 1e6;
        match us {
            ..1_000.0 => write!(f, "{us:.0} µs"),
            1_000.0..10_000.0 => write!(f, "{:.1} ms", us / 1e3),
            10_000.0..1_000_000.0 => write!(f, "{:.0} ms", us / 1e3),
            _ => write!(f, "{:.1} s", us / 1e6),
        }
    }
}

/// Returns an order-independent checksum as people compare it.
pub fn checksum(sum: u64) -> String {
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Screen = Screen {
        is_terminal: false,
        colours: false,
    };

    #[test]
    fn thousands_are_apart() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (27_004, "27,004"),
            (1_234_567, "1,234,567"),
        ];
        for (number, text) in cases {
            assert_eq!(count(number as u64), text);
        }
    }

    #[test]
    fn durations_take_the_unit_that_reads_best() {
        let cases = [
            (250, "250 µs"),
            (1_500, "1.5 ms"),
            (25_000, "25 ms"),
            (3_210_000, "3.2 s"),
        ];
        for (us, text) in cases {
            assert_eq!(ShortDuration(Duration::from_micros(us)).to_string(), text);
        }
    }

    #[test]
    fn table_is_plain_without_a_terminal() {
        let rows = vec![
            vec!["primary".to_owned(), "7".to_owned()],
            vec!["x".to_owned(), "1,000".to_owned()],
        ];
        let text = PLAIN.table(&["copy", "#rows"], &rows);
        assert_eq!(
            text,
            "  +---------+-------+\n  \
               | copy    | rows  |\n  \
               +=================+\n  \
               | primary |     7 |\n  \
               | x       | 1,000 |\n  \
               +---------+-------+\n"
        );
        assert_eq!(PLAIN.bad("no"), "no");
    }
}
