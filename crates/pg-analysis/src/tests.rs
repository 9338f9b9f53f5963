//! Analyses the SQL of the paper's Tables 1 and 3, and statements that look like harmless reads but
//! are not.

use proptest::prelude::*;

use super::catalogue::{ColumnInfo, Relation, RelationKind};
use super::*;
use proxy_core::freshness::paper;
use proxy_core::freshness::{ColumnNumber, RowHash};

const INT4: u32 = 23;
const TEXT: u32 = 25;

fn relation(number: u32, prefix: &str, count: u16) -> Relation {
    let columns = (1..=count).map(|column| (format!("{prefix}{column}"), INT4));
    relation_of(number, columns)
}

/// Returns a table with columns of these names and types, the first of which is its key.
pub(super) fn relation_of(
    number: u32,
    columns: impl IntoIterator<Item = (String, u32)>,
) -> Relation {
    let columns = columns.into_iter().zip(1..);
    let columns = columns.map(|((name, type_oid), number)| ColumnInfo {
        number: ColumnNumber(number),
        name,
        type_oid,
        deterministic: true,
        always_generated: false,
        key_operator: None,
    });
    Relation {
        table: TableOid(number),
        kind: RelationKind::Table,
        columns: columns.collect(),
        key: vec![ColumnNumber(1)],
        unique_keys: Vec::new(),
        replicated: true,
        is_partitioned: false,
        row_security: false,
        has_triggers: false,
        has_generated: false,
        children: Vec::new(),
        cascades: Vec::new(),
    }
}

/// Returns the paper's R and S, and one table for each thing that makes a read or write unsafe.
fn catalogue() -> Catalogue {
    let mut catalogue = Catalogue::default();
    let mut add = |name: &str, change: &dyn Fn(&mut Relation)| {
        let number = catalogue.relations.len() as u32 + 1;
        let prefix = if name == "s" { "b" } else { "a" };
        let count = if name == "s" { 5 } else { 4 };
        let mut new = relation(number, prefix, count);
        change(&mut new);
        let schema = if name.starts_with("pg_") {
            "pg_catalog"
        } else {
            "public"
        };
        catalogue
            .relations
            .insert((schema.into(), name.into()), new);
    };
    add("r", &|_| {});
    add("s", &|_| {});
    add("words", &|words| words.columns[0].type_oid = TEXT);
    add("secured", &|secured| secured.row_security = true);
    add("unlogged", &|unlogged| unlogged.replicated = false);
    add("triggered", &|triggered| triggered.has_triggers = true);
    add("parent", &|parent| parent.children = vec![TableOid(1)]);
    add("parted", &|parted| parted.cascades = vec![TableOid(2)]);
    add("moods", &|moods| moods.columns[3].type_oid = 20_000);
    add("seen", &|seen| {
        seen.kind = RelationKind::View("SELECT a1, a2 FROM public.r".into())
    });
    add("odd", &|odd| {
        odd.kind = RelationKind::View("SELECT public.mine() AS a1".into())
    });
    add("pg_class", &|class| class.kind = RelationKind::Other);
    add("watched", &|watched| watched.children = vec![TableOid(6)]);
    add("watching", &|watching| {
        watching.cascades = vec![TableOid(6)]
    });
    add("family", &|family| family.children = vec![TableOid(8)]);
    add("places", &|places| {
        places.kind = RelationKind::View("SELECT r.ctid AS place FROM public.r".into())
    });
    add("of_r", &|of_r| {
        of_r.columns[0].name = "r".into();
        of_r.columns[1].name = "of_r".into();
    });
    add("named", &|named| named.columns[3].type_oid = 2205);
    add("aged", &|aged| aged.columns[0].type_oid = 28);
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    catalogue.immutable_functions = named(&["abs", "count", "lower", "max", "sum"]);
    catalogue.steady_functions = named(&["pg_relation_filenode"]);
    catalogue.user_functions = named(&["mine"]);
    catalogue.user_operators = named(&["<=>"]);
    catalogue
}

