//! Scans Rust text: finds which bytes are code, which lines are tests, and where functions end.
//!
//! It knows comments, literals and brackets, and leaves out everything that needs a grammar.

/// A Rust file, scanned.
pub struct RustText {
    /// The file with comments and literals replaced by spaces, byte for byte in the same place.
    pub code: String,
    /// For each line, whether it belongs to code that only tests see.
    pub test_lines: Vec<bool>,
    /// Functions with bodies, nested ones included, by first line.
    pub functions: Vec<Function>,
    /// Modules that are declared here for tests and live in files of their own.
    pub test_modules: Vec<String>,
}

/// A function with a body. Lines count from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of the word `fn`.
    pub first_line: usize,
    /// The line of the closing brace.
    pub last_line: usize,
}

impl RustText {
    /// Scans a file. Text that is not valid Rust gives some answer, and never a panic.
    pub fn new(source: &str) -> RustText {
        let code = blank(source);
        let mut test_lines = vec![false; source.lines().count()];
        let mut test_modules = Vec::new();
        for (start, attribute) in attributes(&code) {
            if !is_test_attribute(attribute) {
                continue;
            }
            if attribute.starts_with("#!") {
                test_lines.fill(true);
                break;
            }
            let item = start + attribute.len();
            let end = item_end(&code, item);
            if let Some(module) = declared_module(&code[item..end]) {
                test_modules.push(module);
            }
            for line in line_of(&code, start)..=line_of(&code, end.saturating_sub(1)) {
                if let Some(flag) = test_lines.get_mut(line - 1) {
                    *flag = true;
                }
            }
        }
        let functions = functions(&code);
        RustText {
            code,
            test_lines,
            functions,
            test_modules,
        }
    }

    /// Returns lines of code from 1, each with whether only tests see it.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let flags = self.test_lines.iter().copied();
        self.code
            .lines()
            .zip(flags)
            .enumerate()
            .map(|(at, (code, test))| (at + 1, code, test))
    }
}

/// Returns whether `word` stands in `line` with no letter, digit or underscore against its ends.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let joins = |character: char| character.is_alphanumeric() || character == '_';
        let starts_joined = word.starts_with(joins) && line[..at].ends_with(joins);
        let ends_joined = word.ends_with(joins) && line[at + word.len()..].starts_with(joins);
        !starts_joined && !ends_joined
    })
}

/// Returns every attribute with the offset where it starts, brackets included.
pub fn attributes(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices('#') {
        let rest = &code[start..];
        let opening = if rest.starts_with("#![") { 2 } else { 1 };
        if rest.as_bytes().get(opening) != Some(&b'[') {
            continue;
        }
        if let Some(length) = bracketed_length(&rest[opening..]) {
            found.push((start, &rest[..opening + length]));
        }
    }
    found
}

/// Returns the line, from 1, of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

/// Returns the paths, without `.rs`, of the files with the test modules that the file at `path`
/// declares.
pub fn test_only_prefixes(path: &str, rust: &RustText) -> Vec<String> {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let folder = match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    };
    rust.test_modules
        .iter()
        .map(|module| format!("{folder}/{module}"))
        .collect()
}

fn blank(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => at + length_until(&bytes[at..], b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => at + block_comment_length(&bytes[at..]),
            b'"' => at + quoted_length(&bytes[at..]),
            b'\'' => at + character_length(&source[at..]),
            byte if is_word(byte) => {
                let word = bytes[at..]
                    .iter()
                    .take_while(|byte| is_word(**byte))
                    .count();
                let raw = matches!(&bytes[at..at + word], b"r" | b"br" | b"cr");
                let literal = if raw {
                    raw_length(&bytes[at + word..])
                } else {
                    0
                };
                at += word;
                at + literal
            }
            _ => {
                at += 1;
                continue;
            }
        };
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at);
    }
    // Literals and comments are blanked whole and words are copied whole, so no character is cut.
    String::from_utf8_lossy(&code).into_owned()
}

/// Returns whether a byte can be part of a word: ASCII letters, digits and underscores, and every
/// byte of a character beyond ASCII.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn length_until(bytes: &[u8], end: &[u8]) -> usize {
    bytes
        .windows(end.len())
        .position(|window| window == end)
        .unwrap_or(bytes.len())
}

