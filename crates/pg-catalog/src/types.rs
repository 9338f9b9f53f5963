//! PostgreSQL's types: their numbers, names and rows of `pg_type`.
//!
//! The list is that of PostgreSQL 15, in `data/types.tsv`. A type exists in the catalogue if it is
//! there; the store has columns of some of them.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::description::Oid;

pub(crate) const BOOL: Oid = 16;
pub(crate) const CHAR: Oid = 18;
pub(crate) const NAME: Oid = 19;
pub(crate) const INT8: Oid = 20;
pub(crate) const INT2: Oid = 21;
pub(crate) const INT2VECTOR: Oid = 22;
pub(crate) const INT4: Oid = 23;
pub(crate) const REGPROC: Oid = 24;
pub(crate) const TEXT: Oid = 25;
pub(crate) const OID: Oid = 26;
pub(crate) const XID: Oid = 28;
pub(crate) const CID: Oid = 29;
pub(crate) const OIDVECTOR: Oid = 30;
pub(crate) const JSON: Oid = 114;
pub(crate) const FLOAT4: Oid = 700;
pub(crate) const FLOAT8: Oid = 701;
pub(crate) const UNKNOWN: Oid = 705;
pub(crate) const BPCHAR: Oid = 1042;
pub(crate) const VARCHAR: Oid = 1043;
pub(crate) const TIME: Oid = 1083;
pub(crate) const TIMESTAMP: Oid = 1114;
pub(crate) const TIMESTAMPTZ: Oid = 1184;
pub(crate) const INTERVAL: Oid = 1186;
pub(crate) const BIT: Oid = 1560;
pub(crate) const NUMERIC: Oid = 1700;
pub(crate) const REGPROCEDURE: Oid = 2202;
pub(crate) const REGOPER: Oid = 2203;
pub(crate) const REGOPERATOR: Oid = 2204;
pub(crate) const REGCLASS: Oid = 2205;
pub(crate) const REGTYPE: Oid = 2206;
pub(crate) const RECORD: Oid = 2249;
pub(crate) const VOID: Oid = 2278;
pub(crate) const ANY: Oid = 2276;
pub(crate) const ANYARRAY: Oid = 2277;
pub(crate) const ANYELEMENT: Oid = 2283;
pub(crate) const XID8: Oid = 5069;
pub(crate) const TEXT_ARRAY: Oid = 1009;
pub(crate) const NAME_ARRAY: Oid = 1003;
pub(crate) const OID_ARRAY: Oid = 1028;
pub(crate) const INT2_ARRAY: Oid = 1005;
pub(crate) const REGNAMESPACE: Oid = 4089;
pub(crate) const REGROLE: Oid = 4096;
pub(crate) const REGCOLLATION: Oid = 4191;
pub(crate) const REGCONFIG: Oid = 3734;
pub(crate) const REGDICTIONARY: Oid = 3769;

/// The columns of `data/types.tsv`, as `pg_type` names them; the last is the name in SQL.
pub(crate) const TYPE_COLUMNS: [&str; 22] = [
    "oid",
    "typname",
    "typlen",
    "typbyval",
    "typtype",
    "typcategory",
    "typispreferred",
    "typdelim",
    "typsubscript",
    "typelem",
    "typarray",
    "typinput",
    "typoutput",
    "typreceive",
    "typsend",
    "typmodin",
    "typmodout",
    "typanalyze",
    "typalign",
    "typstorage",
    "typcollation",
    "sql",
];

/// How the values of a type are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int,
    Float,
    Text,
    Array,
    Record,
}

/// A type of PostgreSQL.
#[derive(Debug)]
pub(crate) struct TypeDefinition {
    pub oid: Oid,
    /// The name in `pg_type`.
    pub name: &'static str,
    /// The name in SQL.
    pub sql_name: &'static str,
    /// The type of the items, if it is an array; 0 if it is none.
    pub element: Oid,
    /// The type of arrays of it; 0 if there is none.
    pub array: Oid,
    /// The bytes of a value, or -1 if they differ.
    pub length: i16,
    /// The fields of the line in the file.
    pub fields: Vec<&'static str>,
}

/// The types of PostgreSQL.
pub(crate) struct TypeList {
    pub all: Vec<TypeDefinition>,
    by_oid: HashMap<Oid, usize>,
    by_name: HashMap<&'static str, usize>,
}

static TYPES: LazyLock<TypeList> = LazyLock::new(|| {
    let all: Vec<TypeDefinition> = include_str!("../data/types.tsv")
        .lines()
        .map(|line| {
            let fields: Vec<&'static str> = line.split('\t').collect();
            assert_eq!(fields.len(), TYPE_COLUMNS.len(), "{line}");
            let number = |position: usize| fields[position].parse().unwrap_or(0);
            TypeDefinition {
                oid: number(0),
                name: fields[1],
                sql_name: fields[21],
                element: number(9),
                array: number(10),
                length: fields[2].parse().unwrap_or(-1),
                fields,
            }
        })
        .collect();
    let mut by_name = HashMap::new();
    for (position, found) in all.iter().enumerate() {
        by_name.insert(found.name, position);
    }
    for (position, found) in all.iter().enumerate() {
        // The SQL name "char" is that of character, not of the type with this name.
        by_name.entry(found.sql_name).or_insert(position);
    }
    TypeList {
        by_oid: all
            .iter()
            .enumerate()
            .map(|(at, it)| (it.oid, at))
            .collect(),
        by_name,
        all,
    }
});

pub(crate) fn all() -> &'static [TypeDefinition] {
    &TYPES.all
}

