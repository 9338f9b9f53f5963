//! Compares all copies of all tables, and their thin indexes with the rows, repeatedly, at a low
//! rate. The leading coordinator runs this check.
//!
//! They differ only after a fault of a disk or a program, and no operation would detect that.
//! Findings go to the operator's log. The remedies are `replex admin check` and `replex admin
//! repair`.

use std::fmt::Display;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use server::journal::{self, JournalLevel};

use crate::compare_entries::EntryDifference;
use crate::compare_snapshot::CopyComparison;
use crate::inspect::{InspectError, Inspector};

/// The cores spend about one part in this number of each second on answers.
const PACE: u32 = 20;
/// The longest wait in one round.
const ROUND_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most differing rows that are named.
const NAMED_MAX: usize = 10;

/// Starts a thread that compares the copies of all tables, once in each interval `every`, while the
/// coordinator at this address leads. The thread ends with the process.
///
/// # Errors
/// The thread cannot be started.
pub fn start(coordinator: String, every: Duration) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build()?;
    let name = "self-check".to_owned();
    let thread = thread::Builder::new().name(name);
    thread.spawn(move || runtime.block_on(go_on(&[coordinator], every)))?;
    Ok(())
}

async fn go_on(coordinators: &[String], every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        // A coordinator that does not lead, or that is not ready, compares nothing.
        let Ok(inspector) = Inspector::new(coordinators, ROUND_MAX).await else {
            continue;
        };
        let tables = &inspector.configuration().tables;
        let names: Vec<String> = tables.iter().map(|it| it.schema.name.clone()).collect();
        let mut inspector = inspector.paced(PACE).leaving_out();
        for table in names {
            let since = Instant::now();
            match inspector.comparison(&table).await {
                Ok(compared) => log_result(&table, &compared, since.elapsed()),
                // It was dropped meanwhile.
                Err(InspectError::NoTable(_)) => {}
                Err(error) => {
                    let fields: [(&str, &dyn Display); 2] = [("table", &table), ("error", &error)];
                    journal::line(JournalLevel::Warn, "self-check-failed", &fields);
                }
            }
        }
    }
}

fn log_result(table: &str, compared: &CopyComparison, took: Duration) {
    let seconds = took.as_secs();
    let rows = compared.copies.iter().map(|copy| copy.rows).max();
    let rows = rows.unwrap_or(0);
    let entries = compared.indexes.iter().flat_map(|it| &it.differences);
    let entries: Vec<&EntryDifference> = entries.collect();
    let differ = compared.differences.len() + entries.len();
    if differ == 0 {
        journal::line(
            JournalLevel::Info,
            "self-check",
            &[("table", &table), ("rows", &rows), ("seconds", &seconds)],
        );
        return;
    }
    log_differences("copies-differ", table, &compared.differences);
    log_differences("entries-differ", table, &entries);
    journal::line(
        JournalLevel::Error,
        "self-check",
        &[("table", &table), ("rows", &rows), ("differ", &differ)],
    );
}

/// Logs the first differences.
fn log_differences(event: &str, table: &str, differences: &[impl Display]) {
    let advice = format!("replex admin check {table}; replex admin repair {table}");
    for difference in differences.iter().take(NAMED_MAX) {
        journal::line(
            JournalLevel::Error,
            event,
            &[("table", &table), ("row", difference), ("see", &advice)],
        );
    }
}
