//! Planted bugs: each breaks one rule of docs/rules.md on purpose, so that tests can prove that they would notice.
//! They exist in this crate's unit tests, where the simulation plants them, and with the feature `planted`, where
//! the environment names one for the whole process; elsewhere [`is`] is the constant false.

/// One mutation of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// R29: a commit is Pending only until its client has the answer.
    PendingEndsAtAnswer,
    /// R29: a mark counts that an earlier manager wrote.
    MarkOfAnyEpoch,
    /// R31: what was executed is committed whatever is before it.
    CommitsOutOfOrder,
    /// R31: a group takes a commit that depends on what runs elsewhere, or waits outside of the group.
    GroupTakesDependent,
    /// R31: a group passes over what cannot be in it.
    GroupHasGaps,
    /// I14: a group notes its first commit's place.
    GroupNotesItsFirst,
    /// R32: what may be committing is not Pending.
    NotPending,
    /// R32: a commit whose connection broke did not happen.
    DoubtForgotten,
    /// R32: replicas get a commit that the primary does not show yet.
    GivenBeforeShown,
    /// R33: a replica that has less than what was pruned serves what is not in the indexes.
    FloorIgnored,
    /// R33: rows are pruned, and the floor does not rise.
    FloorStays,
    /// R33: what may read anything need see nothing.
    UnknownReadsNothing,
    /// R33: who reads a column need not see rows that were written.
    RowsHaveNoColumns,
    /// R33: a commit that is read again from the slot counts as the newest of its rows.
    IndexesGoBack,
    /// P1: a read counts that has a commit, and not one that was shown before it.
    TornReadsCount,
    /// P1: a read that has waited is watched from the end of its wait on only.
    WaitIsNotWatched,
    /// R32: a read that waits does not wait for what is Pending.
    WaitIgnoresPending,
    /// I14: what a replica shows counts as being on its disk when it is taken up.
    UnflushedCounts,
    /// I14: what an Extractor had sent before its connections broke may still be done.
    OldExtractorGoesOn,
    /// I14: who has been away is given what the reader remembers, though there is a gap before it.
    RecentHasGaps,
    /// I14: the slot forgets what who is away lacks before the transactions buffer has it on its disks.
    BufferNotWaitedFor,
    /// I14: the slot forgets what the transactions buffer has, though another proxy waits that has another one.
    BufferIsForAll,
    /// I14: pages of the transactions buffer count though some between them are missing.
    PagesHaveGaps,
    /// I14: a server that came back with less than it had is taken for what it was.
    GoneBackServes,
}

#[cfg(test)]
impl Bug {
    pub(crate) const ALL: &[Bug] = &[
        Bug::PendingEndsAtAnswer,
        Bug::MarkOfAnyEpoch,
        Bug::CommitsOutOfOrder,
        Bug::GroupTakesDependent,
        Bug::GroupHasGaps,
        Bug::GroupNotesItsFirst,
        Bug::NotPending,
        Bug::DoubtForgotten,
        Bug::GivenBeforeShown,
        Bug::FloorIgnored,
        Bug::FloorStays,
        Bug::UnknownReadsNothing,
        Bug::RowsHaveNoColumns,
        Bug::IndexesGoBack,
        Bug::TornReadsCount,
        Bug::WaitIsNotWatched,
        Bug::WaitIgnoresPending,
        Bug::UnflushedCounts,
        Bug::RecentHasGaps,
        Bug::BufferNotWaitedFor,
        Bug::BufferIsForAll,
        Bug::PagesHaveGaps,
        Bug::OldExtractorGoesOn,
        Bug::GoneBackServes,
    ];
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in what this thread does from now on, or none.
#[cfg(test)]
pub(crate) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether this bug is planted.
#[cfg(test)]
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether this bug is planted.
#[cfg(all(not(test), feature = "planted"))]
pub(crate) fn is(bug: Bug) -> bool {
    use std::sync::LazyLock;
    static PLANTED: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("REPLEX_HIHOOI_PLANTED").ok());
    PLANTED
        .as_ref()
        .is_some_and(|name| *name == format!("{bug:?}"))
}

/// Whether this bug is planted: never, outside of tests.
#[cfg(all(not(test), not(feature = "planted")))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
