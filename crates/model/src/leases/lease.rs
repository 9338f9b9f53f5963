//! Models how the requesting core gets leases from the other cores, and which reads it may answer
//! under them.

use super::case::LeaseCase;
use super::planted::LeaseBug;
use super::state::TableConfiguration;
use super::state::{ASKER, CORES_MAX, LEASE, LeaseExchange, LeaseGrant, LeaseState};

/// The model of leases for one small cluster: its possible steps, and the invariants to check. With
/// `bug`, the model breaks one rule of docs/rules.md.
#[derive(Clone, Debug)]
pub struct LeaseRules {
    /// The cluster, and the events that may happen in it.
    pub case: LeaseCase,
    /// The planted bug.
    pub bug: Option<LeaseBug>,
    /// Renamings of cores that give the same case.
    pub permutations: Vec<[usize; CORES_MAX]>,
}

impl LeaseRules {
    /// Returns the rules of `case`, with `bug` planted.
    pub fn new(case: LeaseCase, bug: Option<LeaseBug>) -> LeaseRules {
        let alike: Vec<usize> = (0..CORES_MAX)
            .filter(|core| case.alike >> core & 1 != 0)
            .collect();
        let mut permutations = Vec::new();
        for order in orders(&alike) {
            let mut names = std::array::from_fn(|core| core);
            for (core, name) in alike.iter().zip(order) {
                names[*core] = name;
            }
            permutations.push(names);
        }
        LeaseRules {
            case,
            bug,
            permutations,
        }
    }

    /// Returns whether this bug is planted.
    pub fn is(&self, bug: LeaseBug) -> bool {
        self.bug == Some(bug)
    }

    /// Drops the parts of the state on which no later step depends, so that fewer states differ.
    pub fn forget_idle(&self, state: &mut LeaseState) {
        let (newest, asker) = (state.newest, state.cores[ASKER].number);
        for number in 1..newest {
            let known = state.cores.iter().any(|core| core.number == number);
            let configuration = &mut state.configurations[usize::from(number)];
            let epoch = if number < asker && !known {
                0
            } else {
                configuration.epoch
            };
            if number < asker {
                *configuration = TableConfiguration {
                    epoch,
                    sealed: configuration.sealed && known,
                    ..TableConfiguration::default()
                };
            }
        }
        let current = state.current();
        for (number, core) in state.cores.iter_mut().enumerate() {
            let matters = current.holders | current.takers;
            if matters >> number & 1 == 0 && number != ASKER {
                core.vouched_age = LEASE;
                core.process_age = LEASE;
            }
        }
    }

    /// Lets a lease's worth of time pass.
    pub fn tick(&self, state: &mut LeaseState) -> bool {
        let older = |age: &mut u8| *age = (*age + 1).min(LEASE);
        older(&mut state.coordinator_age);
        for core in &mut state.cores {
            older(&mut core.process_age);
            older(&mut core.vouched_age);
            if core.reported {
                older(&mut core.reported_age);
            }
            if let Some(exchange) = &mut core.exchange {
                older(&mut exchange.age);
            }
            if let Some(grant) = &mut core.grant {
                older(&mut grant.age);
            }
            // A grant or an exchange that is too old to count for anything is as good as lost.
            core.grant = core.grant.filter(|grant| grant.age < LEASE);
            let late = self.is(LeaseBug::CountsFromArrival);
            core.exchange = core
                .exchange
                .filter(|exchange| late || exchange.age < LEASE);
        }
        true
    }

    /// Sends a lease request to a core. A newer request replaces an older one.
    pub fn ask(&self, state: &mut LeaseState, voucher: usize) -> bool {
        if voucher == ASKER {
            return false;
        }
        state.cores[voucher].exchange = Some(LeaseExchange {
            number: state.cores[ASKER].number,
            age: 0,
            answered: false,
        });
        true
    }

