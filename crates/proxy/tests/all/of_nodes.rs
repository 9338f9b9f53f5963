//! Values that each node has of its own are read on the primary: system columns, numbers of the
//! catalogue.

use replication::catalogue;

use crate::support::cluster::{Cluster, text};
use crate::support::raw::Raw;
use crate::support::{connect, is_there};

/// The number of a type on PostgreSQL: a `regclass` is declared with it.
const REGCLASS: u32 = 2205;

/// A table whose number and whose rows' places differ on a replica.
const TABLES: &str = "
    BEGIN; CREATE TABLE before (id int PRIMARY KEY); DROP TABLE before;
    CREATE TABLE t (id int PRIMARY KEY, v text);
    CREATE TABLE r (id int PRIMARY KEY, named regclass);
    CREATE TABLE u (id int PRIMARY KEY, v text); INSERT INTO u VALUES (1, 'of u');
    CREATE ROLE unused; DROP ROLE unused; CREATE ROLE ann;
    CREATE TYPE gone AS ENUM ('a'); DROP TYPE gone; CREATE TYPE mood AS ENUM ('a', 'b');
    CREATE VIEW places AS SELECT ctid AS place, id FROM t;
    CREATE FUNCTION named(int) RETURNS int LANGUAGE sql IMMUTABLE RETURN 1;
    CREATE FUNCTION number(int) RETURNS oid LANGUAGE sql STABLE AS 'SELECT tableoid FROM t WHERE id = $1';
    CREATE FUNCTION place(asked int) RETURNS tid LANGUAGE plpgsql STABLE AS
        'BEGIN RETURN (SELECT ctid FROM t WHERE id = asked); END';
    CREATE FUNCTION name_of(int) RETURNS oid LANGUAGE sql IMMUTABLE AS 'SELECT ''t''::regclass::oid';
    COMMIT;
    BEGIN; INSERT INTO t VALUES (8, 'gone'), (9, 'gone'); ROLLBACK;
    INSERT INTO t SELECT n, 'old' FROM generate_series(1, 5) n; INSERT INTO r VALUES (1, 't')";

/// Statements about values that each node has of its own.
const OF_NODES: &[&str] = &[
    PLACES,
    "SELECT xmin FROM t WHERE id = 4",
    "SELECT t.xmax FROM t WHERE id = 4",
    "SELECT cmin::text || cmax::text FROM public.t WHERE id = 4",
    "SELECT tableoid FROM t WHERE id = 4",
    "SELECT t.tableoid::regclass FROM t WHERE id = 4",
    "SELECT (t).ctid FROM t WHERE id = 4",
    "SELECT ctid(t) FROM t WHERE id = 4",
    "SELECT \"ctid\" FROM t x WHERE id = 4",
    "SELECT id FROM t WHERE ctid = '(0,3)'",
    "SELECT max(t.ctid) FROM t",
    "SELECT count(*) FROM t WHERE ctid IN (SELECT ctid FROM t WHERE ctid < '(0,5)')",
    "WITH x AS (SELECT ctid AS place FROM t) SELECT max(place) FROM x",
    "SELECT id FROM (SELECT id, rank() OVER (ORDER BY ctid DESC) AS r FROM t) x WHERE r = 1",
    "SELECT count(*) FROM t JOIN t y ON t.ctid = y.ctid WHERE y.ctid > '(0,5)'",
    "SELECT min(place) FROM places",
    "SELECT min(place::text) FROM (SELECT place FROM places) x",
    "SELECT age(xmin) < 0 FROM t WHERE id = 1",
    "SELECT row_to_json(x) FROM (SELECT ctid, id FROM t WHERE id = 2) x",
    "SELECT named::oid FROM r WHERE id = 1",
    "SELECT max(named) FROM r",
    "SELECT array_agg(named::oid) FROM r",
    "SELECT count(*) FROM r WHERE named = (SELECT min(named) FROM r)",
    "SELECT 't'::regclass::oid",
    "SELECT CAST('t' AS regclass)::int8",
    "SELECT regclass 't'::oid",
    "SELECT to_regclass('t')::oid",
    "SELECT 'mood'::regtype::oid",
    "SELECT 'named(int)'::regprocedure::oid",
    "SELECT pg_typeof(t)::oid FROM t LIMIT 1",
    "SELECT t.pg_typeof::oid FROM t LIMIT 1",
    "SELECT pg_get_viewdef(oid) FROM pg_class WHERE relname = 'places'",
    "SELECT coalesce(pg_partition_root('t')::text, 'none')",
    "SELECT pg_relation_filenode('t')",
    "SELECT pg_relation_filepath('t')",
    "SELECT pg_walfile_name('1/0')",
    "SELECT system_identifier FROM pg_control_system()",
    "SELECT current_setting('data_directory')",
    "SELECT setting FROM pg_settings WHERE name = 'data_directory'",
    "SELECT pg_is_in_recovery()",
    "SELECT pg_postmaster_start_time()",
    "SELECT oid FROM pg_class WHERE relname = 't'",
    "SELECT attrelid FROM pg_attribute WHERE attname = 'named'",
    "SELECT relid FROM pg_stat_user_tables WHERE relname = 't'",
    "SELECT dtd_identifier, udt_name FROM information_schema.columns WHERE column_name = 'named'",
    "SELECT number(4)",
    "SELECT place(3)",
    "SELECT name_of(4)",
    "SELECT oid FROM pg_roles WHERE rolname = 'ann'",
];

