//! Tests the parser: the statements of the dialect, and refusals with their positions.

use placement::{
    ColumnDefault, ColumnType, Constraint, Cut, Dimension, Durability, FurtherCopy, Share,
    ThinIndex, Value,
};

use super::*;
use crate::fixture::{EVENTS, FLIGHTS, GRIDS, schema};
use crate::statement::{IndexKind, SCAN_ROWS, SelectItem, Set, Setting, Show};

fn one(text: &str) -> Statement {
    let mut statements = parse(text).unwrap_or_else(|error| panic!("{text}: {}", error.error));
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0).statement
}

fn message(text: &str) -> String {
    match parse(text) {
        Ok(parsed) => panic!("{text} was taken for {parsed:?}"),
        Err(error) => error.error.to_string(),
    }
}

#[test]
fn table_with_indexes_inside() {
    let schema = schema(FLIGHTS);
    assert_eq!(schema.validate(), Ok(()));
    assert_eq!(schema.name, "flights");
    assert_eq!(schema.primary_key, [0]);
    assert_eq!((schema.partitions, schema.failures_tolerated), (12, 2));
    assert!(!schema.columns[0].nullable);
    assert!(schema.columns[1].nullable);
    let default = |value| Some(ColumnDefault::Constant(value));
    assert_eq!(schema.columns[6].default, default(Value::Bool(false)));
    assert_eq!(
        schema.columns[7].default,
        default(Value::Text("none".into()))
    );
    let indexes: Vec<_> = schema
        .indexes
        .iter()
        .map(|it| (it.name.as_str(), &it.columns[..], it.constraint))
        .collect();
    assert_eq!(
        indexes,
        [("by_tail", &[1][..], None), ("by_route", &[2, 3][..], None)]
    );
}

#[test]
fn constraints_by_every_spelling() {
    let schema = schema(
        "CREATE TABLE IF NOT EXISTS t (a bigint, b bigint UNIQUE, c bigint, d bigint NOT NULL, \
         UNIQUE INDEX u (c), CONSTRAINT w UNIQUE (c, d), PRIMARY KEY (a), \
         INDEX x (b, d) WITH (constraint = 'dense'), UNIQUE INDEX (a, d), INDEX (c)) \
         WITH (durability = replicated)",
    );
    assert_eq!(schema.durability, Durability::Replicated);
    let indexes: Vec<_> = schema
        .indexes
        .iter()
        .map(|it| (it.name.as_str(), &it.columns[..], it.constraint))
        .collect();
    let unique = Some(Constraint::Unique);
    assert_eq!(
        indexes,
        [
            ("t_b_key", &[1][..], unique),
            ("w", &[2, 3][..], unique),
            ("u", &[2][..], unique),
            ("x", &[1, 3][..], Some(Constraint::Dense)),
            ("t_a_d_key", &[0, 3][..], unique),
            ("t_c_idx", &[2][..], None),
        ]
    );
}

#[test]
fn create_index_joins_the_table_before_it() {
    let text = "CREATE TABLE t (a bigint PRIMARY KEY, b bigint NOT NULL);\n\
                CREATE INDEX x ON t USING replex (b); CREATE UNIQUE INDEX ON t (b, a);\n\
                CREATE INDEX IF NOT EXISTS x ON t (b);\n\
                INSERT INTO t VALUES (1, 2); CREATE INDEX y ON t (b);";
    let statements = parse(text).unwrap();
    let lines: Vec<usize> = statements.iter().map(|it| it.line).collect();
    assert_eq!(lines, [1, 4, 4]);
    let Statement::CreateTable { schema, .. } = &statements[0].statement else {
        panic!("{statements:?}");
    };
    let names: Vec<&str> = schema.indexes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["x", "t_b_a_key"]);
    assert!(matches!(
        &statements[2].statement,
        Statement::CreateIndex(index) if index.name == "y"
    ));
}

