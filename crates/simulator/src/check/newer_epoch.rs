//! R15, at the client: if a client's write has no answer, the client learns of a newer epoch soon
//! after another process does, even if the core that it asked is silent.
//!
//! Left out: a client that could not reach the coordinator all the while. The client's use of the
//! newer epoch is judged by the end of its writes (I16) and by the histories.

use protocol::identity::Epoch;

/// The time within which a waiting client learns of an epoch. The client notices a silence after
/// 200 ms, and asks again after a quarter of the time that the silence has lasted.
pub const LEARNS_WITHIN_US: u64 = 1_500_000;

/// A client that waits, and the epoch that it knows.
#[derive(Clone, Copy, Debug)]
pub struct WaitingClient {
    /// The client.
    pub client: u64,
    /// The epoch of the client's configuration.
    pub known: Epoch,
    /// The time since which the client's oldest write has been without a result.
    pub since_us: u64,
}

/// Checks that clients know an epoch some time after it was first sent, if they were waiting at
/// that time and still wait.
///
/// # Errors
/// One of these clients does not know the epoch.
pub fn learned(
    epoch: Epoch,
    announced_us: u64,
    waiting: impl IntoIterator<Item = WaitingClient>,
) -> Result<(), String> {
    for WaitingClient {
        client,
        known,
        since_us,
    } in waiting
    {
        if known < epoch && since_us <= announced_us {
            return Err(format!(
                "client {client} has waited for a write since {since_us} µs and knows epoch {}; \
                 epoch {} was first sent at {announced_us} µs",
                known.0, epoch.0
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_waited_all_the_while_must_know() {
        let waiting = |known, since_us| WaitingClient {
            client: 1,
            known: Epoch(known),
            since_us,
        };
        assert!(learned(Epoch(3), 100, [waiting(3, 50), waiting(2, 101)]).is_ok());
        assert!(learned(Epoch(3), 100, [waiting(3, 50), waiting(2, 100)]).is_err());
    }
}