fn analyse_one(text: &str) -> AnalysedStatement {
    let analyser = Analyser::new(catalogue());
    let analysis = analyser.analyse(text, &["public".into()]);
    assert_eq!(analysis.len(), 1, "{text}");
    is_same_with_constants(&analyser, text);
    analysis[0].clone()
}

/// Checks that a text touches the same data whether its constants become parameters or not, unless
/// the server refuses the text for its meaning.
fn is_same_with_constants(analyser: &Analyser, text: &str) {
    let path = ["public".into()];
    let expected = analyser.analyse(text, &path);
    let (found, template) = analyser.analyse_with_constants(text, &path);
    let constants = template.map_or(Vec::new(), |template| template.values);
    if expected.iter().any(|statement| statement.writes_anything) {
        return;
    }
    let constants: Vec<_> = constants.iter().map(Constant::parameter).collect();
    assert_eq!(found.len(), expected.len(), "{text}");
    for (found, expected) in found.iter().zip(expected.iter()) {
        assert_eq!(found.action, expected.action, "{text}");
        let times = [found, expected].map(|it| (it.of_transaction_time, it.locks));
        assert_eq!(times[0], times[1], "{text}");
        assert_eq!(found.sets(&constants), expected.sets(&[]), "{text}");
    }
}

#[test]
fn texts_with_other_constants_are_analysed_once() {
    let analyser = Analyser::new(catalogue());
    let path = ["public".into()];
    let analysed = |text| {
        is_same_with_constants(&analyser, text);
        analyser.analyse_with_constants(text, &path).0
    };
    for [text, other] in [
        [
            "SELECT a2 FROM r WHERE a1 = 7",
            "SELECT a2 FROM r WHERE a1 = 008",
        ],
        [
            "UPDATE r SET a2 = a2 + -1 WHERE a1=-3",
            "UPDATE r SET a2 = a2 + -9 WHERE a1=4",
        ],
        [
            "INSERT INTO words VALUES ('a', 1, '', 2), ('c', 4, 5, 6)",
            "INSERT INTO words VALUES ('it''s', 1, 'b', 2), ('d', 4, 5, 6)",
        ],
    ] {
        assert!(Arc::ptr_eq(&analysed(text), &analysed(other)), "{text}");
    }
    for text in [
        "SELECT a2 FROM r WHERE a1 = 7 LIMIT 3",
        "SELECT a2 FROM r WHERE a3 > '7' AND a1 = '07' ORDER BY 1, 2",
        "SELECT date '2024-02-29', a2::numeric(10, 2) FROM r",
        "INSERT INTO words VALUES (3, 4, 5, 6)",
        "SELECT nextval('s'), 5",
        "CREATE TABLE n (a int DEFAULT 5)",
        "BEGIN; UPDATE r SET a1 = 5 WHERE a1 = 6; COMMIT",
    ] {
        analysed(text);
    }
}

fn sets(text: &str) -> AccessSets {
    analyse_one(text).sets(&[])
}

/// Returns the row that tests of the paper call `number`.
fn row(number: u64) -> RowHash {
    RowHash::of_key(0, [number.to_string().as_bytes()])
}

/// Checks that the found sets of a table equal the expected sets of the paper, with the rows
/// `rows`.
fn same(found: &AccessSets, table: u32, expected: &AccessSets, rows: &[u64]) {
    let found = found.table(TableOid(table)).expect("the table is found");
    let expected = expected
        .table(TableOid(table))
        .expect("the table is expected");
    assert_eq!(found.class(), expected.class());
    assert_eq!(found.written().columns, expected.written().columns);
    if !expected.read().columns.is_all() && !expected.written().columns.is_all() {
        assert_eq!(found.read().columns, expected.read().columns);
    }
    let found_rows: Vec<RowHash> = found.read().rows.named().collect();
    let expected_rows: Vec<RowHash> = rows.iter().map(|number| row(*number)).collect();
    assert_eq!(found_rows, expected_rows);
}

