//! Announces new epochs. Cores receive an announcement at once, and not only with the answer to
//! their next heartbeat. Otherwise requests that wait until cores know an epoch (a new table, a new
//! copy) would also wait for the heartbeats. A client that has received no newer configuration than
//! it knows receives one announcement: its requests may wait for a lost server.
//!
//! An announcement is a hint: the receiver fetches the configuration that the announcement names.
//! If the announcement is lost, a core learns of the epoch with the answer to its next heartbeat,
//! and a client asks again. Like every answer, an announcement is sent only once its state is
//! stored.

use alloc::collections::BTreeMap;

use protocol::identity::{CoreId, Epoch, ServerId};
use protocol::message::CoordinatorReply;

use super::{Coordinator, CoordinatorAnswer, CoordinatorOutput, RequesterId};

/// The connections that receive announcements.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// The connections on which cores send heartbeats.
    cores: BTreeMap<CoreId, Listener>,
    /// The connections whose last `Fetch` was answered with `Unchanged`, and the epoch of that
    /// answer. Each receives one announcement.
    fetchers: BTreeMap<RequesterId, Epoch>,
}

#[derive(Debug)]
struct Listener {
    connection: RequesterId,
    /// The newest epoch that was announced on this connection.
    announced: Epoch,
}

impl Listeners {
    /// Records that a core's heartbeat came on this connection, and that its answer carries this
    /// epoch.
    pub fn note_heartbeat(&mut self, core: CoreId, connection: RequesterId, announced: Epoch) {
        self.cores.insert(
            core,
            Listener {
                connection,
                announced,
            },
        );
    }

    /// Records that a `Fetch` on this connection found no epoch after this one.
    pub fn note_fetch(&mut self, connection: RequesterId, epoch: Epoch) {
        self.fetchers.insert(connection, epoch);
    }

    /// Handles the end of a connection.
    pub fn gone(&mut self, connection: RequesterId) {
        self.fetchers.remove(&connection);
        self.cores
            .retain(|_, listener| listener.connection != connection);
    }

    /// Drops a server that is down or deleted. It is announced epochs again once it sends
    /// heartbeats again.
    pub fn forget(&mut self, server: ServerId) {
        self.cores.retain(|core, _| core.server != server);
    }
}

impl Coordinator {
    /// Announces the present epoch to every core that has not received it, and to the clients that
    /// have asked for it.
    pub(super) fn announce(&mut self, output: &mut CoordinatorOutput) {
        let epoch = self.state.configuration.epoch;
        let announcement = |to| CoordinatorAnswer {
            to,
            correlation: 0,
            after: self.state.version,
            reply: CoordinatorReply::NewEpoch { epoch },
        };
        for listener in self.listeners.cores.values_mut() {
            if listener.announced < epoch {
                listener.announced = epoch;
                output.replies.push(announcement(listener.connection));
            }
        }
        self.listeners.fetchers.retain(|connection, known| {
            let is_newest = *known >= epoch;
            if !is_newest {
                output.replies.push(announcement(*connection));
            }
            is_newest
        });
    }
}
