//! Moves a coordinator's state between a folder and etcd, while no coordinator uses it.
//!
//! The old place records the move before the new place gets the state, so two coordinators never
//! lead from two copies. After an interruption the operator runs the same move again. Servers and
//! clients only need the addresses of the coordinators that are started afterwards.

use std::path::Path;
use std::time::{Duration, Instant};

use protocol::state::CoordinatorState;

use super::etcd::{
    CampaignOutcome, CoordinatorLease, LEASE_S, LeaderRevisions, LoadError, Record, SaveOutcome,
    StoredState, open,
};
use super::file::StateFolder;
use crate::error::ServerError;
use crate::options::EtcdOptions;

/// The time to wait until a coordinator that was just killed has lost its lease.
const LEADER_GONE_WITHIN: Duration = Duration::from_secs(3 * LEASE_S);
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// The result of a move of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedState {
    /// The cluster of the state.
    pub cluster: u64,
    /// The epoch of the state.
    pub epoch: u64,
    /// The old location.
    pub from: String,
    /// The new location.
    pub to: String,
}

/// Moves the state from a folder to etcd.
///
/// # Errors
/// A coordinator uses the folder or etcd. The folder has no state. Etcd has the state of another
/// cluster, or a state of this cluster that is newer or has not moved. Etcd does not answer, or has
/// no space.
pub fn to_etcd(folder: &Path, options: &EtcdOptions) -> Result<MovedState, ServerError> {
    let folder = StateFolder::open(folder)?;
    let state = folder.load()?.ok_or_else(|| {
        refuse(format!(
            "there is no coordinator's state in {}",
            folder.place()
        ))
    })?;
    let mut office = HeldLeadership::take(options)?;
    let found = office.found.take();
    let same_state = found.as_ref().is_some_and(|found| found.state == state);
    let is_done = |found: &StoredState| found.manifest.moved_to.is_none() && same_state;
    if !found.as_ref().is_some_and(is_done) {
        if let Some(moved) = folder.moved_to()?.filter(|moved| *moved != office.place()) {
            return Err(refuse(format!(
                "the state of {} has moved to {moved} already",
                folder.place()
            )));
        }
        if let Some(found) = &found {
            may_replace(
                &found.state,
                found.manifest.moved_to.is_some(),
                &state,
                &office.place(),
            )?;
        }
    }
    folder.set_moved(Some(&office.place()))?;
    if !found.as_ref().is_some_and(is_done) {
        let term = office.term;
        office.write("keep the state", |record| record.keep(term, &state))?;
    }
    Ok(moved(&state, folder.place(), office.leave()))
}

/// Moves the state from etcd to a folder.
///
/// # Errors
/// As for [`to_etcd`].
pub fn to_file(options: &EtcdOptions, folder: &Path) -> Result<MovedState, ServerError> {
    let mut folder = StateFolder::open(folder)?;
    let mut office = HeldLeadership::take(options)?;
    let nothing = || {
        refuse(format!(
            "there is no coordinator's state in {}",
            office.place()
        ))
    };
    let found = office.found.clone().ok_or_else(nothing)?;
    if let Some(there) = folder.load()?
        && there != found.state
    {
        let has_moved = folder.moved_to()?.is_some();
        may_replace(&there, has_moved, &found.state, &folder.place())?;
    }
    match &found.manifest.moved_to {
        None => {
            let (term, place) = (office.term, folder.place());
            let what = "record in etcd that the state moves";
            office.write(what, |record| record.hand_over(term, &found, &place))?;
        }
        Some(place) if *place == folder.place() => {}
        Some(place) => {
            return Err(refuse(format!(
                "the state in {} has moved to {place} already",
                office.place()
            )));
        }
    }
    folder.replace(found.state.clone())?;
    folder.set_moved(None)?;
    Ok(moved(&found.state, office.leave(), folder.place()))
}

