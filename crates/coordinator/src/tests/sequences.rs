//! Sequences: created with the table of their columns, and dropped with it.

use placement::{Alteration, ColumnDefault, Sequence, SequenceDefault, SequenceOwner};

use super::copies::{scene_of, seal};
use super::*;

/// Returns a sequence that belongs to a column of a table.
fn sequence(name: &str, table: Option<&str>) -> Schema {
    let rules = Sequence {
        value_type: ColumnType::Int64,
        increment: 1,
        min: 1,
        max: i64::MAX,
        start: 1,
        cache: 1,
        cycles: false,
        owner: table.map(|table| SequenceOwner {
            table: table.into(),
            column: "id".into(),
        }),
    };
    rules.into_schema(name.into(), 0)
}

/// Returns a table whose column `id` has the default of a sequence.
fn counted(name: &str, sequence: &str) -> Schema {
    let mut schema = table(name, 0);
    schema.columns[0].default = Some(ColumnDefault::Sequence(SequenceDefault {
        sequence: sequence.into(),
        identity: None,
    }));
    schema
}

fn with_sequences(schema: Schema, sequences: Vec<Schema>) -> Request {
    Request::CreateTable {
        schema,
        if_not_exists: false,
        sequences,
        owner: Default::default(),
    }
}

fn tables(scene: &Scene) -> Vec<String> {
    let tables = scene.coordinator.configuration().tables.iter();
    tables.map(|table| table.schema.name.clone()).collect()
}

#[test]
fn a_table_comes_and_goes_with_its_sequences() {
    let mut scene = Scene::new();
    scene.join(1);
    let own = vec![
        sequence("a_id_seq", Some("a")),
        sequence("other", Some("a")),
    ];
    let epoch = scene.epoch();
    scene.ask_from(CLIENT, with_sequences(counted("a", "a_id_seq"), own));
    assert_eq!(scene.epoch(), epoch + 1);
    assert_eq!(tables(&scene), ["a_id_seq", "other", "a"]);
    scene.ask_from(CLIENT, create_as(sequence("free", None)));
    scene.ask_from(CLIENT, drop_table("a"));
    assert_eq!(tables(&scene), ["free"]);
    let again = vec![sequence("a_id_seq", Some("a"))];
    scene.ask_from(CLIENT, with_sequences(counted("a", "a_id_seq"), again));
    let configuration = scene.coordinator.configuration();
    let id = configuration.table_named("a_id_seq").map(|table| table.id);
    assert_eq!(id, Some(TableId(5)), "numbers are not reused");
}

#[test]
fn a_table_that_is_refused_leaves_no_sequence() {
    let mut scene = Scene::new();
    scene.join(1);
    let own = || vec![sequence("a_id_seq", Some("a"))];
    let mut demanding = counted("a", "a_id_seq");
    demanding.failures_tolerated = 1;
    scene.refused(with_sequences(demanding, own()));
    let (message, _) = scene.refused(with_sequences(counted("a", "missing"), own()));
    assert!(message.contains("no sequence \"missing\""), "{message}");
    let twice = vec![sequence("a_id_seq", None), sequence("a_id_seq", None)];
    scene.refused(with_sequences(counted("a", "a_id_seq"), twice));
    scene.refused(with_sequences(counted("a", "a"), vec![sequence("a", None)]));
    scene.refused(with_sequences(counted("a", "b"), vec![table("b", 0)]));
    scene.refused(create_as(sequence("s", Some("missing"))));
    assert_eq!(tables(&scene), Vec::<String>::new());
    scene.ask_from(CLIENT, create("a", 0));
    let id = scene.coordinator.configuration().table_named("a");
    assert_eq!(id.map(|table| table.id), Some(TableId(1)));
}

#[test]
fn a_sequence_that_a_default_uses_is_not_dropped() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.ask_from(CLIENT, create("a", 0));
    scene.ask_from(CLIENT, create_as(sequence("s", Some("a"))));
    scene.ask_from(CLIENT, create_as(counted("b", "s")));
    for name in ["s", "a"] {
        let (message, _) = scene.refused(drop_table(name));
        assert!(message.contains("a default of table b"), "{message}");
    }
    scene.ask_from(CLIENT, drop_table("b"));
    scene.ask_from(CLIENT, drop_table("a"));
    assert_eq!(tables(&scene), Vec::<String>::new());
}

#[test]
fn a_sequence_follows_the_names_of_its_table_and_column() {
    let mut scene = scene_of(2);
    scene.ask_from(
        CLIENT,
        with_sequences(
            counted("t", "t_id_seq"),
            vec![sequence("t_id_seq", Some("t"))],
        ),
    );
    let alter = |table: &str, alteration| Request::AlterTable {
        table: table.into(),
        alterations: vec![alteration],
    };
    let other_column = Alteration::RenameColumn {
        column: "id".into(),
        name: "number".into(),
    };
    scene.ask(alter("t", other_column));
    seal(&mut scene);
    let name = "u".to_string();
    scene.ask(alter("t", Alteration::RenameTable { name }));
    seal(&mut scene);
    let configuration = scene.coordinator.configuration();
    let sequence = configuration.table_named("t_id_seq").unwrap();
    let owner = sequence.schema.sequence.as_ref().unwrap().owner.as_ref();
    let owner = owner.unwrap();
    assert_eq!((&owner.table[..], &owner.column[..]), ("u", "number"));

    let default = Some(ColumnDefault::Sequence(SequenceDefault {
        sequence: "missing".into(),
        identity: None,
    }));
    let column = "number".to_string();
    let reply = scene.ask(alter("u", Alteration::SetDefault { column, default }));
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    let name = "other".to_string();
    let reply = scene.ask(alter("t_id_seq", Alteration::RenameTable { name }));
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
}
