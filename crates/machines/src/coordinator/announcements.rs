//! Announcements: cores hear of a new epoch at once, not only with the answer to their next
//! heartbeat. Otherwise whatever waits for cores to know an epoch (a new table, a copy that comes)
//! would wait for their heartbeats, too.
//!
//! An announcement is a hint: the core fetches the configuration that it names, and what was lost
//! on the way comes with the next heartbeat's answer. Like every answer it leaves only once the
//! state that it is about is kept.

use alloc::collections::BTreeMap;

use protocol::identity::{CoreId, Epoch, ServerId};
use protocol::message::CoordinatorReply;

use super::{AskerId, Coordinator, CoordinatorAnswer, CoordinatorOutput};

/// Connections on which cores send heartbeats.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    cores: BTreeMap<CoreId, Listener>,
}

#[derive(Debug)]
struct Listener {
    connection: AskerId,
    /// The newest epoch that this connection was told of.
    told: Epoch,
}

impl Listeners {
    /// A core's heartbeat came on this connection, and its answer names this epoch.
    pub fn heard(&mut self, core: CoreId, connection: AskerId, told: Epoch) {
        self.cores.insert(core, Listener { connection, told });
    }

    /// A connection is gone.
    pub fn gone(&mut self, connection: AskerId) {
        self.cores
            .retain(|_, listener| listener.connection != connection);
    }

    /// A server is down or has left: it hears of epochs when it sends heartbeats again.
    pub fn forget(&mut self, server: ServerId) {
        self.cores.retain(|core, _| core.server != server);
    }
}

impl Coordinator {
    /// Announces the present epoch to every core that was not told of it.
    pub(super) fn announce(&mut self, output: &mut CoordinatorOutput) {
        let epoch = self.state.configuration.epoch;
        for listener in self.listeners.cores.values_mut() {
            if listener.told < epoch {
                listener.told = epoch;
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
