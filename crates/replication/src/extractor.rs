//! The Extractor of one replica executes commits on several connections, in groups where several
//! wait. It commits them in order and reports its position.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::apply::{self, AS_IMAGES, ApplyPart, ApplyStatement, RowGrouping};
use super::divergence::ExtractorRequest;
use super::progress::{ANSWER_MAX, SERVING};
use super::reader::StreamedCommit;
use super::schedule::{ReplaySchedule, WorkerCommand, WorkerNumber};
use super::setup::{self, FLUSHER, ReplicaStart, SeedSnapshot};
use super::snapshot::PgSnapshot;
use super::spill::SpillFile;
use super::tstate::{CommitEffect, TState};
use super::{ReplicationError, Shared, TaskProgress, checks, connect, described, fence};
use pg_connect::address::Address;
use pg_wire::quoting::literal;
use proxy_core::freshness::execution::{GroupSharing, Task};
use proxy_core::freshness::{ReplicaId, ReplicaState, Tsid};
use proxy_core::planted::{self, ProxyBug};

/// The most commits in an Extractor's queue.
pub const QUEUE_LENGTH_MAX: usize = 1024;
/// The most commits that an Extractor has taken from its queue and not committed.
const IN_HAND_MAX: usize = 256;
/// The Extractor pauses no longer than this without a message from the requester.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time between two flushes of applied commits.
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// Statements of one commit are sent in pieces of about this size, in bytes.
const PIECE_LENGTH: usize = 1 << 20;

/// The settings of the connections that execute commits. Values are read as they were written, and
/// no triggers fire. A wait for a lock times out soon, because its holder may be a later
/// transaction that waits for its turn to commit.
const SETTINGS: &str = "
SET session_replication_role = replica; SET synchronous_commit = off;
SET client_encoding = 'UTF8'; SET lock_timeout = '1s';
SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0;
SET check_function_bodies = off; SET client_min_messages = error;
SET default_transaction_read_only = off; SET default_transaction_isolation = 'read committed';
SET row_security = off";

/// The work of a connection. Groups are named by the last of their commits.
enum ConnectionWork {
    /// Execute these commits as one transaction.
    Execute(Vec<Arc<TState>>, RowGrouping),
    Commit(Tsid),
    Rollback(Tsid),
}

enum ExtractorEvent {
    Executed(Tsid),
    Failed(Tsid, ExecutionFailure),
    Committed(WorkerNumber, Tsid),
    RolledBack(Tsid),
    Gone(ReplicationError),
}

/// Why a commit could not be executed.
struct ExecutionFailure {
    text: String,
    /// Whether the transaction failed only because of a conflict with another transaction of the
    /// replica.
    may_pass: bool,
}

/// The inputs of an Extractor.
pub struct ExtractorInputs {
    /// The commits, in TSID order.
    pub commits: mpsc::Receiver<StreamedCommit>,
    /// Requests to pause.
    pub requests: mpsc::Receiver<ExtractorRequest>,
}

/// Applies commits until the queue ends or something fails.
pub async fn run(
    shared: &Shared,
    id: ReplicaId,
    config: &Address,
    (control, start): (Client, ReplicaStart),
    mut inputs: ExtractorInputs,
) -> Result<(), ReplicationError> {
    let worker_count = usize::from(shared.replay_connections);
    setup::make_rows(&control, &start, worker_count).await?;
    let (events_in, mut events) = mpsc::channel(4 * worker_count);
    // Ends the connections' tasks when this function ends.
    let mut tasks = JoinSet::new();
    let mut workers = Vec::new();
    for number in 0..worker_count {
        let client = connect(config, fence::EXTRACTOR).await?;
        fence::pass(&client, shared.epoch).await?;
        let set = |(name, value)| format!("; SET {name} = {}", literal(value));
        let settings = SETTINGS.to_owned() + &AS_IMAGES.map(set).concat();
        client
            .batch_execute(&settings)
            .await
            .map_err(settings_error)?;
        if number == 0 {
            client.batch_execute(&checks::replace_all()).await?;
        }
        // One to execute or take back, and one to commit: never more for one connection.
        let (work_in, work) = mpsc::channel(2);
        workers.push(work_in);
        tasks.spawn(serve(WorkerNumber(number), client, work, events_in.clone()));
    }
    let mut extractor = Extractor {
        shared,
        id,
        control,
        workers,
        schedule: ReplaySchedule::new(worker_count, usize::from(shared.replay_group)),
        in_hand: BTreeMap::new(),
        begun: (start.applied, Instant::now()),
        given: start.applied,
        applied: start.applied,
        flushed: start.applied,
        seed: start.seed,
        hold: CommitHold::No,
    };
    extractor.report_progress();
    if !extractor.is_catching_up() {
        shared.set_status(id, SERVING);
    }
    let mut flush = tokio::time::interval(FLUSH_INTERVAL);
    loop {
        tokio::select! {
            commit = inputs.commits.recv(), if extractor.takes_commits() => {
                let Some(commit) = commit else { return Ok(()) };
                extractor.take_or_hold(commit);
            }
            Some(request) = inputs.requests.recv() => extractor.hold_at(request),
            () = extractor.hold.resumed() => extractor.release(),
            event = events.recv() => extractor.on(event.expect("a sender is kept here"))?,
            _ = flush.tick() => extractor.flush().await?,
        }
        extractor.go_on().await?;
        extractor.answer_hold();
    }
}

