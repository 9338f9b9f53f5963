//! The store and a real PostgreSQL get the same bytes, and answer with the same messages.
//!
//! Compared are the kinds of messages, their bodies, and of errors the SQLSTATE, the severity, the
//! table and the constraint. Texts of errors are the store's own, and notices are left out. Values
//! are random; a few seeds run always. For more: `REPLEX_FRONT_DOOR_SEEDS=100..200 cargo test
//! -p replex --features proxy --test all front_door`.

use std::fmt::Write as _;
use std::ops::Range;

use pg_wire::report::ReportObject;

use super::drawn_values::value;
use super::{Started, postgres};
use crate::ranges_postgres::seeds;
use crate::support::drawn_ranges::Draw;
use crate::support::raw_client::{Answer, Messages, RawClient};

const SEEDS: Range<u64> = 0..3;
const SEEDS_OF_RUN: &str = "REPLEX_FRONT_DOOR_SEEDS";
const VALUES_OF_A_SEED: usize = 40;

/// The columns of the table, and the OIDs of their types.
const TYPES: &[(&str, &str, u32)] = &[
    ("b", "boolean", 16),
    ("i", "bigint", 20),
    ("f", "double precision", 701),
    ("s", "text", 25),
    ("y", "bytea", 17),
    ("at", "timestamp", 1114),
    ("u", "uuid", 2950),
    ("h", "smallint", 21),
    ("n", "integer", 23),
    ("r", "real", 700),
    ("v", "varchar(5)", 1043),
    ("c", "char(5)", 1042),
    ("d", "date", 1082),
    ("z", "timestamptz", 1184),
    ("m", "numeric", 1700),
    ("l", "numeric(9,3)", 1700),
];

/// A session with each.
pub(super) struct Both {
    pub store: RawClient,
    pub postgres: RawClient,
}

impl Both {
    /// Sends messages to both, and returns the answer that they share.
    pub fn ask(&mut self, messages: &Messages, what: &str) -> Vec<Answer> {
        let ours = self.store.ask(messages);
        let theirs = self.postgres.ask(messages);
        let (short, expected) = (shortened(&ours), shortened(&theirs));
        assert_eq!(
            short,
            expected,
            "\n{what}\nstore: {}\nPostgreSQL: {}",
            texts(&ours),
            texts(&theirs)
        );
        ours
    }

    pub fn query(&mut self, text: &str) -> Vec<Answer> {
        self.ask(&Messages::new().query(text), text)
    }
}

/// Returns the messages as far as they must be the same.
pub(super) fn shortened(answers: &[Answer]) -> Vec<String> {
    let compared = answers.iter().filter(|it| !matches!(it.tag, b'N' | b'S'));
    let compared = compared.map(|answer| {
        let tag = char::from(answer.tag);
        match answer.tag {
            b'E' => {
                let report = answer.report();
                let ReportObject {
                    table, constraint, ..
                } = report.object.map(|it| *it).unwrap_or_default();
                // The store names the table of more errors than PostgreSQL.
                let table = if constraint.is_empty() { "" } else { &table };
                format!(
                    "E {:?} {} {table} {constraint}",
                    report.severity, report.code
                )
            }
            b'T' => format!("T {:?}", without_tables(&answer.body)),
            b'C' => format!("C {}", String::from_utf8_lossy(&answer.body)),
            _ => format!("{tag} {:?}", answer.body),
        }
    });
    compared.collect()
}

/// Returns the columns of a RowDescription without the numbers of tables and columns, which the
/// store does not have.
fn without_tables(body: &[u8]) -> Vec<String> {
    let mut rest = &body[2..];
    let mut columns = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0).unwrap();
        let name = String::from_utf8_lossy(&rest[..end]);
        columns.push(format!("{name} {:?}", &rest[end + 7..end + 19]));
        rest = &rest[end + 19..];
    }
    columns
}

fn texts(answers: &[Answer]) -> String {
    let mut texts = String::new();
    for answer in answers {
        let _ = match answer.tag {
            b'E' | b'N' => writeln!(texts, "{} {}", char::from(answer.tag), answer.report()),
            tag => writeln!(
                texts,
                "{} {:?}",
                char::from(tag),
                String::from_utf8_lossy(&answer.body)
            ),
        };
    }
    texts
}

