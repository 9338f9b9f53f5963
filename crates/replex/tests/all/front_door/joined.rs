//! `UPDATE … FROM` and `DELETE … USING` beside a real PostgreSQL: fixed statements, prepared ones,
//! and random ones.

use super::same_as_postgres::{Both, both};
use crate::ranges_postgres::seeds;
use crate::support::drawn_ranges::Draw;
use crate::support::raw_client::Messages;

const SEEDS: std::ops::Range<u64> = 0..3;
const SEEDS_OF_RUN: &str = "REPLEX_JOINED_SEEDS";
const STATEMENTS_OF_A_SEED: usize = 60;

/// Statements with the same answers from both.
const GIVEN: &[&str] = &[
    "CREATE TABLE items (id bigint PRIMARY KEY, code text, n int CHECK (n < 1000), \
     twice int GENERATED ALWAYS AS (n * 2) STORED, note varchar(5))",
    "CREATE INDEX items_code ON items (code)",
    "CREATE TABLE prices (code text PRIMARY KEY, price numeric, owner bigint, since date)",
    "INSERT INTO items VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3), (4, NULL, 4), (5, 'z', NULL)",
    "INSERT INTO prices VALUES ('a', 1.50, 1, '2024-01-31'), ('b', 2, NULL, NULL), ('c', 9, 3, NULL)",
    // A table.
    "UPDATE items SET n = n + p.price FROM prices p WHERE items.code = p.code",
    "UPDATE items AS i SET note = p.code || '!', n = price * 10 FROM prices AS p \
     WHERE i.code = p.code AND p.price < 2",
    "UPDATE items SET n = 0 FROM prices WHERE prices.code = items.code AND owner = 77",
    "SELECT * FROM items ORDER BY id",
    "UPDATE items SET n = p.owner FROM prices p WHERE items.code = p.code AND p.code = 'b' \
     RETURNING *",
    "UPDATE items i SET n = 7 FROM prices p WHERE i.code = p.code AND p.code = 'b' \
     RETURNING p.*, i.id + 1 AS next, since, twice",
    "UPDATE items SET (n, note) = (p.price, p.since) FROM prices p WHERE items.id = p.owner",
    "UPDATE items SET note = p.code FROM prices p WHERE items.id = p.owner AND p.owner = 3 \
     RETURNING items.*",
    "UPDATE items SET n = DEFAULT, twice = DEFAULT FROM prices p WHERE items.id = 5",
    // Each row is changed once, and sees the state before.
    "UPDATE items AS t SET n = t.n + 100 FROM items AS u WHERE u.id <= t.id",
    "UPDATE items AS t SET n = u.n, note = u.code FROM items u WHERE t.id + u.id = 6",
    "SELECT * FROM items ORDER BY id",
    // Constants.
    "UPDATE items SET n = v.n, note = v.name FROM (VALUES (1, 'one', '7'), (3, NULL, 8), \
     (9, 'nine', 9)) AS v(id, name, n) WHERE items.id = v.id",
    "UPDATE items SET n = column2 FROM (VALUES (1, 50)) AS v WHERE id = column1 RETURNING *",
    "UPDATE items SET n = v.b FROM (VALUES (2, 1.5), (3, 2)) AS v(a, b) WHERE id = a",
    "UPDATE items SET n = v.n FROM unnest('{4,5,6}'::bigint[], ARRAY[40, 50]) AS v(id, n) \
     WHERE v.id = items.id",
    "UPDATE items SET note = 'u' FROM unnest(ARRAY['a', 'b']) AS c WHERE code = c",
    "DELETE FROM items USING (VALUES ('z')) AS v(code) WHERE v.code = items.code RETURNING id, v.*",
    "SELECT * FROM items ORDER BY id",
    // Without a condition over both, and without any.
    "UPDATE items SET n = 1 FROM prices WHERE items.id = 4",
    "UPDATE items SET n = 2 FROM prices WHERE false",
    "UPDATE items SET n = 2 FROM prices WHERE NULL",
    "UPDATE items SET n = 3 FROM prices",
    "SELECT * FROM items ORDER BY id",
    // Errors.
    "UPDATE items SET n = 1 FROM prices WHERE code = 'a'",
    "UPDATE items SET n = 1 FROM prices WHERE nosuch = 'a'",
    "UPDATE items SET n = 1 FROM prices p WHERE p.nosuch = 'a'",
    "UPDATE items SET n = 1 FROM prices p WHERE prices.code = 'a'",
    "UPDATE items i SET n = 1 FROM prices p WHERE items.code = p.code",
    "UPDATE items SET price = 1 FROM prices p WHERE p.code = items.code",
    "UPDATE items SET n = 1 FROM items WHERE true",
    "UPDATE items SET n = 1 FROM nosuch WHERE true",
    "UPDATE items SET n = p.code FROM prices p WHERE p.code = items.code",
    "UPDATE items SET n = 1 FROM prices p WHERE p.code = items.id",
    "UPDATE items SET n = 1 FROM prices p WHERE p.price",
    "UPDATE items SET n = 1 / (p.price - p.price) FROM prices p WHERE p.code = items.code",
    "UPDATE items SET n = 5000 FROM prices p WHERE p.code = items.code",
    "UPDATE items SET n = p.price * 1000000000000 FROM prices p WHERE p.code = items.code",
    "UPDATE items SET note = 'longer' FROM prices p WHERE p.code = items.code",
    "UPDATE items SET twice = 1 FROM prices p WHERE p.code = items.code",
    "UPDATE items SET n = 1 FROM prices p WHERE p.code = items.code RETURNING code",
    "UPDATE items SET n = 1 FROM prices p WHERE p.code = items.code RETURNING q.*",
    "UPDATE items SET n = 1 FROM (VALUES (1, 2), (3)) AS v WHERE true",
    "UPDATE items SET n = 1 FROM (VALUES (1, 2)) AS v(a, b, c) WHERE true",
    "UPDATE items SET n = 1 FROM (VALUES (1), (true)) AS v(a) WHERE true",
    "UPDATE items SET n = 1 FROM (VALUES (1), ('x')) AS v(a) WHERE true",
    "UPDATE items SET n = 1 FROM (VALUES (1, 2)) WHERE true",
    "UPDATE items SET n = 1 FROM (VALUES ('1')) AS v(a) WHERE id = a",
    "DELETE FROM items USING prices WHERE code = 'a'",
    "DELETE FROM items USING items WHERE true",
    "DELETE FROM items USING unnest(5) AS v WHERE true",
    "SELECT * FROM items ORDER BY id",
    // Foreign keys.
    "CREATE TABLE owners (id bigint PRIMARY KEY, name text)",
    "INSERT INTO owners VALUES (1, 'a'), (3, 'b'), (8, 'h')",
    "CREATE TABLE cars (id int PRIMARY KEY, owner bigint REFERENCES owners ON DELETE CASCADE, \
     second bigint REFERENCES owners)",
    "INSERT INTO cars VALUES (1, 1, NULL), (2, 3, NULL), (3, 8, 8)",
    "UPDATE cars SET owner = p.owner + 1 FROM prices p WHERE p.owner = cars.owner",
    "UPDATE cars SET second = p.owner FROM prices p WHERE p.owner = cars.owner",
    "DELETE FROM owners USING cars WHERE cars.owner = owners.id AND cars.id = 3",
    "DELETE FROM owners o USING (VALUES (1), (3)) AS v(id) WHERE v.id = o.id",
    "UPDATE cars SET second = NULL FROM owners WHERE owners.id = cars.second",
    "DELETE FROM owners o USING (VALUES (1), (3)) AS v(id) WHERE v.id = o.id",
    "SELECT * FROM cars ORDER BY id",
    // In transactions.
    "BEGIN",
    "INSERT INTO prices VALUES ('d', 4, NULL, NULL)",
    "UPDATE items SET code = 'd' WHERE id = 4",
    "UPDATE items SET n = p.price FROM prices p WHERE p.code = items.code",
    "SAVEPOINT s",
    "DELETE FROM items USING prices p WHERE p.code = items.code AND p.code <> 'd'",
    "SELECT * FROM items ORDER BY id",
    "ROLLBACK TO s",
    "COMMIT",
    "SELECT * FROM items ORDER BY id",
    "BEGIN READ ONLY",
    "UPDATE items SET n = p.price FROM prices p WHERE p.code = items.code",
    "ROLLBACK",
    // Prepared in SQL.
    "PREPARE raise (int, text) AS UPDATE items SET n = n + $1 FROM prices p \
     WHERE p.code = items.code AND p.code = $2",
    "EXECUTE raise (5, 'a')",
    "EXECUTE raise (NULL, 'b')",
    "SELECT * FROM items ORDER BY id",
];

