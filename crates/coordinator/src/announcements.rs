//! Announces new epochs. Cores receive an announcement at once, and not only with the answer to
//! their next heartbeat. Otherwise requests that wait until cores know an epoch (a new table, a new
//! copy) would also wait for the heartbeats.
//!
//! An announcement is a hint: the core fetches the configuration that the announcement names. If
//! the announcement is lost, the core learns of the epoch with the answer to its next heartbeat.
//! Like every answer, an announcement is sent only once its state is stored.

use alloc::collections::BTreeMap;

use protocol::identity::{CoreId, Epoch, ServerId};
use protocol::message::CoordinatorReply;

use super::{Coordinator, CoordinatorAnswer, CoordinatorOutput, RequesterId};

/// The connections on which cores send heartbeats.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    cores: BTreeMap<CoreId, Listener>,
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

    /// Handles the end of a connection.
    pub fn gone(&mut self, connection: RequesterId) {
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
    /// Announces the present epoch to every core that has not received it.
    pub(super) fn announce(&mut self, output: &mut CoordinatorOutput) {
        let epoch = self.state.configuration.epoch;
        for listener in self.listeners.cores.values_mut() {
            if listener.announced < epoch {
                listener.announced = epoch;
                output.replies.push(CoordinatorAnswer {
                    to: listener.connection,
                    correlation: 0,
                    after: self.state.version,
                    reply: CoordinatorReply::NewEpoch { epoch },
                });
            }
        }
    }
}
