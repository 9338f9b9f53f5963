//! A server that is killed is replaced when its lease is over, and not before: it might still be
//! there, cut off from the coordinator and answering (R15).

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use coordinator::CoordinatorSettings;
use replex::cluster::{Process, ProcessLife};
use server::event_loop::LoopHandle;
use server::{CoordinatorOptions, CoordinatorProcess, ServerError, ServerOptions, ServerProcess};

use crate::support;

/// Longer than any test.
const LONG_LEASE_US: u64 = 3_600_000_000;

struct RunningCoordinator {
    address: std::net::SocketAddr,
    handle: LoopHandle,
    thread: JoinHandle<Result<(), ServerError>>,
}

impl RunningCoordinator {
    fn start(options: &CoordinatorOptions) -> RunningCoordinator {
        let process = CoordinatorProcess::bind(options).unwrap();
        RunningCoordinator {
            address: process.address(),
            handle: process.handle(),
            thread: std::thread::spawn(move || process.run()),
        }
    }

    fn stop(self) {
        self.handle.stop();
        self.thread.join().unwrap().unwrap();
    }
}

async fn start_server(folder: &Path, coordinator: &RunningCoordinator) -> Process {
    let arguments = [
        "server",
        "--data",
        &folder.join("server").display().to_string(),
        "--coordinator",
        &coordinator.address.to_string(),
    ]
    .map(str::to_owned);
    let log = folder.join("server.log");
    let life = ProcessLife::WithParent;
    let process = Process::start("server", &support::program(), &arguments, &log, life).await;
    process.unwrap()
}

#[tokio::test]
async fn killed_server_is_replaced_when_its_lease_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = CoordinatorOptions::new(folder.path().join("coordinator"));
    options.settings.lease_us = LONG_LEASE_US;
    let coordinator = RunningCoordinator::start(&options);
    let mut process = start_server(folder.path(), &coordinator).await;

    // Stopped in good order, it has given its lease back.
    assert!(process.stop().await.unwrap().success());
    let mut process = start_server(folder.path(), &coordinator).await;
    assert_eq!(process.ready_value("incarnation"), Some("2"));

    process.kill().await.unwrap();
    let mut impatient = ServerOptions::new(
        folder.path().join("server"),
        vec![coordinator.address.to_string()],
    );
    impatient.join_patience = Duration::ZERO;
    let error = ServerProcess::bind(impatient)
        .unwrap()
        .run(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("server 1 is in use"), "{error}");

    // With leases as usual the same start waits for the end of one, and is let in.
    options.listen = coordinator.address;
    coordinator.stop();
    options.settings = CoordinatorSettings::default();
    let coordinator = RunningCoordinator::start(&options);
    let process = start_server(folder.path(), &coordinator).await;
    assert_eq!(process.ready_value("incarnation"), Some("3"));
    drop(process);
    coordinator.stop();
}
