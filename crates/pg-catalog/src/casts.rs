//! Converts values between types, and writes them as texts.

use crate::catalogue::Calls;
use crate::datum::{ArrayDatum, Datum};
use crate::description::Oid;
use crate::error::CatalogueError;
use crate::types::{self, Kind};

/// The most bytes of a text that an expression computes.
pub(crate) const TEXT_MAX: usize = 16 << 20;

/// Returns whether values of one type can be converted to the other.
pub(crate) fn exists(from: Oid, to: Oid) -> bool {
    if from == to || from == types::UNKNOWN {
        return true;
    }
    match (types::kind(from), types::kind(to)) {
        (_, Kind::Text) => true,
        (Kind::Text, to) => to != Kind::Record,
        (Kind::Int, Kind::Int) => types::is_whole(from) && types::is_whole(to),
        (Kind::Int | Kind::Float, Kind::Int | Kind::Float) => {
            types::is_number(from) && types::is_number(to)
        }
        (Kind::Bool, Kind::Int) => to == types::INT4,
        (Kind::Int, Kind::Bool) => from == types::INT4,
        (Kind::Array, Kind::Array) => match (types::element(from), types::element(to)) {
            (Some(from), Some(to)) => exists(from, to),
            _ => true,
        },
        (from, to) => from == to,
    }
}

/// Returns a value as one of another type.
///
/// # Errors
/// The value is none of that type.
pub(crate) fn convert(
    calls: &Calls<'_>,
    value: Datum,
    from: Oid,
    to: Oid,
) -> Result<Datum, CatalogueError> {
    if value.is_null() || from == to {
        return Ok(value);
    }
    match (types::kind(from), types::kind(to)) {
        (Kind::Text, Kind::Text) => Ok(match (&value, to) {
            (Datum::Text(text), types::CHAR) => Datum::text(first_character(text)),
            _ => value,
        }),
        (Kind::Bool, Kind::Text) => Ok(Datum::text(if value.is_true() { "true" } else { "false" })),
        (_, Kind::Text) => Ok(Datum::text(text(calls, &value, from))),
        (Kind::Text, _) => match value.as_text() {
            Some(text) => parse_with(Some(calls), text, to),
            None => Ok(value),
        },
        (Kind::Int, Kind::Int) => {
            let number = value.as_int().unwrap_or_default();
            whole(number, to)
        }
        (Kind::Int, Kind::Float) => Ok(Datum::float(value.as_float().unwrap_or_default())),
        (Kind::Float, Kind::Int) => {
            let number = value.as_float().unwrap_or_default().round_ties_even();
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the range is checked after it"
            )]
            match number.is_finite() && number.abs() < 9.3e18 {
                true => whole(number as i64, to),
                false => Err(CatalogueError::out_of_range(types::sql_name(to))),
            }
        }
        (Kind::Bool, Kind::Int) => Ok(Datum::Int(i64::from(value.is_true()))),
        (Kind::Int, Kind::Bool) => Ok(Datum::Bool(value.as_int() != Some(0))),
        (Kind::Array, Kind::Array) => {
            let (Some(from), Some(to), Some(array)) =
                (types::element(from), types::element(to), value.as_array())
            else {
                return Ok(value);
            };
            let items = array
                .items
                .iter()
                .map(|it| convert(calls, it.clone(), from, to));
            Ok(Datum::Array(std::sync::Arc::new(ArrayDatum {
                lower: array.lower,
                items: items.collect::<Result<_, _>>()?,
            })))
        }
        _ => Ok(value),
    }
}

/// Returns a whole number as one of a type.
pub(crate) fn whole(number: i64, to: Oid) -> Result<Datum, CatalogueError> {
    let fits = match to {
        types::INT2 => i16::try_from(number).is_ok(),
        types::INT4 => i32::try_from(number).is_ok(),
        types::INT8 | types::XID8 | types::TIMESTAMP | types::TIMESTAMPTZ => true,
        // An OID may be written as a negative integer.
        _ => u32::try_from(number).is_ok() || i32::try_from(number).is_ok(),
    };
    if !fits {
        let name = match to {
            types::INT2 | types::INT4 => types::sql_name(to),
            _ => "OID",
        };
        return Err(CatalogueError::out_of_range(name));
    }
    match (to, number) {
        (types::INT2 | types::INT4 | types::INT8 | types::XID8, _) | (_, 0..) => {
            Ok(Datum::Int(number))
        }
        (types::TIMESTAMP | types::TIMESTAMPTZ, _) => Ok(Datum::Int(number)),
        _ => Ok(Datum::Int(number + (1 << 32))),
    }
}

