//! Reads dates, times of the day and moments from text, in the forms that PostgreSQL reads with its
//! default `DateStyle`: ISO, and month before day where only digits stand.
//!
//! A text is cut into fields, and each field fills the parts of a moment that are still open. Forms
//! that are left out, such as `1999.008` or a modifier `DST`, are refused.

use alloc::format;

use crate::calendar::days_from_civil;
use crate::clock::{MICROS_PER_DAY, MICROS_PER_SECOND};
use crate::float::round_half_even;
use crate::zone::TimeZone;

/// January 1st, 1970 as a Julian day.
const JULIAN_1970: i64 = 2_440_588;
/// The most fields of a text.
const FIELDS_MAX: usize = 25;

/// The zone, the clock and the names by which a text is read as a time.
#[derive(Clone, Copy, Debug)]
pub struct TimeInput<'a> {
    /// The zone of times without one.
    pub zone: TimeZone<'a>,
    /// The moment of `now` and the day of `today`, in microseconds since 1970 UTC; none refuses
    /// such words.
    pub now_us: Option<i64>,
    /// Returns the zone of a name or an abbreviation; none if there is none.
    pub zones: fn(&str) -> Option<TimeZone<'static>>,
}

impl TimeInput<'_> {
    /// Times without a zone are in UTC, and there are no other zones.
    pub const UTC: TimeInput<'static> = TimeInput {
        zone: TimeZone::UTC,
        now_us: None,
        zones: |_| None,
    };
}

/// A moment as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenMoment {
    Infinity,
    MinusInfinity,
    /// 1970-01-01 00:00:00 UTC.
    Epoch,
    Now,
    At(WrittenTime),
}

/// A day and a time, with the zone that stands after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenTime {
    /// Days since 1970-01-01; none if the text has no date.
    pub days: Option<i64>,
    /// Microseconds since midnight, up to a whole day; none if the text has no time.
    pub micros: Option<i64>,
    pub zone: WrittenZone,
}

/// The zone of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenZone {
    None,
    /// So many seconds ahead of UTC.
    Ahead(i64),
    Zone(TimeZone<'static>),
}

/// Reads a moment.
pub(crate) fn read(text: &str, input: &TimeInput<'_>) -> Option<WrittenMoment> {
    read_parts(text, input, Parts::default())
}

/// Reads a time of the day, before which a date may stand.
pub(crate) fn read_clock(text: &str, input: &TimeInput<'_>) -> Option<WrittenMoment> {
    let parts = Parts {
        is_clock: true,
        ..Parts::default()
    };
    read_parts(text, input, parts)
}

fn read_parts(text: &str, input: &TimeInput<'_>, parts: Parts) -> Option<WrittenMoment> {
    let mut reader = Reader {
        input,
        rest: text.trim_ascii(),
        parts,
    };
    match &*reader.rest.to_ascii_lowercase() {
        "infinity" => return Some(WrittenMoment::Infinity),
        "-infinity" => return Some(WrittenMoment::MinusInfinity),
        "epoch" => return Some(WrittenMoment::Epoch),
        "now" => return Some(WrittenMoment::Now),
        _ => {}
    }
    let mut fields = 0;
    loop {
        let is_space = |it: char| it.is_ascii_whitespace() || it == ',';
        reader.rest = reader.rest.trim_start_matches(is_space);
        if reader.rest.is_empty() {
            break;
        }
        fields += 1;
        if fields > FIELDS_MAX {
            return None;
        }
        reader.field()?;
    }
    reader.parts.finish().map(WrittenMoment::At)
}

/// The parts of a moment that were read so far.
#[derive(Default)]
struct Parts {
    /// Whether digits that stand alone are a time of the day.
    is_clock: bool,
    year: Option<i64>,
    /// Whether the year has two digits, so that its century is open.
    is_short_year: bool,
    month: Option<i64>,
    is_named_month: bool,
    day: Option<i64>,
    /// The day as days since 1970, if it is written in another way.
    days: Option<i64>,
    is_before_christ: Option<bool>,
    micros: Option<i64>,
    is_afternoon: Option<bool>,
    zone: Option<WrittenZone>,
}

struct Reader<'a> {
    input: &'a TimeInput<'a>,
    rest: &'a str,
    parts: Parts,
}