/// Checks that a state may replace another one: an abandoned state of the same cluster, and not a
/// later one.
fn may_replace(
    there: &CoordinatorState,
    has_moved: bool,
    state: &CoordinatorState,
    place: &str,
) -> Result<(), ServerError> {
    let (old, new) = (there.configuration.cluster, state.configuration.cluster);
    if old != new {
        return Err(refuse(format!(
            "{place} holds the state of cluster {old:016x}, and this is cluster {new:016x}: name \
             another place"
        )));
    }
    if !has_moved || there.version > state.version {
        return Err(refuse(format!(
            "{place} holds a state of this cluster, version {}, that is in use; the new state is \
             version {}",
            there.version, state.version
        )));
    }
    Ok(())
}

fn moved(state: &CoordinatorState, from: String, to: String) -> MovedState {
    MovedState {
        cluster: state.configuration.cluster,
        epoch: state.configuration.epoch.0,
        from,
        to,
    }
}

fn refuse(message: String) -> ServerError {
    ServerError::Folder(message)
}

/// The leadership in etcd, which a move of the state holds while it runs.
struct HeldLeadership {
    record: Record,
    seat: CoordinatorLease,
    term: LeaderRevisions,
    found: Option<StoredState>,
}

impl HeldLeadership {
    /// Acquires the leadership, once no coordinator leads.
    fn take(options: &EtcdOptions) -> Result<HeldLeadership, ServerError> {
        let mut record = open(options, "a migration".to_owned())?;
        let seat = record
            .enter(LEASE_S)
            .map_err(|error| refuse(error.to_string()))?;
        let begin = Instant::now();
        loop {
            match record.campaign(seat) {
                Ok(CampaignOutcome::Won(made_at)) => {
                    return HeldLeadership::enter(record, seat, made_at);
                }
                Ok(CampaignOutcome::Lost(leader)) if begin.elapsed() > LEADER_GONE_WITHIN => {
                    let _ = record.leave(seat);
                    return Err(refuse(format!(
                        "the coordinator at {leader} leads: stop all coordinators first; reads \
                         and writes go on meanwhile"
                    )));
                }
                Ok(CampaignOutcome::Lost(_)) => {
                    std::thread::sleep(ASK_PAUSE);
                    // Its own lease is shorter than the wait.
                    record
                        .renew(seat)
                        .map_err(|error| refuse(error.to_string()))?;
                }
                Err(error) => return Err(refuse(error.to_string())),
            }
        }
    }

    fn enter(
        mut record: Record,
        seat: CoordinatorLease,
        made_at: i64,
    ) -> Result<HeldLeadership, ServerError> {
        let found = record.load().map_err(|error| match error {
            LoadError::Gateway(error) => refuse(error.to_string()),
            LoadError::Unusable(error) => error,
        })?;
        let changed_at = found.as_ref().map_or(0, |found| found.changed_at);
        let term = LeaderRevisions {
            made_at,
            changed_at,
        };
        Ok(HeldLeadership {
            record,
            seat,
            term,
            found,
        })
    }

    fn place(&self) -> String {
        self.record.place()
    }

    fn write<E: std::fmt::Display>(
        &mut self,
        what: &str,
        write: impl FnOnce(&mut Record) -> Result<SaveOutcome, E>,
    ) -> Result<(), ServerError> {
        match write(&mut self.record) {
            Ok(SaveOutcome::Kept(_)) => Ok(()),
            Ok(SaveOutcome::Deposed | SaveOutcome::Overwritten) => Err(refuse(format!(
                "cannot {what}: another coordinator leads in {} by now; run the same command again",
                self.place()
            ))),
            Err(error) => Err(refuse(format!(
                "cannot {what}: {error}; run the same command again"
            ))),
        }
    }

    /// Releases the leadership. Returns the location of the state in etcd.
    fn leave(mut self) -> String {
        // A lease that is not given back runs out.
        let _ = self.record.leave(self.seat);
        self.place()
    }
}
