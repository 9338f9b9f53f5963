//! Time zones: the offsets of local time from UTC, by rules that a caller provides.
//!
//! A zone is the content of a TZif file (RFC 9636) with its name, or a POSIX string such as
//! `CET-1CEST,M3.5.0,M10.5.0/3`. Both have an encoding as bytes, so that an expression carries the
//! rules by which it is evaluated: two servers with different time zone databases compute the same.
//! The database itself is not here. Local times in a gap or an overlap are resolved as in
//! PostgreSQL: in a gap by the offset before it, in an overlap by the offset after it.

mod posix;
mod tzif;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use posix::PosixRules;
pub use tzif::Tzif;

/// The longest POSIX string of a zone, in bytes.
pub const POSIX_ZONE_LEN_MAX: usize = 60;

const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_SECOND: i64 = 1_000_000;

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeZone<'a> {
    /// A zone of the time zone database.
    Named {
        /// The name.
        name: &'a str,
        /// The content of its TZif file.
        rules: Tzif<'a>,
    },
    /// A POSIX string, which is its own name.
    Posix(PosixZone),
}

/// A zone that a POSIX string describes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PosixZone {
    text: [u8; POSIX_ZONE_LEN_MAX],
    len: usize,
    rules: PosixRules,
}

/// A change of the offset of local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    /// When it happens, in seconds since 1970 UTC.
    pub at: i64,
    /// The seconds that local time is ahead of UTC before it.
    pub before: i32,
    /// The seconds that local time is ahead of UTC from it on.
    pub after: i32,
}

impl<'a> TimeZone<'a> {
    /// Coordinated Universal Time.
    pub const UTC: TimeZone<'static> = TimeZone::Posix(PosixZone::UTC);

