//! The planted bugs that the model of seals must find.

use crate::planted::planted_bugs;

planted_bugs! { SealBug
    /// A seal concerns the cores of its table alone, though others share operations with them.
    OwnTableOnly = "seal-asks-own-table-only", "R44", "seals";
    /// A core of another table that has answered "not prepared here" still takes the prepare.
    AbsenceDoesNotBind = "absence-does-not-bind", "R44", "seals";
    /// A core clears its operations of other tables when it applies the resolution.
    OthersCleared = "other-members-cleared", "R44", "seals-beside";
    /// A member accepts a message of an earlier epoch of one of its tables.
    StaleEpochAccepted = "stale-table-epoch-accepted", "R15", "seals-changed";
    /// The table serves once all have sealed, before they have resolved.
    ServedBeforeResolved = "served-before-resolved", "R5", "seals";
    /// The table serves once its own cores have resolved, and others have not.
    OthersNotWaitedFor = "served-before-others-resolved", "R44", "seals";
    /// A report counts although it was made in another epoch of one of the operation's tables.
    ReportsOfAnyEpoch = "reports-of-any-table-epoch", "R44", "seals-both";
    /// A decision may be seen once f + 1 servers have it, of whatever tables.
    DurableAnywhere = "decision-durable-anywhere", "R43", "seals-both";
    /// A resolved outcome is seen at a core before the sealed table serves.
    SeenBeforeServing = "resolved-seen-before-serving", "R5", "seals-both";
    /// A core of another table does not keep that it has answered: a restart makes it forget.
    SealForgotten = "seal-forgotten-by-others", "R16", "seals";
    /// Messages carry the number of the newest change, and members accept only messages with their
    /// own number.
    OneEpochForAll = "one-epoch-for-all-tables", "R44", "seals-beside";
    /// A seal of one table stops all operations of the cores that hold it.
    SealStopsOthers = "seal-stops-other-tables", "R44", "seals-beside";
    /// The resolution commits an operation over two tables that all others have prepared.
    PreparedByAllCommits = "prepared-by-all-commits", "R43", "seals-refused";
    /// The coordinator of an operation decides before all its votes are durable.
    DecidedEarly = "decided-before-all-voted", "R43", "seals";
}
