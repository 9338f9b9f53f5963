//! Writes the messages of a server.
//!
//! Each function appends one message to `out`. [`crate::message::write_ready`] and
//! [`Report::write`](crate::report::Report::write) write the two messages that the proxy makes as
//! well.

use bytes::{BufMut, BytesMut};

use crate::framing::HEADER_LEN;
use crate::frontend::WireFormat;
use crate::message::write;
use crate::startup::CancelKey;

/// The description of a column of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnDescription<'a> {
    /// The column's name.
    pub name: &'a str,
    /// The OID of the type.
    pub type_oid: u32,
    /// The length of the type's values in bytes; negative if they differ in length.
    pub type_length: i16,
    /// The limit of the type's values; -1 if they have none.
    pub type_modifier: i32,
    /// The format of the values.
    pub format: WireFormat,
}

/// Appends AuthenticationOk.
pub fn authentication_ok(out: &mut BytesMut) {
    write(out, b'R', &[&0_u32.to_be_bytes()], 0);
}

/// Appends ParameterStatus.
pub fn parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    write(
        out,
        b'S',
        &[name.as_bytes(), b"\0", value.as_bytes(), b"\0"],
        0,
    );
}

/// Appends BackendKeyData.
pub fn backend_key_data(out: &mut BytesMut, key: &CancelKey) {
    write(out, b'K', &[&key.process.to_be_bytes(), &key.secret[..]], 0);
}

/// Appends ParseComplete.
pub fn parse_complete(out: &mut BytesMut) {
    write(out, b'1', &[], 0);
}

/// Appends BindComplete.
pub fn bind_complete(out: &mut BytesMut) {
    write(out, b'2', &[], 0);
}

/// Appends CloseComplete.
pub fn close_complete(out: &mut BytesMut) {
    write(out, b'3', &[], 0);
}

/// Appends NoData: the statement returns no rows.
pub fn no_data(out: &mut BytesMut) {
    write(out, b'n', &[], 0);
}

/// Appends PortalSuspended: the portal has more rows.
pub fn portal_suspended(out: &mut BytesMut) {
    write(out, b's', &[], 0);
}

/// Appends EmptyQueryResponse.
pub fn empty_query(out: &mut BytesMut) {
    write(out, b'I', &[], 0);
}

/// Appends CopyInResponse: the client sends the data of a COPY now, with this many columns in a
/// format.
pub fn copy_in_response(out: &mut BytesMut, columns: u16, format: WireFormat) {
    copy_response(out, b'G', columns, format);
}

/// Appends CopyOutResponse: the data of a COPY follow, with this many columns in a format.
pub fn copy_out_response(out: &mut BytesMut, columns: u16, format: WireFormat) {
    copy_response(out, b'H', columns, format);
}

fn copy_response(out: &mut BytesMut, tag: u8, columns: u16, format: WireFormat) {
    let code = match format {
        WireFormat::Text => 0,
        WireFormat::Binary => 1,
    };
    let mut body = BytesMut::new();
    body.put_u8(code);
    body.put_u16(columns);
    for _ in 0..columns {
        body.put_u16(u16::from(code));
    }
    write(out, tag, &[&body], 0);
}

/// Appends CopyData.
pub fn copy_data(out: &mut BytesMut, data: &[u8]) {
    write(out, b'd', &[data], 0);
}

/// Appends CopyDone: the data of a COPY end.
pub fn copy_done(out: &mut BytesMut) {
    write(out, b'c', &[], 0);
}

/// Appends CommandComplete with its tag, such as `INSERT 0 1`.
pub fn command_complete(out: &mut BytesMut, tag: &str) {
    write(out, b'C', &[tag.as_bytes(), b"\0"], 0);
}

/// Appends ParameterDescription with the OIDs of the types.
///
/// # Panics
/// If there are more parameters than a Bind message can have.
pub fn parameter_description(out: &mut BytesMut, types: &[u32]) {
    let count = u16::try_from(types.len()).expect("a Bind message has a count of 16 bits");
    let mut body = BytesMut::with_capacity(2 + 4 * types.len());
    body.put_u16(count);
    types.iter().for_each(|oid| body.put_u32(*oid));
    write(out, b't', &[&body], 0);
}