    /// Returns the zone of a TZif file; none if the file is invalid.
    pub fn named(name: &'a str, tzif: &'a [u8]) -> Option<TimeZone<'a>> {
        let rules = Tzif::read(tzif)?;
        (!name.is_empty() && !name.contains('\0')).then_some(TimeZone::Named { name, rules })
    }

    /// Returns the zone of a POSIX string; none if the string is invalid or longer than
    /// [`POSIX_ZONE_LEN_MAX`]. As in POSIX, offsets count westwards.
    pub fn posix(text: &str) -> Option<TimeZone<'static>> {
        let rules = PosixRules::parse(text)?;
        let mut kept = [0; POSIX_ZONE_LEN_MAX];
        kept.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.contains('\0')).then_some(TimeZone::Posix(PosixZone {
            text: kept,
            len: text.len(),
            rules,
        }))
    }

    /// Returns the zone that is always so many seconds ahead of UTC, with PostgreSQL's name for it,
    /// such as `<+02>-02`; none beyond 167 hours.
    pub fn fixed(ahead: i64) -> Option<TimeZone<'static>> {
        let size = ahead.abs();
        let (hours, minutes, seconds) = (size / 3600, size / 60 % 60, size % 60);
        let mut offset = alloc::format!("{hours:02}");
        if minutes != 0 || seconds != 0 {
            offset += &alloc::format!(":{minutes:02}");
        }
        if seconds != 0 {
            offset += &alloc::format!(":{seconds:02}");
        }
        let (shown, posix) = if ahead < 0 { ('-', '+') } else { ('+', '-') };
        TimeZone::posix(&alloc::format!("<{shown}{offset}>{posix}{offset}"))
    }

    /// Returns the zone that [`TimeZone::encode`] has encoded; none for other bytes.
    pub fn decode(bytes: &'a [u8]) -> Option<TimeZone<'a>> {
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) => {
                let name = core::str::from_utf8(&bytes[..end]).ok()?;
                TimeZone::named(name, &bytes[end + 1..])
            }
            None => TimeZone::posix(core::str::from_utf8(bytes).ok()?),
        }
    }

    /// Returns the rules of the zone as bytes: its name, a zero byte and the TZif file, or a POSIX
    /// string.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            TimeZone::Named { name, rules } => {
                let mut bytes = Vec::from(name.as_bytes());
                bytes.push(0);
                bytes.extend_from_slice(rules.bytes());
                bytes
            }
            TimeZone::Posix(zone) => zone.text[..zone.len].into(),
        }
    }

    /// Returns the name of the zone.
    pub fn name(&self) -> &str {
        match self {
            TimeZone::Named { name, .. } => name,
            TimeZone::Posix(zone) => zone.name(),
        }
    }

    /// Returns whether local time is always UTC.
    pub fn is_utc(&self) -> bool {
        self.transition_after(i64::MIN / 2).is_none() && self.ahead_at(0) == 0
    }

    /// Returns the seconds that local time is ahead of UTC, at a moment in seconds since 1970 UTC.
    pub fn ahead_at(&self, at: i64) -> i32 {
        match self {
            TimeZone::Named { rules, .. } => rules.ahead_at(at),
            TimeZone::Posix(zone) => zone.rules.ahead_at(at),
        }
    }

    /// Returns the seconds that local time is ahead of UTC, at a local time in seconds since
    /// 1970-01-01 00:00:00.
    pub fn ahead_at_local(&self, local: i64) -> i32 {
        let day_before = local.saturating_sub(SECONDS_PER_DAY);
        let Some(next) = self.transition_after(day_before) else {
            return self.ahead_at(day_before);
        };
        let by_before = local - i64::from(next.before);
        let by_after = local - i64::from(next.after);
        if by_before < next.at && by_after < next.at {
            next.before
        } else if by_before > next.at && by_after >= next.at {
            next.after
        } else if by_before > by_after {
            // In a gap.
            next.before
        } else {
            // In an overlap, or at the transition.
            next.after
        }
    }

    /// Returns the local time at a moment, both in microseconds since 1970. Infinities stay.
    /// Returns none beyond the integers.
    pub fn local(&self, micros: i64) -> Option<i64> {
        if is_infinite(micros) {
            return Some(micros);
        }
        let ahead = self.ahead_at(micros.div_euclid(MICROS_PER_SECOND));
        let local = micros.checked_add(i64::from(ahead) * MICROS_PER_SECOND)?;
        (!is_infinite(local)).then_some(local)
    }

    /// Returns the moment of a local time, both in microseconds since 1970. Infinities stay.
    /// Returns none beyond the integers.
    pub fn moment(&self, local: i64) -> Option<i64> {
        if is_infinite(local) {
            return Some(local);
        }
        let ahead = self.ahead_at_local(local.div_euclid(MICROS_PER_SECOND));
        let micros = local.checked_sub(i64::from(ahead) * MICROS_PER_SECOND)?;
        (!is_infinite(micros)).then_some(micros)
    }

    /// Returns the first transition after a moment.
    fn transition_after(&self, at: i64) -> Option<Transition> {
        match self {
            TimeZone::Named { rules, .. } => rules.transition_after(at),
            TimeZone::Posix(zone) => zone.rules.transition_after(at),
        }
    }
}

fn is_infinite(micros: i64) -> bool {
    matches!(micros, i64::MIN | i64::MAX)
}

impl PosixZone {
    const UTC: PosixZone = {
        let mut text = [0; POSIX_ZONE_LEN_MAX];
        [text[0], text[1], text[2], text[3]] = *b"UTC0";
        PosixZone {
            text,
            len: 4,
            rules: PosixRules::UTC,
        }
    };

    fn name(&self) -> &str {
        match (self.rules == PosixRules::UTC, &self.text[..self.len]) {
            (true, b"UTC0") => "UTC",
            (_, text) => core::str::from_utf8(text).expect("it was made from a text"),
        }
    }
}

impl fmt::Debug for PosixZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PosixZone({:?})", String::from(self.name()))
    }
}

#[cfg(test)]
mod tests;
