//! Finds the modules of a crate, the definitions and imports of each, and the module that a path
//! leads to.
//!
//! It reads names as text: a path through a macro, a method or a trait leads nowhere here. Code of
//! tests is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::rust_text::line_of;
use super::{File, Tree};

/// Names of modules from the crate's root, which is the empty path.
pub type ModulePath = Vec<String>;

/// Imports that lead to each other are followed this far.
const IMPORTS_FOLLOWED_MAX: usize = 16;

/// Words after which the name of an item stands.
const ITEM_WORDS: &[&str] = &[
    "struct", "enum", "trait", "fn", "const", "static", "type", "union",
];

/// A library or a program with all its modules.
pub struct ModuleTree<'a> {
    modules: BTreeMap<ModulePath, Module<'a>>,
}

/// A module, in a file of its own or inline.
pub struct Module<'a> {
    /// The file that contains the module.
    pub file: &'a File,
    /// Paths of more than one word in its text, imports included.
    pub paths: Vec<NamedPath>,
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    imports: Vec<Import>,
}

/// A path as a line of code has it.
#[derive(Clone, Debug)]
pub struct NamedPath {
    /// Its words in order; the last may be `*`.
    pub words: Vec<String>,
    /// The line, from 1.
    pub line: usize,
}

struct Import {
    words: Vec<String>,
    /// The name that it brings into the module; `*` for all names of another one.
    name: String,
}

impl<'a> ModuleTree<'a> {
    /// Reads the file at `root`, a `lib.rs` or a `main.rs`, and the modules that it declares.
    pub fn read(tree: &'a Tree, root: &str) -> Option<ModuleTree<'a>> {
        let files: BTreeMap<&str, &File> = tree
            .rust_files()
            .map(|(file, _)| (file.path.as_str(), file))
            .collect();
        let mut modules = BTreeMap::new();
        let root = *files.get(root)?;
        let mut unread = vec![(ModulePath::new(), root, code_without_tests(root))];
        while let Some((path, file, code)) = unread.pop() {
            let scanned = Scan::new(&code).module(file);
            let mut module = scanned.module;
            for (name, body) in scanned.declared {
                let mut child = path.clone();
                child.push(name.clone());
                let (file, code) = match body {
                    Some(code) => (file, code),
                    None => match file_of(&files, &path, file, &name) {
                        Some(file) => (file, code_without_tests(file)),
                        None => continue,
                    },
                };
                module.children.insert(name);
                unread.push((child, file, code));
            }
            modules.insert(path, module);
        }
        Some(ModuleTree { modules })
    }

    /// Returns every module with its path.
    pub fn modules(&self) -> impl Iterator<Item = (&ModulePath, &Module<'a>)> {
        self.modules.iter()
    }

    /// Returns the module that defines the item that `words` name in the module `from`, as far as
    /// the text shows it; none for items of other crates. A name that a module imports is followed
    /// to its origin.
    pub fn origin(&self, from: &[String], words: &[String]) -> Option<ModulePath> {
        self.follow(from, words, 0)
    }

    fn follow(&self, from: &[String], words: &[String], followed: usize) -> Option<ModulePath> {
        if followed > IMPORTS_FOLLOWED_MAX {
            return None;
        }
        let mut at = from.to_vec();
        let mut rest = words;
        match rest.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                let module = self.modules.get(from)?;
                if !module.children.contains(first) {
                    let import = module.imports.iter().find(|import| {
                        import.name == first && import.words.first() != words.first()
                    })?;
                    let words = [&import.words[..], &rest[1..]].concat();
                    return self.follow(from, &words, followed + 1);
                }
            }
        }
        while let Some((word, behind)) = rest.split_first() {
            let module = self.modules.get(&at)?;
            if module.children.contains(word) {
                at.push(word.clone());
                rest = behind;
                continue;
            }
            if word != "*" && !module.items.contains(word) {
                return self.imported(&at, rest, followed).or(Some(at));
            }
            break;
        }
        Some(at)
    }

    /// Returns the path of these words if the module `at` imports the first of them; none
    /// otherwise.
    fn imported(&self, at: &[String], words: &[String], followed: usize) -> Option<ModulePath> {
        let (word, behind) = words.split_first()?;
        let imports = &self.modules.get(at)?.imports;
        if let Some(import) = imports.iter().find(|import| import.name == *word) {
            let words = [&import.words[..], behind].concat();
            return self.follow(at, &words, followed + 1);
        }
        let mut globs = imports.iter().filter(|import| import.name == "*");
        globs.find_map(|import| {
            let (_, of) = import.words.split_last()?;
            let source = self.follow(at, of, followed + 1)?;
            let module = self.modules.get(&source)?;
            let has = module.items.contains(word)
                || module.children.contains(word)
                || module.imports.iter().any(|import| import.name == *word);
            let words = [&["self".to_owned()][..], words].concat();
            has.then(|| self.follow(&source, &words, followed + 1))?
        })
    }
}

