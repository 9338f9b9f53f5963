//! Checks that every rule that code cites is in `docs/rules.md`, and that every rule there names
//! its guard.

use std::collections::BTreeMap;

use super::{File, Problem, Tree};

/// Where rules and invariants are written.
const PAGE: &str = "docs/rules.md";

/// Lists of planted bugs, which are guards.
const PLANTED: &[&str] = &[
    "crates/protocol/src/planted.rs",
    "crates/proxy-core/src/planted.rs",
    "crates/model/src/commit/planted.rs",
    "crates/model/src/cuts/planted.rs",
    "crates/model/src/fills/planted.rs",
    "crates/model/src/leases/planted.rs",
    "crates/model/src/seals/planted.rs",
    "crates/model/src/transactions/planted.rs",
];

/// Rules without a guard, and why.
const UNGUARDED: &[(&str, &str)] = &[("R30", "the proxy never replays statements")];

/// Names of documents that are not in the repository. Split so that this file passes.
const ELSEWHERE: &[&str] = &[
    concat!("SAF", "ETY"),
    concat!("DES", "IGN"),
    concat!("HIH", "OOI"),
];

/// A rule of the page.
struct Rule {
    line: usize,
    /// The names between backticks after `*Guard:*`.
    guards: Vec<String>,
}

/// Citations without a rule, rules without a guard, and guards that do not exist.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let Some(page) = tree.files.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let rules = rules(&page.text);
    let mut problems = Vec::new();
    for (name, rule) in &rules {
        let is_excepted = UNGUARDED.iter().any(|(unguarded, _)| unguarded == name);
        if rule.guards.is_empty() != is_excepted {
            let message = match is_excepted {
                true => format!("{name} has a guard: remove it from UNGUARDED in tidy/rules.rs"),
                false => format!(
                    "{name} names no guard: write `*Guard:*` and the check that notices a breach"
                ),
            };
            problems.push(page.problem(rule.line, message));
        }
        let missing = rule.guards.iter().filter(|guard| !exists(tree, guard));
        let problems_of_rule =
            missing.map(|guard| format!("{name} is guarded by `{guard}`, which is not there"));
        problems.extend(problems_of_rule.map(|message| page.problem(rule.line, message)));
    }
    let files = tree.files.iter().filter(|file| cites(file));
    for file in files {
        for (number, line) in (1..).zip(file.text.lines()) {
            let Some(text) = prose(file, line) else {
                continue;
            };
            for name in citations(text).filter(|name| !rules.contains_key(*name)) {
                let message = format!("{PAGE} has no rule {name}: add it, or cite another one");
                problems.push(file.problem(number, message));
            }
            for name in words(text).filter(|word| ELSEWHERE.contains(word)) {
                if !text.contains(&format!("{name}:")) {
                    let message = format!("{name} is not in the repository: cite {PAGE}");
                    problems.push(file.problem(number, message));
                }
            }
        }
    }
    problems
}

/// Returns whether the rules that a file cites must exist. Frozen pages may cite earlier rules.
fn cites(file: &File) -> bool {
    let is_document = file.path.ends_with(".md") && !file.path.starts_with("docs/design/");
    file.rust.is_some() || is_document && file.path != "CHANGELOG.md"
}

/// Returns the prose of a line: a comment, or all of a document's.
fn prose<'a>(file: &File, line: &'a str) -> Option<&'a str> {
    match file.rust {
        Some(_) => line.split_once("//").map(|(_, comment)| comment),
        None => Some(line),
    }
}

/// Returns entries such as `- **R1** …`, each up to the next one or a heading.
fn rules(text: &str) -> BTreeMap<String, Rule> {
    let mut rules: BTreeMap<String, Rule> = BTreeMap::new();
    let mut current: Option<(String, usize, String)> = None;
    let mut end = |current: &mut Option<(String, usize, String)>| {
        if let Some((name, line, text)) = current.take() {
            let guards = text.split_once("*Guard:*").map_or("", |(_, guards)| guards);
            let guards = guards.split('`').skip(1).step_by(2).map(str::to_owned);
            rules.insert(
                name,
                Rule {
                    line,
                    guards: guards.collect(),
                },
            );
        }
    };
    for (number, line) in (1..).zip(text.lines()) {
        let named = line
            .strip_prefix("- **")
            .and_then(|rest| rest.split_once("**"));
        if let Some((name, rest)) = named {
            end(&mut current);
            current = Some((name.to_owned(), number, rest.to_owned()));
        } else if line.starts_with('#') {
            end(&mut current);
        } else if let Some((_, _, text)) = &mut current {
            text.push(' ');
            text.push_str(line);
        }
    }
    end(&mut current);
    rules
}

fn exists(tree: &Tree, guard: &str) -> bool {
    if guard.contains('/') {
        return tree.paths.contains(guard);
    }
    let mut lists = tree
        .files
        .iter()
        .filter(|file| PLANTED.contains(&&*file.path));
    lists.any(|list| words(&list.text).any(|word| word == guard))
}

/// Returns names of rules: `R`, `I` or `P` and at most two digits.
fn citations(text: &str) -> impl Iterator<Item = &str> {
    words(text).filter(|word| {
        let digits = word.strip_prefix(['R', 'I', 'P']);
        digits.is_some_and(|digits| {
            matches!(digits.len(), 1 | 2) && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |character: char| character.is_alphanumeric() || "_-".contains(character);
    text.split(move |character| !is_part(character))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree;

    const PLANTED_BUG: (&str, &str) = (PLANTED[0], "Bug = \"vote-changes\", \"R1\";\n");

    fn messages(page: &str, code: &str) -> Vec<String> {
        let files = [(PAGE, page), PLANTED_BUG, ("crates/a/src/lib.rs", code)];
        tree::messages(check, &files)
    }

    #[test]
    fn rules_with_guards_that_code_cites() {
        let page = "- **R1** A vote\n  stays. *Guard:* `vote-changes`, `crates/a/src/lib.rs`.\n";
        assert_eq!(
            messages(page, "// Kept (R1), unlike R100 or xR2.\nlet R2 = 1;\n"),
            [""; 0]
        );
    }

    #[test]
    fn citation_without_a_rule() {
        let found = messages("", "/// See R7, I3.\n");
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("has no rule R7"), "{found:?}");
    }

    #[test]
    fn rule_without_a_guard() {
        let found = messages("- **R1** A vote stays.\n", "");
        assert_eq!(
            found,
            ["1: R1 names no guard: write `*Guard:*` and the check that notices a breach"]
        );
        assert_eq!(messages("- **R30** No replay.\n", ""), [""; 0]);
        let found = messages("- **R30** No replay. *Guard:* `vote-changes`.\n", "");
        assert!(found[0].contains("remove it from UNGUARDED"), "{found:?}");
    }

    #[test]
    fn guard_that_is_not_there() {
        let found = messages(
            "- **R1** A vote stays. *Guard:* `vote-goes`, `a/b.rs`.\n",
            "",
        );
        assert_eq!(found.len(), 2);
        assert!(
            found[0].contains("`vote-goes`, which is not there"),
            "{found:?}"
        );
    }

    #[test]
    fn document_of_elsewhere() {
        let name = ELSEWHERE[0];
        let found = messages(
            "",
            &format!("// As {name} demands.\n// {name}: it is sound.\n"),
        );
        assert_eq!(
            found,
            [format!("1: {name} is not in the repository: cite {PAGE}")]
        );
    }
}
