//! R15: a read leaves a core only under a lease that was really given to it, and a request of
//! another epoch is refused.
//!
//! The simulator sees both ends: when a renewal was asked for in true time, and when its answer
//! arrived. What the machine makes of it is compared with that. A lease is a promise about time:
//! a reply may leave under one that was given in an epoch before.

use std::collections::{BTreeMap, BTreeSet};

use machines::core::ClientId;
use protocol::identity::{CoreId, Epoch, ServerId};

/// The leases that were given.
#[derive(Debug, Default)]
pub struct Leases {
    cores: BTreeMap<CoreId, Given>,
    /// Requests that came with another epoch than the core's.
    mismatched: BTreeSet<(ClientId, u64)>,
}

#[derive(Debug, Default)]
struct Given {
    epoch: Epoch,
    coordinator_until_us: u64,
    vouched_until_us: BTreeMap<ServerId, u64>,
    /// The end of the longest lease that enough peers of one epoch have given.
    by_peers_until_us: u64,
}

impl Leases {
    /// Notes that a core has restarted.
    pub fn started(&mut self, core: CoreId) {
        self.cores.insert(core, Given::default());
    }

    /// Notes that the coordinator's answer has arrived at a core; asked and counted in true time.
    pub fn note_lease_renewal(&mut self, core: CoreId, until_us: u64) {
        let given = self.cores.entry(core).or_default();
        given.coordinator_until_us = given.coordinator_until_us.max(until_us);
    }

    /// Notes that a peer's lease grant has arrived at a core that is in this epoch and needs so
    /// many grants.
    pub fn note_lease_grant(
        &mut self,
        core: CoreId,
        (by, epoch): (ServerId, Epoch),
        until_us: u64,
        needed: usize,
    ) {
        let given = self.cores.entry(core).or_default();
        if given.epoch != epoch {
            given.epoch = epoch;
            given.vouched_until_us.clear();
        }
        let until = given.vouched_until_us.entry(by).or_default();
        *until = until_us.max(*until);
        let mut vouched: Vec<u64> = given.vouched_until_us.values().copied().collect();
        vouched.sort_unstable_by(|a, b| b.cmp(a));
        let by_peers_us = vouched.get(needed.max(1) - 1).copied().unwrap_or(0);
        given.by_peers_until_us = given.by_peers_until_us.max(by_peers_us);
    }

    /// Checks the lease of a core that answers a read at `now_us`.
    pub fn answers(&self, core: CoreId, now_us: u64) -> Result<(), String> {
        let Some(given) = self.cores.get(&core) else {
            return Err(format!("{core} answers, but was never given a lease"));
        };
        let until_us = given.coordinator_until_us.max(given.by_peers_until_us);
        if until_us < now_us {
            return Err(format!(
                "{core} answers a read at {now_us}, its lease ended at {until_us}"
            ));
        }
        Ok(())
    }

    /// Notes a request with another epoch than the core's.
    pub fn mismatched(&mut self, client: ClientId, correlation: u64) {
        self.mismatched.insert((client, correlation));
    }

    /// Checks a request that is answered with anything but a refusal.
    pub fn served(&self, client: ClientId, correlation: u64) -> Result<(), String> {
        if self.mismatched.contains(&(client, correlation)) {
            return Err("a request of another epoch was served".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_comes_from_the_coordinator_or_from_enough_peers() {
        let core = CoreId::default();
        let mut leases = Leases::default();
        assert!(leases.answers(core, 5).is_err());
        leases.note_lease_renewal(core, 10);
        assert_eq!(leases.answers(core, 10), Ok(()));
        assert!(leases.answers(core, 11).is_err());
        leases.note_lease_grant(core, (ServerId(2), Epoch(1)), 30, 2);
        assert!(leases.answers(core, 11).is_err());
        leases.note_lease_grant(core, (ServerId(3), Epoch(1)), 20, 2);
        assert_eq!(leases.answers(core, 20), Ok(()));
        assert!(leases.answers(core, 21).is_err());
        // One of the next epoch takes nothing back, and adds nothing alone.
        leases.note_lease_grant(core, (ServerId(3), Epoch(2)), 40, 2);
        assert_eq!(leases.answers(core, 20), Ok(()));
        assert!(leases.answers(core, 21).is_err());
        leases.started(core);
        assert!(leases.answers(core, 5).is_err());
    }

    #[test]
    fn a_mismatched_request_may_only_be_refused() {
        let mut leases = Leases::default();
        leases.mismatched(ClientId(3), 7);
        assert!(leases.served(ClientId(3), 7).is_err());
        assert_eq!(leases.served(ClientId(3), 8), Ok(()));
    }
}
