//! `replex import`: inserts the rows of a CSV file into a table. Whether it succeeds or fails, it
//! reports the number of written rows, and the line from which another import can continue.

use std::io;

use indicatif::ProgressBar;
use replex::failure::CommandFailure;
use replex::{note, say};
use serde_json::json;
use sql::import::{ImportError, ImportLedger, ImportOptions, ImportSummary};
use tokio::sync::oneshot;

use crate::arguments::{ImportArguments, OnConflictArgument};
use crate::output::{count, plural};
use crate::sql_command::{STDIN, bar, connect};
use crate::{interruptible, runtime};

/// Runs `replex import`.
pub fn import(arguments: &ImportArguments) -> Result<(), CommandFailure> {
    let ledger = ImportLedger::default();
    let bar = bar(&arguments.table, arguments.json);
    // The import may wait in a read of a pipe, which no signal ends. So it has a thread of its own,
    // and this one waits for signals.
    let (sender, ended) = oneshot::channel();
    let work = {
        let (arguments, ledger, bar) = (arguments.clone(), ledger.clone(), bar.clone());
        move || {
            let imported = runtime().and_then(|it| it.block_on(run(&arguments, &ledger, &bar)));
            // No task waits for it once a signal has ended the command.
            let _ = sender.send(imported);
        }
    };
    let thread = std::thread::Builder::new().name("import".to_owned());
    thread
        .spawn(work)
        .map_err(CommandFailure::at("start the import"))?;
    let imported = runtime()?.block_on(interruptible(async {
        let ended = ended.await;
        ended.map_err(|_| CommandFailure::Failed("the import ended without a result".to_owned()))?
    }));
    bar.finish_and_clear();
    let name = arguments.file.display().to_string();
    match imported {
        Ok(Ok(summary)) => {
            report(arguments, &summary, None);
            match summary.bad {
                0 => Ok(()),
                _ => Err(CommandFailure::Reported),
            }
        }
        Ok(Err(failure)) => {
            let text = match failure.line {
                Some(line) => format!("{name}:{line}: {}", failure.error),
                None => format!("{name}: {failure}"),
            };
            let mut summary = *failure.summary;
            summary
                .bad_lines
                .retain(|(line, _)| Some(*line) != failure.line);
            report(arguments, &summary, Some(&text));
            Err(CommandFailure::Failed(format!(
                "{text}\n{}",
                state(arguments, &summary)
            )))
        }
        Err(CommandFailure::Interrupted) => {
            let summary = ledger.summary();
            report(arguments, &summary, Some("interrupted"));
            Err(CommandFailure::InterruptedAfter(state(arguments, &summary)))
        }
        Err(other) => Err(other),
    }
}

async fn run(
    arguments: &ImportArguments,
    ledger: &ImportLedger,
    bar: &ProgressBar,
) -> Result<Result<ImportSummary, ImportError>, CommandFailure> {
    let opened = if arguments.file.as_os_str() == STDIN {
        sql::import::decompressed(Box::new(io::stdin()))
    } else {
        sql::import::open(&arguments.file, bar)
    };
    let source = opened.map_err(CommandFailure::at(format!(
        "open {}",
        arguments.file.display()
    )))?;
    let client = connect(&arguments.cluster).await?;
    let mut options = ImportOptions::new(&arguments.table);
    options.skip_errors = arguments.skip_errors;
    options.from_line = arguments.from_line;
    options.on_conflict = match arguments.on_conflict {
        OnConflictArgument::Error => sql::import::ImportConflict::Error,
        OnConflictArgument::Skip => sql::import::ImportConflict::Skip,
        OnConflictArgument::Update => sql::import::ImportConflict::Update,
    };
    Ok(sql::import::import(&client, source, &options, bar, ledger).await)
}

/// Returns a text for people: how much of a file is in its table, and how to import the rest.
fn state(arguments: &ImportArguments, summary: &ImportSummary) -> String {
    let mut parts = Vec::new();
    if summary.written > 0 {
        parts.push(format!("{} written", plural(summary.written, "row")));
    }
    if summary.skipped > 0 {
        parts.push(format!("{} there already", count(summary.skipped)));
    }
    if summary.undecided > 0 {
        parts.push(format!(
            "{} sent without an answer, which may be written",
            plural(summary.undecided, "row")
        ));
    }
    if parts.is_empty() {
        return format!("No row was written to table {}.", arguments.table);
    }
    // Rows after that line may be in already.
    let on_conflict = match arguments.on_conflict {
        OnConflictArgument::Error => " --on-conflict skip",
        OnConflictArgument::Skip | OnConflictArgument::Update => "",
    };
    format!(
        "Table {}: {}. To go on, run the same command with --from-line {}{on_conflict}.",
        arguments.table,
        parts.join(", "),
        summary.resume_line
    )
}

/// Prints the result: to stdout the figures for programs, to stderr the bad lines.
fn report(arguments: &ImportArguments, summary: &ImportSummary, failure: Option<&str>) {
    if arguments.json {
        say!("{:#}", summary_json(summary, failure));
        return;
    }
    let name = arguments.file.display();
    for (line, error) in &summary.bad_lines {
        note!("{name}:{line}: {error}");
    }
    if failure.is_some() {
        return;
    }
    let listed = summary.bad_lines.len() as u64;
    if summary.bad > listed {
        note!("… and {} more bad lines", count(summary.bad - listed));
    }
    let mut text = format!(
        "{} written to table {}",
        plural(summary.written, "row"),
        arguments.table
    );
    if summary.skipped > 0 {
        text += &format!(", {} there already", count(summary.skipped));
    }
    if summary.bad > 0 {
        text += &format!(", {} left out", plural(summary.bad, "bad line"));
    }
    say!("{text}");
}

fn summary_json(summary: &ImportSummary, failure: Option<&str>) -> serde_json::Value {
    let bad_lines = summary.bad_lines.iter();
    let bad_lines: Vec<_> = bad_lines
        .map(|(line, error)| json!({ "line": line, "error": error.to_string() }))
        .collect();
    json!({
        "written": summary.written,
        "skipped": summary.skipped,
        "bad": summary.bad,
        "bad_lines": bad_lines,
        "undecided": summary.undecided,
        "resume_line": failure.map(|_| summary.resume_line),
        "error": failure,
    })
}
