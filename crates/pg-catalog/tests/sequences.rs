//! Sequences, the columns that own them, and columns that statements do not see.

mod shop;

use pg_catalog::{
    DescribedColumn, SchemaCatalogue, SchemaDescription, SequenceDescription, TableDescription,
};

use shop::{answer, shop};

fn column(name: &str, default: Option<&str>, identity: Option<char>) -> DescribedColumn {
    DescribedColumn {
        name: name.into(),
        type_oid: 23,
        type_modifier: -1,
        not_null: true,
        default: default.map(str::to_owned),
        default_oid: 16_500,
        identity,
        is_generated: false,
        is_hidden: name == "hidden",
    }
}

fn sequence(oid: u32, column: &str) -> SequenceDescription {
    SequenceDescription {
        oid,
        name: format!("t_{column}_seq"),
        type_oid: 23,
        start: 1,
        min: 1,
        max: 2_147_483_647,
        increment: 1,
        cache: 1,
        cycles: false,
        owner: Some(("t".into(), column.into())),
        ..SequenceDescription::default()
    }
}

#[test]
fn sequences_and_their_columns() {
    let without = answer(&shop(), "SELECT count(*) FROM pg_sequence");
    assert_eq!(without, "count\n0");
    let serial = Some("nextval('t_a_seq'::regclass)");
    let catalogue = SchemaCatalogue::new(SchemaDescription {
        tables: vec![TableDescription {
            oid: 16_400,
            name: "t".into(),
            columns: vec![
                column("a", serial, None),
                column("hidden", None, None),
                column("b", None, Some('d')),
            ],
            ..TableDescription::default()
        }],
        sequences: vec![sequence(16_401, "a"), sequence(16_402, "b")],
        ..SchemaDescription::default()
    });
    for (statement, expected) in [
        (
            "SELECT relname FROM pg_class WHERE relkind = 'S' ORDER BY 1",
            "relname\nt_a_seq\nt_b_seq",
        ),
        (
            "SELECT seqrelid::regclass, format_type(seqtypid, NULL), seqmax FROM pg_sequence \
             WHERE seqrelid = 't_a_seq'::regclass",
            "seqrelid|format_type|seqmax\nt_a_seq|integer|2147483647",
        ),
        (
            "SELECT pg_get_serial_sequence('t', 'a') AS a, \
             pg_get_serial_sequence('public.t', 'b') AS b",
            "a|b\npublic.t_a_seq|public.t_b_seq",
        ),
        (
            "SELECT objid::regclass, refobjsubid, deptype FROM pg_depend \
             WHERE refobjid = 't'::regclass ORDER BY 2",
            "objid|refobjsubid|deptype\nt_a_seq|1|a\nt_b_seq|3|i",
        ),
        (
            "SELECT attname, attnum, attidentity, atthasdef FROM pg_attribute \
             WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            "attname|attnum|attidentity|atthasdef\na|1||t\nb|3|d|f",
        ),
        (
            "SELECT column_name, is_identity, identity_generation, column_default \
             FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position",
            "column_name|is_identity|identity_generation|column_default\n\
             a|NO|∅|nextval('t_a_seq'::regclass)\nb|YES|BY DEFAULT|∅",
        ),
        (
            "SELECT sequence_name, data_type FROM information_schema.sequences",
            "sequence_name|data_type\nt_a_seq|integer",
        ),
        (
            "SELECT sequencename, max_value FROM pg_sequences ORDER BY 1",
            "sequencename|max_value\nt_a_seq|2147483647\nt_b_seq|2147483647",
        ),
    ] {
        assert_eq!(answer(&catalogue, statement), expected, "{statement}");
    }
}
