//! Checks that every Rust file opens with a module header, and that files and functions stay short.

use super::{File, Problem, Tree};
use crate::tidy::rust_text::{Function, RustText};

/// Past this a file is split by role.
const FILE_LINES_MAX: usize = 800;
/// A function fits a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Columns of a comment. Code is rustfmt's to break, which leaves comments alone.
const COMMENT_COLUMNS_MAX: usize = 100;
/// Checks headers, lengths of files and functions, and widths of comments.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = check_comments(tree);
    for (file, rust) in tree.rust_files() {
        if !file.text.starts_with("//!") {
            problems.push(file.problem(1, "the file must open with `//!` and its idea"));
        }
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let message =
                format!("{lines} lines, more than {FILE_LINES_MAX}: split the file by role");
            problems.push(file.problem(1, message));
        }
        check_functions(file, rust, &mut problems);
    }
    problems
}

/// Comments that are too wide.
fn check_comments(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, rust) in tree.rust_files() {
        for ((number, code, _), line) in rust.lines().zip(file.text.lines()) {
            let columns = line.chars().count();
            let comment = line[code.trim_end().len()..].trim_start();
            if columns > COMMENT_COLUMNS_MAX && comment.starts_with("//") {
                let message = format!(
                    "a comment of {columns} columns, more than {COMMENT_COLUMNS_MAX}: break it"
                );
                problems.push(file.problem(number, message));
            }
        }
    }
    problems
}

/// Checks that every long function has a marker with a reason, and every marker a long function.
fn check_functions(file: &File, rust: &RustText, problems: &mut Vec<Problem>) {
    let mut markers = markers(&file.text);
    for function in &rust.functions {
        let lines = function.last_line - function.first_line + 1;
        if lines <= FUNCTION_LINES_MAX {
            continue;
        }
        let before = markers.len();
        markers.retain(|line| !belongs(*line, function, &file.text));
        if markers.len() == before {
            let name = &function.name;
            let message = format!(
                "`{name}` has {lines} lines, more than {FUNCTION_LINES_MAX}: split it, or if it \
                 is a dispatching match, write `// tidy: long — REASON`"
            );
            problems.push(file.problem(function.first_line, message));
        }
    }
    for line in markers {
        let message = "`// tidy: long` is not at a long function: remove it";
        problems.push(file.problem(line, message));
    }
}

/// Returns lines that are a marker with a reason.
fn markers(text: &str) -> Vec<usize> {
    let is_marker = |line: &str| {
        let reason = line.trim_start().strip_prefix("// tidy: long — ");
        reason.is_some_and(|reason| !reason.trim().is_empty())
    };
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| is_marker(line))
        .map(|(at, _)| at)
        .collect()
}

/// Returns whether a marker is inside a function, or among the comments and attributes directly
/// above it.
fn belongs(marker: usize, function: &Function, text: &str) -> bool {
    if marker >= function.first_line {
        return marker <= function.last_line;
    }
    text.lines()
        .take(function.first_line - 1)
        .skip(marker - 1)
        .all(|line| line.trim_start().starts_with("//") || line.trim_start().starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree;

    fn messages(text: &str) -> Vec<String> {
        tree::messages(check, &[("crates/a/src/lib.rs", text)])
    }

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    #[test]
    fn header_missing() {
        assert_eq!(messages("//! Idea.\n"), [""; 0]);
        assert!(messages("use a;\n//! Idea.\n")[0].starts_with("1: the file must open"));
        assert_eq!(messages("").len(), 1);
    }

    #[test]
    fn file_too_long() {
        let lines = |count: usize| format!("//! Idea.\n{}", "use a;\n".repeat(count - 1));
        assert_eq!(messages(&lines(800)), [""; 0]);
        assert!(messages(&lines(801))[0].starts_with("1: 801 lines"));
    }

    #[test]
    fn comment_too_wide() {
        let text = |columns: usize| {
            let comment = "ö".repeat(columns - 3);
            format!("//! Idea.\n// {comment}\nlet a = \"{comment}\";\n")
        };
        assert_eq!(messages(&text(100)), [""; 0]);
        let found = messages(&text(101));
        assert_eq!(
            found,
            ["2: a comment of 101 columns, more than 100: break it"]
        );
        let behind = format!("//! Idea.\nlet a = 1; // {}\n", "x".repeat(100));
        assert_eq!(messages(&behind).len(), 1);
    }

    #[test]
    fn function_too_long() {
        let text = format!(
            "//! Idea.\n{}{}",
            function("fits", 70),
            function("long", 71)
        );
        let found = messages(&text);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("72: `long` has 71 lines"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn marker_with_reason_lets_one_function_be_long() {
        let marker = "// tidy: long — one arm for each message\n#[inline]\n";
        let long = function("long", 80);
        assert_eq!(messages(&format!("//! Idea.\n{marker}{long}")), [""; 0]);
        assert_eq!(
            messages(&format!("//! Idea.\n{marker}{long}{long}")).len(),
            1
        );
        let inside = long.replacen("    x();\n", "    // tidy: long — arms\n", 1);
        assert_eq!(messages(&format!("//! Idea.\n{inside}")), [""; 0]);
    }

    #[test]
    fn marker_without_reason_does_not_count() {
        let long = function("long", 80);
        assert_eq!(
            messages(&format!("//! Idea.\n// tidy: long — \n{long}")).len(),
            1
        );
        assert_eq!(
            messages(&format!("//! Idea.\n// tidy: long\n{long}")).len(),
            1
        );
    }

    #[test]
    fn stale_marker_is_reported() {
        let text = format!("//! Idea.\n// tidy: long — arms\n{}", function("short", 9));
        assert_eq!(
            messages(&text),
            ["2: `// tidy: long` is not at a long function: remove it"]
        );
    }
}
