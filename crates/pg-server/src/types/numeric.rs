//! `numeric` in binary, as PostgreSQL sends it: big-endian words of 16 bits.
//!
//! | word | value |
//! |---|---|
//! | count | the number of groups |
//! | weight | the number of groups before the point, less one; signed |
//! | sign | `0000`, `4000` if negative, `c000` NaN, `d000` `Infinity`, `f000` `-Infinity` |
//! | scale | the digits after the point |
//! | groups | four decimal digits each; zeros at both ends are left out |

use bytes::{BufMut, BytesMut};
use pg_wire::report::Report;
use placement::{NUMERIC_SCALE_MAX, Numeric, NumericRef};

use crate::errors;

/// The fewest bytes of a value.
pub(super) const BINARY_LEN_MIN: usize = 8;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const NEGATIVE_INFINITY: u16 = 0xf000;
/// The scale that PostgreSQL sends with an infinity.
const INFINITY_SCALE: u16 = 32;
/// Decimal digits of a group.
const GROUP_DIGITS: usize = 4;

/// Returns the value of bytes; none if they are not in the format. Digits beyond the scale are left
/// out, as in PostgreSQL.
pub(super) fn read(bytes: &[u8]) -> Option<Result<Numeric, Report>> {
    let (words, []) = bytes.as_chunks::<2>() else {
        return None;
    };
    let words: Vec<u16> = words.iter().map(|word| u16::from_be_bytes(*word)).collect();
    let ([count, weight, sign, scale], groups) = words.split_first_chunk()?;
    let is_valid = usize::from(*count) == groups.len()
        && u32::from(*scale) <= NUMERIC_SCALE_MAX
        && groups.iter().all(|group| *group <= 9999);
    if !is_valid {
        return None;
    }
    let sign = match *sign {
        0 => "",
        NEGATIVE => "-",
        NAN => return Some(Ok(Numeric::nan())),
        INFINITY => return Some(Ok(Numeric::infinity(false))),
        NEGATIVE_INFINITY => return Some(Ok(Numeric::infinity(true))),
        _ => return None,
    };
    let weight = i32::from(weight.cast_signed());
    let group = |position: i32| {
        let position = usize::try_from(position).ok();
        let digits = position.and_then(|it| groups.get(it)).unwrap_or(&0);
        format!("{digits:04}")
    };
    let scale = usize::from(*scale);
    let fraction_groups = scale.div_ceil(GROUP_DIGITS) as i32;
    let whole: String = (0..=weight).map(group).collect();
    let fraction: String = (weight + 1..=weight + fraction_groups).map(group).collect();
    let text = format!("{sign}0{whole}.{}", &fraction[..scale]);
    Some(Numeric::parse(&text).map_err(|_| errors::out_of_range(&text)))
}

/// Appends a value.
pub(super) fn write(out: &mut BytesMut, value: NumericRef<'_>) {
    let Some(scale) = value.scale() else {
        let (sign, scale) = match value.signum() {
            None => (NAN, 0),
            Some(-1) => (NEGATIVE_INFINITY, INFINITY_SCALE),
            Some(_) => (INFINITY, INFINITY_SCALE),
        };
        out.put_slice(&[0; 4]);
        out.put_u16(sign);
        out.put_u16(scale);
        return;
    };
    let text = value.to_string();
    let unsigned = text.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole_groups = whole.len().div_ceil(GROUP_DIGITS);
    let fraction_groups = fraction.len().div_ceil(GROUP_DIGITS);
    let (before, after) = (whole_groups * GROUP_DIGITS, fraction_groups * GROUP_DIGITS);
    let digits = format!("{whole:0>before$}{fraction:0<after$}");
    let groups = digits.as_bytes().chunks(GROUP_DIGITS);
    let groups = groups.map(|group| {
        group
            .iter()
            .fold(0, |sum, it| 10 * sum + u16::from(it - b'0'))
    });
    let groups: Vec<u16> = groups.collect();
    let first = groups.iter().position(|group| *group != 0);
    let first = first.unwrap_or(groups.len());
    let end = groups.iter().rposition(|group| *group != 0);
    let groups = &groups[first..end.map_or(first, |last| last + 1)];
    let weight = match groups {
        [] => 0,
        _ => whole_groups as i32 - 1 - first as i32,
    };
    out.put_u16(groups.len() as u16);
    out.put_i16(weight as i16);
    out.put_u16(if text.starts_with('-') { NEGATIVE } else { 0 });
    out.put_u16(scale as u16);
    groups.iter().for_each(|group| out.put_u16(*group));
}
