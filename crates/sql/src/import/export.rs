//! Exports a table as CSV, page by page, so that the memory does not grow with the table.

use std::io::Write;
use std::sync::Mutex;

use indicatif::ProgressBar;
use placement::{Column, Schema};
use session::gather::RowOrder;

use super::known_table;
use crate::error::SqlError;
use crate::plan::{SessionSettings, whole_table};
use crate::run::{Attempt, Flow, ReadContext, SNAPSHOT_ATTEMPTS_MAX};
use crate::store::Store;

/// The result of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSummary {
    /// The number of exported rows.
    pub rows: u64,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// Whether an export must show one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportState {
    /// It shows one state, or it fails.
    One,
    /// While a server of the table is missing, the export need not show one state. Rows that change
    /// meanwhile have their old or new values, and there is a notice.
    OneIfPossible,
}

/// Exports a whole table as CSV with a header, partition by partition of the primary replex.
/// Returns the number of rows. The export shows one state of the table (R35), also while clients
/// write.
///
/// # Errors
/// Errors of the store and of `out`. The rows that were written before an error are no export.
pub async fn export<S: Store>(
    store: &S,
    table: &str,
    state: ExportState,
    out: &mut dyn Write,
    progress: &ProgressBar,
) -> Result<ExportSummary, SqlError> {
    let unwritten =
        |error: csv::Error| SqlError::statement(format!("the rows could not be written: {error}"));
    let mut writer = csv::Writer::from_writer(out);
    let notices = Mutex::default();
    let mut attempts = 0;
    let rows = loop {
        attempts += 1;
        let configuration = known_table(store, table).await?;
        let table = configuration.table_named(table).expect("it was looked for");
        let reading = ReadContext {
            store,
            configuration: &configuration,
            settings: SessionSettings::default(),
            notices: &notices,
            needs_one_state: state == ExportState::One,
        };
        let mut plans = reading.gather_plans(&whole_table(table), table, None, false);
        for plan in &mut plans {
            plan.order = RowOrder::Any;
        }
        if attempts == 1 {
            let names = exported(&table.schema).map(|(_, column)| column.name.as_bytes());
            writer.write_record(names).map_err(unwritten)?;
        }
        let mut has_begun = false;
        let rows = reading.each(table, plans, None, |row| {
            has_begun = true;
            let values = exported(&table.schema).map(|(position, _)| row[position].to_string());
            let written = writer.write_record(values);
            written.map_err(unwritten)?;
            progress.inc(1);
            Ok(Flow::Continue(()))
        });
        match rows.await {
            Ok(rows) => break rows,
            Err(Attempt::SnapshotEnded(_)) if !has_begun && attempts < SNAPSHOT_ATTEMPTS_MAX => {}
            Err(failure) => return Err(failure.into()),
        }
    };
    let flushed = writer.flush().map_err(csv::Error::from);
    flushed.map_err(unwritten)?;
    let notices = notices
        .into_inner()
        .expect("nothing panics while it is held");
    Ok(ExportSummary { rows, notices })
}

/// Returns the columns that an export has. The values of generated columns are computed again.
fn exported(schema: &Schema) -> impl Iterator<Item = (usize, &Column)> {
    let columns = schema.visible_columns();
    columns.filter(|(_, column)| column.generation().is_none())
}