impl<'a> Reader<'a> {
    /// Takes the characters from the start for which a test holds.
    fn take(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|it| !holds(it)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Reads the next field.
    fn field(&mut self) -> Option<()> {
        match self.next()? {
            '0'..='9' => {
                let digits = self.take(|it| it.is_ascii_digit());
                match self.next() {
                    Some(':') => self.clock(digits),
                    Some('-' | '/' | '.') => self.date(digits),
                    _ => self.parts.number(digits),
                }
            }
            '+' | '-' => {
                let zone = self.take(|it| it.is_ascii_digit() || matches!(it, '+' | '-' | ':'));
                self.parts.set_zone(WrittenZone::Ahead(offset(zone)?))
            }
            'a'..='z' | 'A'..='Z' => self.word(),
            _ => None,
        }
    }

    /// Reads a time of the day, whose hour was taken.
    fn clock(&mut self, hour: &str) -> Option<()> {
        let parts = self.take(|it| it.is_ascii_digit() || matches!(it, ':' | '.'));
        let (clock, fraction) = parts.split_once('.').unwrap_or((parts, ""));
        let mut fields = clock.split(':').skip(1);
        let hour = small(hour)?;
        let minute = small(fields.next()?)?;
        let second = match fields.next() {
            Some(second) => small(second)?,
            None if fraction.is_empty() => 0,
            None => return None,
        };
        if fields.next().is_some() {
            return None;
        }
        self.parts
            .set_clock(hour, minute, second, fraction_micros(fraction)?)
    }

    /// Reads a date of three parts, of which the first one was taken.
    fn date(&mut self, first: &'a str) -> Option<()> {
        // As in PostgreSQL, such a date does not come after the time.
        if self.parts.micros.is_some() {
            return None;
        }
        let separator = self.next()?;
        let mut numbers = [first, "", ""];
        for number in &mut numbers[1..] {
            self.rest = self.rest.strip_prefix(separator)?;
            let letters = self.take(|it| it.is_ascii_alphabetic());
            *number = match letters {
                "" => self.take(|it| it.is_ascii_digit()),
                letters => letters,
            };
        }
        for name in numbers {
            if name.starts_with(|it: char| it.is_ascii_alphabetic()) {
                self.parts.set_month(month(&name.to_ascii_lowercase())?)?;
            }
        }
        for number in numbers {
            if number.bytes().next()?.is_ascii_digit() {
                self.parts.date_number(number)?;
            }
        }
        // More digits or another separator would be read as something else.
        let is_end = |it: char| it.is_ascii_digit() || matches!(it, '-' | '/' | '.');
        (!self.rest.starts_with(is_end)).then_some(())
    }

    fn word(&mut self) -> Option<()> {
        let letters = self.take(|it| it.is_ascii_alphabetic());
        let lower = letters.to_ascii_lowercase();
        let next_is_digit = self.next().is_some_and(|it| it.is_ascii_digit());
        match &*lower {
            // ISO 8601 puts it between a date and a time.
            "t" if next_is_digit && !(self.parts.is_clock && self.parts.has_date()) => {
                let digits = self.take(|it| it.is_ascii_digit());
                return match self.next() {
                    Some(':') => self.clock(digits),
                    _ => self.parts.plain_clock(digits),
                };
            }
            "t" => return None,
            "j" if next_is_digit => {
                let days: i64 = self.take(|it| it.is_ascii_digit()).parse().ok()?;
                return self.parts.set_days(days.checked_sub(JULIAN_1970)?);
            }
            _ => {}
        }
        if let Some(month) = month(&lower) {
            if let Some(separator @ ('-' | '/' | '.')) = self.next() {
                if self.parts.micros.is_some() {
                    return None;
                }
                self.parts.set_month(month)?;
                for _ in 0..2 {
                    self.rest = self.rest.strip_prefix(separator)?;
                    let digits = self.take(|it| it.is_ascii_digit());
                    self.parts.date_number(digits)?;
                }
                return Some(());
            }
            return self.parts.set_month(month);
        }
        match &*lower {
            "am" => return self.parts.set_meridiem(false),
            "pm" => return self.parts.set_meridiem(true),
            "ad" | "bc" => {
                let is_first = self.parts.is_before_christ.is_none();
                self.parts.is_before_christ = Some(lower == "bc");
                return is_first.then_some(());
            }
            "at" | "on" => return Some(()),
            "allballs" => {
                self.parts.set_zone(WrittenZone::Ahead(0))?;
                return self.parts.set_clock(0, 0, 0, 0);
            }
            // PostgreSQL reads no such word before a time of the day.
            "today" | "tomorrow" | "yesterday" if self.parts.is_clock => return None,
            day if self.parts.is_clock && is_weekday(day) => return None,
            "today" => return self.parts.set_days(self.today()?),
            "tomorrow" => return self.parts.set_days(self.today()? + 1),
            "yesterday" => return self.parts.set_days(self.today()? - 1),
            day if is_weekday(day) => return Some(()),
            _ => {}
        }
        let is_of_zone =
            |it: char| it.is_ascii_alphanumeric() || matches!(it, '/' | '_' | '+' | '-');
        let name = format!("{letters}{}", self.take(is_of_zone));
        self.parts.set_zone(match &*name.to_ascii_lowercase() {
            "z" | "zulu" | "utc" | "gmt" => WrittenZone::Ahead(0),
            _ => WrittenZone::Zone((self.input.zones)(&name)?),
        })
    }

    /// Returns the present day in the zone of the session.
    fn today(&self) -> Option<i64> {
        let now = self.input.zone.local(self.input.now_us?)?;
        Some(now.div_euclid(MICROS_PER_DAY))
    }
}

impl Parts {
    fn has_date(&self) -> bool {
        self.days.is_some() || self.year.is_some() && self.month.is_some() && self.day.is_some()
    }

