//! Starts that must fail: each reports the fault, its object and the remedy, and changes nothing.

use std::fs;
use std::path::Path;

use crate::support;

/// Every file of a folder with its bytes, by name.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .filter(|(name, _)| name != "lock")
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn second_server_with_a_used_id_is_refused_while_the_first_one_lives() {
    let mut cluster = support::cluster(1).await;
    let copied = cluster.folder().join("copied");
    support::folders::copy(&cluster.server_folder(0), &copied);
    let before = cluster.configuration().await.unwrap();
    let stderr = support::run_badly(
        &[
            "server",
            "--data",
            &copied.display().to_string(),
            "--coordinator",
            cluster.coordinator_address(),
        ],
        1,
    );
    assert!(stderr.contains("server 1"), "{stderr}");
    assert_eq!(cluster.configuration().await.unwrap(), before);
    cluster.check_processes().unwrap();
}

#[tokio::test]
async fn two_processes_on_one_folder_are_separated_by_its_lock() {
    let cluster = support::cluster(1).await;
    let coordinator = cluster.folder().join("coordinator");
    let coordinator = coordinator.display().to_string();
    let stderr = support::run_badly(
        &[
            "coordinator",
            "--data",
            &coordinator,
            "--listen",
            "127.0.0.1:0",
        ],
        1,
    );
    let process = cluster.coordinator(0).id().to_string();
    assert!(stderr.contains(&coordinator), "{stderr}");
    assert!(stderr.contains(&process), "{stderr}");

    let server = cluster.server_folder(0).display().to_string();
    let address = cluster.coordinator_address();
    let stderr = support::run_badly(&["server", "--data", &server, "-C", address], 1);
    let process = cluster.server(0).id().to_string();
    assert!(stderr.contains(&server), "{stderr}");
    assert!(stderr.contains(&process), "{stderr}");
}

#[tokio::test]
async fn folder_of_a_newer_format_is_left_alone() {
    let mut cluster = support::cluster(1).await;
    cluster.stop(0).await.unwrap();
    cluster.kill_coordinator(0).await.unwrap();
    // The format's number follows the eight bytes that name the file's kind.
    for (folder, file, command) in [
        (cluster.server_folder(0), "identity", "server"),
        (
            cluster.folder().join("coordinator"),
            "coordinator",
            "coordinator",
        ),
    ] {
        let path = folder.join(file);
        let mut bytes = fs::read(&path).unwrap();
        bytes[8] += 1;
        let format = format!("format {}", bytes[8]);
        fs::write(&path, bytes).unwrap();
        let before = contents(&folder);
        let stderr = support::run_badly(&[command, "--data", &folder.display().to_string()], 1);
        assert!(stderr.contains(&path.display().to_string()), "{stderr}");
        assert!(stderr.contains(&format), "{stderr}");
        assert_eq!(contents(&folder), before);
    }
}

#[test]
fn network_address_needs_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.display().to_string();
    for command in ["server", "coordinator"] {
        let stderr = support::run_badly(&[command, "--data", &data, "--listen", "0.0.0.0:0"], 2);
        assert!(stderr.contains("no encryption"), "{stderr}");
        assert!(stderr.contains("--allow-unencrypted-network"), "{stderr}");
    }
    assert!(!Path::new(&data).exists());
}

#[test]
fn cluster_that_is_not_there_has_its_own_exit_code() {
    // Port 1 is privileged, and no process listens there.
    let stderr = support::run_badly(&["admin", "status", "-C", "127.0.0.1:1"], 3);
    assert!(stderr.contains("127.0.0.1:1"), "{stderr}");
    assert!(stderr.contains("replex coordinator --data"), "{stderr}");
}