/// Returns the length of the block comment at the start of `bytes`. Block comments nest.
fn block_comment_length(bytes: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Returns the length of a string literal that starts with its quote.
fn quoted_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the length of the raw string after its `r`, or 0 if it is none (a raw identifier).
fn raw_length(bytes: &[u8]) -> usize {
    let hashes = bytes.iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(hashes) != Some(&b'"') {
        return 0;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let content = hashes + 1;
    (content + length_until(&bytes[content..], &end) + end.len()).min(bytes.len())
}

/// Returns the length of a character literal; of a lifetime, only its quote.
fn character_length(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            characters.next();
            let close = characters.find(|(_, character)| *character == '\'');
            close.map_or(text.len(), |(at, _)| at + 1)
        }
        Some(_) => match characters.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

/// Returns the length up to and with the bracket that closes the first bracket of `code`.
fn bracketed_length(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the offset just past the item at `start`: its semicolon, or its closing brace.
fn item_end(code: &str, start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = code.as_bytes().get(at) {
        match byte {
            b';' => return at + 1,
            b'{' => return at + bracketed_length(&code[at..]).unwrap_or(code.len() - at),
            b'(' | b'[' => at += bracketed_length(&code[at..]).unwrap_or(1),
            _ => at += 1,
        }
    }
    code.len()
}

/// Returns whether an attribute marks a test: `cfg(test)` and `cfg(any(test, …))`, but not
/// `cfg(not(test))`.
fn is_test_attribute(attribute: &str) -> bool {
    let content = attribute.trim_start_matches(['#', '!', '[']).trim_start();
    content.starts_with("cfg(") && has_word(content, "test") && !content.contains("not(test")
        || content.starts_with("test]")
}

/// Returns the name in `mod name;`, after further attributes and a visibility.
fn declared_module(item: &str) -> Option<String> {
    let (_, name) = item.strip_suffix(';')?.rsplit_once("mod ")?;
    let name = name.trim();
    (!name.is_empty() && name.bytes().all(is_word)).then(|| name.to_string())
}

fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].bytes().next_back().is_some_and(is_word) {
            continue;
        }
        let rest = code[at + 3..].trim_start();
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if name.is_empty() {
            continue;
        }
        let end = item_end(code, at);
        if code[..end].ends_with('}') {
            let (first_line, last_line) = (line_of(code, at), line_of(code, end - 1));
            found.push(Function {
                name,
                first_line,
                last_line,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_in_place() {
        for (source, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("x(\"a \\\" b\") y", "x(        ) y"),
            ("r#\"a \" b\"# c", "r          c"),
            ("br\"a\\\" c", "br     c"),
            ("r#type c", "r#type c"),
            (
                "'a' b'\\'' '\\u{1F600}' 'é' c",
                "    b                      c",
            ),
            ("fn f<'a>(x: &'a str) {}", "fn f< a>(x: & a str) {}"),
            ("\"é\" ö", "     ö"),
            ("\"open", "     "),
            ("/* open", "       "),
        ] {
            let blanked = blank(source);
            assert_eq!(blanked.len(), source.len(), "{source}");
            assert_eq!(blanked, code, "{source}");
        }
    }

    #[test]
    fn quote_of_a_lifetime_hides_nothing_after_it() {
        let code = blank("fn f<'a>(c: char) { c == 'x' || c == '\\'' || todo!() }");
        assert!(code.contains("todo!()"), "{code}");
        assert!(!code.contains('x'), "{code}");
    }

    #[test]
    fn test_code_is_separated_from_the_rest() {
        let source = "fn a() {}\n\
                      #[cfg(test)]\n\
                      #[allow(x)]\n\
                      mod tests {\n\
                          fn b() {}\n\
                      }\n\
                      #[cfg(not(test))]\n\
                      fn c() {}\n\
                      #[cfg(feature = \"test\")]\n\
                      fn d() {}\n\
                      #[cfg(any(test, feature = \"x\"))]\n\
                      fn e(x: [u8; 2]) {}\n\
                      #[test]\n\
                      fn f() {}\n";
        let flags = RustText::new(source).test_lines;
        let tests: Vec<usize> = (1..=flags.len()).filter(|line| flags[line - 1]).collect();
        assert_eq!(tests, [2, 3, 4, 5, 6, 11, 12, 13, 14]);
        assert!(RustText::new("#![cfg(test)]\nfn a() {}\n").test_lines[1]);
    }

    #[test]
    fn test_modules_in_files_of_their_own() {
        let rust = RustText::new("#[cfg(test)]\npub(crate) mod model;\n#[cfg(test)]\nuse a::b;\n");
        assert_eq!(rust.test_modules, ["model"]);
        assert_eq!(
            test_only_prefixes("crates/a/src/lib.rs", &rust),
            ["crates/a/src/model"]
        );
        assert_eq!(
            test_only_prefixes("crates/a/src/b.rs", &rust),
            ["crates/a/src/b/model"]
        );
    }

    #[test]
    fn functions_with_bodies_are_measured() {
        let source = "trait T {\n    fn none(&self) -> [u8; 3];\n}\n\
                      fn outer(f: fn(u8) -> u8)\nwhere\n    u8: Copy,\n{\n    \
                      fn inner() { \"}\"; }\n}\n";
        let functions = RustText::new(source).functions;
        let function = |name: &str, first_line, last_line| Function {
            name: name.into(),
            first_line,
            last_line,
        };
        assert_eq!(
            functions,
            [function("outer", 4, 9), function("inner", 8, 8)]
        );
    }

    #[test]
    fn words_end_where_letters_do() {
        assert!(has_word("use std::collections::HashMap;", "HashMap"));
        assert!(!has_word("struct MyHashMap;", "HashMap"));
        assert!(!has_word("operand::new()", "rand::"));
        assert!(has_word("(rand::random())", "rand::"));
    }

    #[test]
    fn nonsense_does_not_panic() {
        for source in [
            "#[",
            "#![cfg(test)",
            "'",
            "'\\",
            "r#",
            "r##\"",
            "fn ",
            "fn x(",
            "}",
            "é'",
        ] {
            RustText::new(source);
        }
    }
}
