//! Requests that cannot end: a copy of their row is on a server that is down, and nobody can replace
//! it, for too many are down at once. They are told so, instead of waiting in vain.

use alloc::vec::Vec;

use super::head::Queued;
use super::{CoreMachine, Now, Output, Tables, TablesError};
use crate::identity::{PartitionId, RequestId, ServerId};
use crate::message::Refusal;

impl CoreMachine {
    /// The first server of a chain without which it cannot end.
    pub(super) fn lost_in(&self, chain: &[PartitionId]) -> Option<ServerId> {
        if self.lost.is_empty() {
            return None;
        }
        let places = chain.iter().filter_map(|id| self.configuration.place(*id));
        let mut servers = places.map(|place| place.core.server);
        servers.find(|server| self.lost.contains(server))
    }

    /// The server without which the operation that holds this pk cannot end.
    pub(super) fn lost_before(&self, id: PartitionId, pk: &[u8]) -> Option<ServerId> {
        if self.lost.is_empty() {
            return None;
        }
        let holders = self.partitions[&id].locks.holders(pk).iter();
        let mut members = holders.filter_map(|holder| self.members.get(&(*holder, id)));
        members.find_map(|member| self.lost_in(&member.prepare.chain))
    }

    /// The server without which a request that is under way cannot end.
    pub(super) fn lost_to(&self, request: RequestId) -> Option<ServerId> {
        if self.lost.is_empty() {
            return None;
        }
        let mut members = self.members.values();
        let member = members.find(|member| {
            let mut requests = member.prepare.requests.iter();
            member.place == 0 && requests.any(|it| it.request == request)
        })?;
        self.lost_in(&member.prepare.chain)
    }

    /// Servers were lost: whoever waits for them is told.
    pub(super) fn refuse_lost<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if self.lost.is_empty() {
            return Ok(());
        }
        let heads = self.members.values().filter(|member| member.place == 0);
        let stuck = heads.filter_map(|member| {
            let server = self.lost_in(&member.prepare.chain)?;
            Some((member.prepare.clone(), server))
        });
        let stuck: Vec<_> = stuck.collect();
        for (prepare, server) in stuck {
            let begun = true;
            for record in &prepare.requests {
                let running = self.running.get_mut(&record.request);
                let asked = running.map(|running| core::mem::take(&mut running.asked));
                for asked in asked.unwrap_or_default() {
                    self.refuse(asked, Refusal::Lost { server, begun }, output);
                }
            }
        }
        let partitions = self.partitions.values();
        let queued = partitions.flat_map(|partition| {
            let keys = partition.queues.keys();
            keys.map(|pk| (partition.id, pk.clone()))
        });
        let queued: Vec<_> = queued.collect();
        for (id, pk) in queued {
            self.start_queue(now, id, &pk, tables, output)?;
        }
        Ok(())
    }

    /// Refuses all that waits for a pk, undone.
    pub(super) fn refuse_queue(
        &mut self,
        id: PartitionId,
        pk: &[u8],
        server: ServerId,
        output: &mut Output,
    ) {
        let partition = self.partitions.get_mut(&id).expect("callers hold it");
        let queue = partition.queues.remove(pk).unwrap_or_default();
        self.refuse_undone(queue, server, output);
    }

    /// Refuses requests that were not begun.
    pub(super) fn refuse_undone(
        &mut self,
        requests: impl IntoIterator<Item = Queued>,
        server: ServerId,
        output: &mut Output,
    ) {
        let begun = false;
        for queued in requests {
            self.refuse_running(queued.request, &Refusal::Lost { server, begun }, output);
        }
    }
}