/// A prepared statement, the types of its parameters, and their values.
type Prepared = (
    &'static str,
    &'static [u32],
    &'static [Option<&'static str>],
);

/// Statements with parameters, the declared types of these, and their values.
const PREPARED: &[Prepared] = &[
    (
        "UPDATE items SET n = p.price + $1 FROM prices p WHERE p.code = items.code AND p.code = $2 \
         AND owner IS NOT DISTINCT FROM $3",
        &[],
        &[Some("3"), Some("a"), Some("1")],
    ),
    (
        "UPDATE items SET n = v.n FROM (VALUES ($1::int, $2::text), ($3, $4)) AS v(n, code) \
         WHERE v.code = items.code",
        &[],
        &[Some("31"), Some("a"), Some("32"), Some("b")],
    ),
    (
        "UPDATE items SET n = v.n, note = v.note FROM (VALUES ($1, $2, $3), ($4, $5, $6)) \
         AS v(id, n, note) WHERE v.id = items.id",
        &[20, 23, 25, 20, 23, 25],
        &[Some("1"), None, Some("x"), Some("2"), None, None],
    ),
    (
        "UPDATE items SET note = v.note FROM (VALUES ($1, $2)) AS v(code, note) \
         WHERE v.code = items.code",
        &[],
        &[Some("a"), Some("y")],
    ),
    (
        "UPDATE items SET n = v.n FROM unnest($1::bigint[], $2::int[]) AS v(id, n) \
         WHERE v.id = items.id",
        &[],
        &[Some("{1,2,77}"), Some("{61,NULL}")],
    ),
    (
        "DELETE FROM items i USING prices p WHERE p.code = i.code AND i.id = $1 \
         RETURNING i.id, p.*, $2::text AS why",
        &[],
        &[Some("3"), Some("gone")],
    ),
];

