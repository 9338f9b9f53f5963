//! `replex sql`, `replex import` and `replex export`: crate `sql` between a cluster and files,
//! pipes or a person.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Client, ConnectOptions};
use flate2::Compression;
use flate2::write::GzEncoder;
use indicatif::ProgressBar;
use replex::failure::Failure;
use serde_json::json;
use sql::Session;
use sql::import::{ImportOptions, Summary};
use sql::shell::{self, OnError, Output, ScriptError, Shell};

use crate::arguments::{Cluster, Export, Format, Import, OnConflict, Sql};
use crate::output::{count, plural};
use crate::{interruptible, runtime};

/// The file in the home folder that remembers what was typed.
const HISTORY_FILE: &str = ".replex_history";
/// What stands for stdin where a file is named.
const STDIN: &str = "-";

/// Connects, or says where nobody was found.
pub async fn connect(cluster: &Cluster) -> Result<Client, Failure> {
    let options = ConnectOptions::new(cluster.coordinator.iter().cloned())
        .deadline(Duration::from_secs(cluster.deadline));
    Client::connect(options).await.map_err(|error| match error {
        client::Error::NoCoordinator { .. } => Failure::Unreachable(format!(
            "{error}\nStart one with `replex coordinator --data FOLDER`, or say where it listens \
             with --coordinator HOST:PORT or REPLEX_COORDINATOR."
        )),
        other => Failure::Failed(other.to_string()),
    })
}

/// `replex sql`
pub fn sql(arguments: &Sql) -> Result<(), Failure> {
    let runtime = runtime()?;
    let client = runtime.block_on(interruptible(connect(&arguments.cluster)))?;
    let options = shell::Options {
        format: match arguments.format {
            Format::Table => sql::format::Format::Table,
            Format::Csv => sql::format::Format::Csv,
            Format::Json => sql::format::Format::Json,
        },
        timing: false,
        on_error: OnError::Stop,
    };
    let mut shell = Shell::new(Session::new(client), options);
    let scripts = scripts(arguments)?;
    let Some(scripts) = scripts else {
        let history = std::env::home_dir().map(|home| home.join(HISTORY_FILE));
        return shell::interactive(shell, &runtime, history.as_deref())
            .map_err(Failure::at("talk to the terminal"));
    };
    runtime.block_on(interruptible(async {
        let (mut out, mut err) = (io::stdout(), io::stderr());
        let mut output = Output {
            out: &mut out,
            err: &mut err,
        };
        for (name, text) in &scripts {
            match shell.script(name, text, &mut output).await {
                Ok(()) => {}
                Err(ScriptError::Failed(_)) => return Err(Failure::Said),
                Err(ScriptError::Output(error)) => return written(Err(error), "the results"),
            }
            if shell.is_over() {
                break;
            }
        }
        Ok(())
    }))
}

/// What is to be run, with the name that errors tell; none asks for a conversation.
fn scripts(arguments: &Sql) -> Result<Option<Vec<(String, String)>>, Failure> {
    if !arguments.command.is_empty() {
        let commands = arguments.command.iter();
        let named = commands.map(|text| ("-c".to_owned(), text.clone()));
        return Ok(Some(named.collect()));
    }
    let from_stdin = || {
        let mut text = String::new();
        let read = io::stdin().read_to_string(&mut text);
        read.map_err(Failure::at("read the statements from stdin"))?;
        Ok(Some(vec![("stdin".to_owned(), text)]))
    };
    match &arguments.file {
        Some(path) if path.as_os_str() == STDIN => from_stdin(),
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path);
            let text = text.map_err(Failure::at(format!("read {name}")))?;
            Ok(Some(vec![(name, text)]))
        }
        None if io::stdin().is_terminal() => Ok(None),
        None => from_stdin(),
    }
}

