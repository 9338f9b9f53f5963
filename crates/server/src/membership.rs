//! Sends a server's messages to its coordinator outside of any event loop: that the server joins,
//! that it is alive while its cores still read their disks, and that it has stopped.
//!
//! A server that joins waits for a coordinator that is unavailable. A refusal is final, unless its
//! reason will pass (a lease of the previous process that still runs). No server waits for the
//! answer to a goodbye longer than for the lease that it would save.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cluster_tls::Credentials;
use protocol::configuration::Configuration;
use protocol::identity::{CoreId, Epoch, Incarnation, Position, ServerId};
use protocol::message::{CoordinatorReply, CoordinatorRequest, Message, Room};

use crate::blocking::Blocking;
use crate::error::ServerError;
use crate::journal::{self, JournalLevel};

const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause, by which a join may be late after the lease that it waits for.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// How long one attempt to join may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(12);
/// Time in which a coordinator must greet. A running coordinator does so at once. If one does not,
/// the server tries the next one.
const GREETING_MAX: Duration = Duration::from_secs(1);
/// How long a goodbye may take, at each address: as long as the lease that it gives back.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// The interval of heartbeats of a server that restores. A lease lasts for several of them.
pub(crate) const PULSE_PAUSE: Duration = Duration::from_millis(200);
/// A server that restores for longer is down until it serves: it may be stuck.
const PULSES_MAX: u32 = 600;
/// How long connecting for a sign of life may take.
const PULSE_MAX: Duration = Duration::from_millis(200);
/// A coordinator that is unavailable is logged once in this time.
const NOTE_PAUSE: Duration = Duration::from_secs(5);

/// The coordinators of a server's cluster.
#[derive(Clone, Debug)]
pub(crate) struct Coordinators {
    /// Their addresses, tried in order.
    pub addresses: Vec<SocketAddr>,
    /// The server's certificates, if connections are encrypted.
    pub credentials: Option<Credentials>,
}

/// A server that has joined: its identity and the configuration.
#[derive(Debug)]
pub(crate) struct JoinedServer {
    pub server: ServerId,
    pub incarnation: Incarnation,
    /// The position up to which the log of each core was durable at its last report to the
    /// coordinator.
    pub logs: Vec<Position>,
    pub configuration: Configuration,
}

enum Failure {
    /// There was no answer, or no valid one.
    Unavailable(String),
    Refused {
        message: String,
        retry: bool,
    },
}

/// The limits of how long a server waits to join.
pub(crate) struct JoinLimits<'a> {
    /// The longest wait for a temporary refusal to pass.
    pub refusals: Duration,
    /// Returns true if every wait must end.
    pub stopped: &'a dyn Fn() -> bool,
    /// The report for a coordinator that has lost its state; none if the folder has no
    /// configuration.
    pub memory: Option<CoordinatorRequest>,
}

