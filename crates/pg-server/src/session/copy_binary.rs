//! The binary format of a `COPY`: a header, rows of values with their lengths, and an end marker.
//!
//! ```text
//! signature of 11 bytes, flags, length of an extension, extension
//! number of fields, for each: length or -1 for NULL, value      for each row
//! -1
//! ```
//!
//! Invariants: the reader holds at most one row and one piece. Bytes of clients never cause a
//! panic.

use std::ops::Range;

use bytes::{BufMut, BytesMut};
use pg_wire::frontend::WireFormat;
use pg_wire::report::Report;
use placement::{ColumnType, TimeZone, Value};
use sql::copy::{CopyTarget, LINE_LEN_MAX};
use sql::{OutputColumn, sqlstate};

use crate::errors::{StatementScope, error, report};
use crate::types;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// The flag of rows that begin with a number of PostgreSQL's own.
const WITH_OIDS: u32 = 1 << 16;

/// Reads rows from bytes that arrive in pieces cut anywhere.
#[derive(Debug)]
pub(super) struct BinaryReader {
    buffer: Vec<u8>,
    /// Where the next row begins.
    start: usize,
    /// The part of the input that is read.
    part: BinaryPart,
    /// Whether no more bytes arrive.
    is_complete: bool,
    /// The rows that were begun.
    rows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BinaryPart {
    Header,
    /// The bytes of the extension that are left.
    Extension(usize),
    Rows,
    /// The end marker was read.
    End,
}

impl BinaryReader {
    /// Returns a reader before its first byte.
    pub fn new() -> BinaryReader {
        BinaryReader {
            buffer: Vec::new(),
            start: 0,
            part: BinaryPart::Header,
            is_complete: false,
            rows: 0,
        }
    }

