//! Statements about regular expressions: each pattern with each text.

/// Statements that come first.
pub(super) const SETUP: &str = "CREATE TABLE regex (id int PRIMARY KEY, t text, p text);\
     INSERT INTO regex VALUES (1, 'Thomas', '.*thom'), (2, 'abc', '^(b|c)'), (3, NULL, 'a'), \
     (4, 'x', NULL), (5, 'a1b22', '[0-9]+'), (6, 'Ä', 'ä');";

/// The tables of these statements.
pub(super) const TABLES: &str = "regex";

const TEXTS: [&str; 13] = [
    "",
    "foobarbaz",
    "Thomas",
    "abc\\ndef",
    "a.b",
    "a]b[c",
    "x-y_z",
    "123 abc 45",
    "The cat",
    "äÖü",
    "a{2}",
    "tab\\there",
    "&&~~--",
];

const PATTERNS: [&str; 52] = [
    "",
    "b..",
    "^foo",
    "baz$",
    "thomas",
    "(?i)thomas",
    "[[:digit:]]+",
    "[^[:space:]]",
    "[]]",
    "[^]a]",
    "[a\\\\]b]",
    "[a-c]",
    "[-x]",
    "[x-]",
    "[a&&b]",
    "[~~]",
    "[[:alpha:]]{2,3}",
    "\\\\d+",
    "\\\\D",
    "\\\\w+\\\\s",
    "\\\\mcat\\\\M",
    "\\\\yabc",
    "\\\\Babc",
    "\\\\Adef",
    "def\\\\Z",
    "^def",
    "(?n)^def",
    "(?w)^def",
    "(?p)c.d",
    "c.d",
    "(?x) c . d # x",
    "***=a.b",
    "***:a.b",
    "a{2}",
    "a{",
    "a{,2}",
    "{",
    "}",
    "a**",
    "a+?",
    "(o|b)+",
    "(ab",
    "ab)",
    "[ab",
    "a|",
    "\\\\u00e4",
    "\\\\x41",
    "\\\\tt",
    "(?:f)(o)",
    "\\\\.",
    "\\\\",
    "(a)\\\\1",
];

/// Returns all statements.
pub(super) fn statements() -> Vec<String> {
    let mut all = Vec::new();
    let quoted = |text: &str| format!("E'{text}'");
    for pattern in PATTERNS {
        for text in TEXTS {
            all.push(format!("SELECT {} ~ {}", quoted(text), quoted(pattern)));
        }
        let text = quoted("foobarbaz a1b22 Thomas abc\\ndef a.b");
        let pattern = quoted(pattern);
        for call in [
            format!("{text} ~* {pattern}"),
            format!("{text} !~ {pattern}"),
            format!("{text} !~* {pattern}"),
            format!("regexp_like({text}, {pattern}, 'in')"),
            format!("regexp_replace({text}, {pattern}, '<\\&>')"),
            format!("regexp_replace({text}, {pattern}, '[\\1\\\\]', 'g')"),
            format!("regexp_replace({text}, {pattern}, '', 'gi')"),
            format!("regexp_count({text}, {pattern})"),
            format!("regexp_substr({text}, {pattern})"),
        ] {
            all.push(format!("SELECT {call}"));
        }
    }
    for flags in [
        "", "c", "i", "ci", "g", "n", "m", "s", "p", "w", "x", "q", "t", "z", "gg",
    ] {
        all.push(format!(
            "SELECT regexp_replace(E'Ab a.\\nb', 'a.', '-', '{flags}')"
        ));
    }
    for statement in [
        "SELECT id FROM regex WHERE t ~ 'a' ORDER BY id",
        "SELECT id FROM regex WHERE t ~* 'A' ORDER BY id",
        "SELECT id FROM regex WHERE t !~ '[0-9]' ORDER BY id",
        "SELECT id, t ~ p FROM regex ORDER BY id",
        "SELECT id, t ~* p FROM regex ORDER BY id",
        "SELECT id, regexp_replace(t, p, 'Z') FROM regex ORDER BY id",
        "SELECT NULL ~ 'a'",
        "SELECT 'a' ~ NULL",
        "SELECT 1 ~ '1'",
        "SELECT regexp_like('a', 'a', NULL)",
        "SELECT regexp_like('a')",
        "SELECT count(*) FROM regex WHERE NOT t ~ '^a'",
    ] {
        all.push(statement.to_owned());
    }
    all
}
