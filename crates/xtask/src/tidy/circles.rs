//! Checks that sibling modules import each other in one direction only. A circle is a fault of
//! design.
//!
//! Siblings have the same parent. An import of a module from its own parent, or of a parent from
//! its children, is no edge: a child may continue its parent's code.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{ModulePath, ModuleTree};
use super::{File, Problem, Tree};

/// The line that makes an edge: the first such line.
struct Edge<'a> {
    file: &'a File,
    line: usize,
    path: String,
}

type Edges<'a> = BTreeMap<String, BTreeMap<String, Edge<'a>>>;

/// Circles among sibling modules.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for name in tree.crates() {
        for root in ["lib.rs", "main.rs"] {
            let root = format!("crates/{name}/src/{root}");
            let Some(modules) = ModuleTree::read(tree, &root) else {
                continue;
            };
            for (parent, edges) in sibling_edges(&modules) {
                let parent = [&[name.to_owned()][..], &parent[..]].concat().join("::");
                let groups = groups(&edges);
                problems.extend(groups.iter().map(|group| problem(&parent, group, &edges)));
            }
        }
    }
    problems
}

/// Returns for each parent module the pairs of its children of which the first names something of
/// the second.
fn sibling_edges<'a>(modules: &ModuleTree<'a>) -> BTreeMap<ModulePath, Edges<'a>> {
    let mut edges: BTreeMap<ModulePath, Edges<'a>> = BTreeMap::new();
    for (from, module) in modules.modules() {
        for named in &module.paths {
            let Some(to) = modules.origin(from, &named.words) else {
                continue;
            };
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let (Some(user), Some(used)) = (from.get(shared), to.get(shared)) else {
                continue;
            };
            let of_parent = edges.entry(from[..shared].to_vec()).or_default();
            let of_user = of_parent.entry(user.clone()).or_default();
            of_user.entry(used.clone()).or_insert_with(|| Edge {
                file: module.file,
                line: named.line,
                path: named.words.join("::"),
            });
        }
    }
    edges
}

/// Returns the sets of modules each of which reaches every other.
fn groups(edges: &Edges<'_>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = edges
        .keys()
        .map(|module| (module, reached_from(module, edges)))
        .collect();
    let mut groups: Vec<Vec<String>> = Vec::new();
    for (module, targets) in &reached {
        let is_new = !groups.iter().any(|group| group.contains(module));
        if is_new && targets.contains(module) {
            let members = targets.iter().filter(|other| {
                reached
                    .get(*other)
                    .is_some_and(|back| back.contains(module))
            });
            groups.push(members.map(|member| (*member).clone()).collect());
        }
    }
    groups
}

fn reached_from<'e>(module: &str, edges: &'e Edges<'_>) -> BTreeSet<&'e String> {
    let mut reached = BTreeSet::new();
    let mut unvisited = vec![module];
    while let Some(module) = unvisited.pop() {
        for target in edges.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(target) {
                unvisited.push(target.as_str());
            }
        }
    }
    reached
}

/// Returns the shortest way from a member of a group back to it; that member begins and ends it.
fn circle(group: &[String], edges: &Edges<'_>) -> Vec<String> {
    let shortest = group.iter().filter_map(|start| way_back(start, edges));
    shortest.min_by_key(Vec::len).unwrap_or_default()
}

fn way_back(start: &str, edges: &Edges<'_>) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![start.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for target in edges.get(way.last()?).into_iter().flat_map(BTreeMap::keys) {
            let longer = [&way[..], std::slice::from_ref(target)].concat();
            if target.as_str() == start {
                return Some(longer);
            }
            if seen.insert(target) {
                ways.push_back(longer);
            }
        }
    }
    None
}

fn problem(parent: &str, group: &[String], edges: &Edges<'_>) -> Problem {
    let circle = circle(group, edges);
    let steps: Vec<&Edge<'_>> = circle
        .windows(2)
        .map(|step| &edges[&step[0]][&step[1]])
        .collect();
    let mut message = format!("circle in `{parent}`: {}", circle.join(" -> "));
    for step in &steps {
        message += &format!("\n    {}:{}: {}", step.file.path, step.line, step.path);
    }
    if group.len() + 1 > circle.len() {
        message += &format!("\n    one of those among {}", group.join(", "));
    }
    message += "\n    move the code that both need to a module below them";
    steps[0].file.problem(steps[0].line, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: (&str, &str) = ("crates/a/src/lib.rs", "mod one;\nmod two;\nmod three;\n");

    fn messages(modules: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = modules
            .iter()
            .map(|(name, _)| format!("crates/a/src/{name}.rs"))
            .collect();
        let texts = modules.iter().map(|(_, text)| *text);
        let mut files: Vec<(&str, &str)> = paths.iter().map(String::as_str).zip(texts).collect();
        files.push(("crates/a/Cargo.toml", ""));
        if !files.iter().any(|(path, _)| *path == ROOT.0) {
            files.push(ROOT);
        }
        let problems = check(&Tree::of(&files)).into_iter();
        problems.map(|problem| problem.message).collect()
    }

    #[test]
    fn circle_is_shown_with_its_lines() {
        let found = messages(&[
            ("one", "use crate::two::Two;\npub struct One;\n"),
            ("two", "pub struct Two;\nfn f() -> super::three::Three {}\n"),
            ("three", "use crate::one::One;\npub struct Three;\n"),
        ]);
        assert_eq!(
            found,
            ["circle in `a`: one -> two -> three -> one\n    \
              crates/a/src/one.rs:1: crate::two::Two\n    \
              crates/a/src/two.rs:2: super::three::Three\n    \
              crates/a/src/three.rs:1: crate::one::One\n    \
              move the code that both need to a module below them"]
        );
    }

    #[test]
    fn one_direction_is_fine() {
        let found = messages(&[
            ("one", "use crate::two::Two;\nuse crate::three::Three;\n"),
            ("two", "use super::three::Three;\npub struct Two;\n"),
            ("three", "pub struct Three;\n"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn name_through_the_parent_counts_for_its_module() {
        let found = messages(&[
            ("lib", "mod one;\nmod two;\nuse two::Two;\n"),
            ("one", "use crate::Two;\npub struct One;\n"),
            ("two", "use super::one;\npub struct Two(one::One);\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("circle in `a`: one -> two -> one"));
    }

    #[test]
    fn cousins_count_for_the_siblings_above_them() {
        let found = messages(&[
            ("one", "mod inner;\npub struct One;\n"),
            ("one/inner", "use crate::two::Two;\n"),
            ("two", "use crate::one::One;\npub struct Two;\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn parents_and_tests_make_no_circle() {
        let found = messages(&[
            (
                "lib",
                "mod one;\nmod two;\npub struct Here;\nuse one::One;\n",
            ),
            ("one", "use crate::Here;\npub struct One;\n"),
            ("two", "use super::one::One;\npub struct Two;\n"),
            ("one/tests", "use crate::two::Two;\n"),
        ]);
        assert_eq!(found, [""; 0]);
        let with_tests =
            "pub struct One;\n#[cfg(test)]\nmod tests {\n    use crate::two::Two;\n}\n";
        let two = ("two", "use super::one::One;\npub struct Two;\n");
        assert_eq!(messages(&[("one", with_tests), two]), [""; 0]);
    }
}
