//! Reads names and types as a statement spells them.

use sqlparser::ast::{self, DataType, Ident, ObjectName};

use crate::description::Oid;
use crate::error::CatalogueError;
use crate::types;

/// Returns a name: in lower case unless it is in quotes.
pub(super) fn name(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// Returns the parts of a qualified name.
pub(crate) fn parts(object: &ObjectName) -> Result<Vec<String>, CatalogueError> {
    let parts: Option<Vec<String>> = object.0.iter().map(|it| it.as_ident().map(name)).collect();
    parts.ok_or_else(|| CatalogueError::unsupported(format!("the name {object}")))
}

/// Returns the name of a function, without the schema if that is `pg_catalog`.
pub(super) fn function_name(object: &ObjectName) -> Result<String, CatalogueError> {
    let parts = parts(object)?;
    match &parts[..] {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "pg_catalog" => Ok(name.clone()),
        [schema, name] if schema == "information_schema" => {
            Ok(format!("information_schema.{name}"))
        }
        _ => Ok(parts.join(".")),
    }
}

fn unknown(name: impl std::fmt::Display) -> CatalogueError {
    CatalogueError::new("42704", format!("type \"{name}\" does not exist"))
}

/// Returns the number of a type.
pub(super) fn data_type(data_type: &DataType) -> Result<Oid, CatalogueError> {
    Ok(match data_type {
        DataType::Array(
            ast::ArrayElemTypeDef::SquareBracket(element, _)
            | ast::ArrayElemTypeDef::Qualified(element, _),
        ) => {
            let element = self::data_type(element)?;
            match types::by_oid(element).map(|it| it.array) {
                Some(array) if array != 0 => array,
                _ => return Err(unknown(data_type)),
            }
        }
        DataType::Custom(object, modifiers) if modifiers.is_empty() => {
            let parts = parts(object)?;
            let found = match &parts[..] {
                [name] => name,
                [schema, name] if schema == "pg_catalog" => name,
                [schema, name] if schema == "information_schema" => match &**name {
                    "sql_identifier" => return Ok(types::NAME),
                    "cardinal_number" => return Ok(types::INT4),
                    "character_data" | "yes_or_no" => return Ok(types::VARCHAR),
                    _ => return Err(unknown(object)),
                },
                _ => return Err(unknown(object)),
            };
            types::by_name(found).ok_or_else(|| unknown(found))?.oid
        }
        DataType::Regclass => types::REGCLASS,
        DataType::Char(_) | DataType::Character(_) => types::BPCHAR,
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => {
            types::VARCHAR
        }
        DataType::Float(_) | DataType::Float8 | DataType::DoublePrecision => types::FLOAT8,
        DataType::Float4 | DataType::Real => types::FLOAT4,
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => types::NUMERIC,
        DataType::Timestamp(_, zone) => match zone {
            ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz => types::TIMESTAMPTZ,
            _ => types::TIMESTAMP,
        },
        other => {
            let text = other.to_string().to_ascii_lowercase();
            types::by_name(&text).ok_or_else(|| unknown(&text))?.oid
        }
    })
}
