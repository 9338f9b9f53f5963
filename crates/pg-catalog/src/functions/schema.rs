//! Functions about the objects of the schema: definitions, visibility, descriptions, sizes.

use super::{Called, Function, int_of, lenient, null, oid_of, strict, text_of};
use crate::catalogue::Calls;
use crate::datum::Datum;
use crate::definitions::{index_column, index_definition, quoted};
use crate::description::Oid;
use crate::rows::{self, PROCEDURES};
use crate::types::{
    self, BOOL, INT2, INT4, INT8, NAME, OID, REGCLASS, REGCOLLATION, REGNAMESPACE, REGOPER,
    REGPROC, REGPROCEDURE, REGROLE, REGTYPE, TEXT,
};

/// The type of the texts that the catalogue has in place of parsed expressions.
const NODE_TREE: Oid = 194;

pub(super) const FUNCTIONS: &[Function] = &[
    lenient("format_type", &[OID, INT4], TEXT, |_, arguments| {
        let modifier = arguments[1].as_int().and_then(|it| i32::try_from(it).ok());
        Ok(match arguments[0].as_oid() {
            None => Datum::Null,
            // Without a length, the type has a name of its own.
            Some(types::BPCHAR) if modifier == Some(-1) => Datum::text("bpchar"),
            Some(oid) => Datum::text(types::format_type(oid, modifier)),
        })
    }),
    strict("pg_table_is_visible", &[OID], BOOL, |calls, arguments| {
        let found = calls.catalogue.relation_name(oid_of(&arguments[0]));
        Ok(found.map_or(Datum::Null, |(schema, _)| Datum::Bool(calls.sees(schema))))
    }),
    strict("pg_type_is_visible", &[OID], BOOL, |_, arguments| {
        let found = types::by_oid(oid_of(&arguments[0]));
        Ok(found.map_or(Datum::Null, |_| Datum::Bool(true)))
    }),
    strict("pg_function_is_visible", &[OID], BOOL, visible),
    strict("pg_operator_is_visible", &[OID], BOOL, visible),
    strict("pg_opclass_is_visible", &[OID], BOOL, visible),
    strict("pg_opfamily_is_visible", &[OID], BOOL, visible),
    strict("pg_collation_is_visible", &[OID], BOOL, visible),
    strict("pg_conversion_is_visible", &[OID], BOOL, visible),
    strict("pg_statistics_obj_is_visible", &[OID], BOOL, visible),
    strict("pg_ts_config_is_visible", &[OID], BOOL, visible),
    strict("pg_ts_dict_is_visible", &[OID], BOOL, visible),
    strict("pg_ts_parser_is_visible", &[OID], BOOL, visible),
    strict("pg_ts_template_is_visible", &[OID], BOOL, visible),
    strict("pg_get_expr", &[NODE_TREE, OID], TEXT, expression),
    strict(
        "pg_get_expr",
        &[NODE_TREE, OID, BOOL],
        TEXT,
        |calls, arguments| match arguments[2].is_true() {
            true => Ok(Datum::text(unwrapped(text_of(&arguments[0])))),
            false => expression(calls, arguments),
        },
    ),
    strict("pg_get_expr", &[TEXT, OID], TEXT, expression),
    strict("pg_get_indexdef", &[OID], TEXT, |calls, arguments| {
        let found = calls.catalogue.index_described(oid_of(&arguments[0]));
        Ok(Datum::option(found, |(table, index)| {
            Datum::text(index_definition(table, index, true))
        }))
    }),
    strict(
        "pg_get_indexdef",
        &[OID, INT4, BOOL],
        TEXT,
        |calls, arguments| {
            let Some((table, index)) = calls.catalogue.index_described(oid_of(&arguments[0]))
            else {
                return null();
            };
            Ok(match int_of(&arguments[1]) {
                0 => {
                    let with_schema = !arguments[2].is_true() || !calls.sees("public");
                    Datum::text(index_definition(table, index, with_schema))
                }
                number => {
                    let position = usize::try_from(number - 1).unwrap_or(usize::MAX);
                    Datum::text(index_column(table, index, position).unwrap_or_default())
                }
            })
        },
    ),
    strict("pg_get_constraintdef", &[OID], TEXT, |calls, arguments| {
        constraint(calls, &arguments[0], false)
    }),
    strict(
        "pg_get_constraintdef",
        &[OID, BOOL],
        TEXT,
        |calls, arguments| constraint(calls, &arguments[0], arguments[1].is_true()),
    ),
    strict("pg_get_viewdef", &[OID], TEXT, none),
    strict("pg_get_viewdef", &[OID, BOOL], TEXT, none),
    strict("pg_get_viewdef", &[OID, INT4], TEXT, none),
    strict("pg_get_ruledef", &[OID], TEXT, none),
    strict("pg_get_ruledef", &[OID, BOOL], TEXT, none),
    strict("pg_get_triggerdef", &[OID], TEXT, none),
    strict("pg_get_triggerdef", &[OID, BOOL], TEXT, none),
    strict("pg_get_functiondef", &[OID], TEXT, none),
    strict("pg_get_function_sqlbody", &[OID], TEXT, none),
    strict("pg_get_partkeydef", &[OID], TEXT, none),
    strict("pg_get_partition_constraintdef", &[OID], TEXT, none),
    strict("pg_get_statisticsobjdef", &[OID], TEXT, none),
    strict("pg_get_statisticsobjdef_columns", &[OID], TEXT, none),
    strict(
        "pg_get_serial_sequence",
        &[TEXT, TEXT],
        TEXT,
        |calls, arguments| {
            let table = calls.object(text_of(&arguments[0]), REGCLASS)?;
            serial_sequence(&calls, table.as_oid(), text_of(&arguments[1]))
        },
    ),
    strict("pg_sequence_last_value", &[OID], INT8, none),
    strict(
        "pg_get_function_arguments",
        &[OID],
        TEXT,
        function_arguments,
    ),
    strict(
        "pg_get_function_identity_arguments",
        &[OID],
        TEXT,
        function_arguments,
    ),
    strict("pg_get_function_result", &[OID], TEXT, |_, arguments| {
        let oid = oid_of(&arguments[0]);
        let found = PROCEDURES.iter().find(|it| it.oid == oid);
        Ok(Datum::option(found, |it| {
            let set = if it.is_set { "SETOF " } else { "" };
            Datum::text(format!("{set}{}", types::format_type(it.result, None)))
        }))
    }),
    strict("obj_description", &[OID], TEXT, |calls, arguments| {
        description(calls, (&arguments[0], 0), None)
    }),
    strict("obj_description", &[OID, NAME], TEXT, |calls, arguments| {
        description(calls, (&arguments[0], 0), Some(text_of(&arguments[1])))
    }),
    strict(
        "col_description",
        &[OID, INT4],
        TEXT,
        |calls, arguments| match usize::try_from(int_of(&arguments[1])) {
            Ok(column) if column > 0 => {
                description(calls, (&arguments[0], column), Some("pg_class"))
            }
            _ => null(),
        },
    ),
    strict("shobj_description", &[OID, NAME], TEXT, none),
    // The store does not know the sizes of its tables.
    strict("pg_relation_size", &[REGCLASS], INT8, none),
    strict("pg_relation_size", &[REGCLASS, TEXT], INT8, none),
    strict("pg_table_size", &[REGCLASS], INT8, none),
    strict("pg_indexes_size", &[REGCLASS], INT8, none),
    strict("pg_total_relation_size", &[REGCLASS], INT8, none),
    strict("pg_database_size", &[NAME], INT8, none),
    strict("pg_database_size", &[OID], INT8, none),
    strict("pg_tablespace_size", &[OID], INT8, none),
    strict("pg_size_pretty", &[INT8], TEXT, |_, arguments| {
        Ok(Datum::text(size(int_of(&arguments[0]))))
    }),
    strict("pg_relation_filenode", &[REGCLASS], OID, |_, arguments| {
        Ok(arguments[0].clone())
    }),
    strict("pg_relation_is_publishable", &[REGCLASS], BOOL, |_, _| {
        Ok(Datum::Bool(false))
    }),
    strict(
        "pg_relation_is_updatable",
        &[REGCLASS, BOOL],
        INT4,
        |calls, arguments| {
            // PostgreSQL's bits of INSERT, UPDATE and DELETE.
            let is_table = calls.catalogue.table(oid_of(&arguments[0])).is_some();
            Ok(Datum::Int(if is_table { 28 } else { 0 }))
        },
    ),
    strict(
        "pg_column_is_updatable",
        &[REGCLASS, INT2, BOOL],
        BOOL,
        |calls, arguments| {
            Ok(Datum::Bool(
                calls.catalogue.table(oid_of(&arguments[0])).is_some(),
            ))
        },
    ),
    strict(
        "pg_index_column_has_property",
        &[REGCLASS, INT4, TEXT],
        BOOL,
        column_property,
    ),
    strict(
        "pg_index_has_property",
        &[REGCLASS, TEXT],
        BOOL,
        |_, arguments| {
            Ok(match text_of(&arguments[1]) {
                "index_scan" | "backward_scan" => Datum::Bool(true),
                "clusterable" | "bitmap_scan" => Datum::Bool(false),
                _ => Datum::Null,
            })
        },
    ),
    strict(
        "pg_indexam_has_property",
        &[OID, TEXT],
        BOOL,
        |_, arguments| {
            Ok(match text_of(&arguments[1]) {
                "can_order" | "can_unique" | "can_multi_col" | "can_include" => Datum::Bool(true),
                "can_exclude" => Datum::Bool(false),
                _ => Datum::Null,
            })
        },
    ),
    strict("to_regclass", &[TEXT], REGCLASS, |calls, it| {
        known(calls, it, REGCLASS)
    }),
    strict("to_regtype", &[TEXT], REGTYPE, |calls, it| {
        known(calls, it, REGTYPE)
    }),
    strict("to_regproc", &[TEXT], REGPROC, |calls, it| {
        known(calls, it, REGPROC)
    }),
    strict("to_regprocedure", &[TEXT], REGPROCEDURE, |calls, it| {
        known(calls, it, REGPROCEDURE)
    }),
    strict("to_regoper", &[TEXT], REGOPER, |calls, it| {
        known(calls, it, REGOPER)
    }),
    strict("to_regnamespace", &[TEXT], REGNAMESPACE, |calls, it| {
        known(calls, it, REGNAMESPACE)
    }),
    strict("to_regrole", &[TEXT], REGROLE, |calls, it| {
        known(calls, it, REGROLE)
    }),
    strict("to_regcollation", &[TEXT], REGCOLLATION, |calls, it| {
        known(calls, it, REGCOLLATION)
    }),
    strict("information_schema._pg_truetypid", &[OID], OID, |_, it| {
        Ok(it[0].clone())
    }),
];

