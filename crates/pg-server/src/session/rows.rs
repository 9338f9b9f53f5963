//! Writes the columns and rows of results.

use bytes::BytesMut;
use pg_wire::backend::{self, ColumnDescription, RowWriter};
use pg_wire::frontend::{WireFormat, format_of};
use pg_wire::report::Report;
use placement::{TimeZone, Value};
use sql::OutputColumn;
use tokio::io::AsyncWrite;

use crate::errors::error;
use crate::output::ClientOutput;
use crate::types;

/// Appends RowDescription.
pub(super) fn describe_columns(
    out: &mut ClientOutput<impl AsyncWrite + Unpin + Send>,
    columns: &[OutputColumn],
    formats: &[WireFormat],
) {
    let columns = columns
        .iter()
        .enumerate()
        .map(|(position, column)| ColumnDescription {
            name: &column.name,
            type_oid: types::oid(column.column_type),
            type_length: types::length(column.column_type),
            type_modifier: types::modifier(column.column_type),
            format: format_of(formats, position),
        });
    backend::row_description(&mut out.buffer, columns);
}

/// Returns the columns of a result as they were described, if it has no others: the table may have
/// been created again in the meantime.
pub(super) fn as_described(
    columns: Vec<OutputColumn>,
    described: &[OutputColumn],
) -> Result<Vec<OutputColumn>, Report> {
    let fits = columns.len() == described.len()
        && columns.iter().zip(described).all(|(found, described)| {
            let expected = types::oid(described.column_type);
            found.column_type.is_none() || types::oid(found.column_type) == expected
        });
    match fits {
        true => Ok(described.to_vec()),
        false => {
            let text = "cached plan must not change result type";
            Err(error("0A000", text).hint("Prepare the statement again."))
        }
    }
}

/// Appends a row, whose columns have these formats. Moments are shown in a zone.
///
/// # Errors
/// A value is of another type than its column. Nothing of the row is appended.
pub(super) fn write_row(
    out: &mut BytesMut,
    row: &[Value],
    (columns, formats): (&[OutputColumn], &[WireFormat]),
    zone: &TimeZone<'_>,
) -> Result<(), Report> {
    let start = out.len();
    let count = u16::try_from(columns.len()).expect("columns are bounded when they are described");
    let mut failed = Ok(());
    let mut writer = RowWriter::new(out, count);
    for (position, (value, column)) in row.iter().zip(columns).enumerate() {
        if value.is_null() {
            writer.null();
            continue;
        }
        let format = format_of(formats, position);
        writer.value(|out| {
            let written = types::write(out, value, column.column_type, (format, zone));
            failed = std::mem::replace(&mut failed, Ok(())).and(written);
        });
    }
    writer.end();
    if failed.is_err() {
        out.truncate(start);
    }
    failed
}

/// Returns the tag of a result with this many rows.
pub(super) fn rows_tag(word: &str, count: usize) -> String {
    match word {
        "SELECT" | "FETCH" => format!("{word} {count}"),
        word => word.to_owned(),
    }
}