/// Whether the Extractor pauses commits, so that the replica can be compared.
enum CommitHold {
    No,
    /// No more commits are processed. The requester gets an answer once all earlier ones are
    /// applied.
    Paused {
        asked: Option<oneshot::Sender<()>>,
        until: Instant,
    },
    /// All commits up to a position are processed. The first one after it is in `next`.
    Until {
        snapshot: PgSnapshot,
        until: Tsid,
        is_prefix: bool,
        next: Option<StreamedCommit>,
        ready: Option<oneshot::Sender<bool>>,
        resume: oneshot::Receiver<()>,
    },
}

impl CommitHold {
    /// Waits until commits are no longer held back; never returns if they are not.
    async fn resumed(&mut self) {
        match self {
            CommitHold::No => std::future::pending().await,
            // The requester comes back with the place; if it does not, nothing is held for long.
            CommitHold::Paused { until, .. } => tokio::time::sleep_until(*until).await,
            // Dropping releases it, too.
            CommitHold::Until { resume, .. } => {
                let _ = resume.await;
            }
        }
    }
}

fn settings_error(error: tokio_postgres::Error) -> ReplicationError {
    match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => ReplicationError::Setup(
            "the replica's role may not set session_replication_role: use a superuser, or GRANT \
             SET ON PARAMETER session_replication_role to it"
                .into(),
        ),
        _ => error.into(),
    }
}

struct Extractor<'a> {
    shared: &'a Shared,
    id: ReplicaId,
    control: Client,
    workers: Vec<mpsc::Sender<ConnectionWork>>,
    schedule: ReplaySchedule,
    in_hand: BTreeMap<Tsid, Arc<TState>>,
    /// Where it began, and when.
    begun: (Tsid, Instant),
    /// The newest that was given to it.
    given: Tsid,
    applied: Tsid,
    flushed: Tsid,
    seed: Option<SeedSnapshot>,
    hold: CommitHold,
}

