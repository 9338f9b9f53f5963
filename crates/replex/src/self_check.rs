//! Compares all copies of all tables repeatedly, at a low rate. The leading coordinator runs this
//! check.
//!
//! Copies differ only after a fault of a disk or a program, and no operation would detect that.
//! Findings go to the operator's log. The remedies are `replex admin check` and `replex admin
//! repair`.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use server::journal::{self, JournalLevel};

use crate::compare::CopyDifference;
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
            match check(&mut inspector, &table).await {
                Ok((rows, differences)) => log_result(&table, rows, &differences, since.elapsed()),
                // It was dropped meanwhile.
                Err(InspectError::NoTable(_)) => {}
                Err(error) => {
                    let fields: [(&str, &dyn std::fmt::Display); 2] =
                        [("table", &table), ("error", &error)];
                    journal::line(JournalLevel::Warn, "self-check-failed", &fields);
                }
            }
        }
    }
}

/// Returns how many rows a table has, and those of which the copies differ.
async fn check(
    inspector: &mut Inspector,
    table: &str,
) -> Result<(u64, Vec<CopyDifference>), InspectError> {
    let compared = inspector.comparison(table).await?;
    let copies = compared.copies.iter();
    let rows = copies.map(|copy| copy.rows).max().unwrap_or(0);
    Ok((rows, compared.differences))
}

fn log_result(table: &str, rows: u64, differences: &[CopyDifference], took: Duration) {
    let seconds = took.as_secs();
    if differences.is_empty() {
        journal::line(
            JournalLevel::Info,
            "self-check",
            &[("table", &table), ("rows", &rows), ("seconds", &seconds)],
        );
        return;
    }
    let advice = format!("replex admin check {table}; replex admin repair {table}");
    for difference in differences.iter().take(NAMED_MAX) {
        journal::line(
            JournalLevel::Error,
            "copies-differ",
            &[("table", &table), ("row", difference), ("see", &advice)],
        );
    }
    let count = differences.len();
    journal::line(
        JournalLevel::Error,
        "self-check",
        &[("table", &table), ("rows", &rows), ("differ", &count)],
    );
}
