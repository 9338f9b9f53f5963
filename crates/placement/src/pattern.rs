//! Regular expressions of SQL, in PostgreSQL's syntax (`ARE`), as far as they can be matched in a
//! time that is linear in the text.
//!
//! Back references and looking ahead or behind are refused, because no such time is known for them.

use alloc::string::{String, ToString};
use core::fmt;
use core::iter::Peekable;
use core::str::Chars;

use regex::{Regex, RegexBuilder};

/// The most bytes of a compiled regular expression, and of the tables that a match makes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// The most bytes of the text of a regular expression.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// A compiled regular expression with its flags.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    /// Whether a replacement concerns every match.
    pub is_global: bool,
}

/// The reason why a text is no regular expression of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// The parts do not fit together.
    Invalid,
    /// PostgreSQL has the construct, and the store does not.
    Unsupported,
    /// It would be too large.
    TooLarge,
    /// A flag that does not exist.
    Flag,
}

/// The flags of a regular expression.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    ignores_case: bool,
    is_global: bool,
    is_literal: bool,
    is_expanded: bool,
    /// `.` and negated brackets do not match the end of a line.
    lines_end_classes: bool,
    /// `^` and `$` match at lines.
    lines_have_ends: bool,
}

impl Flags {
    fn read(&mut self, text: &str) -> Result<(), PatternError> {
        for flag in text.chars() {
            match flag {
                'c' => self.ignores_case = false,
                'i' => self.ignores_case = true,
                'g' => self.is_global = true,
                'q' => self.is_literal = true,
                'x' => self.is_expanded = true,
                't' => self.is_expanded = false,
                's' => (self.lines_end_classes, self.lines_have_ends) = (false, false),
                'n' | 'm' => (self.lines_end_classes, self.lines_have_ends) = (true, true),
                'p' => (self.lines_end_classes, self.lines_have_ends) = (true, false),
                'w' => (self.lines_end_classes, self.lines_have_ends) = (false, true),
                'b' | 'e' => return Err(PatternError::Unsupported),
                _ => return Err(PatternError::Flag),
            }
        }
        Ok(())
    }
}

impl Pattern {
    /// Compiles a regular expression with flags as those of `regexp_replace`.
    ///
    /// # Errors
    /// It is not valid, too large, or has a construct that the store does not have.
    pub fn new(text: &str, flags: &str) -> Result<Pattern, PatternError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(PatternError::TooLarge);
        }
        let mut found = Flags::default();
        found.read(flags)?;
        let mut text = text;
        if let Some(literal) = text.strip_prefix("***=") {
            (found.is_literal, text) = (true, literal);
        } else if let Some(rest) = text.strip_prefix("***:") {
            text = rest;
        } else if text.starts_with("***") {
            return Err(PatternError::Invalid);
        }
        // Flags at the start hold for the whole.
        if let Some(rest) = text.strip_prefix("(?").filter(|_| !found.is_literal)
            && let Some((letters, rest)) = rest.split_once(')')
            && !letters.is_empty()
            && letters.chars().all(|it| it.is_ascii_alphabetic())
        {
            found.read(letters)?;
            text = rest;
        }
        let translated = match found.is_literal {
            true => regex::escape(text),
            false => Translator::new(text, found).translate()?,
        };
        let regex = RegexBuilder::new(&translated)
            .case_insensitive(found.ignores_case)
            .multi_line(found.lines_have_ends)
            .dot_matches_new_line(!found.lines_end_classes)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .build();
        let regex = regex.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
            _ => PatternError::Invalid,
        })?;
        Ok(Pattern {
            regex,
            is_global: found.is_global,
        })
    }

    /// Returns whether a part of a text matches.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Returns how many parts of a text match, one after the other.
    pub fn count(&self, text: &str) -> usize {
        let mut count = 0;
        let mut from = 0;
        while let Some(found) = self.regex.find_at(text, from) {
            count += 1;
            match after(text, found.start(), found.end()) {
                Some(next) => from = next,
                None => break,
            }
        }
        count
    }

    /// Returns the first part of a text that matches.
    pub fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.regex.find(text).map(|found| found.as_str())
    }

    /// Returns the part of the first match that the first group matches, or the whole match if
    /// there is no group.
    pub fn find_group<'t>(&self, text: &'t str) -> Option<&'t str> {
        let captures = self.regex.captures(text)?;
        let group = usize::from(captures.len() > 1);
        captures.get(group).map(|found| found.as_str())
    }

    /// Returns a text in which the first match, or each one if the pattern is global, is replaced.
    /// `\1` to `\9` in the replacement stand for the groups, and `\&` for the whole match. Returns
    /// none if the result would be longer than `bytes_max`.
    pub fn replace(&self, text: &str, replacement: &str, bytes_max: usize) -> Option<String> {
        let limit = if self.is_global { usize::MAX } else { 1 };
        let mut out = String::new();
        let (mut end, mut from) = (0, Some(0));
        for _ in 0..limit {
            let captures = from.and_then(|from| self.regex.captures_at(text, from));
            let Some(captures) = captures else {
                break;
            };
            let whole = captures.get(0)?;
            from = after(text, whole.start(), whole.end());
            out.push_str(&text[end..whole.start()]);
            let mut characters = replacement.chars();
            while let Some(character) = characters.next() {
                if character != '\\' {
                    out.push(character);
                    continue;
                }
                match characters.next() {
                    Some('&') => out.push_str(whole.as_str()),
                    Some(digit @ '1'..='9') => {
                        let group = digit as usize - '0' as usize;
                        out.push_str(captures.get(group).map_or("", |it| it.as_str()));
                    }
                    Some('\\') | None => out.push('\\'),
                    Some(other) => out.extend(['\\', other]),
                }
            }
            end = whole.end();
            if out.len() > bytes_max {
                return None;
            }
        }
        out.push_str(&text[end..]);
        (out.len() <= bytes_max).then_some(out)
    }
}

