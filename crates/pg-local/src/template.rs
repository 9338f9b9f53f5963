//! New data folders as copies of one that `initdb` has made: a copy takes a fifth of its time.
//!
//! Servers tell databases apart by the system identifier that `initdb` draws, so each copy gets one
//! of its own. The file `global/pg_control` begins with the identifier, and its data ends with a
//! checksum (PostgreSQL's `src/include/catalog/pg_control.h`). `pg_resetwal` then writes a log with
//! the same identifier.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::{PREFIX, Postgres, SUPERUSER, folder_in, run};

/// The folder that `initdb` has made for this process. It lives as long as a server does that was
/// copied from it, so that no process leaves one behind.
static TEMPLATE: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());

/// Files of a data folder, and of a template's folder.
const DATA: &str = "data";
const CONTROL: &str = "global/pg_control";
const LOG: &str = "pg_wal";
const IDENTIFIER_LENGTH: usize = size_of::<u64>();

/// Fills the data folder of a server that has none yet. Returns the template, which the server
/// keeps.
pub fn copy_into(postgres: &Postgres, base: &Path) -> io::Result<Arc<TempDir>> {
    let template = template(postgres, base)?;
    let mut copy = postgres.command_of("cp")?;
    copy.arg("-R").arg(template.path().join(DATA));
    run(copy.arg(postgres.data()), "cp")?;
    let control = postgres.data().join(CONTROL);
    let text = std::fs::read(&control)?;
    let named = with_identifier(text, fresh_identifier()?)
        .ok_or_else(|| io::Error::other(format!("{} has no checksum", control.display())))?;
    std::fs::write(&control, named)?;
    let mut reset = postgres.command("pg_resetwal")?;
    run(reset.arg("--force").arg(postgres.data()), "pg_resetwal")?;
    Ok(template)
}

/// Returns the template of this process, made now if there is none.
fn template(postgres: &Postgres, base: &Path) -> io::Result<Arc<TempDir>> {
    let mut template = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = template.upgrade() {
        return Ok(made);
    }
    let folder = folder_in(base, PREFIX)?;
    let mut command = postgres.command("initdb")?;
    let words = "--no-sync --auth=trust --encoding=UTF8 --locale=C";
    command
        .args(words.split(' '))
        .args(["--username", SUPERUSER]);
    run(
        command.arg("--pgdata").arg(folder.path().join(DATA)),
        "initdb",
    )?;
    // `pg_resetwal` writes another log into each copy.
    for entry in std::fs::read_dir(folder.path().join(DATA).join(LOG))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::remove_file(entry.path())?;
        }
    }
    let made = Arc::new(folder);
    *template = Arc::downgrade(&made);
    Ok(made)
}

/// Returns a system identifier that no other database has: the time, as PostgreSQL's own.
fn fresh_identifier() -> io::Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map_err(io::Error::other)?.as_nanos();
    u64::try_from(nanoseconds).map_err(io::Error::other)
}

/// Returns a control file with this system identifier; none if the file has no valid checksum.
fn with_identifier(mut control: Vec<u8>, identifier: u64) -> Option<Vec<u8>> {
    let stored = |place: usize| {
        let bytes = control.get(place..place + size_of::<u32>())?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let mut places = (IDENTIFIER_LENGTH..control.len()).step_by(size_of::<u32>());
    let place = places.find(|place| stored(*place) == Some(crc32c::crc32c(&control[..*place])))?;
    control[..IDENTIFIER_LENGTH].copy_from_slice(&identifier.to_ne_bytes());
    let checksum = crc32c::crc32c(&control[..place]).to_ne_bytes();
    control[place..place + checksum.len()].copy_from_slice(&checksum);
    Some(control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_file_without_a_checksum_is_refused() {
        let mut control = vec![7; 64];
        control[40..44].copy_from_slice(&crc32c::crc32c(&[7; 40]).to_ne_bytes());
        let named = with_identifier(control.clone(), 1).unwrap();
        assert_eq!(named[..8], 1_u64.to_ne_bytes());
        assert_eq!(named[40..44], crc32c::crc32c(&named[..40]).to_ne_bytes());
        control[39] = 8;
        assert_eq!(with_identifier(control, 1), None);
        assert_eq!(with_identifier(Vec::new(), 1), None);
    }
}
