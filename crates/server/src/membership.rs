//! A server's first and its last word to its coordinator, outside of any event loop.
//!
//! A coordinator that is away is waited for by a server that joins; one that refuses is believed,
//! unless it says that the reason will pass (a lease of the process before that is still running).
//! Nobody waits for the answer to a goodbye longer than for the lease that it would save.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use protocol::configuration::Configuration;
use protocol::identity::{Incarnation, ServerId};
use protocol::message::{CoordinatorReply, CoordinatorRequest, Message};

use crate::blocking::Blocking;
use crate::error::ServerError;
use crate::journal::{self, Level};

const PAUSE_MIN: Duration = Duration::from_millis(20);
/// What a join may come too late after the lease that it waits for.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// How long one attempt to join may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(12);
/// How long a goodbye may take, at each address: as long as the lease that it gives back.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// A coordinator that is away is noted once in this time.
const NOTE_PAUSE: Duration = Duration::from_secs(5);

/// What joining gave.
#[derive(Debug)]
pub(crate) struct Joined {
    pub server: ServerId,
    pub incarnation: Incarnation,
    pub configuration: Configuration,
}

enum Failure {
    /// Nobody answered, or not in a way that makes sense.
    Away(String),
    Refused {
        message: String,
        retry: bool,
    },
}

/// How long to wait.
pub(crate) struct Patience<'a> {
    /// For a refusal that will pass.
    pub refusals: Duration,
    /// Ends every wait.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Joins, waiting for a coordinator as long as `patience` does not say otherwise.
///
/// # Errors
/// A coordinator refused, or the wait was ended.
pub(crate) fn join(
    coordinators: &[SocketAddr],
    cluster: Option<u64>,
    request: &CoordinatorRequest,
    patience: &Patience,
) -> Result<Joined, ServerError> {
    let begin = Instant::now();
    let mut refused_since = None;
    let mut noted: Option<Instant> = None;
    let mut pause = PAUSE_MIN;
    for address in coordinators.iter().cycle() {
        let reason = match ask(*address, cluster, request, ATTEMPT_MAX) {
            Ok(CoordinatorReply::Joined {
                server,
                incarnation,
                configuration,
            }) => {
                return Ok(Joined {
                    server,
                    incarnation,
                    configuration,
                });
            }
            Ok(other) => strange(*address, &other),
            Err(Failure::Away(reason)) => reason,
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
                Level::Warn,
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

/// Tells that this incarnation has stopped, so that the next one need not wait for the end of its
/// lease. The caller's cores serve nothing any more, whatever becomes of the message. A coordinator
/// that does not hear it waits for the lease: that is noted, and no failure.
pub(crate) fn say_goodbye(
    coordinators: &[SocketAddr],
    cluster: u64,
    (server, incarnation): (ServerId, Incarnation),
) {
    let request = CoordinatorRequest::Stopped {
        server,
        incarnation,
    };
    for address in coordinators {
        let reason = match ask(*address, Some(cluster), &request, GOODBYE_MAX) {
            Ok(CoordinatorReply::Done { .. }) => return,
            Ok(other) => strange(*address, &other),
            Err(Failure::Away(reason)) => reason,
            Err(Failure::Refused { message, .. }) => message,
        };
        journal::line(
            Level::Info,
            "goodbye_unheard",
            &[("address", address), ("reason", &reason)],
        );
    }
}

/// Asks one coordinator once.
fn ask(
    address: SocketAddr,
    cluster: Option<u64>,
    request: &CoordinatorRequest,
    within: Duration,
) -> Result<CoordinatorReply, Failure> {
    let away = |error: std::io::Error| Failure::Away(error.to_string());
    let mut connection = Blocking::connect(address, cluster, within).map_err(away)?;
    let ask = Message::Ask(request.clone());
    connection.send(&ask).map_err(away)?;
    loop {
        match connection.receive().map_err(away)? {
            Message::Welcome(_) => {}
            Message::Answer(CoordinatorReply::Refused { message, retry }) => {
                return Err(Failure::Refused { message, retry });
            }
            Message::Answer(reply) => return Ok(reply),
            // It says why it does not want this connection: the wrong cluster, or too many.
            Message::Goodbye { reason } => {
                return Err(Failure::Refused {
                    message: reason,
                    retry: true,
                });
            }
            other => return Err(Failure::Away(strange(address, &other))),
        }
    }
}

fn strange(address: SocketAddr, what: &dyn std::fmt::Debug) -> String {
    format!("{address} answers, but not as a coordinator does: {what:?}")
}
