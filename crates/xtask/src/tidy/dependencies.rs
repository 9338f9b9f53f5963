//! Checks that each dependency is declared once, in the workspace's manifest, below a comment with
//! its reason.

use super::manifest::dependencies;
use super::{Problem, Tree};

/// Reasons in the root manifest; no versions of their own in the crates'.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        let is_root = file.path == "Cargo.toml";
        let is_crate = file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml");
        for dependency in dependencies(&file.text)
            .iter()
            .filter(|_| is_root || is_crate)
        {
            let name = &dependency.name;
            if is_root && !dependency.has_path && !dependency.has_comment {
                let message = format!("`{name}` needs a comment right above it with the reason");
                problems.push(file.problem(dependency.line, message));
            }
            if is_crate && !dependency.from_workspace {
                let message = format!(
                    "`{name}` is declared here: declare it in the root Cargo.toml with its \
                     reason, and write `{name}.workspace = true`"
                );
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

    fn messages(path: &str, text: &str) -> Vec<String> {
        tree::messages(check, &[(path, text)])
    }

    #[test]
    fn dependency_without_a_reason() {
        let text = "[workspace.dependencies]\nours = { path = \"crates/ours\" }\n\
                    # Why.\none = \"1\"\ntwo = \"2\"\n";
        assert_eq!(
            messages("Cargo.toml", text),
            ["5: `two` needs a comment right above it with the reason"]
        );
    }

    #[test]
    fn dependency_declared_in_a_crate() {
        let found = messages("crates/a/Cargo.toml", "[dependencies]\none = \"1\"\n");
        assert!(
            found[0].starts_with("2: `one` is declared here"),
            "{found:?}"
        );
        let text = "[dependencies]\none.workspace = true\n";
        assert_eq!(messages("crates/a/Cargo.toml", text), [""; 0]);
    }
}
