//! Functions on texts, and the matching of patterns.

use regex::{Regex, RegexBuilder};

use super::{Called, Function, int_of, null, strict, text_of, variadic};
use crate::casts::TEXT_MAX;
use crate::catalogue::Calls;
use crate::datum::Datum;
use crate::definitions::quoted;
use crate::error::CatalogueError;
use crate::types::{ANY, BOOL, INT4, JSON, NAME, TEXT, TEXT_ARRAY};

/// The most bytes of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

pub(super) const FUNCTIONS: &[Function] = &[
    strict("lower", &[TEXT], TEXT, |_, it| {
        Ok(Datum::text(text_of(&it[0]).to_lowercase()))
    }),
    strict("upper", &[TEXT], TEXT, |_, it| {
        Ok(Datum::text(text_of(&it[0]).to_uppercase()))
    }),
    strict("initcap", &[TEXT], TEXT, |_, it| {
        Ok(Datum::text(capitalized(text_of(&it[0]))))
    }),
    strict("reverse", &[TEXT], TEXT, |_, it| {
        Ok(Datum::text(
            text_of(&it[0]).chars().rev().collect::<String>(),
        ))
    }),
    strict("length", &[TEXT], INT4, length),
    strict("char_length", &[TEXT], INT4, length),
    strict("character_length", &[TEXT], INT4, length),
    strict("octet_length", &[TEXT], INT4, |_, it| {
        Ok(number(text_of(&it[0]).len()))
    }),
    strict("ascii", &[TEXT], INT4, |_, it| {
        let first = text_of(&it[0]).chars().next();
        Ok(Datum::Int(first.map_or(0, |it| i64::from(u32::from(it)))))
    }),
    strict("chr", &[INT4], TEXT, |_, it| {
        let character = u32::try_from(int_of(&it[0])).ok().and_then(char::from_u32);
        match character.filter(|it| *it != '\0') {
            Some(character) => Ok(Datum::text(character.to_string())),
            None => Err(CatalogueError::new(
                "54000",
                "requested character is not valid",
            )),
        }
    }),
    strict("substring", &[TEXT, INT4], TEXT, |_, it| {
        Ok(Datum::text(part(text_of(&it[0]), int_of(&it[1]), None)?))
    }),
    strict("substring", &[TEXT, INT4, INT4], TEXT, substring),
    strict("substr", &[TEXT, INT4], TEXT, |_, it| {
        Ok(Datum::text(part(text_of(&it[0]), int_of(&it[1]), None)?))
    }),
    strict("substr", &[TEXT, INT4, INT4], TEXT, substring),
    strict("substring", &[TEXT, TEXT], TEXT, |_, it| {
        let found = regex(text_of(&it[1]), false)?;
        let captures = found.captures(text_of(&it[0]));
        Ok(captures.map_or(Datum::Null, |captures| {
            let group = if captures.len() > 1 {
                captures.get(1)
            } else {
                captures.get(0)
            };
            group.map_or(Datum::Null, |it| Datum::text(it.as_str()))
        }))
    }),
    strict("left", &[TEXT, INT4], TEXT, |_, it| {
        let text = text_of(&it[0]);
        let count = from_end(text, int_of(&it[1]));
        Ok(Datum::text(text.chars().take(count).collect::<String>()))
    }),
    strict("right", &[TEXT, INT4], TEXT, |_, it| {
        let text = text_of(&it[0]);
        let count = from_end(text, int_of(&it[1]));
        let skipped = text.chars().count() - count;
        Ok(Datum::text(text.chars().skip(skipped).collect::<String>()))
    }),
    strict("replace", &[TEXT, TEXT, TEXT], TEXT, |_, it| {
        let (text, from, to) = (text_of(&it[0]), text_of(&it[1]), text_of(&it[2]));
        match from {
            "" => Ok(Datum::text(text)),
            from => {
                let grown = text.matches(from).count().saturating_mul(to.len());
                check_length(text.len().saturating_add(grown))?;
                Ok(Datum::text(text.replace(from, to)))
            }
        }
    }),
    strict("translate", &[TEXT, TEXT, TEXT], TEXT, |_, it| {
        let to: Vec<char> = text_of(&it[2]).chars().collect();
        let from: Vec<char> = text_of(&it[1]).chars().collect();
        let characters = text_of(&it[0]).chars().filter_map(|character| {
            match from.iter().position(|it| *it == character) {
                None => Some(character),
                Some(position) => to.get(position).copied(),
            }
        });
        Ok(Datum::text(characters.collect::<String>()))
    }),
    strict("btrim", &[TEXT], TEXT, |_, it| {
        Ok(Datum::text(text_of(&it[0]).trim_matches(' ')))
    }),
    strict("ltrim", &[TEXT], TEXT, |_, it| {
        Ok(Datum::text(text_of(&it[0]).trim_start_matches(' ')))
    }),
    strict("rtrim", &[TEXT], TEXT, |_, it| {
        Ok(Datum::text(text_of(&it[0]).trim_end_matches(' ')))
    }),
    strict("btrim", &[TEXT, TEXT], TEXT, |_, it| {
        let characters: Vec<char> = text_of(&it[1]).chars().collect();
        Ok(Datum::text(text_of(&it[0]).trim_matches(&characters[..])))
    }),
    strict("ltrim", &[TEXT, TEXT], TEXT, |_, it| {
        let characters: Vec<char> = text_of(&it[1]).chars().collect();
        Ok(Datum::text(
            text_of(&it[0]).trim_start_matches(&characters[..]),
        ))
    }),
    strict("rtrim", &[TEXT, TEXT], TEXT, |_, it| {
        let characters: Vec<char> = text_of(&it[1]).chars().collect();
        Ok(Datum::text(
            text_of(&it[0]).trim_end_matches(&characters[..]),
        ))
    }),
    strict("strpos", &[TEXT, TEXT], INT4, |_, it| {
        let text = text_of(&it[0]);
        let found = text.find(text_of(&it[1]));
        Ok(found.map_or(Datum::Int(0), |at| number(text[..at].chars().count() + 1)))
    }),
    strict("starts_with", &[TEXT, TEXT], BOOL, |_, it| {
        Ok(Datum::Bool(text_of(&it[0]).starts_with(text_of(&it[1]))))
    }),
    strict("split_part", &[TEXT, TEXT, INT4], TEXT, |_, it| {
        let parts: Vec<&str> = match text_of(&it[1]) {
            "" => vec![text_of(&it[0])],
            separator => text_of(&it[0]).split(separator).collect(),
        };
        let position = match int_of(&it[2]) {
            0 => {
                let text = "field position must not be zero";
                return Err(CatalogueError::new("22023", text));
            }
            number @ 1.. => usize::try_from(number - 1).ok(),
            number => usize::try_from(-number)
                .ok()
                .and_then(|it| parts.len().checked_sub(it)),
        };
        let found = position.and_then(|it| parts.get(it));
        Ok(Datum::text(found.copied().unwrap_or_default()))
    }),
    strict("repeat", &[TEXT, INT4], TEXT, |_, it| {
        let count = usize::try_from(int_of(&it[1])).unwrap_or(0);
        check_length(text_of(&it[0]).len().saturating_mul(count))?;
        Ok(Datum::text(text_of(&it[0]).repeat(count)))
    }),
    strict("lpad", &[TEXT, INT4], TEXT, |_, it| padded(it, " ", true)),
    strict("rpad", &[TEXT, INT4], TEXT, |_, it| padded(it, " ", false)),
    strict("lpad", &[TEXT, INT4, TEXT], TEXT, |_, it| {
        padded(it, text_of(&it[2]), true)
    }),
    strict("rpad", &[TEXT, INT4, TEXT], TEXT, |_, it| {
        padded(it, text_of(&it[2]), false)
    }),
    variadic("concat", &[ANY], TEXT, |_, it| {
        let texts: Vec<&str> = it.iter().map(text_of).collect();
        check_length(texts.iter().map(|it| it.len()).sum())?;
        Ok(Datum::text(texts.concat()))
    }),
    variadic("concat_ws", &[TEXT, ANY], TEXT, |_, it| {
        let Some(separator) = it[0].as_text() else {
            return null();
        };
        let texts: Vec<&str> = it[1..].iter().filter_map(Datum::as_text).collect();
        Ok(Datum::text(texts.join(separator)))
    }),
    strict("format", &[TEXT], TEXT, |_, it| format_text(it)),
    variadic("format", &[TEXT, ANY], TEXT, |_, it| match it[0] {
        Datum::Null => null(),
        _ => format_text(it),
    }),
    strict("quote_ident", &[TEXT], TEXT, |_, it| {
        Ok(Datum::text(quoted(text_of(&it[0]))))
    }),
    strict("quote_literal", &[ANY], TEXT, |_, it| {
        Ok(Datum::text(literal(text_of(&it[0]))))
    }),
    variadic("quote_nullable", &[ANY], TEXT, |_, it| {
        Ok(Datum::text(
            it[0].as_text().map_or("NULL".to_owned(), literal),
        ))
    }),
    strict("parse_ident", &[TEXT], TEXT_ARRAY, |_, it| {
        let parts = text_of(&it[0]).split('.');
        Ok(Datum::texts(parts.map(
            |part| match part.strip_prefix('"') {
                Some(part) => part.trim_end_matches('"').to_owned(),
                None => part.trim().to_ascii_lowercase(),
            },
        )))
    }),
    strict("regexp_replace", &[TEXT, TEXT, TEXT], TEXT, |_, it| {
        regexp_replace(it, "")
    }),
    strict(
        "regexp_replace",
        &[TEXT, TEXT, TEXT, TEXT],
        TEXT,
        |_, it| regexp_replace(it, text_of(&it[3])),
    ),
    strict("regexp_match", &[TEXT, TEXT], TEXT_ARRAY, |_, it| {
        regexp_match(it, "")
    }),
    strict("regexp_match", &[TEXT, TEXT, TEXT], TEXT_ARRAY, |_, it| {
        regexp_match(it, text_of(&it[2]))
    }),
    strict(
        "regexp_split_to_array",
        &[TEXT, TEXT],
        TEXT_ARRAY,
        |_, it| {
            let found = regex(text_of(&it[1]), false)?;
            Ok(Datum::texts(found.split(text_of(&it[0]))))
        },
    ),
    strict("like_escape", &[TEXT, TEXT], TEXT, |_, it| {
        like_escape(text_of(&it[0]), text_of(&it[1]))
    }),
    strict("to_json", &[TEXT], JSON, |_, it| {
        Ok(Datum::text(json(text_of(&it[0]))))
    }),
    variadic("json_build_object", &[ANY], JSON, |_, it| {
        let pairs = it.chunks(2).map(|pair| {
            let value = pair.get(1).and_then(Datum::as_text).unwrap_or("null");
            format!("{} : {value}", text_of(&pair[0]))
        });
        Ok(Datum::text(format!(
            "{{{}}}",
            pairs.collect::<Vec<_>>().join(", ")
        )))
    }),
    strict("name", &[TEXT], NAME, |_, it| Ok(it[0].clone())),
];

