//! Decides which of several proxies is active. The others stand by.
//!
//! A proxy that routes knows the writes of its own clients before they are committed (R32). It
//! receives the writes of others from the slot, later. So two of them in front of one primary would
//! give stale answers.
//!
//! - The *lock*, an advisory one, is held at the primary by a session that does nothing else. Its
//!   holder raises the *epoch*. Neither is lost without the primary's knowing.
//! - Before a connection to the primary is used for clients, that session writes down its backend.
//!   As the session's end ends the lock, nothing is written down any more once another has the
//!   lock: the list is complete.
//! - Every second that session shows a *beat*. When that is answered, the *lease* is valid for
//!   three seconds from when it was sent. A replica's answer is relayed to a client only if the
//!   lease is valid then, and no read is routed to one otherwise.
//!
//! The proxy that gets the lock does this, in order. It raises the epoch. It ends all backends of
//! the list and the reader of the slot, until there are none. It waits until the lease of the proxy
//! before has surely run out, unless that one has given up. It takes the end of the log as its
//! floor, and begins.
//!
//! Invariants:
//! - When the floor is taken, the log before it has every commit of clients of earlier epochs, and
//!   the primary shows them. These clients commit nothing after. So the new manager needs nothing
//!   of the old one's.
//! - When it begins, no lease of an earlier epoch is valid. So no other proxy relays a replica's
//!   answer to a client that asks after its first commit. If the lease was valid when it was
//!   checked, and the answer is relayed later, the client had sent its query before that commit.
//! - A replica executes for one epoch at a time: see `fence`.
//!
//! A proxy whose session at the primary is lost tries to get the lock again. If it does, and the
//! epoch is still its own, no other was active in between, and it continues. If another proxy has
//! the lock, its lease has *ended* for good: its clients' sessions are ended.
//!
//! That session writes the register of replicas, too: see `register`.

mod lock;

pub mod lease;
pub mod register;

use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_postgres::Client;

use super::query::one;
use super::{RETRY_WAIT_MIN, ReplicationError};
use lease::{BootTime, LOOK_INTERVAL, LeaderHeartbeat, Lease, ObservedLeader};
use lock::{LOCK, LeaderLock, LockCandidate, LockHolder};
use pg_connect::address::Address;
use proxy_pool::ledger::{ConnectionLedger, LedgerEntry};
use register::{RegisterChange, RegisterRequest, ReplicaRegister};

/// Time between two beats.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Beats after which the list is gone through.
const PRUNE_INTERVAL: u64 = 60;
/// Time between two looks whether backends have ended.
const FENCE_INTERVAL: Duration = Duration::from_millis(20);
/// Entries that wait to be written down, at most.
const ENTRIES_MAX: usize = 1024;
/// Entries that are written down at once, at most.
const ENTRIES_AT_ONCE: usize = 64;
/// Changes of the register that wait, at most.
const REQUESTS_MAX: usize = 16;
/// How long a proxy that gives up waits for the primary to know.
const GIVE_UP_MAX: Duration = Duration::from_secs(2);
/// A proxy that has the lock for longer is running, and has not just gone.
const KEPT_OUT_AFTER: Duration = Duration::from_secs(2);

/// The leadership of this proxy: it is active until the lease ends. Dropping it gives up.
#[derive(Debug)]
pub struct ProxyLeadership {
    /// The epoch, which is higher than the epoch of every earlier proxy.
    pub epoch: u64,
    /// The active proxy's lease.
    pub lease: Lease,
    /// Records connections to the primary.
    pub ledger: ConnectionLedger,
    /// Records replicas that operators add.
    pub register: ReplicaRegister,
    give_up: Option<oneshot::Sender<oneshot::Sender<()>>>,
}

/// Waits until this proxy is active, however long another one is. `waits` gets the name of that
/// proxy, whenever it changes.
pub async fn acquire(
    primary: &Address,
    waits: impl FnMut(&str),
) -> Result<ProxyLeadership, ReplicationError> {
    let candidate = candidate()?;
    let seat = LeaderLock::open(primary, &candidate).await?;
    seat.make_tables().await?;
    let watched = wait_for_lock(&seat, waits).await?;
    let locked = BootTime::now();
    let begun = seat.begin_epoch().await?;
    let alone = match begun.was_released {
        true => locked,
        false => watched.run_out(begun.last_beat, locked),
    };
    let lease = Lease::new();
    let (entries_in, entries) = mpsc::channel(ENTRIES_MAX);
    let (requests_in, requests) = mpsc::channel(REQUESTS_MAX);
    let (give_up, given_up) = oneshot::channel();
    let mut keeper = LockKeeper {
        primary: primary.clone(),
        candidate,
        seat,
        last: LeaderHeartbeat {
            epoch: begun.epoch,
            number: 0,
        },
        lease: lease.clone(),
        entries,
        requests,
        taken_back: None,
    };
    keeper.fence(alone).await?;
    tokio::spawn(keeper.run(given_up));
    Ok(ProxyLeadership {
        epoch: begun.epoch,
        lease,
        ledger: ConnectionLedger::new(entries_in),
        register: ReplicaRegister::new(requests_in),
        give_up: Some(give_up),
    })
}