    /// Answers a lease request, if the vouching core knows no change that the requesting core does
    /// not know. With `ghost`, the voucher's process from before its restart answers.
    pub fn vouch(&self, state: &mut LeaseState, voucher: usize, ghost: bool) -> bool {
        let core = &mut state.cores[voucher];
        let number = match ghost {
            true => core.ghost,
            false => Some(core.number),
        };
        let (Some(exchange), Some(number)) = (&mut core.exchange, number) else {
            return false;
        };
        let knows_more = number > exchange.number && !self.is(LeaseBug::NumbersUnchecked);
        if exchange.answered || knows_more {
            return false;
        }
        exchange.answered = true;
        exchange.number = number;
        if !ghost {
            core.vouched_age = 0;
        }
        true
    }

    /// Records a core's answer to a lease request. The grant counts from the time of the request.
    pub fn receive(&self, state: &mut LeaseState, voucher: usize) -> bool {
        let number = state.cores[ASKER].number;
        let core = &mut state.cores[voucher];
        let Some(exchange) = core.exchange.filter(|exchange| exchange.answered) else {
            return false;
        };
        core.exchange = None;
        let knows_more = exchange.number > number && !self.is(LeaseBug::NumbersUnchecked);
        if knows_more || self.is(LeaseBug::JudgedAtReceipt) && !self.holds(state, number, voucher) {
            return true;
        }
        let age = match self.is(LeaseBug::CountsFromArrival) {
            true => 0,
            false => exchange.age,
        };
        state.cores[voucher].grant = Some(LeaseGrant {
            number: exchange.number,
            age,
        });
        true
    }

    fn holds(&self, state: &LeaseState, number: u8, voucher: usize) -> bool {
        let configuration = state.configuration(number);
        let holders = match self.is(LeaseBug::TakersVouch) {
            true => configuration.holders | configuration.takers,
            false => configuration.holders,
        };
        holders >> voucher & 1 != 0 || self.is(LeaseBug::StrangersVouch)
    }

    /// Records the coordinator's answer to a heartbeat. A removed server gets no answer.
    pub fn heartbeat(&self, state: &mut LeaseState) -> bool {
        if state.current().holders >> ASKER & 1 == 0 {
            return false;
        }
        state.coordinator_age = 0;
        true
    }

    /// Returns whether the requesting core has a lease of the table, by the changes that it knows.
    fn has_lease(&self, state: &LeaseState) -> bool {
        if state.coordinator_age < LEASE {
            return true;
        }
        let number = state.cores[ASKER].number;
        let configuration = state.configuration(number);
        let counts = |voucher: usize| {
            let Some(grant) = state.cores[voucher].grant else {
                return false;
            };
            let known =
                grant.number >= configuration.epoch || self.is(LeaseBug::StaleVouchersCount);
            let judged =
                self.is(LeaseBug::JudgedAtReceipt) || known && self.holds(state, number, voucher);
            grant.age < LEASE && judged
        };
        let vouchers = (0..self.case.cores.len()).filter(|core| *core != ASKER && counts(*core));
        let needed = match self.is(LeaseBug::OneVoucherSuffices) {
            true => 1,
            false => usize::from(configuration.tolerated.max(1)),
        };
        vouchers.count() >= needed
    }

    /// Returns whether the requesting core could answer a read that misses a write which was
    /// acknowledged in a later epoch.
    pub fn reads_behind(&self, state: &LeaseState) -> bool {
        let known = state.configuration(state.cores[ASKER].number);
        let serves = known.holders >> ASKER & 1 != 0 && !known.sealed;
        serves && known.epoch < state.written && self.has_lease(state)
    }
}

/// Returns the items in every order.
fn orders(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let first = |at: usize| {
        let mut rest = items.to_vec();
        let item = rest.remove(at);
        orders(&rest).into_iter().map(move |order| {
            let mut whole = vec![item];
            whole.extend(order);
            whole
        })
    };
    (0..items.len()).flat_map(first).collect()
}