/// `replex import`
pub async fn import(arguments: &Import) -> Result<(), Failure> {
    let name = arguments.file.display().to_string();
    let bar = bar(&arguments.table, arguments.json);
    let opened = if arguments.file.as_os_str() == STDIN {
        sql::import::decompressed(Box::new(io::stdin()))
    } else {
        sql::import::open(&arguments.file, &bar)
    };
    let source = opened.map_err(Failure::at(format!("open {name}")))?;
    let client = connect(&arguments.cluster).await?;
    let mut options = ImportOptions::new(&arguments.table);
    options.skip_errors = arguments.skip_errors;
    options.on_conflict = match arguments.on_conflict {
        OnConflict::Error => sql::import::OnConflict::Error,
        OnConflict::Skip => sql::import::OnConflict::Skip,
        OnConflict::Update => sql::import::OnConflict::Update,
    };
    let imported = sql::import::import(&client, source, &options, &bar).await;
    bar.finish_and_clear();
    let (summary, failure) = match imported {
        Ok(summary) => (summary, None),
        Err(error) => {
            let text = format!("{name}: {error}");
            (Summary::clone(&error.summary), Some(text))
        }
    };
    if arguments.json {
        println!("{:#}", summary_json(&summary, failure.as_deref()));
    } else {
        tell(&name, &arguments.table, &summary);
    }
    match failure {
        Some(text) => Err(Failure::Failed(format!(
            "{text}\nRows that were written stay; run it again with --on-conflict skip to go on."
        ))),
        None if summary.bad > 0 => Err(Failure::Said),
        None => Ok(()),
    }
}

fn bar(label: &str, quiet: bool) -> ProgressBar {
    if quiet {
        ProgressBar::hidden()
    } else {
        sql::import::progress_bar(label)
    }
}

fn tell(name: &str, table: &str, summary: &Summary) {
    for (line, error) in &summary.bad_lines {
        eprintln!("{name}:{line}: {error}");
    }
    let told = summary.bad_lines.len() as u64;
    if summary.bad > told {
        eprintln!("… and {} more bad lines", count(summary.bad - told));
    }
    let mut text = format!(
        "{} written to table {table}",
        plural(summary.written, "row")
    );
    if summary.skipped > 0 {
        text += &format!(", {} there already", count(summary.skipped));
    }
    if summary.bad > 0 {
        text += &format!(", {} left out", plural(summary.bad, "bad line"));
    }
    println!("{text}");
}

fn summary_json(summary: &Summary, failure: Option<&str>) -> serde_json::Value {
    let bad_lines = summary.bad_lines.iter();
    let bad_lines: Vec<_> = bad_lines
        .map(|(line, error)| json!({ "line": line, "error": error.to_string() }))
        .collect();
    json!({
        "written": summary.written,
        "skipped": summary.skipped,
        "bad": summary.bad,
        "bad_lines": bad_lines,
        "error": failure,
    })
}

/// `replex export`
pub async fn export(arguments: &Export) -> Result<(), Failure> {
    let client = connect(&arguments.cluster).await?;
    let Some(path) = &arguments.output else {
        let mut out = BufWriter::new(io::stdout());
        let hidden = ProgressBar::hidden();
        let exported = sql::import::export(&client, &arguments.table, &mut out, &hidden).await;
        exported.map_err(|error| Failure::Failed(error.to_string()))?;
        return written(out.flush(), "stdout");
    };
    let bar = bar(&arguments.table, false);
    let rows = export_to(&client, arguments, path, &bar).await?;
    bar.finish_and_clear();
    println!("{} written to {}", plural(rows, "row"), path.display());
    Ok(())
}

/// The file appears whole or not at all.
async fn export_to(
    client: &Client,
    arguments: &Export,
    path: &Path,
    bar: &ProgressBar,
) -> Result<u64, Failure> {
    let what = || Failure::at(format!("write {}", path.display()));
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Part(PathBuf::from(part));
    let file = BufWriter::new(File::create(&part.0).map_err(what())?);
    let failed = |error: sql::Error| Failure::Failed(error.to_string());
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    let (rows, mut file) = if packed {
        let mut out = GzEncoder::new(file, Compression::default());
        let exported = sql::import::export(client, &arguments.table, &mut out, bar).await;
        (exported.map_err(failed)?, out.finish().map_err(what())?)
    } else {
        let mut out = file;
        let exported = sql::import::export(client, &arguments.table, &mut out, bar).await;
        (exported.map_err(failed)?, out)
    };
    file.flush().map_err(what())?;
    file.get_ref().sync_all().map_err(what())?;
    std::fs::rename(&part.0, path).map_err(what())?;
    Ok(rows)
}

/// A file that is not whole yet; removed unless it was renamed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A reader who has seen enough is no failure.
fn written(result: io::Result<()>, what: &str) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("cannot write {what}: {error}")))
        }
        _ => Ok(()),
    }
}
