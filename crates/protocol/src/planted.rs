//! Planted bugs: each breaks one rule of docs/rules.md on purpose, so that the simulator can prove
//! that it would notice. Without the feature `planted`, [`is`] is the constant false and nothing of
//! this remains in a binary.
//!
//! A hook is written where the rule is kept: `if planted::is(Bug::X) { … }`. One bug is selected at
//! a time, for the whole process. No run finds a bug without a hook, so the simulator's gate fails
//! for it: the list and the hooks cannot drift apart.

macro_rules! bugs {
    ($($(#[doc = $text:literal])+ $bug:ident = $name:literal, $rule:literal;)+) => {
        /// One mutation of the rules.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[doc = $text])+ $bug,)+
        }

        impl Bug {
            /// Every bug, by rule.
            pub const ALL: &[Bug] = &[$(Bug::$bug),+];

            /// Returns what the command line calls it.
            pub fn name(self) -> &'static str {
                match self { $(Bug::$bug => $name),+ }
            }

            /// Returns the rule that it breaks.
            pub fn rule(self) -> &'static str {
                match self { $(Bug::$bug => $rule),+ }
            }

            /// Returns what it does, in words.
            pub fn description(self) -> &'static str {
                match self { $(Bug::$bug => concat!($($text),+)),+ }
            }
        }
    };
}

