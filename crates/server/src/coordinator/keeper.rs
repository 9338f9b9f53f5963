//! The interface between the coordinator's event loop and its keeper. The keeper stores the state,
//! and decides which coordinator may write it.
//!
//! Invariants: Between two `KeeperEvent::Lead` the coordinator leads with at most one state.
//! `KeeperEvent::Kept` is sent only for states of the present leadership, and means that every
//! later leader begins with that state or a newer one. Before another coordinator begins to lead,
//! `leads_until_us` has passed at this one.

use protocol::message::Leadership;
use protocol::state::CoordinatorState;

use crate::error::ServerError;

/// A keeper's event for the coordinator's role.
#[derive(Debug)]
pub(super) enum KeeperEvent {
    /// This coordinator leads, beginning with this state.
    Lead {
        state: Box<CoordinatorState>,
        reason: String,
    },
    /// The state with this version is stored.
    Kept(u64),
    /// This coordinator does not lead any more.
    Follow,
}

/// A place that stores the state.
pub(super) trait StateKeeper: Send {
    /// Returns the next event; none if there is none.
    ///
    /// # Errors
    /// A fault that ends a coordinator: the state is unusable, or its keeper failed.
    fn next_event(&mut self) -> Result<Option<KeeperEvent>, ServerError>;

    /// Keeps a state in place of the one before; [`KeeperEvent::Kept`] comes when it is. A later
    /// one may be asked for before that, and counts for both.
    ///
    /// # Errors
    /// As for [`StateKeeper::next_event`].
    fn keep(&mut self, state: CoordinatorState) -> Result<(), ServerError>;

    /// Records that the role has stopped leading without an order of the keeper.
    fn resign(&mut self);

    /// Returns the time until which this coordinator certainly leads, on the process's clock in
    /// microseconds.
    fn leads_until_us(&self) -> u64;

    /// Returns the leader and the standbys, as far as they are known. `leads` is set by the role.
    fn leadership(&self) -> Leadership;

    /// Lets others lead as soon as possible: this process ends.
    fn close(&mut self);
}
