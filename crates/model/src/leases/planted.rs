//! The planted bugs that the model of leases must find.

use crate::planted::planted_bugs;

planted_bugs! { LeaseBug
    /// A core vouches for a core that knows fewer changes, and the requesting core counts the
    /// grant.
    NumbersUnchecked = "numbers-unchecked", "R15", "leases-once";
    /// A server that holds no partition of the table vouches for it.
    StrangersVouch = "strangers-vouch", "R15", "leases-of-two";
    /// A voucher that does not know the table's epoch vouches for it.
    StaleVouchersCount = "stale-vouchers-count", "R15", "leases-returned";
    /// A vouching is judged when it arrives, by a configuration that is not the one of its use.
    JudgedAtReceipt = "judged-at-receipt", "R15", "leases-twice";
    /// A vouching counts from its arrival.
    CountsFromArrival = "vouching-counts-from-arrival", "R15", "leases-once";
    /// One server vouches where f = 2 have to.
    OneVoucherSuffices = "one-voucher-suffices", "R15", "leases-far";
    /// The next epoch serves as soon as all have reported.
    VouchingNotWaitedFor = "vouching-not-waited-for", "R15", "leases-once";
    /// The next epoch serves while a holder has not reported.
    HolderNotWaitedFor = "holder-not-waited-for", "R15", "leases-once";
    /// A report from an earlier sealing of the table counts for the newest one.
    EarlierReportCounts = "earlier-report-counts", "R15", "leases-twice";
    /// The coordinator removes a server that may have a lease from it.
    OwnLeaseNotWaitedFor = "own-lease-not-waited-for", "R15", "leases-once";
    /// Each sealing may remove f servers, whatever the ones before it removed.
    LimitPerSealing = "limit-per-sealing", "R15", "leases-twice";
    /// A voucher that has restarted reports that it never vouched.
    VouchingForgotten = "vouching-forgotten", "R15", "leases-restart";
    /// The process of a voucher runs on although a new one has taken its place.
    ProcessRunsOn = "process-runs-on", "R16", "leases-restart";
    /// A server that takes over a place vouches before it holds it.
    TakersVouch = "takers-vouch", "R15", "leases-cancelled";
    /// A move hands over its place as an ordinary change.
    MovedWithoutSeal = "moved-without-seal", "R15", "leases-moves";
    /// A copy is dropped, and its server holds nothing more, as an ordinary change.
    DroppedWithoutSeal = "dropped-without-seal", "R15", "leases-drops";
    /// The failures that the table tolerates rise as an ordinary change.
    ToleranceWithoutSeal = "tolerance-without-seal", "R15", "leases-tolerance";
}
