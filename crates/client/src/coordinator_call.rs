//! A request to the coordinator, together with the caller that waits for the answer.

use protocol::message::{CoordinatorReply, CoordinatorRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A request to the coordinator.
#[derive(Debug)]
pub(crate) struct CoordinatorCall {
    pub request: CoordinatorRequest,
    /// The caller that waits for the answer, and its deadline; none for a request of the session
    /// machine.
    pub waiter: Option<(oneshot::Sender<CallOutcome>, Instant)>,
}

/// The outcome of a request to the coordinator.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    Reply(Box<CoordinatorReply>, u64),
    /// It was never sent. Contains the error of each coordinator.
    NotSent(Vec<String>),
    /// It was sent, and no answer came.
    Lost(String),
}

impl CoordinatorCall {
    /// Returns a request of the session machine.
    pub fn of_machine(request: CoordinatorRequest) -> CoordinatorCall {
        CoordinatorCall {
            request,
            waiter: None,
        }
    }

    /// Returns a request of a caller, which receives the answer through `waiter`.
    pub fn of_caller(
        request: CoordinatorRequest,
        deadline: Instant,
    ) -> (CoordinatorCall, oneshot::Receiver<CallOutcome>) {
        let (sender, receiver) = oneshot::channel();
        let waiter = Some((sender, deadline));
        (CoordinatorCall { request, waiter }, receiver)
    }

    /// Returns whether a caller or the session machine still needs the answer.
    pub fn is_wanted(&self) -> bool {
        self.waiter
            .as_ref()
            .is_none_or(|(sender, deadline)| !sender.is_closed() && *deadline > Instant::now())
    }

    /// Answers the caller, if there is one.
    pub fn answer(self, answer: CallOutcome) {
        if let Some((sender, _)) = self.waiter {
            // A caller that has gone needs no answer.
            let _ = sender.send(answer);
        }
    }
}
