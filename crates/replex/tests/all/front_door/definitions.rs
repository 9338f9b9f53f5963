//! Tables change in use, with the same answers as from a real PostgreSQL: given statements, and
//! random ones. For more seeds: `REPLEX_FRONT_DOOR_SEEDS=100..200`.

use std::ops::Range;

use super::same_as_postgres::both;
use crate::ranges_postgres::seeds;
use crate::support::drawn_ranges::Draw;
use crate::support::raw_client::Messages;

const SEEDS: Range<u64> = 0..2;
const SEEDS_OF_RUN: &str = "REPLEX_FRONT_DOOR_SEEDS";
const STATEMENTS_OF_A_SEED: usize = 60;

const GIVEN: &[&str] = &[
    "CREATE TABLE a (id int PRIMARY KEY, n int, s varchar(5) NOT NULL DEFAULT 'x')",
    "INSERT INTO a VALUES (1, 10), (2, NULL), (3, 30)",
    "SELECT id FROM a WHERE 1 / (n - 10) > 0",
    "SELECT id FROM a WHERE s || '(' ~ (s || '(')",
    "ALTER TABLE a ADD COLUMN k bigint NOT NULL DEFAULT 7, ADD b boolean",
    "SELECT * FROM a ORDER BY id",
    "ALTER TABLE a ALTER COLUMN k SET DEFAULT 8",
    "INSERT INTO a (id) VALUES (4)",
    "SELECT id, k FROM a ORDER BY id",
    "UPDATE a SET b = true WHERE k = 7",
    "SELECT id, b FROM a ORDER BY id",
    "ALTER TABLE a ADD COLUMN k int",
    "ALTER TABLE a ADD COLUMN IF NOT EXISTS k int",
    "ALTER TABLE a ADD COLUMN q int NOT NULL",
    "ALTER TABLE a ADD COLUMN q int DEFAULT 1 CHECK (q > 1)",
    "ALTER TABLE a ALTER n SET NOT NULL",
    "ALTER TABLE a ALTER id DROP NOT NULL",
    "ALTER TABLE a ADD CONSTRAINT big CHECK (n > 10)",
    "ALTER TABLE a ADD CONSTRAINT big CHECK (n > 10) NOT VALID",
    "ALTER TABLE a ADD CONSTRAINT big CHECK (n > 11)",
    "ALTER TABLE a VALIDATE CONSTRAINT big",
    "INSERT INTO a (id, n) VALUES (5, 5)",
    "UPDATE a SET n = n + 1",
    "UPDATE a SET n = 40 WHERE n IS NULL",
    "ALTER TABLE a ALTER n SET NOT NULL",
    "ALTER TABLE a VALIDATE CONSTRAINT big",
    "INSERT INTO a (id, n) VALUES (5, NULL)",
    "ALTER TABLE a RENAME CONSTRAINT big TO large",
    "INSERT INTO a (id, n) VALUES (5, 1)",
    "ALTER TABLE a DROP CONSTRAINT big",
    "ALTER TABLE a DROP CONSTRAINT large",
    "ALTER TABLE a DROP CONSTRAINT IF EXISTS large",
    "UPDATE a SET n = id + 40",
    "ALTER TABLE a ADD CONSTRAINT one UNIQUE (n)",
    "INSERT INTO a (id, n) VALUES (6, 40)",
    "INSERT INTO a (id, n) VALUES (6, 41)",
    "ALTER TABLE a DROP CONSTRAINT one",
    "INSERT INTO a (id, n) VALUES (7, 41)",
    "ALTER TABLE a RENAME n TO m",
    "ALTER TABLE a RENAME missing TO m",
    "ALTER TABLE a RENAME m TO s",
    "ALTER TABLE a RENAME TO z",
    "SELECT m FROM z ORDER BY m",
    "SELECT 1 FROM a",
    "ALTER TABLE a ADD x int",
    "ALTER TABLE IF EXISTS a ADD x int",
    "ALTER TABLE z RENAME TO t",
    "CREATE TABLE c (id int PRIMARY KEY, z int REFERENCES z (id))",
    "INSERT INTO c VALUES (1, 1), (2, 3)",
    "TRUNCATE z",
    "TRUNCATE missing",
    "TRUNCATE c, z",
    "SELECT count(*) FROM z",
    "INSERT INTO c VALUES (1, 1)",
    "INSERT INTO z (id, m) VALUES (1, 1)",
    "INSERT INTO c VALUES (1, 1)",
    "ALTER TABLE z RENAME TO y",
    "INSERT INTO c VALUES (2, 2)",
    "TRUNCATE TABLE y CASCADE",
    "SELECT count(*) FROM c",
    "ALTER TABLE c DROP CONSTRAINT c_z_fkey",
    "INSERT INTO c VALUES (2, 2)",
    "TRUNCATE y",
    "DROP TABLE y",
    "TRUNCATE c CONTINUE IDENTITY RESTRICT",
    "ALTER TABLE c ADD q int NOT NULL, ADD r int CHECK (r > 0) NOT NULL",
    "INSERT INTO c VALUES (1, 1, 2, 0)",
    "INSERT INTO c VALUES (1, 1, NULL, 1)",
    "INSERT INTO c VALUES (1, 1, 2, 3)",
    "SELECT * FROM c",
];