/// Returns where the search for the next match begins. Unlike the library, PostgreSQL finds an
/// empty match also at the end of another match. Returns none at the end of the text.
fn after(text: &str, start: usize, end: usize) -> Option<usize> {
    match start < end {
        true => Some(end),
        false => text[end..].chars().next().map(|it| end + it.len_utf8()),
    }
}

/// Translates PostgreSQL's syntax into that of the library.
struct Translator<'t> {
    rest: Peekable<Chars<'t>>,
    flags: Flags,
    out: String,
}

impl<'t> Translator<'t> {
    fn new(text: &'t str, flags: Flags) -> Translator<'t> {
        Translator {
            rest: text.chars().peekable(),
            flags,
            out: String::new(),
        }
    }

    fn translate(mut self) -> Result<String, PatternError> {
        // Whether the last part can be repeated once more.
        let mut is_repeated = false;
        while let Some(character) = self.rest.next() {
            let was_repeated = core::mem::take(&mut is_repeated);
            match character {
                '\\' => self.escape()?,
                '[' => self.bracket()?,
                '(' => self.group()?,
                '{' if self.rest.peek().is_some_and(char::is_ascii_digit) => {
                    self.bound(was_repeated)?;
                    is_repeated = true;
                }
                '{' => self.out.push_str("\\{"),
                '*' | '+' | '?' => {
                    if was_repeated {
                        return Err(PatternError::Invalid);
                    }
                    self.out.push(character);
                    self.is_reluctant();
                    is_repeated = true;
                }
                ' ' | '\t' | '\n' | '\r' if self.flags.is_expanded => {}
                '#' if self.flags.is_expanded => {
                    while self.rest.next().is_some_and(|it| it != '\n') {}
                }
                '.' | '^' | '$' | '|' | ')' => self.out.push(character),
                other => self.out.push_str(&regex::escape(&other.to_string())),
            }
        }
        Ok(self.out)
    }

    /// Passes a `?` after a quantifier on.
    fn is_reluctant(&mut self) {
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
    }

    /// Passes a bound such as `{2,3}` on, whose `{` is read.
    fn bound(&mut self, was_repeated: bool) -> Result<(), PatternError> {
        let mut text = String::from("{");
        loop {
            match self.rest.next() {
                Some(digit @ ('0'..='9' | ',')) => text.push(digit),
                Some('}') => break,
                _ => return Err(PatternError::Invalid),
            }
        }
        text.push('}');
        if was_repeated {
            return Err(PatternError::Invalid);
        }
        self.out.push_str(&text);
        self.is_reluctant();
        Ok(())
    }

    /// Reads what follows a `(`.
    fn group(&mut self) -> Result<(), PatternError> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        match self.rest.next() {
            Some(':') => self.out.push_str("?:"),
            Some('#') => {
                self.out.pop();
                while self.rest.next().is_some_and(|it| it != ')') {}
            }
            Some('=' | '!' | '<') => return Err(PatternError::Unsupported),
            _ => return Err(PatternError::Invalid),
        }
        Ok(())
    }