const PLACES: &str = "SELECT ctid::text FROM t ORDER BY id";

/// Every statement has the answer that the primary gives, from a replica that differs in all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn properties_of_one_server_are_read_on_the_primary() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(TABLES).await;
    cluster.settle().await;
    let replica = connect(cluster.replicas[0].socket()).await;
    let client = cluster.front.connect().await;
    let [mut straight, mut through] = [
        Raw::log_in(cluster.primary.socket()).await,
        Raw::log_in(cluster.front.address).await,
    ];
    let here = connect(cluster.primary.socket()).await;
    assert_ne!(
        text(&here, PLACES).await,
        text(&replica, PLACES).await,
        "the test needs nodes that differ"
    );
    for asked in OF_NODES {
        let mut replies = Vec::new();
        for raw in [&mut straight, &mut through] {
            let mut message = vec![raw.query(asked).reply().await];
            raw.parse("", asked).bind("").execute(0).sync();
            message.push(raw.reply().await);
            for inside in ["BEGIN", "SELECT v FROM t WHERE id = 1", asked, "COMMIT"] {
                message.push(raw.query(inside).reply().await);
            }
            let cursor = format!("DECLARE c CURSOR FOR {asked}");
            for inside in ["BEGIN", &cursor, "FETCH ALL FROM c", "COMMIT"] {
                message.push(raw.query(inside).reply().await);
            }
            replies.push(message);
        }
        assert_eq!(replies[1], replies[0], "{asked}");
        let works = replies[0].iter().all(|message| !message.contains('['));
        assert!(works, "{asked}: {replies:?}");
    }
    // A place that was read is the row's where it is written.
    let place = text(&client, "SELECT ctid FROM t WHERE id = 3").await;
    let update = format!("UPDATE t SET v = 'new' WHERE ctid = '{place}' RETURNING id");
    assert_eq!(text(&client, &update).await, "3");
    // Equal values are read at the replica.
    cluster.settle().await;
    let served = cluster.served();
    for asked in [
        "SELECT v FROM t WHERE id = 1",
        "SELECT count(t), count(x.*) FROM t, u x",
        "SELECT row_to_json(x.*) FROM u x WHERE x IS NOT NULL",
        "SELECT u::text FROM u",
        "SELECT ROW(u.*) FROM u",
    ] {
        assert_eq!(
            text(&client, asked).await,
            text(&here, asked).await,
            "{asked}"
        );
    }
    assert_eq!(cluster.served() - served, 5);
}

