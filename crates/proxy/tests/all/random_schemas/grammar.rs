//! Statements by chance: PostgreSQL's grammar of schemas as far as it makes tables, views, types,
//! functions and their parts, with expressions of all functions, operators and types of a
//! catalogue. Many are wrong.

use std::fmt::Write;

use super::random::Random;

/// The parts of expressions.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// Names of types that columns may have.
    pub types: Vec<String>,
    /// Names of functions, the types of their arguments and of their result.
    pub functions: Vec<(String, Vec<String>, String)>,
    /// Operators between two types.
    pub operators: Vec<(String, String, String)>,
}

/// Texts that some type reads, and texts that have another meaning at another time.
const TEXTS: &[&str] = &[
    "1",
    "0",
    "-7",
    "1.5",
    "t",
    "f",
    "a",
    "",
    "abc",
    "now",
    "today",
    "tomorrow",
    "infinity",
    "NaN",
    "2024-02-29",
    "2024-02-29 12:34:56+02",
    "12:34",
    "1 day",
    "{1,2}",
    "{a,b}",
    "{now}",
    "[1,3)",
    "[2024-01-01,2024-02-01)",
    "(1,2)",
    "((0,0),(1,1))",
    "<(0,0),1>",
    "10.0.0.1/8",
    "08:00:2b:01:02:03",
    "{\"a\": 1}",
    "[1, 2]",
    "$.a",
    "a & b",
    "\\x00ff",
    "101",
    "pg_class",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "<a/>",
    "public",
    "english",
    "12.34",
];

/// A generator of statements.
pub struct Grammar<'c> {
    pub chance: Random,
    pub catalogue: &'c Catalogue,
}