#[tokio::test]
async fn changes_with_a_further_table_answer_as_postgres() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    for text in GIVEN {
        both.query(text);
    }
    for (text, types, values) in PREPARED {
        let values = values.iter().map(|it| it.map(|it| it.as_bytes().to_vec()));
        let values: Vec<Option<Vec<u8>>> = values.collect();
        let run = Messages::new()
            .parse("s", text, types)
            .describe(b'S', "s")
            .bind(("", "s"), 0, &values, 0)
            .execute("", 0)
            .close(b'S', "s")
            .sync();
        both.ask(&run, text);
        both.query("SELECT * FROM items ORDER BY id");
    }
}

/// Returns one of some texts.
fn one_of(random: &mut Draw, texts: &[&str]) -> String {
    texts[random.below(texts.len())].to_string()
}

/// Puts the same rows into both tables.
fn fill(both: &mut Both, random: &mut Draw) {
    for table in ["a", "b"] {
        let rows: Vec<String> = (0..12)
            .map(|id| {
                let k = one_of(random, &["NULL", "0", "1", "2", "3", "5", "8"]);
                let s = one_of(random, &["NULL", "''", "'x'", "'y'", "'X'"]);
                let d = one_of(random, &["NULL", "0", "1.0", "2.50", "-3"]);
                format!("({id}, {k}, {s}, {d})")
            })
            .collect();
        both.query(&format!("DELETE FROM {table}"));
        both.query(&format!("INSERT INTO {table} VALUES {}", rows.join(", ")));
    }
}