impl Extractor<'_> {
    fn takes_commits(&self) -> bool {
        let is_open = match &self.hold {
            CommitHold::No => true,
            CommitHold::Paused { .. } => false,
            CommitHold::Until { next, .. } => next.is_none(),
        };
        is_open && self.schedule.count() < IN_HAND_MAX
    }

    fn take_or_hold(&mut self, commit: StreamedCommit) {
        if let CommitHold::Until {
            snapshot,
            until,
            is_prefix,
            next,
            ..
        } = &mut self.hold
        {
            if commit.tsid() > *until {
                *next = Some(commit);
                return;
            }
            if let StreamedCommit::Transaction(tstate) = &commit {
                *is_prefix &= snapshot.shows(tstate.xid);
            }
        }
        self.take(commit);
    }

    fn hold_at(&mut self, request: ExtractorRequest) {
        self.release();
        self.hold = match request {
            ExtractorRequest::Pause(asked) => CommitHold::Paused {
                asked: Some(asked),
                until: Instant::now() + PAUSE_MAX,
            },
            ExtractorRequest::Until {
                snapshot,
                until,
                ready,
                resume,
            } => CommitHold::Until {
                snapshot,
                until,
                // Unless the pause was over before.
                is_prefix: self.given <= until,
                next: None,
                ready: Some(ready),
                resume,
            },
        };
    }

    fn release(&mut self) {
        if let CommitHold::Until {
            next: Some(commit), ..
        } = std::mem::replace(&mut self.hold, CommitHold::No)
        {
            self.take(commit);
        }
    }

    /// Answers the requester of a hold, once all commits taken from the queue are applied.
    fn answer_hold(&mut self) {
        if self.schedule.count() > 0 {
            return;
        }
        // The requester may have given up: then the hold ends.
        match &mut self.hold {
            CommitHold::Paused { asked, .. } => {
                if let Some(asked) = asked.take() {
                    let _ = asked.send(());
                }
            }
            CommitHold::Until {
                next: Some(_),
                is_prefix,
                ready,
                ..
            } => {
                if let Some(ready) = ready.take() {
                    let _ = ready.send(*is_prefix);
                }
            }
            _ => {}
        }
    }

    fn take(&mut self, commit: StreamedCommit) {
        let tsid = commit.tsid();
        if tsid <= self.given {
            return;
        }
        self.given = tsid;
        match commit {
            StreamedCommit::Transaction(tstate) if !self.is_empty(&tstate) => {
                let task = Task {
                    sets: tstate.sets.clone(),
                    length: tstate.length,
                    sharing: sharing(&tstate),
                };
                self.schedule.add(tsid, task);
                self.in_hand.insert(tsid, tstate);
            }
            _ => self.schedule.add_empty(tsid),
        }
    }

    /// Returns whether a transaction has no effect on the replica: it has no changes, or the
    /// replica was filled from a snapshot that shows it.
    fn is_empty(&self, tstate: &TState) -> bool {
        let seed = self.seed.as_ref();
        tstate.effect.is_empty()
            || seed.is_some_and(|seed| tstate.tsid <= seed.until && seed.snapshot.shows(tstate.xid))
    }

    fn on(&mut self, event: ExtractorEvent) -> Result<(), ReplicationError> {
        match event {
            ExtractorEvent::Executed(tsid) => self.schedule.executed(tsid),
            ExtractorEvent::Failed(tsid, failure) => {
                if self.schedule.failed(tsid) && !failure.may_pass {
                    return Err(ReplicationError::Differs(format!(
                        "the commit at {tsid} cannot be done as on the primary: {}. Remove \
                         this replica and add it again with EMPTY",
                        failure.text
                    )));
                }
            }
            ExtractorEvent::Committed(worker, tsid) => {
                self.schedule.committed(worker, tsid);
                while let Some(first) = self.in_hand.first_entry()
                    && *first.key() <= tsid
                {
                    first.remove();
                }
                self.advance(tsid);
            }
            ExtractorEvent::RolledBack(tsid) => self.schedule.rolled_back(tsid),
            ExtractorEvent::Gone(error) => return Err(error),
        }
        Ok(())
    }

    async fn go_on(&mut self) -> Result<(), ReplicationError> {
        let urgent = self.schedule.urgent_commands();
        if !urgent.is_empty() {
            self.send_to_workers(urgent).await?;
            // They are sent before anything that takes longer.
            tokio::task::yield_now().await;
        }
        let commands = self.schedule.commands();
        self.send_to_workers(commands).await
    }

    async fn send_to_workers(
        &mut self,
        commands: Vec<WorkerCommand>,
    ) -> Result<(), ReplicationError> {
        for command in commands {
            let (worker, work) = match command {
                WorkerCommand::Execute(worker, tsid) => {
                    let group = self.schedule.group(tsid);
                    let pace = match group.is_alone {
                        true => RowGrouping::OneByOne,
                        false => RowGrouping::Together,
                    };
                    let tstates = group.tsids.iter().map(|tsid| &self.in_hand[tsid]);
                    (
                        worker,
                        ConnectionWork::Execute(tstates.cloned().collect(), pace),
                    )
                }
                WorkerCommand::Commit(worker, tsid) => (worker, ConnectionWork::Commit(tsid)),
                WorkerCommand::Rollback(worker, tsid) => (worker, ConnectionWork::Rollback(tsid)),
                WorkerCommand::Advance(tsid) => {
                    self.advance(tsid);
                    continue;
                }
            };
            let gone = |_| ReplicationError::Connection("a connection to it has ended".into());
            self.workers[worker.0].send(work).await.map_err(gone)?;
        }
        Ok(())
    }

    fn advance(&mut self, tsid: Tsid) {
        let is_in_order = self.applied < tsid || planted::is(ProxyBug::CommitsOutOfOrder);
        assert!(is_in_order, "commits are in order");
        self.applied = self.applied.max(tsid);
        self.report_progress();
    }

    /// Reports the replica's position to the manager. While the replica lacks commits that the
    /// snapshot of its seed did not show, it does not serve, because the primary never had this
    /// state.
    fn report_progress(&self) {
        let (from, since) = self.begun;
        if let Some(seed) = self.seed.as_ref().filter(|_| self.is_catching_up()) {
            let (done, all) = (self.applied.0 - from.0, seed.until.0 - from.0);
            let progress = TaskProgress::of(done, all, since.elapsed());
            let id = self.id;
            self.shared.set_progress(id, "catching up", Some(progress));
            return;
        }
        if self.seed.is_some() {
            // It has just caught up.
            self.shared.set_status(self.id, SERVING);
        }
        let mut manager = self.shared.manager();
        manager.applied(self.id, self.applied);
        manager.set_state(self.id, ReplicaState::Serving);
    }

    fn is_catching_up(&self) -> bool {
        let seed = self.seed.as_ref();
        seed.is_some_and(|seed| self.applied < seed.until)
    }

    /// Writes the Extractor's position to the replica's disk, and fails if the replica does not
    /// answer in time.
    async fn flush(&mut self) -> Result<(), ReplicationError> {
        let silent = |_| ReplicationError::Connection("it does not answer".into());
        let flushed = timeout(ANSWER_MAX, self.write_down()).await;
        flushed.map_err(silent)?
    }

    /// Writes the Extractor's position to the replica's disk. All earlier commits are on disk then,
    /// too.
    async fn write_down(&mut self) -> Result<(), ReplicationError> {
        if self.applied == self.flushed {
            return Ok(self.control.batch_execute("").await?);
        }
        let applied = self.applied;
        let forget_seed = match self.seed.is_some() && !self.is_catching_up() {
            true => "DELETE FROM hihooi.seed;",
            false => "",
        };
        let tsid = applied.0;
        let sql = format!(
            "BEGIN; SET LOCAL synchronous_commit = on; {forget_seed}
             UPDATE hihooi.applied SET tsid = {tsid} WHERE worker = {FLUSHER}; COMMIT"
        );
        self.control.batch_execute(&sql).await?;
        if !forget_seed.is_empty() {
            self.seed = None;
        }
        self.flushed = applied;
        self.shared.durable().insert(self.id, applied);
        if !self.is_catching_up() {
            self.shared.set_status(self.id, SERVING);
        }
        Ok(())
    }
}

