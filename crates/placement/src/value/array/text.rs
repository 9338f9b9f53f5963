//! The texts of arrays: `{1,NULL,3}`, `{{a,"b c"},{d,e}}`, and `[0:1]={1,2}` with other first
//! subscripts than 1, read and printed as PostgreSQL does.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

use super::{
    ARRAY_DIMENSIONS_MAX, Array, ArrayBuilder, ArrayDimension, ArrayError, ArrayRef, ElementType,
    elements_of,
};
use crate::value::ValueRef;

/// The kind of place that a text of an array has reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NoLevel,
    LevelStarted,
    Element,
    Quoted,
    QuotedEnded,
    ElementDelimited,
    LevelEnded,
    LevelDelimited,
}

/// A text while it is read.
struct Scan {
    /// The open levels.
    depth: usize,
    /// The level that has the elements; none before the first one.
    deepest: Option<usize>,
    /// Members of each open level so far, without the current one.
    members: [u32; ARRAY_DIMENSIONS_MAX],
    /// Members that each level has had when it was closed.
    lengths: [Option<u32>; ARRAY_DIMENSIONS_MAX],
    state: State,
    /// The text of the current element.
    item: String,
    /// Its length without spaces at its end.
    kept: usize,
    /// Whether a part of it is quoted or escaped, so that it is not NULL.
    is_marked: bool,
}

/// Why a text is no array: it has another form, or `E`, a fault of one of its elements.
#[derive(Debug)]
pub(crate) enum ArrayTextError<E> {
    /// A fault of the array.
    Array(ArrayError),
    /// A fault of an element.
    Element(E),
}

/// Returns the array of a text. `parse` appends the value of the text of one element, or NULL for
/// none.
///
/// # Errors
/// The text has not the form of an array, or an element has none of its type.
pub(crate) fn parse<E>(
    text: &str,
    element: ElementType,
    mut parse: impl FnMut(Option<&str>, &mut ArrayBuilder) -> Result<(), E>,
) -> Result<Array, ArrayTextError<E>> {
    let (written, body) = dimensions(text).map_err(ArrayTextError::Array)?;
    if !body.starts_with('{') {
        return Err(ArrayTextError::Array(ArrayError::Malformed));
    }
    let mut builder = ArrayBuilder::new(element);
    let mut scan = Scan::new();
    let mut characters = body.char_indices();
    loop {
        let Some((at, next)) = characters.next() else {
            return Err(ArrayTextError::Array(ArrayError::Malformed));
        };
        let next = match next {
            '\\' => {
                let escaped = characters.next().map(|(_, escaped)| escaped);
                scan.escape(escaped).map(|()| false)
            }
            next => scan.step(next),
        };
        if !next.map_err(ArrayTextError::Array)? {
            continue;
        }
        if let Some(item) = scan.take_item() {
            parse(item, &mut builder).map_err(ArrayTextError::Element)?;
            scan.clear_item();
        }
        if scan.depth == 0 {
            let rest = &body[at + 1..];
            if !rest.bytes().all(is_space) {
                return Err(ArrayTextError::Array(ArrayError::Malformed));
            }
            break;
        }
    }
    let found = scan.found().map_err(ArrayTextError::Array)?;
    let finished = finished(builder, written.as_deref(), &found);
    finished.map_err(ArrayTextError::Array)
}

