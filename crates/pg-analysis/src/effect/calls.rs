//! Lists the names in a query string that PostgreSQL's grammar has accepted, and which of them a
//! parenthesis follows.
//!
//! This is no complete lexer of SQL. The caller must not pass it a text with backslashes, because
//! their meaning depends on `standard_conforming_strings` and on the encoding.

use std::borrow::Cow;

use pg_wire::quoting::name_length;

/// A name in a query string, in the form in which PostgreSQL stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundName<'t> {
    /// The name, in lower case unless it was quoted.
    pub name: Cow<'t, str>,
    /// Whether a parenthesis follows, as in a call of a function and in some other syntax.
    pub is_called: bool,
}

/// Returns the names in a query string, in the order of the string. Returns none if a name has
/// Unicode escapes (`U&"…"`).
pub fn of(text: &str) -> Option<Vec<FoundName<'_>>> {
    let mut found: Vec<FoundName<'_>> = Vec::new();
    // The first sign after a name, past white space and comments, shows whether it is called.
    let mut is_behind_name = false;
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let bytes = rest.as_bytes();
        let name = name_length(bytes);
        let skipped = match first {
            _ if first.is_ascii_whitespace() => 1,
            b'-' if bytes.starts_with(b"--") => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            b'/' if bytes.starts_with(b"/*") => comment_length(bytes),
            b'(' => {
                if let Some(last) = found.last_mut().filter(|_| is_behind_name) {
                    last.is_called = true;
                }
                is_behind_name = false;
                1
            }
            b'"' => {
                let before = &text[..text.len() - rest.len()];
                if before.ends_with("U&") || before.ends_with("u&") {
                    return None;
                }
                let length = quoted_length(bytes, b'"');
                let inner = rest.get(1..length.saturating_sub(1)).unwrap_or_default();
                found.push(FoundName {
                    name: inner.replace("\"\"", "\"").into(),
                    is_called: false,
                });
                is_behind_name = true;
                length
            }
            b'\'' => {
                is_behind_name = false;
                quoted_length(bytes, b'\'')
            }
            b'$' => {
                is_behind_name = false;
                dollar_length(rest)
            }
            _ if name > 0 => {
                // A dollar may stand in a name, but not first.
                let length = bytes.iter().position(|byte| {
                    !(pg_wire::quoting::IS_OF_NAME[usize::from(*byte)] || *byte == b'$')
                });
                let length = length.unwrap_or(bytes.len());
                is_behind_name = !first.is_ascii_digit();
                if is_behind_name {
                    found.push(FoundName {
                        name: rest[..length].to_ascii_lowercase().into(),
                        is_called: false,
                    });
                }
                length
            }
            _ => {
                is_behind_name = false;
                1
            }
        };
        rest = rest.get(skipped.max(1)..).unwrap_or_default();
    }
    Some(found)
}

/// Returns the length of a text or a name in quotes, with them; a quote within is there twice.
fn quoted_length(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    loop {
        match bytes[at..].iter().position(|byte| *byte == quote) {
            Some(end) if bytes.get(at + end + 1) == Some(&quote) => at += end + 2,
            Some(end) => return at + end + 1,
            None => return bytes.len(),
        }
    }
}

/// Returns the length of a comment. Comments can be nested.
pub fn comment_length(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Returns the length of a text between dollars, or of the sign of a parameter.
fn dollar_length(rest: &str) -> usize {
    let tag = name_length(&rest.as_bytes()[1..]);
    let is_tag = !rest.as_bytes()[1..].first().is_some_and(u8::is_ascii_digit);
    let Some(start) = rest
        .get(..tag + 2)
        .filter(|start| is_tag && start.ends_with('$'))
    else {
        return 1;
    };
    let body = &rest[start.len()..];
    let end = body.find(start).map(|end| end + 2 * start.len());
    end.unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_calls() {
        for (text, names) in [
            ("SELECT A, b ( 1 )", "select a b("),
            ("SELECT \"A\"\"b\"(x$1, $1)", "select A\"b( x$1"),
            ("/* c(/* d( */ */ f -- g(\n(h)", "f( h"),
            ("SELECT 'a(''b(' || $x$ c( $y$ d( $x$ || $$e($$", "select"),
            ("SELECT E'a(', 1e5, ü(2)", "select e ü("),
            ("a.b(c).d", "a b( c d"),
            ("'a", ""),
            ("\"a", ""),
            ("$a$ b", ""),
            ("/* a", ""),
        ] {
            let found = of(text).unwrap();
            let names_found = found.iter().map(|it| {
                let sign = if it.is_called { "(" } else { "" };
                format!("{}{sign}", it.name)
            });
            let names_found: Vec<String> = names_found.filter(|it| !it.is_empty()).collect();
            assert_eq!(names_found.join(" "), names, "{text}");
        }
        assert_eq!(of("SELECT U&\"a!0062\" UESCAPE '!'"), None);
    }
}
