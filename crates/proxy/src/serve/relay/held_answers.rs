//! Holds answers back from the client until certain commits are finished.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use super::{Relay, SessionEnd};
use proxy_core::freshness::{TStateId, Tsid};
use replication::leadership::lease::BootTime;

/// The condition for which the client's answers wait, at [`ConsistencyLevel::OneCopy`].
#[derive(Debug, Default)]
pub(super) enum HeldAnswers {
    #[default]
    Nothing,
    /// Until the slot's reader has read these commits.
    Commits(Vec<TStateId>),
    /// Until every serving replica has all commits up to this TSID.
    Until(Tsid),
}

impl Relay<'_> {
    /// Returns whether the client's answers still wait. Drops the condition once it holds.
    pub(super) fn check_held(&mut self) -> bool {
        if self.check_unproven() {
            return true;
        }
        let Some(routing) = self.routing else {
            return false;
        };
        let manager = match &self.held {
            HeldAnswers::Nothing => return false,
            _ => routing.manager(),
        };
        if let HeldAnswers::Commits(commits) = &self.held
            && !commits.iter().any(|id| manager.is_pending(*id))
        {
            self.held = HeldAnswers::Until(manager.latest());
        }
        if let HeldAnswers::Until(tsid) = self.held {
            let is_there = match manager.applied_everywhere() {
                Some(has) => {
                    self.none_serves = None;
                    has >= tsid
                }
                // They may be gone since one of them is to be the primary.
                None => {
                    let since = *self.none_serves.get_or_insert_with(BootTime::now);
                    routing.lease.is_proven_since(since)
                }
            };
            if is_there {
                self.held = HeldAnswers::Nothing;
            }
        }
        !matches!(self.held, HeldAnswers::Nothing)
    }

    /// Returns whether an answer of a replica must wait because another proxy might be active. Then
    /// the answer may be stale: it is sent only once the primary has confirmed that there was no
    /// other active proxy (R15).
    pub(super) fn check_unproven(&mut self) -> bool {
        if self.out.to_client.is_empty() {
            self.has_read = false;
        }
        self.has_read
            && self
                .routing
                .is_some_and(|routing| !routing.lease.is_valid())
    }

    pub(super) async fn flush_client(&mut self) -> Result<(), SessionEnd> {
        while self.client.has_to_write(&self.out.to_client) && !self.check_held() {
            let written = poll_fn(|context| self.poll_client(context)).await;
            written.map_err(|_| SessionEnd::Client)?;
        }
        Ok(())
    }

    /// Writes to the client once, unless its answer must wait.
    pub(super) fn poll_client(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.check_unproven() {
            true => Poll::Ready(Ok(())),
            false => self.poll_proven(context),
        }
    }

    /// Writes to the client once. The caller has checked that its answer need not wait.
    pub(super) fn poll_proven(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.client.poll_write(context, &mut self.out.to_client);
        if written.is_ready() {
            self.is_cut = !self.out.to_client.is_empty();
        }
        written
    }

    /// Sends the client its answer first, so that it need not wait for the work after it.
    pub(super) async fn answer_first(&mut self) -> Result<(), SessionEnd> {
        if self.check_held() || self.out.to_client.is_empty() {
            return Ok(());
        }
        let written = poll_fn(|context| Poll::Ready(self.poll_proven(context))).await;
        match written {
            Poll::Ready(Err(_)) => Err(SessionEnd::Client),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }
}