#[test]
fn table_1_of_the_paper() {
    let texts = [
        ("UPDATE r SET a2 = 5, a3 = 6 WHERE a1 = 100", 1, vec![100]),
        ("UPDATE s SET b2 = 5 WHERE b5 > 7", 2, vec![]),
        ("UPDATE r SET a3 = 1, a4 = 2 WHERE a2 < 7", 1, vec![]),
        ("DELETE FROM r WHERE a1 = 120", 1, vec![120]),
        ("UPDATE s SET b4 = 1 WHERE b5 < 3", 2, vec![]),
    ];
    for ((text, table, rows), expected) in texts.iter().zip(paper::writes()) {
        assert_eq!(analyse_one(text).action, StatementAction::Write);
        same(&sets(text), *table, &expected, rows);
    }
}

#[test]
fn table_3_of_the_paper() {
    let texts = [
        ("SELECT * FROM R WHERE A2 > 3", 1, vec![]),
        ("SELECT A3, A4 FROM R WHERE A1 = 100", 1, vec![100]),
        ("SELECT B2, B3 FROM S WHERE B5 < 1", 2, vec![]),
        ("SELECT A1, B2, B3 FROM R JOIN S ON A1 = B2", 1, vec![]),
        ("SELECT A1, B2, B3 FROM R JOIN S ON A1 = B2", 2, vec![]),
    ];
    let [r1, r2, r3, r4] = paper::reads();
    for ((text, table, rows), expected) in texts.iter().zip([&r1, &r2, &r3, &r4, &r4]) {
        assert_eq!(analyse_one(text).action, StatementAction::Read);
        same(&sets(text), *table, expected, rows);
    }
}

#[test]
fn row_is_found_however_the_key_is_written() {
    let with = |text: &str, parameter: BoundParameter<'_>| {
        let sets = analyse_one(text).sets(&[parameter]);
        let table = sets.table(TableOid(1)).expect("r is read");
        (table.class() == AffectingClass::Rows)
            .then(|| table.read().rows.named().collect::<Vec<_>>())
    };
    let text = |value: &'static str| BoundParameter {
        type_oid: 0,
        binary: false,
        value: Some(value.as_bytes()),
    };
    let seven = Some(vec![row(7)]);
    let by_parameter = "SELECT a2 FROM r AS x WHERE $1 = x.a1 AND a3 > 5";
    assert_eq!(with("SELECT a2 FROM r WHERE a1 = '07'", text("")), seven);
    assert_eq!(with(by_parameter, text(" 7 ")), seven);
    let binary = |value| BoundParameter {
        type_oid: INT4,
        binary: true,
        value: Some(value),
    };
    assert_eq!(with(by_parameter, binary(&[0, 0, 0, 7])), seven);
    let numeric = BoundParameter {
        type_oid: 1700,
        ..text("7")
    };
    let null = BoundParameter {
        value: None,
        ..text("")
    };
    for parameter in [text("7.0"), numeric, null, binary(&[7])] {
        assert_eq!(with(by_parameter, parameter), None);
    }
    // Its type is another one's where it stands first.
    let repeated = "SELECT a2 FROM r WHERE a3 = $1 AND a1 = $1";
    assert_eq!(with(repeated, text("7")), None);
    assert_eq!(with(repeated, binary(&[0, 0, 0, 7])), seven);
    let not_a_key = [
        "SELECT a2 FROM r WHERE a1 = 7 OR a2 = 1",
        "SELECT a2 FROM r WHERE NOT a1 = 7",
        "SELECT a2 FROM r AS x(a2, a1) WHERE a1 = 7",
        "SELECT a2 FROM r WHERE a1 = 7.5",
        "SELECT a2 FROM r WHERE a1 = a2",
        "SELECT a2 FROM r WHERE a1 = (SELECT 7)",
        "SELECT a2 FROM r, r AS y WHERE r.a1 = 7",
        "SELECT a2 FROM r WHERE a1 = 7 UNION SELECT a2 FROM r",
    ];
    for text_of in not_a_key {
        assert_eq!(with(text_of, text("7")), None, "{text_of}");
    }
}

