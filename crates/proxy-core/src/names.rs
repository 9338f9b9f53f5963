//! Parses the SQL commands that name prepared statements. Statements have the same names in SQL and
//! in the protocol.

use alloc::vec::Vec;

/// The effect of a query string on the names of prepared statements. The string has no other
/// effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deallocation {
    /// `DEALLOCATE name`.
    Deallocate(Vec<u8>),
    /// `DEALLOCATE ALL`, or `DISCARD ALL`, which has further effects.
    DeallocateAll,
}

/// PostgreSQL cuts longer names of SQL, in bytes.
const NAME_LEN_MAX: usize = 63;
/// Longer texts are looked at by servers only, in bytes.
const TEXT_LEN_MAX: usize = 256;

/// Returns the effect of a query string if it is exactly one such command, without comments.
pub fn command_of(text: &[u8]) -> Option<Deallocation> {
    // Most texts are something else.
    let text = text.trim_ascii();
    let first = *text.first()?;
    if !first.eq_ignore_ascii_case(&b'd') || text.len() > TEXT_LEN_MAX {
        return None;
    }
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii();
    if let Some(rest) = behind(text, b"discard") {
        return rest
            .eq_ignore_ascii_case(b"all")
            .then_some(Deallocation::DeallocateAll);
    }
    let rest = behind(text, b"deallocate")?;
    let rest = behind(rest, b"prepare").unwrap_or(rest);
    if rest.eq_ignore_ascii_case(b"all") {
        return Some(Deallocation::DeallocateAll);
    }
    name(rest).map(Deallocation::Deallocate)
}

/// Returns whether a query string is `DEALLOCATE` and nothing else.
pub fn is_deallocate(text: &[u8]) -> bool {
    let first = text.trim_ascii_start().get(..b"deallocate".len());
    first.is_some_and(|word| word.eq_ignore_ascii_case(b"deallocate")) && command_of(text).is_some()
}

/// Returns whether a query string uses the view of prepared statements, or its function.
pub fn looks_at_statements(text: &[u8]) -> bool {
    has_any(text, &[b"pg_prepared_statement"])
}

/// Returns whether a query string may mention prepared statements by name.
pub fn mentions(text: &[u8]) -> bool {
    has_any(text, &[b"prepare", b"execute", b"allocate"])
}

/// Returns whether a query string may change the meaning of statement names.
pub fn may_change_names(text: &[u8]) -> bool {
    has_any(text, &[b"prepare", b"allocate", b"discard"])
}

fn has_any(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| {
        let mut places = text.windows(word.len());
        places.any(|place| place.eq_ignore_ascii_case(word))
    })
}

/// Returns the text after a word and the white space behind it.
fn behind<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(word.len())?;
    let is_word = start.eq_ignore_ascii_case(word);
    let is_end = rest
        .first()
        .is_some_and(|sign| sign.is_ascii_whitespace() || *sign == b'"');
    (is_word && is_end).then(|| rest.trim_ascii_start())
}

/// Returns the name that a text consists of, as PostgreSQL reads it; none if the text is no name.
fn name(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let mut rest = quoted.strip_suffix(b"\"")?.iter();
        while let Some(&sign) = rest.next() {
            if sign == b'"' && rest.next() != Some(&b'"') {
                return None;
            }
            name.push(sign);
        }
    } else {
        let is_part = |sign: &u8| sign.is_ascii_alphanumeric() || matches!(sign, b'_' | b'$');
        let starts = text
            .first()
            .is_some_and(|sign| sign.is_ascii_alphabetic() || *sign == b'_');
        if !starts || !text.iter().all(is_part) {
            return None;
        }
        name = text.to_ascii_lowercase();
    }
    // Where longer ones are cut is for the server to say.
    (!name.is_empty() && name.len() <= NAME_LEN_MAX).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        let deallocates = |name: &str| Some(Deallocation::Deallocate(name.into()));
        for (text, command) in [
            (
                "DEALLOCATE pdo_stmt_00000001",
                deallocates("pdo_stmt_00000001"),
            ),
            (" deallocate prepare A1 ; ", deallocates("a1")),
            ("DEALLOCATE \"A \"\"b\"", deallocates("A \"b")),
            ("DEALLOCATE\"a\"", deallocates("a")),
            ("DEALLOCATE prepare", deallocates("prepare")),
            ("DEALLOCATE ALL", Some(Deallocation::DeallocateAll)),
            ("DEALLOCATE PREPARE ALL;", Some(Deallocation::DeallocateAll)),
            ("DEALLOCATE \"all\"", deallocates("all")),
            ("DISCARD ALL", Some(Deallocation::DeallocateAll)),
            ("DISCARD PLANS", None),
            ("DEALLOCATE a; SELECT 1", None),
            ("DEALLOCATE a b", None),
            ("DEALLOCATE \"a\" \"b\"", None),
            ("DEALLOCATE", None),
            ("SELECT 1", None),
            ("", None),
        ] {
            assert_eq!(command_of(text.as_bytes()), command, "{text}");
        }
    }
}
