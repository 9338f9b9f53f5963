//! An etcd of several real members on loopback, of Debian's package `etcd-server`: started, killed,
//! restarted, and filled.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::needs;

const READY_WITHIN: Duration = Duration::from_secs(60);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Returns whether there is an etcd to test with, as [`needs::require`] has it.
pub fn is_there() -> bool {
    needs::require_program("etcd", &["--version"]).is_some()
}

struct Member {
    client: String,
    peer: String,
    process: Option<Child>,
}

/// The members of one etcd; dropped, they are killed.
pub struct Etcd {
    folder: TempDir,
    members: Vec<Member>,
    /// The quota of each, in bytes; none is etcd's own.
    quota_bytes: Option<u64>,
}

impl Etcd {
    /// Starts so many members and waits until they serve.
    pub async fn start(members: usize, quota_bytes: Option<u64>) -> Etcd {
        // An address of this process's own, so that no other process takes the ports that were
        // free.
        let id = std::process::id();
        let host = format!(
            "127.{}.{}.{}",
            1 + id % 250,
            id / 250 % 250,
            1 + id / 62_500 % 250
        );
        let free = || {
            let listener = TcpListener::bind((host.as_str(), 0)).unwrap();
            (
                format!("http://{}", listener.local_addr().unwrap()),
                listener,
            )
        };
        let ports: Vec<_> = (0..members).map(|_| (free(), free())).collect();
        let members = ports.iter().map(|((client, _), (peer, _))| Member {
            client: client.clone(),
            peer: peer.clone(),
            process: None,
        });
        let mut etcd = Etcd {
            folder: TempDir::new().unwrap(),
            members: members.collect(),
            quota_bytes,
        };
        drop(ports);
        for position in 0..etcd.members.len() {
            etcd.spawn(position);
        }
        etcd.wait().await;
        etcd
    }

    /// `http://host:port` of each member.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(|it| it.client.clone()).collect()
    }

    /// Ends a member at once (SIGKILL).
    pub fn kill(&mut self, position: usize) {
        let mut process = self.members[position].process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts a member that was ended, on its old folder, and waits until it serves.
    pub async fn restart(&mut self, position: usize) {
        self.spawn(position);
        self.wait().await;
    }

    /// Returns etcd's answer to a call of its JSON gateway, from the first member that runs.
    pub fn call(&self, path: &str, body: &serde_json::Value) -> serde_json::Value {
        let member = self.members.iter().find(|it| it.process.is_some()).unwrap();
        let text = post(&member.client, path, &body.to_string()).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Writes until etcd has no space left.
    pub fn fill(&self) {
        let value = "A".repeat(1 << 18);
        for _ in 0..10_000 {
            let body = serde_json::json!({ "key": "ZmlsbGVy", "value": value });
            if self.call("/v3/kv/put", &body).get("error").is_some() {
                return;
            }
        }
        panic!("it is never full");
    }

    /// Makes space again, as an operator does.
    pub fn make_space(&self) {
        let filler = serde_json::json!({ "key": "ZmlsbGVy" });
        let gone = self.call("/v3/kv/deleterange", &filler);
        let revision = &gone["header"]["revision"];
        let compaction = serde_json::json!({ "revision": revision, "physical": true });
        self.call("/v3/kv/compaction", &compaction);
        for member in &self.members {
            post(&member.client, "/v3/maintenance/defragment", "{}").unwrap();
        }
        let alarms = self.call(
            "/v3/maintenance/alarm",
            &serde_json::json!({ "action": "GET" }),
        );
        for alarm in alarms["alarms"].as_array().unwrap() {
            let mut disarm = alarm.clone();
            disarm["action"] = "DEACTIVATE".into();
            self.call("/v3/maintenance/alarm", &disarm);
        }
    }

    fn spawn(&mut self, position: usize) {
        let name = |position: usize| format!("member-{position}");
        let all = self.members.iter().enumerate();
        let all: Vec<String> = all
            .map(|(other, member)| format!("{}={}", name(other), member.peer))
            .collect();
        let path = |suffix: &str| -> PathBuf {
            self.folder
                .path()
                .join(format!("{}{suffix}", name(position)))
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(path(".log"))
            .unwrap();
        let member = &self.members[position];
        // It ends with this process, also when this is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "etcd", "--log-level", "error"]);
        command
            .args(["--name", &name(position), "--data-dir"])
            .arg(path(""));
        for (option, value) in [
            ("--listen-client-urls", &member.client),
            ("--advertise-client-urls", &member.client),
            ("--listen-peer-urls", &member.peer),
            ("--initial-advertise-peer-urls", &member.peer),
            ("--initial-cluster", &all.join(",")),
        ] {
            command.args([option, value]);
        }
        if let Some(quota_bytes) = self.quota_bytes {
            command.args(["--quota-backend-bytes", &quota_bytes.to_string()]);
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.members[position].process = Some(command.spawn().unwrap());
    }

    /// Waits until every member that runs answers a read that all agree on.
    async fn wait(&self) {
        let started = Instant::now();
        for member in self.members.iter().filter(|it| it.process.is_some()) {
            let ask = || post(&member.client, "/v3/kv/range", r#"{"key":"AA=="}"#);
            while !ask().is_ok_and(|text| text.contains("revision")) {
                assert!(started.elapsed() < READY_WITHIN, "etcd does not serve");
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(mut process) = member.process.take() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

/// One call, on a connection of its own.
fn post(url: &str, path: &str, body: &str) -> std::io::Result<String> {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(READY_WITHIN))?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    body.map(str::to_owned)
        .ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}