#[test]
fn primary_only_statements_stay_on_the_primary() {
    let primary = [
        "SELECT * FROM r FOR UPDATE",
        "SELECT nextval('q')",
        "SELECT random()",
        "SELECT pg_try_advisory_xact_lock(1), pg_sleep(0), pg_relation_size('r')",
        "SELECT current_user",
        "SELECT * FROM secured",
        "SELECT * FROM unlogged",
        "SELECT a4 FROM moods",
        "SELECT relname FROM pg_class",
        "LOCK TABLE r",
        "COPY r TO STDOUT",
        "EXPLAIN SELECT 1",
        "VACUUM r",
        "ALTER LARGE OBJECT 70001 OWNER TO ann",
        "COMMENT ON LARGE OBJECT 70001 IS 'large'",
        "GRANT SELECT ON LARGE OBJECT 70001 TO ann",
    ];
    for text in primary {
        let statement = analyse_one(text);
        assert!(
            matches!(statement.action, StatementAction::Primary(_)),
            "{text}"
        );
        assert!(!statement.sets(&[]).is_written(), "{text}");
    }
    for text in [
        "CREATE INDEX CONCURRENTLY i ON r (a2)",
        "DROP INDEX CONCURRENTLY i",
    ] {
        let statement = analyse_one(text);
        assert!(
            matches!(&statement.action, StatementAction::Alone(it, _) if it == text),
            "{text}"
        );
    }
}

#[test]
fn unknown_statements_may_write_anything() {
    let anything = [
        "SELECT mine()",
        "SELECT r.mine FROM r",
        "SELECT (r).mine FROM r",
        "SELECT * FROM odd",
        "SELECT * FROM no_such_table",
        "SELECT a1 <=> 5 FROM r",
        "SELECT a1 OPERATOR(public.+) 5 FROM r",
        "SELECT 'x'::mood",
        "SELECT pg_reload_conf()",
        "SELECT set_config('search_path', mine(), false)",
        "SELECT set_config('search_path', 'x', false) FROM r",
        "SELECT set_config('search_path', 'x', false), mine()",
        "SELECT * FROM other.public.r",
        "INSERT INTO triggered VALUES (1)",
        "INSERT INTO watched VALUES (1)",
        "DELETE FROM watching",
        "INSERT INTO r SELECT mine()",
        "WITH x AS (UPDATE triggered SET a2 = 1 RETURNING a1) SELECT * FROM r",
        "TRUNCATE r",
        "CALL mine()",
        "DO 'BEGIN END'",
        "MERGE INTO r USING s ON a1 = b1 WHEN MATCHED THEN DELETE",
        "EXPLAIN ANALYZE DELETE FROM triggered",
        "SELEC 1",
    ];
    for text in anything {
        let statement = analyse_one(text);
        assert!(
            matches!(statement.action, StatementAction::Unproven(_)),
            "{text}"
        );
        assert!(statement.sets(&[]).may_write_anything(), "{text}");
    }
}

/// No event trigger sees such a table, so replicas would lack it when its rows come.
#[test]
fn blocks_in_which_explain_makes_a_table_are_refused() {
    let refused = [
        "DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT * INTO TABLE e FROM r'; END $$",
        "DO $x$ BEGIN EXECUTE 'explain (analyze, costs off) create table e as select 1'; END $x$",
        "DO 'BEGIN EXECUTE ''EXPLAIN ANALYSE CREATE MATERIALIZED VIEW e AS SELECT 1''; END'",
        "DO $$ BEGIN EXECUTE $q$ EXPLAIN ANALYZE SELECT 'a' AS a INTO e $q$; END $$",
        "DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT ''a'' AS a INTO e FROM r'; END $$",
        "CALL mine('EXPLAIN ANALYZE SELECT 1 INTO e')",
    ];
    for text in refused {
        let statement = analyse_one(text);
        assert!(
            matches!(statement.action, StatementAction::Refused(why) if why.contains("EXPLAIN")),
            "{text}"
        );
    }
    let others = [
        "DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE INSERT INTO r VALUES (1)'; END $$",
        "DO $$ DECLARE l text; BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT 1' INTO l; END $$",
        "DO $$ BEGIN EXECUTE 'EXPLAIN SELECT 1 INTO e'; CREATE TABLE x (); END $$",
        "DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT 1 INTO TEMP e'; END $$",
        "DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT 1; CREATE TABLE x ()'; END $$",
        "CALL mine('a table that EXPLAIN ANALYZE creates')",
    ];
    for text in others {
        let statement = analyse_one(text);
        assert!(
            matches!(statement.action, StatementAction::Unproven(_)),
            "{text}"
        );
    }
}

