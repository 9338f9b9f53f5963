//! Writes rows as lines of a `COPY`.

use placement::{ColumnType, TimeZone, Value};

use crate::run::OutputColumn;
use crate::statement::{CopyFormat, CopyHeader, CopyOptions};

/// Writes the rows of a result.
#[derive(Debug)]
pub struct CopyWriter {
    options: CopyOptions,
    columns: Vec<CopyColumn>,
    zone: TimeZone<'static>,
}

#[derive(Debug)]
struct CopyColumn {
    name: String,
    column_type: ColumnType,
    /// Its fields are always quoted.
    is_quoted: bool,
}

impl CopyWriter {
    /// Returns a writer of rows with these columns, which shows moments in a zone. The format of
    /// the options is a text.
    pub fn new(
        options: &CopyOptions,
        columns: &[OutputColumn],
        zone: TimeZone<'static>,
    ) -> CopyWriter {
        assert_ne!(options.format, CopyFormat::Binary, "it has no lines");
        let columns = columns.iter().map(|column| CopyColumn {
            name: column.name.clone(),
            column_type: column.column_type.unwrap_or(ColumnType::Text),
            is_quoted: options.force_quote.contains(&column.name),
        });
        CopyWriter {
            columns: columns.collect(),
            options: options.clone(),
            zone,
        }
    }

    /// Appends the line with the names of the columns, if the options want it. Returns whether they
    /// do.
    pub fn header(&self, out: &mut Vec<u8>) -> bool {
        if self.options.header == CopyHeader::No {
            return false;
        }
        for (position, column) in self.columns.iter().enumerate() {
            self.delimit(position, out);
            self.field(&column.name, false, out);
        }
        out.push(b'\n');
        true
    }

    /// Appends the line of a row, which has a value for each column.
    pub fn row(&self, row: &[Value], out: &mut Vec<u8>) {
        for (position, (value, column)) in row.iter().zip(&self.columns).enumerate() {
            self.delimit(position, out);
            match value {
                Value::Null => out.extend_from_slice(self.options.null.as_bytes()),
                value => {
                    let text = column.column_type.shown_in(value, &self.zone);
                    self.field(&text, column.is_quoted, out);
                }
            }
        }
        out.push(b'\n');
    }

    fn delimit(&self, position: usize, out: &mut Vec<u8>) {
        if position > 0 {
            out.push(self.options.delimiter);
        }
    }

    fn field(&self, text: &str, is_quoted: bool, out: &mut Vec<u8>) {
        match self.options.format {
            CopyFormat::Text | CopyFormat::Binary => self.escaped(text, out),
            CopyFormat::Csv if is_quoted || self.needs_quotes(text) => {
                let CopyOptions { quote, escape, .. } = self.options;
                out.push(quote);
                for byte in text.bytes() {
                    if byte == quote || byte == escape {
                        out.push(escape);
                    }
                    out.push(byte);
                }
                out.push(quote);
            }
            CopyFormat::Csv => out.extend_from_slice(text.as_bytes()),
        }
    }

    fn escaped(&self, text: &str, out: &mut Vec<u8>) {
        for byte in text.bytes() {
            let letter = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                byte if byte == self.options.delimiter => byte,
                byte => {
                    out.push(byte);
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', letter]);
        }
    }

    fn needs_quotes(&self, text: &str) -> bool {
        let CopyOptions {
            delimiter, quote, ..
        } = self.options;
        let is_special =
            |byte: u8| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r');
        // A line of nothing but the end marker would end the input.
        text == self.options.null
            || (self.columns.len() == 1 && text == "\\.")
            || text.bytes().any(is_special)
    }
}
