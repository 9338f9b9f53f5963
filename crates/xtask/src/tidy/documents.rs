//! Checks documents: links resolve, and the commands, crates and files that a document names exist.
//!
//! Dated pages in `docs/design` are frozen, and the changelog is history: of those only links are
//! checked. Links to the web are not followed.

use std::collections::BTreeSet;

use super::manifest::dependencies;
use super::rust_text::{attributes, has_word};
use super::{File, Problem, Tree};

/// Crates of the language itself, which no manifest names.
const LANGUAGE_CRATES: &[&str] = &["std", "core", "alloc"];

/// The names that documents may use.
struct Known<'a> {
    tree: &'a Tree,
    replex_commands: BTreeSet<String>,
    crates: BTreeSet<String>,
    /// Paths that git ignores, for files that commands make.
    ignored: Vec<&'a str>,
}

/// A document's text in the pieces that are checked.
#[derive(Default)]
struct Pieces {
    /// Line and text outside fences, inline code blanked.
    prose: Vec<(usize, String)>,
    /// Line and content of inline code, with the words before and after it.
    spans: Vec<Span>,
    /// Line and text inside fences.
    fenced: Vec<(usize, String)>,
}

struct Span {
    line: usize,
    content: String,
    before: String,
    after: String,
}

/// Checks the links, commands, crates and files in every document.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let known = Known {
        tree,
        replex_commands: replex_commands(tree),
        crates: crate_names(tree),
        ignored: tree
            .text(".gitignore")
            .unwrap_or_default()
            .lines()
            .collect(),
    };
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let pieces = pieces(&file.text);
        for (line, text) in &pieces.prose {
            for target in link_targets(text) {
                if let Some(message) = broken_link(tree, file, &target) {
                    problems.push(file.problem(*line, message));
                }
            }
        }
        if file.path.starts_with("docs/design/") || file.path == "CHANGELOG.md" {
            continue;
        }
        for (line, text) in &pieces.fenced {
            problems.extend(unknown_command(&known, text).map(|it| file.problem(*line, it)));
        }
        for span in &pieces.spans {
            let found = unknown_command(&known, &span.content)
                .or_else(|| unknown_path(&known, file, &span.content))
                .or_else(|| unknown_crate(&known, span));
            problems.extend(found.map(|message| file.problem(span.line, message)));
        }
    }
    problems
}

fn pieces(text: &str) -> Pieces {
    let mut pieces = Pieces::default();
    let mut fence: Option<&str> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        let marker = ["```", "~~~"]
            .into_iter()
            .find(|marker| start.starts_with(marker));
        match (fence, marker) {
            (None, Some(_)) => fence = marker,
            (Some(open), Some(close)) if open == close => fence = None,
            (Some(_), _) => pieces.fenced.push((number, line.to_string())),
            (None, None) => {
                let parts: Vec<&str> = line.split('`').collect();
                // Parts alternate between prose and code; without its closing mark it is prose.
                let mut prose = String::new();
                for (index, part) in parts.iter().enumerate() {
                    let is_code = index % 2 == 1 && index + 1 < parts.len();
                    if !is_code {
                        prose += part;
                        continue;
                    }
                    prose.push(' ');
                    pieces.spans.push(Span {
                        line: number,
                        content: part.to_string(),
                        before: parts[index - 1].to_string(),
                        after: parts[index + 1].to_string(),
                    });
                }
                pieces.prose.push((number, prose));
            }
        }
    }
    pieces
}

/// Targets of `[text](target)`, `[text]: target`, `src="target"` and `href="target"`.
fn link_targets(prose: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for (opening, closing) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        for (at, _) in prose.match_indices(opening) {
            let rest = &prose[at + opening.len()..];
            let target = rest.split(closing).next().unwrap_or_default();
            targets.extend(target.split_whitespace().next().map(String::from));
        }
    }
    if let Some((_, target)) = prose
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
    {
        targets.extend(target.split_whitespace().next().map(String::from));
    }
    targets
}

fn broken_link(tree: &Tree, file: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => file.path.clone(),
        _ => resolved(&file.path, path),
    };
    if !tree.exists(&path) {
        return Some(format!(
            "the link `{target}` leads nowhere: there is no `{path}`"
        ));
    }
    let text = tree
        .text(&path)
        .filter(|_| path.ends_with(".md") && !anchor.is_empty())?;
    let found = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| slug(line) == anchor);
    (!found).then(|| format!("the link `{target}` leads nowhere: no such heading in `{path}`"))
}

