//! `cargo xtask tidy`: the checks that compilers and linters do not make.
//!
//! Every check is a pure function from the tree of files to problems, so that its tests show it
//! failing on a tree of their own. Checks read text with a small scanner, not with a parser: they
//! are meant to be simple, and to be wrong only on code that no developer would write.

mod circles;
mod dependencies;
mod doc_comments;
mod documents;
mod edges;
mod lengths;
mod manifest;
mod modules;
mod names;
mod places;
mod purity;
mod rules;
mod rust_text;
mod subjects;
mod tree;
mod words;

use std::path::Path;

pub use tree::Tree;
use tree::{File, Problem};

/// The output of `cargo xtask tidy --help`.
pub const HELP: &str = "Usage: cargo xtask tidy\n\n\
    Every Rust file opens with `//!`, has at most 800 lines, comments of at most 100 columns and\n\
    functions of at most 70 lines (where a dispatching match needs more: `// tidy: long —\n\
    REASON`). Crates depend on each other only as the table in crates/xtask/src/tidy/edges.rs\n\
    allows, and modules with the same parent import each other in one direction. No two public\n\
    types share a name. Doc comments ask nothing, and those of public functions begin with a\n\
    verb. `placement` and `protocol` touch no clock, thread, randomness or hash order. No\n\
    unfinished code, no unwrap outside tests, no allow without a reason. Every dependency has its\n\
    reason above it. Links in documents resolve, and the commands, crates and files that they name\n\
    exist. No path or host of one machine. Comments cite rules of docs/rules.md, and each rule\n\
    there names its guard. Code and documents avoid the words in\n\
    crates/xtask/src/tidy/words.rs, and sentences name their subject where `What` could stand.";

type Check = fn(&Tree) -> Vec<Problem>;

/// All checks, each with the word that its problems are printed under.
const CHECKS: &[(&str, Check)] = &[
    ("length", lengths::check),
    ("purity", purity::check),
    ("edge", edges::check),
    ("circle", circles::check),
    ("name", names::check),
    ("comment", doc_comments::check),
    ("dependency", dependencies::check),
    ("document", documents::check),
    ("place", places::check),
    ("rule", rules::check),
    ("subject", subjects::check),
    ("word", words::check),
];

/// Checks the tree under `root` and prints every problem.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    crate::no_arguments(arguments)?;
    let tree = Tree::read(root)?;
    let mut count = 0;
    for (name, check) in CHECKS {
        for problem in check(&tree) {
            println!(
                "{}:{}: {name}: {}",
                problem.path, problem.line, problem.message
            );
            count += 1;
        }
    }
    match count {
        0 => Ok(()),
        1 => Err("tidy found 1 problem".into()),
        _ => Err(format!("tidy found {count} problems")),
    }
}