#[test]
fn writing_with_query_is_a_write_of_its_table() {
    let statement = analyse_one("WITH x AS (DELETE FROM s RETURNING *) INSERT INTO r SELECT 1");
    let sets = statement.sets(&[]);
    assert!(!sets.may_write_anything());
    for table in [1, 2] {
        assert!(
            sets.table(TableOid(table))
                .is_some_and(|table| table.is_written())
        );
    }
    let read = analyse_one("WITH x AS (DELETE FROM s RETURNING *) SELECT * FROM x");
    assert!(read.sets(&[]).is_written());
    assert_ne!(read.action, StatementAction::Read);
}

#[test]
fn views_parents_and_cascades_touch_their_base_tables() {
    let touched = |text: &str| -> Vec<u32> {
        let sets = sets(text);
        sets.tables().map(|(table, _)| table.0).collect()
    };
    assert_eq!(touched("SELECT a1 FROM seen"), [1]);
    assert_eq!(touched("SELECT a1 FROM parent"), [1, 7]);
    assert_eq!(touched("DELETE FROM parted WHERE a1 = 1"), [2, 8]);
    assert_eq!(touched("UPDATE parent SET a2 = 1"), [1, 7]);
    assert_eq!(touched("INSERT INTO parent VALUES (1)"), [1, 7]);
    assert_eq!(touched("DELETE FROM family"), [2, 8, 15]);
    assert_eq!(touched("INSERT INTO family VALUES (1)"), [8, 15]);
    assert_eq!(touched("SELECT 1"), [0; 0]);
    assert_eq!(
        analyse_one("SELECT a1 FROM seen").action,
        StatementAction::Read
    );
}

#[test]
fn columns_with_other_names_are_all_columns() {
    let whole = [
        "SELECT x FROM r AS x",
        "SELECT a FROM r AS x(a)",
        "SELECT r.* FROM r",
        "SELECT a1 FROM r NATURAL JOIN r AS y",
        "SELECT count(r) FROM r",
    ];
    for text in whole {
        let sets = sets(text);
        let table = sets.table(TableOid(1)).expect("r is read");
        assert!(table.read().columns.is_all(), "{text}");
    }
}

#[test]
fn schema_changes_go_to_replicas_as_text() {
    let schema = |text: &str| match analyse_one(text).action {
        StatementAction::Schema(text) => Some(text),
        _ => None,
    };
    let create = "CREATE TABLE n (a int PRIMARY KEY)";
    assert_eq!(schema(create).as_deref(), Some(create));
    assert_eq!(
        schema("CREATE TABLE n AS SELECT * FROM r").as_deref(),
        Some("CREATE TABLE n AS SELECT * FROM r\nWITH NO DATA")
    );
    assert_eq!(
        schema("CREATE TABLE n AS SELECT 1 WITH  DATA").as_deref(),
        Some("CREATE TABLE n AS SELECT 1 \nWITH NO DATA")
    );
    assert!(schema("ALTER TABLE r ADD c int DEFAULT 5").is_some());
    assert!(schema("SELECT * INTO n FROM r").is_some());
    assert!(schema("SELECT a1 INTO n FROM r UNION SELECT 1 EXCEPT SELECT 2").is_some());
    let refused = [
        "ALTER TABLE r ADD c float DEFAULT random()",
        "ALTER TABLE r ADD c timestamptz DEFAULT now()",
        "ALTER TABLE r ADD c date DEFAULT CURRENT_DATE",
        "ALTER TABLE r ADD c serial",
        "ALTER TABLE r ADD c int GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE r ALTER a1 TYPE text USING mine()",
        "SELECT * INTO /* a table */ n FROM r",
    ];
    for text in refused {
        assert!(
            matches!(
                analyse_one(text).action,
                StatementAction::Refused(_)
                    | StatementAction::MayFill(..)
                    | StatementAction::MayDiffer(..)
            ),
            "{text}"
        );
    }
    for text in [
        "CREATE TEMP TABLE n (a int)",
        "CREATE TEMP TABLE n AS SELECT 1",
        "SELECT 1 INTO TEMP n",
        "SELECT 1 INTO TEMP n UNION ALL SELECT 2",
    ] {
        assert!(
            matches!(analyse_one(text).action, StatementAction::Pin(_)),
            "{text}"
        );
    }
}