    /// Reads digits that stand alone.
    fn number(&mut self, digits: &str) -> Option<()> {
        let is_open = self.year.is_none() && self.month.is_none() && self.days.is_none();
        if digits.len() >= 6 && is_open && !self.is_clock {
            // Year, month and day without a separator.
            let (year, day) = digits.split_at(digits.len() - 4);
            self.set_year(year)?;
            self.month = Some(day[..2].parse().ok()?);
            self.day = Some(day[2..].parse().ok()?);
            return Some(());
        }
        if self.has_date() || self.is_clock {
            return self.plain_clock(digits);
        }
        self.date_number(digits)
    }

    /// Reads digits that are a part of a date: the next open one, as month, day and year come in
    /// the default `DateStyle`.
    fn date_number(&mut self, digits: &str) -> Option<()> {
        let number: i64 = digits.parse().ok()?;
        let is_long = digits.len() >= 3;
        match (self.year, self.month, self.day) {
            (None, None, None) if is_long => self.set_year(digits)?,
            (None, None, None) | (Some(_), None, None) => self.month = Some(number),
            (None, Some(_), None) if self.is_named_month && is_long => self.set_year(digits)?,
            (_, Some(_), None) => self.day = Some(number),
            (_, None, Some(_)) => self.month = Some(number),
            (None, Some(_), Some(_)) => self.set_year(digits)?,
            (Some(_), Some(_), Some(_)) => return None,
        }
        Some(())
    }

    /// Reads a time of the day without colons.
    fn plain_clock(&mut self, digits: &str) -> Option<()> {
        let part = |from: usize| digits.get(from..from + 2)?.parse().ok();
        match digits.len() {
            4 => self.set_clock(part(0)?, part(2)?, 0, 0),
            6 => self.set_clock(part(0)?, part(2)?, part(4)?, 0),
            _ => None,
        }
    }

    fn set_year(&mut self, digits: &str) -> Option<()> {
        self.is_short_year = digits.len() <= 2;
        self.year = Some(digits.parse().ok()?);
        Some(())
    }

    fn set_month(&mut self, month: i64) -> Option<()> {
        if self.is_named_month || self.days.is_some() {
            return None;
        }
        if let (Some(number), None) = (self.month, self.day) {
            // The number before the name was the day.
            self.day = Some(number);
        } else if self.month.is_some() {
            return None;
        }
        self.month = Some(month);
        self.is_named_month = true;
        Some(())
    }

    fn set_days(&mut self, days: i64) -> Option<()> {
        let is_first = self.days.is_none() && self.year.is_none() && self.month.is_none();
        self.days = Some(days);
        is_first.then_some(())
    }

    fn set_meridiem(&mut self, is_afternoon: bool) -> Option<()> {
        let is_first = self.is_afternoon.is_none();
        self.is_afternoon = Some(is_afternoon);
        is_first.then_some(())
    }

    fn set_zone(&mut self, zone: WrittenZone) -> Option<()> {
        let is_first = self.zone.is_none();
        self.zone = Some(zone);
        is_first.then_some(())
    }

    /// Sets the time of the day. The sixtieth second is the next minute's first one, as in
    /// PostgreSQL.
    fn set_clock(&mut self, hour: i64, minute: i64, second: i64, micros: i64) -> Option<()> {
        if self.micros.is_some() || minute > 59 || second > 60 {
            return None;
        }
        let seconds = 60 * (60 * hour + minute) + second;
        self.micros = Some(seconds * MICROS_PER_SECOND + micros);
        Some(())
    }

