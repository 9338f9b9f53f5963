//! The handle of a connected client. It returns handles of tables, and sends requests to the
//! coordinator.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use protocol::configuration::Configuration;
use protocol::identity::{CoreId, Epoch, ServerId};
use protocol::message::{CoordinatorReply, CoordinatorRequest, Read};
use session::{MomentPages, SessionInput, SessionMachine, SessionOperation, SessionOutcome};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::coordinator::Coordinator;
use crate::coordinator_call::{CallOutcome, CoordinatorCall};
use crate::error::Error;
use crate::hub::Hub;
use crate::known_statistics::KnownStatistics;
use crate::options::ConnectOptions;
use crate::sequence_blocks::SequenceBlocks;

/// The pause before a refused question that may succeed later is asked again.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// The reaction to a table that exists already when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Return an error.
    Fail,
    /// Leave the table as it is.
    Accept,
}

/// The reaction to a table that does not exist when it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// Return an error.
    Fail,
    /// Do nothing.
    Accept,
}

/// A client of one cluster. Clones share its connections. The connections close with the last
/// clone.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    hub: Arc<Hub>,
    tasks: [AbortHandle; 2],
    statistics: KnownStatistics,
    sequences: SequenceBlocks,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Ends the client with the task that holds it.
struct CloseOnDrop(Arc<Hub>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Client {
    /// Connects to a cluster through any of its coordinators, and fetches the configuration. The
    /// client opens connections to servers when it needs them. Must be called within a tokio
    /// runtime, because the client starts tasks there.
    ///
    /// # Errors
    /// [`Error::NoCoordinator`] if no coordinator answers before the deadline. [`Error::Refused`]
    /// with the message of a coordinator that recovers its state.
    pub async fn connect(options: ConnectOptions) -> Result<Client, Error> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (made, hub_made) = oneshot::channel();
        let coordinator = Coordinator::new(options.clone(), receiver);
        let coordinator = AbortOnDrop(tokio::spawn(coordinator.run(hub_made)).abort_handle());
        let known = Epoch(0);
        let deadline = Instant::now() + options.deadline;
        let configuration = loop {
            let (ask, answer) =
                CoordinatorCall::of_caller(CoordinatorRequest::Fetch { known }, deadline);
            sender.send(ask).map_err(|_| Error::Closed)?;
            match answer.await.map_err(|_| Error::Closed)? {
                CallOutcome::NotSent(tried) => return Err(Error::NoCoordinator { tried }),
                CallOutcome::Lost(_) if Instant::now() + ASK_PAUSE < deadline => {
                    sleep(ASK_PAUSE).await;
                }
                CallOutcome::Lost(reason) => {
                    return Err(Error::NoCoordinator {
                        tried: vec![reason],
                    });
                }
                CallOutcome::Reply(reply, cluster) => match *reply {
                    CoordinatorReply::Configuration(configuration) => break configuration,
                    // A cluster that no server has joined yet.
                    CoordinatorReply::Unchanged { epoch } => {
                        break Configuration {
                            cluster,
                            epoch,
                            ..Configuration::default()
                        };
                    }
                    // It recovers its state, for one.
                    CoordinatorReply::Refused {
                        retry: true,
                        message: _,
                    } if Instant::now() + ASK_PAUSE < deadline => sleep(ASK_PAUSE).await,
                    CoordinatorReply::Refused { message, retry } => {
                        return Err(Error::Refused { message, retry });
                    }
                    other => return Err(unexpected(&other)),
                },
            }
        };
        // The keys of a hasher are random. The time sets clients of one thread further apart.
        let seed = RandomState::new().hash_one((SystemTime::now(), std::process::id()));
        let machine = SessionMachine::new(options.limits(), seed, Some(Arc::new(configuration)));
        let hub = Hub::new(options, sender, machine);
        // The coordinator's task is there as long as the client.
        let _ = made.send(Arc::downgrade(&hub));
        // The timer ends with the client or with the runtime: then no caller may wait any more.
        let keeper = CloseOnDrop(Arc::clone(&hub));
        let timer = tokio::spawn(async move { keeper.0.keep_time().await });
        let tasks = [coordinator.keep(), timer.abort_handle()];
        Ok(Client {
            inner: Arc::new(Inner {
                hub,
                tasks,
                statistics: KnownStatistics::default(),
                sequences: SequenceBlocks::default(),
            }),
        })
    }

    pub(crate) fn statistics(&self) -> &KnownStatistics {
        &self.inner.statistics
    }

    pub(crate) fn sequences(&self) -> &SequenceBlocks {
        &self.inner.sequences
    }

    /// Returns the newest configuration that the client knows.
    pub fn configuration(&self) -> Arc<Configuration> {
        self.hub().configuration()
    }

    /// Fetches the newest configuration from the coordinator, and returns it.
    ///
    /// # Errors
    /// [`Error::NoCoordinator`] and [`Error::Deadline`].
    pub async fn refresh(&self) -> Result<Arc<Configuration>, Error> {
        let known = self.configuration().epoch;
        let request = CoordinatorRequest::Fetch { known };
        match self.ask(request, "a newer configuration").await? {
            CoordinatorReply::Configuration(configuration) => {
                self.hub()
                    .step(SessionInput::Configuration(Arc::new(configuration)));
            }
            CoordinatorReply::Changes(changes) => {
                self.hub().step(SessionInput::Changes(changes));
            }
            CoordinatorReply::Unchanged { epoch } => {
                self.hub().step(SessionInput::Unchanged { epoch })
            }
            other => return Err(unexpected(&other)),
        }
        Ok(self.configuration())
    }

    /// Drops a table and its rows, and the sequences of its columns.
    ///
    /// # Errors
    /// - [`Error::Refused`]: the coordinator refuses, for example because there is no such table
    ///   ([`IfMissing::Fail`]).
    /// - [`Error::NoCoordinator`]: no coordinator is reachable, and nothing was done.
    /// - [`Error::Unknown`]: the coordinator stopped answering. The table may be dropped.
    pub async fn drop_table(&self, name: &str, missing: IfMissing) -> Result<(), Error> {
        let request = CoordinatorRequest::DropTable {
            name: name.to_owned(),
            if_exists: missing == IfMissing::Accept,
        };
        let what = format!("the drop of table {name}");
        self.change(request, &what).await
    }

    /// Replaces a server that is down for good: other servers rebuild its partitions. Returns once
    /// that has begun.
    ///
    /// # Errors
    /// As of [`Client::drop_table`]. The coordinator refuses a server that is up.
    pub async fn remove_server(&self, server: ServerId) -> Result<(), Error> {
        let request = CoordinatorRequest::Remove { server };
        let what = format!("the removal of server {}", server.0);
        self.change(request, &what).await
    }

    /// Lets a server join with an older copy of its folder. Rows that were acknowledged since that
    /// copy may be missing there.
    ///
    /// # Errors
    /// As of [`Client::drop_table`]. The coordinator refuses a server that is up.
    pub async fn accept_folder(&self, server: ServerId) -> Result<(), Error> {
        let request = CoordinatorRequest::AcceptFolder { server };
        let what = format!("that the folder of server {} is accepted", server.0);
        self.change(request, &what).await
    }

    /// Moves the partitions of a running server to other servers. Returns before they have moved.
    /// The server receives no new partitions.
    ///
    /// # Errors
    /// As of [`Client::drop_table`]. The coordinator refuses if a table would then tolerate fewer
    /// failures than it states.
    pub async fn drain_server(&self, server: ServerId) -> Result<(), Error> {
        let request = CoordinatorRequest::Drain { server };
        let what = format!("the drain of server {}", server.0);
        self.change(request, &what).await
    }

    /// Allows a server to hold partitions again. Partitions that have not moved off it stay.
    ///
    /// # Errors
    /// As of [`Client::drop_table`].
    pub async fn end_drain(&self, server: ServerId) -> Result<(), Error> {
        let request = CoordinatorRequest::EndDrain { server };
        let what = format!("the end of the drain of server {}", server.0);
        self.change(request, &what).await
    }

    /// Asks for a change of the cluster, and knows of it once it is made.
    pub(crate) async fn change(
        &self,
        request: CoordinatorRequest,
        what: &str,
    ) -> Result<(), Error> {
        let epoch = self.accepted(request, what).await?;
        let known = self.catch_up(epoch).await;
        known.map_err(|error| error.after_acceptance(what))
    }

    /// Asks for a change of the cluster. Returns its epoch once the coordinator has accepted it.
    pub(crate) async fn accepted(
        &self,
        request: CoordinatorRequest,
        what: &str,
    ) -> Result<Epoch, Error> {
        match self.ask(request, what).await? {
            CoordinatorReply::Done { epoch, .. } => Ok(epoch),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns a core's counters by name.
    ///
    /// # Errors
    /// [`Error::Deadline`] if the core does not answer, [`Error::Invalid`] if there is none.
    pub async fn status(&self, core: CoreId) -> Result<Vec<(String, u64)>, Error> {
        let what = format!("the status of {core}");
        match self
            .run(SessionOperation::Status(core), &what, None)
            .await?
        {
            SessionOutcome::Status(counters) => Ok(counters),
            other => Err(other_outcome(&other)),
        }
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.inner.hub
    }

    /// Runs one operation of the session machine, and returns its outcome. Failures become errors.
    pub(crate) async fn run(
        &self,
        operation: SessionOperation,
        what: &str,
        patience: Option<Duration>,
    ) -> Result<SessionOutcome, Error> {
        let patience = patience.unwrap_or(self.hub().options().deadline);
        let deadline_us = self.hub().deadline_us(patience);
        let outcome = self.hub().run(operation, deadline_us).await?;
        self.judge(outcome, what)
    }

    /// Reads ranges of one table as of one moment. Returns none if they are too large or change too
    /// often.
    pub(crate) async fn read_moment(
        &self,
        reads: Vec<Read>,
        patience: Option<Duration>,
        what: &str,
    ) -> Result<Option<MomentPages>, Error> {
        let hub = self.hub();
        let deadline_us = hub.deadline_us(patience.unwrap_or(hub.options().deadline));
        let outcome = hub
            .run(SessionOperation::Moment(reads), deadline_us)
            .await?;
        match self.judge(outcome, what)? {
            SessionOutcome::Moment(pages) => Ok(Some(pages)),
            SessionOutcome::NoMoment => Ok(None),
            other => Err(other_outcome(&other)),
        }
    }

    /// Returns the outcome, or the error that it means.
    pub(crate) fn judge(
        &self,
        outcome: SessionOutcome,
        what: &str,
    ) -> Result<SessionOutcome, Error> {
        match outcome {
            SessionOutcome::Failed(failure) => {
                let trouble = self.hub().trouble();
                Err(Error::from_failure(failure, what, trouble.as_deref()))
            }
            SessionOutcome::Unknown(failure) => {
                let trouble = self.hub().trouble();
                let trouble = trouble.map_or(String::new(), |trouble| format!(" ({trouble})"));
                Err(Error::Unknown {
                    what: what.to_owned(),
                    reason: format!("{failure}{trouble}"),
                })
            }
            outcome => Ok(outcome),
        }
    }

    /// Sends a request to the coordinator. Repeats it while the coordinator's refusal may be
    /// temporary, and after a broken connection if the request changes nothing.
    pub(crate) async fn ask(
        &self,
        request: CoordinatorRequest,
        what: &str,
    ) -> Result<CoordinatorReply, Error> {
        let changes = !matches!(
            request,
            CoordinatorRequest::Fetch { .. } | CoordinatorRequest::Progress
        );
        let deadline = Instant::now() + self.hub().options().deadline;
        loop {
            let (ask, answer) = CoordinatorCall::of_caller(request.clone(), deadline);
            self.hub().ask(ask)?;
            let what = what.to_owned();
            match answer.await.map_err(|_| Error::Closed)? {
                CallOutcome::NotSent(tried) => return Err(Error::NoCoordinator { tried }),
                CallOutcome::Lost(reason) if changes => {
                    return Err(Error::Unknown { what, reason });
                }
                CallOutcome::Lost(_) if Instant::now() + ASK_PAUSE < deadline => {
                    sleep(ASK_PAUSE).await;
                }
                CallOutcome::Lost(reason) => return Err(Error::Deadline { what, reason }),
                CallOutcome::Reply(reply, _) => match *reply {
                    CoordinatorReply::Refused {
                        retry: true,
                        message: _,
                    } if Instant::now() + ASK_PAUSE < deadline => sleep(ASK_PAUSE).await,
                    CoordinatorReply::Refused { message, retry } => {
                        return Err(Error::Refused { message, retry });
                    }
                    reply => return Ok(reply),
                },
            }
        }
    }

    /// Waits until the client knows the configuration of this epoch or a newer one.
    pub(crate) async fn catch_up(&self, epoch: Epoch) -> Result<(), Error> {
        while self.configuration().epoch < epoch {
            self.refresh().await?;
        }
        Ok(())
    }
}

/// Ends a task unless it is kept.
struct AbortOnDrop(AbortHandle);

impl AbortOnDrop {
    fn keep(self) -> AbortHandle {
        let handle = self.0.clone();
        std::mem::forget(self);
        handle
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn unexpected(reply: &CoordinatorReply) -> Error {
    let kind = match reply {
        CoordinatorReply::Refused { message, .. } => message.clone(),
        other => format!("{other:?}"),
    };
    Error::Protocol {
        message: format!("the coordinator answered something else: {kind}"),
    }
}

pub(crate) fn other_outcome(outcome: &SessionOutcome) -> Error {
    Error::Protocol {
        message: format!("the session ended a request with {outcome:?}"),
    }
}
