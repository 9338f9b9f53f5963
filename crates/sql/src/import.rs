//! CSV into a table, and a table into CSV.
//!
//! The header names the columns, in any order; a column that is missing gets its default. Fields
//! are read by the type of their column, as quoted literals are. An empty field is NULL where
//! that is allowed, else an empty text. Rows are operations of their own, many at a time, so an
//! import that was stopped can be run again with `--on-conflict skip`.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use client::protocol::codec::Bytes;
use client::protocol::configuration::Table;
use client::protocol::expression::{Assignment, Expression};
use client::protocol::operation::{Action, Mutation};
use flate2::read::MultiGzDecoder;
use futures_util::stream::{FuturesUnordered, StreamExt};
use indicatif::{ProgressBar, ProgressStyle};
use placement::{ColumnType, Value};

use crate::bind::unknown_column;
use crate::error::Error;
use crate::plan::{Settings, default_value, encode, has_dense, whole_table};
use crate::run::{Flow, Reading, Sender, gather};
use crate::store::Store;

/// Rows on their way at the same time, unless the options say otherwise.
pub const ROWS_IN_FLIGHT_DEFAULT: usize = 512;
/// The most bad lines that a summary tells one by one; the others are counted.
pub const BAD_LINES_TOLD_MAX: usize = 20;

/// How to import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The table.
    pub table: String,
    /// What to do where the primary key exists.
    pub on_conflict: OnConflict,
    /// Whether to go on after a bad line.
    pub skip_errors: bool,
    /// A text that means NULL, beside the empty field.
    pub null: Option<String>,
    /// Rows on their way at the same time. A table with a dense index takes one at a time.
    pub in_flight: usize,
}

/// What to do with a row whose primary key exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// It is a bad line.
    Error,
    /// The row that exists stays.
    Skip,
    /// The columns in the file overwrite those of the row that exists.
    Update,
}

impl std::str::FromStr for OnConflict {
    type Err = String;

    fn from_str(text: &str) -> Result<OnConflict, String> {
        match text {
            "error" => Ok(OnConflict::Error),
            "skip" => Ok(OnConflict::Skip),
            "update" => Ok(OnConflict::Update),
            other => Err(format!(
                "{other} is nothing to do on a conflict: write error, skip or update"
            )),
        }
    }
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Rows written: new ones, and with [`OnConflict::Update`] those that were there.
    pub written: u64,
    /// Rows left as they were ([`OnConflict::Skip`]).
    pub skipped: u64,
    /// Lines that were not imported because they are bad.
    pub bad: u64,
    /// The first of them, each with its line number from 1, the header included.
    pub bad_lines: Vec<(u64, Error)>,
}

/// Why an import stopped. Rows before it, and some after it, were written.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportError {
    /// The line, from 1, the header included; none if it was not about one.
    pub line: Option<u64>,
    /// What is wrong.
    pub error: Error,
    /// What was done nevertheless.
    pub summary: Box<Summary>,
}

impl std::fmt::Display for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(
            f,
            "{} ({} rows had been written)",
            self.error, self.summary.written
        )
    }
}

impl std::error::Error for ImportError {}

impl ImportOptions {
    /// Into this table; a conflict or a bad line stops the import.
    pub fn new(table: impl Into<String>) -> ImportOptions {
        ImportOptions {
            table: table.into(),
            on_conflict: OnConflict::Error,
            skip_errors: false,
            null: None,
            in_flight: ROWS_IN_FLIGHT_DEFAULT,
        }
    }
}

/// Opens a file of CSV, compressed by gzip or not, so that the bar advances as it is read.
///
/// # Errors
/// Those of the file.
pub fn open(path: &Path, progress: &ProgressBar) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    progress.set_length(file.metadata()?.len());
    decompressed(Box::new(progress.wrap_read(file)))
}

