//! Sentences name their subject. A sentence that begins with `What` or `Those that` leaves the
//! reader to find the client, the head or the commit that it is about.
//!
//! A capital letter marks the beginning of a sentence, so the check needs no grammar. It reads
//! comments and documents, and leaves out code in backticks, quotes and questions.

use super::{File, Problem, Tree};

/// Where the list of exceptions is kept.
const LIST: &str = "crates/xtask/src/tidy/subjects.rs";

/// Beginnings of sentences without a named subject.
const OPENINGS: &[&[&str]] = &[
    &["What"],
    &["Who"],
    &["Whom"],
    &["Whatever"],
    &["Those", "of"],
    &["Those", "that"],
    &["Those", "who"],
    &["Those", "whose"],
    &["One", "that"],
    &["One", "whose"],
    &["The", "one", "that"],
    &["The", "ones", "that"],
];

/// Beginnings of paths that may have such sentences, and why. The list only shrinks.
const EXCEPTIONS: &[(&str, &str)] =
    &[("crates/simulator/", "its comments are still to be revised")];

/// Beginnings of paths that are frozen or were written by a program.
const LEFT_OUT: &[&str] = &["CHANGELOG.md", "crates/bindgen/generated/", "docs/design/"];

/// A word of a comment or document, with its line from 1.
struct Word<'t> {
    text: &'t str,
    line: usize,
}

/// Returns sentences without a named subject, and exceptions that are no longer needed.
pub fn check(tree: &Tree) -> Vec<Problem> {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut used = vec![false; exceptions.len()];
    for file in &tree.files {
        if LEFT_OUT.iter().any(|it| file.path.starts_with(it)) {
            continue;
        }
        let found = problems_of(file);
        let exception = exceptions
            .iter()
            .position(|(path, _)| file.path.starts_with(path));
        match exception {
            Some(at) => used[at] |= !found.is_empty(),
            None => problems.extend(found),
        }
    }
    let list = tree.files.iter().find(|file| file.path == LIST);
    for ((path, reason), _) in exceptions.iter().zip(used).filter(|(_, used)| !used) {
        let message = format!(
            "`{path}` has no such sentence any more: remove it from EXCEPTIONS, which has it \
             because {reason}"
        );
        problems.extend(list.map(|list| list.problem(1, message)));
    }
    problems
}

fn problems_of(file: &File) -> Vec<Problem> {
    let words = match &file.rust {
        Some(rust) => words(rust.lines().zip(file.text.lines()).map(
            |((number, code, _), line)| {
                let is_comment = code.trim().is_empty() && !code.is_empty();
                let comment = line.trim_start().strip_prefix("//").filter(|_| is_comment);
                (number, comment.map(|it| it.trim_start_matches(['/', '!'])))
            },
        )),
        None if file.path.ends_with(".md") => {
            let mut is_code = false;
            words(file.text.lines().enumerate().map(|(at, line)| {
                let is_fence = line.trim_start().starts_with("```");
                is_code ^= is_fence;
                (at + 1, Some(line).filter(|_| !is_code && !is_fence))
            }))
        }
        None => return Vec::new(),
    };
    let mut problems = Vec::new();
    for at in 0..words.len() {
        let opening = OPENINGS
            .iter()
            .find(|opening| begins(&words[at..], opening));
        if let Some(opening) = opening.filter(|_| !is_question(&words[at..])) {
            let message = format!(
                "a sentence begins with `{}`: name its subject, such as the client or the commit",
                opening.join(" ")
            );
            problems.push(file.problem(words[at].line, message));
        }
    }
    problems
}

/// Returns the words of these lines. An empty word stands in place of a line without prose.
fn words<'t>(lines: impl Iterator<Item = (usize, Option<&'t str>)>) -> Vec<Word<'t>> {
    let mut words = Vec::new();
    for (line, prose) in lines {
        match prose.filter(|prose| !prose.trim().is_empty()) {
            Some(prose) => {
                words.extend(prose.split_whitespace().map(|text| Word { text, line }));
            }
            None => words.push(Word { text: "", line }),
        }
    }
    words
}

fn begins(words: &[Word<'_>], opening: &[&str]) -> bool {
    words.len() >= opening.len() && words.iter().zip(opening).all(|(it, word)| it.text == *word)
}

/// Returns whether the sentence that begins here asks.
fn is_question(words: &[Word<'_>]) -> bool {
    let end = words
        .iter()
        .find(|word| word.text.is_empty() || word.text.ends_with(['.', '?', '!']));
    end.is_some_and(|word| word.text.ends_with('?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str, exceptions: &[(&str, &str)]) -> Vec<String> {
        let problems = check_with(&Tree::of(&[(path, text), (LIST, "")]), exceptions).into_iter();
        problems
            .map(|problem| format!("{}: {}", problem.line, problem.message))
            .collect()
    }

    /// Returns the lines of the sentences that are found.
    fn lines(path: &str, text: &str) -> Vec<String> {
        let line = |message: &String| message.split(':').take(1).collect();
        messages(path, text, &[]).iter().map(line).collect()
    }

    #[test]
    fn sentences_of_comments_and_documents() {
        let text = "//! What a file is.\n\n/// The rows. Those\n/// that wait. A row.\nfn a() {}\n\
                    // The one that waits.\nlet b = \"\n    // What is no comment is.\n\";\n";
        assert_eq!(lines("crates/a/src/b.rs", text), ["1", "3", "6", "8"]);
        let text = "# One that begins\n\nIt is. Whatever it is.\n\n```text\nWhat is code.\n```\n";
        assert_eq!(lines("docs/a.md", text), ["1", "3"]);
    }

    #[test]
    fn other_sentences_are_fine() {
        let text = "// It returns what it has, and one that waits. `What` is code.\n// Those\n\n\
                    // that. \"What else\", it asks. What is it?\nstruct What;\n";
        assert_eq!(lines("crates/a/src/b.rs", text), [""; 0]);
        assert_eq!(lines("docs/design/a.md", "What was.\n"), [""; 0]);
        assert_eq!(lines("a.txt", "What is.\n"), [""; 0]);
    }

    #[test]
    fn exceptions_only_shrink() {
        let exceptions = [("crates/a/", "it is old")];
        let text = "// What is.\n";
        assert_eq!(messages("crates/a/src/b.rs", text, &exceptions), [""; 0]);
        let problems = messages("crates/b/src/b.rs", text, &exceptions);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems[1].contains("remove it from EXCEPTIONS"),
            "{problems:?}"
        );
    }
}