fn number(value: usize) -> Datum {
    i64::try_from(value).map_or(Datum::Null, Datum::Int)
}

fn length(_: Calls<'_>, arguments: &[Datum]) -> Called {
    Ok(number(text_of(&arguments[0]).chars().count()))
}

/// Refuses texts that are too long.
pub(crate) fn check_length(bytes: usize) -> Result<(), CatalogueError> {
    match bytes <= TEXT_MAX {
        true => Ok(()),
        false => Err(CatalogueError::limit(format!(
            "a text is longer than {TEXT_MAX} bytes"
        ))),
    }
}

fn capitalized(text: &str) -> String {
    let mut in_word = false;
    text.chars()
        .flat_map(|character| {
            let is_first = character.is_alphanumeric() && !in_word;
            in_word = character.is_alphanumeric();
            let upper = is_first.then(|| character.to_uppercase());
            let lower = (!is_first).then(|| character.to_lowercase());
            upper
                .into_iter()
                .flatten()
                .chain(lower.into_iter().flatten())
        })
        .collect()
}

/// Returns how many characters a count stands for, which counts from the end if it is negative.
fn from_end(text: &str, count: i64) -> usize {
    let length = text.chars().count();
    match usize::try_from(count) {
        Ok(count) => count.min(length),
        Err(_) => {
            let dropped = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
            length.saturating_sub(dropped)
        }
    }
}