fn finished(
    builder: ArrayBuilder,
    written: Option<&[ArrayDimension]>,
    found: &[ArrayDimension],
) -> Result<Array, ArrayError> {
    if let Some(written) = written {
        let lengths = |it: &[ArrayDimension]| it.iter().map(|it| it.length).collect::<Vec<_>>();
        if lengths(written) != lengths(found) {
            return Err(ArrayError::Malformed);
        }
    }
    builder
        .finish(written.unwrap_or(found))
        .map_err(|error| match error {
            ArrayError::OtherDimensions => ArrayError::Malformed,
            error => error,
        })
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns the dimensions that are written before the elements, if they are, and the rest.
fn dimensions(text: &str) -> Result<(Option<Vec<ArrayDimension>>, &str), ArrayError> {
    let trimmed = |text: &'_ str| {
        text.len()
            - text
                .trim_start_matches(|it| u8::try_from(it).is_ok_and(is_space))
                .len()
    };
    let mut rest = &text[trimmed(text)..];
    let mut dimensions: Vec<ArrayDimension> = Vec::new();
    while let Some(after) = rest.strip_prefix('[') {
        if dimensions.len() == ARRAY_DIMENSIONS_MAX {
            let found = dimensions.len() + 1;
            return Err(ArrayError::TooManyDimensions { found });
        }
        let (first, after) = number(after)?;
        let (lower, upper, after) = match after.strip_prefix(':') {
            Some(after) => {
                let (upper, after) = number(after)?;
                (first, upper, after)
            }
            None => (1, first, after),
        };
        let after = after.strip_prefix(']').ok_or(ArrayError::Malformed)?;
        if upper < lower {
            return Err(ArrayError::BoundsReversed);
        }
        let length = i64::from(upper) - i64::from(lower) + 1;
        let length = u32::try_from(length).map_err(|_| ArrayError::TooManyElements)?;
        dimensions.push(ArrayDimension { length, lower });
        rest = &after[trimmed(after)..];
    }
    if dimensions.is_empty() {
        return Ok((None, rest));
    }
    let rest = rest.strip_prefix('=').ok_or(ArrayError::Malformed)?;
    elements_of(&dimensions)?;
    Ok((Some(dimensions), &rest[trimmed(rest)..]))
}

/// Returns the number at the start of a text, and the rest.
fn number(text: &str) -> Result<(i32, &str), ArrayError> {
    let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+');
    let end = text.bytes().position(|byte| !is_part(byte));
    let (number, rest) = text.split_at(end.unwrap_or(text.len()));
    let number = number.parse().map_err(|_| ArrayError::Malformed)?;
    Ok((number, rest))
}

impl Scan {
    fn new() -> Scan {
        Scan {
            depth: 0,
            deepest: None,
            members: [0; ARRAY_DIMENSIONS_MAX],
            lengths: [None; ARRAY_DIMENSIONS_MAX],
            state: State::NoLevel,
            item: String::new(),
            kept: 0,
            is_marked: false,
        }
    }

    /// Takes a character after a backslash.
    fn escape(&mut self, escaped: Option<char>) -> Result<(), ArrayError> {
        let escaped = escaped.ok_or(ArrayError::Malformed)?;
        match self.state {
            State::Quoted => {}
            State::LevelStarted | State::Element | State::ElementDelimited => {
                self.state = State::Element;
            }
            _ => return Err(ArrayError::Malformed),
        }
        self.item.push(escaped);
        self.kept = self.item.len();
        self.is_marked = true;
        Ok(())
    }

    /// Takes a character that is not escaped. Returns whether it ends an element or a level.
    fn step(&mut self, next: char) -> Result<bool, ArrayError> {
        use State::{
            Element, ElementDelimited, LevelDelimited, LevelEnded, LevelStarted, NoLevel, Quoted,
            QuotedEnded,
        };
        match (next, self.state) {
            ('"', Quoted) => {
                self.state = QuotedEnded;
                self.kept = self.item.len();
                Ok(false)
            }
            (next, Quoted) => {
                self.item.push(next);
                Ok(false)
            }
            ('"', LevelStarted | ElementDelimited) => {
                self.state = Quoted;
                self.is_marked = true;
                Ok(false)
            }
            ('{', NoLevel | LevelStarted | LevelDelimited) => {
                self.open()?;
                Ok(false)
            }
            ('}', Element | QuotedEnded | LevelEnded) => self.close().map(|()| true),
            // An array without elements.
            ('}', LevelStarted) if self.depth == 1 => self.close().map(|()| true),
            (',', Element | QuotedEnded | LevelEnded) => {
                self.members[self.depth - 1] += 1;
                let is_element = self.state != LevelEnded;
                if is_element {
                    self.at_deepest()?;
                }
                self.state = if is_element {
                    ElementDelimited
                } else {
                    LevelDelimited
                };
                Ok(is_element)
            }
            ('"' | '{' | '}' | ',', _) => Err(ArrayError::Malformed),
            (space, state) if u8::try_from(space).is_ok_and(is_space) => {
                if state == Element {
                    self.item.push(space);
                }
                Ok(false)
            }
            (next, LevelStarted | Element | ElementDelimited) => {
                self.state = Element;
                self.item.push(next);
                self.kept = self.item.len();
                Ok(false)
            }
            _ => Err(ArrayError::Malformed),
        }
    }