/// Appends RowDescription.
///
/// # Panics
/// If there are more columns than the message can have: the caller bounds them.
pub fn row_description<'a>(
    out: &mut BytesMut,
    columns: impl ExactSizeIterator<Item = ColumnDescription<'a>>,
) {
    let count = u16::try_from(columns.len()).expect("the caller bounds the columns");
    let mut body = BytesMut::new();
    body.put_u16(count);
    for column in columns {
        body.put_slice(column.name.as_bytes());
        body.put_u8(0);
        // No table and no column of it: the store's tables have no OIDs.
        body.put_u32(0);
        body.put_u16(0);
        body.put_u32(column.type_oid);
        body.put_i16(column.type_length);
        body.put_i32(column.type_modifier);
        body.put_u16(match column.format {
            WireFormat::Text => 0,
            WireFormat::Binary => 1,
        });
    }
    write(out, b'T', &[&body], 0);
}

/// Appends a DataRow value by value.
#[derive(Debug)]
pub struct RowWriter<'a> {
    out: &'a mut BytesMut,
    start: usize,
}

impl<'a> RowWriter<'a> {
    /// Begins a row of this many columns.
    pub fn new(out: &'a mut BytesMut, columns: u16) -> RowWriter<'a> {
        let start = out.len();
        out.put_u8(b'D');
        out.put_u32(0);
        out.put_u16(columns);
        RowWriter { out, start }
    }

    /// Adds NULL.
    pub fn null(&mut self) {
        self.out.put_i32(-1);
    }

    /// Adds the value that `write` appends.
    ///
    /// # Panics
    /// If the value is longer than 2 GiB. The store's rows are shorter.
    pub fn value(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let at = self.out.len();
        self.out.put_u32(0);
        write(self.out);
        let length = i32::try_from(self.out.len() - at - 4);
        let length = length.expect("values are shorter than 2 GiB");
        self.out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Ends the row.
    ///
    /// # Panics
    /// If the row is longer than 2 GiB. The store's rows are shorter.
    pub fn end(self) {
        let RowWriter { out, start } = self;
        let length = i32::try_from(out.len() - start - 1).expect("rows are shorter than 2 GiB");
        out[start + 1..start + HEADER_LEN].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::vec::Vec;

    use super::*;
    use crate::message;

    #[test]
    fn written_row_is_read() {
        let mut out = BytesMut::from(&b"before"[..]);
        let mut row = RowWriter::new(&mut out, 3);
        row.value(|out| out.put_slice(b"ab"));
        row.null();
        row.value(|_| {});
        row.end();
        assert_eq!(&out[6..11], b"D\0\0\0\x14");
        let columns: Vec<String> = message::row(&out[6 + HEADER_LEN..]).unwrap();
        assert_eq!(columns, ["ab", "", ""]);
    }

    #[test]
    fn messages_of_a_copy() {
        let mut out = BytesMut::new();
        copy_in_response(&mut out, 2, WireFormat::Text);
        assert_eq!(&out[..], b"G\0\0\0\x0b\0\0\x02\0\0\0\0");
        out.clear();
        copy_in_response(&mut out, 1, WireFormat::Binary);
        assert_eq!(&out[..], b"G\0\0\0\x09\x01\0\x01\0\x01");
        out.clear();
        copy_out_response(&mut out, 0, WireFormat::Text);
        copy_data(&mut out, b"1\n");
        copy_done(&mut out);
        assert_eq!(&out[..], b"H\0\0\0\x07\0\0\0d\0\0\0\x061\nc\0\0\0\x04");
    }

    #[test]
    fn described_columns() {
        let mut out = BytesMut::new();
        let column = ColumnDescription {
            name: "id",
            type_oid: 20,
            type_length: 8,
            type_modifier: -1,
            format: WireFormat::Binary,
        };
        row_description(&mut out, [column].into_iter());
        let expected = b"T\0\0\0\x1b\0\x01id\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\x01";
        assert_eq!(&out[..], expected);
        out.clear();
        parameter_description(&mut out, &[20, 25]);
        assert_eq!(&out[..], b"t\0\0\0\x0e\0\x02\0\0\0\x14\0\0\0\x19");
    }
}
