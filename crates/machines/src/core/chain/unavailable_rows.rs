//! Refuses requests that cannot end, because a copy of their row is on a server that is down, and
//! too many servers are down to replace it.

use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{PartitionId, RequestId, ServerId};
use protocol::message::Refusal;

use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;
use crate::core::partition::queue::{Queued, QueuedRequest};
use crate::core::step::Step;

impl CoreMachine {
    /// Returns the lost server without which the operation that holds this pk cannot end.
    pub(crate) fn lost_before(&self, id: PartitionId, pk: &[u8]) -> Option<ServerId> {
        if !self.view.has_lost() {
            return None;
        }
        let holders = self.partitions[&id].locks.holders(pk).iter();
        let mut members = holders.filter_map(|holder| self.members.get(&(*holder, id)));
        members.find_map(|member| self.view.lost_in(&member.prepare.members))
    }

    /// Returns the lost server without which a running request cannot end.
    pub(crate) fn lost_to(&self, request: RequestId) -> Option<ServerId> {
        if !self.view.has_lost() {
            return None;
        }
        let mut members = self.members.values();
        let member = members.find(|member| {
            let mut requests = member.prepare.requests.iter();
            let heads = member.place == 0 || member.is_transaction();
            heads && requests.any(|it| it.request == request)
        })?;
        self.view.lost_in(&member.prepare.members)
    }

    /// Refuses the requests that wait for servers which were lost.
    pub(crate) fn refuse_lost<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if !self.view.has_lost() {
            return Ok(());
        }
        let heads = self.members.values();
        let heads = heads.filter(|member| member.place == 0 || member.is_transaction());
        let stuck = heads.filter_map(|member| {
            let server = self.view.lost_in(&member.prepare.members)?;
            Some((member.prepare.clone(), server))
        });
        let stuck: Vec<_> = stuck.collect();
        for (prepare, server) in stuck {
            let begun = true;
            for record in &prepare.requests {
                for asker in self.requests.leave(record.request) {
                    self.refuse(asker, Refusal::Lost { server, begun }, step.output);
                }
            }
        }
        for (id, pk) in self.partitions.queued_pks() {
            self.start_queue(id, &pk, step)?;
        }
        Ok(())
    }

    /// Refuses all requests that wait for a pk. They changed nothing.
    pub(crate) fn refuse_queue(
        &mut self,
        id: PartitionId,
        pk: &[u8],
        server: ServerId,
        output: &mut CoreOutput,
    ) {
        let partition = self.partitions.get_mut(&id).expect("callers hold it");
        let queue = partition.queues.remove(pk).unwrap_or_default();
        let (walks, requests): (Vec<Queued>, Vec<Queued>) = queue
            .into_iter()
            .partition(|queued| matches!(queued, Queued::Walk(_)));
        if !walks.is_empty() {
            partition.queues.insert(pk.to_vec(), walks.into());
        }
        let requests = requests.into_iter().filter_map(Queued::into_request);
        let begun = false;
        self.refuse_undone(requests, &Refusal::Lost { server, begun }, output);
    }

    /// Refuses requests that have not begun.
    pub(crate) fn refuse_undone(
        &mut self,
        requests: impl IntoIterator<Item = QueuedRequest>,
        refusal: &Refusal,
        output: &mut CoreOutput,
    ) {
        for queued in requests {
            self.refuse_running(queued.request, refusal, output);
        }
    }
}