    fn open(&mut self) -> Result<(), ArrayError> {
        if self.depth == ARRAY_DIMENSIONS_MAX {
            let found = self.depth + 1;
            return Err(ArrayError::TooManyDimensions { found });
        }
        self.members[self.depth] = 0;
        self.depth += 1;
        self.state = State::LevelStarted;
        Ok(())
    }

    fn close(&mut self) -> Result<(), ArrayError> {
        let has_members = self.state != State::LevelStarted;
        if matches!(self.state, State::Element | State::QuotedEnded) {
            self.at_deepest()?;
        }
        self.depth -= 1;
        let length = self.members[self.depth] + u32::from(has_members);
        match &mut self.lengths[self.depth] {
            Some(known) if *known != length => return Err(ArrayError::Malformed),
            known => *known = Some(length),
        }
        // An element is taken behind its level's end, too.
        self.state = match self.state {
            State::Element | State::QuotedEnded => self.state,
            _ => State::LevelEnded,
        };
        Ok(())
    }

    /// Checks that all elements are at one level.
    fn at_deepest(&mut self) -> Result<(), ArrayError> {
        match *self.deepest.get_or_insert(self.depth) == self.depth {
            true => Ok(()),
            false => Err(ArrayError::Malformed),
        }
    }

    /// Returns the element that has just ended, none for NULL; none if only a level has.
    fn take_item(&mut self) -> Option<Option<&str>> {
        match self.state {
            State::ElementDelimited => {}
            State::Element | State::QuotedEnded => self.state = State::LevelEnded,
            _ => return None,
        }
        let item = &self.item[..self.kept];
        let is_null = !self.is_marked && item.eq_ignore_ascii_case("null");
        Some((!is_null).then_some(item))
    }

    fn clear_item(&mut self) {
        self.item.clear();
        self.kept = 0;
        self.is_marked = false;
    }

    /// Returns the dimensions of the levels.
    fn found(&self) -> Result<Vec<ArrayDimension>, ArrayError> {
        let Some(deepest) = self.deepest else {
            return Ok(Vec::new());
        };
        if self.lengths.iter().skip(deepest).any(Option::is_some) {
            return Err(ArrayError::Malformed);
        }
        let lengths = self.lengths[..deepest].iter().flatten();
        Ok(lengths
            .map(|length| ArrayDimension {
                length: *length,
                lower: 1,
            })
            .collect())
    }
}

/// Prints an array. `print` appends the text of an element that is not NULL.
pub(crate) fn write(
    f: &mut impl Write,
    array: ArrayRef<'_>,
    print: impl Fn(ValueRef<'_>, &mut String) -> fmt::Result,
) -> fmt::Result {
    let dimensions: Vec<ArrayDimension> = array.dimensions().collect();
    if dimensions.is_empty() {
        return f.write_str("{}");
    }
    if dimensions.iter().any(|it| it.lower != 1) {
        for dimension in &dimensions {
            write!(f, "[{}:{}]", dimension.lower, dimension.upper())?;
        }
        f.write_char('=')?;
    }
    // The number of elements after which a level begins, or ends.
    let mut sizes: Vec<u32> = Vec::new();
    let mut size = 1;
    for dimension in dimensions.iter().rev() {
        size *= dimension.length;
        sizes.push(size);
    }
    let mut item = String::new();
    for (number, value) in (0..).zip(array.values()) {
        let begins = sizes.iter().filter(|size| number % **size == 0).count();
        if number > 0 {
            (0..begins).try_for_each(|_| f.write_char('}'))?;
            f.write_char(',')?;
        }
        (0..begins).try_for_each(|_| f.write_char('{'))?;
        if value.is_null() {
            f.write_str("NULL")?;
            continue;
        }
        item.clear();
        print(value, &mut item)?;
        write_item(f, &item)?;
    }
    sizes.iter().try_for_each(|_| f.write_char('}'))
}

fn write_item(f: &mut impl Write, item: &str) -> fmt::Result {
    let is_special = |byte| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || is_space(byte);
    let needs_quotes =
        item.is_empty() || item.eq_ignore_ascii_case("null") || item.bytes().any(is_special);
    if !needs_quotes {
        return f.write_str(item);
    }
    f.write_char('"')?;
    for character in item.chars() {
        if matches!(character, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(character)?;
    }
    f.write_char('"')
}

impl fmt::Display for ArrayRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, *self, |value, out| write!(out, "{value}"))
    }
}
