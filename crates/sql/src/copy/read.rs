//! Reads the lines of a `COPY`, from bytes that arrive in pieces cut anywhere.
//!
//! Lines and fields are those of PostgreSQL: the first end of a line determines which ends the
//! others have, `\.` ends the input, and a field that is quoted in CSV is not NULL. Invariants: the
//! reader holds at most one line and one piece. It looks at each byte once to find the end of its
//! line. Bytes of clients never cause a panic.

use crate::error::{SqlError, sqlstate};
use crate::statement::{CopyFormat, CopyOptions};

/// The longest line of a `COPY`, in bytes. No row that the store takes needs a longer one.
pub const LINE_LEN_MAX: usize = 16 << 20;

/// Reads lines and their fields.
#[derive(Debug)]
pub struct CopyReader {
    options: CopyOptions,
    /// The bytes that have arrived, from the start of the next line on.
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// The bytes before this position are known not to end the line.
    scanned: usize,
    quotes: QuoteState,
    newline: Option<Newline>,
    /// Whether no more bytes arrive.
    is_complete: bool,
    /// Whether the end marker was read. Further bytes are dropped.
    is_over: bool,
    /// The lines that were read.
    lines: u64,
    /// Where the last line is in the buffer.
    last: (usize, usize),
}

/// Whether the bytes scanned so far end within quotes.
#[derive(Clone, Copy, Debug, Default)]
struct QuoteState {
    is_in_quotes: bool,
    after_escape: bool,
}

impl QuoteState {
    /// Returns the state after one more byte. An escape counts within quotes, before a quote.
    fn after(mut self, byte: u8, options: &CopyOptions) -> QuoteState {
        let is_escape = byte == options.escape && options.escape != options.quote;
        if self.is_in_quotes && is_escape {
            self.after_escape = !self.after_escape;
        }
        if byte == options.quote && !self.after_escape {
            self.is_in_quotes = !self.is_in_quotes;
        }
        self.after_escape &= is_escape;
        self
    }
}

/// The end of each line of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newline {
    Lf,
    Cr,
    CrLf,
}

/// The end of a line that was found.
enum LineEnd {
    /// The line ends before a newline of this many bytes.
    Newline(usize),
    /// The line ends before the end marker, which has this many bytes with its newline.
    Marker(usize),
    /// The line ends with the input.
    Input,
}

impl CopyReader {
    /// Returns a reader before its first byte. The format of the options is a text.
    pub fn new(options: CopyOptions) -> CopyReader {
        assert_ne!(options.format, CopyFormat::Binary, "it has no lines");
        CopyReader {
            options,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            quotes: QuoteState::default(),
            newline: None,
            is_complete: false,
            is_over: false,
            lines: 0,
            last: (0, 0),
        }
    }