/// A parameter whose type is a number of the catalogue names the primary's object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_that_are_numbers_of_the_catalogue() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(TABLES).await;
    cluster.settle().await;
    let straight = connect(cluster.primary.socket()).await;
    let number = text(&straight, "SELECT 't'::regclass::oid").await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    let types = [&1_u16.to_be_bytes()[..], &REGCLASS.to_be_bytes()].concat();
    raw.say(b'P', &[b"\0SELECT $1::text\0", &types]);
    let length = u32::try_from(number.len()).unwrap().to_be_bytes();
    let value = [&length[..], number.as_bytes()].concat();
    raw.say(b'B', &[b"\0\0\0\0\0\x01", &value, b"\0\0"]);
    raw.execute(0).sync();
    assert_eq!(raw.reply().await, "12't'CZI");
}

/// The descriptions of parameters and columns that a client gets, as bytes: of a statement that is
/// described in a batch of its own, of a portal, and of a simple query.
async fn descriptions(raw: &mut Raw, text: &str, types: &[u32]) -> Vec<(u8, Vec<u8>)> {
    let count = u16::try_from(types.len()).unwrap().to_be_bytes();
    let types: Vec<u8> = types.iter().flat_map(|it| it.to_be_bytes()).collect();
    let mut output = Vec::new();
    let mut keep = async |raw: &mut Raw| {
        raw.sync().flush().await;
        while let Some((tag, body)) = raw.message().await {
            if matches!(tag, b't' | b'T' | b'E' | b'D') {
                let is_error = tag == b'E';
                output.push((tag, if is_error { Vec::new() } else { body }));
            } else if tag == b'Z' {
                break;
            }
        }
    };
    raw.say(
        b'P',
        &[b"described\0", text.as_bytes(), b"\0", &count, &types],
    );
    keep(raw).await;
    raw.say(b'D', &[b"Sdescribed\0"]);
    keep(raw).await;
    if types.is_empty() && !text.contains('$') {
        raw.bind("described").say(b'D', &[b"P\0"]).execute(0);
        keep(raw).await;
    }
    raw.close("described");
    keep(raw).await;
    if !text.contains('$') {
        raw.query(text).flush().await;
        // The Sync that is sent after it has its own answer.
        keep(raw).await;
        raw.until_ready().await;
    }
    output
}

/// Reads whose columns are of tables.
const OF_TABLES: &[&str] = &[
    "SELECT id, v, id + 1 FROM u",
    "SELECT x.v, y.v, y.id FROM u x JOIN u y USING (id)",
    "SELECT u.v, t.v, t.id, 1 FROM u, t WHERE t.id = 1",
    "SELECT id FROM t WHERE id = 2",
    "SELECT uid, us.v, u.v FROM us JOIN u ON id = uid",
    "SELECT v FROM (SELECT v, id FROM u) x WHERE id IN (SELECT id FROM t)",
    "WITH x AS (SELECT id AS i FROM t), y AS (SELECT v FROM u) SELECT i, v FROM x, y ORDER BY 1",
    "SELECT 1",
];

