//! What the operator's log is told, by the facade `log`: what happens seldom, each with the name of its event.
//!
//! Rules: no statement, no value of a row, no password. What happens again and again while something lasts is told once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use log::Level;

use crate::manager::ReplicaId;

/// What was told last of each replica, or of something else that there is once.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeMap<Option<ReplicaId>, String>>);

impl Told {
    /// Tells how a replica is, or something else, unless that was told of it last.
    pub fn tell(&self, level: Level, event: &str, of: Option<ReplicaId>, text: &str) {
        let text = without_literals(text);
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(&of) == Some(&text) {
            return;
        }
        match of {
            None => log::log!(level, event = event; "{text}"),
            Some(id) => log::log!(level, event = event, replica = id.0; "{text}"),
        }
        told.insert(of, text);
    }

    /// There is no such replica any more.
    pub fn forget(&self, id: ReplicaId) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.remove(&Some(id));
    }
}

/// What PostgreSQL says, without the values in it: those stand in double quotes behind a colon, where names never do.
pub(crate) fn without_literals(text: &str) -> String {
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
    fn literals_are_not_told() {
        for (said, told) in [
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
            assert_eq!(without_literals(said), told);
        }
    }
}
