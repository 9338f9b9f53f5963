//! A question to the coordinator on its way there.

use protocol::message::{CoordinatorReply, CoordinatorRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A request to the coordinator.
#[derive(Debug)]
pub(crate) struct CoordinatorCall {
    pub request: CoordinatorRequest,
    /// The caller that waits for the answer, and until when; none for a question of the session
    /// machine.
    pub waiter: Option<(oneshot::Sender<CallOutcome>, Instant)>,
}

/// The outcome of a request to the coordinator.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    Reply(Box<CoordinatorReply>, u64),
    /// It was never sent. Contains the failure at each coordinator.
    NotSent(Vec<String>),
    /// It was sent, and no answer came.
    Lost(String),
}

impl CoordinatorCall {
    /// Returns a question of the session machine.
    pub fn of_machine(request: CoordinatorRequest) -> CoordinatorCall {
        CoordinatorCall {
            request,
            waiter: None,
        }
    }

    /// Returns a question of a caller, with where the answer goes.
    pub fn of_caller(
        request: CoordinatorRequest,
        deadline: Instant,
    ) -> (CoordinatorCall, oneshot::Receiver<CallOutcome>) {
        let (sender, receiver) = oneshot::channel();
        let waiter = Some((sender, deadline));
        (CoordinatorCall { request, waiter }, receiver)
    }

    /// Returns whether the answer is still needed.
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