bugs! {
    /// A decision moves up past a member whose own prepare is not durable yet.
    DecisionOvertakesPrepare = "decision-overtakes-prepare", "R1";
    /// A redelivered prepare is voted on again instead of getting the vote it has.
    VoteChanges = "vote-changes", "R1";
    /// A restarted core votes without asking its peers what it may have forgotten.
    RecoverySkipped = "recovery-skipped", "R1";
    /// A restarted core applies its peers' reports in the order in which they arrive.
    AppliedAsReceived = "applied-as-received", "R6";
    /// An update that moves a row travels without the old coordinates.
    OldCoordinatesLost = "old-coordinates-lost", "R1";
    /// The decider decides before its own prepare is durable.
    DecisionBeforeDurable = "decision-before-durable", "R2";
    /// The head aborts an operation on a timeout after it was forwarded.
    HeadAbortsOnTimeout = "head-aborts-on-timeout", "R2";
    /// The decider looks at its own vote only.
    VotesIgnored = "votes-ignored", "R2";
    /// The head answers before the outcome is settled.
    AnswerBeforeSettled = "answer-before-settled", "R3";
    /// A copy comes or goes while operations are under way.
    CopiesChangeAtOnce = "copies-change-at-once", "R3";
    /// A core reports the outcomes of an epoch's end before they are durable.
    ResolvedReportedEarly = "resolved-reported-early", "R5";
    /// A version is the wall clock, whatever version the row has already.
    VersionFromClock = "version-from-clock", "R6";
    /// A second operation on a pk begins while the first one is undecided.
    HeadDoesNotOrder = "head-does-not-order", "R6";
    /// Each chain operation takes its partitions in falling order.
    ChainReversed = "chain-reversed", "R7";
    /// A member votes although another operation holds the key.
    ConflictDoesNotWait = "conflict-does-not-wait", "R7";
    /// `Duplicate` is voted against a row that is not past its commit point.
    DuplicateOfPending = "duplicate-of-pending", "R8";
    /// A unique index does not look at the rows it has.
    UniqueUnchecked = "unique-unchecked", "R8";
    /// A read looks for pending operations on its first key only, not on its range.
    RangeNotWatched = "range-not-watched", "R9";
    /// A restarted core answers reads before its pending operations are decided.
    ReadBeforeRecovery = "read-before-recovery", "R9";
    /// A linearisable read of a key that an operation holds returns the old row at once.
    ReadDoesNotWait = "read-does-not-wait", "R10";
    /// A read at a member of a cover returns the old row at once, whatever is under way.
    RedirectDoesNotWait = "redirect-does-not-wait", "R10";
    /// A row is seen as soon as it is prepared.
    PreparedIsVisible = "prepared-is-visible", "R10";
    /// A member overwrites the old row when it receives a decision, seen or not.
    OldRowForgotten = "old-row-forgotten", "R11";
    /// A client puts pages of a cover together although a member changed while they were read.
    MomentUnchecked = "moment-unchecked", "R12";
    /// A client takes what a statement read in several ranges for one state although one of them
    /// changed meanwhile.
    StatementUnchecked = "statement-unchecked", "R35";
    /// A core reports that what it held is as it was read, whatever has changed.
    HoldChangesUnseen = "hold-changes-unseen", "R35";
    /// A core reports that nothing is under way while something is.
    HeldBeforeDrained = "held-before-drained", "R36";
    /// A core that holds begins operations all the same.
    HoldBeginsOperations = "hold-begins-operations", "R36";
    /// A core that holds begins operations of all tables but the first of the opening, and does not
    /// wait for theirs.
    OtherTablesNotHeld = "other-tables-not-held", "R36";
    /// A core whose hold has ended closes all the same.
    ExpiredHoldCounts = "expired-hold-counts", "R36";
    /// A snapshot is given out before every core has closed.
    GivenBeforeClosed = "given-before-closed", "R36";
    /// A core that closes does not move its clock to T.
    ClockNotMoved = "clock-not-moved", "R36";
    /// A core keeps the rows that a snapshot needs from the close on, not from the hold on.
    HistoryFromClose = "history-from-close", "R37";
    /// A core drops half of what its snapshots need when its memory is full, and goes on.
    HistoryDropped = "history-dropped", "R37";
    /// A core answers from its present rows at a snapshot that it does not know.
    UnknownSnapshotAnswered = "unknown-snapshot-answered", "R37";
    /// A read at a version does not wait for operations below it.
    SnapshotDoesNotWait = "snapshot-does-not-wait", "R37";
    /// A statement gets a snapshot that was opened before it began.
    OldSnapshotGiven = "old-snapshot-given", "R38";
    /// T is the lowest clock of the cores.
    LowestClockWins = "lowest-clock-wins", "R38";
    /// A core keeps its snapshots when a table of them changes.
    SnapshotSurvivesEpoch = "snapshot-survives-epoch", "R39";
    /// A retry of a completed request runs again.
    RetryRunsAgain = "retry-runs-again", "R13";
    /// Completion records are not restored by a restart.
    CompletionsNotRestored = "completions-not-restored", "R13";
    /// Another body under the same number gets the first one's result.
    DigestUnchecked = "digest-unchecked", "R13";
    /// A completion record goes as soon as the session's next request comes.
    CompletionForgotten = "completion-forgotten", "R14";
    /// A request of an older epoch is served.
    EpochUnchecked = "epoch-unchecked", "R15";
    /// Reads are answered without a lease.
    LeaseUnchecked = "lease-unchecked", "R15";
    /// A client whose write has no answer does not ask for a newer epoch.
    SilenceOverlooked = "silence-overlooked", "R15";
    /// A lease counts from the answer's arrival, not from the question's departure.
    LeaseFromArrival = "lease-from-arrival", "R15";
    /// A vouching counts for a table that has changed since.
    VouchingOutlivesEpoch = "vouching-outlives-epoch", "R15";
    /// A core vouches for one of an older epoch, and that one counts it.
    VouchingOfAnyEpoch = "vouching-of-any-epoch", "R15";
    /// A vouching counts for a table whose chains stand still.
    SealedIsVouchedFor = "sealed-is-vouched-for", "R15";
    /// The end of a table's epoch settles and forgets operations of other tables, too.
    SealConcernsAll = "seal-concerns-all", "R44";
    /// A message of a peer's earlier incarnation is believed.
    IncarnationUnchecked = "incarnation-unchecked", "R16";
    /// Operations are called finished before every member has the decision on disk.
    FinishedTooEarly = "finished-too-early", "R13";
    /// The partition that a row leaves keeps its entry.
    DepartureKept = "departure-kept", "R21";
    /// A place that is rebuilding does not take over completion records.
    CompletionsNotCopied = "completions-not-copied", "R13";
    /// A place that is rebuilding answers reads.
    ReadWhileRebuilding = "read-while-rebuilding", "R17";
    /// A place that is rebuilding votes, and a head evaluates, on the rows that it has.
    VoteWithoutFetch = "vote-without-fetch", "R18";
    /// A row of the cover replaces whatever is there.
    LowerVersionWins = "lower-version-wins", "R19";
    /// A place serves when every source has given its first page.
    ServesBeforeFilled = "serves-before-filled", "R20";
    /// A row that leaves a place which is rebuilding leaves nothing behind.
    DepartureForgotten = "departure-forgotten", "R22";
    /// A row that changes its key in an order keeps the entry that it had there.
    OldEntryKept = "old-entry-kept", "R19";
    /// A row of the cover is put without its entries.
    CopiedWithoutEntries = "copied-without-entries", "R20";
    /// Rows that collide in a unique index which is being made are overlooked.
    CollisionIgnored = "collision-ignored", "R20";
    /// A partition counts on entries in the order of a copy that came after its rows.
    OrderTakenForComplete = "order-taken-for-complete", "R20";
    /// A row that is written while an order is being made gets no entry there.
    WriteMissedByMaking = "write-missed-by-making", "R19";
    /// A copy is dropped although the others were lost meanwhile.
    LastCopyDropped = "last-copy-dropped", "R20";
    /// Copies with another number of partitions take their places before they have all rows.
    SuccessorPromotedEarly = "successor-promoted-early", "R53";
    /// Copies that were to take the places of others go, although the others were lost meanwhile.
    SuccessorsDroppedUnchecked = "successors-dropped-unchecked", "R53";
    /// A core that fills a head knows only the requests to the head as it is numbered now.
    FormerHeadsForgotten = "former-heads-forgotten", "R53";
    /// Copies whose places others take answer reads until the change is known.
    SupersededIsRead = "superseded-is-read", "R53";
    /// A core keeps the rows that it had of a partition in an earlier time.
    EarlierTenureTrusted = "earlier-tenure-trusted", "R25";
    /// A server comes back with an older copy of its folder, and is believed.
    OldFolderBelieved = "old-folder-believed", "R25";
    /// The taker of a partition keeps rows that its giver does not have.
    StaleRowsKept = "stale-rows-kept", "R25";
    /// A giver's messages take back what the end of an epoch decided for the next holder.
    TakenOverResolved = "taken-over-resolved", "R20";
    /// A giver calls ranges the same without looking at the taker's hashes.
    ComparisonSkipped = "comparison-skipped", "R25";
    /// A giver does not list what changes while its partition moves.
    ChangesNotListed = "changes-not-listed", "R19";
    /// The taker of a partition takes part in chains before it has the last changes.
    PartialTaken = "partial-taken", "R20";
    /// A giver drops its rows when it hands them over.
    GiverForgets = "giver-forgets", "R17";
    /// A flush that failed is tried again and then trusted.
    FailedFlushTrusted = "failed-flush-trusted", "R23";
    /// Records that are not flushed yet are reported durable.
    UnflushedIsDurable = "unflushed-is-durable", "R23";
    /// A client receives the result of a write that the head's disk does not have.
    AnsweredBeforeDurable = "answered-before-durable", "R26";
    /// A checkpoint cuts the log, and with it what is under way.
    LogCutEarly = "log-cut-early", "R26";
    /// A core reports what its log holds before that is durable.
    SealReportedEarly = "seal-reported-early", "R16";
    /// A restarted core that has not caught up reports *none* for what it does not know.
    RestartedReportsNone = "restarted-reports-none", "R4";
    /// The resolution overlooks votes that are no.
    RefusalsIgnored = "refusals-ignored", "R4";
    /// The resolution aborts where no survivor would know an outcome that was seen.
    ResolutionGuesses = "resolution-guesses", "R4";
    /// A record's checksum is not looked at.
    ChecksumUnchecked = "checksum-unchecked", "R24";
    /// A bad record amid valid ones is taken for the log's end.
    CorruptionIsTornTail = "corruption-is-torn-tail", "R24";
}

