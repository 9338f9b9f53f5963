//! Reads the dependencies in a `Cargo.toml`. It parses as much of TOML as these tables use.
//!
//! Values are not read beyond `path`, `package` and `workspace`.

/// One entry of a table of dependencies.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The table, for instance `dependencies` or `target.'cfg(unix)'.dev-dependencies`.
    pub table: String,
    /// The crate's name; `package` if the entry renames it.
    pub name: String,
    /// Line, from 1.
    pub line: usize,
    /// Whether the dependency names a folder.
    pub has_path: bool,
    /// Whether the dependency takes its version and features from the workspace.
    pub from_workspace: bool,
    /// Whether the line above is a comment.
    pub has_comment: bool,
}

/// Returns every dependency of every table, in the order of the file.
pub fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut table = String::new();
    let mut depth = 0_i32;
    let mut above_is_comment = false;
    for (line, content) in (1..).zip(text.lines().map(without_comment)) {
        let has_comment = above_is_comment;
        above_is_comment = content.is_comment;
        let code = content.code.trim();
        let opening_depth = depth;
        depth += nesting(code);
        if opening_depth == 0 && code.starts_with('[') {
            table = code.trim_matches(['[', ']']).trim().to_string();
            depth = 0;
            // `[dependencies.NAME]` is an entry whose fields follow one a line.
            if let Some((parent, name)) = table.rsplit_once('.')
                && is_dependency_table(parent)
            {
                let (table, name) = (parent.to_string(), unquoted(name));
                found.push(Dependency {
                    table,
                    name,
                    has_comment,
                    line,
                    ..Dependency::default()
                });
            }
            continue;
        }
        let entry = (opening_depth == 0).then(|| code.split_once('=')).flatten();
        if let Some((key, value)) = entry.filter(|_| is_dependency_table(&table)) {
            let (name, field) = key.trim().split_once('.').unwrap_or((key.trim(), ""));
            let name = unquoted(name);
            let table = table.clone();
            found.push(Dependency {
                table,
                name,
                line,
                has_comment,
                ..Dependency::default()
            });
            read_fields(&format!("{field}={value}"), &mut found);
        } else if in_entry(&table) || (opening_depth > 0 && is_dependency_table(&table)) {
            read_fields(code, &mut found);
        }
    }
    found
}

impl Default for Dependency {
    fn default() -> Dependency {
        Dependency {
            table: String::new(),
            name: String::new(),
            line: 1,
            has_path: false,
            from_workspace: false,
            has_comment: false,
        }
    }
}

struct Line<'a> {
    code: &'a str,
    is_comment: bool,
}

/// Cuts a line at a `#` that is outside quotes.
fn without_comment(line: &str) -> Line<'_> {
    let mut quote = None;
    for (at, character) in line.char_indices() {
        match (quote, character) {
            (None, '#') => {
                return Line {
                    code: &line[..at],
                    is_comment: line[..at].trim().is_empty(),
                };
            }
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    Line {
        code: line,
        is_comment: false,
    }
}

fn nesting(code: &str) -> i32 {
    code.chars()
        .map(|character| match character {
            '[' | '{' => 1,
            ']' | '}' => -1,
            _ => 0,
        })
        .sum()
}

fn is_dependency_table(table: &str) -> bool {
    matches!(
        table.rsplit('.').next(),
        Some("dependencies" | "dev-dependencies" | "build-dependencies")
    )
}

fn in_entry(table: &str) -> bool {
    table
        .rsplit_once('.')
        .is_some_and(|(parent, _)| is_dependency_table(parent))
}

/// Fields of the newest entry, from any part of its value.
fn read_fields(value: &str, found: &mut [Dependency]) {
    let Some(newest) = found.last_mut() else {
        return;
    };
    for field in value.split([',', '{', '}']) {
        let Some((key, value)) = field.split_once('=') else {
            continue;
        };
        match key.trim() {
            "path" => newest.has_path = true,
            "package" => newest.name = unquoted(value),
            "workspace" => newest.from_workspace = value.trim() == "true",
            _ => {}
        }
    }
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['"', '\'']).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r##"
[package]
name = "a"
path = "b"

[dependencies]
# Why.
one.workspace = true
two = { workspace = true, features = ["x", "y#z"] } # not above three
three = { path = "../three", package = "real-three" }
"four" = "1"
five = { version = "1", features = [
    "a = b",
    "c",
] }
six = "1"

[dev-dependencies.seven]
workspace = true

[target.'cfg(unix)'.build-dependencies]
eight = "1"

[features]
nine = []
"##;

    #[test]
    fn entries_of_all_tables_are_found() {
        let names: Vec<(String, usize)> = dependencies(MANIFEST)
            .into_iter()
            .map(|entry| (entry.name, entry.line))
            .collect();
        let expected = [
            ("one", 8),
            ("two", 9),
            ("real-three", 10),
            ("four", 11),
            ("five", 12),
            ("six", 16),
            ("seven", 18),
            ("eight", 22),
        ];
        assert_eq!(names, expected.map(|(name, line)| (name.to_string(), line)));
    }

    #[test]
    fn fields_are_read_in_every_form() {
        let entries = dependencies(MANIFEST);
        let named = |field: fn(&Dependency) -> bool| -> Vec<&str> {
            entries
                .iter()
                .filter(|entry| field(entry))
                .map(|entry| entry.name.as_str())
                .collect()
        };
        assert_eq!(named(|entry| entry.from_workspace), ["one", "two", "seven"]);
        assert_eq!(named(|entry| entry.has_path), ["real-three"]);
        assert_eq!(named(|entry| entry.has_comment), ["one"]);
        assert_eq!(entries[7].table, "target.'cfg(unix)'.build-dependencies");
    }

    #[test]
    fn nonsense_does_not_panic() {
        for text in [
            "[",
            "]",
            "[dependencies]\n=",
            "[dependencies]\n}}\na",
            "#",
            "'",
            "[.]",
        ] {
            dependencies(text);
        }
    }
}
