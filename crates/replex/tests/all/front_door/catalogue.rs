//! psql's commands about objects print the same at the store and at a real PostgreSQL that has the
//! same tables.

use super::{Started, postgres, psql};

/// Tables with all kinds of constraints, indexes and defaults that both have.
const TABLES: &[&str] = &[
    "CREATE TABLE airlines (carrier varchar(2) PRIMARY KEY, name text NOT NULL)",
    "CREATE TABLE planes (tailnum varchar(6) PRIMARY KEY, year smallint, model text DEFAULT 'none', \
     seats integer NOT NULL DEFAULT 1, speed real, bought date DEFAULT CURRENT_DATE, \
     CONSTRAINT planes_seats_check CHECK (seats > 0))",
    "CREATE TABLE flights (id bigint PRIMARY KEY, carrier varchar(2) NOT NULL, dep timestamp, \
     arr timestamptz DEFAULT now(), delay double precision, \
     cancelled boolean NOT NULL DEFAULT false, code char(3), payload bytea, \
     token uuid DEFAULT gen_random_uuid())",
    "CREATE TABLE seats (flight bigint NOT NULL, seat text NOT NULL, price bigint, \
     PRIMARY KEY (flight, seat))",
    "CREATE INDEX flights_route_idx ON flights (carrier, dep DESC)",
    "CREATE UNIQUE INDEX planes_model_idx ON planes (model, year)",
];

/// The commands. Sizes, databases, extensions and collations differ, and are left out.
const COMMANDS: &[&str] = &[
    "\\d",
    "\\d airlines",
    "\\d planes",
    "\\d+ planes",
    "\\d flights",
    "\\d seats",
    "\\d flights_route_idx",
    "\\d nothing",
    "\\dt",
    "\\dt air*",
    "\\di",
    "\\dn",
    "\\dn+",
    "\\du",
    "\\df",
    "\\dT",
    "\\dv",
    "\\ds",
    "\\dp",
    "\\db",
    "\\dD",
    "\\dd",
    "\\ddp",
    "\\dO",
    "\\dy",
    "\\des",
    "\\dRp",
];

#[tokio::test]
async fn psql_prints_what_postgres_prints() {
    let Some(postgres) = postgres() else {
        return;
    };
    let started = Started::new().await;
    let theirs = postgres.socket();
    let ours = started.sql();
    for table in TABLES {
        for address in [ours, theirs] {
            let (stdout, stderr) = psql(address, &[table]);
            assert!(stdout.contains("CREATE"), "{table}: {stderr}");
        }
    }
    for command in COMMANDS {
        assert_eq!(
            psql(ours, &[command]),
            psql(theirs, &[command]),
            "{command}"
        );
    }
}
