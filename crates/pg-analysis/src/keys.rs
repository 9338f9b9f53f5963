//! Finds the rows that a statement names by their whole canonical key: `WHERE pk = 7 AND …`,
//! `VALUES (7, …)`.
//!
//! A key's value must have the same text as in a row image, however the client writes it. That is
//! so for integers, text under deterministic collations, `uuid` and `bool`. Values of other types
//! are not used as keys.

use std::borrow::Cow;

use pg_raw_parse::raw::{A_Expr_Kind, BoolExprType};
use pg_raw_parse::{ConstValue, Node};

use super::catalogue::{ColumnInfo, Relation};
use super::facts::StatementFacts;
use proxy_core::freshness::RowHash;

const BOOL: u32 = 16;
pub(super) const INT8: u32 = 20;
const INT2: u32 = 21;
/// The type of integers of up to 32 bits.
pub const INT4: u32 = 23;
const TEXT: u32 = 25;
const VARCHAR: u32 = 1043;
const UUID: u32 = 2950;

/// Expressions looked at in one WHERE, at most.
const CONJUNCTS_MAX: usize = 1000;

/// A parameter's value from a Bind message.
#[derive(Clone, Copy, Debug)]
pub struct BoundParameter<'a> {
    /// The OID of the parameter's type; 0 if the client left it to the server.
    pub type_oid: u32,
    /// Whether the parameter is in binary format.
    pub binary: bool,
    /// The bytes of the value; none for NULL.
    pub value: Option<&'a [u8]>,
}

/// A key's value in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// The canonical string of the value.
    Known(Vec<u8>),
    /// The parameter `$n`, counted from 1, as a value of this type. If the client does not declare
    /// its type, it has this type only if the parameter occurs once. Otherwise the server uses its
    /// first occurrence.
    Parameter {
        number: usize,
        type_oid: u32,
        only_here: bool,
    },
}

/// Returns whether each value of this column has exactly one canonical string.
pub fn is_canonical(column: &ColumnInfo) -> bool {
    match column.type_oid {
        BOOL | INT2 | INT4 | INT8 | UUID => true,
        TEXT | VARCHAR => column.deterministic,
        _ => false,
    }
}

