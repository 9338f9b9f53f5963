//! A table into CSV, page by page, so that a table of any size passes through little memory.

use std::io::Write;

use client::protocol::session::gather::Order;
use indicatif::ProgressBar;
use placement::Value;

use super::known_table;
use crate::error::Error;
use crate::plan::{Settings, whole_table};
use crate::run::{Flow, Reading, gather};
use crate::store::Store;

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
        plan.order = Order::Any;
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