/// Runs one connection's task.
async fn serve(
    worker: WorkerNumber,
    client: Client,
    mut work: mpsc::Receiver<ConnectionWork>,
    events: mpsc::Sender<ExtractorEvent>,
) {
    while let Some(work) = work.recv().await {
        let event = match work {
            ConnectionWork::Execute(group, pace) => execute(worker, &client, &group, pace).await,
            ConnectionWork::Commit(tsid) => {
                let done = client.batch_execute("COMMIT").await;
                done.map(|()| ExtractorEvent::Committed(worker, tsid))
            }
            ConnectionWork::Rollback(tsid) => {
                let done = client.batch_execute("ROLLBACK").await;
                done.map(|()| ExtractorEvent::RolledBack(tsid))
            }
        };
        let event = event.unwrap_or_else(|error| ExtractorEvent::Gone(error.into()));
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// Returns the commits that may share a group with this one: no other commit if this one takes
/// long, or leaves settings behind.
fn sharing(tstate: &TState) -> GroupSharing {
    match (&tstate.effect, tstate.has_statements) {
        (CommitEffect::Long(_), _) | (_, true) => GroupSharing::Own,
        _ => GroupSharing::Any,
    }
}

/// Executes a group without committing it.
async fn execute(
    worker: WorkerNumber,
    client: &Client,
    group: &[Arc<TState>],
    pace: RowGrouping,
) -> Result<ExtractorEvent, tokio_postgres::Error> {
    let name = group.last().expect("a group is of something").tsid;
    let Err(failure) = try_execute(worker, client, group, pace).await else {
        return Ok(ExtractorEvent::Executed(name));
    };
    client.batch_execute("ROLLBACK").await?;
    Ok(ExtractorEvent::Failed(name, failure))
}

/// Executes the group. Its last statement notes the last commit's position, so that a failure
/// leaves the group there with its note, or not at all.
async fn try_execute(
    worker: WorkerNumber,
    client: &Client,
    group: &[Arc<TState>],
    pace: RowGrouping,
) -> Result<(), ExecutionFailure> {
    let mut parts = vec![ApplyPart::One(ApplyStatement {
        sql: "BEGIN".into(),
        row_count: None,
    })];
    if pace == RowGrouping::OneByOne {
        parts.extend(apply::every_schema().map(ApplyPart::One));
    }
    for tstate in group {
        let in_memory = match &tstate.effect {
            CommitEffect::Short(changes) => apply::parts(changes),
            CommitEffect::Recorded(recorded) => recorded.parts(),
            CommitEffect::Long(spill) => {
                do_all(client, std::mem::take(&mut parts), pace).await?;
                do_spilled(client, spill, pace).await?;
                continue;
            }
        };
        parts.extend(in_memory.map_err(|error| lasting(error.to_string()))?);
    }
    let noted = match planted::is(ProxyBug::GroupNotesItsFirst) {
        true => group.first(),
        false => group.last(),
    };
    let (tsid, worker) = (noted.expect("a group is of something").tsid.0, worker.0);
    parts.push(ApplyPart::One(ApplyStatement {
        sql: format!("UPDATE hihooi.applied SET tsid = {tsid} WHERE worker = {worker}"),
        row_count: Some(1),
    }));
    do_all(client, parts, pace).await
}

/// Executes the statements in a file, piece by piece.
async fn do_spilled(
    client: &Client,
    spill: &SpillFile,
    pace: RowGrouping,
) -> Result<(), ExecutionFailure> {
    let mut reading = spill.read();
    loop {
        let unreadable = |error: io::Error| ExecutionFailure {
            text: error.to_string(),
            may_pass: true,
        };
        let parts = reading.next().await.map_err(unreadable)?;
        if parts.is_empty() {
            break;
        }
        do_all(client, parts, pace).await?;
    }
    match spill.failure() {
        Some(why) => Err(lasting(why.to_owned())),
        None => Ok(()),
    }
}

fn lasting(text: String) -> ExecutionFailure {
    ExecutionFailure {
        text,
        may_pass: false,
    }
}

/// Runs statements, many in one message.
async fn do_all(
    client: &Client,
    parts: Vec<ApplyPart>,
    pace: RowGrouping,
) -> Result<(), ExecutionFailure> {
    let steps: Vec<ApplyStatement> = parts
        .into_iter()
        .flat_map(|part| part.steps(pace))
        .collect();
    let mut rest = &steps[..];
    while !rest.is_empty() {
        let mut text = String::new();
        let mut count = 0;
        while count < rest.len() && (count == 0 || text.len() < PIECE_LENGTH) {
            text.push_str(&rest[count].sql);
            // On a line of its own: a statement may end with a comment.
            text.push_str("\n;\n");
            count += 1;
        }
        let (piece, after) = rest.split_at(count);
        rest = after;
        let answers = client.simple_query(&text).await.map_err(refused)?;
        let counts = answers.iter().filter_map(|answer| match answer {
            SimpleQueryMessage::CommandComplete(count) => Some(*count),
            _ => None,
        });
        let counts: Vec<u64> = counts.collect();
        if counts.len() != piece.len() {
            return Err(lasting("a statement was more or less than one".into()));
        }
        let differs = |(step, count): &(&ApplyStatement, u64)| {
            step.row_count.is_some_and(|row_count| row_count != *count)
        };
        if let Some((step, count)) = piece.iter().zip(counts).find(differs) {
            let verb = step.sql.split(" SET ").next().unwrap_or_default();
            let verb: String = verb.chars().take(100).collect();
            let expected = step.row_count.unwrap_or_default();
            return Err(lasting(format!(
                "{verb} … found {count} rows instead of {expected}"
            )));
        }
    }
    Ok(())
}

fn refused(error: tokio_postgres::Error) -> ExecutionFailure {
    let passing = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::QUERY_CANCELED,
    ];
    let code = error.code();
    ExecutionFailure {
        // The next statement on it notices a broken connection.
        may_pass: code.is_none_or(|code| passing.contains(code)),
        text: described(&error),
    }
}