fn first_character(text: &str) -> &str {
    let end = text.char_indices().nth(1).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Returns the value of a text, of a type whose values are no objects of the catalogue.
pub(crate) fn parse(text: &str, to: Oid) -> Result<Datum, CatalogueError> {
    parse_with(None, text, to)
}

fn parse_with(calls: Option<&Calls<'_>>, text: &str, to: Oid) -> Result<Datum, CatalogueError> {
    let invalid = || CatalogueError::invalid_text(types::sql_name(to), text);
    match types::kind(to) {
        Kind::Text => Ok(match to {
            types::CHAR => Datum::text(first_character(text)),
            _ => Datum::text(text),
        }),
        Kind::Bool => {
            let word = text.trim().to_ascii_lowercase();
            match &*word {
                "t" | "true" | "y" | "yes" | "on" | "1" => Ok(Datum::Bool(true)),
                "f" | "false" | "n" | "no" | "off" | "0" => Ok(Datum::Bool(false)),
                _ => Err(invalid()),
            }
        }
        Kind::Int if types::is_reg(to) => match (calls, text.trim().parse::<u32>()) {
            (_, Ok(oid)) => Ok(Datum::oid(oid)),
            (Some(calls), Err(_)) => calls.object(text, to),
            (None, Err(_)) => Err(invalid()),
        },
        Kind::Int if !types::is_whole(to) => Err(CatalogueError::unsupported(format!(
            "a literal of type {}",
            types::sql_name(to)
        ))),
        Kind::Int => {
            let trimmed = text.trim();
            match trimmed.parse::<i64>() {
                Ok(number) => whole(number, to).map_err(|_| {
                    let name = types::sql_name(to);
                    let message = format!("value \"{text}\" is out of range for type {name}");
                    CatalogueError::new("22003", message)
                }),
                Err(_) => Err(invalid()),
            }
        }
        Kind::Float => match text.trim().parse::<f64>() {
            Ok(number) => Ok(Datum::float(number)),
            Err(_) => Err(invalid()),
        },
        Kind::Array => {
            let element = types::element(to).unwrap_or(types::TEXT);
            let items = match to {
                types::INT2VECTOR | types::OIDVECTOR => {
                    let items = text.split_ascii_whitespace();
                    items.map(|it| Some(it.to_owned())).collect()
                }
                _ => array_items(text)?,
            };
            let items = items.into_iter().map(|item| match item {
                None => Ok(Datum::Null),
                Some(item) => parse_with(calls, &item, element),
            });
            let items = items.collect::<Result<Vec<_>, _>>()?;
            Ok(match to {
                types::INT2VECTOR | types::OIDVECTOR => Datum::vector(items),
                _ => Datum::array(items),
            })
        }
        Kind::Record => Err(CatalogueError::unsupported("a row as a text")),
    }
}

/// Returns the items of an array that is written as a text.
fn array_items(text: &str) -> Result<Vec<Option<String>>, CatalogueError> {
    let malformed = || CatalogueError::new("22P02", format!("malformed array literal: \"{text}\""));
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|it| it.strip_suffix('}'));
    let inner = inner.ok_or_else(malformed)?;
    if inner.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut items = Vec::new();
    let mut item = String::new();
    let (mut in_quotes, mut was_quoted) = (false, false);
    let mut characters = inner.chars();
    let mut finish = |item: &mut String, was_quoted: &mut bool| {
        let taken = std::mem::take(item);
        let quoted = std::mem::take(was_quoted);
        items.push(match quoted {
            true => Some(taken),
            false if taken.trim().eq_ignore_ascii_case("null") => None,
            false => Some(taken.trim().to_owned()),
        });
    };
    while let Some(character) = characters.next() {
        match character {
            '\\' => item.push(characters.next().ok_or_else(malformed)?),
            '"' => {
                in_quotes = !in_quotes;
                was_quoted = true;
            }
            ',' if !in_quotes => finish(&mut item, &mut was_quoted),
            '{' | '}' if !in_quotes => return Err(malformed()),
            space if !in_quotes && space.is_whitespace() && (was_quoted || item.is_empty()) => {}
            other => item.push(other),
        }
    }
    if in_quotes {
        return Err(malformed());
    }
    finish(&mut item, &mut was_quoted);
    Ok(items)
}

