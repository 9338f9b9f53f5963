//! Coordinators whose state is in a real etcd: whichever of them, or of etcd's members, is killed,
//! stopped or full, nothing that was acknowledged is lost, and reads and writes go on (R15).

use std::collections::BTreeSet;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use client::{Client, ConnectOptions, Error, IfExists, Retry, SchemaBuilder, Table};
use placement::Schema;
use placement::{ColumnType, Value};
use protocol::configuration::{Configuration, Server, ServerState};
use protocol::frame;
use protocol::identity::{Incarnation, ServerId};
use protocol::message::{Leadership, Message};
use protocol::operation::RequestResult;
use protocol::state::{CoordinatorState, FolderTrust, ServerMember, encode_state};
use replex::cluster::{Cluster, ClusterOptions};
use replex::inspect::{Inspector, are_equal};
use replex::wire::FrameConnection;
use rustix::process::Signal;
use server::{CoordinatorOptions, CoordinatorProcess};
use tokio::task::JoinHandle;

use crate::support;
use crate::support::etcd::{self, Etcd};
use crate::support::rows::number;

/// Writes that must be acknowledged before the next thing goes wrong.
const STEPS: i64 = 200;
/// A write must be acknowledged within this, also while coordinators or etcd are offline.
const PROGRESS_WITHIN: Duration = Duration::from_secs(60);
const WRITERS: i64 = 4;

async fn cluster(etcd: &Etcd, coordinators: usize, servers: usize) -> Cluster {
    let options = ClusterOptions {
        coordinators,
        etcd: etcd.urls(),
        ..support::options(servers)
    };
    Cluster::start(options).await.unwrap()
}

fn schema(name: &str, failures: u8) -> Schema {
    SchemaBuilder::new(name)
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .primary_key(&["id"])
        .index("by_n", &["n"])
        .partitions(3)
        .failures_tolerated(failures)
        .build()
        .unwrap()
}

async fn connect(cluster: &Cluster) -> Client {
    let options = ConnectOptions::new(cluster.coordinator_addresses().to_vec());
    let options = options.deadline(PROGRESS_WITHIN);
    Client::connect(options).await.unwrap()
}

/// Writers that insert and read back, and their acknowledged rows.
struct Load {
    table: Table,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicI64>,
    writers: Vec<JoinHandle<(Vec<i64>, Vec<i64>)>>,
}

impl Load {
    async fn start(cluster: &Cluster) -> Load {
        let client = connect(cluster).await;
        let schema = schema("load", 1);
        let table = client.create_table(schema, IfExists::Fail).await.unwrap();
        let mut load = Load {
            table,
            stop: Arc::default(),
            acknowledged: Arc::default(),
            writers: Vec::new(),
        };
        for writer in 0..WRITERS {
            let (table, stop) = (load.table.clone(), Arc::clone(&load.stop));
            let acknowledged = Arc::clone(&load.acknowledged);
            load.writers.push(tokio::spawn(async move {
                write(&table, writer, &stop, &acknowledged).await
            }));
        }
        load
    }

