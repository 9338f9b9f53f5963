//! Whatever both peers send, in whatever order, the machine neither panics nor leaves its
//! invariants.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{
    AsPrepared, At, Changes, Leftover, Out, Pinning, Prepared, Proof, Session, Snapshots, Text,
    Wants,
};
use crate::grammar::{Grammar, SessionEffect};
use crate::server::{Parameters, ServerConnection};
use pg_wire::cut::{Cutter, Piece, Side, WireMessage};
use pg_wire::message;
use pg_wire::report::{Report, Severity};

/// Reads just the texts that [`body`] makes.
const GRAMMAR: Grammar = Grammar {
    effect: |text| match text.split(|byte| *byte == b' ').next() {
        Some(b"RESET") => SessionEffect::ResetsSettings,
        Some(b"SET") if text.starts_with(b"SET a.b") => SessionEffect::KeepsSession,
        Some(b"SET") => SessionEffect::SetsSettings,
        Some(b"DISCARD") => SessionEffect::KeepsSession,
        _ if text.starts_with(b"SELECT set_config") => SessionEffect::SetsSettings,
        Some(b"SELECT" | b"BEGIN" | b"COMMIT" | b"") => SessionEffect::Nothing,
        _ => SessionEffect::KeepsSession,
    },
    rollback_to: |_| None,
};

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Client(u8, Vec<u8>),
    Server(u8, Vec<u8>),
    /// The server that is attached is gone.
    Lose,
}

/// Which server can be had, if one is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    /// A replica, for what may run there, and what shows that it has run.
    Replica(Proof),
    Primary,
    /// None; the primary for a transaction that is there.
    Nothing,
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(b"a\0".to_vec()),
        Just(b"\0\0\0\0\0\0\0\0".to_vec()),
        Just(b"\0a\0\0\0\0\0\0\0".to_vec()),
        Just(b"a\0SELECT 1\0\0\0".to_vec()),
        Just(b"SET a.b = 1\0".to_vec()),
        Just(b"SET jit = on\0".to_vec()),
        Just(b"RESET ALL\0".to_vec()),
        Just(b"\0SET jit = on\0\0\0".to_vec()),
        Just(b"a\0SELECT set_config('jit', 'on', false)\0\0\0".to_vec()),
        Just(b"\0a\0\0\0\0\0\0\0".to_vec()),
        Just(b"BEGIN\0".to_vec()),
        Just(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY\0".to_vec()),
        Just(b"COMMIT\0".to_vec()),
        Just(b"\0BEGIN\0\0\0".to_vec()),
        Just(b"\0\0\0\0\0".to_vec()),
        Just(b"SET application_name = 'a'\0".to_vec()),
        Just(b"Sa\0".to_vec()),
        Just(b"I".to_vec()),
        Just(b"T".to_vec()),
        Just(b"E".to_vec()),
        Just(b"DISCARD ALL\0".to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ]
}

fn step() -> impl Strategy<Value = (Step, Offer)> {
    let client = prop::sample::select(b"QPBDECSSSHFdcfX".to_vec());
    let server = prop::sample::select(b"1122334TtnDCCIsEZZZGHWdcSNAVKR".to_vec());
    let step = prop_oneof![
        5 => (client, body()).prop_map(|(tag, body)| Step::Client(tag, body)),
        5 => (server, body()).prop_map(|(tag, body)| Step::Server(tag, body)),
        1 => Just(Step::Lose),
    ];
    let offer = prop_oneof![
        6 => prop_oneof![Just(Proof::None), Just(Proof::First), Just(Proof::End)]
            .prop_map(Offer::Replica),
        3 => Just(Offer::Primary),
        1 => Just(Offer::Nothing),
    ];
    (step, offer)
}

/// A transaction has begun on the primary, and its first batch is answered.
fn begun() -> Vec<(Step, Offer)> {
    let client = |text: &[u8]| (Step::Client(b'Q', text.to_vec()), Offer::Primary);
    let server = |tag, body: &[u8]| (Step::Server(tag, body.to_vec()), Offer::Primary);
    vec![
        client(b"BEGIN\0"),
        client(b"SELECT 1\0"),
        server(b'C', b"BEGIN\0"),
        server(b'Z', b"T"),
        server(b'C', b"SELECT 1\0"),
        server(b'Z', b"T"),
    ]
}

/// The server that is attached, and the primary's where a batch runs elsewhere.
#[derive(Default)]
struct Servers {
    attached: Option<ServerConnection>,
    kept: Option<ServerConnection>,
}

