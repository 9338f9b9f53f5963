//! Reports rare events to the operator's log through the crate `log`. Each event has a name.
//!
//! An event has no statement, no value of a row and no password. An event that repeats while its
//! cause lasts is reported once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use log::Level;

use proxy_core::freshness::ReplicaId;

/// The last logged event of each replica, and, under none, the last other event.
#[derive(Debug, Default)]
pub struct EventLog(Mutex<BTreeMap<Option<ReplicaId>, String>>);

impl EventLog {
    /// Logs the state of a replica, or with none another state, unless the text is the same as the
    /// last one.
    pub fn report(&self, level: Level, event: &str, of: Option<ReplicaId>, text: &str) {
        let text = without_literals(text);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(&of) == Some(&text) {
            return;
        }
        match of {
            None => log::log!(level, event = event; "{text}"),
            Some(id) => log::log!(level, event = event, replica = id.0; "{text}"),
        }
        last.insert(of, text);
    }

    /// Drops the event of a replica that was removed.
    pub fn forget(&self, id: ReplicaId) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.remove(&Some(id));
    }
}

/// Returns the first line of a PostgreSQL message without the values in it. In a message, values
/// are in double quotes after a colon, and names never are.
pub fn without_literals(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match (line.find(": \""), line.rfind('"')) {
        (Some(start), Some(end)) if start + 2 < end => {
            format!("{}: \"…\"{}", &line[..start], &line[end + 1..])
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_not_logged() {
        for (message, logged) in [
            (
                "invalid input value for enum mood: \"very \"secret\" one\" (22P02)",
                "invalid input value for enum mood: \"…\" (22P02)",
            ),
            (
                "duplicate key value violates unique constraint \"t_pkey\"\nDETAIL: Key (id)=(7)",
                "duplicate key value violates unique constraint \"t_pkey\"",
            ),
            ("connection refused", "connection refused"),
            ("it ends: \"", "it ends: \""),
        ] {
            assert_eq!(without_literals(message), logged);
        }
    }
}
