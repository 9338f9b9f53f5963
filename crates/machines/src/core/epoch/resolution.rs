//! Computes the outcome of an operation from the sealed logs (R4, as in
//! `docs/design/2026-11-21-what-a-resolution-may-believe.md`).
//!
//! It is a pure function, so every member computes the same outcome by itself.

use protocol::identity::{Epoch, PartitionId};
use protocol::operation::{Decision, RequestResult, Vote};
use protocol::planted::{self, Bug};

use crate::core::table::TableInfo;

/// The report of one member of the chain.
#[derive(Clone, Debug)]
pub(crate) enum MemberReport<'a> {
    /// The member's server was removed.
    Gone,
    /// The member's core has sealed.
    Present {
        /// The member has never crashed, or has caught up since: an operation that it does not know
        /// was not prepared there.
        certain: bool,
        /// All votes in the member's log, if it has the operation prepared; its own vote is the
        /// last.
        votes: Option<&'a [Vote]>,
        /// The decision, and the epoch of the resolution that made it, if a resolution made it.
        decision: Option<(Decision, Option<Epoch>)>,
    },
}

/// The decision that follows from the reports of all logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// The operation has this outcome.
    Decided(Decision),
    /// More servers are lost than the table tolerates. The outcome is unknown.
    Stuck,
}

/// Returns the outcome of an operation that some member has prepared. `parts` are in the order of
/// its members, first those of the chain. A side member has no vote and can only know a decision.
pub(crate) fn outcome(
    table: &TableInfo,
    chain: &[PartitionId],
    parts: &[MemberReport<'_>],
) -> Resolution {
    let abort = |reason| Resolution::Decided(Decision::Abort(reason));
    if let Some(decision) = known(parts) {
        return Resolution::Decided(decision);
    }
    let parts = &parts[..chain.len()];
    if let Some(reason) = refusal(parts).filter(|_| !planted::is(Bug::RefusalsIgnored)) {
        return abort(reason);
    }
    if parts.iter().any(is_certainly_nothing) {
        return abort(RequestResult::Conflict);
    }
    let agreed = |part: &MemberReport<'_>| match part {
        MemberReport::Present {
            votes: Some(votes), ..
        } => table.covers_voters(chain, votes),
        _ => false,
    };
    if parts.iter().any(agreed) {
        return Resolution::Decided(Decision::Commit);
    }
    // Where no member is gone, there is none to wait for.
    let complete = !parts.iter().any(|part| matches!(part, MemberReport::Gone));
    let guesses = planted::is(Bug::ResolutionGuesses);
    if complete || guesses || survivor_would_know(table, chain, parts) {
        abort(RequestResult::Conflict)
    } else {
        Resolution::Stuck
    }
}

/// Returns a decision that some member has. An earlier resolution stands against the reports of
/// members that were absent: no client can have seen the contrary. Of two resolutions by different
/// members, neither of which an epoch has served, the later one counts.
fn known(parts: &[MemberReport<'_>]) -> Option<Decision> {
    let decisions = parts.iter().filter_map(|part| match part {
        MemberReport::Present { decision, .. } => decision.as_ref(),
        MemberReport::Gone => None,
    });
    let best = decisions.max_by_key(|(_, resolved_in)| *resolved_in)?;
    Some(best.0.clone())
}

fn is_certainly_nothing(part: &MemberReport<'_>) -> bool {
    let restarted = planted::is(Bug::RestartedReportsNone);
    matches!(part, MemberReport::Present { certain, votes: None, .. } if *certain || restarted)
}

/// Returns the first vote of the chain that is no.
fn refusal(parts: &[MemberReport<'_>]) -> Option<RequestResult> {
    let votes = parts.iter().filter_map(|part| match part {
        MemberReport::Present { votes, .. } => *votes,
        MemberReport::Gone => None,
    });
    let first_no = |votes: &[Vote]| {
        let position = votes.iter().position(|vote| *vote != Vote::Yes)?;
        let Vote::No(reason) = &votes[position] else {
            return None;
        };
        Some((position, reason.clone()))
    };
    let refusals = votes.filter_map(first_no);
    refusals
        .min_by_key(|(position, _)| *position)
        .map(|(_, reason)| reason)
}

/// Returns whether a remaining member would know an outcome that was seen: it is in the log of the
/// member that made it visible, and all after that have received it. If the decision itself makes
/// it visible, that is the last member: another one at the same position may not have it yet.
fn survivor_would_know(
    table: &TableInfo,
    chain: &[PartitionId],
    parts: &[MemberReport<'_>],
) -> bool {
    let x = table.settle_position;
    let position = |place: usize| table.position(chain[place]);
    let first_at_x = if table.settles_at_decision() {
        chain.len() - 1
    } else {
        let mut places = 0..chain.len();
        places
            .find(|place| position(*place) == x)
            .expect("every replex has a member")
    };
    parts.iter().enumerate().any(|(place, part)| {
        let MemberReport::Present { certain, .. } = part else {
            return false;
        };
        // Without disks to wait for, its log does not show what it has forgotten.
        let has_log = place == first_at_x && table.sync;
        let twin = planted::is(Bug::TwinKnowsDecision) && position(place) >= x;
        has_log || (place >= first_at_x || twin) && *certain
    })
}
