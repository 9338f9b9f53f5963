//! Reads the lines of an import from files, compressed or not, and shows a progress bar.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::SqlError;

/// The byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Opens a CSV file, compressed by gzip or not. The bar advances as the file is read.
///
/// # Errors
/// Errors of the file.
pub fn open(path: &Path, progress: &ProgressBar) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    progress.set_length(file.metadata()?.len());
    decompressed(Box::new(progress.wrap_read(file)))
}

/// Returns a stream of CSV, decompressed if it begins like a gzip file.
///
/// # Errors
/// Errors of the stream.
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

/// Returns the text of the source without its byte order mark, which some programs write at the
/// beginning.
///
/// # Errors
/// If it cannot be read, and if its mark is that of UTF-16.
pub(super) fn without_mark(mut source: impl Read) -> Result<impl Read, SqlError> {
    let mut start = Vec::new();
    let read = source
        .by_ref()
        .take(MARK.len() as u64)
        .read_to_end(&mut start);
    read.map_err(|error| SqlError::statement(format!("the file could not be read: {error}")))?;
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        return Err(SqlError::statement(
            "the file is UTF-16: convert it to UTF-8, as with iconv -f UTF-16 -t UTF-8",
        ));
    }
    if start == MARK {
        start.clear();
    }
    Ok(io::Cursor::new(start).chain(source))
}

/// Returns a progress bar over the bytes of a file. It is hidden without a terminal.
pub fn progress_bar(label: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template(
        "{prefix} [{bar:32}] {percent:>3}% {bytes}/{total_bytes} {msg} {eta}",
    );
    bar.set_style(style.expect("the template is fixed").progress_chars("=> "));
    bar.set_prefix(label.to_string());
    bar
}
