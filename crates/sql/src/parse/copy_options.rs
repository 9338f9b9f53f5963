//! The options of a `COPY`, checked as PostgreSQL checks them.

use crate::error::{SqlError, sqlstate};
use crate::statement::{CopyColumns, CopyFormat, CopyHeader, CopyOptions};

/// The options as a statement gives them.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenOptions {
    pub format: Option<CopyFormat>,
    pub freeze: Option<bool>,
    pub header: Option<CopyHeader>,
    pub delimiter: Option<String>,
    pub null: Option<String>,
    pub quote: Option<String>,
    pub escape: Option<String>,
    pub encoding: Option<String>,
    pub force_quote: Option<CopyColumns>,
    pub force_not_null: Option<CopyColumns>,
    pub force_null: Option<CopyColumns>,
}

impl GivenOptions {
    /// Returns the options with their defaults. `reads` is whether the lines come from the client.
    ///
    /// # Errors
    /// They do not fit together.
    pub fn check(self, reads: bool) -> Result<CopyOptions, SqlError> {
        let format = self.format.unwrap_or_default();
        let is_csv = format == CopyFormat::Csv;
        let unsupported = |text: &str| Err(SqlError::with_state("0A000", text));
        for (name, is_given) in [
            ("DELIMITER", self.delimiter.is_some()),
            ("NULL", self.null.is_some()),
        ] {
            if is_given && format == CopyFormat::Binary {
                let text = format!("cannot specify {name} in BINARY mode");
                return Err(SqlError::with_state(sqlstate::SYNTAX, text));
            }
        }
        for (name, is_given) in [
            ("quote", self.quote.is_some()),
            ("escape", self.escape.is_some()),
            ("FORCE_QUOTE", self.force_quote.is_some()),
            ("FORCE_NOT_NULL", self.force_not_null.is_some()),
            ("FORCE_NULL", self.force_null.is_some()),
        ] {
            if is_given && !is_csv {
                return unsupported(&format!("COPY {name} is available only in CSV mode"));
            }
        }
        if self.force_quote.is_some() && reads {
            return unsupported("COPY FORCE_QUOTE is available only with COPY TO");
        }
        if (self.force_not_null.is_some() || self.force_null.is_some()) && !reads {
            return unsupported(
                "COPY FORCE_NOT_NULL and FORCE_NULL are available only with COPY FROM",
            );
        }
        let header = self.header.unwrap_or_default();
        if header == CopyHeader::Match && !reads {
            return unsupported("HEADER cannot be \"match\" in COPY TO");
        }
        if header != CopyHeader::No && format == CopyFormat::Binary {
            return unsupported("cannot specify HEADER in BINARY mode");
        }
        if let Some(encoding) = &self.encoding {
            let plain = encoding.to_ascii_lowercase().replace(['-', '_'], "");
            if !matches!(&*plain, "utf8" | "unicode" | "sqlascii") {
                return unsupported("COPY has no other encoding than UTF8: convert the file");
            }
        }
        let default = if is_csv { "," } else { "\t" };
        let delimiter = character("delimiter", self.delimiter.as_deref(), default)?;
        let quote = character("quote", self.quote.as_deref(), "\"")?;
        let default = char::from(quote).to_string();
        let escape = character("escape", self.escape.as_deref(), &default)?;
        let default = if is_csv { "" } else { "\\N" };
        let null = self.null.unwrap_or_else(|| default.to_owned());
        check_characters(is_csv, (delimiter, quote), &null)?;
        Ok(CopyOptions {
            format,
            header,
            delimiter,
            null,
            quote,
            escape,
            force_quote: self.force_quote.unwrap_or_default(),
            force_not_null: self.force_not_null.unwrap_or_default(),
            force_null: self.force_null.unwrap_or_default(),
        })
    }
}

fn check_characters(
    is_csv: bool,
    (delimiter, quote): (u8, u8),
    null: &str,
) -> Result<(), SqlError> {
    let invalid = |text: &str| Err(SqlError::with_state(sqlstate::INVALID_VALUE, text));
    if matches!(delimiter, b'\n' | b'\r') {
        return invalid("COPY delimiter cannot be newline or carriage return");
    }
    if null.contains(['\n', '\r']) {
        return invalid("COPY null representation cannot use newline or carriage return");
    }
    let is_plain = delimiter.is_ascii_lowercase() || delimiter.is_ascii_digit();
    if !is_csv && (is_plain || matches!(delimiter, b'\\' | b'.')) {
        let text = format!("COPY delimiter cannot be \"{}\"", char::from(delimiter));
        return invalid(&text);
    }
    if is_csv && delimiter == quote {
        return invalid("COPY delimiter and quote must be different");
    }
    for (name, byte) in [("delimiter", delimiter), ("quote", quote)] {
        if null.as_bytes().contains(&byte) && (is_csv || name == "delimiter") {
            let text = format!("the COPY {name} must not appear in the NULL specification");
            return Err(SqlError::with_state("0A000", text));
        }
    }
    Ok(())
}

/// Returns an option that is one byte.
fn character(name: &str, given: Option<&str>, default: &str) -> Result<u8, SqlError> {
    match *given.unwrap_or(default).as_bytes() {
        [byte] => Ok(byte),
        _ => {
            let text = format!("COPY {name} must be a single one-byte character");
            Err(SqlError::with_state("0A000", text))
        }
    }
}
