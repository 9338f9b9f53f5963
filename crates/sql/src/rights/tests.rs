//! Statements, and what PostgreSQL 15 answers a role with some privileges.

use protocol::configuration::roles::{RoleAttributes, RoleChange};

use super::*;
use crate::fixture::{add_table, schema, servers};
use crate::parse::parse;

/// Returns a configuration with two tables, a sequence, and the role `ann`, which owns `own`.
fn configuration() -> Configuration {
    let mut configuration = servers();
    for text in [
        "CREATE TABLE t (id bigint PRIMARY KEY, n bigint)",
        "CREATE TABLE own (id bigint PRIMARY KEY)",
        "CREATE TABLE child (id bigint PRIMARY KEY)",
    ] {
        add_table(&mut configuration, schema(text));
    }
    let mut t = configuration.table_named("t").unwrap().clone();
    t.schema.constraints.referenced_by = vec!["child".into()];
    configuration.tables.put(t);
    change(&mut configuration, create("ann"));
    change(&mut configuration, create("readers"));
    let own = configuration.table_named("own").unwrap().id;
    let owner = "ann".to_owned();
    let tables = vec![own];
    change(&mut configuration, RoleChange::SetOwner { tables, owner });
    configuration
}

fn create(name: &str) -> RoleChange {
    RoleChange::Create {
        name: name.into(),
        attributes: RoleAttributes::default(),
        of: Vec::new(),
        members: Vec::new(),
    }
}

fn change(configuration: &mut Configuration, change: RoleChange) {
    let changed = configuration.roles.changed(&change, &configuration.tables);
    configuration.roles = changed.unwrap().into();
}

fn grant(configuration: &mut Configuration, table: &str, letters: &str, to: Option<&str>) {
    let id = configuration.table_named(table).unwrap().id;
    let names = Privileges::NAMES.into_iter();
    let wanted = names.filter(|(_, _, letter)| letters.contains(*letter));
    let wanted = wanted.fold(Privileges::NONE, |all, it| all.with(it.0));
    let grant = RoleChange::Grant {
        objects: vec![(GrantObject::Relation(id), wanted)],
        grantees: vec![to.map(str::to_owned)],
    };
    change(configuration, grant);
}

fn checked(configuration: &Configuration, text: &str) -> Result<(), String> {
    let statement = parse(text).unwrap().remove(0).statement;
    let ann = configuration.roles.named("ann").unwrap().id;
    let rights = RoleRights::of(configuration, Some(ann)).unwrap();
    rights.check(&statement).map_err(|error| error.to_string())
}

#[test]
fn each_statement_needs_its_privileges() {
    for (text, letters) in [
        ("SELECT 1", ""),
        ("SELECT count(*) FROM t", "r"),
        ("SELECT id FROM t WHERE id = 1", "r"),
        ("SELECT id FROM t FOR UPDATE", "rw"),
        ("EXPLAIN SELECT id FROM t", "r"),
        ("EXPLAIN ANALYZE DELETE FROM t", "d"),
        ("INSERT INTO t VALUES (1, 2)", "a"),
        ("INSERT INTO t VALUES (1, 2) RETURNING id", "ar"),
        ("INSERT INTO t VALUES (1, 2) RETURNING 1", "a"),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT DO NOTHING", "a"),
        (
            "INSERT INTO t VALUES (1, 2) ON CONFLICT (id) DO NOTHING",
            "ar",
        ),
        (
            "INSERT INTO t VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET n = 1",
            "arw",
        ),
        ("INSERT INTO own SELECT id FROM t", "r"),
        ("INSERT INTO t (id) SELECT id FROM own", "a"),
        ("UPDATE t SET n = 1", "w"),
        ("UPDATE t SET n = n + 1", "rw"),
        ("UPDATE t SET n = 1 WHERE id = 1", "rw"),
        ("UPDATE t SET n = 1 RETURNING n", "rw"),
        ("UPDATE own SET id = id FROM t", "r"),
        ("DELETE FROM own USING t", "r"),
        ("UPDATE t SET n = 1 FROM own", "w"),
        ("DELETE FROM t USING t AS other WHERE true", "rd"),
        ("DELETE FROM t", "d"),
        ("DELETE FROM t WHERE id = 1", "rd"),
        ("DELETE FROM t RETURNING id", "rd"),
        ("TRUNCATE t, child", "D"),
        ("SHOW INDEX RANGES FROM t", "r"),
        ("SHOW TABLE t", ""),
    ] {
        let mut open = configuration();
        grant(&mut open, "t", letters, Some("ann"));
        grant(&mut open, "child", "D", Some("ann"));
        assert_eq!(checked(&open, text), Ok(()), "{text}");
        for missing in letters.chars() {
            let mut lacking = configuration();
            grant(
                &mut lacking,
                "t",
                &letters.replace(missing, ""),
                Some("ann"),
            );
            grant(&mut lacking, "child", "D", Some("ann"));
            let expected = Err("permission denied for table t".to_owned());
            assert_eq!(
                checked(&lacking, text),
                expected,
                "{text} without {missing}"
            );
        }
    }
}

