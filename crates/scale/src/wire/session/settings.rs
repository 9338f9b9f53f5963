//! Settings of the proxy itself, which clients change with `SET replex.… = …` in a simple query.

use super::{Out, Session};
use crate::manager::Level;
use crate::wire::message;
use crate::wire::report::{Report, Severity};

/// SQLSTATE: a parameter's value is invalid.
const INVALID_VALUE: &str = "22023";

/// What a client has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Is each batch told where it went and why?
    pub trace: Trace,
    /// How consistent reads are.
    pub level: Level,
}

/// Whether batches are told where they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// They are not.
    #[default]
    Off,
    /// Each is told by a notice.
    On,
}

impl Session {
    /// What the client has set.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Carries out a simple query that is only about these settings. False if it is not: then it
    /// is a server's.
    pub(super) fn sets(&mut self, text: &[u8], out: &mut Out) -> bool {
        let first = text.trim_ascii_start().get(..3);
        if !first.is_some_and(|word| word.eq_ignore_ascii_case(b"set")) {
            return false;
        }
        let Ok(text) = str::from_utf8(text) else {
            return false;
        };
        let text = text
            .trim()
            .trim_end_matches(';')
            .trim_end()
            .to_ascii_lowercase();
        let words: Vec<&str> = text
            .split(|sign: char| sign.is_whitespace() || sign == '=')
            .filter(|word| !word.is_empty() && *word != "to")
            .collect();
        let ["set", name, value] = words[..] else {
            return false;
        };
        let value = value.trim_matches('\'');
        let is_valid = match (name, value) {
            ("replex.trace", "on" | "true" | "1") => self.trace(Trace::On),
            ("replex.trace", "off" | "false" | "0") => self.trace(Trace::Off),
            ("replex.consistency", "gssi") => self.level(Level::Gssi),
            ("replex.consistency", "weak") => self.level(Level::Weak),
            ("replex.consistency", "rsi-pc") => self.level(Level::RsiPc),
            ("replex.consistency", "1sr") => self.level(Level::OneCopy),
            ("replex.trace" | "replex.consistency", _) => false,
            _ => return false,
        };
        if is_valid {
            message::write(&mut out.to_client, b'C', &[b"SET\0"], 0);
        } else {
            let text = format!("invalid value for parameter \"{name}\": \"{value}\"");
            let report = Report::new(Severity::Error, INVALID_VALUE, text);
            let hint = "There is replex.trace = on or off, and replex.consistency = gssi, weak, \
                        rsi-pc or 1sr.";
            report.hint(hint).write(&mut out.to_client);
        }
        message::write_ready(&mut out.to_client, self.told_status());
        true
    }

    fn trace(&mut self, trace: Trace) -> bool {
        self.settings.trace = trace;
        true
    }

    fn level(&mut self, level: Level) -> bool {
        self.settings.level = level;
        true
    }
}
