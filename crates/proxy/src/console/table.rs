//! The console's answers: rows with types, as PostgreSQL sends them.

use bytes::BytesMut;

use pg_wire::message;

/// A column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `text`
    Text,
    /// `int8`
    Number,
    /// `float8`
    Real,
}

impl Type {
    /// Returns its number in every PostgreSQL, and its length in bytes, -1 for any.
    fn number(self) -> (u32, i16) {
        match self {
            Type::Text => (25, -1),
            Type::Number => (20, 8),
            Type::Real => (701, 8),
        }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum ConsoleValue {
    /// Of [`Type::Text`].
    Text(String),
    /// Of [`Type::Number`].
    Number(i64),
    /// Of [`Type::Real`].
    Real(f64),
    /// Of any.
    Null,
}

impl ConsoleValue {
    /// Returns a count of [`Type::Number`].
    pub fn count(count: u64) -> ConsoleValue {
        ConsoleValue::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Returns a text.
    pub fn text(text: impl ToString) -> ConsoleValue {
        ConsoleValue::Text(text.to_string())
    }
}

/// How a client wants values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As text.
    Text,
    /// As their bytes.
    Binary,
}

/// Columns, by name and type.
pub type ConsoleColumns = &'static [(&'static str, Type)];

/// Appends RowDescription.
pub fn describe(columns: ConsoleColumns, format: impl Fn(usize) -> Format, out: &mut BytesMut) {
    let mut body = Vec::new();
    body.extend_from_slice(&(columns.len() as u16).to_be_bytes());
    for (position, (name, kind)) in columns.iter().enumerate() {
        let (number, length) = kind.number();
        body.extend_from_slice(name.as_bytes());
        // It belongs to no table.
        body.extend_from_slice(&[0; 7]);
        body.extend_from_slice(&number.to_be_bytes());
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(&(-1_i32).to_be_bytes());
        body.extend_from_slice(&code(format(position)));
    }
    message::write(out, b'T', &[&body], 0);
}

fn code(format: Format) -> [u8; 2] {
    match format {
        Format::Text => [0, 0],
        Format::Binary => [0, 1],
    }
}

/// Appends a DataRow.
pub fn write_row(row: &[ConsoleValue], format: impl Fn(usize) -> Format, out: &mut BytesMut) {
    let mut body = Vec::new();
    body.extend_from_slice(&(row.len() as u16).to_be_bytes());
    for (position, value) in row.iter().enumerate() {
        let bytes = match (value, format(position)) {
            (ConsoleValue::Null, _) => {
                body.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            }
            (ConsoleValue::Text(text), _) => text.clone().into_bytes(),
            (ConsoleValue::Number(number), Format::Text) => number.to_string().into_bytes(),
            (ConsoleValue::Number(number), Format::Binary) => number.to_be_bytes().to_vec(),
            (ConsoleValue::Real(number), Format::Text) => number.to_string().into_bytes(),
            (ConsoleValue::Real(number), Format::Binary) => number.to_be_bytes().to_vec(),
        };
        let length = u32::try_from(bytes.len()).expect("the console's texts are short");
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(&bytes);
    }
    message::write(out, b'D', &[&body], 0);
}
