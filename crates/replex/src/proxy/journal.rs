//! Writes the operator's log of the proxy: the events of the crates `proxy` and `replication`, in
//! the same format as the store's log.

use std::fmt::Display;

use log::kv::{Error, Key, Value, VisitSource};
use log::{LevelFilter, Log, Metadata, Record};
use server::journal::{self, JournalLevel};

/// The crates whose events are logged: libraries would log statements.
const OWN: &[&str] = &["proxy", "replication"];

struct Journal;

/// Begins to log events.
pub fn begin() {
    // Fails where it was begun already.
    if log::set_logger(&Journal).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

impl Log for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target().split("::").next();
        target.is_some_and(|target| OWN.contains(&target))
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = match record.level() {
            log::Level::Error => JournalLevel::Error,
            log::Level::Warn => JournalLevel::Warn,
            _ => JournalLevel::Info,
        };
        let mut fields = Fields::default();
        // It has no error of its own, and no other is reported.
        let _ = record.key_values().visit(&mut fields);
        let note = record.args().to_string();
        let mut all: Vec<(&str, &dyn Display)> = Vec::new();
        all.extend(
            fields
                .others
                .iter()
                .map(|(name, value)| (&**name, value as _)),
        );
        if !note.is_empty() {
            all.push(("note", &note));
        }
        journal::line(level, &fields.event, &all);
    }

    fn flush(&self) {}
}

/// The name of the event, and its fields.
#[derive(Default)]
struct Fields {
    event: String,
    others: Vec<(String, String)>,
}

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        match key.as_str() {
            "event" => self.event = value.to_string(),
            name => self.others.push((name.to_owned(), value.to_string())),
        }
        Ok(())
    }
}