    /// Reads what follows a `\` outside of brackets.
    fn escape(&mut self) -> Result<(), PatternError> {
        match self.rest.next().ok_or(PatternError::Invalid)? {
            'm' => self.out.push_str("\\b{start}"),
            'M' => self.out.push_str("\\b{end}"),
            'y' => self.out.push_str("\\b"),
            'Y' => self.out.push_str("\\B"),
            'Z' => self.out.push_str("\\z"),
            kept @ ('A' | 'd' | 'D' | 's' | 'S' | 'w' | 'W') => self.out.extend(['\\', kept]),
            '1'..='9' => return Err(PatternError::Unsupported),
            other => {
                let character = self.character(other)?;
                self.out.push_str(&regex::escape(&character.to_string()));
            }
        }
        Ok(())
    }

    /// Returns the character that an escape stands for, whose first character after the `\` is
    /// read.
    fn character(&mut self, escape: char) -> Result<char, PatternError> {
        Ok(match escape {
            'a' => '\x07',
            'b' => '\x08',
            'B' => '\\',
            'e' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0' => '\0',
            'u' => self.digits(4)?,
            'U' => self.digits(8)?,
            'x' => self.digits(2)?,
            'c' => {
                let letter = self.rest.next().ok_or(PatternError::Invalid)?;
                let code = u32::from(letter) & 0x1f;
                char::from_u32(code).ok_or(PatternError::Invalid)?
            }
            letter if letter.is_ascii_alphanumeric() => return Err(PatternError::Invalid),
            other => other,
        })
    }

    /// Returns the character with a number of so many hexadecimal digits.
    fn digits(&mut self, count: usize) -> Result<char, PatternError> {
        let mut number = 0;
        for _ in 0..count {
            let digit = self.rest.next().and_then(|it| it.to_digit(16));
            number = number * 16 + digit.ok_or(PatternError::Invalid)?;
        }
        char::from_u32(number).ok_or(PatternError::Invalid)
    }

    /// Reads a bracket expression, whose `[` is read.
    fn bracket(&mut self) -> Result<(), PatternError> {
        let negates = self.rest.next_if_eq(&'^').is_some();
        self.out.push_str(if negates { "[^" } else { "[" });
        if negates && self.flags.lines_end_classes {
            self.out.push_str("\\n");
        }
        let mut is_first = true;
        loop {
            let character = self.rest.next().ok_or(PatternError::Invalid)?;
            match character {
                ']' if !is_first => break,
                '[' if matches!(self.rest.peek(), Some(':' | '.' | '=')) => self.class()?,
                '\\' => match self.rest.next().ok_or(PatternError::Invalid)? {
                    class @ ('d' | 's' | 'w') => self.out.extend(['\\', class]),
                    'D' | 'S' | 'W' => return Err(PatternError::Invalid),
                    other => {
                        let character = self.character(other)?;
                        self.member(character);
                    }
                },
                '-' if !is_first && self.rest.peek().is_some_and(|it| *it != ']') => {
                    self.out.push('-');
                }
                other => self.member(other),
            }
            is_first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// Adds a character to a bracket expression. The library gives some of them other meanings.
    fn member(&mut self, character: char) {
        if character.is_ascii_punctuation() {
            self.out.push('\\');
        }
        self.out.push(character);
    }

    /// Reads a class such as `[:alpha:]`, whose `[` is read.
    fn class(&mut self) -> Result<(), PatternError> {
        let kind = self.rest.next().ok_or(PatternError::Invalid)?;
        let mut name = String::new();
        loop {
            let character = self.rest.next().ok_or(PatternError::Invalid)?;
            if character == kind && self.rest.next_if_eq(&']').is_some() {
                break;
            }
            name.push(character);
        }
        let class = match (kind, name.as_str()) {
            (':', "alpha") => "\\p{Alphabetic}",
            (':', "digit") => "\\d",
            (':', "alnum") => "\\p{Alphabetic}\\d",
            (':', "upper") => "\\p{Uppercase}",
            (':', "lower") => "\\p{Lowercase}",
            (':', "space") => "\\s",
            (':', "word") => "\\w",
            (':', "blank" | "cntrl" | "graph" | "print" | "punct" | "xdigit" | "ascii") => {
                self.out.push_str("[:");
                self.out.push_str(&name);
                self.out.push_str(":]");
                return Ok(());
            }
            _ => return Err(PatternError::Unsupported),
        };
        self.out.push_str(class);
        Ok(())
    }
}

impl PatternError {
    /// All errors.
    pub const ALL: [PatternError; 4] = [
        PatternError::Invalid,
        PatternError::Unsupported,
        PatternError::TooLarge,
        PatternError::Flag,
    ];

    /// Returns PostgreSQL's code of the error.
    pub fn sqlstate(self) -> &'static str {
        match self {
            PatternError::Invalid => "2201B",
            PatternError::Unsupported => "0A000",
            PatternError::TooLarge => "54000",
            PatternError::Flag => "22023",
        }
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternError::Invalid => {
                f.write_str("invalid regular expression: its parts do not fit together")
            }
            PatternError::Unsupported => f.write_str(
                "the regular expression has a back reference, looks ahead or behind, or has another \
                 construct that the store does not have: write it without",
            ),
            PatternError::TooLarge => f.write_str("the regular expression is too large"),
            PatternError::Flag => f.write_str(
                "invalid regular expression option: the options are c, g, i, m, n, p, q, s, t, w and x",
            ),
        }
    }
}

