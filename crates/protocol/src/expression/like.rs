//! SQL's `LIKE`: `%` is any text, `_` any one character, `\` takes the next character as it is.
//!
//! One position to return to is enough, the last `%`: what earlier ones could still take, it can
//! take as well. Work is counted against the caller's budget, since a hostile pattern makes it
//! the product of both lengths.

use super::ExpressionError;
use super::budget::Budget;

/// Returns whether the whole text matches the pattern. The comparison is case-sensitive.
pub(super) fn matches(
    text: &str,
    pattern: &str,
    budget: &mut Budget,
) -> Result<bool, ExpressionError> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (mut text_at, mut pattern_at) = (0, 0);
    // After the last `%`: where the pattern goes on, and where in the text that was tried.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        budget.spend(1)?;
        let element = pattern.get(pattern_at).copied();
        let here = text.get(text_at).copied();
        let taken = match element {
            None if here.is_none() => return Ok(true),
            None => None,
            Some(b'%') => {
                pattern_at += 1;
                if pattern_at == pattern.len() {
                    return Ok(true);
                }
                retry = Some((pattern_at, text_at));
                continue;
            }
            Some(b'_') => here.map(|first| (character_bytes(first), 1)),
            Some(b'\\') => match pattern.get(pattern_at + 1) {
                // As PostgreSQL: it is an error only where it is compared with something.
                None if here.is_some() => return Err(ExpressionError::PatternEnd),
                None => None,
                literal => (literal.copied() == here).then_some((1, 2)),
            },
            literal => (literal == here).then_some((1, 1)),
        };
        if let Some((text_bytes, pattern_bytes)) = taken {
            text_at += text_bytes;
            pattern_at += pattern_bytes;
            continue;
        }
        // Whole characters of the pattern were matched before a `%`, so `tried` is at the start
        // of a character, and the next one is too.
        match retry {
            Some((resume, tried)) if tried < text.len() => {
                text_at = tried + character_bytes(text[tried]);
                pattern_at = resume;
                retry = Some((resume, text_at));
            }
            _ => return Ok(false),
        }
    }
}

/// Returns the length of a UTF-8 character by its first byte.
fn character_bytes(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0.. => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    fn like(text: &str, pattern: &str) -> Result<bool, ExpressionError> {
        matches(text, pattern, &mut Budget::new())
    }

    #[test]
    fn percent_and_underscore() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("N14228", "N14228", true),
            ("N14228", "n14228", false),
            ("N14228", "N%", true),
            ("N14228", "%8", true),
            ("N14228", "%14%", true),
            ("N14228", "N_4__8", true),
            ("N14228", "N_4_8", false),
            ("aab", "%ab", true),
            ("abcabd", "%ab_d", false),
            ("abcabd", "a%ab_", true),
            ("100%", "100\\%", true),
            ("1000", "100\\%", false),
            ("a_b", "a\\_b", true),
            ("a\\b", "a\\\\b", true),
        ] {
            assert_eq!(like(text, pattern), Ok(expected), "{text} LIKE {pattern}");
        }
    }

    #[test]
    fn underscore_takes_a_whole_character() {
        assert_eq!(like("€", "_"), Ok(true));
        assert_eq!(like("€", "%__"), Ok(false));
        assert_eq!(like("a€🛫z", "a__z"), Ok(true));
        assert_eq!(like("é", "\\é"), Ok(true));
    }

    #[test]
    fn pattern_that_ends_in_an_escape() {
        assert_eq!(like("ab", "a\\"), Err(ExpressionError::PatternEnd));
        assert_eq!(like("a", "%\\"), Err(ExpressionError::PatternEnd));
        assert_eq!(like("a", "a\\"), Ok(false));
        assert_eq!(like("", "%\\"), Ok(false));
    }

    #[test]
    fn hostile_pattern_runs_out_of_budget() {
        let text = "a".repeat(1 << 20);
        let pattern = alloc::format!("%{}b", "a".repeat(1 << 15));
        assert_eq!(like(&text, &pattern), Err(ExpressionError::TooCostly));
    }

    /// Matches by the definition of LIKE, whatever the cost.
    fn oracle(text: &[char], pattern: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('%', rest)) => (0..=text.len()).any(|skip| oracle(&text[skip..], rest)),
            Some(('_', rest)) => !text.is_empty() && oracle(&text[1..], rest),
            Some((literal, rest)) => text.first() == Some(literal) && oracle(&text[1..], rest),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(text in "[ab€]{0,12}", pattern in "[ab€%_]{0,8}") {
            let characters = |text: &String| text.chars().collect::<alloc::vec::Vec<_>>();
            prop_assert_eq!(
                like(&text, &pattern),
                Ok(oracle(&characters(&text), &characters(&pattern)))
            );
        }
    }
}
