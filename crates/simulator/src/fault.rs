//! The kinds of faults, and how often the seed wants each.

use crate::plan::Faults;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A connection breaks.
    Break,
    /// A direction is clogged.
    Clog,
    /// A process dies.
    Crash,
    /// All processes die.
    PowerCut,
    /// A process stands still.
    Pause,
    /// A wall clock steps.
    ClockStep,
    /// The coordinator restarts.
    Coordinator,
    /// A process dies and stays down for long.
    Loss,
    /// The coordinator ends the epochs before of a table.
    Seal,
    /// An operator has a server drained, or no longer.
    Drain,
    /// The table gets a copy more or one less.
    Copies,
    /// A server stops in order.
    Stop,
    /// All servers are restarted in order.
    Rolling,
    /// The coordinator stands still, and another one takes its place.
    Deposition,
    /// A client dies.
    Client,
    /// A disk is full.
    Full,
    /// The coordinator starts after it died.
    CoordinatorStarts,
    /// Another coordinator takes the place of one that stands still.
    Succession,
}

impl Fault {
    /// Faults that come by themselves.
    pub const ALL: &[Fault] = &[
        Fault::Break,
        Fault::Clog,
        Fault::Crash,
        Fault::PowerCut,
        Fault::Pause,
        Fault::ClockStep,
        Fault::Coordinator,
        Fault::Loss,
        Fault::Seal,
        Fault::Drain,
        Fault::Copies,
        Fault::Stop,
        Fault::Rolling,
        Fault::Client,
        Fault::Full,
        Fault::Deposition,
    ];

    /// Returns the mean time between two of this kind; 0 if the seed drew none.
    pub fn every_us(self, faults: &Faults) -> u64 {
        match self {
            Fault::Break => faults.break_every_us,
            Fault::Clog => faults.clog_every_us,
            Fault::Crash => faults.crash_every_us,
            Fault::PowerCut => faults.power_cut_every_us,
            Fault::Pause => faults.pause_every_us,
            Fault::ClockStep => faults.clock_step_every_us,
            Fault::Coordinator => faults.coordinator_every_us,
            Fault::Loss => faults.loss_every_us,
            Fault::Seal => faults.seal_every_us,
            Fault::Drain => faults.drain_every_us,
            Fault::Copies => faults.copies_every_us,
            Fault::Stop => faults.stop_every_us,
            Fault::Rolling => faults.rolling_every_us,
            Fault::Client => faults.client_every_us,
            Fault::Full => faults.full_every_us,
            Fault::Deposition => faults.deposition_every_us,
            Fault::CoordinatorStarts | Fault::Succession => 0,
        }
    }
}
