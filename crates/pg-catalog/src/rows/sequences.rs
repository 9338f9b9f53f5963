//! The rows about sequences, and about the columns that own them.

use super::{Named, OWNER_NAME, RowSource, int, text, yes_no};
use crate::datum::Datum;
use crate::description::{Oid, SequenceDescription};
use crate::types;

/// The number of `pg_class` itself.
const CLASSES: Oid = 1259;

/// The columns of every sequence: name and type.
pub(super) const COLUMNS: [(&str, Oid); 3] = [
    ("last_value", types::INT8),
    ("log_cnt", types::INT8),
    ("is_called", types::BOOL),
];

pub(super) fn rows(relation: &str, source: RowSource<'_>) -> Option<Vec<Named>> {
    let sequences = source.schema.sequences.iter();
    Some(match relation {
        "pg_sequence" => sequences
            .map(|sequence| {
                vec![
                    ("seqrelid", Datum::oid(sequence.oid)),
                    ("seqtypid", Datum::oid(sequence.type_oid)),
                    ("seqstart", int(sequence.start)),
                    ("seqincrement", int(sequence.increment)),
                    ("seqmax", int(sequence.max)),
                    ("seqmin", int(sequence.min)),
                    ("seqcache", int(sequence.cache)),
                    ("seqcycle", Datum::Bool(sequence.cycles)),
                ]
            })
            .collect(),
        "pg_sequences" => sequences
            .map(|sequence| {
                vec![
                    ("schemaname", text("public")),
                    ("sequencename", text(&sequence.name)),
                    ("sequenceowner", text(OWNER_NAME)),
                    ("data_type", Datum::oid(sequence.type_oid)),
                    ("start_value", int(sequence.start)),
                    ("min_value", int(sequence.min)),
                    ("max_value", int(sequence.max)),
                    ("increment_by", int(sequence.increment)),
                    ("cycle", Datum::Bool(sequence.cycles)),
                    ("cache_size", int(sequence.cache)),
                ]
            })
            .collect(),
        "pg_depend" => sequences.filter_map(|it| dependency(source, it)).collect(),
        _ => return None,
    })
}

/// Returns the row by which a sequence is dropped with its column.
fn dependency(source: RowSource<'_>, sequence: &SequenceDescription) -> Option<Named> {
    let (table, column) = sequence.owner.as_ref()?;
    let table = source.schema.tables.iter().find(|it| it.name == *table)?;
    let position = table.columns.iter().position(|it| it.name == *column)?;
    let is_identity = table.columns[position].identity.is_some();
    Some(vec![
        ("classid", Datum::oid(CLASSES)),
        ("objid", Datum::oid(sequence.oid)),
        ("refclassid", Datum::oid(CLASSES)),
        ("refobjid", Datum::oid(table.oid)),
        ("refobjsubid", int(position + 1)),
        ("deptype", text(if is_identity { "i" } else { "a" })),
    ])
}

/// Returns the rows of `information_schema.sequences`, which leaves those of identity columns out.
pub(super) fn of_information_schema(source: RowSource<'_>) -> Vec<Named> {
    let is_identity = |sequence: &&SequenceDescription| {
        let owner = sequence.owner.as_ref();
        owner.is_some_and(|(table, column)| {
            let table = source.schema.tables.iter().find(|it| it.name == *table);
            let column = table.and_then(|it| it.columns.iter().find(|it| it.name == *column));
            column.is_some_and(|it| it.identity.is_some())
        })
    };
    let sequences = source.schema.sequences.iter();
    let sequences = sequences.filter(|it| !is_identity(it)).map(|sequence| {
        let bits = match sequence.type_oid {
            types::INT2 => 16,
            types::INT4 => 32,
            _ => 64,
        };
        vec![
            ("sequence_catalog", text(&source.session.database)),
            ("sequence_schema", text("public")),
            ("sequence_name", text(&sequence.name)),
            ("data_type", text(types::sql_name(sequence.type_oid))),
            ("numeric_precision", int(bits)),
            ("numeric_precision_radix", int(2)),
            ("numeric_scale", int(0)),
            ("start_value", text(sequence.start.to_string())),
            ("minimum_value", text(sequence.min.to_string())),
            ("maximum_value", text(sequence.max.to_string())),
            ("increment", text(sequence.increment.to_string())),
            ("cycle_option", yes_no(sequence.cycles)),
        ]
    });
    sequences.collect()
}
