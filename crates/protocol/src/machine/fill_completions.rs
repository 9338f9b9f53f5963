//! Completion records of a partition that is being filled: a retry finds its first result also at a
//! new head, and whatever fails next (SAFETY R13).
//!
//! Every member of a chain has the records of its operations. Each row of the partition is in some
//! member of the cover, which was in the chains that changed it: so all cores of the table that are
//! up, among which the cover's are and this one may be, have all records between them. The same cores
//! have seen every version that a row of the partition had (R6).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};

use super::asked::Asked;
use super::{CoreMachine, Output, Send};
use crate::codec::Wire;
use crate::identity::{CoreId, Now, PartitionId, Position, RequestId, Version};
use crate::message::PeerMessage;
use crate::planted::{self, Bug};
use crate::record::{Record, SavedCompletion};

/// How far the peers have been asked.
#[derive(Debug, Default)]
pub(super) struct Completions {
    peers: BTreeMap<CoreId, Peer>,
    /// All have answered, once. What is completed later comes through the chain.
    are_complete: bool,
}

/// How far one peer has been asked.
#[derive(Debug, Default)]
struct Peer {
    /// Where to go on.
    next: RequestId,
    /// It has told everything.
    is_done: bool,
    asked: Asked,
}

impl Completions {
    pub fn are_complete(&self) -> bool {
        self.are_complete
    }

    /// These are the peers now. Those that stay go on where they are.
    pub fn ask(&mut self, peers: Vec<CoreId>) {
        let mut before = core::mem::take(&mut self.peers);
        let peer = |core| {
            let mut peer = before.remove(&core).unwrap_or_default();
            peer.asked.lose();
            (core, peer)
        };
        self.peers = peers.into_iter().map(peer).collect();
        self.count();
    }

    /// What was asked of a core may be lost.
    pub fn ask_again(&mut self, core: CoreId) {
        if let Some(peer) = self.peers.get_mut(&core) {
            peer.asked.lose();
        }
    }

    /// Sends the questions that are due.
    pub fn send(&mut self, of: PartitionId, (now_us, retry_us): (u64, u64), output: &mut Output) {
        if self.are_complete {
            return;
        }
        for (core, peer) in &mut self.peers {
            if peer.is_done || peer.asked.is_under_way(now_us, retry_us) {
                continue;
            }
            peer.asked.ask(now_us);
            let start = peer.next;
            output.sends.push(Send {
                to: *core,
                after: Position(0),
                message: PeerMessage::CopyCompletions { of, start },
            });
        }
    }

    /// Notes it once all have told everything.
    fn count(&mut self) {
        self.are_complete |= self.peers.values().all(|peer| peer.is_done);
    }
}

impl CoreMachine {
    /// A core that fills a partition asks for completion records: of the requests to it, where it is
    /// a head, otherwise of all requests to the table.
    pub(super) fn on_copy_completions(
        &mut self,
        (from, of): (CoreId, PartitionId),
        start: RequestId,
        output: &mut Output,
    ) {
        if self.recovering.is_some() {
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
            if concerns(of, saved.head) {
                bytes += saved.to_bytes().len();
                completions.push(saved);
            }
        }
        output.sends.push(Send {
            to: from,
            after: Position(0),
            message: PeerMessage::CopiedCompletions {
                of,
                start,
                completions,
                next,
                last_version: self.last_version,
            },
        });
    }

    /// Completion records have come: those of which the log has no record of their own are logged. That
    /// this core knows one by an operation is not enough: the partition that took part in it may go
    /// to others, and this one stay.
    pub(super) fn on_copied_completions<T: Tables>(
        &mut self,
        now: Now,
        (from, of): (CoreId, PartitionId),
        (start, next): (RequestId, Option<RequestId>),
        (completions, last_version): (Vec<SavedCompletion>, Version),
        (tables, output): (&mut T, &mut Output),
    ) -> Result<(), TablesError> {
        let Some(fill) = self.fills.partitions.get_mut(&of) else {
            return Ok(());
        };
        let peer = fill.completions.peers.get_mut(&from);
        let peer = peer.filter(|peer| !peer.is_done && peer.next == start);
        let Some(peer) = peer.filter(|_| next.is_none_or(|next| next > start)) else {
            return Ok(());
        };
        peer.asked.end();
        match next {
            Some(next) => peer.next = next,
            None => peer.is_done = true,
        }
        fill.completions.count();
        if self.last_version < last_version {
            self.last_version = last_version;
            // No row need tell of it: those with the highest versions may have been deleted.
            let durability = self.partitions[&of].table.durability();
            let record = Record::Versions { last: last_version };
            self.log(&record, durability, output);
        }
        self.keep_completions(of, completions, output);
        self.try_end_fill(now, of, tables, output)?;
        self.ask_covers(now, output);
        Ok(())
    }

    /// As if this core had asked itself: what it knows by operations in which other partitions of it
    /// took part.
    pub(super) fn keep_own_completions(&mut self, of: PartitionId, output: &mut Output) {
        let saved = self.sessions.saved();
        let own = saved.filter(|saved| concerns(of, saved.head)).collect();
        self.keep_completions(of, own, output);
    }

    /// Logs those of which the log has no record of their own.
    fn keep_completions(
        &mut self,
        of: PartitionId,
        completions: Vec<SavedCompletion>,
        output: &mut Output,
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
            self.log(&record, durability, output);
        }
        // What was logged before for another partition, too, must be durable before this one may serve.
        let last = Position(self.next_position.0 - 1);
        let fill = self.fills.partitions.get_mut(&of);
        fill.expect("it is being filled").has_logged(last);
    }
}

/// Whether a partition's cores must know of requests to a head: its own, where it is one, otherwise
/// all requests to the table.
fn concerns(of: PartitionId, head: PartitionId) -> bool {
    match of.replex {
        0 => head == of,
        _ => head.table == of.table,
    }
}