/// Returns the characters of a text from a number on, which counts from 1.
fn part(text: &str, from: i64, count: Option<i64>) -> Result<String, CatalogueError> {
    if count.is_some_and(|count| count < 0) {
        return Err(CatalogueError::new(
            "22011",
            "negative substring length not allowed",
        ));
    }
    let end = count.map_or(i64::MAX, |count| from.saturating_add(count));
    let characters = (1_i64..).zip(text.chars());
    let chosen = characters.filter(|(number, _)| (from..end).contains(number));
    Ok(chosen.map(|(_, character)| character).collect())
}

fn substring(_: Calls<'_>, it: &[Datum]) -> Called {
    Ok(Datum::text(part(
        text_of(&it[0]),
        int_of(&it[1]),
        Some(int_of(&it[2])),
    )?))
}

fn padded(arguments: &[Datum], filler: &str, on_left: bool) -> Called {
    let text = text_of(&arguments[0]);
    let wanted = usize::try_from(int_of(&arguments[1])).unwrap_or(0);
    check_length(wanted.saturating_mul(4))?;
    let length = text.chars().count();
    if length >= wanted {
        return Ok(Datum::text(text.chars().take(wanted).collect::<String>()));
    }
    let filler: String = filler.chars().cycle().take(wanted - length).collect();
    Ok(Datum::text(match on_left {
        true => filler + text,
        false => text.to_owned() + &filler,
    }))
}