impl Grammar<'_> {
    fn one_of<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.below(choices.len())]
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("it is small");
        usize::try_from(self.chance.below(bound)).expect("it is smaller")
    }

    fn name(&mut self, kind: &str, count: usize) -> String {
        let number = self.below(count);
        match self.below(12) {
            0 => format!("s1.{kind}{number}"),
            1 => format!("\"{}{number}\"", kind.to_uppercase()),
            _ => format!("{kind}{number}"),
        }
    }

    fn table(&mut self) -> String {
        self.name("t", 5)
    }

    fn column(&mut self) -> String {
        format!("c{}", self.below(5))
    }

    fn type_of_column(&mut self) -> String {
        match self.below(14) {
            0 => self.name("d", 2),
            1 => self.name("e", 2),
            2 => self.name("k", 2),
            3 => "serial".into(),
            4 => "varchar(5)".into(),
            5 | 6 => "int".into(),
            7 | 8 => "text".into(),
            9 => "timestamptz".into(),
            10 => "numeric(8, 2)".into(),
            11 => format!("{}[]", self.any_type()),
            _ => self.any_type(),
        }
    }

    fn any_type(&mut self) -> String {
        let types = &self.catalogue.types;
        types[self.below(types.len())].clone()
    }

    fn constant(&mut self, kind: &str) -> String {
        let text = self.one_of(TEXTS);
        match self.below(4) {
            0 => "NULL".into(),
            1 if kind == "integer" => "3".into(),
            1 => format!("'{text}'"),
            2 => format!("'{text}'::text::{kind}"),
            _ => format!("'{text}'::{kind}"),
        }
    }

    /// An expression; of columns, if it may be.
    fn expression(&mut self, depth: usize, has_columns: bool) -> String {
        if depth == 0 {
            return self.leaf("text", has_columns);
        }
        match self.below(10) {
            0..=3 => {
                let at = self.below(self.catalogue.functions.len());
                let (name, arguments, _) = self.catalogue.functions[at].clone();
                let arguments: Vec<String> = arguments
                    .iter()
                    .map(|kind| self.argument(kind, depth, has_columns))
                    .collect();
                format!("{name}({})", arguments.join(", "))
            }
            4 | 5 => {
                let at = self.below(self.catalogue.operators.len());
                let (name, left, right) = self.catalogue.operators[at].clone();
                format!(
                    "({} {name} {})",
                    self.argument(&left, depth, has_columns),
                    self.argument(&right, depth, has_columns)
                )
            }
            6 => {
                let kind = self.type_of_column();
                format!("({})::{kind}", self.expression(depth - 1, has_columns))
            }
            7 => self
                .one_of(&[
                    "now()",
                    "current_user",
                    "random()",
                    "current_date",
                    "gen_random_uuid()",
                    "clock_timestamp()",
                    "current_setting('TimeZone')",
                    "session_user::text",
                    "txid_current()",
                    // The proxy's numbers of processes are larger, and do not fit all types.
                    "sign(pg_backend_pid())::int",
                    "localtimestamp",
                    "current_schema()",
                    "nextval('q0')",
                    "f0(1)",
                    "f1('x')",
                    "version()",
                ])
                .to_owned(),
            8 => format!(
                "coalesce({}, {})",
                self.expression(depth - 1, has_columns),
                self.leaf("text", has_columns)
            ),
            _ => self.leaf("integer", has_columns),
        }
    }

    fn argument(&mut self, kind: &str, depth: usize, has_columns: bool) -> String {
        match self.below(4) {
            0 => format!("({})::{kind}", self.expression(depth - 1, has_columns)),
            _ => self.leaf(kind, has_columns),
        }
    }

    fn leaf(&mut self, kind: &str, has_columns: bool) -> String {
        match has_columns && self.chance.one_in(2) {
            true => {
                let column = self.one_of(&["id", "c0", "c1", "c2"]).to_owned();
                match self.chance.one_in(2) {
                    true => format!("{column}::{kind}"),
                    false => column,
                }
            }
            false => self.constant(kind),
        }
    }

    fn condition(&mut self) -> String {
        match self.below(3) {
            0 => format!("id > {}", self.below(9)),
            1 => format!("({}) IS NOT NULL", self.expression(2, true)),
            _ => format!("({})::text <> 'x'", self.expression(1, true)),
        }
    }

    fn column_definition(&mut self) -> String {
        let mut text = format!("{} {}", self.column(), self.type_of_column());
        match self.below(9) {
            0 | 1 => write!(text, " DEFAULT {}", self.expression(2, false)),
            2 => write!(
                text,
                " GENERATED ALWAYS AS ({}) STORED",
                self.expression(2, true)
            ),
            3 => write!(text, " CHECK ({})", self.condition()),
            4 => write!(text, " UNIQUE"),
            5 => write!(text, " NOT NULL"),
            6 => write!(text, " REFERENCES {}", self.table()),
            7 => write!(text, " GENERATED BY DEFAULT AS IDENTITY"),
            _ => Ok(()),
        }
        .expect("a text takes it");
        text
    }

    fn create_table(&mut self) -> String {
        let kind = self
            .one_of(&["", "", "", "", "", "UNLOGGED ", "TEMP "])
            .to_owned();
        let table = self.table();
        match self.below(10) {
            0 => return format!("CREATE {kind}TABLE {table} AS {}", self.query()),
            1 => {
                return format!(
                    "CREATE {kind}TABLE {table} (LIKE {} INCLUDING ALL)",
                    self.table()
                );
            }
            2 => {
                let parent = self.table();
                let bounds = self
                    .one_of(&["FROM (0) TO (5)", "FROM (5) TO (99)"])
                    .to_owned();
                return format!(
                    "CREATE {kind}TABLE {table} PARTITION OF {parent} FOR VALUES {bounds}"
                );
            }
            3 => return format!("SELECT id, c0 INTO {kind}{table} FROM {}", self.table()),
            _ => {}
        }
        let key = self.one_of(&[
            "int PRIMARY KEY",
            "int PRIMARY KEY",
            "serial PRIMARY KEY",
            "int",
            "bigint UNIQUE",
        ]);
        let mut parts = vec![format!("id {key}")];
        for _ in 0..self.below(4) {
            parts.push(self.column_definition());
        }
        let end = match self.below(8) {
            0 => format!(" INHERITS ({})", self.table()),
            1 => " PARTITION BY RANGE (id)".into(),
            2 => " WITH (fillfactor = 50)".into(),
            _ => String::new(),
        };
        format!("CREATE {kind}TABLE {table} ({}){end}", parts.join(", "))
    }

    fn query(&mut self) -> String {
        let table = self.table();
        match self.below(5) {
            0 => format!(
                "SELECT n AS id, n::text AS c0 FROM generate_series(1, {}) AS n",
                self.below(9)
            ),
            1 => format!("SELECT id, {} AS c0 FROM {table}", self.expression(2, true)),
            2 => format!("SELECT * FROM {table} WHERE {}", self.condition()),
            _ => format!("SELECT * FROM {table}"),
        }
    }

    fn alter_table(&mut self) -> String {
        let table = self.table();
        let column = self.column();
        let action = match self.below(26) {
            0..=3 => format!("ADD {}", self.column_definition()),
            4 => format!("DROP {column} CASCADE"),
            5 | 6 => {
                let kind = self.type_of_column();
                match self.chance.one_in(2) {
                    true => format!(
                        "ALTER {column} TYPE {kind} USING {}",
                        self.expression(2, true)
                    ),
                    false => format!("ALTER {column} TYPE {kind}"),
                }
            }
            7 => format!("ALTER {column} SET DEFAULT {}", self.expression(2, false)),
            8 => format!("ALTER {column} DROP DEFAULT"),
            9 => format!("ALTER {column} SET NOT NULL"),
            10 => format!(
                "ADD CONSTRAINT n{} CHECK ({}) NOT VALID",
                self.below(3),
                self.condition()
            ),
            11 => format!("DROP CONSTRAINT n{}", self.below(3)),
            12 => format!("RENAME CONSTRAINT n{} TO n{}", self.below(3), self.below(3)),
            13 => format!("RENAME {column} TO {}", self.column()),
            14 => format!("RENAME TO t{}", self.below(5)),
            15 => format!("OWNER TO {}", self.one_of(&["r0", "r1", "postgres"])),
            16 => format!("SET SCHEMA {}", self.one_of(&["s1", "public"])),
            17 => format!(
                "REPLICA IDENTITY {}",
                self.one_of(&["FULL", "DEFAULT", "NOTHING"])
            ),
            18 => format!(
                "SET {}",
                self.one_of(&[
                    "LOGGED",
                    "UNLOGGED",
                    "(fillfactor = 70)",
                    "TABLESPACE pg_default"
                ])
            ),
            19 => format!("INHERIT {}", self.table()),
            20 => format!(
                "ATTACH PARTITION {} FOR VALUES FROM (0) TO (5)",
                self.table()
            ),
            21 => format!("DETACH PARTITION {}", self.table()),
            22 => format!("ADD PRIMARY KEY (id), ADD {}", self.column_definition()),
            23 => format!(
                "{} TRIGGER g0",
                self.one_of(&["ENABLE", "DISABLE", "ENABLE ALWAYS", "ENABLE REPLICA"])
            ),
            24 => format!(
                "ALTER {column} SET {}",
                self.one_of(&["STORAGE EXTERNAL", "STATISTICS 5", "(n_distinct = 5)"])
            ),
            _ => format!("VALIDATE CONSTRAINT n{}", self.below(3)),
        };
        format!("ALTER TABLE {table} {action}")
    }

    // tidy: long — one kind of statement an arm
    fn other_object(&mut self) -> String {
        match self.below(30) {
            0 | 1 => format!(
                "CREATE INDEX ON {} (({}))",
                self.table(),
                self.expression(2, true)
            ),
            2 => format!(
                "CREATE UNIQUE INDEX i{} ON {} (id, {})",
                self.below(3),
                self.table(),
                self.column()
            ),
            3 | 4 => format!(
                "CREATE OR REPLACE VIEW {} AS {}",
                self.name("v", 2),
                self.query()
            ),
            5 => format!(
                "CREATE MATERIALIZED VIEW {} AS {}",
                self.name("m", 2),
                self.query()
            ),
            6 => format!("REFRESH MATERIALIZED VIEW {}", self.name("m", 2)),
            7 => format!(
                "CREATE DOMAIN {} AS {} DEFAULT {}",
                self.name("d", 2),
                self.any_type(),
                self.expression(2, false)
            ),
            8 => format!(
                "CREATE DOMAIN {} AS {} CHECK (({}) IS NOT NULL)",
                self.name("d", 2),
                self.any_type(),
                { self.expression(2, false) }
            ),
            9 => format!(
                "ALTER DOMAIN {} ADD CONSTRAINT n0 CHECK (VALUE::text <> current_user)",
                self.name("d", 2)
            ),
            10 => format!("ALTER DOMAIN {} DROP CONSTRAINT n0", self.name("d", 2)),
            11 => format!("CREATE TYPE {} AS ENUM ('a', 'b')", self.name("e", 2)),
            12 => format!(
                "ALTER TYPE {} ADD VALUE IF NOT EXISTS '{}'",
                self.name("e", 2),
                self.one_of(&["c", "d"])
            ),
            13 => format!(
                "CREATE TYPE {} AS (a {}, b {})",
                self.name("k", 2),
                self.any_type(),
                self.type_of_column()
            ),
            14 => format!(
                "ALTER TYPE {} ADD ATTRIBUTE x int CASCADE",
                self.name("k", 2)
            ),
            15 => format!(
                "CREATE OR REPLACE FUNCTION f0(n int) RETURNS int LANGUAGE sql {} AS 'SELECT n + 1'",
                self.one_of(&["IMMUTABLE", "STABLE", "VOLATILE"])
            ),
            16 => format!(
                "CREATE OR REPLACE FUNCTION f1(x text) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN {}; RETURN x; END $f$",
                self.rows()
            ),
            17 => format!(
                "CREATE OR REPLACE FUNCTION f2() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN {}; RETURN NEW; END $f$",
                self.rows()
            ),
            18 => format!(
                "CREATE TRIGGER g0 BEFORE INSERT OR UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION f2()",
                self.table()
            ),
            19 => format!(
                "CREATE OR REPLACE RULE u0 AS ON DELETE TO {} DO ALSO {}",
                self.table(),
                self.rows()
            ),
            20 => format!(
                "CREATE POLICY p0 ON {} USING ({})",
                self.table(),
                self.condition()
            ),
            21 => format!(
                "CREATE SEQUENCE {} START {}",
                self.name("q", 2),
                1 + self.below(9)
            ),
            22 => format!(
                "ALTER SEQUENCE {} {}",
                self.name("q", 2),
                self.one_of(&["RESTART 5", "INCREMENT 3", "CYCLE"])
            ),
            23 => format!("CREATE STATISTICS x0 ON id, c0 FROM {}", self.table()),
            24 => format!(
                "GRANT {} ON {} TO r0",
                self.one_of(&["SELECT", "ALL", "INSERT (id)"]),
                self.table()
            ),
            25 => format!("REVOKE ALL ON {} FROM r0", self.table()),
            26 => format!(
                "COMMENT ON TABLE {} IS 'it''s {}'",
                self.table(),
                self.below(9)
            ),
            27 => format!(
                "CREATE AGGREGATE a0 ({}) (sfunc = f0, stype = int)",
                self.any_type()
            ),
            28 => format!(
                "CREATE {} q0",
                self.one_of(&["TEMP SEQUENCE", "TEMP VIEW v0 AS SELECT 1 AS", "SCHEMA"])
            ),
            _ => {
                let kind = self.one_of(&[
                    "TABLE IF EXISTS t0",
                    "TABLE t1",
                    "TABLE t2, t3",
                    "VIEW v0",
                    "MATERIALIZED VIEW m0",
                    "DOMAIN d0",
                    "TYPE e0",
                    "TYPE k0",
                    "FUNCTION f0",
                    "FUNCTION f2",
                    "SEQUENCE q0",
                    "INDEX i0",
                    "TRIGGER g0 ON t0",
                    "RULE u0 ON t0",
                    "POLICY p0 ON t0",
                    "STATISTICS x0",
                    "AGGREGATE a0 (int)",
                    "TABLE t4",
                    "OWNED BY r0",
                ]);
                format!("DROP {kind} CASCADE")
                    .replace("AGGREGATE a0 (int) CASCADE", "AGGREGATE a0 (int)")
            }
        }
    }

    /// A change of rows.
    fn rows(&mut self) -> String {
        let table = self.table();
        match self.below(8) {
            0..=2 => format!(
                "INSERT INTO {table} (id, c0) VALUES ({}, {})",
                self.below(20),
                self.expression(1, false)
            ),
            3 => format!(
                "INSERT INTO {table} SELECT n FROM generate_series({0}, {0} + 5) AS n",
                self.below(20)
            ),
            4 => format!(
                "UPDATE {table} SET {} = {}",
                self.column(),
                self.expression(2, true)
            ),
            5 => format!("UPDATE {table} SET id = id + 20 WHERE {}", self.condition()),
            6 => format!("DELETE FROM {table} WHERE {}", self.condition()),
            _ => format!("TRUNCATE {table} CASCADE"),
        }
    }

    fn simple(&mut self) -> String {
        match self.below(20) {
            0..=4 => self.create_table(),
            5..=8 => self.alter_table(),
            9..=12 => self.other_object(),
            _ => self.rows(),
        }
    }

    /// One message of a client, perhaps of several statements.
    pub fn message(&mut self) -> String {
        match self.below(30) {
            0 => {
                let (one, two) = (self.simple(), self.simple());
                format!("{one}; {two}")
            }
            1 => {
                let (one, two) = (self.simple(), self.simple());
                format!("DO $do$ BEGIN {one}; {two}; END $do$")
            }
            2 => "BEGIN".into(),
            3 => self.one_of(&["COMMIT", "COMMIT", "ROLLBACK"]).to_owned(),
            4 => self
                .one_of(&["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"])
                .to_owned(),
            5 => self
                .one_of(&[
                    "SET search_path = s1, public",
                    "SET search_path = public",
                    "SET TimeZone = 'Asia/Tokyo'",
                    "SET DateStyle = 'German'",
                    "SET IntervalStyle = sql_standard",
                    "RESET ALL",
                    "SET ROLE r0",
                    "RESET ROLE",
                    "SET standard_conforming_strings = off",
                    "SET extra_float_digits = 0",
                    "DISCARD ALL",
                ])
                .to_owned(),
            6 => format!("SELECT f1('{}')", self.below(5)),
            _ => self.simple(),
        }
    }
}
