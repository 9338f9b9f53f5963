//! Planted bugs: each breaks one rule of docs/rules.md on purpose, so that tests can prove that
//! they would notice. They exist with the feature `planted` only: the simulation plants them in its
//! thread, and the environment names one for a whole process. Elsewhere [`is`] is the constant
//! false.

#[cfg(feature = "planted")]
use alloc::format;
#[cfg(feature = "planted")]
use alloc::string::String;

/// One mutation of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyBug {
    /// R29: a commit is Pending only until its client has the answer.
    PendingEndsAtAnswer,
    /// R29: a mark counts that an earlier manager wrote.
    MarkOfAnyEpoch,
    /// R31: an executed transaction commits without waiting for those before it.
    CommitsOutOfOrder,
    /// R31: a group takes a commit that depends on a transaction that runs elsewhere, or waits
    /// outside of the group.
    GroupTakesDependent,
    /// R31: a group passes over transactions that cannot be in it.
    GroupHasGaps,
    /// I14: a group notes its first commit's place.
    GroupNotesItsFirst,
    /// R32: writes that may be committing are not Pending.
    NotPending,
    /// R32: a commit whose connection broke did not happen.
    DoubtForgotten,
    /// R32: replicas get a commit that the primary does not show yet.
    GivenBeforeShown,
    /// R33: a replica below the pruned commits serves reads of items that are not in the indexes.
    FloorIgnored,
    /// R33: rows are pruned, and the floor does not rise.
    FloorStays,
    /// R33: reads that may read anything need see nothing.
    UnknownReadsNothing,
    /// R33: a read of a column need not see writes of whole rows.
    RowsHaveNoColumns,
    /// R33: a commit that is read again from the slot counts as the newest of its rows.
    IndexesGoBack,
    /// P1: a read counts that has a commit without an earlier visible commit.
    TornReadsCount,
    /// P1: every commit counts as hidden while all before it were shown.
    HiddenWithoutProof,
    /// P1: a read that has waited is watched only from the end of its wait.
    WaitIsNotWatched,
    /// R32: a read that waits does not wait for Pending commits.
    WaitIgnoresPending,
    /// I14: commits that a replica shows count as being on its disk when the proxy begins to follow
    /// it.
    UnflushedCounts,
    /// I14: statements that an Extractor had sent before its connections broke may still be
    /// executed.
    OldExtractorGoesOn,
    /// I14: a replica that was offline is given the commits that the reader remembers, though there
    /// is a gap before them.
    RecentHasGaps,
    /// I14: the slot forgets commits that an offline replica lacks before the transactions buffer
    /// has them on its disks.
    BufferNotWaitedFor,
    /// I14: the slot forgets commits that the transactions buffer has, though another proxy waits
    /// that has another buffer.
    BufferIsForAll,
    /// I14: pages of the transactions buffer count though some between them are missing.
    PagesHaveGaps,
    /// I14: a server that came back with less than it had is treated as unchanged.
    GoneBackServes,
}

impl ProxyBug {
    /// Every planted bug.
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

/// Plants a bug, or none, in this thread from now on.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<ProxyBug>) {
    PLANTED.set(bug);
}

/// Returns whether this bug is planted: in this thread, or by the environment in the whole process.
#[cfg(feature = "planted")]
pub fn is(bug: ProxyBug) -> bool {
    use std::sync::LazyLock;
    static OF_PROCESS: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("REPLEX_HIHOOI_PLANTED").ok());
    let of_process = OF_PROCESS.as_ref();
    PLANTED.get() == Some(bug) || of_process.is_some_and(|name| *name == format!("{bug:?}"))
}

/// Returns whether this bug is planted: never, without the feature.
#[cfg(not(feature = "planted"))]
pub const fn is(_: ProxyBug) -> bool {
    false
}