#[test]
fn texts_of_many_statements_are_cut() {
    let analyser = Analyser::new(catalogue());
    let analysis = analyser.analyse("BEGIN; CREATE TABLE é (a int) ; COMMIT", &[]);
    let actions: Vec<&StatementAction> =
        analysis.iter().map(|statement| &statement.action).collect();
    assert_eq!(
        actions,
        [
            &StatementAction::Transaction(TransactionCommand::Begin),
            &StatementAction::Schema("CREATE TABLE é (a int)".into()),
            &StatementAction::Transaction(TransactionCommand::Commit),
        ]
    );
    assert!(analyser.analyse("", &[]).is_empty());
}

#[test]
fn new_catalogue_clears_earlier_analyses() {
    let analyser = Analyser::new(catalogue());
    let path = ["public".to_owned()];
    assert_eq!(
        analyser.analyse("SELECT a1 FROM r", &path)[0].action,
        StatementAction::Read
    );
    analyser.replace(Catalogue::default());
    assert_eq!(
        analyser.analyse("SELECT a1 FROM r", &path)[0].action,
        StatementAction::Unproven("a table is not known")
    );
}

#[test]
fn search_path_settings() {
    assert_eq!(
        search_path("\"$user\", public, \"A\"\"b\"", "ann"),
        ["ann", "public", "A\"b"]
    );
    let long = "a".repeat(70);
    for (setting, path) in [
        ("", vec![]),
        ("\"\"", vec![""]),
        ("\"a,b\" , C", vec!["a,b", "c"]),
        ("$user,\"\"\"a\"\"\"\"\"", vec!["ann", "\"a\"\""]),
        ("\"a", vec!["a"]),
        (&long, vec![&long[..63]]),
    ] {
        assert_eq!(search_path(setting, "ann"), path, "{setting}");
    }
}

/// A statement that only sets settings touches no table, and is no read for any node.
#[test]
fn settings_that_are_set() {
    for text in [
        "SELECT set_config('search_path', 'x', false)",
        "SELECT pg_catalog.set_config('a.b', $1::text, true) AS a, set_config('jit', 'on', false)",
        "SET search_path = x",
        "RESET ALL",
    ] {
        let statement = analyse_one(text);
        assert_eq!(statement.action, StatementAction::Session, "{text}");
        assert_eq!(statement.sets(&[]), AccessSets::default(), "{text}");
    }
}

/// A schema that follows another in the list may have objects of `pg_catalog`, too.
#[test]
fn catalogue_stands_where_the_path_names_it() {
    let mut catalogue = catalogue();
    let relation = catalogue.relations[&("public".into(), "r".into())].clone();
    let own = Relation {
        table: TableOid(77),
        ..relation
    };
    let name = |schema: &str| (schema.to_owned(), "pg_r".to_owned());
    catalogue.relations.insert(name("pg_catalog"), own.clone());
    let table = TableOid(78);
    catalogue
        .relations
        .insert(name("public"), Relation { table, ..own });
    let found = |path: &[&str]| {
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        catalogue.resolve(None, "pg_r", &path).map(|it| it.table)
    };
    assert_eq!(found(&["public"]), Some(TableOid(77)));
    assert_eq!(found(&["public", "pg_catalog"]), Some(TableOid(78)));
    assert!(catalogue.has_schema("public"));
    assert!(!catalogue.has_schema("publi"));
}

