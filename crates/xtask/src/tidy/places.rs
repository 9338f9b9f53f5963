//! Checks that no file contains a path or host name of one machine, because it would help no other
//! reader.

use super::{Problem, Tree};

/// Folders that exist on the machine of the line's author. Split so that this file passes.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// Hosts of package registries and their mirrors: clients know them, files name packages.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("pythonhosted", ".org"),
    concat!("npm", "js.org"),
    concat!("proxy.golang", ".org"),
    concat!("deb.debian", ".org"),
];

/// Returns lines that name a path or a host of one machine.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        // Cargo writes the registry's address into its lock files itself: ours, and the fuzzer's,
        // which is not kept.
        let hosts = if ["Cargo.lock", "fuzz/Cargo.lock"].contains(&file.path.as_str()) {
            &[]
        } else {
            REGISTRY_HOSTS
        };
        for (number, line) in (1..).zip(file.text.lines()) {
            for path in MACHINE_PATHS.iter().filter(|path| names_path(line, path)) {
                let message = format!("`{path}` is a path of one machine");
                problems.push(file.problem(number, message));
            }
            for host in hosts.iter().filter(|host| line.contains(**host)) {
                let message = format!("`{host}` is a registry's host: name the package instead");
                problems.push(file.problem(number, message));
            }
        }
    }
    problems
}

/// Returns whether `path` starts a path in `line`: `a/b/` within `x/a/b/` is relative, and
/// harmless.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before
            .is_some_and(|character| character.is_alphanumeric() || "_-.~$})/".contains(character))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree;

    fn messages(path: &str, text: &str) -> Vec<String> {
        tree::messages(check, &[(path, text)])
    }

    #[test]
    fn path_of_one_machine() {
        for path in MACHINE_PATHS {
            let found = messages("docs/a.md", &format!("fine\nsee `{path}x`\n"));
            assert_eq!(found, [format!("2: `{path}` is a path of one machine")]);
            assert_eq!(
                messages("docs/a.md", &format!("the folder crates{path}x\n")),
                [""; 0]
            );
        }
    }

    #[test]
    fn registry_host() {
        for host in REGISTRY_HOSTS {
            let text = format!("https://{host}/x\n");
            assert_eq!(messages("docs/a.md", &text).len(), 1);
            assert_eq!(messages("Cargo.lock", &text), [""; 0]);
        }
    }
}
