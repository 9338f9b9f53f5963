//! Whatever both peers send, in whatever order, the machine neither panics nor leaves its
//! invariants.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{
    Action, AsPrepared, At, Attachment, BatchIn, Changes, ComingMessage, Event, Leftover, Numbers,
    Out, Pinning, Prepared, Proof, ReadThere, Router, Session, SessionOptions, Snapshots, Taken,
    Text, Then, Treatment,
};
use crate::grammar::{Grammar, SessionEffect};
use crate::server::{Parameters, ServerConnection};
use pg_wire::cut::{Cutter, Piece, Side};
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

/// Has nothing noted of what goes to servers.
struct NoRouter;

impl Router for NoRouter {
    fn look(&mut self, _: &ComingMessage<'_>) -> Treatment {
        Treatment::default()
    }
}

/// Gives the session what it wants, as a relay does. True if it ended.
fn serve(session: &mut Session, servers: &mut Servers, offer: Offer, out: &mut Out) -> bool {
    match session.next() {
        Action::Pause => session.step(Event::Pause, out).is_err(),
        Action::End(_) => true,
        Action::Over(Then::Release(changes)) => {
            assert_eq!(session.leftover(), Leftover::Nothing);
            let server = servers.attached.as_mut();
            let server = server.expect("only a server that is attached is released");
            // No other session gets a server whose settings are not known.
            assert_eq!(server.is_dirty, changes != Changes::Nothing);
            if server.is_dirty && offer == Offer::Nothing {
                let kept = session.step(Event::Keep, out);
                assert_eq!(kept, Ok(Action::Over(Then::Keep)));
                return false;
            }
            if server.is_dirty {
                let snapshots = Some(Snapshots::OfStatements);
                let known = session.step(Event::Settings { server, snapshots }, out);
                assert_eq!(known, Ok(Action::Over(Then::Release(Changes::Nothing))));
            }
            assert!(!servers.attached.as_ref().is_some_and(|it| it.is_dirty));
            release(session, servers, out)
        }
        Action::Return => {
            assert_eq!(session.leftover(), Leftover::Nothing);
            assert!(!servers.attached.as_ref().is_some_and(|it| it.is_dirty));
            release(session, servers, out)
        }
        Action::Route(BatchIn::Waiting) => go_on(session, servers, offer, out),
        Action::Route(_) if offer == Offer::Nothing => {
            let report = Report::new(Severity::Error, "08001", "no");
            session.step(Event::Refuse(&report), out).is_err()
        }
        Action::Route(batch_in) => attach(session, servers, (batch_in, offer), out),
        Action::Exchange | Action::Await | Action::Gather | Action::Over(Then::Keep) => false,
    }
}

fn release(session: &mut Session, servers: &mut Servers, out: &mut Out) -> bool {
    servers.attached = None;
    let is_over = session.step(Event::Released, out).is_err();
    servers.attached = servers.kept.take();
    is_over
}

fn attach(
    session: &mut Session,
    servers: &mut Servers,
    (batch_in, offer): (BatchIn, Offer),
    out: &mut Out,
) -> bool {
    let demand = session.demand();
    let is_read = demand.is_whole && !demand.is_pinned;
    let has_failed = demand.fault.is_some();
    let is_query = matches!(demand.texts[..], [Text::Simple(..)]);
    let at = match offer {
        Offer::Replica(_) if is_read && !has_failed && batch_in == BatchIn::Snapshot => {
            At::Snapshot(Numbers::Unknown)
        }
        Offer::Replica(proof) if is_read && !has_failed => {
            let as_prepared = AsPrepared {
                prepared: Arc::new(Prepared::by_proxy("SELECT $1", &[23], GRAMMAR)),
                parameters: message::bound_texts(&[b"7"]),
            };
            At::Replica(ReadThere {
                proof,
                numbers: Numbers::Unknown,
                as_prepared: Some(as_prepared).filter(|_| is_query && proof != Proof::End),
            })
        }
        _ => At::Primary,
    };
    let server = servers.attached.insert(ServerConnection::default());
    let attachment = Attachment::at(at);
    let attached = session.step(Event::Attach { server, attachment }, out);
    attached.is_err()
}

/// A batch of a transaction on the primary. True if the session ended.
fn go_on(session: &mut Session, servers: &mut Servers, offer: Offer, out: &mut Out) -> bool {
    let demand = session.demand();
    let (has_failed, is_whole) = (demand.fault.is_some(), demand.is_whole);
    let Some(primary) = servers.attached.as_mut() else {
        panic!("its transaction is there");
    };
    let proof = match offer {
        Offer::Replica(proof) if !has_failed && is_whole => proof,
        _ => {
            let (server, router) = (primary, &mut NoRouter);
            return session.step(Event::Resume { server, router }, out).is_err();
        }
    };
    servers.kept = servers.attached.replace(ServerConnection::default());
    let server = servers.attached.as_mut().expect("it was put there");
    let attachment = Attachment::at(At::Replica(ReadThere {
        proof,
        numbers: Numbers::Unknown,
        as_prepared: None,
    }));
    let attached = session.step(Event::Attach { server, attachment }, out);
    attached.is_err()
}

/// Takes the steps, one after the other, until the session ends.
fn run(steps: Vec<(Step, Offer)>) -> Result<(), TestCaseError> {
    let mut session = Session::new(SessionOptions {
        number: 1,
        process: 0,
        parameters: Arc::new(Parameters::new()),
        pinning: Pinning::WhenNeeded,
        grammar: GRAMMAR,
        snapshots: Some(Snapshots::OfStatements),
    });
    let (mut servers, mut out) = (Servers::default(), Out::default());
    for (index, (step, offer)) in steps.into_iter().enumerate() {
        let mut frame = bytes::BytesMut::new();
        let result = match step {
            Step::Client(tag, body) if session.next().takes(Taken::Message) => {
                message::write(&mut frame, tag, &[&body], 0);
                let piece = Cutter::new(Side::Client).next(&frame);
                let event = Event::Client {
                    piece: piece.unwrap().expect("it is whole"),
                    server: servers.attached.as_mut(),
                    router: &mut NoRouter,
                };
                session.step(event, &mut out).map(drop)
            }
            Step::Server(tag, body) if servers.attached.is_some() => {
                message::write(&mut frame, tag, &[&body], 0);
                let piece = Cutter::new(Side::Server).next(&frame);
                let piece: Piece<'_> = piece.unwrap().expect("it is whole");
                let event = Event::Server {
                    piece,
                    server: servers.attached.as_mut().expect("it is some"),
                    counts: &mut || index % 2 != 0,
                };
                session.step(event, &mut out).map(drop)
            }
            Step::Lose if servers.attached.is_some() => {
                let report = Report::new(Severity::Error, "08006", "gone");
                let is_cut = false;
                let lost = session.step(Event::ServerLost { report, is_cut }, &mut out);
                if matches!(lost, Ok(Action::End(_))) {
                    break;
                }
                servers.attached = servers.kept.take();
                let next = session.next();
                prop_assert!(next.takes(Taken::Message) || matches!(next, Action::Route(_)));
                lost.map(drop)
            }
            _ => Ok(()),
        };
        if result.is_err() || serve(&mut session, &mut servers, offer, &mut out) {
            break;
        }
        // It never waits for a peer that waits for it.
        let waits_for_server = session.next() == Action::Await;
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
