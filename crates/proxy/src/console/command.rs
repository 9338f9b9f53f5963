//! Parses the console's commands.

use pg_wire::report::{Report, Severity};
use proxy_core::freshness::ReplicaId;
use replication::ExistingData;

/// SQLSTATE: the text is no command.
const SYNTAX_ERROR: &str = "42601";

/// A command of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsoleCommand {
    /// Shows a table of the console.
    Show(ShowSubject),
    /// Adds a replica.
    Add {
        /// The server's URL.
        url: String,
        /// The handling of the existing contents of its database.
        contents: ExistingData,
        /// The replica that it is filled from; otherwise that is the primary.
        seed: Option<ReplicaId>,
    },
    /// Remove a replica.
    Remove(ReplicaId),
    /// Waits until everything committed is on disk at all replicas and in the buffer.
    Checkpoint,
    /// Reads the files of options again.
    Reload,
    /// Does nothing: a statement that drivers send to every server. Its answer has this tag.
    Ignored(&'static str),
}

/// The subject of a SHOW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowSubject {
    /// The replicas, and the status of each.
    Replicas,
    /// The number of batches on each server, by reason.
    Routes,
    /// The WAL that each replica lacks.
    Lag,
    /// The transactions buffer.
    Buffer,
    /// The connections to servers.
    Pools,
    /// The clients that are logged in.
    Clients,
    /// Whether this proxy is the active one.
    Proxy,
    /// The commands.
    Help,
}

/// All commands, each with its meaning.
pub const HELP: &[(&str, &str)] = &[
    ("SHOW REPLICAS", "the replicas, and the status of each"),
    ("SHOW ROUTES", "where batches went, and why"),
    ("SHOW LAG", "how far replicas are behind the primary"),
    (
        "SHOW BUFFER",
        "the commits that the transactions buffer keeps for offline replicas",
    ),
    ("SHOW POOLS", "connections to servers"),
    (
        "SHOW CLIENTS",
        "the clients that are logged in, and which server each uses now",
    ),
    (
        "SHOW PROXY",
        "whether this proxy is the active one, or for which it stands by",
    ),
    ("SHOW HELP", "this list"),
    (
        "ADD REPLICA 'url'",
        "add a database, which is empty or was a replica; it is filled while all goes on, and stays a \
         replica of the active proxy",
    ),
    (
        "ADD REPLICA 'url' EMPTY",
        "the same, but drop the contents of that database first",
    ),
    (
        "ADD REPLICA 'url' FROM n",
        "the same, also with EMPTY, but fill it from replica n rather than from the primary",
    ),
    (
        "ADD REPLICA 'url' CONVERT",
        "a streaming standby of the primary, which becomes a database of its own",
    ),
    (
        "REMOVE REPLICA n",
        "remove a replica; its database stays as it is. Remove it from options and file, too",
    ),
    (
        "CHECKPOINT",
        "wait until all that is committed now is on disk at every replica that is there, and in the transactions \
         buffer",
    ),
    (
        "RELOAD",
        "read the file of users and the certificates again, as SIGHUP does",
    ),
];