/// Returns the file of a module that the file `parent`, of the module at `path`, declares.
fn file_of<'a>(
    files: &BTreeMap<&str, &'a File>,
    path: &[String],
    parent: &File,
    name: &str,
) -> Option<&'a File> {
    let (folder, stem) = parent.path.strip_suffix(".rs")?.rsplit_once('/')?;
    let folder = match path.is_empty() || stem == "mod" {
        true => folder.to_owned(),
        false => format!("{folder}/{stem}"),
    };
    let at = |path: String| files.get(path.as_str()).copied();
    at(format!("{folder}/{name}.rs")).or_else(|| at(format!("{folder}/{name}/mod.rs")))
}

/// Returns the code of a file as [`RustText`](super::rust_text::RustText) has it, with the lines of
/// tests blank.
fn code_without_tests(file: &File) -> String {
    let lines = file.rust.iter().flat_map(|rust| rust.lines());
    let mut code = String::new();
    for (_, line, is_test) in lines {
        if !is_test {
            code.push_str(line);
        }
        code.push('\n');
    }
    code
}

/// A word, `::`, or one character of anything else but white space.
struct Token<'a> {
    text: &'a str,
    offset: usize,
}

struct Scanned<'a> {
    module: Module<'a>,
    /// Modules that are declared in it, with the code of the inline ones, each line in its place.
    declared: Vec<(String, Option<String>)>,
}

struct Scan<'a> {
    code: &'a str,
    tokens: Vec<Token<'a>>,
}

impl<'a> Scan<'a> {
    fn new(code: &'a str) -> Scan<'a> {
        let mut tokens = Vec::new();
        let mut offset = 0;
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        while let Some(first) = code[offset..].chars().next() {
            let rest = &code[offset..];
            let length = if is_word(first) {
                rest.find(|character| !is_word(character))
                    .unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            if !first.is_whitespace() {
                let text = &rest[..length];
                tokens.push(Token { text, offset });
            }
            offset += length;
        }
        Scan { code, tokens }
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn is_word(&self, at: usize) -> bool {
        self.text(at)
            .starts_with(|first: char| first.is_alphabetic() || first == '_')
    }

    /// Returns the index of the token that closes the bracket at `at`, or the end.
    fn closing(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        for index in at..self.tokens.len() {
            match self.text(index) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return index;
                    }
                }
                _ => {}
            }
        }
        self.tokens.len()
    }