#[test]
fn definitions_need_the_owner() {
    let configuration = configuration();
    for (text, expected) in [
        ("DROP TABLE t", "must be owner of table t"),
        ("DROP TABLE own, t", "must be owner of table t"),
        ("ALTER TABLE t RENAME TO u", "must be owner of table t"),
        ("ALTER TABLE t ADD COLUMN x int", "must be owner of table t"),
        ("CREATE INDEX i ON t (n)", "must be owner of table t"),
        ("TRUNCATE t CASCADE", "permission denied for table t"),
        (
            "CREATE TABLE u (id bigint PRIMARY KEY)",
            "permission denied for schema public",
        ),
        ("CREATE SEQUENCE s", "permission denied for schema public"),
        (
            "CREATE INDEX i ON own (id)",
            "permission denied for schema public",
        ),
        (
            "ALTER TABLE own RENAME TO u",
            "permission denied for schema public",
        ),
        (
            "ALTER TABLE own ADD FOREIGN KEY (id) REFERENCES t",
            "permission denied for table t",
        ),
    ] {
        assert_eq!(
            checked(&configuration, text),
            Err(expected.into()),
            "{text}"
        );
    }
    for text in [
        "DROP TABLE own",
        "DROP TABLE missing",
        "ALTER TABLE own ADD COLUMN x int",
        "TRUNCATE own",
        "SELECT * FROM own",
    ] {
        assert_eq!(checked(&configuration, text), Ok(()), "{text}");
    }
}

#[test]
fn privileges_come_from_roles_and_the_public() {
    let text = "SELECT id FROM t";
    let mut open = configuration();
    grant(&mut open, "t", "r", None);
    assert_eq!(checked(&open, text), Ok(()));
    let mut through = configuration();
    grant(&mut through, "t", "r", Some("readers"));
    assert!(checked(&through, text).is_err());
    let roles = vec!["readers".to_owned()];
    let members = vec!["ann".to_owned()];
    change(&mut through, RoleChange::Join { roles, members });
    assert_eq!(checked(&through, text), Ok(()));
    let ann = through.roles.named("ann").unwrap().id;
    let names = vec!["readers".to_owned()];
    let in_use = through
        .roles
        .changed(&RoleChange::Drop { names }, &through.tables);
    assert!(
        in_use
            .unwrap_err()
            .to_string()
            .contains("cannot be dropped")
    );
    let none = RoleRights::of(&through, Some(RoleId(ann.0 + 9)));
    assert!(none.is_err(), "a role that was dropped may do nothing");
    assert!(RoleRights::of(&through, None).unwrap().is_superuser());
    assert!(
        RoleRights::of(&through, Some(RoleId::BOOTSTRAP))
            .unwrap()
            .is_superuser()
    );
}