impl Bug {
    /// Returns the bug that the command line calls so.
    pub fn named(name: &str) -> Option<Bug> {
        Bug::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

/// Returns whether this bug is planted.
#[cfg(feature = "planted")]
#[inline]
pub fn is(bug: Bug) -> bool {
    selection::SELECTED.load(core::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Returns whether this bug is planted: never, without the feature.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: Bug) -> bool {
    false
}

/// Plants a bug instead of the one before, or none.
#[cfg(feature = "planted")]
pub fn select(bug: Option<Bug>) {
    let number = bug.map_or(selection::NONE, |bug| bug as u8);
    selection::SELECTED.store(number, core::sync::atomic::Ordering::Relaxed);
}

#[cfg(feature = "planted")]
mod selection {
    use core::sync::atomic::AtomicU8;

    pub const NONE: u8 = u8::MAX;
    pub static SELECTED: AtomicU8 = AtomicU8::new(NONE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_bug() {
        for bug in Bug::ALL {
            assert_eq!(Bug::named(bug.name()), Some(*bug));
        }
        assert_eq!(Bug::named("none"), None);
    }

    #[cfg(not(feature = "planted"))]
    #[test]
    fn nothing_is_planted_without_the_feature() {
        assert!(Bug::ALL.iter().all(|bug| !is(*bug)));
    }

    #[cfg(feature = "planted")]
    #[test]
    fn one_bug_is_planted_at_a_time() {
        select(Some(Bug::VoteChanges));
        assert!(is(Bug::VoteChanges));
        assert!(!is(Bug::VotesIgnored));
        select(None);
        assert!(!is(Bug::VoteChanges));
    }
}