    /// Waits until writes and reads have gone on.
    async fn progress(&self) {
        let (from, since) = (self.acknowledged.load(Ordering::SeqCst), Instant::now());
        while self.acknowledged.load(Ordering::SeqCst) < from + STEPS {
            assert!(
                since.elapsed() < PROGRESS_WITHIN,
                "no write is acknowledged"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Every acknowledged row is there, in every copy, and none that was never written.
    async fn check(self, cluster: &Cluster) {
        self.stop.store(true, Ordering::SeqCst);
        let (mut certain, mut maybe) = (Vec::new(), Vec::new());
        for writer in self.writers {
            let (done, unknown) = writer.await.unwrap();
            certain.extend(done);
            maybe.extend(unknown);
        }
        println!("{} acknowledged, {} unknown", certain.len(), maybe.len());
        let rows = self.table.scan().rows().unwrap().all().await.unwrap();
        let mut found: Vec<i64> = rows.iter().map(|row| number(&row.values[0])).collect();
        found.sort_unstable();
        for id in &certain {
            assert!(found.binary_search(id).is_ok(), "row {id} is lost");
        }
        let known: BTreeSet<i64> = certain.into_iter().chain(maybe).collect();
        let is_known = |id: &i64| known.contains(id);
        assert!(
            found.iter().all(is_known),
            "a row is there that no client wrote"
        );
        let within = Duration::from_secs(60);
        let inspector = Inspector::new(cluster.coordinator_addresses(), within).await;
        let copies = inspector.unwrap().sums("load").await.unwrap();
        assert!(are_equal(&copies), "{copies:#?}");
    }
}

/// Ids that are there for certain, and ids that may be.
async fn write(
    table: &Table,
    writer: i64,
    stop: &AtomicBool,
    acknowledged: &AtomicI64,
) -> (Vec<i64>, Vec<i64>) {
    let (mut certain, mut maybe) = (Vec::new(), Vec::new());
    for step in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let id = step * WRITERS + writer;
        match table.insert(&[Value::Int64(id), Value::Int64(step)]).await {
            Ok(RequestResult::Applied { .. }) => certain.push(id),
            Ok(other) => panic!("{other:?}"),
            Err(Error::Unknown { .. }) => maybe.push(id),
            Err(error) => {
                assert_eq!(error.retry(), Retry::Later, "{error}");
                continue;
            }
        }
        let rows = table.lookup("by_n", &[Value::Int64(step)]).unwrap().await;
        let found = |row: &client::Row| number(&row.values[0]) == id;
        if let (Some(last), Ok(rows)) = (certain.last(), rows) {
            assert!(
                *last != id || rows.iter().any(found),
                "row {id} is not read"
            );
        }
        acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    (certain, maybe)
}

/// The configuration, of the coordinator that leads.
async fn configuration(cluster: &mut Cluster) -> Configuration {
    let leader = cluster.leader().await.unwrap();
    let address = &cluster.coordinator_addresses()[leader];
    replex::inspect::fetch(address).await.unwrap()
}

#[tokio::test]
async fn leaders_and_members_of_etcd_die_in_turn_under_load() {
    if !etcd::is_there() {
        return;
    }
    let mut etcd = Etcd::start(3, None).await;
    let mut cluster = cluster(&etcd, 3, 3).await;
    let load = Load::start(&cluster).await;
    let client = connect(&cluster).await;
    for round in 0..3 {
        load.progress().await;
        let before = configuration(&mut cluster).await.epoch;
        let leader = cluster.leader().await.unwrap();
        cluster.kill_coordinator(leader).await.unwrap();
        // While no coordinator leads, none of this needs a leader.
        load.progress().await;
        etcd.kill(round);
        load.progress().await;
        // The new leader begins with the state that its predecessor has sent.
        let now = configuration(&mut cluster).await;
        assert!(now.epoch >= before, "{:?} after {before:?}", now.epoch);
        let table = schema(&format!("made_in_round_{round}"), 1);
        client.create_table(table, IfExists::Fail).await.unwrap();
        etcd.restart(round).await;
        cluster.start_coordinator(leader).await.unwrap();
        load.progress().await;
    }
    let tables = configuration(&mut cluster).await.tables;
    let names: Vec<&str> = tables.iter().map(|it| it.schema.name.as_str()).collect();
    let expected = [
        "load",
        "made_in_round_0",
        "made_in_round_1",
        "made_in_round_2",
    ];
    assert_eq!(names, expected);
    load.check(&cluster).await;
}

#[tokio::test]
async fn deposed_leader_changes_and_answers_nothing() {
    if !etcd::is_there() {
        return;
    }
    let etcd = Etcd::start(1, None).await;
    let mut cluster = cluster(&etcd, 2, 3).await;
    let load = Load::start(&cluster).await;
    load.progress().await;
    let old = cluster.leader().await.unwrap();
    let old_address = cluster.coordinator_addresses()[old].clone();
    // This connection is greeted, and the question waits in the old leader's socket.
    let (mut asker, _) = FrameConnection::greet(&old_address).await.unwrap();
    cluster.coordinator(old).signal(Signal::STOP).unwrap();
    let request = support::create_request(schema("asked_of_the_old", 1));
    let mut question = Vec::new();
    frame::encode(7, &Message::Ask(request), &mut question);
    asker.send(&question).await.unwrap();
    let new = cluster.leader().await.unwrap();
    assert_ne!(new, old, "the one that stands still leads");
    load.progress().await;
    let client = connect(&cluster).await;
    let table = schema("asked_of_the_new", 1);
    client.create_table(table, IfExists::Fail).await.unwrap();
    let before = state_in(&etcd);
    cluster.coordinator(old).signal(Signal::CONT).unwrap();
    let answer = asker.receive().await.unwrap().message;
    assert!(
        matches!(&answer, Message::Leadership(it) if !it.leads),
        "{answer:?}"
    );
    let leadership = until_it_follows(&old_address).await;
    let new_address = &cluster.coordinator_addresses()[new];
    assert_eq!(leadership.leader.as_ref(), Some(new_address));
    assert_eq!(state_in(&etcd), before, "the old leader wrote");
    let tables = configuration(&mut cluster).await.tables;
    let names: Vec<&str> = tables.iter().map(|it| it.schema.name.as_str()).collect();
    assert_eq!(names, ["load", "asked_of_the_new"]);
    load.progress().await;
    load.check(&cluster).await;
}

/// Everything that etcd holds of the state, in its own words.
fn state_in(etcd: &Etcd) -> serde_json::Value {
    // From `/replex/state` to `/replex/state0`.
    let range = serde_json::json!({
        "key": "L3JlcGxleC9zdGF0ZQ==", "range_end": "L3JlcGxleC9zdGF0ZTA="
    });
    let found = etcd.call("/v3/kv/range", &range)["kvs"].clone();
    assert!(found.is_array(), "there is a state");
    found
}

async fn until_it_follows(address: &str) -> Leadership {
    let since = Instant::now();
    loop {
        let leadership = FrameConnection::open(address)
            .await
            .unwrap()
            .find_leader()
            .await;
        let leadership = leadership.unwrap();
        if !leadership.leads && leadership.leader.as_deref().is_some_and(|it| it != address) {
            return leadership;
        }
        assert!(
            since.elapsed() < PROGRESS_WITHIN,
            "it stands alone: {leadership:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn etcd_offline_or_full_stops_only_changes_of_the_cluster() {
    if !etcd::is_there() {
        return;
    }
    let mut etcd = Etcd::start(1, Some(16 << 20)).await;
    // Offline at the start: the coordinator waits for it, and answers that no coordinator leads.
    etcd.kill(0);
    let mut cluster = cluster(&etcd, 1, 0).await;
    let address = cluster.coordinator_address().to_owned();
    let at = ["admin", "coordinator", "show", "-C", &address];
    let shown = support::run(&at);
    assert_eq!(shown.status.code(), Some(1));
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("No coordinator leads"), "{text}");
    etcd.restart(0).await;
    cluster.leader().await.unwrap();
    for _ in 0..3 {
        cluster.add_server().await.unwrap();
    }
    cluster.wait_until_serving().await.unwrap();
    let load = Load::start(&cluster).await;
    load.progress().await;

    // Offline in mid-run, for longer than the leader can believe that it leads.
    etcd.kill(0);
    until_no_coordinator_leads(&address).await;
    load.progress().await;
    etcd.restart(0).await;
    cluster.leader().await.unwrap();
    load.progress().await;

    // Full: requests without a change are answered, and changes are refused.
    let client = connect(&cluster).await;
    etcd.fill();
    let refused = client.create_table(schema("more", 1), IfExists::Fail).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("no space"), "{error}");
    load.progress().await;
    etcd.make_space();
    let since = Instant::now();
    while let Err(error) = client
        .create_table(schema("more", 1), IfExists::Accept)
        .await
    {
        assert!(since.elapsed() < PROGRESS_WITHIN, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    load.progress().await;
    let configuration = configuration(&mut cluster).await;
    let mut servers = configuration.servers.iter();
    assert!(servers.all(|server| server.state == ServerState::Up));
    load.check(&cluster).await;
}

async fn until_no_coordinator_leads(address: &str) {
    let since = Instant::now();
    while FrameConnection::open(address)
        .await
        .unwrap()
        .find_leader()
        .await
        .unwrap()
        .leads
    {
        assert!(since.elapsed() < PROGRESS_WITHIN, "it leads without etcd");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn state_moves_to_etcd_and_back_while_reads_and_writes_go_on() {
    if !etcd::is_there() {
        return;
    }
    let etcd = Etcd::start(3, None).await;
    let mut cluster = support::cluster(3).await;
    let load = Load::start(&cluster).await;
    load.progress().await;
    let urls = etcd.urls().join(",");
    let folder = cluster.folder().join("coordinator");
    let data = folder.display().to_string();
    let run = |to| migrate(&data, &urls, to);
    // A coordinator runs on it.
    let text = String::from_utf8(run("etcd").stderr).unwrap();
    assert!(text.contains("in use"), "{text}");
    let before = configuration(&mut cluster).await;

    for (to, urls) in [
        ("etcd", etcd.urls()),
        ("file", Vec::new()),
        ("etcd", etcd.urls()),
    ] {
        cluster.kill_coordinator(0).await.unwrap();
        // Once more is as good as once.
        for _ in 0..2 {
            let output = run(to);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "to {to}: {stderr}");
        }
        if !urls.is_empty() {
            // Nothing starts on the place that was left.
            cluster.set_etcd(Vec::new());
            let error = cluster.start_coordinator(0).await.unwrap_err().to_string();
            assert!(error.contains("has moved to etcd"), "{error}");
        }
        load.progress().await;
        cluster.set_etcd(urls);
        cluster.start_coordinator(0).await.unwrap();
        let now = configuration(&mut cluster).await;
        assert_eq!(now.cluster, before.cluster);
        assert_eq!(now.tables, before.tables);
        assert!(now.epoch >= before.epoch);
        load.progress().await;
    }
    let address = cluster.coordinator_address().to_owned();
    let show = ["admin", "coordinator", "show", "-C", &address];
    let text = support::run_well(&show);
    assert!(
        text.contains("leads") && text.contains("prefix /replex"),
        "{text}"
    );
    load.check(&cluster).await;
}

/// Moves the state one way or the other.
fn migrate(data: &str, urls: &str, to: &str) -> Output {
    let words = [
        "admin",
        "coordinator",
        "migrate",
        "--data",
        data,
        "--etcd",
        urls,
        "--to",
        to,
    ];
    support::run(&words)
}

#[tokio::test]
async fn state_beyond_one_etcd_value_is_kept_in_parts() {
    if !etcd::is_there() {
        return;
    }
    let etcd = Etcd::start(1, None).await;
    let folder = tempfile::tempdir().unwrap();
    let state = large_state();
    let bytes = encode_state(&state);
    // etcd takes no request beyond 1.5 MB.
    assert!(bytes.len() > 3 << 19, "{} bytes", bytes.len());
    std::fs::write(folder.path().join("coordinator"), &bytes).unwrap();
    let output = migrate(
        folder.path().to_str().unwrap(),
        &etcd.urls().join(","),
        "etcd",
    );
    assert!(output.status.success(), "{output:?}");
    let parts_before = state_in(&etcd).as_array().unwrap().len();

    let mut cluster = cluster(&etcd, 2, 0).await;
    assert_eq!(configuration(&mut cluster).await, state.configuration);
    // A new state takes the place of the old one, and no part of that is left.
    let client = connect(&cluster).await;
    drop(client);
    let leader = cluster.leader().await.unwrap();
    cluster.kill_coordinator(leader).await.unwrap();
    assert_eq!(configuration(&mut cluster).await, state.configuration);
    let kept = state_in(&etcd);
    let parts = kept.as_array().unwrap();
    assert_eq!(parts.len(), parts_before);
    for part in parts {
        let value = part["value"].as_str().unwrap();
        assert!(value.len() < 1 << 20, "{} bytes in base64", value.len());
        let version = part["version"].as_str().unwrap();
        let is_manifest = part["key"] == "L3JlcGxleC9zdGF0ZQ==";
        assert!(
            is_manifest || version == "1",
            "{version} writes of one part"
        );
    }
}

/// A state that etcd does not take at once: servers, all of them down, with very long addresses.
fn large_state() -> CoordinatorState {
    let mut state = CoordinatorState::new(0x5eed);
    state.version = 1;
    for number in 1..=64 {
        let id = ServerId(number);
        state.configuration.servers.push(Server {
            id,
            incarnation: Incarnation(1),
            domain: format!("server-{number}"),
            cores: (0..128)
                .map(|core| format!("{number:0>200}.{core}:1"))
                .collect(),
            state: ServerState::Down,
            is_draining: false,
            is_new: false,
        });
        let disk = u64::from(number);
        state.members.push(ServerMember {
            server: id,
            disk,
            instance: disk,
            has_stopped: false,
            trust: FolderTrust::Newest,
            logs: Vec::new(),
        });
    }
    state.next_server = 65;
    state
}

#[tokio::test]
async fn servers_and_states_of_other_clusters_are_refused() {
    if !etcd::is_there() {
        return;
    }
    let etcd = Etcd::start(1, None).await;
    let mut own = cluster(&etcd, 1, 1).await;
    let mut other = support::cluster(1).await;

    // A server of another cluster is refused with that reason.
    other.stop(0).await.unwrap();
    let address = own.coordinator_address().to_owned();
    let data = other.server_folder(0).display().to_string();
    let stderr = support::run_badly(&["server", "--data", &data, "-C", &address], 1);
    assert!(stderr.contains("not of"), "{stderr}");

    // The state of another cluster is not put over it.
    let foreign = tempfile::tempdir().unwrap();
    let path = foreign.path().display().to_string();
    drop(CoordinatorProcess::bind(&CoordinatorOptions::new(foreign.path())).unwrap());
    own.kill_coordinator(0).await.unwrap();
    let urls = etcd.urls().join(",");
    let migrate = [
        "admin",
        "coordinator",
        "migrate",
        "--data",
        &path,
        "--etcd",
        &urls,
    ];
    for to in ["etcd", "file"] {
        let stderr = support::run_badly(&[&migrate[..], &["--to", to]].concat(), 1);
        assert!(stderr.contains("name another place"), "{to}: {stderr}");
    }

    // The value under the prefix is no state, or was changed without the leader's knowledge.
    own.start_coordinator(0).await.unwrap();
    own.leader().await.unwrap();
    let state = serde_json::json!({ "key": "L3JlcGxleC9zdGF0ZQ==", "value": "Zm9v" });
    etcd.call("/v3/kv/put", &state);
    let (mut asker, _) = FrameConnection::greet(&address).await.unwrap();
    let asked = asker.ask(support::create_request(schema("more", 0))).await;
    assert!(asked.is_err(), "{asked:?}");
    let error = until_one_has_ended(&mut own).await.to_string();
    assert!(error.contains("process that does not lead"), "{error}");
    let stderr = support::run_badly(
        &["coordinator", "--etcd", &urls, "--listen", "127.0.0.1:0"],
        1,
    );
    assert!(stderr.contains("no coordinator's state"), "{stderr}");
}

/// The output of the process that ends on its own.
async fn until_one_has_ended(cluster: &mut Cluster) -> std::io::Error {
    let since = Instant::now();
    loop {
        if let Err(error) = cluster.check_processes() {
            return error;
        }
        assert!(since.elapsed() < PROGRESS_WITHIN, "all processes run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
