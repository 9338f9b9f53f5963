//! Fetches the completion records for a partition that is being filled. With them a retry gets its
//! first result from a new head, too, also after further failures (R13).
//!
//! Every member of a chain has the records of its operations. Each row of the partition is in some
//! member of the cover, which was in the chains that changed it. So all cores of the table that are
//! up have all records together. The same cores have seen every version of the partition's rows
//! (R6).
//!
//! That holds at each moment, and peers are asked at different moments. A peer that has sent
//! everything can receive a record later, when it fills a partition of its own, from another peer.
//! If the other one is then lost before it has been asked, all peers are asked again.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::codec::Wire;
use protocol::identity::{CoreId, Incarnation, PartitionId, Position, RequestId, Version};
use protocol::message::PeerMessage;
use protocol::planted::{self, Bug};
use protocol::record::{Record, SavedCompletion};

use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};
use crate::core::repair::timer::RetryTimer;
use crate::core::step::Step;

/// The progress of the requests to peers for completion records.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    peers: BTreeMap<CoreId, Peer>,
    /// Whether all peers have sent everything once. Later completions come through the chain.
    are_complete: bool,
}

/// How far this core has asked one peer.
#[derive(Debug, Default)]
struct Peer {
    /// The start of its server that is asked. A later one can have fewer records.
    incarnation: Incarnation,
    /// The request from which the next question continues.
    next: RequestId,
    /// Whether the peer has sent everything.
    is_done: bool,
    timer: RetryTimer,
}

impl Completions {
    pub fn are_complete(&self) -> bool {
        self.are_complete
    }

    /// Sets the peers to ask, each with the start of its server. Peers that stay continue where
    /// they are, unless one that has not sent everything is lost.
    pub fn ask(&mut self, peers: Vec<(CoreId, Incarnation)>) {
        let mut before = core::mem::take(&mut self.peers);
        let stays = |core: &CoreId, peer: &Peer| peers.contains(&(*core, peer.incarnation));
        let mut unasked = before.iter().filter(|(_, peer)| !peer.is_done);
        let is_lost = unasked.any(|(core, peer)| !stays(core, peer));
        if is_lost && !planted::is(Bug::EarlierAnswersCount) {
            before.clear();
        }
        let peer = |(core, incarnation)| {
            let mut peer: Peer = before.remove(&core).unwrap_or_default();
            peer.incarnation = incarnation;
            peer.timer.lose();
            (core, peer)
        };
        self.peers = peers.into_iter().map(peer).collect();
        self.count();
    }

    /// Asks a core again, because requests to it may be lost.
    pub fn ask_again(&mut self, core: CoreId) {
        if let Some(peer) = self.peers.get_mut(&core) {
            peer.timer.lose();
        }
    }

    /// Sends the requests that are due.
    pub fn send(
        &mut self,
        of: PartitionId,
        (now_us, retry_us): (u64, u64),
        output: &mut CoreOutput,
    ) {
        if self.are_complete {
            return;
        }
        for (core, peer) in &mut self.peers {
            if peer.is_done || peer.timer.is_under_way(now_us, retry_us) {
                continue;
            }
            peer.timer.ask(now_us);
            let start = peer.next;
            output.sends.push(PeerSend {
                to: *core,
                after: Position(0),
                message: PeerMessage::CopyCompletions { of, start },
            });
        }
    }

    /// Records that the completions are complete, if all peers have sent everything.
    fn count(&mut self) {
        self.are_complete |= self.peers.values().all(|peer| peer.is_done);
    }
}

impl CoreMachine {
    /// Handles a request for completion records from a core that fills a partition. If the
    /// partition is a head, the answer has the requests to this head; otherwise all requests to the
    /// table.
    pub(crate) fn on_copy_completions(
        &mut self,
        from: CoreId,
        of: PartitionId,
        start: RequestId,
        output: &mut CoreOutput,
    ) {
        if self.recovers(of.table) {
            return;
        }
        let mut completions: Vec<SavedCompletion> = Vec::new();
        let mut next = None;
        let mut bytes = 0;
        for (looked_at, saved) in self.sessions.saved_from(start).enumerate() {
            let is_full =
                looked_at >= self.limits.page_keys_max || bytes >= self.limits.fill_page_bytes_max;
            if is_full {
                next = Some(saved.request.request);
                break;
            }
            if self.concerns(of, saved.head) {
                bytes += saved.to_bytes().len();
                completions.push(saved);
            }
        }
        output.sends.push(PeerSend {
            to: from,
            after: Position(0),
            message: PeerMessage::CopiedCompletions {
                of,
                start,
                completions,
                next,
                last_version: self.versions.last(),
            },
        });
    }

