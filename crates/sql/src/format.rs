//! Formats results: as a table for people, and as CSV or JSON for programs.
//!
//! CSV and JSON output has only rows, so that programs can read it. The result of a statement, such
//! as `UPDATE 3`, goes to a separate output.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use comfy_table::{CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};
use placement::{Array, ColumnType, Value};

use crate::run::{OutputColumn, ResultRows, StatementOutcome, description_column};

/// The format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Aligned columns, and the number of rows.
    #[default]
    Table,
    /// A header line and one line per row, by RFC 4180. NULL and an empty string are both written
    /// as an empty field.
    Csv,
    /// One array of objects per statement, one object per line.
    Json,
}

/// As psql: lines between columns and under the header only.
const PSQL: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction('|'))
    .header_separator(LineStyle::none().fill('-').junction('+'))
    .content_lines(ContentLineStyle::none().junction('|'));

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<OutputFormat, String> {
        match text {
            "table" => Ok(OutputFormat::Table),
            "csv" => Ok(OutputFormat::Csv),
            "json" => Ok(OutputFormat::Json),
            other => Err(format!("{other} is no format: write table, csv or json")),
        }
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OutputFormat::Table => "table",
            OutputFormat::Csv => "csv",
            OutputFormat::Json => "json",
        })
    }
}

/// Writes the outcome of a statement to `out`. In the formats CSV and JSON, `out` gets only rows:
/// a result such as `UPDATE 3` goes to `beside`, and titles are left out.
///
/// # Errors
/// Errors of `out` and `beside`.
pub fn write_outcome(
    out: &mut dyn Write,
    beside: &mut dyn Write,
    outcome: &StatementOutcome,
    format: OutputFormat,
) -> io::Result<()> {
    match outcome {
        StatementOutcome::Done(done) => match format {
            OutputFormat::Table => writeln!(out, "{done}"),
            OutputFormat::Csv | OutputFormat::Json => writeln!(beside, "{done}"),
        },
        StatementOutcome::Rows(rows) => write_rows(out, rows, format),
        StatementOutcome::Returned(rows, done) => {
            write_rows(out, rows, format)?;
            match format {
                OutputFormat::Table => writeln!(out, "{done}"),
                OutputFormat::Csv | OutputFormat::Json => writeln!(beside, "{done}"),
            }
        }
        StatementOutcome::Description(parts) => {
            for (title, rows) in parts {
                if format == OutputFormat::Table {
                    writeln!(out, "{title}")?;
                }
                write_rows(out, rows, format)?;
            }
            Ok(())
        }
    }
}

/// Returns titled tables as one column of lines, for clients that expect one result of a statement.
pub fn lines(parts: &[(String, ResultRows)]) -> ResultRows {
    let mut rows = Vec::new();
    for (title, part) in parts {
        rows.push(title.clone());
        rows.extend(table(part).lines().map(str::to_owned));
        rows.push(String::new());
    }
    ResultRows {
        columns: vec![description_column()],
        rows: rows.into_iter().map(|it| vec![Value::Text(it)]).collect(),
    }
}

/// Writes rows in a format.
///
/// # Errors
/// Errors of `out`.
pub fn write_rows(out: &mut dyn Write, rows: &ResultRows, format: OutputFormat) -> io::Result<()> {
    match format {
        OutputFormat::Table => {
            writeln!(out, "{}", table(rows))?;
            match rows.rows.len() {
                1 => writeln!(out, "(1 row)\n"),
                count => writeln!(out, "({count} rows)\n"),
            }
        }
        OutputFormat::Csv => {
            // The kind of an error shows whether the reader has left.
            let unwritten = |error: csv::Error| match error.into_kind() {
                csv::ErrorKind::Io(error) => error,
                other => io::Error::other(format!("{other:?}")),
            };
            let mut writer = csv::Writer::from_writer(&mut *out);
            let names = rows.columns.iter().map(|it| it.name.as_bytes());
            writer.write_record(names).map_err(unwritten)?;
            for row in &rows.rows {
                let values = row.iter().zip(&rows.columns);
                let values = values.map(|(value, column)| shown(column, value).into_owned());
                writer.write_record(values).map_err(unwritten)?;
            }
            writer.flush()
        }
        OutputFormat::Json => {
            let names = distinct_names(rows);
            write!(out, "[")?;
            for (number, row) in rows.rows.iter().enumerate() {
                let start = if number == 0 { "" } else { "," };
                write!(out, "{start}\n  {{")?;
                let values = row.iter().zip(&rows.columns);
                for (place, (name, (value, column))) in names.iter().zip(values).enumerate() {
                    let start = if place == 0 { "" } else { ", " };
                    let name = serde_json::to_string(name)?;
                    write!(out, "{start}{name}: {}", json(column, value))?;
                }
                write!(out, "}}")?;
            }
            let end = if rows.rows.is_empty() { "" } else { "\n" };
            writeln!(out, "{end}]")
        }
    }
}

/// Returns the names of the columns as keys of an object: of columns that are called alike, the
/// later ones are numbered, as `name_2`.
fn distinct_names(rows: &ResultRows) -> Vec<String> {
    let written: BTreeSet<&str> = rows.columns.iter().map(|it| it.name.as_str()).collect();
    let mut taken = BTreeSet::new();
    let names = rows.columns.iter().map(|column| {
        let mut name = column.name.clone();
        let mut number = 2;
        while taken.contains(&name) || (name != column.name && written.contains(name.as_str())) {
            name = format!("{}_{number}", column.name);
            number += 1;
        }
        taken.insert(name.clone());
        name
    });
    names.collect()
}