/// Returns the commands of a query string, which are separated by `;`.
pub fn split(text: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let parts = text.split(|sign: char| {
        is_quoted ^= sign == '\'';
        sign == ';' && !is_quoted
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

impl ConsoleCommand {
    /// Returns the command's name for the log, if it changes something.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            ConsoleCommand::Show(_) | ConsoleCommand::Ignored(_) => None,
            ConsoleCommand::Add { .. } => Some("ADD REPLICA"),
            ConsoleCommand::Remove(_) => Some("REMOVE REPLICA"),
            ConsoleCommand::Checkpoint => Some("CHECKPOINT"),
            ConsoleCommand::Reload => Some("RELOAD"),
        }
    }

    /// Parses one command. The error does not repeat URLs, because they may contain passwords.
    pub fn parse(text: &str) -> Result<ConsoleCommand, Report> {
        let text = text.trim().trim_end_matches(';').trim_end();
        let (before, quoted, behind) = match text.split_once('\'') {
            Some((before, rest)) => match rest.split_once('\'') {
                Some((quoted, behind)) => (before, Some(quoted), behind),
                None => return Err(refused("a quote is not closed")),
            },
            None => (text, None, ""),
        };
        let before = before.to_ascii_uppercase();
        let behind = behind.to_ascii_uppercase();
        let words: Vec<&str> = before.split_whitespace().collect();
        let tail: Vec<&str> = behind.split_whitespace().collect();
        match (&words[..], quoted, &tail[..]) {
            (["SHOW", subject], None, _) => subject_of(subject).map(ConsoleCommand::Show),
            (["HELP" | "SHOW" | "\\?"], None, _) => Ok(ConsoleCommand::Show(ShowSubject::Help)),
            (["ADD", "REPLICA"], Some(url), tail) => match tail {
                [] => Ok(add(url, ExistingData::Kept, None)),
                ["EMPTY"] => Ok(add(url, ExistingData::Dropped, None)),
                ["FROM", seed] => Ok(add(url, ExistingData::Kept, Some(numbered(seed)?))),
                ["EMPTY", "FROM", seed] => {
                    Ok(add(url, ExistingData::Dropped, Some(numbered(seed)?)))
                }
                ["CONVERT"] => Ok(add(url, ExistingData::Converted, None)),
                _ => Err(refused(
                    "behind the URL there may be only EMPTY, FROM n, both, or CONVERT",
                )),
            },
            (["ADD", ..], ..) => Err(refused("a URL in single quotes is missing").hint(
                "ADD REPLICA 'postgresql://user:password@host:port/database', followed by EMPTY \
                 if its contents may be dropped.",
            )),
            (["REMOVE", "REPLICA", number], None, _) => {
                numbered(number).map(ConsoleCommand::Remove)
            }
            (["REMOVE", ..], ..) => {
                Err(refused("REMOVE REPLICA needs a number").hint("SHOW REPLICAS has the numbers."))
            }
            (["CHECKPOINT"], None, _) => Ok(ConsoleCommand::Checkpoint),
            (["RELOAD"], None, _) => Ok(ConsoleCommand::Reload),
            (["SET", ..], ..) => Ok(ConsoleCommand::Ignored("SET")),
            (["BEGIN"], None, _) => Ok(ConsoleCommand::Ignored("BEGIN")),
            (["COMMIT"], None, _) => Ok(ConsoleCommand::Ignored("COMMIT")),
            (["ROLLBACK"], None, _) => Ok(ConsoleCommand::Ignored("ROLLBACK")),
            (words, ..) => {
                let first = words.first().copied().unwrap_or_default();
                Err(refused(format!("the console has no command {first}")))
            }
        }
    }
}

fn add(url: &str, contents: ExistingData, seed: Option<ReplicaId>) -> ConsoleCommand {
    ConsoleCommand::Add {
        url: url.to_string(),
        contents,
        seed,
    }
}

fn numbered(number: &str) -> Result<ReplicaId, Report> {
    number.parse().map(ReplicaId).map_err(|_| {
        refused("a replica is named by its number").hint("SHOW REPLICAS has the numbers.")
    })
}

fn subject_of(word: &str) -> Result<ShowSubject, Report> {
    match word {
        "REPLICAS" => Ok(ShowSubject::Replicas),
        "ROUTES" => Ok(ShowSubject::Routes),
        "LAG" => Ok(ShowSubject::Lag),
        "BUFFER" => Ok(ShowSubject::Buffer),
        "POOLS" => Ok(ShowSubject::Pools),
        "CLIENTS" => Ok(ShowSubject::Clients),
        "PROXY" => Ok(ShowSubject::Proxy),
        "HELP" => Ok(ShowSubject::Help),
        _ => Err(refused(format!("cannot show {word}"))
            .hint("There are REPLICAS, ROUTES, LAG, BUFFER, POOLS, CLIENTS, PROXY and HELP.")),
    }
}

fn refused(text: impl Into<String>) -> Report {
    Report::new(Severity::Error, SYNTAX_ERROR, text).hint("SHOW HELP lists the commands.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let parse = |text: &str| ConsoleCommand::parse(text).unwrap();
        assert_eq!(
            parse(" show  lag ; "),
            ConsoleCommand::Show(ShowSubject::Lag)
        );
        assert_eq!(
            parse("remove replica 7"),
            ConsoleCommand::Remove(ReplicaId(7))
        );
        assert_eq!(parse("Reload"), ConsoleCommand::Reload);
        let url = "postgresql://Ann@h/D";
        let kept = parse("ADD REPLICA 'postgresql://Ann@h/D'");
        assert_eq!(kept, add(url, ExistingData::Kept, None));
        let dropped = parse("add replica 'postgresql://Ann@h/D' empty;");
        assert_eq!(dropped, add(url, ExistingData::Dropped, None));
        let seed = Some(ReplicaId(2));
        let filled = parse("add replica 'postgresql://Ann@h/D' from 2");
        assert_eq!(filled, add(url, ExistingData::Kept, seed));
        let filled = parse("ADD REPLICA 'postgresql://Ann@h/D' EMPTY FROM 2;");
        assert_eq!(filled, add(url, ExistingData::Dropped, seed));
        let converted = parse("ADD REPLICA 'postgresql://Ann@h/D' Convert");
        assert_eq!(converted, add(url, ExistingData::Converted, None));
        for (text, _) in HELP {
            let text = text.replace(" n", " 1");
            parse(&text);
        }
    }

    #[test]
    fn others_are_refused_with_help_and_without_secrets() {
        for text in [
            "",
            "SELECT 1",
            "SHOW tables",
            "ADD REPLICA postgresql://a:secret@b",
            "ADD REPLICA 'postgresql://a:secret@b' PLEASE",
            "ADD REPLICA 'postgresql://a:secret@b",
            "ADD REPLICA 'postgresql://a:secret@b' FROM primary",
            "ADD REPLICA 'postgresql://a:secret@b' CONVERT FROM 1",
            "CHECKPOINT 'a'",
            "REMOVE REPLICA all",
            "REMOVE REPLICA",
            "ADD",
        ] {
            let report = ConsoleCommand::parse(text).unwrap_err();
            assert!(!report.message.contains("secret"), "{report}");
            assert!(!report.hint.is_empty(), "{report}");
        }
    }

    #[test]
    fn texts_are_split_outside_of_quotes() {
        assert_eq!(split("a 'x;y' ; b;;"), ["a 'x;y'", "b"]);
    }
}