/// Returns a further table with the alias `o`.
fn source(random: &mut Draw) -> String {
    match random.below(5) {
        0 | 1 => "b AS o".to_string(),
        2 => "a AS o".to_string(),
        3 => {
            let rows: Vec<String> = (0..5)
                .map(|id| {
                    let k = one_of(random, &["NULL", "1", "2", "3"]);
                    format!("({}, {k}, 'x', {}.5)", id * 2, id)
                })
                .collect();
            format!("(VALUES {}) AS o(id, k, s, d)", rows.join(", "))
        }
        _ => "unnest('{1,4,7,30}'::bigint[], '{1,NULL,2}'::int[], ARRAY['x', NULL, 'y'], \
              '{0.5,1}'::numeric[]) AS o(id, k, s, d)"
            .to_string(),
    }
}

/// Returns a statement. New values are of the further table only if it has one row for each row of
/// the changed table.
fn statement(random: &mut Draw) -> String {
    let source = source(random);
    let is_unique = !random.one_in(3);
    let join = match is_unique {
        true => one_of(
            random,
            &[
                "o.id = t.id",
                "t.k = o.id",
                "t.id - 1 = o.id",
                "o.id = t.k + 1",
            ],
        ),
        false => one_of(
            random,
            &[
                "o.k = t.k",
                "t.s = o.s",
                "t.id BETWEEN o.id AND o.id + 2",
                "t.d = o.d AND t.k <> o.k",
                "t.k < o.k AND o.s IS NOT NULL",
                "(t.k = o.k OR t.s = o.s)",
                "lower(t.s) = lower(o.s) AND t.id > o.id",
                "o.d = t.k",
                "t.k IS NOT DISTINCT FROM o.k",
            ],
        ),
    };
    let further = one_of(
        random,
        &[
            "",
            " AND t.k > 1",
            " AND o.d > 0",
            " AND t.s IS NULL",
            " AND (o.k = 1 OR t.k = 2)",
            " AND t.id IN (1, 4, 7)",
            " AND NOT (t.d < o.d)",
            " AND o.k IS NOT NULL AND t.s <> 'x'",
        ],
    );
    if random.one_in(3) {
        return format!("DELETE FROM a AS t USING {source} WHERE {join}{further}");
    }
    let set = match is_unique {
        true => one_of(
            random,
            &[
                "k = o.k",
                "d = t.d * 2 + o.d, s = o.s || t.s",
                "k = o.id, d = o.k",
                "s = coalesce(o.s, 'none'), k = t.k + o.k",
                "k = CASE WHEN o.k > t.k THEN o.k ELSE 0 END",
                "d = 10 / o.k",
            ],
        ),
        false => one_of(
            random,
            &["k = t.k + 1", "s = 'n'", "d = t.d * 1.5, k = DEFAULT"],
        ),
    };
    format!("UPDATE a AS t SET {set} FROM {source} WHERE {join}{further}")
}

#[tokio::test]
async fn random_changes_answer_as_postgres() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    for table in ["a", "b"] {
        both.query(&format!(
            "CREATE TABLE {table} (id bigint PRIMARY KEY, k int, s text, d numeric)"
        ));
    }
    both.query("CREATE INDEX a_k ON a (k)");
    for seed in seeds(SEEDS_OF_RUN, SEEDS) {
        println!("seed {seed}");
        let mut random = Draw(seed);
        for number in 0..STATEMENTS_OF_A_SEED {
            if number % 5 == 0 {
                fill(&mut both, &mut random);
            }
            let text = statement(&mut random);
            println!("{text}");
            let is_in_transaction = random.one_in(2);
            if is_in_transaction {
                both.query("BEGIN");
                both.query("UPDATE a SET k = k + 1 WHERE id = 1");
            }
            both.query(&text);
            both.query("SELECT * FROM a ORDER BY id");
            if is_in_transaction {
                both.query(["COMMIT", "ROLLBACK"][random.below(2)]);
            }
        }
    }
}
