//! A table into CSV, page by page, so that a table of any size passes through little memory.

use std::io::Write;
use std::sync::Mutex;

use indicatif::ProgressBar;
use placement::Value;
use session::gather::RowOrder;

use super::known_table;
use crate::error::SqlError;
use crate::plan::{SessionSettings, whole_table};
use crate::run::{Flow, ReadContext};
use crate::store::Store;

/// The result of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSummary {
    /// How many rows.
    pub rows: u64,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// Exports a whole table as CSV with a header, partition by partition of the primary replex, and
/// returns how many rows there were. A small table is as of one moment (R35). Of a larger
/// one, rows that change meanwhile are as they were or as they are (R12).
///
/// # Errors
/// Errors of the store and of `out`.
pub async fn export<S: Store>(
    store: &S,
    table: &str,
    out: &mut dyn Write,
    progress: &ProgressBar,
) -> Result<ExportSummary, SqlError> {
    let configuration = known_table(store, table).await?;
    let table = configuration.table_named(table).expect("it was looked for");
    let unwritten =
        |error: csv::Error| SqlError::statement(format!("the rows could not be written: {error}"));
    let mut writer = csv::Writer::from_writer(out);
    let names = table.schema.columns.iter().map(|it| it.name.as_bytes());
    writer.write_record(names).map_err(unwritten)?;
    let read = whole_table(table);
    let notices = Mutex::default();
    let reading = ReadContext {
        store,
        configuration: &configuration,
        settings: SessionSettings::default(),
        notices: &notices,
    };
    let mut plans = reading.gather_plans(&read, table, None, false);
    for plan in &mut plans {
        plan.order = RowOrder::Any;
    }
    let rows = reading.each(table, plans, None, |row| {
        let written = writer.write_record(row.iter().map(Value::to_string));
        written.map_err(unwritten)?;
        progress.inc(1);
        Ok(Flow::Continue(()))
    });
    let rows = rows.await.map_err(SqlError::from)?;
    let flushed = writer.flush().map_err(csv::Error::from);
    flushed.map_err(unwritten)?;
    let notices = notices
        .into_inner()
        .expect("nothing panics while it is held");
    Ok(ExportSummary { rows, notices })
}
