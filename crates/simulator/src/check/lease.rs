//! R15: a read leaves a core only under a lease that was really given to it, and a request of
//! another epoch is refused.
//!
//! The simulator sees both ends: when a renewal was asked for in true time, and when its answer
//! arrived. What the machine makes of it is compared with that.

use std::collections::{BTreeMap, BTreeSet};

use protocol::identity::{CoreId, Epoch, ServerId};
use protocol::machine::ClientId;

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
}

impl Leases {
    /// A core has started anew.
    pub fn started(&mut self, core: CoreId) {
        self.cores.insert(core, Given::default());
    }

    /// The coordinator's answer has arrived at a core; asked and counted in true time.
    pub fn beaten(&mut self, core: CoreId, until_us: u64) {
        let given = self.cores.entry(core).or_default();
        given.coordinator_until_us = given.coordinator_until_us.max(until_us);
    }

    /// A peer's vouching has arrived at a core that is in this epoch.
    pub fn vouched(&mut self, core: CoreId, by: ServerId, epoch: Epoch, until_us: u64) {
        let given = self.cores.entry(core).or_default();
        if given.epoch != epoch {
            given.epoch = epoch;
            given.vouched_until_us.clear();
        }
        let until = given.vouched_until_us.entry(by).or_default();
        *until = until_us.max(*until);
    }

    /// A core answers a read at `now_us`.
    pub fn answers(
        &self,
        core: CoreId,
        epoch: Epoch,
        failures: usize,
        now_us: u64,
    ) -> Result<(), String> {
        let Some(given) = self.cores.get(&core) else {
            return Err(format!("{core} answers, but was never given a lease"));
        };
        let mut vouched: Vec<u64> = given.vouched_until_us.values().copied().collect();
        vouched.sort_unstable_by(|a, b| b.cmp(a));
        let by_peers = vouched.get(failures.max(1) - 1).copied().unwrap_or(0);
        let by_peers = if given.epoch == epoch { by_peers } else { 0 };
        let until_us = given.coordinator_until_us.max(by_peers);
        if until_us < now_us {
            return Err(format!(
                "{core} answers a read at {now_us}, its lease ended at {until_us}"
            ));
        }
        Ok(())
    }

    /// A request has come with another epoch than the core's.
    pub fn mismatched(&mut self, client: ClientId, correlation: u64) {
        self.mismatched.insert((client, correlation));
    }

    /// A request is answered with something else than a refusal.
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
        assert!(leases.answers(core, Epoch(1), 1, 5).is_err());
        leases.beaten(core, 10);
        assert_eq!(leases.answers(core, Epoch(1), 2, 10), Ok(()));
        assert!(leases.answers(core, Epoch(1), 2, 11).is_err());
        leases.vouched(core, ServerId(2), Epoch(1), 30);
        assert!(leases.answers(core, Epoch(1), 2, 11).is_err());
        assert_eq!(leases.answers(core, Epoch(1), 1, 11), Ok(()));
        leases.vouched(core, ServerId(3), Epoch(1), 20);
        assert_eq!(leases.answers(core, Epoch(1), 2, 20), Ok(()));
        assert!(leases.answers(core, Epoch(1), 2, 21).is_err());
        assert!(leases.answers(core, Epoch(2), 2, 15).is_err());
        leases.started(core);
        assert!(leases.answers(core, Epoch(1), 0, 5).is_err());
    }

    #[test]
    fn a_mismatched_request_may_only_be_refused() {
        let mut leases = Leases::default();
        leases.mismatched(ClientId(3), 7);
        assert!(leases.served(ClientId(3), 7).is_err());
        assert_eq!(leases.served(ClientId(3), 8), Ok(()));
    }
}