/// Returns both with an empty table of every type, or none without PostgreSQL.
pub(super) async fn both() -> Option<(Started, pg_local::Postgres, Both)> {
    let postgres = postgres()?;
    let started = Started::new().await;
    let mut both = Both {
        store: RawClient::connect(started.sql()),
        postgres: RawClient::connect(postgres.socket()),
    };
    let columns = TYPES
        .iter()
        .map(|(name, column_type, _)| format!("{name} {column_type}"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    both.query("SET TimeZone = 'UTC'");
    both.query(&format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, {columns})"
    ));
    Some((started, postgres, both))
}

/// Returns the fields of the only DataRow.
fn fields(answers: &[Answer]) -> Vec<Option<Vec<u8>>> {
    let row = answers.iter().find(|it| it.tag == b'D').unwrap();
    let mut rest = &row.body[2..];
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
        rest = &rest[4..];
        match usize::try_from(length) {
            Err(_) => fields.push(None),
            Ok(length) => {
                fields.push(Some(rest[..length].to_vec()));
                rest = &rest[length..];
            }
        }
    }
    fields
}

#[tokio::test]
// tidy: long — one conversation, message by message
async fn random_values_of_every_type_in_both_formats() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    let parameters = (1..=TYPES.len() + 1).map(|number| format!("${number}"));
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    let all = &format!("INSERT INTO t VALUES ({parameters})");
    let select = "SELECT * FROM t WHERE id = $1";
    let declared: Vec<u32> = std::iter::once(20)
        .chain(TYPES.iter().map(|it| it.2))
        .collect();
    let prepare = Messages::new()
        .parse("inferred", all, &[])
        .parse("declared", all, &declared)
        .parse("select", select, &[])
        .describe(b'S', "inferred")
        .describe(b'S', "declared")
        .describe(b'S', "select")
        .sync();
    both.ask(&prepare, all);
    let (mut id, mut refused) = (0_i64, 0_i64);
    for seed in seeds(SEEDS_OF_RUN, SEEDS) {
        println!("seed {seed}");
        let mut random = Draw(seed);
        for _ in 0..VALUES_OF_A_SEED {
            id += 2;
            let mut values = vec![Some(id.to_string().into_bytes())];
            for (_, column_type, _) in TYPES {
                let is_null = random.one_in(9);
                let text = value(&mut random, column_type);
                values.push((!is_null).then(|| text.into_bytes()));
            }
            let what = format!(
                "seed {seed}: {:?}",
                values
                    .iter()
                    .map(|it| {
                        it.as_ref()
                            .map(|it| String::from_utf8_lossy(it).into_owned())
                    })
                    .collect::<Vec<_>>()
            );
            let statement = ["inferred", "declared"][random.below(2)];
            let key = [Some(id.to_string().into_bytes())];
            let insert = Messages::new()
                .bind(("", statement), 0, &values, 0)
                .execute("", 0)
                .sync();
            let inserted = both.ask(&insert, &what);
            if inserted.iter().any(|it| it.tag == b'E') {
                refused += 1;
                continue;
            }
            let read = |format| {
                Messages::new()
                    .bind(("", "select"), 0, &key, format)
                    .describe(b'P', "")
                    .execute("", 0)
                    .sync()
            };
            both.ask(&read(0), &what);
            // The values in binary are sent back as another row.
            let mut binary = fields(&both.ask(&read(1), &what));
            binary[0] = Some((id + 1).to_be_bytes().to_vec());
            let statement = ["inferred", "declared"][random.below(2)];
            let again = Messages::new()
                .bind(("", statement), 1, &binary, 0)
                .execute("", 0)
                .sync();
            both.ask(&again, &what);
            both.query(&format!("SELECT * FROM t WHERE id = {}", id + 1));
        }
    }
    assert!(
        refused * 4 < id,
        "{refused} of {} values are out of range",
        id / 2
    );
}