/// Returns a text as JSON.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            character if character < ' ' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn literal(text: &str) -> String {
    let escaped = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", escaped.replace('\\', "\\\\")),
        false => format!("'{escaped}'"),
    }
}

/// Computes `format`, with `%s`, `%I`, `%L` and `%%`, and positions as in `%1$s`.
fn format_text(arguments: &[Datum]) -> Called {
    let invalid = |text: &str| CatalogueError::new("22023", text);
    let mut out = String::new();
    let mut next = 1;
    let mut characters = text_of(&arguments[0]).chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = characters.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        if !digits.is_empty() {
            if characters.next() != Some('$') {
                return Err(invalid("a width in format() is not supported"));
            }
            next = digits
                .parse()
                .map_err(|_| invalid("invalid position in format()"))?;
        }
        let kind = characters
            .next()
            .ok_or_else(|| invalid("unterminated format() type specifier"))?;
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = arguments.get(next).filter(|_| next > 0);
        let value = value.ok_or_else(|| invalid("too few arguments for format()"))?;
        next += 1;
        match (kind, value.as_text()) {
            ('s', text) => out.push_str(text.unwrap_or_default()),
            ('I', Some(text)) => out.push_str(&quoted(text)),
            ('I', None) => {
                let text = "null values cannot be formatted as an SQL identifier";
                return Err(CatalogueError::new("22004", text));
            }
            ('L', text) => out.push_str(&text.map_or("NULL".to_owned(), literal)),
            _ => return Err(invalid("unrecognized format() type specifier")),
        }
        check_length(out.len())?;
    }
    Ok(Datum::text(out))
}

/// Compiles a regular expression. Its time is linear in the text, whatever it is.
pub(crate) fn regex(pattern: &str, insensitive: bool) -> Result<Regex, CatalogueError> {
    let (pattern, insensitive) = match pattern.strip_prefix("(?i)") {
        Some(rest) => (rest, true),
        None => (pattern.strip_prefix("***:").unwrap_or(pattern), insensitive),
    };
    // PostgreSQL's escapes for the edges of words.
    let pattern = pattern
        .replace("\\m", "\\b")
        .replace("\\M", "\\b")
        .replace("\\y", "\\b");
    RegexBuilder::new(&pattern)
        .case_insensitive(insensitive)
        .dot_matches_new_line(true)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                CatalogueError::limit("a regular expression is too large")
            }
            _ => {
                let text =
                    "invalid regular expression: it is not supported, or its parts do not fit";
                CatalogueError::new("2201B", text)
            }
        })
}

