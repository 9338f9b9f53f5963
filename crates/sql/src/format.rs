//! Results as a table for people, as CSV, or as JSON for programs.
//!
//! CSV and JSON hold rows and nothing else: what a statement did is said only to people.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use comfy_table::{CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};
use placement::{ColumnType, Value};

use crate::run::{Outcome, Rows};

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Columns in line, and how many rows there were.
    #[default]
    Table,
    /// A header line and one line per row, by RFC 4180; NULL and an empty text are
    /// both an empty field.
    Csv,
    /// One array of objects per statement, one object per line.
    Json,
}

/// As psql: lines between columns and under the header only.
const PSQL: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction('|'))
    .header_separator(LineStyle::none().fill('-').junction('+'))
    .content_lines(ContentLineStyle::none().junction('|'));

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "table" => Ok(Format::Table),
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            other => Err(format!("{other} is no format: write table, csv or json")),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Table => "table",
            Format::Csv => "csv",
            Format::Json => "json",
        })
    }
}

/// Writes what a statement came to.
///
/// # Errors
/// Those of `out`.
pub fn write_outcome(out: &mut dyn Write, outcome: &Outcome, format: Format) -> io::Result<()> {
    match outcome {
        Outcome::Done(done) if format == Format::Table => writeln!(out, "{done}"),
        Outcome::Done(_) => Ok(()),
        Outcome::Rows(rows) => write_rows(out, rows, format),
        Outcome::Description(parts) => {
            for (title, rows) in parts {
                if format == Format::Table {
                    writeln!(out, "{title}")?;
                }
                write_rows(out, rows, format)?;
            }
            Ok(())
        }
    }
}

/// Writes rows.
///
/// # Errors
/// Those of `out`.
pub fn write_rows(out: &mut dyn Write, rows: &Rows, format: Format) -> io::Result<()> {
    match format {
        Format::Table => {
            writeln!(out, "{}", table(rows))?;
            match rows.rows.len() {
                1 => writeln!(out, "(1 row)\n"),
                count => writeln!(out, "({count} rows)\n"),
            }
        }
        Format::Csv => {
            let mut writer = csv::Writer::from_writer(&mut *out);
            writer.write_record(rows.columns.iter().map(|it| it.name.as_bytes()))?;
            for row in &rows.rows {
                writer.write_record(row.iter().map(Value::to_string))?;
            }
            writer.flush()
        }
        Format::Json => {
            write!(out, "[")?;
            for (number, row) in rows.rows.iter().enumerate() {
                let start = if number == 0 { "" } else { "," };
                write!(out, "{start}\n  {{")?;
                for (place, (column, value)) in rows.columns.iter().zip(row).enumerate() {
                    let start = if place == 0 { "" } else { ", " };
                    let name = serde_json::to_string(&column.name)?;
                    write!(out, "{start}{name}: {}", json(value))?;
                }
                write!(out, "}}")?;
            }
            let end = if rows.rows.is_empty() { "" } else { "\n" };
            writeln!(out, "{end}]")
        }
    }
}

fn table(rows: &Rows) -> String {
    let mut table = Table::new();
    table.load_style(PSQL);
    table.set_header(rows.columns.iter().map(|it| it.name.as_str()));
    for row in &rows.rows {
        table.add_row(row.iter().map(Value::to_string));
    }
    for (place, column) in rows.columns.iter().enumerate() {
        let number = matches!(
            column.column_type,
            Some(ColumnType::Int64 | ColumnType::Float64)
        );
        if let Some(shown) = table.column_mut(place)
            && number
        {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

fn json(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        // JSON has no infinities.
        Value::Float64(value) if value.is_finite() => value.to_string(),
        other => serde_json::Value::String(other.to_string()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::OutputColumn;

    fn rows() -> Rows {
        let column = |name: &str, column_type| OutputColumn {
            name: name.to_string(),
            column_type: Some(column_type),
        };
        Rows {
            columns: vec![
                column("id", ColumnType::Int64),
                column("note", ColumnType::Text),
                column("late", ColumnType::Float64),
                column("at", ColumnType::Timestamp),
            ],
            rows: vec![
                vec![
                    Value::Int64(1),
                    Value::Text("a, \"b\"\nc".into()),
                    Value::Float64(2.5),
                    Value::Timestamp(0),
                ],
                vec![
                    Value::Int64(1234),
                    Value::Null,
                    Value::Float64(f64::NAN),
                    Value::Null,
                ],
            ],
        }
    }

    fn written(rows: &Rows, format: Format) -> String {
        let mut out = Vec::new();
        write_rows(&mut out, rows, format).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn table_as_psql_lays_it_out() {
        let expected = "\
\u{20}  id | note   | late | at
------+--------+------+---------------------
    1 | a, \"b\" |  2.5 | 1970-01-01 00:00:00
      | c      |      |
 1234 |        |  NaN |
(2 rows)
";
        assert_eq!(
            written(&rows(), Format::Table).trim_end(),
            expected.trim_end()
        );
    }

    #[test]
    fn table_without_rows() {
        let mut rows = rows();
        rows.rows.clear();
        assert_eq!(
            written(&rows, Format::Table),
            " id | note | late | at\n----+------+------+----\n(0 rows)\n\n"
        );
        assert_eq!(written(&rows, Format::Json), "[]\n");
        assert_eq!(written(&rows, Format::Csv), "id,note,late,at\n");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        assert_eq!(
            written(&rows(), Format::Csv),
            "id,note,late,at\n1,\"a, \"\"b\"\"\nc\",2.5,1970-01-01 00:00:00\n1234,,NaN,\n"
        );
    }

    #[test]
    fn json_is_json() {
        let text = written(&rows(), Format::Json);
        assert_eq!(
            text,
            "[\n  {\"id\": 1, \"note\": \"a, \\\"b\\\"\\nc\", \"late\": 2.5, \"at\": \"1970-01-01 \
             00:00:00\"},\n  {\"id\": 1234, \"note\": null, \"late\": \"NaN\", \"at\": null}\n]\n"
        );
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed[1]["id"], 1234);
    }

    #[test]
    fn what_was_done_is_said_to_people_only() {
        let outcome = Outcome::Done("INSERT 0 3".into());
        for (format, expected) in [
            (Format::Table, "INSERT 0 3\n"),
            (Format::Csv, ""),
            (Format::Json, ""),
        ] {
            let mut out = Vec::new();
            write_outcome(&mut out, &outcome, format).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