    fn module<'f>(&self, file: &'f File) -> Scanned<'f> {
        let mut module = Module {
            file,
            paths: Vec::new(),
            children: BTreeSet::new(),
            items: BTreeSet::new(),
            imports: Vec::new(),
        };
        let mut declared = Vec::new();
        let mut depth = 0_usize;
        let mut at = 0;
        while at < self.tokens.len() {
            let text = self.text(at);
            let behind = self.text(at + 2);
            match text {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "mod" if depth == 0 && behind == ";" => {
                    declared.push((self.text(at + 1).to_owned(), None));
                    at += 2;
                }
                "mod" if depth == 0 && behind == "{" => {
                    let end = self.closing(at + 2);
                    let code = self.only(at + 3, end);
                    declared.push((self.text(at + 1).to_owned(), Some(code)));
                    at = end;
                }
                "use" if self.text(at + 1) != "<" => at = self.import(at, &mut module),
                "macro_rules" if !behind.is_empty() => {
                    module.items.insert(behind.to_owned());
                }
                _ if ITEM_WORDS.contains(&text) && depth == 0 && self.begins_item(at) => {
                    module.items.insert(self.text(at + 1).to_owned());
                }
                _ => at = self.path(at, &mut module.paths),
            }
            at += 1;
        }
        Scanned { module, declared }
    }

    /// Returns whether an item may begin at a word, as it does not at that of `&'static T` or
    /// `*const T`.
    fn begins_item(&self, at: usize) -> bool {
        let before = at.checked_sub(1).map_or("", |before| self.text(before));
        let qualifiers = ["pub", "unsafe", "const", "async", "extern"];
        ["", ";", "}", "]", ")"].contains(&before) || qualifiers.contains(&before)
    }

    /// Returns the code from one token up to another, everything else blank.
    fn only(&self, from: usize, to: usize) -> String {
        let offset = |at: usize| {
            self.tokens
                .get(at)
                .map_or(self.code.len(), |token| token.offset)
        };
        let lines_before = line_of(self.code, offset(from)) - 1;
        let mut code = "\n".repeat(lines_before);
        code.push_str(&self.code[offset(from)..offset(to)]);
        code
    }

    /// Notes the import at `at` and returns its last token.
    fn import(&self, at: usize, module: &mut Module<'_>) -> usize {
        let line = line_of(self.code, self.tokens[at].offset);
        let mut prefixes: Vec<Vec<String>> = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut alias = None;
        let mut index = at + 1;
        loop {
            match self.text(index) {
                "{" => prefixes.push(words.clone()),
                end @ ("," | "}" | ";" | "") => {
                    if words.len() > prefixes.last().map_or(0, Vec::len) {
                        if words.last().is_some_and(|last| last == "self") {
                            words.pop();
                        }
                        let last = words.last().cloned().unwrap_or_default();
                        module.imports.push(Import {
                            words: words.clone(),
                            name: alias.take().unwrap_or(last),
                        });
                        let words = words.clone();
                        module.paths.push(NamedPath { words, line });
                    }
                    match end {
                        "," => words = prefixes.last().cloned().unwrap_or_default(),
                        // The path before the brace has been noted with the paths in it.
                        "}" => {
                            prefixes.pop();
                            words = prefixes.last().cloned().unwrap_or_default();
                        }
                        _ => return index,
                    }
                }
                "as" => {
                    alias = Some(self.text(index + 1).to_owned());
                    index += 1;
                }
                "::" => {}
                word => words.push(word.to_owned()),
            }
            index += 1;
        }
    }

    /// Notes the path that begins at `at`, if one does, and returns its last token.
    fn path(&self, at: usize, paths: &mut Vec<NamedPath>) -> usize {
        let is_inside = at > 0 && matches!(self.text(at - 1), "::" | ".");
        let mut words = Vec::new();
        let mut end = at;
        while self.is_word(end) {
            words.push(self.text(end).to_owned());
            if self.text(end + 1) != "::" || !self.is_word(end + 2) {
                break;
            }
            end += 2;
        }
        if words.len() > 1 && !is_inside {
            let line = line_of(self.code, self.tokens[at].offset);
            paths.push(NamedPath { words, line });
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(files: &[(&str, &str)], from: &str, path: &str) -> Option<String> {
        let tree = Tree::of(files);
        let modules = ModuleTree::read(&tree, "crates/a/src/lib.rs").unwrap();
        let words = |path: &str| -> ModulePath {
            let words = path.split("::").filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        };
        let origin = modules.origin(&words(from), &words(path))?;
        Some(origin.join("::"))
    }

    #[test]
    fn paths_lead_to_the_module_that_defines() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod one;\nmod two;\npub use two::deep::Thing as Other;\nfn at_root() {}\n",
            ),
            ("crates/a/src/one.rs", "use super::two::{self, deep};\n"),
            (
                "crates/a/src/two/mod.rs",
                "pub mod deep;\npub use deep::*;\npub mod inline { pub struct Inside; }\n",
            ),
            ("crates/a/src/two/deep.rs", "pub struct Thing;\n"),
        ];
        for (path, expected) in [
            ("crate::two::deep::Thing", Some("two::deep")),
            ("super::two::Thing", Some("two::deep")),
            ("crate::Other::new", Some("two::deep")),
            ("deep::Thing", Some("two::deep")),
            ("two::Thing", Some("two::deep")),
            ("two::inline::Inside", Some("two::inline")),
            ("super::at_root", Some("")),
            ("self::nothing", Some("one")),
            ("std::mem::take", None),
        ] {
            assert_eq!(origin(&files, "one", path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn imports_that_lead_to_each_other_end() {
        let files = [
            ("crates/a/src/lib.rs", "mod one;\nmod two;\nuse one::X;\n"),
            ("crates/a/src/one.rs", "pub use super::two::X;\n"),
            ("crates/a/src/two.rs", "pub use super::one::X;\n"),
        ];
        assert!(origin(&files, "", "crate::X").is_some());
    }

    #[test]
    fn trees_of_imports_and_inline_paths_are_read() {
        let text = "use a::{b::{C, self}, d as e};\nfn f(x: g::H) {\n    i::j::<k::L>(m.n::<O>());\n\
                    }\n#[cfg(test)]\nmod tests { use super::unseen; }\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", text)]);
        let modules = ModuleTree::read(&tree, "crates/a/src/lib.rs").unwrap();
        let (_, root) = modules.modules().next().unwrap();
        let paths = root.paths.iter();
        let found: Vec<_> = paths
            .map(|path| format!("{}: {}", path.line, path.words.join("::")))
            .collect();
        let expected = [
            "1: a::b::C",
            "1: a::b",
            "1: a::d",
            "2: g::H",
            "3: i::j",
            "3: k::L",
        ];
        assert_eq!(found, expected);
        let names: Vec<_> = root.imports.iter().map(|import| &*import.name).collect();
        assert_eq!(names, ["C", "b", "e"]);
    }
}