/// Clients get the primary's numbers of types and tables, and may use them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_types_and_tables_are_the_primarys() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(TABLES).await;
    let client = cluster.front.connect().await;
    let more = "CREATE TABLE m (id int PRIMARY KEY, m mood, ms mood[])";
    client.batch_execute(more).await.unwrap();
    let view = "CREATE VIEW us AS SELECT id AS uid, v FROM u";
    client.batch_execute(view).await.unwrap();
    let rows = "INSERT INTO m VALUES (1, 'a', '{a,b}')";
    client.batch_execute(rows).await.unwrap();
    cluster.settle().await;
    let straight = connect(cluster.primary.socket()).await;
    let replica = connect(cluster.replicas[0].socket()).await;
    let (of_u, of_mood) = ("SELECT 'u'::regclass::oid", "SELECT 'mood'::regtype::oid");
    for asked in [of_u, of_mood] {
        assert_ne!(text(&straight, asked).await, text(&replica, asked).await);
    }
    let mood: u32 = text(&straight, of_mood).await.parse().unwrap();
    let at_primary: &[(&str, &[u32])] = &[
        ("SELECT m, ms FROM m WHERE m = $1", &[]),
        ("SELECT m, ms FROM m WHERE m = $1", &[mood]),
        ("SELECT * FROM m", &[]),
        ("SELECT $1", &[mood]),
        ("SELECT id FROM u WHERE $1 IS NULL", &[mood]),
        ("SELECT t FROM t WHERE id = 1", &[]),
        ("SELECT array_agg(u) FROM u", &[]),
        ("SELECT coalesce(u.*) FROM u", &[]),
        ("INSERT INTO m VALUES ($1, $2, $3) RETURNING *", &[]),
        ("SELECT 'a'::mood", &[]),
    ];
    let mut raw = [
        Raw::log_in(cluster.primary.socket()).await,
        Raw::log_in(cluster.front.address).await,
    ];
    for begin in [
        "",
        "BEGIN",
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    ] {
        let served = cluster.served();
        for text in OF_TABLES {
            let mut output = Vec::new();
            for raw in &mut raw {
                if !begin.is_empty() {
                    raw.query(begin);
                    raw.reply().await;
                }
                output.push(descriptions(raw, text, &[]).await);
                if !begin.is_empty() {
                    raw.query("COMMIT");
                    raw.reply().await;
                }
            }
            assert_eq!(output[1], output[0], "{begin} {text}");
            assert!(output[0].iter().all(|(tag, _)| *tag != b'E'), "{text}");
        }
        assert!(cluster.served() > served, "{begin}");
    }
    for (text, types) in at_primary {
        let [straight, through] = &mut raw;
        let output = descriptions(straight, text, types).await;
        assert_eq!(descriptions(through, text, types).await, output, "{text}");
    }
}

/// A statement that is described in a batch of its own is described as it is after the change that
/// was acknowledged before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_tables_are_described() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    for round in 0..10 {
        raw.query(&format!(
            "CREATE TABLE t{round} (id int PRIMARY KEY, v text)"
        ));
        assert_eq!(raw.reply().await, "CZI");
        for text in [
            "INSERT INTO t VALUES ($1, $2) RETURNING *",
            "SELECT * FROM t WHERE id = $1",
        ] {
            let (name, text) = (text.len(), text.replace(" t ", &format!(" t{round} ")));
            let name = format!("{name}_{round}");
            raw.parse(&name, &text).sync();
            assert_eq!(raw.reply().await, "1ZI", "{text}");
            raw.say(b'D', &[b"S", name.as_bytes(), b"\0"]).sync();
            assert_eq!(raw.reply().await, "tTZI", "{text}");
        }
    }
}

/// Of PostgreSQL's functions that are declared immutable, these look at the node, and none is taken
/// for the same everywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_only_say_that_they_are_immutable() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let straight = connect(cluster.primary.socket()).await;
    let catalogue = catalogue::read(&straight).await.unwrap().catalogue;
    for name in [
        "pg_partition_root",
        "satisfies_hash_partition",
        "pg_walfile_name",
        "pg_walfile_name_offset",
        "ts_token_type",
        "ts_parse",
        "ts_lexize",
        "hashenum",
        "pg_visible_in_snapshot",
    ] {
        assert!(!catalogue.immutable_functions.contains(name), "{name}");
    }
    for name in ["abs", "lower", "max", "min", "count", "upper", "md5"] {
        assert!(catalogue.immutable_functions.contains(name), "{name}");
    }
}