#[test]
fn an_index_is_thin_unless_the_statement_says_more() {
    let kinds = [
        ("CREATE INDEX i ON t (a)", true),
        ("CREATE INDEX i ON t (a) INCLUDE (b)", true),
        ("CREATE INDEX i ON t USING btree (a)", true),
        ("CREATE INDEX i ON t USING replex (a)", false),
        ("CREATE UNIQUE INDEX i ON t (a)", false),
        ("CREATE UNIQUE INDEX i ON t USING btree (a)", true),
        ("CREATE UNIQUE INDEX i ON t USING replex (a)", false),
    ];
    for (text, is_thin) in kinds {
        let Statement::CreateIndex(index) = one(text) else {
            panic!("{text} creates an index");
        };
        let found = matches!(index.kind, IndexKind::Thin { .. });
        assert_eq!(found, is_thin, "{text}");
    }
    let Statement::CreateTable { schema, .. } = one(
        "CREATE TABLE t (a bigint PRIMARY KEY, b bigint, c text, INDEX full (b),
         INDEX slim USING btree (b));
         CREATE INDEX ON t (c, b) INCLUDE (a); CREATE INDEX IF NOT EXISTS slim ON t (c)",
    ) else {
        panic!("it creates a table");
    };
    let indexes: Vec<&str> = schema.indexes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(indexes, ["full"], "a clause of a table is a copy");
    let thin = |name: &str, columns: &[usize], included: &[usize]| ThinIndex {
        name: name.into(),
        columns: placement::ascending(columns),
        included: included.to_vec(),
        by_range: true,
        unique: false,
        copies: 1,
    };
    let expected = [thin("slim", &[1], &[]), thin("t_c_b_idx", &[2, 1], &[0])];
    assert_eq!(schema.thin, expected);
}

#[test]
fn further_copies_name_indexes_and_columns() {
    let schema = schema(GRIDS);
    assert_eq!(schema.validate(), Ok(()));
    let names: Vec<&str> = schema.further.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["h", "k", "r", "s", "wide"]);
    let share = |index, divisions| Share { index, divisions };
    let dimension = |column, divisions| Dimension { column, divisions };
    let cuts: Vec<&Cut> = schema.further.iter().map(|it| &it.cut).collect();
    let expected = [
        Cut::Hybrid {
            shares: vec![share(None, 3), share(Some(0), 4)],
        },
        Cut::HybridsBetween {
            first: Some(0),
            last: None,
            factors: vec![3, 2, 2],
        },
        Cut::Replica { of: Some(0) },
        Cut::Hyperspace {
            dimensions: vec![dimension(3, 2), dimension(2, 3), dimension(0, 2)],
        },
    ];
    assert_eq!(cuts[..4], expected.iter().collect::<Vec<_>>());
    let Statement::CreateTable { schema, .. } = one(
        "CREATE TABLE t (a bigint PRIMARY KEY, b bigint); CREATE INDEX by_b ON t USING replex (b);
         CREATE INDEX IF NOT EXISTS by_b ON t USING replica (t);
         CREATE INDEX ON t USING HYBRID (t, by_b) WITH (divisions = '4, 3')",
    ) else {
        panic!("it creates a table");
    };
    let hybrid = FurtherCopy {
        name: "t_t_by_b_hybrid".into(),
        cut: Cut::Hybrid {
            shares: vec![share(None, 4), share(Some(0), 3)],
        },
    };
    assert_eq!(schema.further, [hybrid]);
}

#[test]
fn copies_are_cut_by_first_columns_of_their_keys() {
    let schema = schema(EVENTS);
    assert_eq!(schema.validate(), Ok(()));
    assert_eq!(schema.primary_partition_columns, Some(1));
    let cut: Vec<Option<u8>> = schema
        .indexes
        .iter()
        .map(|it| it.partition_columns)
        .collect();
    assert_eq!(cut, [Some(1), Some(1)]);
    assert_eq!(
        message(
            "CREATE TABLE t (a bigint PRIMARY KEY, b text, INDEX x (a, b) WITH (partition_by = 'b'))"
        ),
        "index x (a, b) of table t cannot be partitioned by (b): name the first columns of (a, b), \
         in their order"
    );
    assert_eq!(
        message("CREATE TABLE t (a bigint PRIMARY KEY) WITH (partition_by = 'a, a')"),
        "the primary key of table t cannot be partitioned by (a, a): name the first columns of \
         (a), in their order"
    );
    let dense = "CREATE TABLE t (a bigint PRIMARY KEY, b bigint NOT NULL,
        INDEX x (a, b) WITH (constraint = 'dense', partition_by = 'a, b'))";
    let Statement::CreateTable { schema, .. } = one(dense) else {
        panic!("it creates a table");
    };
    let refused = schema.validate().unwrap_err().to_string();
    assert!(
        refused.contains("by the first 1 or fewer, but for none"),
        "{refused}"
    );
}

