//! Names and texts as they stand in SQL.

/// A name.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text, with `standard_conforming_strings` on.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