    /// Adds bytes of the input.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Ends the input.
    pub fn end(&mut self) {
        self.is_complete = true;
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the values of the next row. Returns none if it has not arrived yet, or if there is
    /// none.
    ///
    /// # Errors
    /// The input is not in the format, or a value is none of its column. It cannot be read on.
    pub fn next_row(&mut self, target: &CopyTarget) -> Result<Option<Vec<Value>>, Report> {
        if !self.read_header()? {
            return Ok(None);
        }
        let Some(fields) = self.fields(target)? else {
            return Ok(None);
        };
        let values = fields.into_iter().enumerate().map(|(position, field)| {
            let Some(field) = field else {
                return Ok(Value::Null);
            };
            let (name, column_type) = target.column(position);
            let value = types::read_copied(column_type, &self.buffer[field]);
            let fitted = value.and_then(|value| {
                let fitted = target.fitted(position, value);
                fitted.map_err(|fault| report(&fault, "", StatementScope::Statement))
            });
            fitted.map_err(|found| {
                let table = target.table().1;
                found.within(format!("COPY {table}, line {}, column {name}", self.rows))
            })
        });
        values.collect::<Result<_, _>>().map(Some)
    }

    /// Reads the header as far as it has arrived. Returns whether the rows follow.
    fn read_header(&mut self) -> Result<bool, Report> {
        if self.part == BinaryPart::Header {
            let rest = &self.buffer[self.start..];
            let Some((signature, after)) = rest.split_first_chunk() else {
                return self.missing(bad("COPY file signature not recognized"));
            };
            if signature != SIGNATURE {
                return Err(bad("COPY file signature not recognized"));
            }
            let Some((flags, after)) = after.split_first_chunk() else {
                return self.missing(bad("invalid COPY file header (missing flags)"));
            };
            match u32::from_be_bytes(*flags) {
                flags if flags & WITH_OIDS != 0 => {
                    return Err(bad("invalid COPY file header (WITH OIDS)"));
                }
                flags if flags >> 16 != 0 => {
                    return Err(bad("unrecognized critical flags in COPY file header"));
                }
                _ => {}
            }
            let missing = "invalid COPY file header (missing length)";
            let Some((length, after)) = after.split_first_chunk() else {
                return self.missing(bad(missing));
            };
            let length = usize::try_from(i32::from_be_bytes(*length));
            self.start = self.buffer.len() - after.len();
            self.part = BinaryPart::Extension(length.map_err(|_| bad(missing))?);
        }
        if let BinaryPart::Extension(left) = self.part {
            let skipped = left.min(self.buffer.len() - self.start);
            self.start += skipped;
            if skipped < left {
                self.part = BinaryPart::Extension(left - skipped);
                return self.missing(bad("invalid COPY file header (wrong length)"));
            }
            self.part = BinaryPart::Rows;
        }
        Ok(true)
    }

    /// Returns that more bytes are needed, or the error if there are no more.
    fn missing<T: Default>(&self, report: Report) -> Result<T, Report> {
        match self.is_complete {
            true => Err(report),
            false => Ok(T::default()),
        }
    }

    /// Returns where the fields of the next row are, none for NULL.
    fn fields(&mut self, target: &CopyTarget) -> Result<Option<Vec<Option<Range<usize>>>>, Report> {
        let table = target.table().1;
        let fault = |text: &str| bad(text).within(format!("COPY {table}, line {}", self.rows + 1));
        let cut_off = || fault("unexpected EOF in COPY data");
        let mut rest = &self.buffer[self.start..];
        if self.part == BinaryPart::End {
            return match rest {
                [] => Ok(None),
                _ => Err(fault("received copy data after EOF marker")),
            };
        }
        let Some((count, after)) = rest.split_first_chunk() else {
            return Ok(None);
        };
        rest = after;
        let count = i16::from_be_bytes(*count);
        if count == -1 {
            self.start += 2;
            self.part = BinaryPart::End;
            return self.fields(target);
        }
        if usize::try_from(count) != Ok(target.fields()) {
            let text = format!("row field count is {count}, expected {}", target.fields());
            return Err(fault(&text));
        }
        let mut fields = Vec::with_capacity(target.fields());
        for _ in 0..target.fields() {
            let Some((length, after)) = rest.split_first_chunk() else {
                return self.missing(cut_off());
            };
            rest = after;
            let length = match i32::from_be_bytes(*length) {
                -1 => {
                    fields.push(None);
                    continue;
                }
                length => usize::try_from(length).map_err(|_| fault("invalid field size"))?,
            };
            let at = self.buffer.len() - rest.len();
            if at - self.start + length > LINE_LEN_MAX {
                let text = format!("a row of the COPY has more than {LINE_LEN_MAX} bytes");
                return Err(error(sqlstate::LIMIT, text));
            }
            let Some((_, after)) = rest.split_at_checked(length) else {
                return self.missing(cut_off());
            };
            rest = after;
            fields.push(Some(at..at + length));
        }
        self.start = self.buffer.len() - rest.len();
        self.rows += 1;
        Ok(Some(fields))
    }
}

fn bad(text: &str) -> Report {
    error(sqlstate::BAD_COPY, text)
}

/// Writes rows. Each message to the client has a row; the first one has the header, too.
#[derive(Debug)]
pub(super) struct BinaryWriter {
    columns: Vec<Option<ColumnType>>,
}

impl BinaryWriter {
    /// Returns a writer of rows with these columns, and appends the header.
    pub fn new(columns: &[OutputColumn], out: &mut BytesMut) -> BinaryWriter {
        out.put_slice(SIGNATURE);
        out.put_u32(0);
        out.put_u32(0);
        BinaryWriter {
            columns: columns.iter().map(|column| column.column_type).collect(),
        }
    }

    /// Appends a row, which has a value for each column.
    ///
    /// # Errors
    /// A value is of another type than its column.
    pub fn row(&self, row: &[Value], out: &mut BytesMut) -> Result<(), Report> {
        let count = i16::try_from(row.len()).expect("the columns were counted");
        out.put_i16(count);
        for (value, column_type) in row.iter().zip(&self.columns) {
            if value.is_null() {
                out.put_i32(-1);
                continue;
            }
            let at = out.len();
            out.put_i32(0);
            types::write(
                out,
                value,
                *column_type,
                (WireFormat::Binary, &TimeZone::UTC),
            )?;
            let length = i32::try_from(out.len() - at - 4).expect("a value fits into a message");
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }

    /// Appends the end marker.
    pub fn end(&self, out: &mut BytesMut) {
        out.put_i16(-1);
    }
}
