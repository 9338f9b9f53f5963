//! The forms of ISO 8601.

use super::{IntervalError, Parsed, Parts, Unit};
use crate::clock::MICROS_PER_SECOND;
use crate::interval::{MICROS_PER_HOUR, MICROS_PER_MINUTE};

/// From here on PostgreSQL refuses a number.
const NUMBER_MAX: f64 = 1e15;

/// Reads `P1Y2M3W4DT5H6M7S`, or the same as `P0001-02-03T05:06:07` or `P00010203T050607`.
pub(super) fn read(text: &str) -> Parsed<Parts> {
    let mut rest = text.strip_prefix('P').ok_or(IntervalError::Syntax)?;
    if rest.is_empty() {
        return Err(IntervalError::Syntax);
    }
    let mut parts = Parts::default();
    let mut is_date = true;
    let mut has_field = false;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (is_date, has_field) = (false, false);
            rest = after;
            continue;
        }
        let start = rest;
        let (number, after) = number(rest)?;
        let digits = start.strip_prefix('-').unwrap_or(start);
        let width = digits.bytes().take_while(u8::is_ascii_digit).count();
        let unit = after.chars().next();
        rest = unit.map_or("", |it| &after[it.len_utf8()..]);
        let is_first = !has_field;
        has_field = true;
        let unit = match (is_date, unit) {
            (true, Some('Y')) => Unit::Years(1),
            (true, Some('M')) => Unit::Month,
            (true, Some('W')) => Unit::Week,
            (true, Some('D')) => Unit::Day,
            (false, Some('H')) => Unit::Micros(MICROS_PER_HOUR),
            (false, Some('M')) => Unit::Micros(MICROS_PER_MINUTE),
            (false, Some('S')) => Unit::Micros(MICROS_PER_SECOND),
            (true, None | Some('T')) if width == 8 && is_first => {
                let (whole, fraction) = number;
                parts.add(Unit::Years(1), (whole / 10_000, 0.0))?;
                parts.add(Unit::Month, (whole / 100 % 100, 0.0))?;
                parts.add(Unit::Day, (whole % 100, fraction))?;
                (is_date, has_field) = (false, false);
                continue;
            }
            (true, None | Some('T' | '-')) if is_first => {
                rest = extended_date(&mut parts, number, after)?;
                (is_date, has_field) = (false, false);
                continue;
            }
            (false, None) if width == 6 && is_first => {
                let (whole, fraction) = number;
                parts.add(Unit::Micros(MICROS_PER_HOUR), (whole / 10_000, 0.0))?;
                parts.add(Unit::Micros(MICROS_PER_MINUTE), (whole / 100 % 100, 0.0))?;
                parts.add(Unit::Micros(MICROS_PER_SECOND), (whole % 100, 0.0))?;
                parts.add(Unit::Micros(1), (0, fraction))?;
                return Ok(parts);
            }
            (false, None | Some(':')) if is_first => {
                extended_clock(&mut parts, number, after)?;
                return Ok(parts);
            }
            _ => return Err(IntervalError::Syntax),
        };
        parts.add(unit, number)?;
    }
    Ok(parts)
}

/// Reads `-month-day` after a year, and returns what follows.
fn extended_date<'t>(parts: &mut Parts, year: (i64, f64), mut rest: &'t str) -> Parsed<&'t str> {
    parts.add(Unit::Years(1), year)?;
    for unit in [Unit::Month, Unit::Day] {
        if rest.is_empty() {
            return Ok("");
        }
        if let Some(after) = rest.strip_prefix('T') {
            return Ok(after);
        }
        let after = rest.strip_prefix('-').ok_or(IntervalError::Syntax)?;
        let (value, after) = number(after)?;
        parts.add(unit, value)?;
        rest = after;
    }
    match rest.strip_prefix('T') {
        Some(after) => Ok(after),
        None if rest.is_empty() => Ok(""),
        None => Err(IntervalError::Syntax),
    }
}

/// Reads `:minute:second` after an hour.
fn extended_clock(parts: &mut Parts, hour: (i64, f64), mut rest: &str) -> Parsed<()> {
    parts.add(Unit::Micros(MICROS_PER_HOUR), hour)?;
    for each in [MICROS_PER_MINUTE, MICROS_PER_SECOND] {
        if rest.is_empty() {
            return Ok(());
        }
        let after = rest.strip_prefix(':').ok_or(IntervalError::Syntax)?;
        let (value, after) = number(after)?;
        parts.add(Unit::Micros(each), value)?;
        rest = after;
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err(IntervalError::Syntax),
    }
}

/// Reads a number from the start of a text: its whole part and its fraction, and what follows.
fn number(text: &str) -> Parsed<((i64, f64), &str)> {
    let digits_of = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let sign = usize::from(text.starts_with('-'));
    let whole = digits_of(&text[sign..]);
    let mut end = sign + whole;
    let mut digits = whole;
    if text[end..].starts_with('.') {
        let fraction = digits_of(&text[end + 1..]);
        digits += fraction;
        end += 1 + fraction;
    }
    if digits == 0 {
        return Err(IntervalError::Syntax);
    }
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let digits = digits_of(&exponent[sign..]);
        if digits > 0 {
            end += 1 + sign + digits;
        }
    }
    let value: f64 = text[..end].parse().map_err(|_| IntervalError::Syntax)?;
    if !(-NUMBER_MAX..=NUMBER_MAX).contains(&value) {
        return Err(IntervalError::FieldRange);
    }
    let whole = value as i64;
    Ok(((whole, value - whole as f64), &text[end..]))
}
