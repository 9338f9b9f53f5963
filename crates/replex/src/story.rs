//! Prints a demo: its chapters, tables and claims. Each claim is checked when it is printed.

use std::fmt::Display;
use std::time::Instant;

use replex::failure::CommandFailure;
use replex::say;

use crate::output::{Screen, ShortDuration, count};

/// The text that was printed, and the claims so far.
pub struct Story {
    /// The capabilities of stdout.
    pub screen: Screen,
    chapter: usize,
    claims: Vec<(String, bool)>,
}

impl Story {
    /// Returns a demo's output without any chapter or claim yet.
    pub fn of_stdout() -> Story {
        Story {
            screen: Screen::of_stdout(),
            chapter: 0,
            claims: Vec::new(),
        }
    }

    /// Begins a chapter.
    pub fn chapter(&mut self, title: &str) {
        self.chapter += 1;
        let title = format!("{}. {title}", self.chapter);
        say!("\n{}", self.screen.bold(title));
    }

    /// Prints a paragraph.
    pub fn say(&self, text: impl Display) {
        say!("   {text}");
    }

    /// Shows a table, see [`Screen::table`].
    pub fn show(&self, header: &[&str], rows: &[Vec<String>]) {
        for line in self.screen.table(header, rows).lines() {
            say!(" {line}");
        }
    }

    /// Records and prints a claim, with whether it holds.
    pub fn claim(&mut self, text: impl Into<String>, holds: bool) {
        let text = text.into();
        let mark = if holds {
            self.screen.good("✓")
        } else {
            self.screen.bad("✗ NOT TRUE:")
        };
        say!("   {mark} {text}");
        self.claims.push((text, holds));
    }

    /// Prints the result of all claims, and fails if one of them did not hold.
    pub fn verdict(&self, started: Instant) -> Result<(), CommandFailure> {
        let broken = self.claims.iter().filter(|(_, holds)| !holds);
        let broken: Vec<&str> = broken.map(|(text, _)| text.as_str()).collect();
        say!();
        if broken.is_empty() {
            let text = format!(
                "All {} claims held, in {}.",
                count(self.claims.len() as u64),
                ShortDuration(started.elapsed())
            );
            say!("{}", self.screen.good(text));
            return Ok(());
        }
        Err(CommandFailure::Failed(format!(
            "a claim of the demo is false: {}",
            broken.join("; ")
        )))
    }
}
