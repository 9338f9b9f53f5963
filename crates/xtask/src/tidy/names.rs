//! Checks that no two public types of the workspace have the same name, so that a reader knows a
//! type without its module.

use std::collections::BTreeMap;

use super::{File, Problem, Tree};

/// Where the list of exceptions is kept.
const LIST: &str = "crates/xtask/src/tidy/names.rs";

/// Names of several types, and why. There are none, and there should not be any.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// Words that begin the definition of a type, after `pub`.
const TYPE_WORDS: &[&str] = &["struct", "enum", "trait", "union", "type"];

/// Returns names that more than one public type has, and exceptions that are no longer needed.
pub fn check(tree: &Tree) -> Vec<Problem> {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Problem> {
    let mut types: BTreeMap<&str, Vec<(&File, usize)>> = BTreeMap::new();
    for (file, rust) in tree.rust_files() {
        let is_of_a_crate = file.path.starts_with("crates/") && file.path.contains("/src/");
        for (number, line, _) in rust.lines().filter(|(_, _, is_test)| !is_test) {
            if let Some(name) = defined_type(line).filter(|_| is_of_a_crate) {
                types.entry(name).or_default().push((file, number));
            }
        }
    }
    let mut problems = Vec::new();
    for (name, places) in &types {
        let is_excepted = exceptions.iter().any(|(excepted, _)| excepted == name);
        let [(file, line), others @ ..] = &places[..] else {
            continue;
        };
        if !others.is_empty() && !is_excepted {
            let others = others
                .iter()
                .map(|(file, line)| format!("{}:{line}", file.path));
            let others: Vec<String> = others.collect();
            let message = format!(
                "`{name}` is a type at {}, too: choose names that are clear without their modules",
                others.join(", ")
            );
            problems.push(file.problem(*line, message));
        }
    }
    let list = tree.files.iter().find(|file| file.path == LIST);
    let is_shared = |name: &str| types.get(name).is_some_and(|places| places.len() > 1);
    for (name, reason) in exceptions.iter().filter(|(name, _)| !is_shared(name)) {
        let message = format!(
            "`{name}` is no longer shared by types: remove it from EXCEPTIONS, which has it because \
             {reason}"
        );
        problems.extend(list.map(|list| list.problem(1, message)));
    }
    problems
}

/// Returns the name of the public type whose definition begins in this line.
fn defined_type(line: &str) -> Option<&str> {
    let words = line.trim_start().strip_prefix("pub ")?.trim_start();
    let words = words.strip_prefix("unsafe ").unwrap_or(words);
    let (kind, name) = words.split_once(' ')?;
    let name = name.trim_start();
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let end = name.find(|character| !is_part(character));
    let name = &name[..end.unwrap_or(name.len())];
    (TYPE_WORDS.contains(&kind) && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)], exceptions: &[(&str, &str)]) -> Vec<String> {
        let mut files = files.to_vec();
        files.push((LIST, ""));
        let problems = check_with(&Tree::of(&files), exceptions).into_iter();
        problems.map(|problem| problem.message).collect()
    }

    #[test]
    fn name_of_two_types() {
        let files = [
            ("crates/a/src/lib.rs", "pub struct Range {}\n"),
            ("crates/b/src/part.rs", "\n    pub enum Range<T> {}\n"),
        ];
        let found = messages(&files, &[]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("`Range` is a type at crates/b/src/part.rs:2, too"),
            "{found:?}"
        );
        assert_eq!(messages(&files, &[("Range", "in work")]), [""; 0]);
    }

    #[test]
    fn private_and_test_types_and_functions_may_share_names() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "pub struct Range;\npub fn range() {}\n",
            ),
            (
                "crates/b/src/lib.rs",
                "struct Range;\npub(crate) enum Range {}\npub const Range: u8 = 1;\n\
                 #[cfg(test)]\npub struct Range;\n// pub struct Range;\n",
            ),
            ("crates/b/tests/a.rs", "pub struct Range;\n"),
        ];
        assert_eq!(messages(&files, &[]), [""; 0]);
    }

    #[test]
    fn exception_that_is_none_any_more() {
        let found = messages(&[], &[("Range", "in work")]);
        assert!(found[0].contains("remove it from EXCEPTIONS"), "{found:?}");
    }
}
