//! The columns whose default comes from a sequence: `serial`, identity columns, and `DEFAULT
//! nextval('name')`.

use placement::{ColumnType, IdentityKind, NAME_BYTES_MAX, Sequence, SequenceDefault, TimeZone};
use sqlparser::ast::{self, Expr};

use crate::error::{SqlError, sqlstate};
use crate::sequence_call::{SequenceFunction, relation_name, sequence_call};
use crate::statement::SequenceOptions;

/// Returns the type of a column that is declared as `serial` or the like.
pub(super) fn serial_type(data_type: &ast::DataType) -> Option<ColumnType> {
    match data_type.to_string().to_lowercase().as_str() {
        "smallserial" | "serial2" => Some(ColumnType::Int16),
        "serial" | "serial4" => Some(ColumnType::Int32),
        "bigserial" | "serial8" => Some(ColumnType::Int64),
        _ => None,
    }
}

/// Returns the default that an expression stands for, if it is the next value of a sequence.
pub(super) fn drawn_default(expression: &Expr) -> Result<Option<SequenceDefault>, SqlError> {
    let mut bare = expression;
    while let Expr::Nested(inner) = bare {
        bare = inner;
    }
    let Expr::Function(function) = bare else {
        return Ok(None);
    };
    let call = sequence_call(function);
    let Some((SequenceFunction::NextValue, [argument])) = call
        .as_ref()
        .map(|call| (call.function, &call.arguments[..]))
    else {
        return Ok(None);
    };
    let name = crate::bind::constant(
        argument,
        ColumnType::Text,
        "the name of a sequence",
        TimeZone::UTC,
    )?;
    Ok(Some(SequenceDefault {
        sequence: relation_name(&name.to_string())?,
        identity: None,
    }))
}

/// The sequence that a column gets, if its definition demands one.
pub(super) struct OwnSequence<'a> {
    table: &'a str,
    column: &'a str,
    column_type: ColumnType,
    found: Option<(Option<IdentityKind>, SequenceOptions)>,
}

impl<'a> OwnSequence<'a> {
    pub fn new(table: &'a str, column: &'a str, column_type: ColumnType) -> OwnSequence<'a> {
        OwnSequence {
            table,
            column,
            column_type,
            found: None,
        }
    }

    fn fault(&self, what: &str) -> SqlError {
        let (table, column) = (self.table, self.column);
        let message = format!("{what} for column \"{column}\" of table \"{table}\"");
        SqlError::with_state(sqlstate::SYNTAX, message)
    }

    /// Notes that the column is a serial one, or an identity.
    pub fn add(
        &mut self,
        identity: Option<IdentityKind>,
        options: SequenceOptions,
    ) -> Result<(), SqlError> {
        match &self.found {
            Some((None, _)) => return Err(self.both_default_and_identity()),
            Some((Some(_), _)) => return Err(self.fault("multiple identity specifications")),
            None => {}
        }
        if Sequence::bounds(self.column_type).is_none() {
            return Err(SqlError::with_state(
                sqlstate::INVALID_VALUE,
                "identity column type must be smallint, integer, or bigint",
            ));
        }
        self.found = Some((identity, options));
        Ok(())
    }

    pub fn both_default_and_identity(&self) -> SqlError {
        self.fault("both default and identity specified")
    }

    pub fn both_default_and_generation(&self) -> SqlError {
        self.fault("both default and generation expression specified")
    }

    pub fn both_identity_and_generation(&self) -> SqlError {
        self.fault("both identity and generation expression specified")
    }

    pub fn two_generations(&self) -> SqlError {
        self.fault("multiple generation clauses specified")
    }

    /// Checks that the column can be generated.
    pub fn check_only_generation(&self) -> Result<(), SqlError> {
        match &self.found {
            None => Ok(()),
            Some((None, _)) => Err(self.both_default_and_generation()),
            Some((Some(_), _)) => Err(self.both_identity_and_generation()),
        }
    }

    /// Checks that a further default is possible.
    pub fn check_only_default(&self) -> Result<(), SqlError> {
        match &self.found {
            None => Ok(()),
            Some((None, _)) => Err(self.fault("multiple default values specified")),
            Some((Some(_), _)) => Err(self.both_default_and_identity()),
        }
    }

    /// Sets whether the column takes NULL.
    pub fn set_nullable(&self, known: &mut Option<bool>, nullable: bool) -> Result<(), SqlError> {
        match known.replace(nullable) {
            Some(before) if before != nullable => {
                Err(self.fault("conflicting NULL/NOT NULL declarations"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the default of the column, the rules of its sequence, and whether the statement has
    /// given the name of the sequence.
    pub fn into_default(self) -> Result<Option<(SequenceDefault, Sequence, bool)>, SqlError> {
        let Some((identity, options)) = &self.found else {
            return Ok(None);
        };
        if options.owner.is_some() || options.restart.is_some() {
            return Err(self.fault("invalid sequence options"));
        }
        let rules = options.rules(self.column_type)?;
        let name = options.name.clone();
        let is_named = name.is_some();
        let name = name.unwrap_or_else(|| sequence_name(self.table, self.column));
        let default = SequenceDefault {
            sequence: name,
            identity: *identity,
        };
        Ok(Some((default, rules, is_named)))
    }
}

/// Returns the name of the sequence of a column, as PostgreSQL makes it: the longer of both names
/// is cut first.
fn sequence_name(table: &str, column: &str) -> String {
    const SUFFIX: &str = "_seq";
    let (mut table, mut column) = (table, column);
    while table.len() + 1 + column.len() + SUFFIX.len() > NAME_BYTES_MAX {
        let longer = if table.len() > column.len() {
            &mut table
        } else {
            &mut column
        };
        let mut end = longer.len() - 1;
        while !longer.is_char_boundary(end) {
            end -= 1;
        }
        *longer = &longer[..end];
    }
    format!("{table}_{column}{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sequences_are_those_of_postgres() {
        assert_eq!(sequence_name("t", "id"), "t_id_seq");
        let long = "a".repeat(40);
        let expected = format!("{}_{}_seq", "a".repeat(29), "a".repeat(29));
        assert_eq!(sequence_name(&long, &long), expected);
        let umlauts = sequence_name(&"ä".repeat(30), "id");
        assert_eq!(umlauts, format!("{}_id_seq", "ä".repeat(28)));
    }
}
