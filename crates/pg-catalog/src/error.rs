//! Errors of statements about the catalogue, with PostgreSQL's SQLSTATEs and messages.

use std::fmt;

/// The most operators of a statement, and the deepest nesting of its expressions and subqueries.
pub(crate) const OPERATORS_MAX: usize = 4_000;
pub(crate) const DEPTH_MAX: usize = 60;

/// Why a statement about the catalogue has failed. A repetition fails in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueError {
    /// The SQLSTATE.
    pub sqlstate: &'static str,
    /// For people: what is wrong, and with which object.
    pub message: String,
    /// The remedy, if there is one.
    pub hint: Option<String>,
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CatalogueError {}

impl CatalogueError {
    /// Returns an error without a hint.
    pub(crate) fn new(sqlstate: &'static str, message: impl Into<String>) -> CatalogueError {
        CatalogueError {
            sqlstate,
            message: message.into(),
            hint: None,
        }
    }

    /// Returns the error of something that PostgreSQL has and the catalogue has not.
    pub(crate) fn unsupported(what: impl fmt::Display) -> CatalogueError {
        CatalogueError {
            sqlstate: "0A000",
            message: format!("{what} is not supported in a statement about the catalogue"),
            hint: Some("Write the statement without it.".into()),
        }
    }

    /// Returns the error of a statement that takes too much of something.
    pub(crate) fn limit(message: impl Into<String>) -> CatalogueError {
        CatalogueError {
            sqlstate: "54000",
            message: message.into(),
            hint: Some("Ask for fewer rows, or join by equal columns.".into()),
        }
    }

    pub(crate) fn syntax(message: impl Into<String>) -> CatalogueError {
        CatalogueError::new("42601", message)
    }

    pub(crate) fn invalid_text(type_name: &str, text: &str) -> CatalogueError {
        let message = format!("invalid input syntax for type {type_name}: \"{text}\"");
        CatalogueError::new("22P02", message)
    }

    pub(crate) fn out_of_range(type_name: &str) -> CatalogueError {
        CatalogueError::new("22003", format!("{type_name} out of range"))
    }
}