    /// Adds bytes of the input.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.is_over {
            return;
        }
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.last = (0, 0);
        self.buffer.extend_from_slice(bytes);
    }

    /// Ends the input: the last line need not have a newline.
    pub fn end(&mut self) {
        self.is_complete = true;
    }

    /// Returns the number of lines so far, as many as the last row ends at. A row of CSV can have
    /// several.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the last line, for people.
    pub fn last_line(&self) -> String {
        let (start, end) = self.last;
        let shown: String = String::from_utf8_lossy(&self.buffer[start..end])
            .chars()
            .take(101)
            .collect();
        match shown.char_indices().nth(100) {
            Some((cut, _)) => format!("{}...", &shown[..cut]),
            None => shown,
        }
    }

    /// Returns the fields of the next line, none for NULL. Returns none if the line has not arrived
    /// yet, or if there is none.
    ///
    /// # Errors
    /// The input is not in the format. It cannot be read on.
    pub fn next_row(&mut self) -> Result<Option<Vec<Option<String>>>, SqlError> {
        if self.is_over {
            return Ok(None);
        }
        let Some(end) = self.line_end()? else {
            if self.buffer.len() - self.start > LINE_LEN_MAX {
                return Err(too_long());
            }
            return Ok(None);
        };
        let (start, stop) = (self.start, self.scanned);
        let (skipped, is_last) = match end {
            LineEnd::Newline(bytes) => (bytes, false),
            LineEnd::Marker(bytes) => (bytes, true),
            LineEnd::Input => (0, true),
        };
        self.is_over = is_last;
        self.start = stop + skipped;
        self.scanned = self.start;
        self.quotes = QuoteState::default();
        self.last = (start, stop);
        if is_last && start == stop {
            return Ok(None);
        }
        self.lines += 1;
        let line = &self.buffer[start..stop];
        if line.len() > LINE_LEN_MAX {
            return Err(too_long());
        }
        let line = check_text(line)?;
        let fields = match self.options.format {
            CopyFormat::Text | CopyFormat::Binary => text_fields(line, &self.options)?,
            CopyFormat::Csv => {
                let within = line.bytes().filter(|byte| *byte == self.counted_byte());
                self.lines += within.count() as u64;
                csv_fields(line, &self.options)?
            }
        };
        Ok(Some(fields))
    }

    /// Returns the byte that counts as the end of a line within quotes.
    fn counted_byte(&self) -> u8 {
        match self.newline {
            Some(Newline::Cr | Newline::CrLf) => b'\r',
            Some(Newline::Lf) | None => b'\n',
        }
    }

    /// Finds the end of the line, which is at `scanned` then. Returns none if it has not arrived.
    fn line_end(&mut self) -> Result<Option<LineEnd>, SqlError> {
        let is_csv = self.options.format == CopyFormat::Csv;
        loop {
            let rest = &self.buffer[self.scanned..];
            let Some(byte) = rest.first() else {
                return Ok(self.is_complete.then_some(LineEnd::Input));
            };
            if !is_csv && !matches!(byte, b'\r' | b'\n' | b'\\') {
                // Most bytes are of this kind.
                let plain = rest
                    .iter()
                    .position(|it| matches!(it, b'\r' | b'\n' | b'\\'));
                self.scanned += plain.unwrap_or(rest.len());
                continue;
            }
            // An end within quotes is none, and a marker stands at the start of a line.
            let quotes = match is_csv {
                true => self.quotes.after(*byte, &self.options),
                false => self.quotes,
            };
            let may_be_marker = !is_csv || self.scanned == self.start;
            match byte {
                b'\r' if !quotes.is_in_quotes => {
                    let next = rest.get(1);
                    if next.is_none() && !self.is_complete && self.newline != Some(Newline::Cr) {
                        return Ok(None);
                    }
                    return self.carriage_return(next == Some(&b'\n')).map(Some);
                }
                b'\n' if !quotes.is_in_quotes => {
                    if matches!(self.newline, Some(Newline::Cr | Newline::CrLf)) {
                        return Err(self.literal("newline", "\\n"));
                    }
                    self.newline = Some(Newline::Lf);
                    return Ok(Some(LineEnd::Newline(1)));
                }
                b'\\' if may_be_marker => {
                    let Some(next) = rest.get(1) else {
                        if !self.is_complete {
                            return Ok(None);
                        }
                        self.scanned += 1;
                        continue;
                    };
                    if *next == b'.' {
                        match self.marker(&rest[2..], is_csv)? {
                            MarkerFound::Yes(bytes) => return Ok(Some(LineEnd::Marker(bytes))),
                            MarkerFound::NotYet => return Ok(None),
                            MarkerFound::No => {}
                        }
                    }
                    self.quotes = quotes;
                    // In text the byte after a backslash has no meaning of its own.
                    self.scanned += if is_csv { 1 } else { 2 };
                }
                _ => {
                    self.quotes = quotes;
                    self.scanned += 1;
                }
            }
        }
    }

    fn carriage_return(&mut self, before_newline: bool) -> Result<LineEnd, SqlError> {
        match self.newline {
            Some(Newline::Cr) => Ok(LineEnd::Newline(1)),
            None | Some(Newline::CrLf) if before_newline => {
                self.newline = Some(Newline::CrLf);
                Ok(LineEnd::Newline(2))
            }
            None => {
                self.newline = Some(Newline::Cr);
                Ok(LineEnd::Newline(1))
            }
            Some(Newline::Lf | Newline::CrLf) => Err(self.literal("carriage return", "\\r")),
        }
    }

    /// Looks whether an end marker is complete, by the bytes after `\.`.
    fn marker(&self, after: &[u8], is_csv: bool) -> Result<MarkerFound, SqlError> {
        let wanted = match self.newline {
            Some(Newline::CrLf) => 2,
            _ => 1,
        };
        if after.len() < wanted && !self.is_complete {
            return Ok(MarkerFound::NotYet);
        }
        let byte = |position: usize| after.get(position).copied().unwrap_or_default();
        let mut mismatch = false;
        if self.newline == Some(Newline::CrLf) {
            mismatch = byte(0) == b'\n';
            if byte(0) != b'\r' {
                return match (is_csv, mismatch) {
                    (true, _) => Ok(MarkerFound::No),
                    (false, true) => Err(bad(MARKER_STYLE)),
                    (false, false) => Err(bad(MARKER_CORRUPT)),
                };
            }
        }
        let last = byte(wanted - 1);
        if !matches!(last, b'\r' | b'\n') {
            return match is_csv {
                true => Ok(MarkerFound::No),
                false => Err(bad(MARKER_CORRUPT)),
            };
        }
        mismatch |= match self.newline {
            Some(Newline::Lf | Newline::CrLf) => last != b'\n',
            Some(Newline::Cr) => last != b'\r',
            None => false,
        };
        match mismatch {
            true => Err(bad(MARKER_STYLE)),
            false => Ok(MarkerFound::Yes(2 + wanted)),
        }
    }

    fn literal(&mut self, what: &str, escape: &str) -> SqlError {
        self.lines += 1;
        self.last = (self.start, self.scanned);
        bad(match self.options.format {
            CopyFormat::Text | CopyFormat::Binary => {
                format!("literal {what} found in data: use \"{escape}\" to represent it")
            }
            CopyFormat::Csv => {
                format!("unquoted {what} found in data: quote the field that has it")
            }
        })
    }
}