fn regexp_replace(arguments: &[Datum], flags: &str) -> Called {
    let found = regex(text_of(&arguments[1]), flags.contains('i'))?;
    let text = text_of(&arguments[0]);
    let replacement = text_of(&arguments[2]);
    let limit = if flags.contains('g') { usize::MAX } else { 1 };
    let mut out = String::new();
    let mut end = 0;
    for captures in found.captures_iter(text).take(limit) {
        let whole = captures.get(0).expect("a match has a whole");
        out.push_str(&text[end..whole.start()]);
        let mut characters = replacement.chars();
        while let Some(character) = characters.next() {
            match (character, character == '\\') {
                (_, true) => match characters.next() {
                    Some('&') => out.push_str(whole.as_str()),
                    Some(digit @ '0'..='9') => {
                        let group = digit as usize - '0' as usize;
                        out.push_str(captures.get(group).map_or("", |it| it.as_str()));
                    }
                    Some(other) => out.push(other),
                    None => out.push('\\'),
                },
                (other, false) => out.push(other),
            }
        }
        end = whole.end();
        check_length(out.len())?;
    }
    out.push_str(&text[end..]);
    Ok(Datum::text(out))
}

fn regexp_match(arguments: &[Datum], flags: &str) -> Called {
    let found = regex(text_of(&arguments[1]), flags.contains('i'))?;
    let captures = found.captures(text_of(&arguments[0]));
    Ok(captures.map_or(Datum::Null, |captures| {
        let first = usize::from(captures.len() > 1);
        let groups = (first..captures.len()).map(|group| captures.get(group));
        Datum::array(groups.map(|it| it.map_or(Datum::Null, |it| Datum::text(it.as_str()))))
    }))
}

/// Returns a pattern of LIKE whose escape is a backslash.
fn like_escape(pattern: &str, escape: &str) -> Called {
    let mut characters = escape.chars();
    let (escape, more) = (characters.next(), characters.next());
    if more.is_some() {
        return Err(CatalogueError::new("22025", "invalid escape string"));
    }
    let mut out = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            character if Some(character) == escape => {
                out.push('\\');
                out.extend(characters.next());
            }
            '\\' => out.push_str("\\\\"),
            other => out.push(other),
        }
    }
    Ok(Datum::text(out))
}

/// Returns whether a text is like a pattern, in a time of at most their product.
pub(crate) fn like(text: &str, pattern: &str) -> Result<bool, CatalogueError> {
    /// A part of a pattern.
    #[derive(PartialEq)]
    enum Part {
        One,
        Any,
        Exactly(char),
    }
    let mut parts = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        parts.push(match character {
            '%' => Part::Any,
            '_' => Part::One,
            '\\' => match characters.next() {
                Some(next) => Part::Exactly(next),
                None => {
                    let text = "LIKE pattern must not end with escape character";
                    return Err(CatalogueError::new("22025", text));
                }
            },
            other => Part::Exactly(other),
        });
    }
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut part) = (0, 0);
    // The last `%`, and the text that it has matched so far.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                star = Some((part, at));
                part += 1;
            }
            Some(Part::One) => (at, part) = (at + 1, part + 1),
            Some(Part::Exactly(wanted)) if *wanted == text[at] => (at, part) = (at + 1, part + 1),
            _ => match star {
                None => return Ok(false),
                Some((of, matched)) => {
                    star = Some((of, matched + 1));
                    (at, part) = (matched + 1, of + 1);
                }
            },
        }
    }
    Ok(parts[part..].iter().all(|it| *it == Part::Any))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, expected) in [
            ("abc", "a%", true),
            ("abc", "%b%", true),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("", "%", true),
            ("", "_", false),
            ("aaab", "%aab", true),
        ] {
            assert_eq!(like(text, pattern), Ok(expected), "{text} {pattern}");
        }
        assert!(like("a", "\\").is_err());
        assert_eq!(like_escape("a!_b", "!"), Ok(Datum::text("a\\_b")));
    }
}
