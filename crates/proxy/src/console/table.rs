//! Builds the console's answers: rows with types, as PostgreSQL sends them.

use bytes::BytesMut;

use pg_wire::message;

/// A column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleType {
    /// `text`
    Text,
    /// `int8`
    Number,
    /// `float8`
    Real,
}

impl ConsoleType {
    /// Returns the type's OID, which is the same in every PostgreSQL, and the length of its values
    /// in bytes, -1 if the length varies.
    fn number(self) -> (u32, i16) {
        match self {
            ConsoleType::Text => (25, -1),
            ConsoleType::Number => (20, 8),
            ConsoleType::Real => (701, 8),
        }
    }
}

/// A value in a row of the console's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ConsoleValue {
    /// A value of a [`ConsoleType::Text`] column.
    Text(String),
    /// A value of a [`ConsoleType::Number`] column.
    Number(i64),
    /// A value of a [`ConsoleType::Real`] column.
    Real(f64),
    /// NULL, in a column of any type.
    Null,
}

impl ConsoleValue {
    /// Returns a count as a value of type [`ConsoleType::Number`].
    pub fn count(count: u64) -> ConsoleValue {
        ConsoleValue::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Returns a text value.
    pub fn text(text: impl ToString) -> ConsoleValue {
        ConsoleValue::Text(text.to_string())
    }
}

/// The format in which a client requests values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// Text format.
    Text,
    /// Binary format.
    Binary,
}

/// Columns, by name and type.
pub type ConsoleColumns = &'static [(&'static str, ConsoleType)];

/// Appends the message RowDescription.
pub fn describe(
    columns: ConsoleColumns,
    format: impl Fn(usize) -> ValueFormat,
    out: &mut BytesMut,
) {
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

fn code(format: ValueFormat) -> [u8; 2] {
    match format {
        ValueFormat::Text => [0, 0],
        ValueFormat::Binary => [0, 1],
    }
}

/// Appends the message DataRow.
pub fn write_row(row: &[ConsoleValue], format: impl Fn(usize) -> ValueFormat, out: &mut BytesMut) {
    let mut body = Vec::new();
    body.extend_from_slice(&(row.len() as u16).to_be_bytes());
    for (position, value) in row.iter().enumerate() {
        let bytes = match (value, format(position)) {
            (ConsoleValue::Null, _) => {
                body.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            }
            (ConsoleValue::Text(text), _) => text.clone().into_bytes(),
            (ConsoleValue::Number(number), ValueFormat::Text) => number.to_string().into_bytes(),
            (ConsoleValue::Number(number), ValueFormat::Binary) => number.to_be_bytes().to_vec(),
            (ConsoleValue::Real(number), ValueFormat::Text) => number.to_string().into_bytes(),
            (ConsoleValue::Real(number), ValueFormat::Binary) => number.to_be_bytes().to_vec(),
        };
        let length = u32::try_from(bytes.len()).expect("the console's texts are short");
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(&bytes);
    }
    message::write(out, b'D', &[&body], 0);
}
