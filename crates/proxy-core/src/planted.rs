//! Planted bugs: each breaks one rule of docs/rules.md on purpose, so that tests can prove that
//! they would detect the bug. The bugs exist with the feature `planted` only. The simulation
//! selects a bug for its thread, and an environment variable selects one for a whole process.
//! Without the feature, [`is`] is the constant false.

#[cfg(feature = "planted")]
use alloc::format;
#[cfg(feature = "planted")]
use alloc::string::String;

/// A planted bug: a change of the code that breaks one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyBug {
    /// R29: a commit is Pending only until its client has the answer.
    PendingEndsAtAnswer,
    /// R29: a mark of an earlier manager counts.
    MarkOfAnyEpoch,
    /// R31: an executed transaction commits without waiting for earlier ones.
    CommitsOutOfOrder,
    /// R31: a group includes a commit that depends on a transaction that runs elsewhere, or waits
    /// outside of the group.
    GroupTakesDependent,
    /// R31: a group skips transactions that cannot be in it.
    GroupHasGaps,
    /// I14: a group records the TSID of its first commit.
    GroupNotesItsFirst,
    /// R32: writes of a transaction that may be committing are not Pending.
    NotPending,
    /// R32: a commit whose connection broke counts as rolled back.
    DoubtForgotten,
    /// R32: replicas get a commit that is not visible on the primary yet.
    GivenBeforeShown,
    /// R33: a replica below the floor serves reads of items that are not in the indexes.
    FloorIgnored,
    /// R33: rows are dropped from the index, and the floor does not rise.
    FloorStays,
    /// R33: reads that may read anything need no commits.
    UnknownReadsNothing,
    /// R33: a read of a column need not see writes of whole rows.
    RowsHaveNoColumns,
    /// R33: a commit that is read again from the slot counts as the newest of its rows.
    IndexesGoBack,
    /// P1: a read counts as valid although it has a commit without an earlier visible one.
    TornReadsCount,
    /// P1: every commit counts as hidden while all before it were shown.
    HiddenWithoutProof,
    /// P1: a read that has waited is watched only from the end of its wait.
    WaitIsNotWatched,
    /// R32: a waiting read does not wait for Pending commits.
    WaitIgnoresPending,
    /// I14: commits that a replica shows count as being on its disk when the proxy begins to follow
    /// it.
    UnflushedCounts,
    /// I14: statements that an Extractor had sent before its connections broke may still run.
    OldExtractorGoesOn,
    /// I14: a replica that was offline gets the commits that the reader remembers, although commits
    /// before them are missing.
    RecentHasGaps,
    /// I14: the slot drops commits that an offline replica lacks before the transactions buffer has
    /// them on disk.
    BufferNotWaitedFor,
    /// I14: the slot drops commits that the transactions buffer has, although a standby proxy has
    /// another buffer.
    BufferIsForAll,
    /// I14: pages of the transactions buffer count although some between them are missing.
    PagesHaveGaps,
    /// I14: a server that returned with fewer commits is treated as unchanged.
    GoneBackServes,
}

impl ProxyBug {
    /// All planted bugs.
    pub const ALL: &[ProxyBug] = &[
        ProxyBug::PendingEndsAtAnswer,
        ProxyBug::MarkOfAnyEpoch,
        ProxyBug::CommitsOutOfOrder,
        ProxyBug::GroupTakesDependent,
        ProxyBug::GroupHasGaps,
        ProxyBug::GroupNotesItsFirst,
        ProxyBug::NotPending,
        ProxyBug::DoubtForgotten,
        ProxyBug::GivenBeforeShown,
        ProxyBug::FloorIgnored,
        ProxyBug::FloorStays,
        ProxyBug::UnknownReadsNothing,
        ProxyBug::RowsHaveNoColumns,
        ProxyBug::IndexesGoBack,
        ProxyBug::TornReadsCount,
        ProxyBug::HiddenWithoutProof,
        ProxyBug::WaitIsNotWatched,
        ProxyBug::WaitIgnoresPending,
        ProxyBug::UnflushedCounts,
        ProxyBug::RecentHasGaps,
        ProxyBug::BufferNotWaitedFor,
        ProxyBug::BufferIsForAll,
        ProxyBug::PagesHaveGaps,
        ProxyBug::OldExtractorGoesOn,
        ProxyBug::GoneBackServes,
    ];
}

#[cfg(feature = "planted")]
std::thread_local! {
    static PLANTED: core::cell::Cell<Option<ProxyBug>> = const { core::cell::Cell::new(None) };
}

/// Plants a bug, or none, in this thread.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<ProxyBug>) {
    PLANTED.set(bug);
}

/// Returns whether this bug is planted, in this thread or by the environment in the whole process.
#[cfg(feature = "planted")]
pub fn is(bug: ProxyBug) -> bool {
    use std::sync::LazyLock;
    static OF_PROCESS: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("REPLEX_HIHOOI_PLANTED").ok());
    let of_process = OF_PROCESS.as_ref();
    PLANTED.get() == Some(bug) || of_process.is_some_and(|name| *name == format!("{bug:?}"))
}

/// Returns false: without the feature no bug is planted.
#[cfg(not(feature = "planted"))]
pub const fn is(_: ProxyBug) -> bool {
    false
}