/// Returns the row with these key values; none if a parameter is not understood.
pub fn row(values: &[KeyValue], parameters: &[BoundParameter<'_>]) -> Option<RowHash> {
    let mut is_known = true;
    let values = values.iter().map_while(|value| {
        let value = match value {
            KeyValue::Known(text) => Some(Cow::Borrowed(&text[..])),
            KeyValue::Parameter {
                number,
                type_oid,
                only_here,
            } => {
                let parameter = number.checked_sub(1).and_then(|at| parameters.get(at));
                let typed = parameter.filter(|it| *only_here || it.type_oid != 0);
                typed.and_then(|it| canonical_parameter(it, *type_oid))
            }
        };
        is_known &= value.is_some();
        value
    });
    let row = RowHash::of_key(0, values);
    is_known.then_some(row)
}

/// Returns the key's values if WHERE equates all key columns with values.
pub fn of_where(
    relation: &Relation,
    aliases: &[&str],
    clause: Node<'_>,
    facts: &StatementFacts,
) -> Option<Vec<KeyValue>> {
    if relation.key.is_empty() {
        return None;
    }
    let mut found = vec![None; relation.key.len()];
    let mut work = vec![clause];
    for _ in 0..CONJUNCTS_MAX {
        match work.pop() {
            None => break,
            Some(Node::BoolExpr(and)) if and.boolop == BoolExprType::AND_EXPR => {
                work.extend(and.args());
            }
            Some(Node::A_Expr(equal)) if equal.kind == A_Expr_Kind::AEXPR_OP => {
                let names: Vec<&str> = equal.name().iter().filter_map(Node::as_str).collect();
                if names != ["="] {
                    continue;
                }
                for (side, other) in [
                    (equal.lexpr(), equal.rexpr()),
                    (equal.rexpr(), equal.lexpr()),
                ] {
                    if let Some((position, column)) = key_column(relation, aliases, side)
                        && let Some(value) = value_of(column, other, facts)
                    {
                        found[position] = Some(value);
                    }
                }
            }
            Some(_) => {}
        }
    }
    found.into_iter().collect()
}

/// Returns the value of a key column in an expression, if it is a plain constant or a parameter.
pub fn value_of(column: &ColumnInfo, node: Node<'_>, facts: &StatementFacts) -> Option<KeyValue> {
    if !is_canonical(column) {
        return None;
    }
    match node {
        Node::ParamRef(parameter) => Some(KeyValue::Parameter {
            number: usize::try_from(parameter.number).ok()?,
            type_oid: column.type_oid,
            only_here: !facts.repeated_parameters.contains(&parameter.number),
        }),
        Node::A_Const(constant) => match constant.val()? {
            ConstValue::Integer(value) if is_integer(column.type_oid) => {
                Some(KeyValue::Known(value.to_string().into_bytes()))
            }
            ConstValue::Float(digits) if is_integer(column.type_oid) => {
                let value: i64 = digits.parse().ok()?;
                Some(KeyValue::Known(value.to_string().into_bytes()))
            }
            ConstValue::String(text) => {
                let text = canonical_text(text, column.type_oid)?;
                Some(KeyValue::Known(text.into_owned()))
            }
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn is_integer(type_oid: u32) -> bool {
    [INT2, INT4, INT8].contains(&type_oid)
}

fn key_column<'r>(
    relation: &'r Relation,
    aliases: &[&str],
    node: Node<'_>,
) -> Option<(usize, &'r ColumnInfo)> {
    let Node::ColumnRef(reference) = node else {
        return None;
    };
    let fields = reference.fields();
    let names: Vec<&str> = fields.iter().filter_map(Node::as_str).collect();
    let name = match names[..] {
        [name] if fields.len() == 1 => name,
        [table, name] if fields.len() == 2 && aliases.contains(&table) => name,
        _ => return None,
    };
    let column = relation.column(name)?;
    let position = relation.key.iter().position(|key| *key == column.number)?;
    Some((position, column))
}

fn canonical_text(text: &str, type_oid: u32) -> Option<Cow<'_, [u8]>> {
    let bytes = text.as_bytes();
    match type_oid {
        INT2 | INT4 | INT8 => {
            let value: i64 = text.trim_ascii().parse().ok()?;
            Some(match bytes {
                [b'1'..=b'9', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => bytes.into(),
                _ => integer(value),
            })
        }
        // Spaces past the length of a varchar(n) are cut off.
        VARCHAR if text.ends_with(' ') => None,
        TEXT | VARCHAR => Some(bytes.into()),
        UUID => canonical_uuid(text).map(Cow::Owned),
        // Only the spellings of `bool_out`: the others are rare as keys.
        BOOL => ["t", "f"].contains(&text).then_some(bytes.into()),
        _ => None,
    }
}

fn canonical_uuid(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let well_formed = bytes.len() == 36
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    well_formed.then(|| bytes.to_ascii_lowercase())
}

fn integer(value: i64) -> Cow<'static, [u8]> {
    Cow::Owned(value.to_string().into_bytes())
}

fn canonical_parameter<'a>(
    parameter: &BoundParameter<'a>,
    column_type: u32,
) -> Option<Cow<'a, [u8]>> {
    let value = parameter.value?;
    let same_kind = match column_type {
        _ if parameter.type_oid == 0 => true,
        INT2 | INT4 | INT8 => is_integer(parameter.type_oid),
        TEXT | VARCHAR => [TEXT, VARCHAR].contains(&parameter.type_oid),
        other => parameter.type_oid == other,
    };
    if !same_kind {
        return None;
    }
    if !parameter.binary {
        return canonical_text(std::str::from_utf8(value).ok()?, column_type);
    }
    match column_type {
        INT2 | INT4 | INT8 => {
            let value = match value.len() {
                2 => i64::from(i16::from_be_bytes(value.try_into().ok()?)),
                4 => i64::from(i32::from_be_bytes(value.try_into().ok()?)),
                8 => i64::from_be_bytes(value.try_into().ok()?),
                _ => return None,
            };
            Some(integer(value))
        }
        TEXT | VARCHAR => canonical_text(std::str::from_utf8(value).ok()?, column_type),
        UUID => {
            let bytes: &[u8; 16] = value.try_into().ok()?;
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let parts = [
                &hex[..8],
                &hex[8..12],
                &hex[12..16],
                &hex[16..20],
                &hex[20..],
            ];
            Some(Cow::Owned(parts.join("-").into_bytes()))
        }
        _ => None,
    }
}
