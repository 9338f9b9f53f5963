//! Counters of reads that servers answer in place of lost ones.

use std::collections::BTreeSet;

use client::Client;
use protocol::identity::{CoreId, ServerId};

/// Returns the first cores of the servers that are not lost.
pub fn living(client: &Client, dead: &BTreeSet<ServerId>) -> Vec<CoreId> {
    let configuration = client.configuration();
    let servers = configuration.servers.iter().map(|server| server.id);
    let living = servers.filter(|server| !dead.contains(server));
    living.map(|server| CoreId { server, core: 0 }).collect()
}

/// Returns the redirected reads that the living cores have been asked, and the rows that they have
/// looked at for them.
pub async fn redirected(client: &Client, dead: &BTreeSet<ServerId>) -> [u64; 2] {
    let mut sums = [0; 2];
    for core in living(client, dead) {
        let counters = client.status(core).await.unwrap();
        let names = ["reads_redirected", "redirected_rows_looked_at"];
        for (sum, wanted) in sums.iter_mut().zip(names) {
            let own = counters.iter().find(|(name, _)| name == wanted);
            *sum += own.unwrap().1;
        }
    }
    sums
}