    fn finish(self) -> Option<WrittenTime> {
        let micros = match (self.micros, self.is_afternoon) {
            (micros, None) => micros,
            (None, Some(_)) => return None,
            (Some(micros), Some(is_afternoon)) => {
                const HOUR: i64 = 3600 * MICROS_PER_SECOND;
                let hour = micros / HOUR;
                if hour > 12 {
                    return None;
                }
                let by = match (is_afternoon, hour) {
                    (false, 12) => -12,
                    (true, hour) if hour != 12 => 12,
                    _ => 0,
                };
                Some(micros + by * HOUR)
            }
        };
        if micros.is_some_and(|it| it > MICROS_PER_DAY) {
            return None;
        }
        let days = match (self.days, self.year, self.month, self.day) {
            (Some(days), None, None, None) => Some(days),
            (None, None, None, None) => None,
            (None, Some(year), Some(month), Some(day)) => {
                let year = match (self.is_before_christ, self.is_short_year) {
                    (Some(true), _) if year > 0 => 1 - year,
                    (Some(true), _) => return None,
                    (None, true) if year < 70 => year + 2000,
                    (None, true) => year + 1900,
                    (_, false) if year == 0 => return None,
                    _ => year,
                };
                let part = |it: i64| u32::try_from(it).ok();
                /// Beyond all dates, and far from the ends of the integers.
                const YEAR_MAX: i64 = 10_000_000;
                if year.abs() > YEAR_MAX {
                    return None;
                }
                Some(days_from_civil(year, part(month)?, part(day)?)?)
            }
            _ => return None,
        };
        Some(WrittenTime {
            days,
            micros,
            zone: self.zone.unwrap_or(WrittenZone::None),
        })
    }
}

impl WrittenTime {
    /// Returns the microseconds since 1970 of a time whose zone does not count; none if the text
    /// has no date.
    pub(crate) fn local(&self) -> Option<i64> {
        let day = self.days?.checked_mul(MICROS_PER_DAY)?;
        day.checked_add(self.micros.unwrap_or(0))
    }

    /// Returns the microseconds since 1970 UTC. A time without a zone is in this one.
    pub(crate) fn moment(&self, session: &TimeZone<'_>) -> Option<i64> {
        match self.zone {
            WrittenZone::None => session.moment(self.local()?),
            WrittenZone::Zone(zone) => zone.moment(self.local()?),
            WrittenZone::Ahead(seconds) => {
                let day = i128::from(self.days?) * i128::from(MICROS_PER_DAY);
                let micros = self.micros.unwrap_or(0) - seconds * MICROS_PER_SECOND;
                i64::try_from(day + i128::from(micros)).ok()
            }
        }
    }
}

/// Returns the number of at most two digits.
fn small(digits: &str) -> Option<i64> {
    let count = digits.len();
    let is_small = (1..=2).contains(&count) && digits.bytes().all(|it| it.is_ascii_digit());
    digits.parse().ok().filter(|_| is_small)
}

/// Returns the microseconds of a fraction of a second, to the nearest, halves to the even one.
pub(crate) fn fraction_micros(fraction: &str) -> Option<i64> {
    /// More digits do not change a double.
    const DIGITS_MAX: usize = 400;
    if fraction.is_empty() {
        return Some(0);
    }
    let all_digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits || fraction.len() > DIGITS_MAX {
        return None;
    }
    let seconds: f64 = format!("0.{fraction}").parse().ok()?;
    Some(round_half_even(seconds * MICROS_PER_SECOND as f64) as i64)
}

/// Returns the seconds that a zone is ahead of UTC: of `±hour`, `±hourminute` or
/// `±hour:minute[:second]`.
fn offset(zone: &str) -> Option<i64> {
    let offset = zone.strip_prefix(['+', '-'])?;
    let (hours, rest) = match offset.split_once(':') {
        Some(parts) => parts,
        None if matches!(offset.len(), 3 | 4) && offset.is_ascii() => {
            offset.split_at(offset.len() - 2)
        }
        None => (offset, "00"),
    };
    let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "00"));
    let part = |text, max| small(text).filter(|it| *it <= max);
    let (hours, minutes) = (part(hours, 15)?, part(minutes, 59)?);
    let ahead = 3600 * hours + 60 * minutes + part(seconds, 59)?;
    Some(if zone.starts_with('-') { -ahead } else { ahead })
}

/// Returns the number of a month, by its name in small letters.
fn month(name: &str) -> Option<i64> {
    const NAMES: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let mut names = (1..).zip(NAMES);
    let found = names.find(|(_, full)| {
        name == *full || name == &full[..3] || name == "sept" && full.starts_with("sept")
    });
    found.map(|(number, _)| number)
}

fn is_weekday(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "sun",
        "sunday",
        "mon",
        "monday",
        "tue",
        "tues",
        "tuesday",
        "wed",
        "weds",
        "wednesday",
        "thu",
        "thur",
        "thurs",
        "thursday",
        "fri",
        "friday",
        "sat",
        "saturday",
    ];
    NAMES.contains(&name)
}