#[test]
fn bad_copies_are_named_with_the_remedy() {
    let wrong = |clause: &str| {
        message(&format!(
            "CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX by_a (a), INDEX {clause})"
        ))
    };
    for (clause, expected) in [
        (
            "h USING hybrid (t, by_b) WITH (divisions = '3,4')",
            "h USING hybrid (t, by_b) names by_b, which is no index of table t: name some of t, \
             by_a (t is the primary key), and put indexes before the copies that name them",
        ),
        (
            "h USING hybrid (t, by_a)",
            "h USING hybrid (t, by_a) of table t does not specify how it is cut: write WITH \
             (divisions = '4,3')",
        ),
        (
            "h USING hybrid (t, by_a) WITH (divisions = '12')",
            "h USING hybrid (t, by_a) of table t has 1 divisions for 2 names: write WITH \
             (divisions = '4,3')",
        ),
        (
            "h USING hybrid (t, by_a) WITH (divisions = '3,four')",
            "\"3,four\" is no value of option divisions: write whole numbers, as in divisions = \
             '3,4'",
        ),
        (
            "h USING hybrid (t, by_a) WITH (factors = '3,4')",
            "a hybrid has no option factors: the one there is is divisions",
        ),
        (
            "k USING hybrids_between (t, by_a)",
            "k USING hybrids_between (t, by_a) of table t does not specify how many hybrids there \
             are: write WITH (factors = '4,3') for one, (factors = '3,2,2') for two",
        ),
        (
            "k USING hybrids_between (t) WITH (factors = '4,3')",
            "k USING hybrids_between (t) of table t names 1 indexes: name the two that they are \
             between",
        ),
        (
            "r USING replica (t, by_a)",
            "r USING replica (t, by_a) of table t names 2 indexes: name the one to copy",
        ),
        (
            "r USING replica (t) WITH (divisions = '2')",
            "a replica has no option divisions: leave WITH out",
        ),
        (
            "s USING hyperspace (a, b) WITH (divisions = '3,4')",
            "table t has no column b: it has id, a",
        ),
    ] {
        assert_eq!(wrong(clause), expected);
    }
    assert!(
        message("CREATE TABLE t (a bigint PRIMARY KEY, UNIQUE INDEX r USING replica (t))")
            .contains("a replica cannot be unique")
    );
    assert!(message("CREATE INDEX x ON t USING gin (a)").contains("an index USING GIN"));
}

#[test]
fn column_named_index_is_a_column() {
    let schema = schema("CREATE TABLE t (\"index\" bigint, unique_id bigint PRIMARY KEY)");
    assert_eq!(schema.columns[0].name, "index");
    assert_eq!(schema.columns[0].column_type, ColumnType::Int64);
    assert!(schema.indexes.is_empty());
}

