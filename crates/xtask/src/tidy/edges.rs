//! Checks which crates of the workspace depend on which. A new edge is a change of design, made in
//! a separate commit.

use super::manifest::{Dependency, dependencies};
use super::{Problem, Tree};

/// May depend on every other crate but this one.
const ALL: &[&str] = &["*"];

/// Each crate with those of ours that it may depend on, in tests as elsewhere: a test that needs
/// more lives in a crate that may have more, `simulator` or `replex`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("placement", &[]),
    ("protocol", &["placement"]),
    ("machines", &["placement", "protocol"]),
    ("coordinator", &["placement", "protocol"]),
    ("session", &["placement", "protocol"]),
    ("storage", &["placement"]),
    ("tls-files", &[]),
    ("cluster-tls", &["tls-files"]),
    (
        "server",
        &[
            "placement",
            "protocol",
            "machines",
            "coordinator",
            "storage",
            "cluster-tls",
        ],
    ),
    (
        "client",
        &["placement", "protocol", "session", "cluster-tls"],
    ),
    ("sql", &["placement", "protocol", "session", "client"]),
    ("pg-wire", &[]),
    ("pg-auth", &["pg-wire", "tls-files"]),
    ("pg-catalog", &[]),
    (
        "pg-server",
        &[
            "placement",
            "protocol",
            "sql",
            "pg-catalog",
            "pg-wire",
            "pg-auth",
        ],
    ),
    ("pg-connect", &["pg-wire", "pg-auth", "tls-files"]),
    ("proxy-core", &["pg-wire"]),
    ("pg-analysis", &["pg-wire", "proxy-core"]),
    ("pg-local", &["pg-connect"]),
    (
        "proxy-pool",
        &["pg-wire", "pg-auth", "pg-connect", "proxy-core"],
    ),
    (
        "replication",
        &[
            "client",
            "pg-wire",
            "pg-connect",
            "pg-analysis",
            "pg-local",
            "proxy-core",
            "proxy-pool",
        ],
    ),
    (
        "proxy",
        &[
            "client",
            "pg-wire",
            "pg-auth",
            "pg-connect",
            "pg-analysis",
            "pg-local",
            "proxy-core",
            "proxy-pool",
            "replication",
        ],
    ),
    ("proxy-simulation", &["proxy-core", "replication"]),
    (
        "simulator",
        &[
            "placement",
            "protocol",
            "machines",
            "coordinator",
            "session",
            "storage",
        ],
    ),
    (
        "bench",
        &[
            "placement",
            "protocol",
            "client",
            "pg-connect",
            "pg-local",
            "proxy",
        ],
    ),
    ("bindgen", &[]),
    ("model", &[]),
    ("foreign", &["pg-local"]),
    ("replex", ALL),
    ("xtask", &[]),
];

/// Edges beyond the table, and crates that are not in it.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let ours = tree.crates();
    let mut problems = Vec::new();
    for file in &tree.files {
        let Some(name) = ours
            .iter()
            .find(|name| file.path == format!("crates/{name}/Cargo.toml"))
        else {
            continue;
        };
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| known == name) else {
            let message = format!(
                "crate `{name}` has no row in crates/xtask/src/tidy/edges.rs: a crate exists only \
                 to forbid an edge or to ship an artefact"
            );
            problems.push(file.problem(1, message));
            continue;
        };
        let allows = |dependency: &Dependency| {
            allowed.contains(&dependency.name.as_str())
                || (*allowed == ALL && dependency.name != "xtask")
        };
        for dependency in dependencies(&file.text) {
            if ours.contains(dependency.name.as_str()) && !allows(&dependency) {
                let message = format!("`{name}` may not depend on `{}`", dependency.name);
                problems.push(file.problem(dependency.line, message));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree;

    fn messages(name: &str, dependencies: &str) -> Vec<String> {
        let path = format!("crates/{name}/Cargo.toml");
        let text = format!("[package]\n{dependencies}");
        let mut files = vec![(path.as_str(), text.as_str())];
        for other in [
            "crates/server/Cargo.toml",
            "crates/xtask/Cargo.toml",
            "crates/client/Cargo.toml",
        ] {
            if other != path {
                files.push((other, ""));
            }
        }
        tree::messages(check, &files)
    }

    #[test]
    fn edge_against_the_table() {
        let expected = ["3: `sql` may not depend on `server`"];
        assert_eq!(
            messages("sql", "[dependencies]\nserver.workspace = true\n"),
            expected
        );
        assert_eq!(
            messages("sql", "[dev-dependencies]\nserver.workspace = true\n"),
            expected
        );
        let renamed = "[dependencies]\nother = { path = \"../server\", package = \"server\" }\n";
        assert_eq!(messages("sql", renamed), expected);
    }

    #[test]
    fn edge_in_the_table() {
        let text = "[dependencies]\nclient.workspace = true\ntokio.workspace = true\n";
        assert_eq!(messages("sql", text), [""; 0]);
    }

    #[test]
    fn the_command_may_use_all_but_the_developers_command() {
        let text = "[dependencies]\nserver.workspace = true\nxtask.workspace = true\n";
        assert_eq!(
            messages("replex", text),
            ["4: `replex` may not depend on `xtask`"]
        );
    }

    #[test]
    fn crate_that_is_not_in_the_table() {
        assert!(messages("util", "")[0].contains("`util` has no row"));
    }
}
