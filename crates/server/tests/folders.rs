//! Folders and identities: each is one process's, and nothing is changed that is not understood.
#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod support;

use std::fs;
use std::time::Duration;

use server::{CoordinatorOptions, CoordinatorProcess, ServerError, ServerOptions, ServerProcess};
use support::{Cluster, RunningCoordinator, RunningServer};

fn error_of<T>(result: Result<T, ServerError>) -> String {
    match result {
        Ok(_) => panic!("it was to be refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_second_coordinator_on_one_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = CoordinatorOptions::new(folder.path());
    let first = RunningCoordinator::start(&options);
    let error = error_of(CoordinatorProcess::bind(&options));
    let (path, process) = (folder.path().to_str().unwrap(), std::process::id());
    assert!(error.contains(path), "{error}");
    assert!(error.contains(&format!("process {process}")), "{error}");
    first.stop().unwrap();
    CoordinatorProcess::bind(&options).unwrap();
}

#[test]
fn a_second_server_on_one_folder_is_refused() {
    let cluster = Cluster::start(1);
    let error = error_of(ServerProcess::bind(cluster.server_options(0)));
    assert!(error.contains("server-0"), "{error}");
    let process = std::process::id();
    assert!(error.contains(&format!("process {process}")), "{error}");
}

#[test]
fn a_second_server_with_a_used_number_is_refused() {
    let cluster = Cluster::start(0);
    let original = cluster.server_options(0);
    let mut copy = cluster.server_options(1);
    copy.join_patience = Duration::from_secs(2);
    let server = RunningServer::start(original.clone()).unwrap();
    // Files come and go while it runs; a copy is made of a folder that is at rest.
    server.stop().unwrap();
    support::copy_folder(&original.folder, &copy.folder);
    let _server = RunningServer::start(original).unwrap();
    let error = error_of(RunningServer::start(copy));
    assert!(error.contains("server 1 is in use"), "{error}");
}

#[test]
fn a_server_stays_with_its_cluster() {
    let cluster = Cluster::start(0);
    let mut options = cluster.server_options(0);
    RunningServer::start(options.clone())
        .unwrap()
        .stop()
        .unwrap();
    let other = Cluster::start(0);
    options.join_patience = Duration::from_millis(200);
    options.coordinators = vec![other.coordinator.address.to_string()];
    let error = error_of(RunningServer::start(options));
    assert!(error.contains("cluster"), "{error}");
}

#[test]
fn files_of_a_newer_format_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = CoordinatorOptions::new(folder.path().join("coordinator"));
    drop(CoordinatorProcess::bind(&coordinator).unwrap());
    let server = ServerOptions::new(folder.path().join("server"), vec!["127.0.0.1:1".into()]);
    drop(ServerProcess::bind(server.clone()).unwrap());

    let state = folder.path().join("coordinator/coordinator");
    let identity = server.folder.join("identity");
    for file in [&state, &identity] {
        let mut bytes = fs::read(file).unwrap();
        // Both formats keep their version at the same place.
        bytes[8] += 1;
        fs::write(file, &bytes).unwrap();
        let error = if file == &state {
            error_of(CoordinatorProcess::bind(&coordinator))
        } else {
            error_of(ServerProcess::bind(server.clone()))
        };
        assert!(error.contains(file.to_str().unwrap()), "{error}");
        assert!(error.contains("newer"), "{error}");
        assert_eq!(fs::read(file).unwrap(), bytes);
    }
}

#[test]
fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = CoordinatorOptions::new(folder.path());
    drop(CoordinatorProcess::bind(&coordinator).unwrap());
    let state = folder.path().join("coordinator");
    let mut bytes = fs::read(&state).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&state, &bytes).unwrap();
    let error = error_of(CoordinatorProcess::bind(&coordinator));
    assert!(error.contains(state.to_str().unwrap()), "{error}");
    assert!(error.contains("damaged"), "{error}");
}

#[test]
fn a_network_address_is_refused_without_the_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut coordinator = CoordinatorOptions::new(folder.path().join("coordinator"));
    coordinator.listen = "0.0.0.0:0".parse().unwrap();
    let error = error_of(CoordinatorProcess::bind(&coordinator));
    assert!(error.contains("--allow-unencrypted-network"), "{error}");
    let mut server = ServerOptions::new(folder.path().join("server"), vec!["127.0.0.1:1".into()]);
    server.listen = coordinator.listen;
    let error = error_of(ServerProcess::bind(server.clone()));
    assert!(error.contains("--allow-unencrypted-network"), "{error}");
    // With the word, it still has to name the address where others find it.
    server.allow_unencrypted_network = true;
    let error = error_of(ServerProcess::bind(server));
    assert!(error.contains("--advertise"), "{error}");
    assert!(!folder.path().join("server").exists(), "nothing was made");
}

#[test]
fn a_server_that_waits_for_its_coordinator_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    // No process listens at a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let options = ServerOptions::new(folder.path(), vec![port.to_string()]);
    let server = ServerProcess::bind(options).unwrap();
    let stopper = server.stopper();
    let thread =
        std::thread::spawn(move || server.run(|_| panic!("there is no coordinator to join")));
    stopper.stop();
    thread.join().unwrap().unwrap();
}
