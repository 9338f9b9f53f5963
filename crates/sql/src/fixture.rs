//! Three servers and five tables for tests: flights, a shared log, users, a table with further
//! copies of every kind, and events partitioned by the first columns of their keys.

use placement::{Layout, Schema, TableComments};
use protocol::configuration::{Configuration, Place, PlacedTable, Server, ServerState};
use protocol::identity::{CoreId, Epoch, Incarnation, ServerId, TableId};

use crate::parse::parse;
use crate::statement::Statement;

/// A table of three replexes, with columns of most types.
pub(crate) const FLIGHTS: &str = "
    CREATE TABLE flights (
        id bigint PRIMARY KEY,
        tailnum text,
        origin text NOT NULL,
        dest text NOT NULL,
        dep_delay double precision,
        scheduled timestamp,
        cancelled boolean NOT NULL DEFAULT false,
        note text DEFAULT 'none',
        INDEX by_tail (tailnum),
        INDEX by_route (origin, dest)
    ) WITH (partitions = 12, failures_tolerated = 2, durability = 'sync');";

/// A shared log: a dense index numbers its entries without gaps.
pub(crate) const LOG: &str = "
    CREATE TABLE log (id uuid PRIMARY KEY, position bigint NOT NULL, entry bytea,
        INDEX by_position (position) WITH (constraint = 'dense'));";

/// A table with a primary key of two columns and a unique index.
pub(crate) const USERS: &str = "
    CREATE TABLE users (region text, number bigint, email text UNIQUE, n bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (region, number)) WITH (partitions = 4);";

/// Like [`USERS`], but with further copies of every kind instead of the unique index.
pub(crate) const GRIDS: &str = "
    CREATE TABLE grids (region text, number bigint, email text, n bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (region, number), INDEX by_email (email),
        INDEX h USING hybrid (grids, by_email) WITH (divisions = '3,4'),
        INDEX k USING hybrids_between (by_email, grids) WITH (factors = '3,2,2'),
        INDEX r USING replica (by_email),
        INDEX s USING hyperspace (n, email, region) WITH (divisions = '2,3,2'),
        INDEX wide USING hyperspace (n, number) WITH (divisions = '4,4'))
        WITH (partitions = 12);";

/// A table that is partitioned by the first columns of its keys.
pub(crate) const EVENTS: &str = "
    CREATE TABLE events (tenant bigint, at timestamp, kind text NOT NULL, PRIMARY KEY (tenant, at),
        INDEX by_kind (kind, tenant, at) WITH (partition_by = 'kind'),
        UNIQUE INDEX once (tenant, kind) WITH (partition_by = 'tenant'))
        WITH (partitions = 12, partition_by = 'tenant');";

/// Returns the schema of a `CREATE TABLE` statement.
pub(crate) fn schema(sql: &str) -> Schema {
    let mut statements = parse(sql).expect("the text is SQL");
    match statements.remove(0).statement {
        Statement::CreateTable { schema, .. } => *schema,
        other => panic!("{other:?} creates no table"),
    }
}

/// Adds a table, with its replexes on servers 1 to 3 in turn, and returns its id. The id is the
/// number of the configuration's new epoch, so all ids differ.
pub(crate) fn add_table(configuration: &mut Configuration, schema: Schema) -> TableId {
    let layout = Layout::base(&schema);
    let placement = (0..layout.replexes.len()).map(|replex| {
        let places = (0..layout.partition_count(replex)).map(|_| {
            Place::serving(
                CoreId {
                    server: ServerId(replex as u32 % 3 + 1),
                    core: 0,
                },
                Epoch(1),
            )
        });
        places.collect()
    });
    configuration.epoch = Epoch(configuration.epoch.0 + 1);
    let id = TableId(configuration.epoch.0 as u32);
    configuration.tables.put(PlacedTable {
        id,
        epoch: configuration.epoch,
        sealing: None,
        columns_since: Epoch(0),
        placement: placement.collect(),
        layout,
        schema,
        building: Vec::new(),
        comments: TableComments::default(),
    });
    id
}

/// Returns a configuration with three servers and no tables.
pub(crate) fn servers() -> Configuration {
    let server = |id: u32| Server {
        id: ServerId(id),
        incarnation: Incarnation(1),
        domain: format!("rack{id}"),
        cores: vec![format!("127.0.0.1:470{id}")],
        state: ServerState::Up,
        is_draining: false,
        is_new: false,
    };
    Configuration {
        cluster: 7,
        epoch: Epoch(1),
        servers: (1..=3).map(server).collect(),
        tables: Default::default(),
        roles: Default::default(),
    }
}

/// Returns a configuration with three servers and all tables of this file.
pub(crate) fn configuration() -> Configuration {
    let mut configuration = servers();
    for sql in [FLIGHTS, LOG, USERS, GRIDS, EVENTS] {
        add_table(&mut configuration, schema(sql));
    }
    configuration
}