/// A stream of CSV, decompressed if it begins as gzip does.
///
/// # Errors
/// Those of the stream.
pub fn decompressed(source: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut source = source;
    let mut magic = [0; 2];
    let mut filled = 0;
    while filled < magic.len() {
        match source.read(&mut magic[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    let start = io::Cursor::new(magic[..filled].to_vec());
    let whole = BufReader::new(start.chain(source));
    Ok(if magic == [0x1f, 0x8b] {
        Box::new(MultiGzDecoder::new(whole))
    } else {
        Box::new(whole)
    })
}

/// A bar over the bytes of a file, for a person; hidden where nobody looks.
pub fn progress_bar(label: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template(
        "{prefix} [{bar:32}] {percent:>3}% {bytes}/{total_bytes} {msg} {eta}",
    );
    bar.set_style(style.expect("the template is fixed").progress_chars("=> "));
    bar.set_prefix(label.to_string());
    bar
}

/// Imports CSV with a header. The bar's message tells how many rows were written.
///
/// # Errors
/// [`ImportError`] for a header that does not fit, for the first bad line unless they are
/// skipped, and for whatever keeps the store from writing.
pub async fn import<S: Store>(
    store: &S,
    source: impl Read,
    options: &ImportOptions,
    progress: &ProgressBar,
) -> Result<Summary, ImportError> {
    let mut summary = Summary::default();
    let stop = |line, error, summary: &Summary| ImportError {
        line,
        error,
        summary: Box::new(summary.clone()),
    };
    let configuration = known_table(store, &options.table).await;
    let configuration = configuration.map_err(|error| stop(None, error, &summary))?;
    let table = configuration
        .table_named(&options.table)
        .expect("it was looked for");
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .has_headers(false)
        .from_reader(source);
    let mut record = csv::ByteRecord::new();
    let header = match reader.read_byte_record(&mut record) {
        Ok(true) => Header::read(table, &record, options),
        Ok(false) => Err(Error::statement(format!(
            "the file is empty: its first line must name columns of table {}",
            options.table
        ))),
        Err(error) => Err(Error::statement(error.to_string())),
    };
    let header = header.map_err(|error| stop(Some(1), error, &summary))?;
    let in_flight = if has_dense(&table.schema) {
        1
    } else {
        options.in_flight.max(1)
    };
    let sender = Sender { store, table };
    let mut sent = FuturesUnordered::new();
    let mut failed: Option<(Option<u64>, Error)> = None;
    let mut ended = false;
    loop {
        while failed.is_none() && !ended && sent.len() < in_flight {
            let line = reader.position().line();
            let mutation = match reader.read_byte_record(&mut record) {
                Ok(false) => {
                    ended = true;
                    break;
                }
                Ok(true) => header.mutation(&record),
                Err(error) => {
                    // A file that cannot be read on has no next line.
                    ended = true;
                    failed = Some((Some(line), Error::statement(error.to_string())));
                    break;
                }
            };
            let line = record.position().map_or(line, csv::Position::line);
            match mutation {
                Ok(mutation) => {
                    let write = sender.send(mutation);
                    sent.push(async move { (line, write.await) });
                }
                Err(error) => summary.bad_line(line, error, options, &mut failed),
            }
        }
        let Some((line, result)) = sent.next().await else {
            if failed.is_some() || ended {
                break;
            }
            continue;
        };
        match result.map_err(Error::from) {
            Ok(true) => {
                summary.written += 1;
                if summary.written.is_multiple_of(1000) {
                    progress.set_message(format!("{} rows", summary.written));
                }
            }
            Ok(false) => summary.skipped += 1,
            Err(
                error @ (Error::Duplicate { .. } | Error::NotDense { .. } | Error::Invalid { .. }),
            ) => summary.bad_line(line, error, options, &mut failed),
            Err(error) => {
                failed.get_or_insert((Some(line), error));
            }
        }
    }
    progress.set_message(format!("{} rows", summary.written));
    summary.bad_lines.sort_by_key(|(line, _)| *line);
    match failed {
        None => Ok(summary),
        Some((line, error)) => Err(stop(line, error, &summary)),
    }
}

/// Exports a whole table as CSV with a header, partition by partition of the primary replex, and
/// returns how many rows there were. Rows that change meanwhile are told as they were or as they
/// are (SAFETY R12).
///
/// # Errors
/// Those of the store and of `out`.
pub async fn export<S: Store>(
    store: &S,
    table: &str,
    out: &mut dyn Write,
    progress: &ProgressBar,
) -> Result<u64, Error> {
    let configuration = known_table(store, table).await?;
    let table = configuration.table_named(table).expect("it was looked for");
    let unwritten =
        |error: csv::Error| Error::statement(format!("the rows could not be written: {error}"));
    let mut writer = csv::Writer::from_writer(out);
    let names = table.schema.columns.iter().map(|it| it.name.as_bytes());
    writer.write_record(names).map_err(unwritten)?;
    let read = whole_table(table);
    let reading = Reading {
        store,
        configuration: &configuration,
        settings: Settings::default(),
    };
    let mut rows = 0;
    for mut plan in reading.gather_plans(&read, table, None, false) {
        plan.order = client::protocol::session::gather::Order::Any;
        rows += gather(store, table, plan, |row| {
            let written = writer.write_record(row.iter().map(Value::to_string));
            written.map_err(unwritten)?;
            progress.inc(1);
            Ok(Flow::Continue(()))
        })
        .await
        .map_err(Error::from)?;
    }
    let flushed = writer.flush().map_err(csv::Error::from);
    flushed.map_err(unwritten)?;
    Ok(rows)
}

/// A configuration that has the table.
async fn known_table<S: Store>(
    store: &S,
    table: &str,
) -> Result<std::sync::Arc<client::protocol::configuration::Configuration>, Error> {
    let known = store.configuration();
    if known.table_named(table).is_some() {
        return Ok(known);
    }
    let newest = store.refresh().await?;
    if newest.table_named(table).is_some() {
        return Ok(newest);
    }
    Err(Error::UnknownTable {
        table: table.to_string(),
        tables: newest
            .tables
            .iter()
            .map(|it| it.schema.name.clone())
            .collect(),
    })
}

/// What the first line says about the others.
struct Header<'a> {
    table: &'a Table,
    /// For each field, its column.
    columns: Vec<usize>,
    /// A row of defaults.
    defaults: Vec<Value>,
    on_conflict: OnConflict,
    null: Option<&'a str>,
}

impl<'a> Header<'a> {
    fn read(
        table: &'a Table,
        record: &csv::ByteRecord,
        options: &'a ImportOptions,
    ) -> Result<Header<'a>, Error> {
        let schema = &table.schema;
        let mut columns = Vec::new();
        for field in record {
            let name = String::from_utf8_lossy(field);
            // Files from some programs begin with a byte order mark.
            let name = name.trim_start_matches('\u{feff}').trim();
            let column = schema
                .column_index(name)
                .or_else(|| schema.column_index(&name.to_ascii_lowercase()))
                .ok_or_else(|| unknown_column(schema, name))?;
            if columns.contains(&column) {
                return Err(Error::statement(format!(
                    "the header names column {name} twice: name it once"
                )));
            }
            columns.push(column);
        }
        let count = schema.columns.len();
        for (position, column) in schema.columns.iter().enumerate() {
            if !column.nullable && column.default.is_none() && !columns.contains(&position) {
                return Err(Error::statement(format!(
                    "column {} of table {} is NOT NULL and has no default: the file must have it",
                    column.name, schema.name
                )));
            }
        }
        Ok(Header {
            table,
            columns,
            defaults: (0..count).map(|it| default_value(table, it)).collect(),
            on_conflict: options.on_conflict,
            null: options.null.as_deref(),
        })
    }

    fn mutation(&self, record: &csv::ByteRecord) -> Result<Mutation, Error> {
        if record.len() != self.columns.len() {
            return Err(Error::statement(format!(
                "{} fields, the header names {}: give one field per column",
                record.len(),
                self.columns.len()
            )));
        }
        let mut values = self.defaults.clone();
        for (field, column) in record.iter().zip(&self.columns) {
            values[*column] = self.value(*column, field)?;
        }
        let (pk, row) = encode(self.table, &values, 1).map_err(|error| match error {
            // The line is told already, the row of a statement has no meaning here.
            Error::Row { error, .. } => Error::statement(error.to_string()),
            Error::Key { error, .. } => Error::statement(error.to_string()),
            other => other,
        })?;
        let row = Bytes(row);
        let action = match self.on_conflict {
            OnConflict::Error => Action::Insert { row },
            OnConflict::Skip => Action::InsertOrKeep { row },
            OnConflict::Update => {
                let pk = &self.table.schema.primary_key;
                let overwritten = self.columns.iter().filter(|column| !pk.contains(column));
                let assignments: Vec<Assignment> = overwritten
                    .map(|column| Assignment {
                        column: *column as u16,
                        value: Expression::Excluded(*column as u16),
                    })
                    .collect();
                if assignments.is_empty() {
                    Action::InsertOrKeep { row }
                } else {
                    Action::Upsert {
                        row,
                        assignments,
                        condition: None,
                    }
                }
            }
        };
        let pk = Bytes(pk);
        Ok(Mutation { pk, action })
    }

    fn value(&self, column: usize, field: &[u8]) -> Result<Value, Error> {
        let column = &self.table.schema.columns[column];
        let place = || format!("column {}", column.name);
        let text = std::str::from_utf8(field).map_err(|_| {
            Error::statement(format!(
                "{}: the field is not UTF-8: convert the file",
                place()
            ))
        })?;
        let is_null = text.is_empty() || self.null == Some(text);
        if is_null && column.nullable {
            return Ok(Value::Null);
        }
        if is_null && !(text.is_empty() && column.column_type == ColumnType::Text) {
            return Err(Error::statement(format!(
                "{} is NOT NULL: the field needs a value",
                place()
            )));
        }
        Value::parse(column.column_type, text).map_err(|error| Error::Literal {
            place: place(),
            error,
        })
    }
}

impl Summary {
    /// Counts a bad line, or makes it the end of the import.
    fn bad_line(
        &mut self,
        line: u64,
        error: Error,
        options: &ImportOptions,
        failed: &mut Option<(Option<u64>, Error)>,
    ) {
        self.bad += 1;
        if self.bad_lines.len() < BAD_LINES_TOLD_MAX {
            self.bad_lines.push((line, error.clone()));
        }
        if !options.skip_errors {
            failed.get_or_insert((Some(line), error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::fixture::{LOG, USERS};
    use crate::model::{Model, block_on};
    use crate::run::{Outcome, Session};
    use crate::store::StoreError;

    fn import_text(
        session: &Session<Model>,
        text: &str,
        change: impl FnOnce(&mut ImportOptions),
    ) -> Result<Summary, ImportError> {
        let mut options = ImportOptions::new("users");
        change(&mut options);
        let bar = ProgressBar::hidden();
        block_on(import(
            session.store(),
            Cursor::new(text.to_string()),
            &options,
            &bar,
        ))
    }

    fn exported(session: &Session<Model>, table: &str) -> Vec<String> {
        let mut out = Vec::new();
        let bar = ProgressBar::hidden();
        let rows = block_on(export(session.store(), table, &mut out, &bar)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        assert_eq!(lines.len() as u64, rows + 1);
        lines[1..].sort();
        lines
    }

    #[test]
    fn header_maps_columns_in_any_order() {
        let session = Model::session(USERS);
        let text = "\u{feff}Email, number,region\na@b,1,eu\n,2,eu\n\"x, \"\"y\"\"\",3,us\n";
        let summary = import_text(&session, text, |_| {}).unwrap();
        assert_eq!((summary.written, summary.bad), (3, 0));
        assert_eq!(
            exported(&session, "users"),
            [
                "region,number,email,n",
                "eu,1,a@b,0",
                "eu,2,,0",
                "us,3,\"x, \"\"y\"\"\",0"
            ]
        );
    }

    #[test]
    fn export_and_import_again_give_the_same_rows() {
        let rows: Vec<String> = (0..2000)
            .map(|n| format!("('eu', {n}, 'u{n}', {n})"))
            .collect();
        let session = Model::session(&format!(
            "{USERS} INSERT INTO users VALUES {};",
            rows.join(",")
        ));
        let lines = exported(&session, "users");
        let other = Model::session(USERS);
        let summary = import_text(&other, &lines.join("\n"), |it| it.in_flight = 64).unwrap();
        assert_eq!(summary.written, 2000);
        assert_eq!(exported(&other, "users"), lines);
    }

    #[test]
    fn first_bad_line_stops_and_is_named() {
        let session = Model::session(USERS);
        let text = "region,number,n\neu,1,1\neu,two,2\neu,3,3\n";
        let failure = import_text(&session, text, |it| it.in_flight = 1).unwrap_err();
        assert_eq!(failure.line, Some(3));
        assert_eq!(
            failure.to_string(),
            "line 3: column number: \"two\" is not of type bigint: write a whole number from -2^63 \
             to 2^63 - 1 (1 rows had been written)"
        );
    }

    #[test]
    fn bad_lines_are_counted_and_skipped() {
        let session = Model::session(USERS);
        let text = "region,number,email,n\neu,1,a@b,1\neu,2\n\"eu\n\",3,c@d,1\neu,4,a@b,1\neu,1,,1\n\
                    eu,5,,late\n,6,,1\neu,,x,1\neu,7,g,1\n";
        let summary = import_text(&session, text, |it| {
            it.skip_errors = true;
            it.in_flight = 1;
        })
        .unwrap();
        // An empty region is a text, so line 10 is good.
        assert_eq!((summary.written, summary.skipped, summary.bad), (4, 0, 5));
        let lines: Vec<u64> = summary.bad_lines.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 6, 7, 8, 10]);
        let message = |at: usize| summary.bad_lines[at].1.to_string();
        assert!(message(0).contains("2 fields, the header names 4"));
        assert!(message(1).contains("users_email_key (email) = ('a@b')"));
        assert!(message(2).contains("primary key (region, number) = ('eu', 1)"));
        assert!(message(3).contains("\"late\" is not of type bigint"));
        assert!(message(4).contains("column number is NOT NULL"));
    }

    #[test]
    fn conflicts_are_kept_or_overwritten() {
        let session = Model::session(&format!(
            "{USERS} INSERT INTO users VALUES ('eu', 1, 'old', 5);"
        ));
        let text = "region,number,email\neu,1,new\neu,2,two\n";
        let skipped = import_text(&session, text, |it| it.on_conflict = OnConflict::Skip).unwrap();
        assert_eq!((skipped.written, skipped.skipped), (1, 1));
        assert!(exported(&session, "users").contains(&"eu,1,old,5".to_string()));
        let updated =
            import_text(&session, text, |it| it.on_conflict = OnConflict::Update).unwrap();
        assert_eq!((updated.written, updated.skipped), (2, 0));
        // Columns that the file has not stay as they are.
        assert!(exported(&session, "users").contains(&"eu,1,new,5".to_string()));
    }

    #[test]
    fn wrong_headers_change_nothing() {
        let session = Model::session(USERS);
        for (text, part) in [
            ("", "the file is empty"),
            ("region,number,speed\n", "table users has no column speed"),
            ("region,number,region\n", "names column region twice"),
            (
                "region,n\n",
                "column number of table users is NOT NULL and has no default",
            ),
        ] {
            let failure = import_text(&session, text, |_| {}).unwrap_err();
            assert!(failure.to_string().contains(part), "{text:?}: {failure}");
        }
        let missing = import_text(&session, "a\n", |it| it.table = "nowhere".into()).unwrap_err();
        assert!(missing.to_string().contains("there is no table nowhere"));
        assert_eq!(exported(&session, "users").len(), 1);
    }

    #[test]
    fn bytes_that_are_no_text_and_texts_for_null() {
        let session = Model::session(USERS);
        let mut options = ImportOptions::new("users");
        options.skip_errors = true;
        options.null = Some("NA".into());
        let text = b"region,number,email\neu,1,\xff\xfe\neu,2,NA\n".to_vec();
        let bar = ProgressBar::hidden();
        let summary = block_on(import(session.store(), Cursor::new(text), &options, &bar)).unwrap();
        assert_eq!((summary.written, summary.bad), (1, 1));
        assert!(summary.bad_lines[0].1.to_string().contains("not UTF-8"));
        assert_eq!(exported(&session, "users")[1], "eu,2,,0");
    }

    #[test]
    fn compressed_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.csv.gz");
        let file = File::create(&path).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
        encoder.write_all(b"region,number\neu,1\nus,2\n").unwrap();
        encoder.finish().unwrap();
        let session = Model::session(USERS);
        let bar = progress_bar("users");
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        let source = open(&path, &bar).unwrap();
        let options = ImportOptions::new("users");
        let summary = block_on(import(session.store(), source, &options, &bar)).unwrap();
        assert_eq!(summary.written, 2);
        assert_eq!(bar.position(), bar.length().unwrap());
    }

    #[test]
    fn dense_tables_take_lines_in_order() {
        let session = Model::session(LOG);
        let mut text = "id,position,entry\n".to_string();
        for n in 1..=50 {
            text += &format!("00000000-0000-0000-0000-0000000000{n:02},{n},\\x{n:02}\n");
        }
        let summary = import_text(&session, &text, |it| it.table = "log".into()).unwrap();
        assert_eq!(summary.written, 50);
    }

    #[test]
    fn store_that_fails_stops_the_import_even_if_errors_are_skipped() {
        let session = Model::session(USERS);
        let full = StoreError {
            message: "server 2 has no space for writes".into(),
            unknown: false,
            stale: false,
        };
        session.store().fail_after(2, full);
        let text = "region,number\neu,1\neu,2\neu,3\neu,4\n";
        let failure = import_text(&session, text, |it| {
            it.skip_errors = true;
            it.in_flight = 1;
        })
        .unwrap_err();
        assert_eq!((failure.line, failure.summary.written), (Some(4), 2));
        assert!(failure.to_string().contains("has no space"));
        let outcome = block_on(Session::new(session.store().clone()).run_text("SHOW TABLES"));
        assert!(matches!(&outcome.unwrap()[0], Outcome::Rows(_)));
    }
}