const MARKER_CORRUPT: &str = "end-of-copy marker corrupt";
const MARKER_STYLE: &str = "end-of-copy marker does not match previous newline style";

enum MarkerFound {
    Yes(usize),
    No,
    NotYet,
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::with_state(sqlstate::BAD_COPY, message)
}

fn too_long() -> SqlError {
    let text = format!("a line of the COPY has more than {LINE_LEN_MAX} bytes");
    SqlError::with_state(sqlstate::LIMIT, text)
}

/// Returns bytes as a text of PostgreSQL, which has no zero byte.
fn check_text(bytes: &[u8]) -> Result<&str, SqlError> {
    match str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => Ok(text),
        Ok(_) => Err(not_utf8(&[0])),
        Err(error) => Err(not_utf8(&bytes[error.valid_up_to()..])),
    }
}

fn not_utf8(bytes: &[u8]) -> SqlError {
    let first = bytes.first().copied().unwrap_or_default();
    let text = format!("invalid byte sequence for encoding \"UTF8\": 0x{first:02x}");
    SqlError::with_state(sqlstate::NOT_IN_ENCODING, text)
}

/// Returns the fields of a line of text.
fn text_fields(line: &str, options: &CopyOptions) -> Result<Vec<Option<String>>, SqlError> {
    let mut fields = Vec::new();
    let mut rest = line.as_bytes();
    loop {
        // A delimiter after a backslash is part of the field.
        let mut end = 0;
        while end < rest.len() && rest[end] != options.delimiter {
            end += 1 + usize::from(rest[end] == b'\\');
        }
        let end = end.min(rest.len());
        let raw = &rest[..end];
        fields.push(match raw == options.null.as_bytes() {
            true => None,
            false => Some(unescaped(raw)?),
        });
        match rest.get(end + 1..) {
            Some(further) => rest = further,
            None => return Ok(fields),
        }
    }
}

/// Returns a field of text without its escapes.
fn unescaped(raw: &[u8]) -> Result<String, SqlError> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        let Some((escaped, after)) = rest.split_first() else {
            // As PostgreSQL, which drops a backslash at the end of the input.
            break;
        };
        rest = after;
        bytes.push(match escaped {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let more = rest.iter().take(2);
                let more = more.take_while(|it| matches!(it, b'0'..=b'7')).count();
                let digits = rest[..more].iter();
                let value = digits.fold(u16::from(escaped - b'0'), |value, digit| {
                    value * 8 + u16::from(digit - b'0')
                });
                rest = &rest[more..];
                // As PostgreSQL, which drops the ninth bit.
                (value & 0xff) as u8
            }
            b'x' => {
                let digits = rest.iter().take(2);
                let count = digits.take_while(|it| it.is_ascii_hexdigit()).count();
                let digits = str::from_utf8(&rest[..count]).expect("digits are ASCII");
                let value = u8::from_str_radix(digits, 16);
                rest = &rest[count..];
                value.unwrap_or(b'x')
            }
            other => *other,
        });
    }
    check_text(&bytes)?;
    Ok(String::from_utf8(bytes).expect("it was checked"))
}

/// Returns the fields of a line of CSV.
fn csv_fields(line: &str, options: &CopyOptions) -> Result<Vec<Option<String>>, SqlError> {
    let (quote, escape) = (options.quote, options.escape);
    let bytes = line.as_bytes();
    let mut fields = Vec::new();
    let mut at = 0;
    loop {
        let start = at;
        let mut field = Vec::new();
        let mut was_quoted = false;
        while at < bytes.len() && bytes[at] != options.delimiter {
            if bytes[at] != quote {
                field.push(bytes[at]);
                at += 1;
                continue;
            }
            was_quoted = true;
            at += 1;
            loop {
                let Some(byte) = bytes.get(at) else {
                    return Err(bad("unterminated CSV quoted field"));
                };
                at += 1;
                match bytes.get(at) {
                    Some(next) if *byte == escape && (*next == escape || *next == quote) => {
                        field.push(*next);
                        at += 1;
                    }
                    _ if *byte == quote => break,
                    _ => field.push(*byte),
                }
            }
        }
        let is_null = !was_quoted && bytes[start..at] == *options.null.as_bytes();
        let text = String::from_utf8(field).expect("the line is cut at characters of ASCII");
        fields.push((!is_null).then_some(text));
        if at == bytes.len() {
            return Ok(fields);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests;