pub(crate) fn by_oid(oid: Oid) -> Option<&'static TypeDefinition> {
    TYPES.by_oid.get(&oid).map(|at| &TYPES.all[*at])
}

/// Returns the type of a name in `pg_type`, or of a name in SQL.
pub(crate) fn by_name(name: &str) -> Option<&'static TypeDefinition> {
    let name = match name {
        "dec" | "decimal" => "numeric",
        "int" => "integer",
        "float" => "double precision",
        name => name,
    };
    TYPES.by_name.get(name).map(|at| &TYPES.all[*at])
}

/// Returns the name of a type in errors and in `format_type`.
pub(crate) fn sql_name(oid: Oid) -> &'static str {
    by_oid(oid).map_or("???", |it| it.sql_name)
}

pub(crate) fn kind(oid: Oid) -> Kind {
    match oid {
        BOOL => Kind::Bool,
        INT2 | INT4 | INT8 | OID | XID | CID | XID8 | TIMESTAMP | TIMESTAMPTZ => Kind::Int,
        oid if is_reg(oid) => Kind::Int,
        FLOAT4 | FLOAT8 | NUMERIC => Kind::Float,
        RECORD => Kind::Record,
        INT2VECTOR | OIDVECTOR | ANYARRAY => Kind::Array,
        oid if element(oid).is_some() => Kind::Array,
        _ => Kind::Text,
    }
}

/// Returns whether the type's values are numbers of objects, which are printed as names.
pub(crate) fn is_reg(oid: Oid) -> bool {
    matches!(
        oid,
        REGPROC
            | REGPROCEDURE
            | REGOPER
            | REGOPERATOR
            | REGCLASS
            | REGTYPE
            | REGNAMESPACE
            | REGROLE
            | REGCOLLATION
            | REGCONFIG
            | REGDICTIONARY
    )
}

/// Returns whether the type's values are whole numbers, and no points in time.
pub(crate) fn is_whole(oid: Oid) -> bool {
    kind(oid) == Kind::Int && !matches!(oid, TIMESTAMP | TIMESTAMPTZ)
}

pub(crate) fn is_number(oid: Oid) -> bool {
    matches!(oid, INT2 | INT4 | INT8 | FLOAT4 | FLOAT8 | NUMERIC)
}

/// Returns whether the type is one of texts, so that operators on texts take its values.
pub(crate) fn is_text(oid: Oid) -> bool {
    matches!(oid, TEXT | NAME | VARCHAR | BPCHAR | CHAR | UNKNOWN)
}

/// Returns whether values of the type are represented as what they are. The
/// values of others are only texts, which are not checked, compared or sent as PostgreSQL does it.
pub(crate) fn is_exact(oid: Oid) -> bool {
    match kind(oid) {
        Kind::Text => is_text(oid) || oid == JSON,
        Kind::Array => element(oid).is_none_or(is_exact),
        _ => true,
    }
}

/// Returns the type of an array's items.
pub(crate) fn element(oid: Oid) -> Option<Oid> {
    match oid {
        INT2VECTOR => Some(INT2),
        OIDVECTOR => Some(OID),
        NAME | UNKNOWN => None,
        oid => {
            let found = by_oid(oid)?;
            let is_array = found.length == -1 && found.element != 0;
            is_array.then_some(found.element)
        }
    }
}

/// Returns the type of arrays of a type's values.
pub(crate) fn array_of(element: Oid) -> Oid {
    let element = if element == UNKNOWN { TEXT } else { element };
    by_oid(element).map_or(TEXT_ARRAY, |it| it.array)
}

/// Returns the name of a type with its modifier, as the function `format_type`.
pub(crate) fn format_type(oid: Oid, modifier: Option<i32>) -> String {
    if oid == 0 {
        return "-".into();
    }
    let Some(found) = by_oid(oid) else {
        return "???".into();
    };
    if let (Some(element), false) = (element(oid), matches!(oid, INT2VECTOR | OIDVECTOR)) {
        return format!("{}[]", format_type(element, modifier));
    }
    let modifier = modifier.filter(|it| *it >= 0);
    match (oid, modifier) {
        (BPCHAR | VARCHAR, Some(modifier)) if modifier >= 4 => {
            format!("{}({})", found.sql_name, modifier - 4)
        }
        (NUMERIC, Some(modifier)) if modifier >= 4 => {
            let (precision, scale) = numeric_limits(modifier);
            format!("numeric({precision},{scale})")
        }
        (TIMESTAMP, Some(digits)) => format!("timestamp({digits}) without time zone"),
        (TIMESTAMPTZ, Some(digits)) => format!("timestamp({digits}) with time zone"),
        (TIME, Some(digits)) => format!("time({digits}) without time zone"),
        (INTERVAL, Some(modifier)) if second_digits(modifier).is_some() => {
            format!("interval({})", modifier & INTERVAL_DIGITS)
        }
        (BIT, Some(length)) => format!("bit({length})"),
        _ => found.sql_name.to_owned(),
    }
}

/// The bits of the modifier of an `interval` with the digits of a second; all of them are none.
const INTERVAL_DIGITS: i32 = 0xffff;

/// Returns the digits of a second in the modifier of an `interval`; none if it does not limit them.
pub(crate) fn second_digits(modifier: i32) -> Option<i32> {
    let digits = modifier & INTERVAL_DIGITS;
    (modifier >= 0 && digits != INTERVAL_DIGITS).then_some(digits)
}

/// Returns the precision and the scale in the modifier of a `numeric`.
pub(crate) fn numeric_limits(modifier: i32) -> (i32, i32) {
    let bits = modifier - 4;
    let scale = bits & 0x7ff;
    (bits >> 16, (scale ^ 1024) - 1024)
}
