//! The planted bugs that the model of transactions must find.

use crate::planted::planted_bugs;

planted_bugs! { TransactionBug
    /// A primary evaluates a row that another transaction holds.
    EvaluatedUnlocked = "evaluated-without-lock", "R42", "tx-single-copies";
    /// A primary that has restarted votes yes, though its lock and evaluation are lost.
    LostEvaluationCounts = "lost-evaluation-counts", "R42", "tx-single-copies";
    /// A copy votes yes without comparing its row with the evaluated one.
    CopyDoesNotJudge = "copy-does-not-judge", "R42", "tx-one-row";
    /// A check is not compared with what the client has read.
    CheckNotJudged = "check-not-judged", "R41", "tx-skew";
    /// A check is judged before all members hold what the transaction changes.
    CheckedBeforeHeld = "checked-before-held", "R41", "tx-skew-copies";
    /// An abort that the client has seen is not recorded where the request arrives again.
    AbortNotRecorded = "abort-not-recorded", "R45", "tx-one-row-resent";
    /// An abort that the client has seen is recorded at the first primary alone.
    AbortRecordedOnce = "abort-recorded-once", "R45", "tx-one-row-resent";
    /// A check that has passed counts, though a vote of a member was void afterwards.
    CheckOutlivesVote = "check-outlives-vote", "R41", "tx-memory-read";
    /// A member takes a late prepare of a transaction that all have forgotten.
    LineIgnored = "line-ignored", "R43", "tx-late";
    /// A restarted coordinator gives up a transaction whose commit may have been seen.
    GivesUpAfterRestart = "gives-up-after-restart", "R43", "tx-single-copies";
    /// A member refuses because of a transaction that is decided and not settled there.
    RefusesBehindSettling = "refuses-behind-settling", "R46", "tx-hot";
    /// The coordinator decides before all votes are there.
    DecidedEarly = "decided-before-last-vote", "R43", "tx";
    /// A vote counts before it is durable.
    VoteBeforeDurable = "vote-before-durable", "R43", "tx";
    /// The client sees a commit that needs a durable decision before the decision is durable.
    CommitSeenEarly = "commit-seen-early", "R43", "tx-refused";
    /// The client sees an abort that survivors would commit before the abort is durable.
    AbortSeenEarly = "abort-seen-early", "R43", "tx";
    /// A member shows a decision to readers before it is durable.
    SettledEarly = "settled-before-durable", "R43", "tx-refused-twice";
    /// The resolution commits what all remaining members have prepared, though a lost one may have
    /// refused.
    AllPreparedCommits = "lost-refusal-commits", "R43", "tx-refused";
    /// The resolution aborts what all remaining members have prepared, though a client may have
    /// seen the commit.
    AllVotesForgotten = "all-votes-forgotten", "R43", "tx";
    /// A second attempt of a request begins beside the first one.
    NameNotLookedUp = "name-not-looked-up", "R45", "tx-one-row-resent";
    /// A check waits for another transaction, instead of failing.
    CheckWaits = "check-waits", "R46", "tx-skew";
    /// A walk visits the primaries in another order than the other walks.
    WalkUnordered = "walk-unordered", "R46", "tx-collide";
    /// A vote counts that a member sent before it lost its memory.
    EarlierVoteCounts = "vote-of-earlier-life", "R43", "tx-memory-collide";
    /// A member that has lost its memory judges again, though an earlier vote may have counted.
    EarlierVoteDropped = "vote-of-earlier-life-dropped", "R43", "tx-memory-decided";
    /// A decision counts that the coordinator sent before it lost its memory, and no member has.
    EarlierDecisionCounts = "decision-of-earlier-life", "R43", "tx-memory-decided";
    /// A coordinator that has lost its memory aborts what all others have prepared.
    RestartedAborts = "restarted-coordinator-aborts", "R43", "tx-memory";
    /// A member that has lost its memory reports that it has not prepared.
    ForgottenIsNone = "forgotten-is-none", "R43", "tx-memory";
    /// A chain's outcome is seen at its end, as soon as the last member has all votes.
    ChainSeenAtEnd = "chain-seen-at-end", "R43", "tx-chain-refused";
}