    /// Handles received completion records, and logs those that have no log record of their own. A
    /// record that this core knows from an operation must be logged, too: the partition that took
    /// part in the operation may move to another core, and this one stay.
    pub(crate) fn on_copied_completions<T: Tables>(
        &mut self,
        from: CoreId,
        of: PartitionId,
        (start, next): (RequestId, Option<RequestId>),
        (completions, last_version): (Vec<SavedCompletion>, Version),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(fill) = self.fills.get_mut(&of) else {
            return Ok(());
        };
        let peer = fill.completions.peers.get_mut(&from);
        let peer = peer.filter(|peer| !peer.is_done && peer.next == start);
        let Some(peer) = peer.filter(|_| next.is_none_or(|next| next > start)) else {
            return Ok(());
        };
        peer.timer.end();
        match next {
            Some(next) => peer.next = next,
            None => peer.is_done = true,
        }
        fill.completions.count();
        if !self.versions.is_logged(last_version) {
            // No row need show it: those with the highest versions may have been deleted.
            self.versions.log(last_version);
            let durability = self.partitions[&of].table.durability();
            let record = Record::Versions { last: last_version };
            self.append(&record, durability, step.output);
        }
        self.keep_completions(of, completions, step.output);
        self.try_end_fill(of, step)?;
        self.ask_covers(step.now, step.output);
        Ok(())
    }

    /// Keeps completion records that this core knows from operations of its other partitions, as if
    /// it had received them.
    pub(crate) fn keep_own_completions(&mut self, of: PartitionId, output: &mut CoreOutput) {
        let saved = self.sessions.saved();
        let own = saved
            .filter(|saved| self.concerns(of, saved.head))
            .collect();
        self.keep_completions(of, own, output);
    }

    /// Returns whether the core of partition `of` must know the requests to a head (R53). A
    /// partition of the primary replex needs its own requests, and those to heads of former primary
    /// replexes. Any other partition needs all requests to the table.
    fn concerns(&self, of: PartitionId, head: PartitionId) -> bool {
        let table = self.view.table(of.table);
        let is_primary = |id| table.is_some_and(|table| table.is_primary(id));
        let is_former = !is_primary(head) && !planted::is(Bug::FormerHeadsForgotten);
        match is_primary(of) && !is_former {
            true => head == of,
            false => head.table == of.table,
        }
    }

    /// Logs and keeps the completion records of which the log has no record of their own.
    fn keep_completions(
        &mut self,
        of: PartitionId,
        completions: Vec<SavedCompletion>,
        output: &mut CoreOutput,
    ) {
        let durability = self.partitions[&of].table.durability();
        let mut by_head: BTreeMap<PartitionId, Vec<_>> = BTreeMap::new();
        for SavedCompletion { head, request } in completions {
            if self.sessions.is_to_be_kept(&request) && !planted::is(Bug::CompletionsNotCopied) {
                self.sessions.keep(head, &request);
                by_head.entry(head).or_default().push(request);
            }
        }
        for (partition, requests) in by_head {
            let record = Record::Completed {
                partition,
                requests,
            };
            self.append(&record, durability, output);
        }
        // Records that were logged before for another partition must be durable, too, before this
        // one may serve.
        let last = self.log.last();
        let fill = self.fills.get_mut(&of);
        fill.expect("it is being filled").has_logged(last);
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "planted")]
    extern crate std;

    use alloc::vec;

    use protocol::identity::ServerId;

    use super::*;

    fn core(server: u32) -> CoreId {
        CoreId {
            server: ServerId(server),
            core: 0,
        }
    }

    fn peer(server: u32) -> (CoreId, Incarnation) {
        (core(server), Incarnation(1))
    }

    fn has_sent_everything(completions: &mut Completions, server: u32) {
        let peer = completions.peers.get_mut(&core(server));
        peer.expect("it is asked").is_done = true;
        completions.count();
    }

    #[test]
    fn what_a_peer_has_sent_does_not_count_once_another_is_lost_unasked() {
        let mut completions = Completions::default();
        completions.ask(vec![peer(1), peer(2)]);
        has_sent_everything(&mut completions, 1);
        assert!(!completions.are_complete());
        // Server 1 may have got a record from server 2 since then.
        completions.ask(vec![peer(1)]);
        assert!(!completions.are_complete());
        has_sent_everything(&mut completions, 1);
        assert!(completions.are_complete());
    }

    #[test]
    fn a_server_that_starts_again_can_have_lost_records() {
        let mut completions = Completions::default();
        completions.ask(vec![peer(1), peer(2)]);
        has_sent_everything(&mut completions, 1);
        completions.ask(vec![peer(1), (core(2), Incarnation(2))]);
        has_sent_everything(&mut completions, 2);
        assert!(!completions.are_complete());
        has_sent_everything(&mut completions, 1);
        assert!(completions.are_complete());
    }

    #[test]
    fn a_peer_that_has_sent_everything_may_go() {
        let mut completions = Completions::default();
        completions.ask(vec![peer(1), peer(2)]);
        has_sent_everything(&mut completions, 2);
        completions.ask(vec![peer(1)]);
        assert!(!completions.are_complete());
        has_sent_everything(&mut completions, 1);
        assert!(completions.are_complete());
    }

    // `cargo xtask mutants` runs it alone: the bug is planted for the whole process.
    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_is_noticed() {
        planted::select(Some(Bug::EarlierAnswersCount));
        let tests = [
            what_a_peer_has_sent_does_not_count_once_another_is_lost_unasked,
            a_server_that_starts_again_can_have_lost_records,
        ];
        for test in tests {
            assert!(std::panic::catch_unwind(test).is_err());
        }
    }
}
