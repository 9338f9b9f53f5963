//! Reads the flights that the demo loads. The program contains January 2013, and a file has the
//! whole year.
//!
//! Origin, licence and columns are described in `data/README.md`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use placement::{Column, Schema, Value};

use replex::failure::CommandFailure;
use sql::statement::Statement;

/// January 2013: 27,004 flights.
const JANUARY: &[u8] = include_bytes!("../../../data/flights-2013-01.csv.gz");

/// The statement that creates the table of flights. The table has three copies, so any two servers
/// may be lost.
pub const CREATE_TABLE: &str = "\
CREATE TABLE flights (
  id BIGINT PRIMARY KEY,
  year BIGINT NOT NULL, month BIGINT NOT NULL, day BIGINT NOT NULL,
  dep_time BIGINT, sched_dep_time BIGINT NOT NULL, dep_delay BIGINT,
  arr_time BIGINT, sched_arr_time BIGINT NOT NULL, arr_delay BIGINT,
  carrier TEXT NOT NULL, flight BIGINT NOT NULL, tailnum TEXT,
  origin TEXT NOT NULL, dest TEXT NOT NULL,
  air_time BIGINT, distance BIGINT NOT NULL,
  hour BIGINT NOT NULL, minute BIGINT NOT NULL, time_hour TIMESTAMP NOT NULL,
  INDEX by_tail (tailnum),
  INDEX by_route (origin, dest)
) WITH (partitions = 12, failures_tolerated = 2, durability = 'sync');";

/// Parses a `CREATE TABLE` statement and returns its schema. Fails for any other statement.
pub fn schema(create_table: &str) -> Result<Schema, CommandFailure> {
    let parsed = sql::parse(create_table);
    let parsed = parsed.map_err(|error| CommandFailure::Failed(error.error.to_string()))?;
    match parsed.into_iter().map(|it| it.statement).next() {
        Some(Statement::CreateTable { schema, .. }) => Ok(*schema),
        other => Err(CommandFailure::Failed(format!(
            "no table is created by {other:?}"
        ))),
    }
}

/// Returns January's rows, in the order of the table's columns.
pub fn january(columns: &[Column]) -> Result<Vec<Vec<Value>>, CommandFailure> {
    parse(GzDecoder::new(JANUARY), columns)
        .map_err(CommandFailure::at("read the flights inside replex"))
}

/// Checks that the file of the whole year exists, before the demo starts any process.
pub fn check_year(path: &Path) -> Result<(), CommandFailure> {
    open_year(path).map(drop)
}

fn open_year(path: &Path) -> Result<File, CommandFailure> {
    File::open(path).map_err(|error| {
        CommandFailure::Failed(format!(
            "cannot open {}: {error}\nThe whole year is not shipped: `data/fetch-flights` in the \
             repository makes the file (9 MB), or name another place with --flights.",
            path.display()
        ))
    })
}

/// Returns the whole year's rows.
pub fn year(path: &Path, columns: &[Column]) -> Result<Vec<Vec<Value>>, CommandFailure> {
    let file = open_year(path)?;
    let what = format!("read {}", path.display());
    parse(GzDecoder::new(io::BufReader::new(file)), columns).map_err(CommandFailure::at(what))
}

fn parse(text: impl Read, columns: &[Column]) -> Result<Vec<Vec<Value>>, csv::Error> {
    let mut reader = csv::Reader::from_reader(text);
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    if reader.headers()? != names {
        let text = format!("the header is not {}", names.join(","));
        return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
    }
    let mut rows = Vec::new();
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record)? {
        let values = record.iter().zip(columns).map(|(field, column)| {
            if field.is_empty() {
                return Ok(Value::Null);
            }
            Value::parse(column.column_type, field).map_err(|error| {
                let line = record.position().map_or(0, csv::Position::line);
                let text = format!("line {line}, column {}: {error}", column.name);
                csv::Error::from(io::Error::new(io::ErrorKind::InvalidData, text))
            })
        });
        rows.push(values.collect::<Result<_, _>>()?);
    }
    Ok(rows)
}