fn table(rows: &ResultRows) -> String {
    let mut table = Table::new();
    table.load_style(PSQL);
    table.set_header(rows.columns.iter().map(|it| it.name.as_str()));
    for row in &rows.rows {
        let values = row.iter().zip(&rows.columns);
        table.add_row(values.map(|(value, column)| shown(column, value)));
    }
    for (place, column) in rows.columns.iter().enumerate() {
        let number = column.column_type.is_some_and(ColumnType::is_number);
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

/// Returns the text of a value in a column.
fn shown<'v>(column: &OutputColumn, value: &'v Value) -> Cow<'v, str> {
    column.column_type.unwrap_or(ColumnType::Text).shown(value)
}

/// Returns an array as JSON, each dimension as an array.
fn json_array(column: &OutputColumn, array: &Array) -> String {
    let array = array.as_ref();
    let column = OutputColumn {
        name: String::new(),
        column_type: match column.column_type {
            Some(ColumnType::Array(element)) => Some(element.column_type()),
            _ => Some(array.element().column_type()),
        },
    };
    let items = array.values().map(|it| json(&column, &it.to_owned()));
    let mut items: Vec<String> = items.collect();
    let lengths: Vec<usize> = array.dimensions().map(|it| it.length as usize).collect();
    for length in lengths.into_iter().rev() {
        let members = items.chunks(length);
        items = members.map(|it| format!("[{}]", it.join(","))).collect();
    }
    match items.is_empty() {
        true => "[]".to_string(),
        false => items.concat(),
    }
}

fn json(column: &OutputColumn, value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int16(_) | Value::Int32(_) | Value::Int64(_) => value.to_string(),
        // JSON has no infinities.
        Value::Float32(value) if value.is_finite() => value.to_string(),
        Value::Float64(value) if value.is_finite() => value.to_string(),
        Value::Numeric(value) if value.as_ref().is_finite() => value.to_string(),
        Value::Json(text) | Value::Jsonb(text) => text.clone(),
        Value::Array(array) => json_array(column, array),
        other => serde_json::Value::String(shown(column, other).into_owned()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::OutputColumn;

    fn rows() -> ResultRows {
        let column = |name: &str, column_type| OutputColumn {
            name: name.to_string(),
            column_type: Some(column_type),
        };
        ResultRows {
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

    fn written(rows: &ResultRows, format: OutputFormat) -> String {
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
            written(&rows(), OutputFormat::Table).trim_end(),
            expected.trim_end()
        );
    }

    #[test]
    fn table_without_rows() {
        let mut rows = rows();
        rows.rows.clear();
        assert_eq!(
            written(&rows, OutputFormat::Table),
            " id | note | late | at\n----+------+------+----\n(0 rows)\n\n"
        );
        assert_eq!(written(&rows, OutputFormat::Json), "[]\n");
        assert_eq!(written(&rows, OutputFormat::Csv), "id,note,late,at\n");
    }

    #[test]
    fn csv_quotes_special_characters() {
        assert_eq!(
            written(&rows(), OutputFormat::Csv),
            "id,note,late,at\n1,\"a, \"\"b\"\"\nc\",2.5,1970-01-01 00:00:00\n1234,,NaN,\n"
        );
    }

    #[test]
    fn json_is_json() {
        let text = written(&rows(), OutputFormat::Json);
        assert_eq!(
            text,
            "[\n  {\"id\": 1, \"note\": \"a, \\\"b\\\"\\nc\", \"late\": 2.5, \"at\": \"1970-01-01 \
             00:00:00\"},\n  {\"id\": 1234, \"note\": null, \"late\": \"NaN\", \"at\": null}\n]\n"
        );
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed[1]["id"], 1234);
    }

    #[test]
    fn columns_of_one_name_are_several_keys() {
        let names = |names: &[&str]| {
            let columns = names.iter().map(|name| OutputColumn {
                name: name.to_string(),
                column_type: Some(ColumnType::Int64),
            });
            let rows = ResultRows {
                columns: columns.collect(),
                rows: vec![(0..names.len() as i64).map(Value::Int64).collect()],
            };
            written(&rows, OutputFormat::Json)
        };
        assert_eq!(
            names(&["x", "x", "x"]),
            "[\n  {\"x\": 0, \"x_2\": 1, \"x_3\": 2}\n]\n"
        );
        // A name that is written stays whose it is.
        assert_eq!(
            names(&["x", "x", "x_2", "?column?", "?column?"]),
            "[\n  {\"x\": 0, \"x_3\": 1, \"x_2\": 2, \"?column?\": 3, \"?column?_2\": 4}\n]\n"
        );
    }

    #[test]
    fn messages_go_beside_csv_and_json() {
        let outcome = StatementOutcome::Done("INSERT 0 3".into());
        for (format, expected, expected_beside) in [
            (OutputFormat::Table, "INSERT 0 3\n", ""),
            (OutputFormat::Csv, "", "INSERT 0 3\n"),
            (OutputFormat::Json, "", "INSERT 0 3\n"),
        ] {
            let (mut out, mut beside) = (Vec::new(), Vec::new());
            write_outcome(&mut out, &mut beside, &outcome, format).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            assert_eq!(String::from_utf8(beside).unwrap(), expected_beside);
        }
    }
}