#[tokio::test]
async fn constraints_and_definitions_fail_with_the_same_codes() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    both.query("CREATE TABLE p (id bigint PRIMARY KEY, s text)");
    both.query(
        "CREATE TABLE c (id bigint PRIMARY KEY, p bigint REFERENCES p, n bigint CHECK (n > 0), \
         CONSTRAINT small CHECK (n < 100))",
    );
    both.query("CREATE INDEX c_p ON c (p)");
    both.query("INSERT INTO p VALUES (1, 'a'), (2, 'b')");
    both.query("INSERT INTO c VALUES (1, 1, 5)");
    for text in [
        // Rows.
        "INSERT INTO c VALUES (2, 7, 5)",
        "UPDATE c SET p = 7 WHERE id = 1",
        "DELETE FROM p WHERE id = 1",
        "INSERT INTO c VALUES (2, 1, 0)",
        "INSERT INTO c VALUES (2, 1, 100)",
        "UPDATE c SET n = n - 5 WHERE id = 1",
        "INSERT INTO c VALUES (2, 1, 5), (3, 8, 5)",
        "INSERT INTO c VALUES (1, 1, 5)",
        "UPDATE c SET n = n / (p - 1) WHERE id = 1",
        "UPDATE c SET n = n + 9223372036854775807 WHERE id = 1",
        "UPDATE c SET n = n / (p - 1) WHERE p = 1",
        "DELETE FROM c WHERE id = 1 AND n / (p - 1) = 1",
        "BEGIN",
        "INSERT INTO c VALUES (2, 7, 5)",
        "ROLLBACK",
        // Definitions.
        "CREATE TABLE p (id bigint PRIMARY KEY)",
        "DROP TABLE p",
        "DROP TABLE missing",
        "DROP TABLE c, missing",
        "DROP TABLE p, missing",
        "CREATE TABLE d (id bigint PRIMARY KEY, p text REFERENCES p)",
        "CREATE TABLE d (id bigint PRIMARY KEY, p bigint REFERENCES missing)",
        "CREATE TABLE d (id bigint PRIMARY KEY, p bigint REFERENCES p (missing))",
        "CREATE TABLE d (id bigint, a bigint, b bigint, PRIMARY KEY (id), \
         FOREIGN KEY (a, b) REFERENCES p (id))",
        "CREATE TABLE d (id bigint PRIMARY KEY, a bigint PRIMARY KEY)",
        "CREATE TABLE d (id bigint PRIMARY KEY, CONSTRAINT a CHECK (id > 0), \
         CONSTRAINT a CHECK (id > 1))",
        "CREATE INDEX c_p ON c (p)",
        "CREATE INDEX other ON c (missing)",
        "CREATE INDEX other ON missing (p)",
        "DROP INDEX missing",
        // Statements.
        "INSERT INTO c (id, id) VALUES (1, 1)",
        "INSERT INTO c (id, p) VALUES (1)",
        "INSERT INTO c (id, p) VALUES (4, 1) ON CONFLICT (n) DO NOTHING",
        "UPDATE c SET n = 1, n = 2 WHERE id = 1",
        "SELECT id FROM c ORDER BY 2",
        "SELECT other.id FROM c",
        "SELECT id FROM c WHERE (id, n) IN ((1, 2, 3))",
        "SELECT id FROM c ORDER BY id LIMIT id",
        "SELECT id + s FROM p",
        "SELECT id FROM c WHERE n",
        "SELECT id FROM c WHERE id = $1",
        "SELECT id, p, n FROM c",
    ] {
        both.query(text);
    }
}

