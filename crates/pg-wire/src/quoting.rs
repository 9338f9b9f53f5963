//! Quoted identifiers and string literals of SQL.

use alloc::format;
use alloc::string::String;

/// Returns the SQL identifier for a name, with quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the SQL literal for a string, for `standard_conforming_strings = on`.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// For each byte, whether it can be part of a name or keyword: letters, digits, underscores, and
/// all that are not ASCII.
pub const IS_OF_NAME: [bool; 256] = {
    let mut is = [false; 256];
    let mut byte = 0_u8;
    loop {
        is[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
        if byte == u8::MAX {
            break is;
        }
        byte += 1;
    }
};

/// Returns the length in bytes of the name at the beginning.
pub fn name_length(text: &[u8]) -> usize {
    let end = text.iter().position(|byte| !IS_OF_NAME[usize::from(*byte)]);
    end.unwrap_or(text.len())
}

/// Returns the length in bytes of the name at the beginning, which may be in quotes.
///
/// A quote in a name is written twice: of such a name it is the first part.
pub fn identifier_length(text: &str) -> Option<usize> {
    let length = match text.strip_prefix('"') {
        Some(name) => name.find('"')? + 2,
        None => name_length(text.as_bytes()),
    };
    (length > 0).then_some(length)
}