/// Returns the name of the sequence of a column, ready to be an argument of `nextval`.
fn serial_sequence(calls: &Calls<'_>, table: Option<Oid>, column: &str) -> Called {
    let schema = &calls.catalogue.schema;
    let table = schema.tables.iter().find(|it| Some(it.oid) == table);
    let owned = schema.sequences.iter().find(|sequence| {
        let owner = sequence.owner.as_ref();
        owner.is_some_and(|(of, name)| table.is_some_and(|it| it.name == *of) && *name == column)
    });
    match owned {
        Some(sequence) => Ok(Datum::text(format!("public.{}", quoted(&sequence.name)))),
        None => null(),
    }
}

fn none(_: Calls<'_>, _: &[Datum]) -> Called {
    null()
}

/// All objects of these kinds are in `pg_catalog`.
fn visible(_: Calls<'_>, _: &[Datum]) -> Called {
    Ok(Datum::Bool(true))
}

/// The catalogue has the texts of expressions in place of their trees.
fn expression(_: Calls<'_>, arguments: &[Datum]) -> Called {
    Ok(arguments[0].clone())
}

/// Returns an expression without the parentheses around the whole of it.
fn unwrapped(expression: &str) -> &str {
    let Some(inner) = expression
        .strip_prefix('(')
        .and_then(|it| it.strip_suffix(')'))
    else {
        return expression;
    };
    let (mut depth, mut is_quoted) = (0, false);
    for character in inner.chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted && depth == 0 => return expression,
            ')' if !is_quoted => depth -= 1,
            _ => {}
        }
    }
    inner
}