#[test]
fn names_fold_unless_quoted() {
    let Statement::Select(select) = one("SELECT Id, \"Id\" FROM Public.Flights AS F") else {
        panic!("not a SELECT");
    };
    let table = select.table.unwrap();
    assert_eq!(
        (table.name.as_str(), table.alias.as_deref()),
        ("flights", Some("f"))
    );
    let names: Vec<_> = select
        .items
        .iter()
        .map(|it| match it {
            SelectItem::Expression { name, .. } => name.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["id", "Id"]);
}

#[test]
fn session_statements() {
    assert_eq!(one("show tables"), Statement::Show(Show::Tables));
    assert_eq!(
        one("SHOW TABLE Flights;"),
        Statement::Show(Show::Table("flights".into()))
    );
    assert_eq!(
        one("describe flights"),
        Statement::Show(Show::Table("flights".into()))
    );
    assert_eq!(one("SHOW SERVERS"), Statement::Show(Show::Servers));
    assert_eq!(
        one("show stale_reads"),
        Statement::Show(Show::Setting(Setting::StaleReads))
    );
    for text in ["SET scan = on", "set scan to 'ON'", "set scan = true"] {
        assert_eq!(one(text), Statement::Set(Set::Scan(true)), "{text}");
    }
    for (text, rows) in [
        ("SET scan_rows = 5", 5),
        ("set scan_rows to '7'", 7),
        ("SET scan_rows = default", SCAN_ROWS),
    ] {
        assert_eq!(one(text), Statement::Set(Set::ScanRows(rows)), "{text}");
    }
    assert_eq!(
        message("SET scan_rows = many"),
        "many is no value of setting scan_rows: write a number of rows, or DEFAULT, which is 100000"
    );
    assert_eq!(
        message("SET scan = maybe"),
        "maybe is no value of setting scan: write on or off"
    );
    assert_eq!(
        message("SHOW search_path"),
        "there is no setting search_path: the settings are scan, scan_rows and stale_reads, and timezone, \
         client_encoding, datestyle, standard_conforming_strings cannot be changed"
    );
    for text in [
        "SET timezone = 'UTC'",
        "set timezone to utc",
        "SET TimeZone = DEFAULT",
        "SET SESSION timezone = 'GMT'",
        "SET TIME ZONE 'UTC'",
        "SET client_encoding TO 'UTF8'",
        "SET datestyle = ISO, MDY",
        "SET datestyle TO 'ISO'",
    ] {
        assert_eq!(one(text), Statement::SetAlready, "{text}");
    }
    assert!(message("SET timezone = 'Europe/Berlin'").starts_with(
        "setting timezone to Europe/Berlin is not supported: it is always UTC; timestamps have \
             no zone"
    ));
    assert!(message("SET client_encoding = 'LATIN1'").contains("always UTF8"));
    assert!(message("SET search_path = 'UTC'").starts_with("there is no setting search_path"));
    assert!(matches!(one("SHOW timezone"), Statement::Show(Show::Fixed(it)) if it.value == "UTC"));
    assert!(matches!(
        one("SHOW TIME ZONE"),
        Statement::Show(Show::Fixed(_))
    ));
}

#[test]
fn scan_hint_is_kept_and_explain_wraps() {
    let Statement::Explain(inner) = one("EXPLAIN /* why */ SELECT /*+ scan */ * FROM t") else {
        panic!("not an EXPLAIN");
    };
    assert!(matches!(*inner, Statement::Select(select) if select.scan));
    let Statement::ExplainAsJson(inner) = one("EXPLAIN (ANALYZE, COSTS off, FORMAT json) SELECT 1")
    else {
        panic!("not as JSON");
    };
    assert!(matches!(*inner, Statement::ExplainAnalyze(_)));
    for text in [
        "EXPLAIN (VERBOSE) SELECT 1",
        "EXPLAIN VERBOSE SELECT 1",
        "EXPLAIN (ANALYZE false) SELECT 1",
    ] {
        assert!(matches!(one(text), Statement::Explain(_)), "{text}");
    }
    for text in [
        "EXPLAIN ANALYZE VERBOSE SELECT 1",
        "EXPLAIN (VERBOSE, ANALYZE) SELECT 1",
    ] {
        assert!(matches!(one(text), Statement::ExplainAnalyze(_)), "{text}");
    }
    for (text, expected) in [
        ("EXPLAIN (FORMAT XML) SELECT 1", "FORMAT XML"),
        (
            "EXPLAIN (FORMAT x) SELECT 1",
            "unrecognized value for EXPLAIN option",
        ),
        (
            "EXPLAIN (SPEED) SELECT 1",
            "unrecognized EXPLAIN option \"speed\"",
        ),
        (
            "EXPLAIN (COSTS maybe) SELECT 1",
            "costs requires a Boolean value",
        ),
        ("EXPLAIN (ANALYZE on on) SELECT 1", "a name and a value"),
        ("EXPLAIN () SELECT 1", "a name and a value"),
        ("EXPLAIN (ANALYZE SELECT 1", "lacks its )"),
    ] {
        assert!(
            message(text).contains(expected),
            "{text}: {}",
            message(text)
        );
    }
    assert!(message("EXPLAIN DROP TABLE t").contains("EXPLAIN of this statement"));
}

#[test]
fn syntax_errors_show_the_line_and_a_caret() {
    assert_eq!(
        message("SELECT 1;\n  SELECT id, FROM flights"),
        "syntax error at line 2, column 14: expected an expression, found: FROM\n  \
           \u{20}\u{20}SELECT id, FROM flights\n  \
           \u{20}            ^"
    );
    let ParseError { error, line } = parse("SELECT 1;\nSELECT id FROM t WHERE").unwrap_err();
    assert_eq!(line, 2);
    let SqlError::Syntax(error) = error else {
        panic!("{error}");
    };
    assert_eq!((error.line, error.column), (2, 23));
    assert!(message("SELEKT 1").contains("line 1, column 1"));
    assert!(message("SELECT 1 2").contains("column 10"));
    assert!(message("SELECT 'abc").contains("column 8"));
    assert!(
        message("CREATE TABLE t (a bigint,\n INDEX x (a) WITH constraint)")
            .contains("line 2, column 19")
    );
    let deep = format!("SELECT {}1{}", "(".repeat(500), ")".repeat(500));
    assert!(message(&deep).contains("nested too deeply"));
}

#[test]
fn unsupported_syntax_is_refused_by_name() {
    for (text, part) in [
        ("SELECT * FROM a JOIN b ON a.id = b.id", "a join of tables"),
        ("SELECT * FROM a, b", "a join of tables"),
        ("SELECT a FROM t GROUP BY CUBE (a)", "GROUP BY CUBE"),
        ("SELECT DISTINCT ON (a) a FROM t", "DISTINCT ON"),
        ("SELECT * FROM (SELECT 1) AS x", "as a table"),
        ("SELECT 1 UNION SELECT 2", "UNION"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "WITH"),
        ("SELECT * FROM t FOR UPDATE NOWAIT", "FOR UPDATE"),
        ("SELECT * FROM t FOR SHARE SKIP LOCKED", "FOR UPDATE"),
        (
            "UPDATE t SET a = 1 FROM u, v",
            "joins of more than two tables",
        ),
        (
            "DELETE FROM t USING u JOIN v ON true",
            "joins of more than two tables",
        ),
        ("UPDATE t SET a = 1 LIMIT 1", "this form of UPDATE"),
        ("BEGIN ISOLATION LEVEL chaos", "begin isolation level chaos"),
        ("COMMIT AND CHAIN", "commit and chain"),
        ("ROLLBACK TO", "rollback to"),
        ("SAVEPOINT", "savepoint"),
        ("SET TRANSACTION SNAPSHOT 'x'", "set transaction snapshot"),
        (
            "ALTER TABLE t DROP COLUMN a, DROP PARTITION (a = 1)",
            "ALTER TABLE",
        ),
        (
            "ALTER TABLE IF EXISTS t SET (partitions = 8)",
            "ALTER TABLE",
        ),
        ("TRUNCATE IF EXISTS t", "TRUNCATE"),
        ("CREATE TABLE t (a timestamp(3))", "the type TIMESTAMP(3)"),
        ("CREATE TABLE t (a money)", "the type money"),
        (
            "CREATE TABLE t (a bigint REFERENCES u MATCH FULL)",
            "MATCH FULL of the foreign key",
        ),
        (
            "CREATE TABLE t (a bigint CHECK (a > 0) NO INHERIT)",
            "CHECK (a > 0) NO INHERIT",
        ),
        ("CREATE TABLE t AS SELECT 1", "\"CREATE TABLE"),
        ("CREATE TEMP TABLE t (a bigint)", "\"CREATE TEMP"),
        ("CREATE VIEW v AS SELECT 1", "CREATE VIEW"),
    ] {
        let message = message(text);
        assert!(message.contains(part), "{text}: {message}");
        assert!(message.contains("not supported"), "{text}: {message}");
    }
}

#[test]
fn wrong_options_of_ranges_are_refused_with_the_remedy() {
    for (text, part) in [
        (
            "CREATE INDEX x ON t USING replex (a) WITH (ranges = often)",
            "often is no value of option ranges: write on or off",
        ),
        (
            "CREATE INDEX x ON t USING replex (a) WITH (copies = 2)",
            "an index has no option copies: there are constraint, partition_by and ranges",
        ),
    ] {
        let message = message(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn wrong_tables_are_refused_with_the_remedy() {
    for (text, part) in [
        (
            "CREATE TABLE t (a bigint PRIMARY KEY, PRIMARY KEY (a))",
            "two primary keys",
        ),
        (
            "CREATE TABLE t (a bigint, INDEX x (b))",
            "table t has no column b: it has a",
        ),
        (
            "CREATE TABLE t (a bigint) WITH (speed = 3)",
            "a table has no option speed",
        ),
        (
            "CREATE TABLE t (a bigint) WITH (durability = 'often')",
            "write 'sync' or 'replicated'",
        ),
        (
            "CREATE TABLE t (a bigint) WITH (partitions = many)",
            "write a whole number up to 4096",
        ),
        (
            "CREATE TABLE t (a bigint DEFAULT 'x')",
            "the default of column a: \"x\" is not of type bigint",
        ),
        (
            "CREATE TABLE t (a date DEFAULT now() + 1)",
            "now here is not supported",
        ),
        (
            "CREATE INDEX x ON t USING replex (a) WITH (constraint = 'tight')",
            "write 'unique' or 'dense'",
        ),
        (
            "CREATE INDEX x ON t (a) WITH (constraint = 'dense')",
            "a thin index has no option constraint: there are ranges (on or off) and copies (a number); \
             write USING replex",
        ),
        (
            "CREATE INDEX x ON t USING replex (a) INCLUDE (b)",
            "leave out INCLUDE, or make a thin index",
        ),
        (
            "CREATE UNIQUE INDEX x ON t (a) INCLUDE (b)",
            "a copy of the table has all columns",
        ),
        (
            "CREATE TABLE t (a bigint PRIMARY KEY, b bigint); CREATE INDEX ON t (b) INCLUDE (c)",
            "table t has no column c",
        ),
        (
            "CREATE TABLE t (a bigint PRIMARY KEY, UNIQUE (a))",
            "unique already",
        ),
    ] {
        let message = message(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn long_chains_are_refused_before_they_are_walked() {
    for (operator, operand) in [("+", "1"), ("AND", "true"), ("||", "'a'"), ("=", "1")] {
        let long = vec![operand; 200_000].join(&format!(" {operator} "));
        let message = message(&format!("SELECT {long}"));
        assert!(message.contains("more than 4096 operators"), "{message}");
        // As long as is allowed, it is walked, even on the small stack of a test.
        let allowed = vec![operand; 4000].join(&format!(" {operator} "));
        assert!(parse(&format!("SELECT {allowed}")).is_ok(), "{operator}");
    }
    let many: Vec<String> = (0..20_000).map(|n| format!("-{n}")).collect();
    assert!(parse(&format!("SELECT 1 WHERE 1 IN ({})", many.join(", "))).is_ok());
}

#[test]
fn unsupported_indexes_are_refused_by_name() {
    for (text, part) in [
        (
            "CREATE INDEX x ON t USING replex (a DESC)",
            "DESC or NULLS FIRST in a primary key, a copy",
        ),
        (
            "CREATE UNIQUE INDEX x ON t (a NULLS FIRST)",
            "make a thin index with CREATE INDEX … ON t (… DESC)",
        ),
        ("CREATE INDEX x ON t (a USING >)", "a USING >"),
        (
            "CREATE TABLE t (a bigint, PRIMARY KEY (a DESC))",
            "in a primary key",
        ),
        (
            "CREATE TABLE t (a bigint PRIMARY KEY, b text, INDEX i (b DESC))",
            "DESC or NULLS FIRST",
        ),
        ("CREATE INDEX x ON t (a jsonb_path_ops)", "in an index"),
        ("CREATE INDEX x ON t (lower(a))", "in an index"),
        (
            "CREATE INDEX x ON t (a) WHERE a > 1",
            "this form of CREATE INDEX",
        ),
        ("CREATE INDEX x ON t USING gin (a)", "an index USING"),
    ] {
        let message = message(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn directions_of_columns() {
    let text = "CREATE TABLE t (a bigint PRIMARY KEY, b text, c text); CREATE INDEX i ON t \
                (b DESC, c ASC, a NULLS FIRST); CREATE INDEX j ON t (c DESC NULLS LAST)";
    let schema = schema(text);
    let columns = schema.thin.iter().map(|index| {
        let columns = index.columns.iter().map(|it| schema.sorted_name(it));
        columns.collect::<Vec<_>>().join(", ")
    });
    let expected = ["b DESC, c, a NULLS FIRST", "c DESC NULLS LAST"];
    assert_eq!(columns.collect::<Vec<_>>(), expected);
}
