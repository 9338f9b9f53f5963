//! The planted bugs that the model of fills must find.

use crate::planted::planted_bugs;

planted_bugs! { FillBug
    /// An operation that leaves the entry as it is does not visit a partition that is being filled.
    EntryThatStays = "entry-that-stays-left-out", "R55", "fills";
    /// A partition that is being filled does not keep that an entry has left it.
    LeavingForgotten = "leaving-forgotten", "R19", "fills";
    /// The row of a page replaces a newer entry, or returns a removed one.
    OlderPageWins = "older-page-wins", "R19", "fills";
    /// A partition serves before it has all pages.
    ServesEarly = "serves-before-all-pages", "R20", "fills";
    /// The end of an epoch commits an operation, and its entries are not written.
    ResolvedWithoutEntry = "resolved-without-entry", "R27", "splits-lost";
    /// The giver of a range does not count the changes that it settles there.
    ChangesUncounted = "changes-uncounted", "R49", "splits";
    /// The giver does not count an operation that leaves the entry as it is, though a page has come
    /// without the entry.
    StaysUncounted = "entry-that-stays-uncounted", "R55", "splits-lost";
    /// A range goes to its next owner while operations are in progress.
    HandedOverAtOnce = "handed-over-at-once", "R49", "splits";
    /// The next owner takes part in operations before it has the last changes.
    PartOfRange = "part-of-range-serves", "R49", "splits";
    /// The giver removes the entries before the next owner has them all.
    SweptEarly = "swept-early", "R49", "splits";
    /// The count of changes of a giver that has restarted is compared with the count before.
    CountOutlivesRestart = "count-outlives-restart", "R49", "splits-restart";
    /// The giver is lost before the next owner has everything, which then serves what it has.
    LostGiverTrusted = "lost-giver-trusted", "R20", "splits-lost";
    /// The giver answers reads of keys that it has given.
    GivenIsAnswered = "given-is-answered", "R47", "splits";
}
