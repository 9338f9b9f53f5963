//! Writes definitions of indexes and constraints as PostgreSQL prints them.

use crate::description::{
    CheckDescription, ForeignKeyDescription, IndexDescription, SchemaDescription, TableDescription,
};

/// Words that PostgreSQL quotes if they are names. Not all keywords are reserved.
pub(crate) const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// Returns a name as it stands in a statement: in quotes if it needs them.
pub(crate) fn quoted(name: &str) -> String {
    let mut characters = name.chars();
    let first = characters.next();
    let is_plain = first.is_some_and(|it| it.is_ascii_lowercase() || it == '_')
        && characters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
    match is_plain && RESERVED.binary_search(&name).is_err() {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn column_list(table: &TableDescription, columns: &[usize]) -> String {
    let names = columns.iter().map(|it| quoted(&table.columns[*it].name));
    names.collect::<Vec<_>>().join(", ")
}

/// Returns one column of an index's key; none if the index has fewer.
pub(crate) fn index_column(
    table: &TableDescription,
    index: &IndexDescription,
    position: usize,
) -> Option<String> {
    let keys = index.keys.iter().map(|key| key.column);
    let column = keys.chain(index.included.iter().copied()).nth(position)?;
    Some(quoted(&table.columns[column].name))
}

/// Returns the statement that creates an index.
pub(crate) fn index_definition(
    table: &TableDescription,
    index: &IndexDescription,
    with_schema: bool,
) -> String {
    let keys = index.keys.iter().map(|key| {
        let direction = if key.descending { " DESC" } else { "" };
        let nulls = match (key.descending, key.nulls_first) {
            (true, false) => " NULLS LAST",
            (false, true) => " NULLS FIRST",
            _ => "",
        };
        format!(
            "{}{direction}{nulls}",
            quoted(&table.columns[key.column].name)
        )
    });
    let keys: Vec<String> = keys.collect();
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    let schema = if with_schema { "public." } else { "" };
    let included = match &index.included[..] {
        [] => String::new(),
        columns => format!(" INCLUDE ({})", column_list(table, columns)),
    };
    format!(
        "CREATE {unique}INDEX {} ON {schema}{} USING btree ({}){included}",
        quoted(&index.name),
        quoted(&table.name),
        keys.join(", ")
    )
}

/// Returns the constraint that an index serves, as in a `CREATE TABLE`.
pub(crate) fn key_definition(table: &TableDescription, index: &IndexDescription) -> String {
    let kind = if index.is_primary {
        "PRIMARY KEY"
    } else {
        "UNIQUE"
    };
    let columns: Vec<usize> = index.keys.iter().map(|key| key.column).collect();
    format!("{kind} ({})", column_list(table, &columns))
}

/// Returns a CHECK constraint as in a `CREATE TABLE`. Not pretty, the condition is in one more
/// pair of parentheses.
pub(crate) fn check_definition(check: &CheckDescription, pretty: bool) -> String {
    let suffix = validity(check.is_valid);
    match pretty {
        true => format!("CHECK {}{suffix}", check.condition),
        false => format!("CHECK ({}){suffix}", check.condition),
    }
}

fn validity(is_valid: bool) -> &'static str {
    if is_valid { "" } else { " NOT VALID" }
}

/// Returns a foreign key as in a `CREATE TABLE`.
pub(crate) fn foreign_key_definition(
    schema: &SchemaDescription,
    table: &TableDescription,
    key: &ForeignKeyDescription,
    with_schema: bool,
) -> String {
    let parent = schema.tables.iter().find(|it| it.name == key.parent);
    let parent_columns = parent.map_or_else(String::new, |parent| {
        column_list(parent, &primary_columns(parent))
    });
    let actions = [
        (" ON UPDATE ", key.on_update),
        (" ON DELETE ", key.on_delete),
    ];
    let actions = actions.map(|(event, action)| match action_name(action) {
        "NO ACTION" => String::new(),
        action => format!("{event}{action}"),
    });
    let deferral = match (key.is_deferrable, key.is_deferred) {
        (false, _) => "",
        (true, false) => " DEFERRABLE",
        (true, true) => " DEFERRABLE INITIALLY DEFERRED",
    };
    format!(
        "FOREIGN KEY ({}) REFERENCES {}{}({parent_columns}){}{deferral}{}",
        column_list(table, &key.columns),
        if with_schema { "public." } else { "" },
        quoted(&key.parent),
        actions.concat(),
        validity(key.is_valid),
    )
}

/// Returns the columns of a table's primary key, as positions.
pub(crate) fn primary_columns(table: &TableDescription) -> Vec<usize> {
    let primary = table.indexes.iter().find(|index| index.is_primary);
    let keys = primary.map_or(&[][..], |index| &index.keys);
    keys.iter().map(|key| key.column).collect()
}

/// Returns the words of an action's letter.
pub(crate) fn action_name(action: char) -> &'static str {
    match action {
        'r' => "RESTRICT",
        'c' => "CASCADE",
        'n' => "SET NULL",
        'd' => "SET DEFAULT",
        _ => "NO ACTION",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_quotes() {
        assert!(RESERVED.is_sorted());
        for (name, expected) in [
            ("flights", "flights"),
            ("_a1", "_a1"),
            ("Flights", "\"Flights\""),
            ("1a", "\"1a\""),
            ("order", "\"order\""),
            ("a\"b", "\"a\"\"b\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }
}
