//! A name for every variant that a frame can hold, so that none goes untested: a new one does not
//! compile until it has a name here, and a name without a golden frame fails a test.

use protocol::message::{
    CoordinatorReply, CoordinatorRequest, Message, PeerMessage, Refusal, Reply, Request,
};
use protocol::operation::{Action, RequestResult};

macro_rules! kinds {
    ($($pattern:pat => $name:literal,)*) => {
        /// Every name.
        pub const KINDS: &[&str] = &[$($name),*];

        /// The name of a message's variant, down to what was asked or answered. An `Execute` goes
        /// by its first mutation; without one it has no name.
        pub fn kind(message: &Message) -> &'static str {
            let first = match message {
                Message::Request(Request::Execute(execute)) => execute.mutations.first(),
                _ => None,
            };
            match (message, first.map(|mutation| &mutation.action)) {
                $($pattern => $name,)*
                (Message::Request(Request::Execute(_)), None) => "",
            }
        }
    };
}

kinds! {
    (Message::Hello(_), _) => "hello",
    (Message::Welcome(_), _) => "welcome",
    (Message::Request(Request::Execute(_)), Some(Action::Insert { .. })) => "request-insert",
    (Message::Request(Request::Execute(_)), Some(Action::InsertOrKeep { .. })) => "request-keep",
    (Message::Request(Request::Execute(_)), Some(Action::Upsert { .. })) => "request-upsert",
    (Message::Request(Request::Execute(_)), Some(Action::Update { .. })) => "request-update",
    (Message::Request(Request::Execute(_)), Some(Action::Delete { .. })) => "request-delete",
    (Message::Request(Request::Read(_)), _) => "request-read",
    (Message::Request(Request::Checksum(_)), _) => "request-checksum",
    (Message::Request(Request::Status), _) => "request-status",
    (Message::Request(Request::Release(_)), _) => "request-release",
    (Message::Reply(Reply::Executed(RequestResult::Applied { .. })), _) => "reply-applied",
    (Message::Reply(Reply::Executed(RequestResult::Kept)), _) => "reply-kept",
    (Message::Reply(Reply::Executed(RequestResult::NotFound)), _) => "reply-not-found",
    (Message::Reply(Reply::Executed(RequestResult::ConditionFailed)), _) => "reply-condition",
    (Message::Reply(Reply::Executed(RequestResult::Duplicate { .. })), _) => "reply-duplicate",
    (Message::Reply(Reply::Executed(RequestResult::NotDense { .. })), _) => "reply-not-dense",
    (Message::Reply(Reply::Executed(RequestResult::Invalid { .. })), _) => "reply-invalid",
    (Message::Reply(Reply::Executed(RequestResult::Conflict)), _) => "reply-conflict",
    (Message::Reply(Reply::Rows(_)), _) => "reply-rows",
    (Message::Reply(Reply::Checksum(_)), _) => "reply-checksum",
    (Message::Reply(Reply::Status(_)), _) => "reply-status",
    (Message::Reply(Reply::Released(_)), _) => "reply-released",
    (Message::Reply(Reply::Refused(Refusal::StaleEpoch { .. })), _) => "refused-stale-epoch",
    (Message::Reply(Reply::Refused(Refusal::WrongPartition)), _) => "refused-wrong-partition",
    (Message::Reply(Reply::Refused(Refusal::NotServing)), _) => "refused-not-serving",
    (Message::Reply(Reply::Refused(Refusal::Overloaded)), _) => "refused-overloaded",
    (Message::Reply(Reply::Refused(Refusal::DiskFull { .. })), _) => "refused-disk-full",
    (Message::Reply(Reply::Refused(Refusal::SessionEnded)), _) => "refused-session-ended",
    (Message::Reply(Reply::Refused(Refusal::RequestMismatch)), _) => "refused-request-mismatch",
    (Message::Reply(Reply::Refused(Refusal::Invalid { .. })), _) => "refused-invalid",
    (Message::Reply(Reply::Refused(Refusal::Begun)), _) => "refused-begun",
    (Message::Reply(Reply::Refused(Refusal::Lost { .. })), _) => "refused-lost",
    (Message::Peer(_, PeerMessage::Prepare(_)), _) => "peer-prepare",
    (Message::Peer(_, PeerMessage::Decision { .. }), _) => "peer-decision",
    (Message::Peer(_, PeerMessage::Settled { .. }), _) => "peer-settled",
    (Message::Peer(_, PeerMessage::Durable { .. }), _) => "peer-durable",
    (Message::Peer(_, PeerMessage::Confirm { .. }), _) => "peer-confirm",
    (Message::Peer(_, PeerMessage::Finished(_)), _) => "peer-finished",
    (Message::Peer(_, PeerMessage::Recover { .. }), _) => "peer-recover",
    (Message::Peer(_, PeerMessage::Adopt { .. }), _) => "peer-adopt",
    (Message::Peer(_, PeerMessage::RecoverEnd { .. }), _) => "peer-end-of-recovery",
    (Message::Peer(_, PeerMessage::LeaseRequest { .. }), _) => "peer-lease-request",
    (Message::Peer(_, PeerMessage::LeaseGrant { .. }), _) => "peer-lease-grant",
    (Message::Peer(_, PeerMessage::NewerEpoch { .. }), _) => "peer-newer-epoch",
    (Message::Peer(_, PeerMessage::Copy { .. }), _) => "peer-copy",
    (Message::Peer(_, PeerMessage::Copied { .. }), _) => "peer-copied",
    (Message::Peer(_, PeerMessage::Fetch { .. }), _) => "peer-fetch",
    (Message::Peer(_, PeerMessage::Fetched { .. }), _) => "peer-fetched",
    (Message::Peer(_, PeerMessage::CopyCompletions { .. }), _) => "peer-copy-completions",
    (Message::Peer(_, PeerMessage::CopiedCompletions { .. }), _) => "peer-copied-completions",
    (Message::Peer(_, PeerMessage::Compare { .. }), _) => "peer-compare",
    (Message::Peer(_, PeerMessage::Compared { .. }), _) => "peer-compared",
    (Message::Peer(_, PeerMessage::Changes { .. }), _) => "peer-changes",
    (Message::Peer(_, PeerMessage::Changed { .. }), _) => "peer-changed",
    (Message::Peer(_, PeerMessage::AskSealed { .. }), _) => "peer-ask-sealed",
    (Message::Peer(_, PeerMessage::Witness { .. }), _) => "peer-witness",
    (Message::Peer(_, PeerMessage::WitnessEnd { .. }), _) => "peer-end-of-witness",
    (Message::Ask(CoordinatorRequest::Join { .. }), _) => "ask-join",
    (Message::Ask(CoordinatorRequest::Heartbeat { .. }), _) => "ask-heartbeat",
    (Message::Ask(CoordinatorRequest::Fetch { .. }), _) => "ask-fetch",
    (Message::Ask(CoordinatorRequest::OpenSession), _) => "ask-open-session",
    (Message::Ask(CoordinatorRequest::CreateTable { .. }), _) => "ask-create-table",
    (Message::Ask(CoordinatorRequest::DropTable { .. }), _) => "ask-drop-table",
    (Message::Ask(CoordinatorRequest::AddCopy { .. }), _) => "ask-add-copy",
    (Message::Ask(CoordinatorRequest::DropCopy { .. }), _) => "ask-drop-copy",
    (Message::Ask(CoordinatorRequest::Renew { .. }), _) => "ask-renew",
    (Message::Ask(CoordinatorRequest::Progress), _) => "ask-progress",
    (Message::Ask(CoordinatorRequest::Leave { .. }), _) => "ask-leave",
    (Message::Ask(CoordinatorRequest::Stopped { .. }), _) => "ask-stopped",
    (Message::Ask(CoordinatorRequest::Remove { .. }), _) => "ask-remove",
    (Message::Ask(CoordinatorRequest::AcceptFolder { .. }), _) => "ask-accept-folder",
    (Message::Ask(CoordinatorRequest::Remember(_)), _) => "ask-remember",
    (Message::Ask(CoordinatorRequest::Drain { .. }), _) => "ask-drain",
    (Message::Ask(CoordinatorRequest::EndDrain { .. }), _) => "ask-end-drain",
    (Message::Answer(CoordinatorReply::Joined { .. }), _) => "answer-joined",
    (Message::Answer(CoordinatorReply::Beat { .. }), _) => "answer-beat",
    (Message::Answer(CoordinatorReply::Configuration(_)), _) => "answer-configuration",
    (Message::Answer(CoordinatorReply::Changes(_)), _) => "answer-changes",
    (Message::Answer(CoordinatorReply::Unchanged { .. }), _) => "answer-unchanged",
    (Message::Answer(CoordinatorReply::NewEpoch { .. }), _) => "answer-new-epoch",
    (Message::Answer(CoordinatorReply::Session { .. }), _) => "answer-session",
    (Message::Answer(CoordinatorReply::Done { .. }), _) => "answer-done",
    (Message::Answer(CoordinatorReply::Progress { .. }), _) => "answer-progress",
    (Message::Answer(CoordinatorReply::Recall), _) => "answer-recall",
    (Message::Answer(CoordinatorReply::Wait { .. }), _) => "answer-wait",
    (Message::Answer(CoordinatorReply::Refused { .. }), _) => "answer-refused",
    (Message::Goodbye { .. }, _) => "goodbye",
    (Message::Echo(_), _) => "echo",
    (Message::FindLeader, _) => "find-leader",
    (Message::Leadership(_), _) => "leadership",
}
