//! Sentences name their subject. A sentence that begins with `What` or `Those that` leaves the
//! reader to find the client, the head or the commit that it is about.
//!
//! A capital letter marks the beginning of a sentence, so the check needs no grammar. It reads
//! comments and documents, and leaves out code in backticks, quotes and questions.

use super::{File, Problem, Tree};

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

/// Beginnings of paths that are frozen or were written by a program.
const LEFT_OUT: &[&str] = &["CHANGELOG.md", "crates/bindgen/generated/", "docs/design/"];

/// A word of a comment or document, with its line from 1.
struct Word<'t> {
    text: &'t str,
    line: usize,
}

/// Returns sentences without a named subject.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let is_checked = |file: &&File| !LEFT_OUT.iter().any(|it| file.path.starts_with(it));
    let files = tree.files.iter().filter(is_checked);
    files.flat_map(problems_of).collect()
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

    /// Returns the lines of the sentences that are found.
    fn lines(path: &str, text: &str) -> Vec<usize> {
        let problems = check(&Tree::of(&[(path, text)])).into_iter();
        problems.map(|problem| problem.line).collect()
    }

    #[test]
    fn sentences_of_comments_and_documents() {
        let text = "//! What a file is.\n\n/// The rows. Those\n/// that wait. A row.\nfn a() {}\n\
                    // The one that waits.\nlet b = \"\n    // What is no comment is.\n\";\n";
        assert_eq!(lines("crates/a/src/b.rs", text), [1, 3, 6, 8]);
        let text = "# One that begins\n\nIt is. Whatever it is.\n\n```text\nWhat is code.\n```\n";
        assert_eq!(lines("docs/a.md", text), [1, 3]);
    }

    #[test]
    fn other_sentences_are_fine() {
        let text = "// It returns what it has, and one that waits. `What` is code.\n// Those\n\n\
                    // that. \"What else\", it asks. What is it?\nstruct What;\n";
        assert_eq!(lines("crates/a/src/b.rs", text), [0; 0]);
        assert_eq!(lines("docs/design/a.md", "What was.\n"), [0; 0]);
        assert_eq!(lines("a.txt", "What is.\n"), [0; 0]);
    }
}
