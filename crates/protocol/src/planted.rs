//! Planted bugs: each breaks one rule of docs/rules.md on purpose, so that the simulator can prove
//! that it would notice. Without the feature `planted`, [`is`] is the constant false and nothing of
//! this remains in a binary.
//!
//! A hook is in the code that keeps the rule: `if planted::is(Bug::X) { … }`. One bug is selected
//! at a time, for the whole process. If a bug has no hook, no run finds it and the simulator's gate
//! fails. So the list and the hooks cannot differ.

macro_rules! bugs {
    ($($(#[doc = $text:literal])+ $bug:ident = $name:literal, $rule:literal;)+) => {
        /// A planted bug: a change of the code that breaks one rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[doc = $text])+ $bug,)+
        }

        impl Bug {
            /// All bugs, by rule.
            pub const ALL: &[Bug] = &[$(Bug::$bug),+];

            /// Returns the bug's name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Bug::$bug => $name),+ }
            }

            /// Returns the rule that the bug breaks.
            pub fn rule(self) -> &'static str {
                match self { $(Bug::$bug => $rule),+ }
            }

            /// Returns a description of the bug's effect.
            pub fn description(self) -> &'static str {
                match self { $(Bug::$bug => concat!($($text),+)),+ }
            }
        }
    };
}

