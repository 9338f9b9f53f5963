//! Random statements over tables with CHECK constraints and foreign keys of every kind, alone and
//! in transactions, as the store and PostgreSQL run them.
//!
//! A few seeds run always. For one again, or for more: `REPLEX_CONSTRAINT_SEEDS=100..200 cargo test
//! -p replex --features proxy --test all constraints_postgres`.

use std::ops::Range;

use super::ranges_postgres::{ask_postgres, seeds};
use crate::support::both::Both;
use crate::support::drawn_ranges::Draw;

const SEEDS: Range<u64> = 0..8;
const SEEDS_OF_RUN: &str = "REPLEX_CONSTRAINT_SEEDS";
const STEPS: usize = 60;
/// The tables, children first, with the columns of their keys.
const TABLES: [(&str, &str); 3] = [("g", "a, id"), ("c", "id"), ("p", "id")];

/// Returns the definitions of a parent, its child, which also refers to itself, and a grandchild.
fn definitions(random: &mut Draw) -> [String; 3] {
    let actions = [
        "",
        " ON DELETE RESTRICT",
        " ON DELETE CASCADE",
        " ON DELETE SET NULL",
    ];
    let deferrals = ["", "", " DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED"];
    let mut action = || format!("{}{}", actions[random.below(4)], deferrals[random.below(4)]);
    [
        "CREATE TABLE p (id bigint PRIMARY KEY, n bigint CHECK (n < 30))".to_owned(),
        format!(
            "CREATE TABLE c (id bigint PRIMARY KEY, p bigint REFERENCES p{}, \
             up bigint REFERENCES c{}, n bigint DEFAULT 0, CHECK (n >= p OR n > 5))",
            action(),
            action()
        ),
        format!(
            "CREATE TABLE g (a bigint, id bigint, n bigint, PRIMARY KEY (a, id), \
             CONSTRAINT of_c FOREIGN KEY (id) REFERENCES c (id){})",
            ["", " ON DELETE CASCADE"][random.below(2)]
        ),
    ]
}

fn statement(random: &mut Draw) -> String {
    let (id, other, n) = (random.below(6), random.below(6), random.below(12));
    let null_or = |random: &mut Draw| match random.below(4) {
        0 => "NULL".to_owned(),
        _ => random.below(6).to_string(),
    };
    let (p, up) = (null_or(random), null_or(random));
    match random.below(20) {
        0 | 1 => format!("INSERT INTO p VALUES ({id}, {n})"),
        2 => format!("INSERT INTO p VALUES ({id}, 1), ({}, {n})", (id + 1) % 6),
        3..6 => format!("INSERT INTO c VALUES ({id}, {p}, {up}, {n})"),
        6 => format!("INSERT INTO c VALUES ({id}, {p}, {id}, {n}), ({other}, {p}, {id}, {n})"),
        7 => format!(
            "INSERT INTO c VALUES ({id}, {p}, {up}, {n}) ON CONFLICT (id) DO UPDATE SET p = \
             excluded.p, n = c.n + 1"
        ),
        8 => format!("INSERT INTO c VALUES ({id}, {p}, {up}, {n}) ON CONFLICT (id) DO NOTHING"),
        9 => format!("UPDATE c SET p = {p} WHERE id = {id}"),
        10 => format!("UPDATE c SET up = {up}, n = n + 1 WHERE id IN ({id}, {other})"),
        11 => format!("UPDATE p SET n = n + 9 WHERE id = {id}"),
        12 | 13 => format!("DELETE FROM p WHERE id = {id}"),
        14 => format!("DELETE FROM p WHERE id IN ({id}, {other}) AND n < {n}"),
        15 => format!("DELETE FROM c WHERE id = {id}"),
        16 => format!("DELETE FROM c WHERE id >= {id}"),
        17 => format!("INSERT INTO g VALUES ({n}, {id}, 0), ({n}, {other}, 1)"),
        18 => format!("UPDATE g SET n = n + 1 WHERE id = {id}"),
        _ => format!("DELETE FROM g WHERE a = {n}"),
    }
}

/// Runs some statements, perhaps as a transaction. Returns how many have worked.
async fn step(both: &mut Both, random: &mut Draw) -> usize {
    if !random.one_in(3) {
        return usize::from(both.run(&statement(random)).await);
    }
    let mut worked = 0;
    both.run("BEGIN").await;
    for _ in 0..1 + random.below(4) {
        if !both.run(&statement(random)).await {
            both.run("ROLLBACK").await;
            return worked;
        }
        worked += 1;
    }
    let end = ["COMMIT", "COMMIT", "ROLLBACK"][random.below(3)];
    both.run(end).await;
    worked
}

#[tokio::test]
async fn constraints_refuse_and_act_as_those_of_postgresql() {
    let Some(mut both) = Both::start().await else {
        return;
    };
    let (mut worked, mut left, seeds) = (0, 0, seeds(SEEDS_OF_RUN, SEEDS));
    for seed in seeds.clone() {
        let mut random = Draw(seed);
        both.begin(seed);
        for definition in definitions(&mut random) {
            assert!(both.run(&definition).await, "{definition}");
        }
        for _ in 0..STEPS {
            worked += step(&mut both, &mut random).await;
            for (table, key) in TABLES {
                both.run(&format!("SELECT * FROM {table} ORDER BY {key}"))
                    .await;
            }
        }
        let rows = ask_postgres(&both.postgres, "SELECT count(*) FROM c").await;
        left += usize::from(rows != Some(vec![vec![Some("0".to_owned())]]));
        for (table, _) in TABLES {
            both.run(&format!("DROP TABLE {table}")).await;
        }
    }
    let all = (seeds.end - seeds.start) as usize;
    assert!(worked > 15 * all, "{worked} statements of {all} seeds");
    assert!(
        2 * left >= all,
        "{left} of {all} seeds have rows in the end"
    );
}
