//! The planted bugs that the model of drained cuts must find.

use crate::planted::planted_bugs;

planted_bugs! { CutBug
    /// Every core closes at the version at once: nothing is held and nothing is drained.
    CloseWithoutHold = "close-without-hold", "R36", "cuts-of-two";
    /// A core that closes leaves its clock as it is.
    ClockNotMoved = "clock-not-moved", "R36", "cuts-of-two";
    /// A core answers a hold while operations of its own are in progress.
    HoldAnsweredEarly = "hold-answered-early", "R36", "cuts-of-two";
    /// A core whose hold has expired closes as if it still held.
    ExpiredHoldCounts = "expired-hold-counts", "R36", "cuts-of-two";
    /// The version is given to readers once the close is sent, before all cores have closed.
    GivenBeforeClosed = "given-before-closed", "R36", "cuts-of-two";
    /// A core takes a hold of one opening twice.
    HoldTakenTwice = "hold-taken-twice", "R36", "cuts-of-two";
    /// A close of one opening releases, and closes, the hold of another.
    OpeningUnchecked = "opening-unchecked", "R36", "cuts-overlap-of-one";
    /// A core that holds for two openings begins operations after the first has closed.
    HoldsShared = "holds-shared", "R36", "cuts-overlap-of-one";
    /// The version is the clock of the core that answered last, not the highest.
    LastClockWins = "last-clock-wins", "R38", "cuts-of-two";
    /// A statement that began after the version was chosen reads at it.
    JoinsAfterClose = "joins-after-close", "R38", "cuts-of-two";
    /// A core's clock does not follow the versions that it receives.
    ClockIgnoresVersions = "clock-ignores-versions", "R38", "cuts-lost-of-one";
    /// A restarted core's clock is not above the versions in its log.
    ClockForgotten = "clock-forgotten-at-restart", "R38", "cuts-restarts-of-one";
    /// A restarted core answers a hold before it has back what it may have forgotten.
    HeldWhileRecovering = "held-while-recovering", "R36", "cuts-restarts-of-one";
    /// History is kept from the close on, not from the hold.
    HistoryFromClose = "history-from-close", "R37", "cuts-of-two";
    /// History exceeds its budget and is trimmed, and the core continues to answer.
    HistoryTrimmed = "history-trimmed-while-read", "R37", "cuts-trimmed";
    /// A core that does not know a snapshot answers a read of it.
    UnknownAnswered = "unknown-snapshot-answered", "R37", "cuts-restarts-of-one";
    /// A core continues to answer at a version after its table's epoch has changed.
    SurvivesEpoch = "snapshot-survives-epoch", "R39", "cuts-restarts-of-one";
}