/// Joins the cluster. Waits for a coordinator for as long as `patience` allows.
///
/// # Errors
/// A coordinator refused, or the wait was ended.
pub(crate) fn join(
    coordinators: &Coordinators,
    cluster: Option<u64>,
    request: &CoordinatorRequest,
    patience: &JoinLimits,
) -> Result<JoinedServer, ServerError> {
    let begin = Instant::now();
    let mut refused_since = None;
    let mut noted: Option<Instant> = None;
    let mut pause = PAUSE_MIN;
    for address in coordinators.addresses.iter().cycle() {
        let reason = match coordinators.ask(*address, cluster, request, ATTEMPT_MAX) {
            Ok(CoordinatorReply::Joined {
                server,
                incarnation,
                logs,
                configuration,
            }) => {
                return Ok(JoinedServer {
                    server,
                    incarnation,
                    logs,
                    configuration,
                });
            }
            Ok(CoordinatorReply::Wait { message }) => message,
            // It has lost its state, and receives this folder's knowledge.
            Ok(CoordinatorReply::Recall) => match &patience.memory {
                None => "it recovers its state, and this folder knows nothing".to_owned(),
                Some(memory) => match coordinators.ask(*address, cluster, memory, ATTEMPT_MAX) {
                    Ok(_) => "it recovers its state from its servers".to_owned(),
                    Err(
                        Failure::Unavailable(reason)
                        | Failure::Refused {
                            message: reason, ..
                        },
                    ) => reason,
                },
            },
            Ok(other) => strange(*address, &other),
            Err(Failure::Unavailable(reason)) => reason,
            Err(Failure::Refused { message, retry }) => {
                let since = refused_since.get_or_insert_with(Instant::now);
                if !retry || since.elapsed() > patience.refusals {
                    return Err(ServerError::Refused(message));
                }
                message
            }
        };
        if (patience.stopped)() {
            return Err(ServerError::Stopped);
        }
        if noted.is_none_or(|at| at.elapsed() > NOTE_PAUSE) {
            noted = Some(Instant::now());
            let waited_s = begin.elapsed().as_secs();
            journal::line(
                JournalLevel::Warn,
                "waiting_for_coordinator",
                &[
                    ("address", address),
                    ("reason", &reason),
                    ("waited_s", &waited_s),
                ],
            );
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
    unreachable!("the caller names at least one coordinator, and a cycle has no end")
}

/// Heartbeats of a server that has joined and still restores. Without them the coordinator would
/// make it down and then up again: two epochs in which every recovering core starts again. The
/// cores do not serve by the answers: the heartbeat reads only the `Welcome`.
pub(crate) struct JoinHeartbeat {
    coordinators: Coordinators,
    cluster: u64,
    heartbeat: CoordinatorRequest,
    connection: Option<Blocking>,
    left: u32,
}

impl JoinHeartbeat {
    /// Returns the heartbeat of a server that joined as `incarnation` and got the configuration of
    /// `epoch`.
    pub(crate) fn new(
        coordinators: &Coordinators,
        cluster: u64,
        server: ServerId,
        incarnation: Incarnation,
        epoch: Epoch,
    ) -> JoinHeartbeat {
        JoinHeartbeat {
            coordinators: coordinators.clone(),
            cluster,
            heartbeat: CoordinatorRequest::Heartbeat {
                core: CoreId { server, core: 0 },
                incarnation,
                epoch,
                sent_us: 0,
                durable: Position(0),
                filled: Vec::new(),
                fills: Vec::new(),
                seals: Vec::new(),
                room: Room::default(),
                ranges: Vec::new(),
            },
            connection: None,
            left: PULSES_MAX,
        }
    }

    /// Sends one heartbeat. After a failure, the next one goes to the next address.
    pub(crate) fn beat(&mut self) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        if self.connection.is_none() {
            let address = self.coordinators.addresses[0];
            self.coordinators.addresses.rotate_left(1);
            let cluster = Some(self.cluster);
            let connected = self.coordinators.connect(address, cluster, PULSE_MAX);
            // A standby sends that instead of a greeting.
            self.connection = connected.ok().and_then(|mut connection| {
                let greeted = matches!(connection.receive(), Ok(Message::Welcome(_)));
                greeted.then_some(connection)
            });
        }
        let ask = Message::Ask(self.heartbeat.clone());
        if let Some(connection) = &mut self.connection
            && connection.send(&ask).is_err()
        {
            self.connection = None;
        }
    }
}

/// Reports that this incarnation has stopped, so that the next one need not wait for its lease. The
/// caller's cores must serve nothing any more, whether or not the message arrives. If no
/// coordinator receives it, that is logged, and the next incarnation waits for the lease.
pub(crate) fn send_goodbye(
    coordinators: &Coordinators,
    cluster: u64,
    request: &CoordinatorRequest,
) {
    for address in &coordinators.addresses {
        let reason = match coordinators.ask(*address, Some(cluster), request, GOODBYE_MAX) {
            Ok(CoordinatorReply::Done { .. }) => return,
            Ok(other) => strange(*address, &other),
            Err(Failure::Unavailable(reason)) => reason,
            Err(Failure::Refused { message, .. }) => message,
        };
        journal::line(
            JournalLevel::Info,
            "goodbye_unheard",
            &[("address", address), ("reason", &reason)],
        );
    }
}

impl Coordinators {
    /// Connects to a coordinator.
    fn connect(
        &self,
        address: SocketAddr,
        cluster: Option<u64>,
        patience: Duration,
    ) -> std::io::Result<Blocking> {
        Blocking::connect(address, cluster, patience, self.credentials.as_ref())
    }

    /// Asks one coordinator once.
    fn ask(
        &self,
        address: SocketAddr,
        cluster: Option<u64>,
        request: &CoordinatorRequest,
        within: Duration,
    ) -> Result<CoordinatorReply, Failure> {
        let unavailable = |error: std::io::Error| Failure::Unavailable(error.to_string());
        let greeting = within.min(GREETING_MAX);
        let mut connection = self
            .connect(address, cluster, greeting)
            .map_err(unavailable)?;
        let ask = Message::Ask(request.clone());
        connection.send(&ask).map_err(unavailable)?;
        loop {
            match connection.receive().map_err(unavailable)? {
                Message::Welcome(_) => connection.set_read_timeout(within).map_err(unavailable)?,
                Message::Answer(CoordinatorReply::Refused { message, retry }) => {
                    return Err(Failure::Refused { message, retry });
                }
                Message::Answer(reply) => return Ok(reply),
                Message::Leadership(leadership) => {
                    return Err(Failure::Unavailable(leadership.to_string()));
                }
                // Its reason for refusing this connection: the wrong cluster, or too many.
                Message::Goodbye { reason } => {
                    return Err(Failure::Refused {
                        message: reason,
                        retry: true,
                    });
                }
                other => return Err(Failure::Unavailable(strange(address, &other))),
            }
        }
    }
}

fn strange(address: SocketAddr, what: &dyn std::fmt::Debug) -> String {
    format!("{address} answers, but not as a coordinator does: {what:?}")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use protocol::message::{Leadership, Welcome};

    use super::*;

    /// Greets the server that connects, and returns its first two messages.
    fn greeted(listener: &TcpListener) -> (Message, Message) {
        let (stream, _) = listener.accept().expect("it connects");
        let mut connection = Blocking::over(stream).expect("its socket can be duplicated");
        let hello = connection.receive().expect("it sends hello");
        let welcome = Message::Welcome(Welcome {
            cluster: 7,
            core: None,
            epoch: Epoch(5),
        });
        connection.send(&welcome).expect("it listens");
        (hello, connection.receive().expect("it speaks"))
    }

    /// Answers the server that connects that another coordinator leads.
    fn redirect(listener: &TcpListener) {
        let (stream, _) = listener.accept().expect("it connects");
        let mut connection = Blocking::over(stream).expect("its socket can be duplicated");
        connection.receive().expect("it sends hello");
        let leadership = Message::Leadership(Leadership {
            leads: false,
            leader: None,
            standbys: Vec::new(),
            kept_in: String::new(),
        });
        connection.send(&leadership).expect("it listens");
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        (listener, address)
    }

    #[test]
    fn signs_of_life_go_to_the_leader() {
        let (gone, offline) = listener();
        drop(gone);
        let (standby, stands_by) = listener();
        let (leader, leads) = listener();
        let (server, incarnation) = (ServerId(2), Incarnation(3));
        let messages = std::thread::spawn(move || {
            redirect(&standby);
            greeted(&leader)
        });
        let mut pulse = JoinHeartbeat::new(
            &Coordinators {
                addresses: vec![offline, stands_by, leads],
                credentials: None,
            },
            7,
            server,
            incarnation,
            Epoch(5),
        );
        for _ in 0..3 {
            pulse.beat();
        }
        let (hello, beat) = messages.join().expect("it received both");
        assert!(
            matches!(&hello, Message::Hello(hello) if hello.cluster == Some(7)),
            "{hello:?}"
        );
        let core = CoreId { server, core: 0 };
        let expected = CoordinatorRequest::Heartbeat {
            core,
            incarnation,
            epoch: Epoch(5),
            sent_us: 0,
            durable: Position(0),
            filled: Vec::new(),
            fills: Vec::new(),
            seals: Vec::new(),
            room: Room::default(),
            ranges: Vec::new(),
        };
        assert_eq!(beat, Message::Ask(expected));
    }
}
