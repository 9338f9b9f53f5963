//! Checks for forbidden code: clocks, threads, randomness and hash order in the pure crates, and in
//! all crates unfinished pieces, silent panics and unexplained allows.

use super::rust_text::{attributes, has_word, line_of};
use super::{Problem, Tree};

/// Crates whose outcome depends on their input alone, so that a seed replays a run.
const PURE_CRATES: &[&str] = &[
    "placement",
    "protocol",
    "machines",
    "coordinator",
    "session",
    "pg-wire",
    "proxy-core",
];

/// The names that a pure crate must not use, and why.
const IMPURE: &[(&str, &str)] = &[
    ("Instant::now", "time comes in with the input"),
    ("std::time", "time comes in with the input"),
    ("SystemTime", "time comes in with the input"),
    ("std::thread", "no threads"),
    ("std::fs", "no I/O"),
    ("std::net", "no I/O"),
    ("std::io", "no I/O"),
    ("tokio", "no runtime"),
    ("async", "no runtime"),
    ("rand::", "seeds come in with the input"),
    ("HashMap", "hash order breaks replay: use BTreeMap"),
    ("HashSet", "hash order breaks replay: use BTreeSet"),
];

/// Files that may name something of the list, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "crates/proxy-core/src/freshness/indexes.rs",
    "HashMap",
    "a million rows are found by their hashes, and no order of them shows",
)];

/// Macros that no code may have, tests included.
const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];

/// Returns impure code in the pure crates, and code that is forbidden everywhere.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for name in PURE_CRATES {
        let path = format!("crates/{name}/src/lib.rs");
        if let Some((file, rust)) = tree.rust_files().find(|(file, _)| file.path == path)
            && !attributes(&rust.code)
                .iter()
                .any(|(_, attribute)| has_word(attribute, "no_std"))
        {
            problems.push(file.problem(1, "a pure crate has `#![no_std]`: the compiler guards it"));
        }
    }
    for (file, rust) in tree.rust_files() {
        let pure = PURE_CRATES
            .iter()
            .find(|name| file.path.starts_with(&format!("crates/{name}/src/")));
        for (number, line, is_test) in rust.lines() {
            if let Some(name) = pure.filter(|_| !is_test) {
                let is_excepted = |word: &str| {
                    let mut exceptions = EXCEPTIONS.iter();
                    exceptions.any(|(path, known, _)| *path == file.path && *known == word)
                };
                let found = IMPURE.iter().filter(|(word, _)| has_word(line, word));
                for (word, why) in found.filter(|(word, _)| !is_excepted(word)) {
                    problems
                        .push(file.problem(number, format!("`{word}` in pure `{name}`: {why}")));
                }
            }
            for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
                problems.push(file.problem(number, format!("`{word}` is not finished code")));
            }
            if !is_test && line.contains(".unwrap()") {
                let message =
                    "unwrap outside tests: return an error, or `expect(\"why it holds\")`";
                problems.push(file.problem(number, message));
            }
        }
        for (start, attribute) in attributes(&rust.code) {
            let allows = has_word(attribute, "allow") && attribute.contains("allow(");
            if allows && !has_word(attribute, "reason") {
                let line = line_of(&rust.code, start);
                problems.push(file.problem(line, "an allow carries its `reason = \"…\"`"));
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
    fn impure_word_in_a_pure_crate() {
        for (word, _) in IMPURE {
            let text = format!("//! Idea.\nuse {word} ;\n");
            let found = messages("crates/protocol/src/part.rs", &text);
            assert!(
                found[0].starts_with(&format!("2: `{word}` in pure")),
                "{word}: {found:?}"
            );
            assert_eq!(
                messages("crates/server/src/part.rs", &text),
                [""; 0],
                "{word}"
            );
        }
    }

    #[test]
    fn impure_word_in_words_comments_or_tests_is_fine() {
        let text = "//! No HashMap, no tokio.\nstruct Operand; // async\nconst A: &str = \"rand::\";\n\
                    #[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n}\n";
        assert_eq!(messages("crates/placement/src/part.rs", text), [""; 0]);
    }

    #[test]
    fn pure_crate_with_std() {
        let path = "crates/placement/src/lib.rs";
        assert_eq!(messages(path, "//! Idea.\n").len(), 1);
        assert_eq!(messages(path, "//! Idea.\n#![no_std]\n"), [""; 0]);
        assert_eq!(
            messages(path, "//! Idea.\n#![cfg_attr(not(test), no_std)]\n"),
            [""; 0]
        );
    }

    #[test]
    fn unfinished_code_even_in_tests() {
        for word in UNFINISHED {
            let text = format!("//! Idea.\n#[cfg(test)]\nmod tests {{\n    {word} (1) \n}}\n");
            let found = messages("crates/server/src/lib.rs", &text);
            assert_eq!(found, [format!("4: `{word}` is not finished code")]);
        }
    }

    #[test]
    fn unwrap_outside_tests() {
        let text = "//! Idea.\nfn a() { x.unwrap() }\n#[test]\nfn b() { x.unwrap() }\n";
        let found = messages("crates/server/src/lib.rs", text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("2: unwrap outside tests"));
        assert_eq!(messages("crates/server/tests/a.rs", text), [""; 0]);
    }

    #[test]
    fn allow_without_reason() {
        let path = "crates/server/src/lib.rs";
        let found = messages(path, "//! Idea.\n#[allow(unsafe_code)]\nfn a() {}\n");
        assert_eq!(found, ["2: an allow carries its `reason = \"…\"`"]);
        let text = "//! Idea.\n#[allow(unsafe_code, reason = \"mmap\")]\nfn a() {}\n";
        assert_eq!(messages(path, text), [""; 0]);
    }
}
