//! The repository's files as the checks read them: relative paths and text, from disk or from a
//! test.
//!
//! Files and folders that the root's `.gitignore` names in full are left out here too. The checks
//! need no git for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::rust_text::{RustText, test_only_prefixes};

/// Folders that are never ours, wherever they are.
const SKIPPED: &[&str] = &[".git", ".idea", ".vscode", ".venv"];

/// One file that is text.
pub struct File {
    /// Relative to the root, with forward slashes.
    pub path: String,
    /// Its whole text.
    pub text: String,
    /// Present for `.rs` files.
    pub rust: Option<RustText>,
}

/// Something to fix.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// Relative path of the file.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// The fault and the remedy.
    pub message: String,
}

/// All files of the repository.
pub struct Tree {
    /// Text files, by path.
    pub files: Vec<File>,
    /// Paths of all files, also of files that are not text.
    pub paths: BTreeSet<String>,
}

impl File {
    /// Returns a problem at a line, counted from 1.
    pub fn problem(&self, line: usize, message: impl Into<String>) -> Problem {
        Problem {
            path: self.path.clone(),
            line,
            message: message.into(),
        }
    }
}

impl Tree {
    /// Reads everything under `root`.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let paths = Tree::paths_on_disk(root)?;
        let mut texts = Vec::new();
        for path in &paths {
            let bytes = fs::read(root.join(path))
                .map_err(|error| format!("Cannot read {path}: {error}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.push((path.clone(), text));
            }
        }
        Ok(Tree::build(paths, texts))
    }

    /// Returns the relative paths of all files under `root`.
    pub fn paths_on_disk(root: &Path) -> Result<BTreeSet<String>, String> {
        let ignored = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let mut paths = BTreeSet::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let shown = |error| format!("Cannot list the folder `{folder}`: {error}");
            for entry in fs::read_dir(root.join(&folder)).map_err(shown)? {
                let entry = entry.map_err(shown)?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() {
                    name.clone()
                } else {
                    format!("{folder}/{name}")
                };
                if SKIPPED.contains(&name.as_str()) || is_ignored(&ignored, &path, &name) {
                    continue;
                }
                let kind = entry.file_type().map_err(shown)?;
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() {
                    paths.insert(path);
                }
            }
        }
        Ok(paths)
    }

    fn build(paths: BTreeSet<String>, texts: Vec<(String, String)>) -> Tree {
        let mut files: Vec<File> = texts
            .into_iter()
            .map(|(path, text)| {
                let rust = path.ends_with(".rs").then(|| RustText::new(&text));
                File { path, text, rust }
            })
            .collect();
        // A module that its parent declares under `#[cfg(test)]` is a test from its first line.
        let prefixes: Vec<String> = files
            .iter()
            .filter_map(|file| Some(test_only_prefixes(&file.path, file.rust.as_ref()?)))
            .flatten()
            .collect();
        for file in &mut files {
            let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
            let is_test = file
                .path
                .split('/')
                .any(|part| part == "tests" || part == "benches")
                || prefixes.iter().any(|prefix| {
                    stem.strip_prefix(prefix.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                });
            if let Some(rust) = file.rust.as_mut().filter(|_| is_test) {
                rust.test_lines.fill(true);
            }
        }
        Tree { files, paths }
    }

    /// Returns a tree for tests: path and text of each file.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let texts: Vec<(String, String)> = files
            .iter()
            .map(|(path, text)| (path.to_string(), text.to_string()))
            .collect();
        Tree::build(texts.iter().map(|(path, _)| path.clone()).collect(), texts)
    }

    /// Returns the text of the file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(&file.text)
    }

    /// Returns every Rust file.
    pub fn rust_files(&self) -> impl Iterator<Item = (&File, &RustText)> {
        self.files
            .iter()
            .filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    /// Returns names of the folders under `crates/` that hold a crate.
    pub fn crates(&self) -> BTreeSet<&str> {
        self.paths
            .iter()
            .filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
            .collect()
    }

    /// Returns whether a file or a folder is at `path`.
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self
                .paths
                .range(folder.clone()..)
                .next()
                .is_some_and(|at| at.starts_with(&folder))
    }
}

/// Returns whether a line of `.gitignore` is this path (`/a/b`) or this name, wherever it is (`a`).
fn is_ignored(gitignore: &str, path: &str, name: &str) -> bool {
    gitignore
        .lines()
        .map(|line| line.trim_end().trim_end_matches('/'))
        .any(|line| match line.strip_prefix('/') {
            Some(rooted) => rooted == path,
            None => line == name,
        })
}

/// Returns a check's problems in these files and their texts, as `line: message`, for its tests.
#[cfg(test)]
pub fn messages(check: super::Check, files: &[(&str, &str)]) -> Vec<String> {
    let problems = check(&Tree::of(files)).into_iter();
    problems
        .map(|problem| format!("{}: {}", problem.line, problem.message))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_files_and_folders_are_left_out() {
        let gitignore = "# Comment.\n/target\n__pycache__/\n/fuzz/corpus\n";
        assert!(is_ignored(gitignore, "target", "target"));
        assert!(is_ignored(gitignore, "a/__pycache__", "__pycache__"));
        assert!(is_ignored(gitignore, "fuzz/corpus", "corpus"));
        assert!(!is_ignored(gitignore, "a/target", "target"));
        assert!(!is_ignored(gitignore, "corpus", "corpus"));
    }

    fn is_test_at(tree: &Tree, path: &str, line: usize) -> bool {
        let (_, rust) = tree
            .rust_files()
            .find(|(file, _)| file.path == path)
            .unwrap();
        rust.test_lines[line - 1]
    }

    #[test]
    fn files_that_are_tests_as_a_whole() {
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "#[cfg(test)]\nmod model;\nmod real;\n",
            ),
            ("crates/a/src/model.rs", "fn x() {}\n"),
            ("crates/a/src/model/deep.rs", "fn x() {}\n"),
            ("crates/a/src/models.rs", "fn x() {}\n"),
            (
                "crates/a/src/real.rs",
                "#[cfg(test)]\nmod oracle;\nfn x() {}\n",
            ),
            ("crates/a/src/real/oracle.rs", "fn x() {}\n"),
            ("crates/a/tests/process.rs", "fn x() {}\n"),
        ]);
        assert!(!is_test_at(&tree, "crates/a/src/lib.rs", 3));
        assert!(is_test_at(&tree, "crates/a/src/model.rs", 1));
        assert!(is_test_at(&tree, "crates/a/src/model/deep.rs", 1));
        assert!(!is_test_at(&tree, "crates/a/src/models.rs", 1));
        assert!(!is_test_at(&tree, "crates/a/src/real.rs", 3));
        assert!(is_test_at(&tree, "crates/a/src/real/oracle.rs", 1));
        assert!(is_test_at(&tree, "crates/a/tests/process.rs", 1));
    }

    #[test]
    fn files_and_folders_exist() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs-old/b.md", "")]);
        assert!(tree.exists("docs/a.md"));
        assert!(tree.exists("docs") && tree.exists("docs/"));
        assert!(!tree.exists("doc") && !tree.exists("docs/b.md"));
    }

    #[test]
    fn crates_are_folders_with_a_manifest() {
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/sub/Cargo.toml", ""),
            ("crates/b/README.md", ""),
        ]);
        assert_eq!(tree.crates().into_iter().collect::<Vec<_>>(), ["a"]);
    }
}