#[tokio::test]
// tidy: long — a list of conversations
async fn conversations_have_the_same_messages() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    both.query("INSERT INTO t (id, i, s) VALUES (1, 10, 'a'), (2, 20, 'b'), (3, NULL, 'c')");
    both.query("CREATE TABLE u (id bigint PRIMARY KEY, email text UNIQUE, n bigint NOT NULL)");
    let new = Messages::new;
    let ids = "SELECT id FROM t ORDER BY id";
    for text in [
        "",
        ";",
        "-- nothing",
        "SELECT id, i, s FROM t WHERE id = 2",
        "SELECT id FROM t WHERE id = 9",
        "SELECT count(*), max(i) FROM t",
        "UPDATE t SET i = 11 WHERE id = 1; DELETE FROM t WHERE id = 9",
        // Errors.
        "SELEC 1",
        "SELECT id FROM t WHERE",
        "SELECT id FROM missing",
        "SELECT missing FROM t",
        "INSERT INTO t (id) VALUES (1)",
        "INSERT INTO u VALUES (1, 'a', 1)",
        "INSERT INTO u VALUES (2, 'a', 1)",
        "INSERT INTO u VALUES (2, 'b', NULL)",
        "INSERT INTO t (id, i) VALUES (4, 'x')",
        "INSERT INTO t (id, u) VALUES (4, 'x')",
        "INSERT INTO t (id, at) VALUES (4, 'x')",
        "INSERT INTO t (id, at) VALUES (4, '2024-02-31')",
        "INSERT INTO t (id, i) VALUES (4, 9223372036854775808)",
        "INSERT INTO t (id, n) VALUES (4, 2147483648)",
        "INSERT INTO t (id, h) VALUES (4, 'x')",
        "INSERT INTO t (id, v) VALUES (4, 'abcdef')",
        "INSERT INTO t (id, c) VALUES (4, 'abcdef')",
        "INSERT INTO t (id, d) VALUES (4, '2024-02-31')",
        "INSERT INTO t (id, z) VALUES (4, 'soon')",
        "UPDATE t SET v = s || 'bcdef' WHERE id = 1",
        "UPDATE t SET n = i * 1000000000 WHERE id = 1",
        "UPDATE t SET n = s::int WHERE id = 1",
        "SELECT s::int FROM t WHERE id = 1",
        "SELECT b::date FROM t WHERE id = 1",
        "CREATE TABLE w (id int PRIMARY KEY, v varchar(0))",
        "SELECT id / 0 FROM t WHERE id = 1",
        "SELECT 9223372036854775807 + id FROM t WHERE id = 1",
        "CREATE TABLE t (id bigint PRIMARY KEY)",
        "SET no_such_setting = 1",
        "SET server_version = '16'",
        "SHOW no_such_setting",
        "DEALLOCATE missing",
        "CLOSE missing",
        // Defaults.
        "CREATE TABLE z (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz DEFAULT now(), \
         day date NOT NULL DEFAULT CURRENT_DATE, n int DEFAULT 7)",
        "INSERT INTO z DEFAULT VALUES",
        "INSERT INTO z VALUES (DEFAULT, DEFAULT), (gen_random_uuid(), now())",
        "INSERT INTO z (n) VALUES (8) RETURNING n, id IS NULL, at IS NULL, day - CURRENT_DATE",
        "SELECT count(*), min(n) FROM z WHERE id IS NOT NULL AND at = at",
        "UPDATE z SET n = DEFAULT, day = DEFAULT WHERE n = 8",
        "CREATE TABLE y (id int PRIMARY KEY, u uuid DEFAULT now())",
        "DROP TABLE z, missing",
        "DROP TABLE IF EXISTS z, missing",
        // Rows that changes return.
        "INSERT INTO u VALUES (7, 'r', 1), (8, 's', 2) RETURNING *",
        "INSERT INTO u VALUES (7, 'r', 4) ON CONFLICT (id) DO UPDATE SET n = u.n + excluded.n \
         RETURNING id, n AS total, n * 2",
        "INSERT INTO u VALUES (7, 'r', 1), (9, 't', 3) ON CONFLICT DO NOTHING RETURNING id",
        "INSERT INTO u VALUES (7, 'r', 1) RETURNING id",
        "INSERT INTO u VALUES (10, 'x', 1) RETURNING 1 / (n - 1)",
        "INSERT INTO u VALUES (10, 'x', 1) RETURNING count(*)",
        "INSERT INTO u VALUES (10, 'x', 1) RETURNING missing",
        "UPDATE u SET n = n + 1 WHERE id = 7 RETURNING u.n, 'a' AS a",
        "UPDATE u SET n = n + 1 WHERE id = 99 RETURNING n",
        "UPDATE u SET n = 0 WHERE id = 7 RETURNING 1 / n",
        "UPDATE u AS x SET n = 9 WHERE x.email = 's' RETURNING x.email, n",
        "DELETE FROM u WHERE email = 't' RETURNING email, n",
        "DELETE FROM u WHERE id = 8 AND n = 1 RETURNING *",
        "SELECT * FROM u ORDER BY id",
        "BEGIN",
        "INSERT INTO u VALUES (11, 'k', 1) RETURNING *",
        "UPDATE u SET n = n + 1 WHERE id = 11 RETURNING n",
        "UPDATE u SET n = n + 1 WHERE email = 'k' RETURNING n",
        "DELETE FROM u WHERE id = 11 RETURNING n",
        "DELETE FROM u WHERE id = 11 RETURNING n",
        "COMMIT",
        "SELECT * FROM u ORDER BY id",
        // Strings of statements.
        "INSERT INTO t (id) VALUES (5); INSERT INTO t (id) VALUES (1)",
        ids,
        "INSERT INTO t (id) VALUES (5); SELECT id FROM t WHERE id = 5; DELETE FROM t WHERE id = 5",
        "BEGIN; INSERT INTO t (id) VALUES (6); ROLLBACK",
        "INSERT INTO t (id) VALUES (6); ROLLBACK",
        "INSERT INTO t (id) VALUES (6); BEGIN; INSERT INTO t (id) VALUES (7); ROLLBACK",
        ids,
        "INSERT INTO t (id) VALUES (8); COMMIT; INSERT INTO t (id) VALUES (1)",
        ids,
        "DELETE FROM t WHERE id = 8; SELECT bad syntax here from",
        ids,
        "DELETE FROM t WHERE id = 8",
        // Transactions.
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT a",
        "BEGIN",
        "BEGIN",
        "INSERT INTO t (id) VALUES (1)",
        "SELECT 1",
        "SET work_mem = '1MB'",
        "SAVEPOINT a",
        "SELEC",
        "COMMIT",
        "START TRANSACTION READ ONLY",
        "SHOW transaction_read_only",
        "DELETE FROM t WHERE id = 1",
        "ROLLBACK",
        "BEGIN",
        "SAVEPOINT a",
        "DELETE FROM t WHERE id = 1",
        "SELECT id FROM missing",
        "ROLLBACK TO SAVEPOINT a",
        "RELEASE SAVEPOINT missing",
        "ROLLBACK",
        "DISCARD ALL",
        ids,
    ] {
        both.query(text);
    }
    let by_id = "SELECT id, s FROM t WHERE id = $1";
    let insert = "INSERT INTO t (id, i) VALUES ($1, $2)";
    let conversations: Vec<(&str, Messages)> = vec![
        (
            "empty",
            new()
                .parse("", "", &[])
                .bind_texts(&[])
                .describe(b'P', "")
                .execute("", 0)
                .sync(),
        ),
        (
            "types",
            new()
                .parse("a", by_id, &[])
                .describe(b'S', "a")
                .parse("b", by_id, &[23])
                .describe(b'S', "b")
                .sync(),
        ),
        ("named twice", new().parse("a", by_id, &[]).sync()),
        (
            "run",
            new()
                .bind(("", "a"), 0, &[Some(b"2".to_vec())], 1)
                .describe(b'P', "")
                .execute("", 0)
                .sync(),
        ),
        (
            "integers",
            new()
                .bind(("", "b"), 1, &[Some(vec![0, 0, 0, 2])], 0)
                .execute("", 0)
                .sync(),
        ),
        (
            "too few",
            new().bind(("", "a"), 0, &[], 0).execute("", 0).sync(),
        ),
        (
            "bad value",
            new()
                .bind(("", "a"), 0, &[Some(b"x".to_vec())], 0)
                .execute("", 0)
                .sync(),
        ),
        (
            "bad binary",
            new()
                .bind(("", "a"), 1, &[Some(b"x".to_vec())], 0)
                .execute("", 0)
                .sync(),
        ),
        (
            "null key",
            new().bind(("", "a"), 0, &[None], 0).execute("", 0).sync(),
        ),
        (
            "no statement",
            new()
                .bind(("", "none"), 0, &[], 0)
                .describe(b'S', "a")
                .sync(),
        ),
        ("no portal", new().execute("none", 0).sync()),
        ("no portal to describe", new().describe(b'P', "none").sync()),
        (
            "close nothing",
            new().close(b'S', "none").close(b'P', "none").sync(),
        ),
        ("close", new().close(b'S', "a").describe(b'S', "a").sync()),
        (
            "two statements",
            new()
                .parse("", "SELECT id FROM t; SELECT id FROM t", &[])
                .sync(),
        ),
        ("syntax", new().parse("", "SELEC", &[]).sync()),
        (
            "missing table",
            new()
                .parse("", "SELECT id FROM missing WHERE id = $1", &[])
                .sync(),
        ),
        (
            "missing column",
            new()
                .parse("", "SELECT id FROM t WHERE missing = $1", &[])
                .sync(),
        ),
        (
            "returning",
            new()
                .parse(
                    "r",
                    "INSERT INTO u VALUES ($1, $2, $3) RETURNING n + 1, $2 || 'x', id",
                    &[],
                )
                .describe(b'S', "r")
                .sync(),
        ),
        (
            "returning in binary",
            new()
                .bind(
                    ("", "r"),
                    0,
                    &[
                        Some(b"20".to_vec()),
                        Some(b"w".to_vec()),
                        Some(b"5".to_vec()),
                    ],
                    1,
                )
                .describe(b'P', "")
                .execute("", 0)
                .sync(),
        ),
        (
            "returning with a limit",
            new()
                .parse("", "UPDATE u SET n = n + 1 WHERE id = 20 RETURNING n", &[])
                .bind(("", ""), 0, &[], 0)
                .execute("", 5)
                .sync(),
        ),
        ("limits", new().query("BEGIN")),
        (
            "limits",
            new()
                .parse("", ids, &[])
                .bind(("p", ""), 0, &[], 0)
                .execute("p", 1)
                .execute("p", 1)
                .flush()
                .execute("p", 0)
                .execute("p", 0)
                .sync(),
        ),
        ("limits", new().execute("p", 1).sync()),
        (
            "cursor twice",
            new().parse("", ids, &[]).bind(("p", ""), 0, &[], 0).sync(),
        ),
        ("limits", new().query("ROLLBACK")),
        ("portal is gone", new().execute("p", 1).sync()),
        (
            "exact limit",
            new()
                .parse("", ids, &[])
                .bind(("", ""), 0, &[], 0)
                .execute("", 3)
                .execute("", 3)
                .sync(),
        ),
        (
            "insert",
            new()
                .parse("", insert, &[])
                .bind_texts(&["20", "1"])
                .execute("", 0)
                .sync(),
        ),
        (
            "run twice",
            new()
                .parse("", insert, &[])
                .bind_texts(&["21", "1"])
                .execute("", 0)
                .execute("", 0)
                .sync(),
        ),
        ("undone", new().query(ids)),
        (
            "pipeline",
            new()
                .parse("", insert, &[])
                .bind_texts(&["30", "1"])
                .execute("", 0)
                .bind_texts(&["31", "1"])
                .execute("", 0)
                .sync(),
        ),
        (
            "pipeline fails",
            new()
                .parse("", insert, &[])
                .bind_texts(&["32", "1"])
                .execute("", 0)
                .bind_texts(&["1", "1"])
                .execute("", 0)
                .bind_texts(&["33", "1"])
                .execute("", 0)
                .sync(),
        ),
        ("nothing of it", new().query(ids)),
        (
            "pipeline reads itself",
            new()
                .parse("", insert, &[])
                .bind_texts(&["34", "1"])
                .execute("", 0)
                .parse("", by_id, &[])
                .bind_texts(&["34"])
                .execute("", 0)
                .sync(),
        ),
        (
            "pipeline with a control",
            new()
                .parse("", "BEGIN", &[])
                .bind_texts(&[])
                .execute("", 0)
                .parse("", insert, &[])
                .bind_texts(&["35", "1"])
                .execute("", 0)
                .sync(),
        ),
        (
            "still open",
            new()
                .parse("", "ROLLBACK", &[])
                .bind_texts(&[])
                .execute("", 0)
                .sync(),
        ),
        ("in the end", new().query(ids)),
    ];
    for (what, messages) in conversations {
        both.ask(&messages, what);
    }
}
