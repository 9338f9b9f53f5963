//! An index comes to a full table: the partitions that were there give their rows entries in its
//! order, while rows are written, and a server that is lost then costs lookups by the index no scan
//! .

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Client, ConnectOptions, IfExists};
use placement::{Durability, Value};
use protocol::configuration::routes;
use protocol::configuration::{Configuration, PartitionState, ServerState};
use protocol::identity::CoreId;

use crate::support;
use crate::support::rows::{fill, insert_until, with_index};

const ROWS: i64 = 4_000;
const WRITERS: i64 = 32;
/// Different notes among the rows that are there at first.
const NOTES: i64 = 100;
/// Copies before the index comes.
const COPIES: u64 = 3;

#[tokio::test]
async fn lookups_by_an_index_that_came_late_need_no_scan_when_a_server_is_lost() {
    let mut cluster = support::cluster(4).await;
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    let client = Client::connect(options).await.unwrap();
    let schema = support::people(1, Durability::Replicated);
    let wanted = with_index(&schema, "by_note");
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    fill(&table, 0..ROWS, WRITERS, person).await;
    let over = Arc::new(AtomicBool::new(false));
    let writer = insert_until(table.clone(), ROWS, person, Arc::clone(&over));
    let writer = tokio::spawn(writer);
    client.add_copy(wanted, &|_| {}).await.unwrap();
    let made = wait_until_made(&client).await;
    assert!(made >= COPIES * ROWS as u64, "{made} entries were made");
    over.store(true, Ordering::Relaxed);
    let written = writer.await.unwrap();
    assert!(written > 0, "writes stood still");

    let table = client.table("people").await.unwrap();
    let definition = table.definition();
    let replex = routes::replex_of_index(definition, Some(definition.schema.indexes.len() - 1));
    let replex = replex.unwrap();
    let lost = definition.placement[usize::from(replex)][0].core.server;
    cluster.kill(lost.0 as usize - 1).await.unwrap();
    let is_down = |it: &Configuration| it.server(lost).unwrap().state == ServerState::Down;
    let known = cluster.wait_until("it is known", is_down).await.unwrap();
    while client.refresh().await.unwrap().epoch < known.epoch {}
    let mut redirected = 0;
    for number in 0..NOTES {
        let before = sums(&client).await;
        let found = table.lookup("by_note", &[note(number)]).unwrap();
        let found = found.await.unwrap();
        let after = sums(&client).await;
        let rows = ROWS / NOTES + written / NOTES + i64::from(number < written % NOTES);
        assert_eq!(found.len() as i64, rows, "rows with note {number}");
        redirected += after.reads_redirected - before.reads_redirected;
        let looked_at = after.rows_looked_at - before.rows_looked_at;
        // The reads of a cover can have to be repeated once, to be of one moment.
        assert!(
            looked_at <= 2 * rows as u64,
            "{looked_at} rows looked at for {rows}"
        );
    }
    assert!(redirected > 0, "no lookup met what was lost");
}

fn note(number: i64) -> Value {
    Value::Text(format!("note {}", number % NOTES))
}

fn person(id: i64) -> Vec<Value> {
    let city = Value::Text(format!("city {id}"));
    vec![Value::Int64(id), city, Value::Int64(id), note(id)]
}

/// Counters, summed over the servers that are up.
#[derive(Default)]
struct Sums {
    entries_made: u64,
    orders_unmade: u64,
    reads_redirected: u64,
    rows_looked_at: u64,
    /// The least.
    epoch: u64,
}

async fn sums(client: &Client) -> Sums {
    let configuration = client.configuration();
    let mut sums = Sums {
        epoch: u64::MAX,
        ..Sums::default()
    };
    for server in &configuration.servers {
        if server.state == ServerState::Down {
            continue;
        }
        let core = CoreId {
            server: server.id,
            core: 0,
        };
        for (name, count) in client.status(core).await.unwrap() {
            match &name[..] {
                "local_entries_made" => sums.entries_made += count,
                "orders_unmade" => sums.orders_unmade += count,
                "reads_redirected" => sums.reads_redirected += count,
                "redirected_rows_looked_at" => sums.rows_looked_at += count,
                "epoch" => sums.epoch = sums.epoch.min(count),
                _ => {}
            }
        }
    }
    sums
}

/// Waits until all rows have their entries; how many were made.
async fn wait_until_made(client: &Client) -> u64 {
    let is_whole = |configuration: &Configuration| {
        let mut places = configuration.places();
        places.all(|(_, place)| place.state == PartitionState::Serving)
    };
    loop {
        let configuration = client.refresh().await.unwrap();
        let sums = sums(client).await;
        let is_known = sums.epoch >= configuration.epoch.0;
        if is_whole(&configuration) && is_known && sums.orders_unmade == 0 {
            return sums.entries_made;
        }
        tokio::task::yield_now().await;
    }
}