fn constraint(calls: Calls<'_>, oid: &Datum, pretty: bool) -> Called {
    let schema = &calls.catalogue.schema;
    let with_schema = !calls.sees("public");
    let found = rows::constraint_definition(schema, oid_of(oid), pretty, with_schema);
    Ok(Datum::option(found, Datum::text))
}

fn description(calls: Calls<'_>, (oid, column): (&Datum, usize), relation: Option<&str>) -> Called {
    let schema = &calls.catalogue.schema;
    let found = rows::comment(schema, (oid_of(oid), column), relation);
    Ok(Datum::option(found, Datum::text))
}

fn function_arguments(_: Calls<'_>, arguments: &[Datum]) -> Called {
    let oid = oid_of(&arguments[0]);
    let found = PROCEDURES.iter().find(|it| it.oid == oid);
    Ok(Datum::option(found, |it| {
        let types = it.arguments.iter().map(|it| types::format_type(*it, None));
        Datum::text(types.collect::<Vec<_>>().join(", "))
    }))
}

/// Writes a size as PostgreSQL does: up to 10239 of a unit.
fn size(bytes: i64) -> String {
    let mut count = bytes;
    for unit in ["bytes", "kB", "MB", "GB", "TB"] {
        if count.abs() < 10 * 1024 || unit == "TB" {
            return format!("{count} {unit}");
        }
        count = (count + count.signum() * 512) / 1024;
    }
    unreachable!("the last unit has no limit")
}

fn column_property(calls: Calls<'_>, arguments: &[Datum]) -> Called {
    let found = calls.catalogue.index_described(oid_of(&arguments[0]));
    let position = usize::try_from(int_of(&arguments[1]) - 1).ok();
    let key = found.and_then(|(_, index)| index.keys.get(position?));
    let Some(key) = key else {
        return null();
    };
    Ok(match text_of(&arguments[2]) {
        "asc" => Datum::Bool(!key.descending),
        "desc" => Datum::Bool(key.descending),
        "nulls_first" => Datum::Bool(key.nulls_first),
        "nulls_last" => Datum::Bool(!key.nulls_first),
        "orderable" | "returnable" | "search_array" | "search_nulls" => Datum::Bool(true),
        "distance_orderable" => Datum::Bool(false),
        _ => Datum::Null,
    })
}

/// Returns the object of a name, or NULL if there is none.
fn known(calls: Calls<'_>, arguments: &[Datum], of: Oid) -> Called {
    Ok(calls
        .object(text_of(&arguments[0]), of)
        .unwrap_or(Datum::Null))
}