/// Makes the epochs of proxies in front of this primary, which had none, begin after `epoch`.
pub async fn begin_after(primary: &Address, epoch: u64) -> Result<(), ReplicationError> {
    let seat = LeaderLock::open(primary, &candidate()?).await?;
    seat.make_tables().await?;
    seat.begin_after(epoch).await
}

/// Prevents proxies from becoming active in front of this database while the session lives. Fails
/// if one is active already. A proxy that has just ended may have the lock for a moment more.
pub async fn keep_out(primary: &Client) -> Result<bool, ReplicationError> {
    let (class, object) = LOCK;
    let lock = format!("SELECT pg_try_advisory_lock({class}, {object})");
    let began = Instant::now();
    while one(primary, &lock).await? != "t" {
        if began.elapsed() > KEPT_OUT_AFTER {
            return Ok(false);
        }
        sleep(LOOK_INTERVAL).await;
    }
    Ok(true)
}

/// Names this proxy, as no other is named.
fn candidate() -> Result<LockCandidate, ReplicationError> {
    let mut number = [0; 8];
    let no_chance = |_| ReplicationError::Setup("the system returned no random numbers".into());
    SystemRandom::new().fill(&mut number).map_err(no_chance)?;
    Ok(LockCandidate::of(u64::from_be_bytes(number)))
}

/// Waits until this session has the lock. It ends a session that has it and belongs to a silent
/// proxy, and no other.
async fn wait_for_lock(
    seat: &LeaderLock,
    mut waits: impl FnMut(&str),
) -> Result<ObservedLeader, ReplicationError> {
    let mut watched = ObservedLeader::default();
    let (mut seen, mut reported) = (String::new(), String::new());
    while !seat.try_lock().await? {
        let look = seat.look().await?;
        watched.note(look.beat, BootTime::now());
        // Only a holder that is there for more than one look counts: a proxy that has just been
        // killed is no reason to wait.
        if look.holder.is_some() && look.name == seen && look.name != reported {
            waits(&look.name);
            reported.clone_from(&look.name);
        }
        seen = look.name;
        if let Some(LockHolder::Other(process)) = look.holder
            && watched.is_silent()
        {
            seat.end_session(process).await?;
        }
        sleep(LOOK_INTERVAL).await;
    }
    Ok(watched)
}

impl ProxyLeadership {
    /// Gives up at once. Returns when the primary knows, so that another proxy need not wait.
    pub async fn give_up(mut self) {
        self.lease.end();
        let (done, is_done) = oneshot::channel();
        if let Some(give_up) = self.give_up.take()
            && give_up.send(done).is_ok()
        {
            // Otherwise another one waits until the lease has run out.
            let _ = timeout(GIVE_UP_MAX, is_done).await;
        }
    }
}

impl Drop for ProxyLeadership {
    fn drop(&mut self) {
        self.lease.end();
    }
}

/// Another proxy is the active one.
struct LeadershipLost;

/// Keeps the session that has the lock.
struct LockKeeper {
    primary: Address,
    candidate: LockCandidate,
    seat: LeaderLock,
    /// The last that was shown.
    last: LeaderHeartbeat,
    lease: Lease,
    entries: mpsc::Receiver<LedgerEntry>,
    requests: mpsc::Receiver<RegisterRequest>,
    /// The content that the register must have again, as its present content was confirmed to no
    /// client.
    taken_back: Option<RegisterChange>,
}

impl LockKeeper {
    /// Ends the processes of earlier proxies at the primary, and waits until no other proxy is
    /// active.
    async fn fence(&mut self, alone: BootTime) -> Result<(), ReplicationError> {
        let mut shown = None;
        loop {
            // Standbys must not take this one for silent.
            if shown.is_none_or(|shown: Instant| shown.elapsed() >= BEAT_INTERVAL) {
                shown = Some(Instant::now());
                self.last.number += 1;
                self.seat.beat(self.last).await?;
            }
            let is_alone = BootTime::now() >= alone;
            if self.seat.fence().await? == 0 && is_alone {
                break;
            }
            sleep(FENCE_INTERVAL).await;
        }
        self.seat.forget_backends().await?;
        self.beat().await
    }

