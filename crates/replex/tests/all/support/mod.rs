//! Code that the process tests share: clusters of the built program, and the program run to its
//! end.

#[cfg(feature = "proxy")]
pub mod both;
pub mod counting;
pub mod damage;
#[cfg(feature = "proxy")]
pub mod drawn_ranges;
pub mod etcd;
pub mod folders;
pub mod history;
pub mod hosts;
#[path = "../../../../../tests/needs.rs"]
pub mod needs;
pub mod noise;
pub mod people;
#[cfg(feature = "proxy")]
pub mod raw_client;
pub mod redirected;
pub mod rows;
pub mod sessions;
pub mod statements;
pub mod syncs;
pub mod whole_reads;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use placement::{Column, ColumnType, Durability, Index, Schema, TableConstraints};
use protocol::message::{CoordinatorReply, CoordinatorRequest};
use replex::cluster::{Cluster, ClusterOptions};
use replex::wire::FrameConnection;
use tokio::task::JoinHandle;

/// The program under test.
pub fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_replex"))
}

/// Returns a number from the environment, or the default if it is not set.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// A coordinator and so many servers, of which none is replaced unless a test asks for it.
pub fn options(servers: usize) -> ClusterOptions {
    ClusterOptions {
        servers,
        coordinator_arguments: ["--replace-after", "never"].map(str::to_owned).into(),
        ..ClusterOptions::new(program())
    }
}

/// Such a cluster.
pub async fn cluster(servers: usize) -> Cluster {
    Cluster::start(options(servers)).await.unwrap()
}

/// Returns whether there is a PostgreSQL to test with, as [`needs::require`] has it.
#[cfg(feature = "proxy")]
pub fn postgres_is_there() -> bool {
    needs::require(needs::POSTGRES, pg_local::programs()).is_some()
}

/// Returns whether nothing is in a folder.
pub fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// Runs the program until it ends.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(program())
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("REPLEX_COORDINATOR")
        .output()
        .unwrap()
}

/// Runs the program, which must succeed; its stdout.
pub fn run_well(arguments: &[&str]) -> String {
    let output = run(arguments);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?} ended with {}\n{stdout}\n{stderr}",
        output.status
    );
    stdout
}

/// Runs the program, which must fail with this exit code; its stderr.
pub fn run_badly(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    stderr
}

/// A table with two keys beside the primary key, and a column that may be large.
pub fn people(failures_tolerated: u8, durability: Durability) -> Schema {
    let column = |name: &str, column_type| Column {
        name: name.to_owned(),
        column_type,
        nullable: name == "note",
        default: None,
        missing: None,
    };
    let index = |name: &str, columns: &[usize]| Index {
        name: name.to_owned(),
        columns: columns.to_vec(),
        constraint: None,
        partition_columns: None,
        by_range: false,
    };
    Schema {
        name: "people".to_owned(),
        columns: vec![
            column("id", ColumnType::Int64),
            column("city", ColumnType::Text),
            column("score", ColumnType::Int64),
            column("note", ColumnType::Text),
        ],
        primary_key: vec![0],
        indexes: vec![index("by_city", &[1]), index("by_score", &[2, 1])],
        further: Vec::new(),
        thin: Vec::new(),
        partitions: 4,
        failures_tolerated,
        failures_wanted: 0,
        local_entries: true,
        durability,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    }
}

/// The question that creates a table.
pub fn create_request(schema: Schema) -> CoordinatorRequest {
    CoordinatorRequest::CreateTable {
        schema,
        if_not_exists: false,
        sequences: Vec::new(),
        owner: Default::default(),
    }
}

/// Creates a table by asking the coordinator.
pub async fn create(cluster: &Cluster, schema: Schema) {
    let (mut connection, _) = FrameConnection::greet(cluster.coordinator_address())
        .await
        .unwrap();
    let reply = connection.ask(create_request(schema)).await.unwrap();
    assert!(
        matches!(reply, CoordinatorReply::Done { .. }),
        "not created: {reply:?}"
    );
}

/// Kills a server and the coordinator, and starts them again. Returns whether a task was under way
/// then.
pub async fn kill_and_restart<T>(
    cluster: &mut Cluster,
    server: usize,
    task: &JoinHandle<T>,
) -> bool {
    cluster.kill(server).await.unwrap();
    cluster.kill_coordinator(0).await.unwrap();
    let is_under_way = !task.is_finished();
    cluster.start_coordinator(0).await.unwrap();
    cluster.restart(server).await.unwrap();
    is_under_way
}
