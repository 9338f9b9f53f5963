//! The periodic and delayed tasks of a machine, each with the time at which it is due. The earliest
//! of these times is the deadline of a step.

use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};

use crate::core::CoreMachine;
use crate::core::member::Member;
use crate::core::step::Step;

/// Something to be done at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duty {
    /// Sends the collected confirmations.
    Confirm,
    /// Sends messages again that have had no answer for long.
    Retry,
    /// Repeats messages about transactions, and begins attempts that have paused.
    RepeatTransactions,
    /// Asks covers for rows that partitions lack, and asks the givers of partitions that move here.
    Fill,
    /// Adds missing local entries.
    MakeEntries,
    /// Removes entries outside of ranges, and searches for keys at which ranges should be split.
    WatchRanges,
    /// Ends holds of ranges whose time has passed.
    EndHolds,
    /// Opens and keeps snapshots for clients.
    ReviewOpenings,
    /// Ends expired snapshots, and pauses for expired openings.
    ExpireSnapshots,
    /// Renews leases, repeats questions of recoveries and seals, and ends waits that took too long.
    Heartbeat,
}

impl Duty {
    /// All duties, in the order in which a tick performs them.
    const ALL: [Duty; 10] = [
        Duty::Confirm,
        Duty::Retry,
        Duty::RepeatTransactions,
        Duty::Fill,
        Duty::MakeEntries,
        Duty::WatchRanges,
        Duty::EndHolds,
        Duty::ReviewOpenings,
        Duty::ExpireSnapshots,
        Duty::Heartbeat,
    ];
}

impl CoreMachine {
    /// Performs the duties that are due.
    pub(crate) fn on_tick<T: Tables>(&mut self, step: &mut Step<'_, T>) -> Result<(), TablesError> {
        for duty in Duty::ALL {
            let is_due = self
                .due_us(duty)
                .is_some_and(|due| due <= step.now.monotonic_us);
            if is_due {
                self.perform(duty, step)?;
            }
        }
        Ok(())
    }

    /// Returns the latest time at which the machine must be stepped.
    pub(crate) fn deadline_us(&self) -> u64 {
        let due = Duty::ALL.into_iter().filter_map(|duty| self.due_us(duty));
        due.min().expect("the heartbeat is always due at some time")
    }

    fn due_us(&self, duty: Duty) -> Option<u64> {
        match duty {
            Duty::Confirm => self.confirmations.due_us(),
            Duty::Retry => self.operations.next_retry_us(),
            Duty::RepeatTransactions => self.transactions.due_us(),
            Duty::Fill => self.fills.due_us(),
            Duty::MakeEntries => self.making.due_us(),
            Duty::WatchRanges => self.ranges.due_us(),
            Duty::EndHolds => self.hold_clock.due_us(),
            Duty::ReviewOpenings => self.openings.due_us(),
            Duty::ExpireSnapshots => self.participation.due_us(),
            Duty::Heartbeat => Some(self.leases.next_heartbeat_us()),
        }
    }

    fn perform<T: Tables>(
        &mut self,
        duty: Duty,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        match duty {
            Duty::Confirm => self.send_confirmations(step),
            Duty::Retry => self.retry(step),
            Duty::RepeatTransactions => self.repeat_transactions(step),
            Duty::Fill => {
                self.ask_covers(step.now, step.output);
                Ok(())
            }
            Duty::MakeEntries => self.make_entries(step.now, step.tables),
            Duty::WatchRanges => self.watch_ranges(step),
            Duty::EndHolds => self.drop_holds(None, step),
            Duty::ReviewOpenings => {
                self.review_openings(step.now, step.output);
                Ok(())
            }
            Duty::ExpireSnapshots => self.expire_snapshots(step),
            Duty::Heartbeat => {
                self.leases
                    .heartbeat_at(step.now.monotonic_us + self.limits.heartbeat_us);
                self.heartbeat(step.now, step.output);
                self.recover_again(step.output);
                self.ask_sealed(None, step.output);
                self.refuse_old_requests(step.now, step.output);
                self.drop_old_walks(step)?;
                self.ask_coordinators(step.now, step.output);
                self.drop_reads(None, step)?;
                self.end_long_waits(step)
            }
        }
    }

    /// Ends every wait for a key that has taken too long, with the vote `Conflict` (R8).
    fn end_long_waits<T: Tables>(&mut self, step: &mut Step<'_, T>) -> Result<(), TablesError> {
        let deadline = step
            .now
            .monotonic_us
            .saturating_sub(self.limits.wait_us_max);
        let late = |member: &Member| {
            member.prepared_at().is_none() && member.since_us < deadline && member.may_refuse()
        };
        let members = self.members.iter().filter(|(_, member)| late(member));
        let late_keys: Vec<_> = members.map(|(key, _)| *key).collect();
        for key in late_keys {
            // An earlier one of the list may have let it in.
            if self.members.get(&key).is_some_and(late) {
                self.give_up(key, step)?;
            }
        }
        Ok(())
    }
}