#[test]
fn deep_statement_does_not_exhaust_the_stack() {
    let sum = format!("SELECT 1{}", "+1".repeat(50_000));
    let nested = format!("SELECT {}1{}", "(SELECT ".repeat(2_000), ")".repeat(2_000));
    let negated = format!("SELECT {} true", "NOT ".repeat(50_000));
    for text in [sum, nested, negated] {
        let analyser = Analyser::new(catalogue());
        assert_eq!(analyser.analyse(&text, &[]).len(), 1);
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(SELECT|INSERT INTO r|UPDATE r SET|\\(|\\)|a1|=|,|'|;|FROM|WHERE|7|-|\\$1| |\\PC){0,20}") {
        is_same_with_constants(&Analyser::new(catalogue()), &text);
    }
}

/// Statements that depend on the time of their transaction, and statements that do not.
#[test]
fn time_of_the_transaction_is_noticed() {
    for (text, expected) in [
        ("SELECT a1 FROM r", false),
        ("SELECT a1, to_char(a2, '9') FROM r", false),
        ("SELECT now()", true),
        (
            "SELECT a1 FROM r WHERE a2 < (SELECT max(a2) FROM r WHERE current_date IS NULL)",
            true,
        ),
        ("SELECT age(a2) FROM r", true),
        ("SELECT a1 FROM r WHERE a2 > ' Yesterday '", true),
        ("SELECT current_user", false),
    ] {
        let statement = analyse_one(text);
        assert_eq!(statement.of_transaction_time, expected, "{text}");
    }
}

/// Values that differ between nodes are read on the primary.
#[test]
fn values_that_differ_between_nodes() {
    for text in [
        "SELECT ctid FROM r",
        "SELECT a1 FROM r WHERE xmin = $1",
        "SELECT x.tableoid FROM r x",
        "SELECT a1 FROM r JOIN s ON r.cmin = b1 ORDER BY s.xmax",
        "SELECT count(cmax) FROM r",
        "SELECT (SELECT max(ctid) FROM s) FROM r",
        "SELECT * FROM places",
        "SELECT a4 FROM named",
        "SELECT * FROM aged",
        "SELECT r FROM r",
        "SELECT x FROM public.r AS x ORDER BY x",
        "SELECT coalesce(r.*) FROM r",
        "SELECT r.pg_typeof FROM r",
        "SELECT array_agg(x.*) FROM r AS x",
        "SELECT CASE WHEN a1 = 1 THEN r END FROM r",
        "SELECT (SELECT r) FROM r",
        "SELECT r FROM r WHERE EXISTS (SELECT r FROM of_r)",
        "SELECT (r).xmin FROM r",
        "SELECT a1 FROM r JOIN s USING (ctid)",
        "SELECT x.* FROM (SELECT ctid FROM r) x",
        "WITH x AS (SELECT tableoid AS t FROM r) SELECT count(*) FROM x GROUP BY t",
        "SELECT sum(a1) OVER (PARTITION BY xmin) FROM r",
        "SELECT 't'::regclass, $1::oid, pg_catalog.pg_relation_filenode('r')",
        "SELECT '(0,1)'::tid",
        "SELECT to_tsvector('16384', 'a')",
        "SELECT to_tsvector(16384, 'a')",
        "SELECT to_tsquery($1, 'a')",
    ] {
        let action = analyse_one(text).action;
        assert!(
            matches!(action, StatementAction::Primary(_)),
            "{text}: {action:?}"
        );
    }
    for text in [
        "SELECT ctid(r) FROM r",
        "SELECT tableoid::regclass FROM r",
        "SELECT pg_partition_root('r')",
        "SELECT pg_relation_size('r')",
        "SELECT pg_column_size(a1) FROM r",
    ] {
        let action = analyse_one(text).action;
        assert!(
            !matches!(action, StatementAction::Read),
            "{text}: {action:?}"
        );
    }
    for text in [
        "SELECT r.* FROM r",
        "SELECT count(r), to_jsonb(r), row_to_json(x) FROM r, (SELECT a1 FROM r) x",
        "SELECT a1 AS r FROM r",
        "SELECT r::text, ROW(r.*), r IS NULL FROM r",
        "SELECT of_r FROM of_r",
        "SELECT a1 FROM named",
        "SELECT to_tsvector('english', 'a') @@ to_tsquery('a')",
    ] {
        assert_eq!(analyse_one(text).action, StatementAction::Read, "{text}");
    }
}