/// Returns the path of a link's `target` in the file `from`, relative to the root.
fn resolved(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchor that a heading gets: its letters and digits in lower case, spaces as hyphens.
fn slug(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character))
        .map(|character| if character == ' ' { '-' } else { character })
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the fault of the command that `text` is, if it is one of ours.
fn unknown_command(known: &Known<'_>, text: &str) -> Option<String> {
    let words: Vec<&str> = text
        .trim()
        .trim_start_matches("$ ")
        .split_whitespace()
        .collect();
    let is_word = |word: &&str| {
        word.starts_with(|character: char| character.is_ascii_lowercase())
            && word
                .chars()
                .all(|character| character.is_ascii_lowercase() || character == '-')
    };
    let (kind, name) = match words[..] {
        ["cargo", "xtask", name, ..] => ("cargo xtask", name),
        ["cargo", "run", ..] => {
            let other = ["-p", "--package", "--bin", "--example"];
            if words.iter().any(|word| other.contains(word)) {
                return None;
            }
            let separator = words.iter().position(|word| *word == "--")?;
            ("replex", *words.get(separator + 1)?)
        }
        [program, name, ..] if program == "replex" || program.ends_with("/replex") => {
            ("replex", name)
        }
        _ => return None,
    };
    let exists = match kind {
        "replex" => known.replex_commands.contains(name) || name == "help",
        _ => crate::COMMANDS.iter().any(|command| command.name == name),
    };
    (is_word(&name) && !exists).then(|| format!("there is no command `{kind} {name}`"))
}

/// Returns the fault of the path that `text` is, if it starts at the root or at one of the crates.
fn unknown_path(known: &Known<'_>, file: &File, text: &str) -> Option<String> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_./-".contains(character);
    let placeholder =
        |part: &str| part.len() > 1 && part.chars().all(|character| character.is_ascii_uppercase());
    let (first, _) = text.split_once('/')?;
    if !text.chars().all(plain) || text.split('/').any(placeholder) {
        return None;
    }
    let in_crate = format!("crates/{text}");
    let rooted = !first.is_empty() && known.tree.exists(first);
    let crated = known.tree.crates().contains(first);
    let exists = [text, &in_crate, &resolved(&file.path, text)]
        .into_iter()
        .any(|path| {
            known.tree.exists(path) || known.ignored.contains(&format!("/{path}").as_str())
        });
    ((rooted || crated) && !exists).then(|| format!("there is no file `{text}`"))
}

/// Returns the fault of the name in "crate `name`" or "`name` crate"; none if the crate exists.
fn unknown_crate(known: &Known<'_>, span: &Span) -> Option<String> {
    let before = span
        .before
        .split_whitespace()
        .next_back()
        .unwrap_or_default();
    let after = span.after.split_whitespace().next().unwrap_or_default();
    let is_named = span.before.ends_with(' ') && before.trim_start_matches('(') == "crate"
        || span.after.starts_with(' ')
            && after.trim_end_matches(|character: char| !character.is_alphanumeric()) == "crate";
    let is_known = known.crates.contains(&span.content);
    let is_name = !span.content.is_empty()
        && span
            .content
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c));
    (is_named && is_name && !is_known).then(|| format!("there is no crate `{}`", span.content))
}

/// Returns the crates of this repository, and the crates that the workspace declares.
fn crate_names(tree: &Tree) -> BTreeSet<String> {
    let declared = dependencies(tree.text("Cargo.toml").unwrap_or_default());
    let ours = tree
        .crates()
        .into_iter()
        .chain(LANGUAGE_CRATES.iter().copied());
    ours.map(String::from)
        .chain(declared.into_iter().map(|entry| entry.name))
        .collect()
}

/// Variants of the enums in crate `replex` that derive clap's `Subcommand`, as clap spells them.
fn replex_commands(tree: &Tree) -> BTreeSet<String> {
    let mut commands = BTreeSet::new();
    for (file, rust) in tree.rust_files() {
        if !file.path.starts_with("crates/replex/src/") {
            continue;
        }
        for (start, attribute) in attributes(&rust.code) {
            if !attribute.contains("derive(") || !has_word(attribute, "Subcommand") {
                continue;
            }
            let rest = &rust.code[start + attribute.len()..];
            if let Some(open) = rest.find('{') {
                let offset = start + attribute.len() + open + 1;
                commands.extend(variants(&rust.code[offset..], &file.text[offset..]));
            }
        }
    }
    commands
}

/// Returns names of an enum's variants. `code` starts after the opening brace; `text` is the same
/// with its literals, for `name = "…"`.
fn variants(code: &str, text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, byte) in code.bytes().enumerate() {
        let ends = depth == 0 && matches!(byte, b',' | b'}');
        if ends {
            let given = text[start..at]
                .split_once("name = \"")
                .and_then(|(_, rest)| rest.split('"').next());
            let own = code[start..at]
                .split(|character: char| !character.is_alphanumeric())
                .find(|word| word.starts_with(|character: char| character.is_ascii_uppercase()));
            names.extend(given.map(String::from).or(own.map(kebab_case)));
            start = at + 1;
        }
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b'}' if depth == 0 => break,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    names
}