impl core::error::Error for PatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(text: &str, pattern: &str) -> bool {
        Pattern::new(pattern, "").unwrap().matches(text)
    }

    #[test]
    fn the_syntax_is_postgresqls() {
        for (text, pattern, expected) in [
            ("foobar", "^foo", true),
            ("foobar", "o{2}b", true),
            ("a{b", "a{b", true),
            ("x]", "[]]", true),
            ("a&&b", "[a&&b]&", true),
            ("a[b", "a[[]b", true),
            ("-", "[a-]", true),
            ("b", "[a-c]", true),
            ("5", "[[:digit:]x]", true),
            ("é", "^[[:alpha:]]$", true),
            ("the cat", "\\mcat\\M", true),
            ("concat", "\\mcat", false),
            ("a.b", "a\\.b", true),
            ("axb", "a\\.b", false),
            ("a\nb", "a.b", true),
            ("a\nb", "(?n)a.b", false),
            ("a\nb", "(?w)^b$", true),
            ("AbC", "(?i)abc", true),
            ("a+b", "***=a+b", true),
            ("ab", "(?x) a  b # the end", true),
            ("ab", "a(?#a comment)b", true),
            ("#a b", "#a b", true),
            ("A", "\\u0041", true),
            ("a", "[^\\n]", true),
        ] {
            assert_eq!(matches(text, pattern), expected, "{text:?} ~ {pattern:?}");
        }
    }

    #[test]
    fn texts_that_cannot_be_matched_are_refused() {
        use PatternError::{Flag, Invalid, TooLarge, Unsupported};
        for (pattern, flags, expected) in [
            ("(", "", Invalid),
            ("a**", "", Invalid),
            ("[a", "", Invalid),
            ("a\\", "", Invalid),
            ("*a", "", Invalid),
            ("a{2,1}", "", Invalid),
            ("(a)\\1", "", Unsupported),
            ("a(?=b)", "", Unsupported),
            ("[[.x.]]", "", Unsupported),
            ("a", "z", Flag),
            ("(a{1000}){1000}", "", TooLarge),
        ] {
            let error = Pattern::new(pattern, flags).unwrap_err();
            assert_eq!(error, expected, "{pattern:?}");
        }
    }

    #[test]
    fn replacements_have_groups() {
        let replaced = |text: &str, pattern: &str, with: &str, flags: &str| {
            Pattern::new(pattern, flags)
                .unwrap()
                .replace(text, with, 1000)
        };
        assert_eq!(
            replaced("foobarbaz", "b..", "X", "").as_deref(),
            Some("fooXbaz")
        );
        assert_eq!(
            replaced("foobarbaz", "b..", "X", "g").as_deref(),
            Some("fooXX")
        );
        let swapped = replaced("foobarbaz", "b(..)", "X\\1Y", "g");
        assert_eq!(swapped.as_deref(), Some("fooXarYXazY"));
        let whole = replaced("ab", "b", "<\\&\\\\>", "");
        assert_eq!(whole.as_deref(), Some("a<b\\>"));
        assert_eq!(
            replaced("aaa", "a", "bbbb", "g").map(|it| it.len()),
            Some(12)
        );
        let pattern = Pattern::new("a", "g").unwrap();
        assert_eq!(pattern.replace("aaa", "bbbb", 11), None);
    }
}