    /// Runs until the proxy gives up, or another one is active.
    async fn run(mut self, mut given_up: oneshot::Receiver<oneshot::Sender<()>>) {
        let ended = loop {
            tokio::select! {
                given_up = &mut given_up => break Some(given_up.ok()),
                _problem = self.serve() => {}
            }
            tokio::select! {
                given_up = &mut given_up => break Some(given_up.ok()),
                rejoined = self.rejoin() => if rejoined.is_err() {
                    break None;
                },
            }
        };
        self.lease.end();
        if let Some(done) = ended {
            // If this fails, another one waits until the lease has run out.
            let _ = self.seat.release(self.last.epoch).await;
            if let Some(done) = done {
                let _ = done.send(());
            }
        }
    }

    /// Shows beats, writes down entries and changes the register. Returns when the session is of no
    /// use any more.
    async fn serve(&mut self) -> ReplicationError {
        let mut beat = interval(BEAT_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                // A ledger is kept as long as any proxy could write.
                Some(entry) = self.entries.recv() => self.write_down(entry).await,
                Some(request) = self.requests.recv() => self.register(request).await,
                _ = beat.tick() => self.beat().await,
            };
            if let Err(problem) = done {
                return problem;
            }
        }
    }

    async fn beat(&mut self) -> Result<(), ReplicationError> {
        let asked = BootTime::now();
        self.last.number += 1;
        let has_standby = self.seat.beat(self.last).await?;
        self.lease.sees_standby(has_standby);
        self.lease.prove(asked);
        if self.last.number.is_multiple_of(PRUNE_INTERVAL) {
            self.seat.prune().await?;
        }
        self.take_back().await
    }

    /// Makes the requested change and confirms it, or takes it back.
    async fn register(&mut self, request: RegisterRequest) -> Result<(), ReplicationError> {
        self.take_back().await?;
        // A waiting caller sees the failure, as the channel is dropped.
        if self.taken_back.is_some() || request.done.is_closed() {
            return Ok(());
        }
        self.taken_back = Some(request.before);
        let changed = self.seat.register(&request.change, self.last.epoch);
        let changed = changed.await?;
        let has_failed = changed.is_err();
        if request.done.send(changed).is_ok() || has_failed {
            self.taken_back = None;
        }
        self.take_back().await
    }

    /// Takes back a change that was not confirmed. Where the primary refuses it, the next beat
    /// tries again.
    async fn take_back(&mut self) -> Result<(), ReplicationError> {
        if let Some(change) = &self.taken_back
            && self.seat.register(change, self.last.epoch).await?.is_ok()
        {
            self.taken_back = None;
        }
        Ok(())
    }

    async fn write_down(&mut self, entry: LedgerEntry) -> Result<(), ReplicationError> {
        let mut entries = vec![entry];
        while entries.len() < ENTRIES_AT_ONCE
            && let Ok(entry) = self.entries.try_recv()
        {
            entries.push(entry);
        }
        let processes: Vec<u32> = entries.iter().map(|entry| entry.process).collect();
        let written = self.seat.write_down(&processes).await?;
        for entry in entries {
            if written.contains(&entry.process) {
                // The caller may have given up.
                let _ = entry.written.send(());
            }
        }
        Ok(())
    }

    /// Acquires the lock again after the session was lost, unless another proxy has it.
    async fn rejoin(&mut self) -> Result<(), LeadershipLost> {
        loop {
            match self.try_rejoin().await {
                Ok(ended) => return ended,
                // The primary may be down: then no proxy is active.
                Err(_) => sleep(RETRY_WAIT_MIN).await,
            }
        }
    }

    async fn try_rejoin(&mut self) -> Result<Result<(), LeadershipLost>, ReplicationError> {
        let seat = LeaderLock::open(&self.primary, &self.candidate).await?;
        while !seat.try_lock().await? {
            match seat.look().await?.holder {
                // The session that is lost. The primary has not noticed.
                Some(LockHolder::Own(process)) => seat.end_session(process).await?,
                Some(LockHolder::Other(_)) => return Ok(Err(LeadershipLost)),
                Some(LockHolder::Stranger) | None => sleep(LOOK_INTERVAL).await,
            }
        }
        if seat.epoch().await? != self.last.epoch {
            seat.unlock().await?;
            return Ok(Err(LeadershipLost));
        }
        self.seat = seat;
        self.beat().await?;
        Ok(Ok(()))
    }
}
