//! Doc comments state what an item is or does. Questions leave open the meaning of the answers, and
//! a function's first word is a verb in the third person: `Returns`, `Writes`.
//!
//! The check of verbs knows no grammar: a plural passes for a verb.

use super::rust_text::RustText;
use super::{File, Problem, Tree};

/// Where the list of exceptions is kept.
const LIST: &str = "crates/xtask/src/tidy/doc_comments.rs";

/// Beginnings of paths that may have other doc comments, and why. The list only shrinks.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// Words that end like a verb in the third person and are none.
const NO_VERBS: &[&str] = &["As", "Its", "Others", "This", "Those", "Whether"];

/// Words that may stand before `fn`.
const QUALIFIERS: &[&str] = &["async", "const", "unsafe"];

/// A doc comment.
struct DocComment {
    /// Its first line, from 1.
    line: usize,
    /// Its words, without code in backticks.
    text: String,
    /// The public function that it belongs to.
    function: Option<String>,
}

/// Returns doc comments that ask, or that begin without a verb, and exceptions that are no longer
/// needed.
pub fn check(tree: &Tree) -> Vec<Problem> {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut used = vec![false; exceptions.len()];
    for (file, rust) in tree.rust_files() {
        let found = problems_of(file, rust);
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
            "`{path}` has no such doc comment any more: remove it from EXCEPTIONS, which has it \
             because {reason}"
        );
        problems.extend(list.map(|list| list.problem(1, message)));
    }
    problems
}

fn problems_of(file: &File, rust: &RustText) -> Vec<Problem> {
    let mut problems = Vec::new();
    for comment in doc_comments(file, rust) {
        if asks(&comment.text) {
            let message = "a doc comment asks: state it, such as `Returns whether …`";
            problems.push(file.problem(comment.line, message));
        }
        let first = comment.text.split_whitespace().next().unwrap_or_default();
        let function = comment.function.filter(|_| !is_verb(first));
        if let Some(name) = function {
            let message = format!(
                "the doc comment of `{name}` begins with `{first}`: begin with a verb in the third \
                 person, such as `Returns`"
            );
            problems.push(file.problem(comment.line, message));
        }
    }
    problems
}

/// Returns the doc comments of a file's items.
fn doc_comments(file: &File, rust: &RustText) -> Vec<DocComment> {
    let lines: Vec<_> = rust.lines().zip(file.text.lines()).collect();
    let mut comments = Vec::new();
    let mut open: Option<DocComment> = None;
    for ((number, code, is_test), line) in lines {
        // In a literal the slashes are not all of the line.
        let is_comment = code.trim().is_empty() && !code.is_empty();
        let doc = line.trim_start().strip_prefix("///").filter(|_| is_comment);
        match (doc, &mut open) {
            (Some(doc), Some(comment)) => {
                comment.text.push(' ');
                comment.text.push_str(doc.trim());
            }
            (Some(doc), None) => {
                open = Some(DocComment {
                    line: number,
                    text: doc.trim().to_owned(),
                    function: None,
                });
            }
            (None, Some(_)) if code.trim_start().starts_with("#[") => {}
            (None, _) => {
                if let Some(mut comment) = open.take() {
                    comment.function = public_function(code).filter(|_| !is_test);
                    comment.text = without_code(&comment.text);
                    comments.push(comment);
                }
            }
        }
    }
    comments
}

/// Returns the name of the public function whose definition begins in this line.
fn public_function(code: &str) -> Option<String> {
    let words = code.trim_start().strip_prefix("pub")?;
    // `pub(crate)` and the like.
    let words = match words.strip_prefix('(') {
        Some(rest) => rest.split_once(')')?.1,
        None => words,
    };
    let mut words = words.split_whitespace();
    let mut word = words.next()?;
    while QUALIFIERS.contains(&word) {
        word = words.next()?;
    }
    let name = words.next().filter(|_| word == "fn")?;
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    Some(name.chars().take_while(|it| is_part(*it)).collect())
}

/// Returns a text without code in backticks, in one or in three.
fn without_code(text: &str) -> String {
    let mut kept = String::new();
    for (at, part) in text.split('`').enumerate() {
        kept.push_str(if at % 2 == 0 { part } else { "…" });
    }
    kept
}

/// Returns whether a sentence of the text ends with a question mark.
fn asks(text: &str) -> bool {
    text.match_indices('?').any(|(at, _)| {
        let follows = text[at + 1..].chars().next();
        follows.is_none_or(char::is_whitespace)
    })
}

/// Returns whether a comment's first word may be a verb in the third person.
fn is_verb(word: &str) -> bool {
    let word = word.trim_end_matches([',', ':', ';', '.']);
    let is_word = word.starts_with(|it: char| it.is_ascii_uppercase()) && word.ends_with('s');
    is_word && !NO_VERBS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, exceptions: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(&[("crates/a/src/b.rs", text), (LIST, "")]);
        let problems = check_with(&tree, exceptions).into_iter();
        problems
            .map(|problem| format!("{}: {}", problem.line, problem.message))
            .collect()
    }

    #[test]
    fn questions() {
        for text in [
            "/// Is it open?\nfn is_open() {}\n",
            "struct A {\n    /// Is it open? Then\n    /// it serves.\n    pub b: bool,\n}\n",
        ] {
            let found = found(text, &[]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("a doc comment asks"), "{found:?}");
        }
    }

    #[test]
    fn first_words_of_public_functions() {
        for text in [
            "/// The rows.\npub fn rows() {}\n",
            "/// Whether it is open.\n#[must_use]\npub(crate) const fn is_open() {}\n",
            "/// `replex sql`\npub async fn run() {}\n",
        ] {
            let found = found(text, &[]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("1: the doc comment of `"), "{found:?}");
        }
    }

    #[test]
    fn statements_are_fine() {
        let text = "/// Returns the rows that `a?` and\n/// http://host/b?c have.\npub fn rows() {}\n\
                    /// Whether it is open.\npub is_open: bool,\n\
                    // Is it open?\n/// The rows.\nfn private() {}\n\
                    #[cfg(test)]\nmod tests {\n    /// Any row.\n    pub fn row() {}\n}\n";
        assert_eq!(found(text, &[]), [""; 0]);
    }

    #[test]
    fn exception_for_a_path() {
        let exceptions = [("crates/a/src/", "it is being rewritten")];
        assert_eq!(found("/// Is it?\nfn is() {}\n", &exceptions), [""; 0]);
        let stale = found("/// States it.\nfn is() {}\n", &exceptions);
        assert!(stale[0].contains("remove it from EXCEPTIONS"), "{stale:?}");
    }
}