bugs! {
    /// The walk of a transaction does not look up whether its request has ended before.
    AttemptNotLookedUp = "attempt-not-looked-up", "R45";
    /// A copy of a walk that arrives late begins the walk again beside the members.
    WalkAgain = "walk-again", "R42";
    /// A member of a sealed table settles a transaction only once its other tables serve, too.
    SettledAfterOthers = "settled-after-others", "R44";
    /// A coordinator that has missed the end of an epoch goes on with its transactions.
    LostCoordinatorGoesOn = "lost-coordinator-goes-on", "R44";
    /// A core that cannot tell the outcome of a transaction in a seal does not try again when a
    /// server of another table is back.
    StuckForGood = "stuck-for-good", "R44";
    /// The coordinator of a transaction demands no checks of foreign keys.
    ReferenceNotDemanded = "reference-not-demanded", "R57";
    /// The check of a reference ignores operations that have voted and are undecided.
    ReferenceIgnoresVotes = "reference-ignores-votes", "R57";
    /// A deleted row is not looked for among the references of the rows that stay.
    ChildrenNotDemanded = "children-not-demanded", "R57";
    /// A walk goes on that holds keys while a snapshot is opened.
    WalkSurvivesHold = "walk-survives-hold", "R36";
    /// A coordinator decides before the last member of a transaction has voted.
    DecidesBeforeLastVote = "decides-before-last-vote", "R43";
    /// A partition does not compare the rows of a range that a transaction has read.
    RangeNotCompared = "range-not-compared", "R41";
    /// A partition passes a range in which another operation has voted on a row.
    RangeIgnoresVotes = "range-ignores-votes", "R41";
    /// A partition judges a range that was read in an earlier epoch.
    RangeOfOldEpoch = "range-of-old-epoch", "R41";
    /// A coordinator commits without the checks of a transaction.
    ChecksNotJudged = "checks-not-judged", "R41";
    /// Clients see the commit of a transaction before it is durable in f + 1 failure domains.
    CommitSeenBeforeKept = "commit-seen-before-kept", "R43";
    /// A member takes a late part of a transaction that has ended everywhere.
    LineOfTransactionsIgnored = "line-of-transactions-ignored", "R43";
    /// A primary votes yes although it has lost the evaluation of its rows.
    LostEvaluationCounts = "evaluation-lost", "R42";
    /// A member of a transaction waits for operations that are undecided.
    PartWaits = "part-waits", "R46";
    /// A waiting read does not wait for a transaction that has held its keys since before.
    ReadIgnoresPart = "read-ignores-part", "R10";
    /// A hold counts as unchanged although a transaction has voted on its range.
    HeldDuringPart = "held-during-part", "R35";
    /// A member of a transaction sends its vote before it is on disk.
    VoteBeforeDisk = "vote-before-disk", "R43";
    /// A member shows the decision of a transaction as soon as it has it.
    SettledBeforeKept = "settled-before-kept", "R43";
    /// The seal of a table asks only cores that hold the table.
    SealAsksOwnTableOnly = "seal-asks-own-table", "R44";
    /// The resolution of a transaction aborts what a member knows to be committed.
    ResolutionForgetsCommit = "resolution-forgets-commit", "R43";
    /// The definition of a table changes while operations that were judged by the earlier one are
    /// in progress.
    DefinitionChangesAtOnce = "definition-changes-at-once", "R50";
    /// Tables that are emptied together are emptied one after the other.
    TablesTruncatedApart = "tables-truncated-apart", "R50";
    /// A decision moves up past a member whose own prepare is not durable yet.
    DecisionOvertakesPrepare = "decision-overtakes-prepare", "R1";
    /// A member votes again on a prepare that arrives twice, instead of repeating its vote.
    VoteChanges = "vote-changes", "R1";
    /// A restarted core votes before it has asked its peers for what it may have forgotten.
    RecoverySkipped = "recovery-skipped", "R1";
    /// A restarted core applies its peers' reports in the order in which they arrive.
    AppliedAsReceived = "applied-as-received", "R6";
    /// Operations that come back after a restart are settled in the order of their newest versions,
    /// although these can be of different rows.
    WholeOperationsCompared = "whole-operations-compared", "R6";
    /// An update that moves a row travels without the old coordinates.
    OldCoordinatesLost = "old-coordinates-lost", "R1";
    /// The decider decides before its own prepare is durable.
    DecisionBeforeDurable = "decision-before-durable", "R2";
    /// With `replicated`, a decider that has its prepare from its peers' reports decides before the
    /// prepare has come down the chain.
    AdoptedIsDecided = "adopted-is-decided", "R2";
    /// The head aborts an operation on a timeout after it was forwarded.
    HeadAbortsOnTimeout = "head-aborts-on-timeout", "R2";
    /// The decider considers only its own vote.
    VotesIgnored = "votes-ignored", "R2";
    /// The head answers before the outcome is settled.
    AnswerBeforeSettled = "answer-before-settled", "R3";
    /// A copy is added or dropped while operations are in progress.
    CopiesChangeAtOnce = "copies-change-at-once", "R3";
    /// A core reports the outcomes of an epoch's end before they are durable.
    ResolvedReportedEarly = "resolved-reported-early", "R5";
    /// A version is the wall clock, whatever version the row has already.
    VersionFromClock = "version-from-clock", "R6";
    /// A head answers that an operation was aborted although its lease is over.
    AbortNeedsNoLease = "abort-needs-no-lease", "R13";
    /// A core that takes over rows does not log the highest version of their former holders if it
    /// has seen this version in the opening of a snapshot.
    SeenCountsAsLogged = "seen-counts-as-logged", "R6";
    /// A second operation on a pk begins while the first one is undecided.
    HeadDoesNotOrder = "head-does-not-order", "R6";
    /// Each chain operation acquires its partitions in reverse order.
    ChainReversed = "chain-reversed", "R7";
    /// A member votes although another operation holds the key.
    ConflictDoesNotWait = "conflict-does-not-wait", "R7";
    /// A member votes `Duplicate` because of a row that is not committed yet.
    DuplicateOfPending = "duplicate-of-pending", "R8";
    /// A unique index does not check its rows.
    UniqueUnchecked = "unique-unchecked", "R8";
    /// A read checks for pending operations on its first key only, not on its range.
    RangeNotWatched = "range-not-watched", "R9";
    /// A restarted core answers reads before its pending operations are decided.
    ReadBeforeRecovery = "read-before-recovery", "R9";
    /// A linearisable read of a key that an operation holds returns the old row at once.
    ReadDoesNotWait = "read-does-not-wait", "R10";
    /// A read at a member of a cover returns the old row at once, although an operation is in
    /// progress.
    RedirectDoesNotWait = "redirect-does-not-wait", "R10";
    /// A row is visible as soon as it is prepared.
    PreparedIsVisible = "prepared-is-visible", "R10";
    /// A member overwrites the old row when it receives a decision, although the outcome is not
    /// settled.
    OldRowForgotten = "old-row-forgotten", "R11";
    /// A client merges pages of a cover although a member changed while they were read.
    MomentUnchecked = "moment-unchecked", "R12";
    /// A client accepts the ranges of a statement as one state although one of them changed
    /// meanwhile.
    StatementUnchecked = "statement-unchecked", "R35";
    /// A core reports that a held range is unchanged, although it has changed.
    HoldChangesUnseen = "hold-changes-unseen", "R35";
    /// A core reports that no operation is in progress while one is.
    HeldBeforeDrained = "held-before-drained", "R36";
    /// A core begins operations although it holds.
    HoldBeginsOperations = "hold-begins-operations", "R36";
    /// A core that holds begins operations of all tables but the first of the opening, and does not
    /// wait for theirs.
    OtherTablesNotHeld = "other-tables-not-held", "R36";
    /// A core closes although its hold has ended.
    ExpiredHoldCounts = "expired-hold-counts", "R36";
    /// The opener gives out a snapshot before every core has closed.
    GivenBeforeClosed = "given-before-closed", "R36";
    /// A core that closes does not move its clock to T.
    ClockNotMoved = "clock-not-moved", "R36";
    /// A core keeps the rows that a snapshot needs only from the close on, not from the hold on.
    HistoryFromClose = "history-from-close", "R37";
    /// A core drops half of the history when its memory is full, and continues to serve the
    /// snapshots.
    HistoryDropped = "history-dropped", "R37";
    /// A core answers a read of an unknown snapshot from its present rows.
    UnknownSnapshotAnswered = "unknown-snapshot-answered", "R37";
    /// A read at a version does not wait for operations below it.
    SnapshotDoesNotWait = "snapshot-does-not-wait", "R37";
    /// A statement gets a snapshot that was opened before it began.
    OldSnapshotGiven = "old-snapshot-given", "R38";
    /// T is the lowest clock of the cores.
    LowestClockWins = "lowest-clock-wins", "R38";
    /// A core keeps its snapshots when a table of them changes.
    SnapshotSurvivesEpoch = "snapshot-survives-epoch", "R39";
    /// A client renews and ends the leases of other clients on a snapshot.
    LeasesShared = "leases-shared", "R51";
    /// A client opens as many snapshots as it asks for.
    ReaderUnlimited = "reader-unlimited", "R52";
    /// A retry of a completed request runs again.
    RetryRunsAgain = "retry-runs-again", "R13";
    /// Completion records are not restored by a restart.
    CompletionsNotRestored = "completions-not-restored", "R13";
    /// A request with the same number and another body gets the first one's result.
    DigestUnchecked = "digest-unchecked", "R13";
    /// A core drops a completion record as soon as the session's next request arrives.
    CompletionForgotten = "completion-forgotten", "R14";
    /// A core serves a request of an older epoch.
    EpochUnchecked = "epoch-unchecked", "R15";
    /// A core handles a message that was kept for a later epoch in whatever epoch comes next.
    EarlyMessageUnchecked = "early-message-unchecked", "R15";
    /// A core answers reads without a lease.
    LeaseUnchecked = "lease-unchecked", "R15";
    /// A client does not ask for a newer epoch when its write has no answer.
    SilenceOverlooked = "silence-overlooked", "R15";
    /// A core counts a lease from the arrival of the answer, not from the sending of the request.
    LeaseFromArrival = "lease-from-arrival", "R15";
    /// A grant counts for a table that has changed since.
    VouchingOutlivesEpoch = "vouching-outlives-epoch", "R15";
    /// A core vouches for a core with an older epoch, and that core counts the grant.
    VouchingOfAnyEpoch = "vouching-of-any-epoch", "R15";
    /// A grant counts for a table whose chains are stopped.
    SealedIsVouchedFor = "sealed-is-vouched-for", "R15";
    /// The end of a table's epoch settles and forgets operations of other tables, too.
    SealConcernsAll = "seal-concerns-all", "R44";
    /// A core stops the chains of all tables while one of them is sealed.
    SealStopsAll = "seal-stops-all", "R44";
    /// A core accepts a message of a peer's earlier incarnation.
    IncarnationUnchecked = "incarnation-unchecked", "R16";
    /// Operations count as finished before every member has the decision on disk.
    FinishedTooEarly = "finished-too-early", "R13";
    /// The partition that a row leaves keeps its entry.
    DepartureKept = "departure-kept", "R21";
    /// A rebuilding place does not copy completion records.
    CompletionsNotCopied = "completions-not-copied", "R13";
    /// The completion records that a peer has sent count as all of its records, though another peer
    /// was lost meanwhile.
    EarlierAnswersCount = "earlier-answers-count", "R13";
    /// A rebuilding place answers reads.
    ReadWhileRebuilding = "read-while-rebuilding", "R17";
    /// A rebuilding place votes, and its head evaluates, without fetching missing rows.
    VoteWithoutFetch = "vote-without-fetch", "R18";
    /// A row of the cover replaces a newer row.
    LowerVersionWins = "lower-version-wins", "R19";
    /// A place serves once every source has sent its first page.
    ServesBeforeFilled = "serves-before-filled", "R20";
    /// A row that leaves a rebuilding place leaves no version behind.
    DepartureForgotten = "departure-forgotten", "R22";
    /// A row whose key in an order changes keeps its old entry there.
    OldEntryKept = "old-entry-kept", "R19";
    /// A row of the cover is stored without its entries.
    CopiedWithoutEntries = "copied-without-entries", "R20";
    /// Rows that collide in a new unique index are ignored.
    CollisionIgnored = "collision-ignored", "R20";
    /// A row of the cover that is not newer than the stored one counts as a collision.
    OldRowCollides = "old-row-collides", "R20";
    /// A partition uses entries in the order of a copy that was added after its rows.
    OrderTakenForComplete = "order-taken-for-complete", "R20";
    /// A row that is written while the entries of an order are being made gets no entry there.
    WriteMissedByMaking = "write-missed-by-making", "R19";
    /// A copy is dropped although the other copies were lost meanwhile.
    LastCopyDropped = "last-copy-dropped", "R20";
    /// An index may go although only one that is being made serves a foreign key, too.
    MadeIndexServes = "made-index-serves", "R57";
    /// Partitions with the only copies of rows are made void, to be refilled.
    OnlyCopiesRefilled = "only-copies-refilled", "R20";
    /// Copies with another number of partitions replace the earlier ones before they have all rows.
    SuccessorPromotedEarly = "successor-promoted-early", "R53";
    /// Copies that were to take the places of others go, although the others were lost meanwhile.
    SuccessorsDroppedUnchecked = "successors-dropped-unchecked", "R53";
    /// A core that fills a head knows only the requests to the head's present number.
    FormerHeadsForgotten = "former-heads-forgotten", "R53";
    /// Copies that are being replaced answer reads until the change is known.
    SupersededIsRead = "superseded-is-read", "R53";
    /// A side member keeps the entry that its operation removes.
    EntryLeftBehind = "entry-left-behind", "R27";
    /// A side member does not store the entry that its operation adds.
    EntryForgotten = "entry-forgotten", "R27";
    /// A side member replaces an entry only if the operation changes its key.
    IncludedColumnKept = "included-column-kept", "R27";
    /// A row that moves in the order of a copy does not visit a thin index that is being filled if
    /// its entry stays the same.
    UnchangedEntryLeftOut = "unchanged-entry-left-out", "R55";
    /// A page of another copy of a thin index is taken for the rest of the lost partition, although
    /// that copy's range ends before it.
    RangeOfCopyIgnored = "range-of-copy-ignored", "R56";
    /// The end of an epoch changes no entries, although it commits the operation.
    ResolvedWithoutEntry = "resolved-without-entry", "R27";
    /// A member of a cover sends a unique thin index whole rows to vote with, instead of entries.
    FetchedAsRows = "fetched-as-rows", "R18";
    /// A unique thin index votes yes, whatever entries it has.
    UniqueEntriesUnchecked = "unique-entries-unchecked", "R54";
    /// A unique thin index that restarts does not hold the keys that it has voted on.
    UniqueEntriesReleased = "unique-entries-released", "R54";
    /// The decider does not wait for the reports of side members.
    DecidesWithoutReports = "decides-without-reports", "R48";
    /// A side member reports before its prepare is durable.
    ReportedBeforeDurable = "reported-before-durable", "R48";
    /// The head tells side members an outcome before clients may see it.
    SidesLearnEarly = "sides-learn-early", "R48";
    /// A restarted head does not take its operations from the reports of side members.
    SidesNotAsked = "sides-not-asked", "R48";
    /// The head never tells a side member again that has confirmed the outcome, although a decider
    /// that has restarted may lack its report.
    ConfirmedSideLeftOut = "confirmed-side-left-out", "R48";
    /// A read of a thin index leaves out the entries of unsettled operations.
    MarksLeftOut = "marks-left-out", "R28";
    /// A reader lets a marked entry answer without its row.
    MarkedIsTrusted = "marked-is-trusted", "R28";
    /// A reader takes any row of an entry's pk for the entry's row.
    EntryTrusted = "entry-trusted", "R28";
    /// A restarted side member takes no operation that it has forgotten from its peers.
    SidesAdoptNothing = "sides-adopt-nothing", "R28";
    /// A partition of an index answers with entries that are outside of its range.
    EntriesOutsideRead = "entries-outside-read", "R47";
    /// A partition of a copy gives rows that are outside of its range, to fills and as a member of
    /// a cover.
    RowsOutsideGiven = "rows-outside-given", "R47";
    /// Readers keep the partitions of a read when the ranges of its index have changed.
    OldRangesRead = "old-ranges-read", "R47";
    /// The giver of a range does not list the changes that it settles there.
    RangeChangesNotListed = "range-changes-not-listed", "R49";
    /// A range changes its owner while operations are in progress.
    RangesChangeAtOnce = "ranges-change-at-once", "R49";
    /// The giver of a range removes the entries before the taker has them all.
    SweptTooEarly = "swept-too-early", "R49";
    /// An empty partition is given to another core, so that its holder leaves the table without a
    /// seal.
    HolderLeavesUnsealed = "holder-leaves-unsealed", "R15";
    /// A range of a copy goes to a server that holds another copy of the table.
    RangeBesideCopy = "range-beside-copy", "R49";
    /// A core reports a range with the key at which it was split in an earlier epoch.
    OldReportKept = "old-report-kept", "R49";
    /// A restarting core settles operations that a record calls finished, though they were not
    /// settled when the record was written.
    ReplayedLineSettles = "replayed-line-settles", "R26";
    /// A core uses rows of a partition from an earlier tenure.
    EarlierTenureTrusted = "earlier-tenure-trusted", "R25";
    /// A server returns with an older copy of its folder and uses it.
    OldFolderBelieved = "old-folder-believed", "R25";
    /// The taker of a partition keeps rows that its giver does not have.
    StaleRowsKept = "stale-rows-kept", "R25";
    /// A giver's messages undo what the end of an epoch decided for the next holder.
    TakenOverResolved = "taken-over-resolved", "R20";
    /// A giver reports ranges as equal without comparing the taker's hashes.
    ComparisonSkipped = "comparison-skipped", "R25";
    /// A giver does not list changes while its partition moves.
    ChangesNotListed = "changes-not-listed", "R19";
    /// The taker of a partition takes part in chains before it has the last changes.
    PartialTaken = "partial-taken", "R20";
    /// A giver drops its rows when the next holder takes over.
    GiverForgets = "giver-forgets", "R17";
    /// After a failed flush, a second attempt is trusted.
    FailedFlushTrusted = "failed-flush-trusted", "R23";
    /// Records that are not flushed yet are reported durable.
    UnflushedIsDurable = "unflushed-is-durable", "R23";
    /// A client receives the result of a write that the head's disk does not have.
    AnsweredBeforeDurable = "answered-before-durable", "R26";
    /// A checkpoint truncates the log including operations in progress.
    LogCutEarly = "log-cut-early", "R26";
    /// A core reports the contents of its log before they are durable.
    SealReportedEarly = "seal-reported-early", "R16";
    /// A restarted core that has not caught up reports *none* for operations that it does not know.
    RestartedReportsNone = "restarted-reports-none", "R4";
    /// The resolution ignores votes that are no.
    RefusalsIgnored = "refusals-ignored", "R4";
    /// The resolution aborts an operation although a client may have seen it committed.
    ResolutionGuesses = "resolution-guesses", "R4";
    /// A resolution counts every member at the decider's position as one that knows the decision.
    TwinKnowsDecision = "twin-knows-decision", "R4";
    /// A record's checksum is not checked.
    ChecksumUnchecked = "checksum-unchecked", "R24";
    /// An invalid record before valid ones counts as the end of the log.
    CorruptionIsTornTail = "corruption-is-torn-tail", "R24";
}

impl Bug {
    /// Returns the bug with this name on the command line.
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

/// Returns false: without the feature no bug is planted.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: Bug) -> bool {
    false
}

/// Plants a bug in place of the earlier one; none plants no bug.
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
