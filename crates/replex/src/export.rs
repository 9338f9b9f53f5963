//! `replex export`: writes a table as CSV to stdout, a file or a device.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use client::Client;
use flate2::Compression;
use flate2::write::GzEncoder;
use indicatif::ProgressBar;
use replex::failure::CommandFailure;
use replex::{console, note, say};
use sql::import::{ExportState, ExportSummary};

use crate::arguments::ExportArguments;
use crate::output::plural;
use crate::output_file::OutputFile;
use crate::sql_command::{bar, connect};

/// Runs `replex export`.
pub async fn export(arguments: &ExportArguments) -> Result<(), CommandFailure> {
    let client = connect(&arguments.cluster).await?;
    let wanted = WantedExport {
        table: &arguments.table,
        state: match arguments.without_snapshot {
            true => ExportState::OneIfPossible,
            false => ExportState::One,
        },
    };
    let Some(path) = &arguments.output else {
        return to_stdout(&client, wanted).await;
    };
    let bar = bar(&arguments.table, false);
    let at = || CommandFailure::at(format!("write {}", path.display()));
    // A FIFO waits for its reader, which may never come.
    let opened = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || OutputFile::open(&path)).await
    };
    let opened = opened.map_err(CommandFailure::at("open the file"))?;
    let output = opened.map_err(at())?;
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    let exported = write(&client, wanted, output.file(), packed, &bar).await;
    let exported = exported.map_err(|failure| failure.into(path))?;
    let is_regular = output.is_regular();
    output.finish().map_err(at())?;
    bar.finish_and_clear();
    print_summary(&exported);
    let text = format!(
        "{} written to {}",
        plural(exported.rows, "row"),
        path.display()
    );
    // The rows may have gone to stdout, by its name.
    if is_regular {
        say!("{text}");
    } else {
        note!("{text}");
    }
    Ok(())
}

/// The table to export, and how.
#[derive(Clone, Copy)]
struct WantedExport<'a> {
    table: &'a str,
    state: ExportState,
}

impl WantedExport<'_> {
    async fn run(
        self,
        client: &Client,
        out: &mut dyn Write,
        bar: &ProgressBar,
    ) -> Result<ExportSummary, sql::SqlError> {
        sql::import::export(client, self.table, self.state, out, bar).await
    }
}

fn print_summary(exported: &ExportSummary) {
    for notice in &exported.notices {
        note!("NOTICE:  {notice}");
    }
}

/// Why rows did not get into a file.
enum ExportError {
    Table(sql::SqlError),
    File(io::Error),
}

impl ExportError {
    fn into(self, path: &Path) -> CommandFailure {
        match self {
            ExportError::Table(error) => CommandFailure::Failed(error.to_string()),
            ExportError::File(error) => {
                CommandFailure::at(format!("write {}", path.display()))(error)
            }
        }
    }
}

async fn to_stdout(client: &Client, wanted: WantedExport<'_>) -> Result<(), CommandFailure> {
    let mut out = ErrorKeepingWriter::new(BufWriter::new(io::stdout()));
    let hidden = ProgressBar::hidden();
    let exported = wanted.run(client, &mut out, &hidden).await;
    let flushed = out.flush();
    if let Some(error) = out.error.take().or(flushed.err()) {
        console::end(&error);
        return Err(CommandFailure::OutputEnded);
    }
    let exported = exported.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    print_summary(&exported);
    Ok(())
}

async fn write(
    client: &Client,
    wanted: WantedExport<'_>,
    file: &std::fs::File,
    packed: bool,
    bar: &ProgressBar,
) -> Result<ExportSummary, ExportError> {
    let mut out = ErrorKeepingWriter::new(BufWriter::new(file));
    let exported = if packed {
        let mut encoder = GzEncoder::new(&mut out, Compression::default());
        let exported = wanted.run(client, &mut encoder, bar).await;
        // The error of the file is in `out`.
        let _ = encoder.finish();
        exported
    } else {
        wanted.run(client, &mut out, bar).await
    };
    let flushed = out.flush();
    if let Some(error) = out.error.take().or(flushed.err()) {
        return Err(ExportError::File(error));
    }
    exported.map_err(ExportError::Table)
}

/// A writer that keeps its first error, which others only pass on as text.
struct ErrorKeepingWriter<W> {
    inner: W,
    error: Option<io::Error>,
}

impl<W> ErrorKeepingWriter<W> {
    fn new(inner: W) -> ErrorKeepingWriter<W> {
        ErrorKeepingWriter { inner, error: None }
    }

    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            let copy = match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            };
            self.error.get_or_insert(copy);
        })
    }
}

impl<W: Write> Write for ErrorKeepingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.watch(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.inner.flush();
        self.watch(flushed)
    }
}