/// Gives the session what it wants, as a relay does. True if it ended.
fn serve(session: &mut Session, servers: &mut Servers, offer: Offer, out: &mut Out) -> bool {
    match session.wants() {
        Wants::Messages if session.may_wait() => session.wait(),
        Wants::Messages => {}
        Wants::End => return true,
        Wants::Release => {
            assert_eq!(session.leftover(), Leftover::Nothing);
            let server = servers.attached.as_mut();
            let server = server.expect("only a server that is attached is released");
            // No other session gets a server whose settings are not known.
            assert_eq!(server.is_dirty, session.changes() != Changes::Nothing);
            if server.is_dirty && offer == Offer::Nothing {
                session.keep_server();
                return false;
            }
            if server.is_dirty {
                session.goes_on(server, Some(Snapshots::OfStatements));
            }
            assert!(!server.is_dirty);
            servers.attached = None;
            session.released(out);
            servers.attached = servers.kept.take();
        }
        Wants::Server if session.is_waiting() => return go_on(session, servers, offer, out),
        Wants::Server if offer == Offer::Nothing => {
            session.refuse(&Report::new(Severity::Error, "08001", "no"), out);
        }
        Wants::Server => {
            let is_read = session.demand().is_whole && !session.is_pinned();
            let has_failed = session.failure_elsewhere().is_some();
            let at = match offer {
                Offer::Replica(proof) if is_read && !has_failed => At::Replica(proof),
                _ => At::Primary,
            };
            let is_query = matches!(session.demand().texts[..], [Text::Simple(..)]);
            if is_query && matches!(at, At::Replica(Proof::None | Proof::First)) {
                let prepared = Arc::new(Prepared::by_proxy("SELECT $1", &[23], GRAMMAR));
                let parameters = message::bound_texts(&[b"7"]);
                session.runs_as(AsPrepared {
                    prepared,
                    parameters,
                });
            }
            let server = servers.attached.insert(ServerConnection::default());
            return session.attach(server, (at, &[]), out).is_err();
        }
    }
    false
}

/// A batch of a transaction on the primary. True if the session ended.
fn go_on(session: &mut Session, servers: &mut Servers, offer: Offer, out: &mut Out) -> bool {
    let primary = servers.attached.as_mut().expect("its transaction is there");
    let has_failed = session.failure_elsewhere().is_some();
    let proof = match offer {
        Offer::Replica(proof) if !has_failed && session.demand().is_whole => Some(proof),
        _ => None,
    };
    let Some(proof) = proof else {
        let (frames, rest) = session.resume(primary, out);
        let last = frames.len().saturating_sub(1);
        return frames.iter().enumerate().any(|(index, frame)| {
            let rest = if index == last { rest } else { 0 };
            let message = Piece::Message(WireMessage { frame, rest });
            session.client(message, Some(&mut *primary), out).is_err()
        });
    };
    servers.kept = servers.attached.replace(ServerConnection::default());
    let server = servers.attached.as_mut().expect("it was put there");
    session
        .attach(server, (At::Replica(proof), &[]), out)
        .is_err()
}

/// Takes the steps, one after the other, until the session ends.
fn run(steps: Vec<(Step, Offer)>) -> Result<(), TestCaseError> {
    let mut session = Session::new(1, Arc::new(Parameters::new()), Pinning::WhenNeeded, GRAMMAR);
    session.defer_transactions(Some(Snapshots::OfStatements));
    let (mut servers, mut out) = (Servers::default(), Out::default());
    for (index, (step, offer)) in steps.into_iter().enumerate() {
        let mut frame = bytes::BytesMut::new();
        let result = match step {
            Step::Client(tag, body) if session.takes_client() => {
                message::write(&mut frame, tag, &[&body], 0);
                let piece = Cutter::new(Side::Client).next(&frame);
                let piece = piece.unwrap().expect("it is whole");
                let server = servers.attached.as_mut();
                session.client(piece, server.filter(|_| session.is_attached()), &mut out)
            }
            Step::Server(tag, body) if servers.attached.is_some() => {
                message::write(&mut frame, tag, &[&body], 0);
                let piece = Cutter::new(Side::Server).next(&frame);
                let piece: Piece<'_> = piece.unwrap().expect("it is whole");
                let server = servers.attached.as_mut().expect("it is some");
                if session.is_proof(tag) {
                    match index % 2 {
                        0 => session.tears(),
                        _ => session.counts(&mut out),
                    }
                }
                session.server(piece, server, &mut out)
            }
            Step::Lose if servers.attached.is_some() => {
                let report = Report::new(Severity::Error, "08006", "gone");
                if !session.lost(&report, &mut out) {
                    break;
                }
                servers.attached = servers.kept.take();
                prop_assert!(session.takes_client() || session.wants() == Wants::Server);
                Ok(())
            }
            _ => Ok(()),
        };
        if result.is_err() || serve(&mut session, &mut servers, offer, &mut out) {
            break;
        }
        // It never waits for a peer that waits for it.
        let waits_for_server = !session.takes_client() && session.wants() == Wants::Messages;
        prop_assert!(!waits_for_server || session.leftover() == Leftover::Batch);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_order_of_messages(steps in prop::collection::vec(step(), 0..60)) {
        run(steps)?;
    }

    #[test]
    fn any_order_in_a_transaction(steps in prop::collection::vec(step(), 0..60)) {
        run([begun(), steps].concat())?;
    }
}
