//! The planted bugs that the model of commit must find: for each rule a variant of the model that
//! breaks it.

use crate::planted::planted_bugs;

planted_bugs! { ModelBug
    /// A decision moves up past a member whose own prepare is not durable yet.
    DecisionOvertakesPrepare = "decision-overtakes-prepare", "R1", "restarts-of-one";
    /// A redelivered prepare is voted on again instead of getting the vote it has.
    VoteChanges = "vote-changes", "R1", "restarts-of-one";
    /// A restarted member votes without asking its peers what it may have forgotten.
    RecoverySkipped = "recovery-skipped", "R1", "restarts-of-one";
    /// The reports of peers to a restarted member in an earlier epoch still count as answers.
    AnswersOfAnyEpoch = "answers-of-any-epoch", "R1", "restarts-of-one";
    /// A member that has reported to a restarted member continues to vote on operations that it had
    /// received from that member before.
    WaitingIsKept = "waiting-is-kept", "R1", "restarts-of-one";
    /// The decider decides before its own prepare is durable.
    DecisionBeforeDurable = "decision-before-durable", "R2", "one";
    /// With `replicated`, a decider that has its prepare from its peers' reports decides before the
    /// prepare has come down the chain.
    AdoptedIsDecided = "adopted-is-decided", "R2", "thin-memory-free";
    /// The head aborts an operation on a timeout after it was forwarded.
    HeadAbortsOnTimeout = "head-aborts-on-timeout", "R2", "one";
    /// The decider looks at its own vote only.
    VotesIgnored = "votes-ignored", "R2", "pair";
    /// An outcome is seen before it is durable at position x.
    SeenBeforeDurable = "seen-before-durable", "R3", "one-at-head";
    /// With `replicated`, an outcome is seen at the decider before position x has it.
    SeenAtDecider = "seen-at-decider", "R3", "memory-at-head";
    /// With `replicated`, a restarted member receives a decision past members that have not
    /// received it.
    ReportedPastMembers = "reported-past-members", "R3", "memory-far";
    /// With `replicated`, a restarted member sends a decision up that has skipped later members.
    SkippedGoesUp = "skipped-goes-up", "R3", "memory-lost-furthest";
    /// With `replicated`, a decision that skipped members is settled at x once x has it on disk.
    SettlesFromDisk = "settles-from-disk", "R3", "memory-lost-far";
    /// With `replicated`, a member that has forgotten a yes which was sure knows nothing of it.
    SureYesForgotten = "sure-yes-forgotten", "R4", "memory";
    /// A member beyond k votes no, to end a long wait.
    RefusesBeyondVoters = "refuses-beyond-voters", "R3", "one-free";
    /// A decision is durable at x, and at no other member that could need to know it.
    DurableAtOneOnly = "durable-at-one-only", "R26", "one-far";
    /// A restarted member reports "none" where it should report "unknown".
    RestartedReportsNone = "restarted-reports-none", "R4", "one";
    /// A vote of no is overlooked by the resolution.
    RefusalsIgnored = "refusals-ignored", "R4", "pair";
    /// The resolution aborts where more than f are lost.
    ResolutionGuesses = "resolution-guesses", "R4", "one";
    /// The resolution as R4 had it: only survivors' votes count, and rule 5 looks at x.
    ResolutionAsWritten = "resolution-as-written", "R4", "one";
    /// The new epoch serves before its resolution is durable on f + 1 members.
    ServesBeforeDurable = "serves-before-durable", "R5", "one-at-head";
    /// A member votes although another operation holds the key.
    ConflictDoesNotWait = "conflict-does-not-wait", "R7", "pair";
    /// A refusal is voted against a row whose operation is undecided.
    DuplicateOfPending = "duplicate-of-pending", "R8", "pair";
    /// A member accepts a message of an older epoch.
    OldEpochsAccepted = "old-epochs-accepted", "R15", "restarts-of-one";
    /// A member continues in an epoch after it has sealed the epoch.
    SealedMemberGoesOn = "sealed-member-goes-on", "R16", "one";
    /// The decider does not wait for the reports of side members.
    DecidesWithoutReports = "decides-without-reports", "R48", "thin";
    /// A side member reports before its prepare is durable.
    ReportedBeforeDurable = "reported-before-durable", "R48", "thin";
    /// The head tells side members an outcome before clients may see it.
    SidesLearnEarly = "sides-learn-early", "R3", "thin-short";
    /// The resolution takes a side member's prepare for the agreement of the chain.
    SidesAgree = "sides-agree", "R4", "thin-pair";
    /// The resolution aborts an operation that a side member has not prepared, although the chain
    /// has agreed.
    SidesAbort = "sides-abort", "R4", "thin-replaced";
    /// The resolution leaves out side members that lack the prepare.
    SidesUnresolved = "sides-unresolved", "R48", "thin-memory-lost";
    /// A restarted side member does not take the prepare from its peers' reports.
    SidesAdoptNothing = "sides-adopt-nothing", "R48", "thin-memory";
    /// A restarted head does not take its operations from the reports of side members.
    SidesNotAsked = "sides-not-asked", "R48", "thin";
    /// The head never tells a side member again that has settled, so it does not report again.
    ConfirmedSideLeftOut = "confirmed-side-left-out", "R48", "thin-short";
    /// A replacement votes without the rows that others hold.
    ReplacementFetchesNothing = "replacement-fetches-nothing", "R18", "replaced";
}