#[tokio::test]
async fn definitions_change_as_in_postgresql() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    for text in GIVEN {
        both.query(text);
    }
}

#[tokio::test]
async fn prepared_statements_learn_of_other_columns() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    both.query("CREATE TABLE p (id int PRIMARY KEY, n int)");
    both.query("INSERT INTO p VALUES (1, 2)");
    let prepare = Messages::new()
        .parse("all", "SELECT * FROM p", &[])
        .parse("add", "INSERT INTO p VALUES ($1, $2)", &[23, 23])
        .sync();
    both.ask(&prepare, "prepare");
    let all = Messages::new()
        .bind(("", "all"), 0, &[], 0)
        .execute("", 0)
        .sync();
    both.ask(&all, "with its columns");
    both.query("ALTER TABLE p ADD k int DEFAULT 5");
    // PostgreSQL refuses it in Bind, the store in Execute.
    for client in [&mut both.store, &mut both.postgres] {
        let answers = client.ask(&all);
        let refused = answers.iter().find(|it| it.tag == b'E').unwrap();
        assert_eq!(refused.report().code, "0A000");
    }
    let values = [Some(b"2".to_vec()), Some(b"3".to_vec())];
    let add = Messages::new()
        .bind(("", "add"), 0, &values, 0)
        .execute("", 0)
        .sync();
    both.ask(&add, "an insert goes on");
    both.query("SELECT * FROM p ORDER BY id");
}

/// Returns a statement about a table `d`, which has the columns `id` and `c0` to `c5` at most.
fn statement(draw: &mut Draw) -> String {
    let column = format!("c{}", draw.below(6));
    let other = format!("c{}", draw.below(6));
    let number = draw.below(4);
    match draw.below(16) {
        0 => format!("ALTER TABLE d ADD COLUMN {column} int"),
        1 => format!("ALTER TABLE d ADD {column} int NOT NULL DEFAULT {number}"),
        2 => format!("ALTER TABLE d ADD {column} int CHECK ({column} > {number})"),
        3 => format!("ALTER TABLE d ADD COLUMN {column} int NOT NULL"),
        4 => format!("ALTER TABLE d ALTER {column} SET DEFAULT {number}"),
        5 => format!("ALTER TABLE d ALTER {column} DROP DEFAULT, ALTER {other} DROP NOT NULL"),
        6 => format!("ALTER TABLE d ALTER {column} SET NOT NULL"),
        7 => format!("ALTER TABLE d ALTER {column} DROP NOT NULL"),
        8 => format!("ALTER TABLE d ADD CONSTRAINT k{number} CHECK ({column} <> {number})"),
        9 => format!("ALTER TABLE d ADD CONSTRAINT k{number} CHECK ({column} > 0) NOT VALID"),
        10 => format!("ALTER TABLE d VALIDATE CONSTRAINT k{number}"),
        11 => format!("ALTER TABLE d DROP CONSTRAINT IF EXISTS k{number}"),
        12 => format!("ALTER TABLE d RENAME {column} TO {other}"),
        13 if number == 0 => "TRUNCATE d".to_owned(),
        13 | 14 => format!(
            "UPDATE d SET {column} = {number} WHERE id % 3 = {}",
            draw.below(3)
        ),
        _ => {
            let id = draw.below(1000);
            format!("INSERT INTO d (id, {column}) VALUES ({id}, {number})")
        }
    }
}

#[tokio::test]
async fn random_definitions_change_as_in_postgresql() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    for seed in seeds(SEEDS_OF_RUN, SEEDS) {
        println!("seed {seed}");
        let mut draw = Draw(seed);
        both.query("CREATE TABLE d (id int PRIMARY KEY, c0 int)");
        for id in 0..5 {
            both.query(&format!("INSERT INTO d VALUES (-{id}, {id})"));
        }
        for _ in 0..STATEMENTS_OF_A_SEED {
            let text = statement(&mut draw);
            both.query(&text);
            both.query("SELECT * FROM d ORDER BY id");
        }
        both.query("DROP TABLE d");
    }
}
