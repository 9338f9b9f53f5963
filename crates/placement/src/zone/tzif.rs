//! Reads the offsets of a TZif file of version 2 or later, without a copy of it.

use super::Transition;
use super::posix::PosixRules;

const HEADER_LEN: usize = 44;
const MAGIC: &[u8] = b"TZif";
/// The bytes of a time, of an index of a type, and of a type.
const TIME_LEN: usize = 8;
const TYPE_LEN: usize = 6;

/// The parts of a TZif file that offsets need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tzif<'a> {
    bytes: &'a [u8],
    times: &'a [u8],
    indexes: &'a [u8],
    types: &'a [u8],
    /// The POSIX string for the time after the last transition; may be empty.
    footer: &'a str,
}

/// The counts in a header.
struct Counts {
    times: usize,
    types: usize,
    characters: usize,
    leaps: usize,
    standard: usize,
    universal: usize,
}

impl Counts {
    fn read(header: &[u8]) -> Option<Counts> {
        if header.len() < HEADER_LEN || &header[..4] != MAGIC || header[4] < b'2' {
            return None;
        }
        let count = |position: usize| {
            let at = 20 + 4 * position;
            let bytes = header[at..at + 4].try_into().expect("it has four bytes");
            usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX)
        };
        Some(Counts {
            universal: count(0),
            standard: count(1),
            leaps: count(2),
            times: count(3),
            types: count(4),
            characters: count(5),
        })
    }

    /// Returns the bytes of the data after the header, with times of this length.
    fn data_len(&self, time_len: usize) -> Option<usize> {
        let times = self.times.checked_mul(time_len + 1)?;
        let types = self.types.checked_mul(TYPE_LEN)?;
        let leaps = self.leaps.checked_mul(time_len + 4)?;
        let parts = [types, self.characters, leaps, self.standard, self.universal];
        parts
            .into_iter()
            .try_fold(times, |sum, part| sum.checked_add(part))
    }
}

impl<'a> Tzif<'a> {
    /// Returns the parts of a file; none if it is invalid, has leap seconds, or is of version 1.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Tzif<'a>> {
        let first = Counts::read(bytes)?;
        let second = bytes.get(HEADER_LEN.checked_add(first.data_len(4)?)?..)?;
        let counts = Counts::read(second)?;
        let data = &second[HEADER_LEN..];
        let footer = data.get(counts.data_len(TIME_LEN)?..)?;
        let footer = footer.strip_prefix(b"\n")?.strip_suffix(b"\n")?;
        let footer = core::str::from_utf8(footer).ok()?;
        let (times, rest) = data.split_at_checked(counts.times * TIME_LEN)?;
        let (indexes, rest) = rest.split_at_checked(counts.times)?;
        let types = rest.get(..counts.types * TYPE_LEN)?;
        let are_known = indexes.iter().all(|it| usize::from(*it) < counts.types);
        let is_footer = footer.is_empty() || PosixRules::parse(footer).is_some();
        let is_valid = are_known && is_footer && counts.types > 0 && counts.leaps == 0;
        is_valid.then_some(Tzif {
            bytes,
            times,
            indexes,
            types,
            footer,
        })
    }

    /// Returns the file.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn ahead_at(&self, at: i64) -> i32 {
        match self.count_until(at) {
            0 => self.offset(0),
            count if count < self.indexes.len() => self.ahead_after(count - 1),
            count => match self.footer() {
                Some(rules) => rules.ahead_at(at),
                None => self.ahead_after(count - 1),
            },
        }
    }

    pub(super) fn transition_after(&self, at: i64) -> Option<Transition> {
        let next = self.count_until(at);
        if next == self.indexes.len() {
            return self.footer()?.transition_after(at);
        }
        Some(Transition {
            at: self.time(next),
            before: match next {
                0 => self.offset(0),
                next => self.ahead_after(next - 1),
            },
            after: self.ahead_after(next),
        })
    }

    fn footer(&self) -> Option<PosixRules> {
        match self.footer {
            "" => None,
            footer => PosixRules::parse(footer),
        }
    }

    /// Returns how many transitions there are up to a moment.
    fn count_until(&self, at: i64) -> usize {
        let (mut low, mut high) = (0, self.indexes.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.time(middle) <= at {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    fn time(&self, transition: usize) -> i64 {
        let at = transition * TIME_LEN;
        let bytes = self.times[at..at + TIME_LEN].try_into();
        i64::from_be_bytes(bytes.expect("it has eight bytes"))
    }

    /// Returns the offset from a transition on.
    fn ahead_after(&self, transition: usize) -> i32 {
        self.offset(self.indexes[transition].into())
    }

    fn offset(&self, of_type: usize) -> i32 {
        let at = of_type * TYPE_LEN;
        let bytes = self.types[at..at + 4].try_into();
        i32::from_be_bytes(bytes.expect("it has four bytes"))
    }
}
