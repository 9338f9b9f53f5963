//! One state: the changes so far, the changes that each core knows, and the leases of the
//! requesting core.

use super::case::LeaseCase;
use crate::packing::packed_structs;

/// The largest number of cores in a case.
pub const CORES_MAX: usize = 5;
/// The largest number of changes in a case, including the initial state.
pub const NUMBERS_MAX: usize = 8;
/// The requesting core: the core that requests leases from the others.
pub const ASKER: usize = 0;
/// The age at which a lease has ended.
pub const LEASE: u8 = 1;

/// One step of the model. Cores are indexes into the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// A lease's worth of time passes.
    Tick,
    /// The requesting core asks another core to vouch for it.
    Ask(usize),
    /// A core answers the question, or its process from before its restart does.
    Vouch(usize, bool),
    /// The answer arrives.
    Receive(usize),
    /// The coordinator answers a heartbeat of the requesting core.
    Heartbeat,
    /// A core learns of the next change.
    Learn(usize),
    /// A core reports that it has sealed the table and has resolved all operations.
    Report(usize),
    /// A core restarts, which is a change of its tables.
    Restart(usize),
    /// The coordinator seals the table and removes these cores from it.
    Seal(u8),
    /// The coordinator lets the table serve, and makes the changes that wait for this.
    Serve(bool),
    /// A place of the table begins to move.
    BeginMove,
    /// The move is cancelled.
    CancelMove,
    /// A copy is dropped.
    DropCopy,
    /// The table tolerates one more failure.
    RaiseTolerance,
    /// Another table changes.
    ChangeOther,
    /// A write of the table is acknowledged.
    Write,
}

packed_structs! {
    /// The configuration of the table that the coordinator states in one change.
    TableConfiguration {
        /// The number of the last change that concerned the table.
        epoch: u8,
        /// Chains of the table are blocked.
        sealed: bool,
        /// Cores that hold a partition of it, as a set.
        holders: u8,
        /// Cores that will receive a partition of it, as a set.
        takers: u8,
        /// Failures that it tolerates.
        tolerated: u8,
    }

    /// A lease request to one core, or the core's answer.
    LeaseExchange {
        /// The number of the requesting core's last change; once answered, that of the vouching
        /// core.
        number: u8,
        /// How long ago the question was sent.
        age: u8,
        /// Whether it is the answer.
        answered: bool,
    }

    /// The grant that the requesting core has from one vouching core.
    LeaseGrant {
        /// The voucher's number.
        number: u8,
        /// How long ago it was asked for.
        age: u8,
    }

    /// One core.
    LeaseCore {
        /// The newest change that it has taken up.
        number: u8,
        /// How long ago its process began.
        process_age: u8,
        /// How long ago this process last vouched for the requesting core.
        vouched_age: u8,
        /// Whether it has reported from the newest sealing.
        reported: bool,
        /// How long ago it last vouched, by that report.
        reported_age: u8,
        /// The number of the process before, if that runs on.
        ghost: Option<u8>,
        /// A question to it, or its answer.
        exchange: Option<LeaseExchange>,
        /// The grant that the requesting core has from it.
        grant: Option<LeaseGrant>,
    }

    /// A state of the model.
    LeaseState {
        /// The number of the newest change.
        newest: u8,
        /// By number.
        configurations: [TableConfiguration; NUMBERS_MAX],
        /// Cores that were removed since the table last served, as a set.
        removed: u8,
        /// By core.
        cores: [LeaseCore; CORES_MAX],
        /// The time since the requesting core sent the heartbeat that the coordinator answered
        /// last.
        coordinator_age: u8,
        /// The epoch of the newest write that was acknowledged without the requesting core; 0 for
        /// none.
        written: u8,
        /// Sealings that may still begin.
        seals_left: u8,
        /// Ordinary changes of the table that may still come.
        changes_left: u8,
        /// Changes of other tables that may still come.
        others_left: u8,
        /// Restarts that may still happen.
        restarts_left: u8,
    }
}

impl LeaseState {
    /// Returns the initial state: all cores know the first change, and no request is outstanding.
    pub fn start(case: &LeaseCase) -> LeaseState {
        let mut state = LeaseState {
            newest: 1,
            coordinator_age: LEASE,
            seals_left: case.seals,
            changes_left: case.changes,
            others_left: case.others,
            restarts_left: case.restarts,
            ..LeaseState::default()
        };
        state.configurations[1] = TableConfiguration {
            epoch: 1,
            holders: case.holders,
            tolerated: case.tolerated,
            ..TableConfiguration::default()
        };
        for core in &mut state.cores[..case.cores.len()] {
            *core = LeaseCore {
                number: 1,
                process_age: LEASE,
                vouched_age: LEASE,
                ..LeaseCore::default()
            };
        }
        state
    }

    /// Returns the configuration of this number.
    pub fn configuration(&self, number: u8) -> TableConfiguration {
        self.configurations[usize::from(number)]
    }

    /// Returns the newest configuration.
    pub fn current(&self) -> TableConfiguration {
        self.configuration(self.newest)
    }

    /// Returns the state with the cores renamed.
    pub fn renamed(&self, names: &[usize; CORES_MAX]) -> LeaseState {
        let set = |cores: u8| {
            let present = (0..CORES_MAX).filter(|core| cores >> core & 1 != 0);
            present.fold(0, |renamed, core| renamed | 1 << names[core])
        };
        let mut renamed = *self;
        renamed.removed = set(self.removed);
        for configuration in &mut renamed.configurations {
            configuration.holders = set(configuration.holders);
            configuration.takers = set(configuration.takers);
        }
        for (core, name) in names.iter().enumerate() {
            renamed.cores[*name] = self.cores[core];
        }
        renamed
    }

    /// Adds a change of the table or of another table. Returns false if the case permits no further
    /// change.
    pub fn change(&mut self, concerns: bool, configuration: TableConfiguration) -> bool {
        if usize::from(self.newest) + 1 == NUMBERS_MAX {
            return false;
        }
        self.newest += 1;
        let epoch = match concerns {
            true => self.newest,
            false => configuration.epoch,
        };
        self.configurations[usize::from(self.newest)] = TableConfiguration {
            epoch,
            ..configuration
        };
        if concerns {
            for core in &mut self.cores {
                core.reported = false;
                core.reported_age = 0;
            }
        }
        true
    }
}
