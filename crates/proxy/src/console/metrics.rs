//! Prints the counters of a proxy in Prometheus's text format.

use std::fmt::Write as _;

use super::answer::name;
use crate::serve::{Proxy, pending_age};
use proxy_core::freshness::ReplicaState;

/// Returns all metrics as Prometheus text. They contain no texts of statements and no names of
/// users.
pub fn text(proxy: &Proxy) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let mut line = |metric: &str, labels: &str, value: u64| {
        let _ = writeln!(text, "replex_proxy_{metric}{labels} {value}");
    };
    line("active", "", u64::from(proxy.servers().is_ok()));
    line("clients", "", proxy.visitors().all().len() as u64);
    for ((server, why), batches) in proxy.visitors().routes() {
        let labels = format!("{{server=\"{}\",why=\"{why}\"}}", name(server));
        line("batches_total", &labels, batches);
    }
    for (server, node) in proxy.nodes() {
        let usage = node.usage();
        for (state, count) in [("in_use", usage.in_use), ("idle", usage.idle)] {
            let labels = format!("{{server=\"{}\",state=\"{state}\"}}", name(server));
            line("connections", &labels, count as u64);
        }
    }
    let Some(routing) = proxy.followed() else {
        return text;
    };
    if let Some(buffer) = routing.replicas.replication().buffer() {
        line("buffer_following", "", u64::from(buffer.is_following));
        line("buffer_bytes", "", buffer.length);
    }
    let retained_wal = routing.replicas.replication().retained_wal();
    line("slot_held_bytes", "", retained_wal.held);
    if let Some(safe) = retained_wal.safe {
        line("slot_safe_bytes", "", safe);
    }
    let compared = routing.replicas.replication().compared();
    let mut manager = routing.manager();
    let oldest = manager
        .oldest_pending(pending_age::now())
        .unwrap_or_default();
    line("reads_waiting", "", proxy.reads_waiting() as u64);
    line("commits_pending", "", manager.pending_count() as u64);
    line("oldest_pending_seconds", "", oldest.as_secs());
    line("index_bytes_max", "", manager.index_bytes_max() as u64);
    line("primary_position_bytes", "", manager.latest().0);
    for (id, replica) in manager.replicas() {
        let labels = format!("{{replica=\"{}\"}}", id.0);
        let behind = manager.latest().0.saturating_sub(replica.applied.0);
        let is = |state: ReplicaState| u64::from(replica.state == state);
        for (metric, value) in [
            ("replica_serving", is(ReplicaState::Serving)),
            ("replica_failed", is(ReplicaState::Quarantined)),
            ("replica_behind_bytes", behind),
            ("replica_reads_total", replica.served),
            ("replica_reads_running", replica.running),
            (
                "replica_compared_total",
                compared.get(&id).copied().unwrap_or(0),
            ),
        ] {
            line(metric, &labels, value);
        }
    }
    text
}