fn kebab_case(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(character.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree;

    const COMMAND: &str = "//! The command.\n#[derive(clap::Subcommand)]\nenum Command {\n    \
        /// Shows, {all}.\n    Demo(Options),\n    #[command(name = \"serve\")]\n    \
        Server { id: u32 },\n    BulkImport,\n}\nenum Other { Hidden }\n";

    fn messages(path: &str, text: &str) -> Vec<String> {
        let files = [
            (path, text),
            ("crates/replex/src/main.rs", COMMAND),
            ("crates/replex/Cargo.toml", ""),
            ("Cargo.toml", "[workspace.dependencies]\nmio = \"1\"\n"),
            ("docs/other.md", "# A heading: `x`, two\n"),
            (".gitignore", "/data/made.csv\n"),
            ("data/README.md", ""),
        ];
        tree::messages(check, &files)
    }

    #[test]
    fn link_to_a_file_that_is_not_there() {
        let good = "[a](docs/other.md) ![b](data) [c](#here) [d](https://example.org/x)\n# Here\n\
                    [e]: docs/other.md\n<img src=\"docs/other.md\">\n`[f](gone.md)`\n";
        assert_eq!(messages("README.md", good), [""; 0]);
        for bad in [
            "[a](gone.md)",
            "![a](docs/gone.svg)",
            "[a]: gone.md",
            "<img src=\"gone.png\">",
        ] {
            let found = messages("README.md", bad);
            assert!(
                found.len() == 1 && found[0].contains("leads nowhere"),
                "{bad}: {found:?}"
            );
        }
        assert_eq!(
            messages("docs/a.md", "[a](other.md) [b](../data/README.md)\n"),
            [""; 0]
        );
        assert_eq!(messages("docs/a.md", "[a](docs/other.md)\n").len(), 1);
    }

    #[test]
    fn link_to_a_heading_that_is_not_there() {
        assert_eq!(
            messages("README.md", "[a](docs/other.md#a-heading-x-two)\n"),
            [""; 0]
        );
        let found = messages("README.md", "[a](docs/other.md#gone)\n");
        assert!(found[0].contains("no such heading"), "{found:?}");
    }

    #[test]
    fn command_that_does_not_exist() {
        let good = "`replex demo` `replex bulk-import x` `replex serve` `cargo xtask ci` `replex --help`\n\
                    ```sh\ncargo run --release -- demo\n./target/release/replex demo\nreplex NAME\n\
                    cargo run -p storage --example gone -- gone\n```\n";
        assert_eq!(messages("README.md", good), [""; 0]);
        for (bad, name) in [
            ("`replex server`", "replex server"),
            ("`replex hidden`", "replex hidden"),
            ("`cargo xtask gone`", "cargo xtask gone"),
            ("```sh\n$ replex gone --x\n```", "replex gone"),
            ("```\ncargo run --release -- gone\n```", "replex gone"),
        ] {
            let found = messages("README.md", bad);
            assert_eq!(found.len(), 1, "{bad}: {found:?}");
            assert!(
                found[0].ends_with(&format!("there is no command `{name}`")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn file_that_does_not_exist() {
        let good =
            "`docs/other.md` `data/made.csv` `replex/src/main.rs` `a/b` `docs/*.md` `docs/NAME`\n";
        assert_eq!(messages("README.md", good), [""; 0]);
        for bad in ["docs/gone.md", "crates/gone", "replex/src/gone.rs"] {
            let found = messages("README.md", &format!("see `{bad}`\n"));
            assert_eq!(found, [format!("1: there is no file `{bad}`")]);
        }
    }

    #[test]
    fn crate_that_does_not_exist() {
        let good = "the crate `replex`, crate `mio`, the `std` crate and `gone`\n";
        assert_eq!(messages("README.md", good), [""; 0]);
        for bad in ["crate `gone`", "(crate `gone`)", "the `gone` crate."] {
            assert_eq!(
                messages("README.md", bad),
                ["1: there is no crate `gone`"],
                "{bad}"
            );
        }
    }

    #[test]
    fn history_may_name_removed_items() {
        for path in ["CHANGELOG.md", "docs/design/2026-01-01-a.md"] {
            assert_eq!(
                messages(path, "`cargo xtask gone` in crate `gone`\n"),
                [""; 0]
            );
            assert_eq!(messages(path, "[a](gone.md)\n").len(), 1);
        }
    }
}