/// Writes a value that is not NULL as PostgreSQL prints it.
pub(crate) fn text(calls: &Calls<'_>, value: &Datum, type_oid: Oid) -> String {
    match value {
        Datum::Null => String::new(),
        Datum::Bool(value) => if *value { "t" } else { "f" }.to_owned(),
        Datum::Int(number) => match type_oid {
            types::TIMESTAMP => moment(*number),
            types::TIMESTAMPTZ => format!("{}+00", moment(*number)),
            oid if types::is_reg(oid) => {
                let number = u32::try_from(*number).unwrap_or(0);
                calls.object_name(number, oid)
            }
            _ => number.to_string(),
        },
        Datum::Float(bits) => float_text(f64::from_bits(bits.0)),
        Datum::Text(text) => text.to_string(),
        Datum::Array(array) => {
            let element = types::element(type_oid).unwrap_or(types::TEXT);
            let items = array.items.iter();
            if matches!(type_oid, types::INT2VECTOR | types::OIDVECTOR) {
                let items: Vec<String> = items.map(|it| text(calls, it, element)).collect();
                return items.join(" ");
            }
            let items: Vec<String> = items
                .map(|item| match item {
                    Datum::Null => "NULL".to_owned(),
                    item => array_item(&text(calls, item, element)),
                })
                .collect();
            let bounds = match array.lower {
                1 => String::new(),
                _ if array.items.is_empty() => String::new(),
                lower => {
                    let upper = lower + i64::try_from(items.len()).unwrap_or(0) - 1;
                    format!("[{lower}:{upper}]=")
                }
            };
            format!("{bounds}{{{}}}", items.join(","))
        }
        Datum::Record(fields) => {
            let fields: Vec<String> = fields.iter().map(|it| record_field(calls, it)).collect();
            format!("({})", fields.join(","))
        }
    }
}

fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e15).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    value.to_string()
}

fn array_item(item: &str) -> String {
    let is_plain = !item.is_empty()
        && !item.eq_ignore_ascii_case("null")
        && !item.contains(['{', '}', ',', '"', '\\'])
        && !item.contains(char::is_whitespace);
    match is_plain {
        true => item.to_owned(),
        false => format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

fn record_field(calls: &Calls<'_>, field: &Datum) -> String {
    let written = text(calls, field, types::TEXT);
    let is_plain = !written.is_empty()
        && !written.contains(['(', ')', ',', '"', '\\'])
        && !written.contains(char::is_whitespace);
    match (field, is_plain) {
        (Datum::Null, _) => String::new(),
        (_, true) => written,
        (_, false) => format!("\"{}\"", written.replace('\\', "\\\\").replace('"', "\"\"")),
    }
}

/// Writes microseconds since 1970 as a date and a time of day.
fn moment(since_1970_us: i64) -> String {
    let seconds = since_1970_us.div_euclid(1_000_000);
    let us = since_1970_us.rem_euclid(1_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since the first of March of the year 0, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let fraction = match us {
        0 => String::new(),
        us => format!(".{us:06}").trim_end_matches('0').to_owned(),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        assert_eq!(moment(0), "1970-01-01 00:00:00");
        assert_eq!(moment(1_709_210_096_120_000), "2024-02-29 12:34:56.12");
        assert_eq!(moment(-1), "1969-12-31 23:59:59.999999");
    }

    #[test]
    fn arrays_as_texts() {
        let items = array_items(r#"{a, "b,c" ,NULL,"","null","d\"e"}"#).unwrap();
        let expected = [
            Some("a"),
            Some("b,c"),
            None,
            Some(""),
            Some("null"),
            Some("d\"e"),
        ];
        let expected: Vec<Option<String>> =
            expected.iter().map(|it| it.map(str::to_owned)).collect();
        assert_eq!(items, expected);
        for text in ["", "{", "a", "{{a}}", "{\"a}"] {
            assert!(array_items(text).is_err(), "{text}");
        }
    }

    #[test]
    fn floats_as_texts() {
        for (value, expected) in [
            (1.5, "1.5"),
            (-1.0, "-1"),
            (1e20, "1e+20"),
            (1e-7, "1e-07"),
            (0.0, "0"),
        ] {
            assert_eq!(float_text(value), expected);
        }
    }
}
