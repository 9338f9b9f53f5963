//! Sends random messages of both peers in random order, and checks that the machine neither panics
//! nor breaks its invariants.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{
    AfterTransaction, AttachedServer, Attachment, BatchTransaction, ClientPart, ComingMessage,
    MessageRouter, MessageTreatment, PeerOutput, PinningPolicy, PreparedForm, PreparedStatement,
    ReplicaRead, Session, SessionAction, SessionEvent, SessionLeftover, SessionOptions,
    SettingChanges, SnapshotProof, SnapshotScope, StatementText, TableOidMap,
};
use crate::grammar::{Grammar, SessionEffect};
use crate::server::{ReportedParameters, ServerConnection};
use pg_wire::framing::{MessageCutter, MessageSender, StreamPiece, WireMessage};
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
    statements: |_| Ok(1),
};

/// The next step of a test.
#[derive(Clone, Debug)]
enum Step {
    Client(u8, Vec<u8>),
    Server(u8, Vec<u8>),
    /// The server that is attached is gone.
    Lose,
}

/// The server that is available if the session wants one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    /// A replica, for statements that may run there, and the proof of their run.
    Replica(SnapshotProof),
    Primary,
    /// No server, except the primary for a transaction that is already there.
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
        6 => prop_oneof![Just(SnapshotProof::None), Just(SnapshotProof::First), Just(SnapshotProof::End)]
            .prop_map(Offer::Replica),
        3 => Just(Offer::Primary),
        1 => Just(Offer::Nothing),
    ];
    (step, offer)
}

/// Returns steps after which a transaction has begun on the primary, and its first batch is
/// answered.
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

/// Returns steps that prepare and describe a statement. The descriptions of further servers will
/// differ.
fn described() -> Vec<(Step, Offer)> {
    let client = |tag, body: &[u8]| (Step::Client(tag, body.to_vec()), Offer::Primary);
    let server = |tag, body: &[u8]| (Step::Server(tag, body.to_vec()), Offer::Primary);
    vec![
        client(b'P', b"a\0SELECT 1\0\0\0"),
        client(b'D', b"Sa\0"),
        client(b'S', b""),
        server(b'1', b""),
        server(b't', b"\0\0"),
        server(b'T', b"\0\0"),
        server(b'Z', b"I"),
        client(b'B', b"\0a\0\0\0\0\0\0\0"),
    ]
}

/// The server that is attached, and the primary's while a batch runs at a replica.
#[derive(Default)]
struct Servers {
    attached: Option<ServerConnection>,
    kept: Option<ServerConnection>,
}

/// A router that observes and changes no message to a server.
struct NoRouter;

impl MessageRouter for NoRouter {
    fn look(&mut self, _: &ComingMessage<'_>) -> MessageTreatment {
        MessageTreatment::default()
    }
}

fn session() -> Session {
    Session::new(SessionOptions {
        number: 1,
        process: 0,
        parameters: Arc::new(ReportedParameters::new()),
        pinning: PinningPolicy::WhenNeeded,
        grammar: GRAMMAR,
        snapshots: Some(SnapshotScope::OfStatements),
    })
}

/// Provides the session with the server that it wants, as a relay does. Returns whether the session
/// has ended.
fn serve(session: &mut Session, servers: &mut Servers, offer: Offer, out: &mut PeerOutput) -> bool {
    match session.next() {
        SessionAction::Pause => session.step(SessionEvent::Pause, out).is_err(),
        SessionAction::End(_) => true,
        SessionAction::Over(AfterTransaction::Release(changes)) => {
            assert_eq!(session.leftover(), SessionLeftover::Nothing);
            let server = servers.attached.as_mut();
            let server = server.expect("only a server that is attached is released");
            // No other session gets a server whose settings are not known.
            assert_eq!(server.is_dirty, changes != SettingChanges::Nothing);
            if server.is_dirty && offer == Offer::Nothing {
                let kept = session.step(SessionEvent::Keep, out);
                assert_eq!(kept, Ok(SessionAction::Over(AfterTransaction::Keep)));
                return false;
            }
            if server.is_dirty {
                let snapshots = Some(SnapshotScope::OfStatements);
                let known = session.step(SessionEvent::Settings { server, snapshots }, out);
                assert_eq!(
                    known,
                    Ok(SessionAction::Over(AfterTransaction::Release(
                        SettingChanges::Nothing
                    )))
                );
            }
            assert!(!servers.attached.as_ref().is_some_and(|it| it.is_dirty));
            release(session, servers, out)
        }
        SessionAction::Return => {
            assert_eq!(session.leftover(), SessionLeftover::Nothing);
            assert!(!servers.attached.as_ref().is_some_and(|it| it.is_dirty));
            release(session, servers, out)
        }
        SessionAction::Route(BatchTransaction::Waiting) => go_on(session, servers, offer, out),
        SessionAction::Route(_) if offer == Offer::Nothing => {
            let report = Report::new(Severity::Error, "08001", "no");
            session.step(SessionEvent::Refuse(&report), out).is_err()
        }
        SessionAction::Route(batch_in) => attach(session, servers, (batch_in, offer), out),
        SessionAction::Exchange
        | SessionAction::Await
        | SessionAction::AwaitCheck
        | SessionAction::Gather
        | SessionAction::Over(AfterTransaction::Keep) => false,
    }
}

fn release(session: &mut Session, servers: &mut Servers, out: &mut PeerOutput) -> bool {
    servers.attached = None;
    let is_over = session.step(SessionEvent::Released, out).is_err();
    servers.attached = servers.kept.take();
    is_over
}

fn attach(
    session: &mut Session,
    servers: &mut Servers,
    (batch_in, offer): (BatchTransaction, Offer),
    out: &mut PeerOutput,
) -> bool {
    let demand = session.demand();
    let is_read = demand.is_whole && !demand.is_pinned;
    let has_failed = demand.fault.is_some();
    let is_query = matches!(demand.texts[..], [StatementText::Simple(..)]);
    let at = match offer {
        Offer::Replica(_) if is_read && !has_failed && batch_in == BatchTransaction::Snapshot => {
            AttachedServer::Snapshot(TableOidMap::Unknown)
        }
        Offer::Replica(proof) if is_read && !has_failed => {
            let prepared_form = PreparedForm {
                prepared: Arc::new(PreparedStatement::by_proxy("SELECT $1", &[23], GRAMMAR)),
                parameters: message::bound_texts(&[b"7"]),
            };
            AttachedServer::Replica(ReplicaRead {
                proof,
                numbers: TableOidMap::Unknown,
                prepared_form: Some(prepared_form)
                    .filter(|_| is_query && proof != SnapshotProof::End),
            })
        }
        _ => AttachedServer::Primary,
    };
    let server = servers.attached.insert(ServerConnection::default());
    let attachment = Attachment::at(at);
    let attached = session.step(SessionEvent::Attach { server, attachment }, out);
    attached.is_err()
}

/// Provides a server for the next batch of a transaction on the primary. Returns whether the
/// session's machine failed.
fn go_on(session: &mut Session, servers: &mut Servers, offer: Offer, out: &mut PeerOutput) -> bool {
    let demand = session.demand();
    let (has_failed, is_whole) = (demand.fault.is_some(), demand.is_whole);
    let Some(primary) = servers.attached.as_mut() else {
        panic!("its transaction is there");
    };
    let proof = match offer {
        Offer::Replica(proof) if !has_failed && is_whole => proof,
        _ => {
            let (server, router) = (primary, &mut NoRouter);
            return session
                .step(SessionEvent::Resume { server, router }, out)
                .is_err();
        }
    };
    servers.kept = servers.attached.replace(ServerConnection::default());
    let server = servers.attached.as_mut().expect("it was put there");
    let attachment = Attachment::at(AttachedServer::Replica(ReplicaRead {
        proof,
        numbers: TableOidMap::Unknown,
        prepared_form: None,
    }));
    let attached = session.step(SessionEvent::Attach { server, attachment }, out);
    attached.is_err()
}

/// Runs the steps, one after the other, until the session ends.
fn run(steps: Vec<(Step, Offer)>) -> Result<(), TestCaseError> {
    let mut session = session();
    let (mut servers, mut out) = (Servers::default(), PeerOutput::default());
    for (index, (step, offer)) in steps.into_iter().enumerate() {
        let mut frame = bytes::BytesMut::new();
        let result = match step {
            Step::Client(tag, body) if session.next().takes(ClientPart::Message) => {
                message::write(&mut frame, tag, &[&body], 0);
                let piece = MessageCutter::new(MessageSender::Client).next(&frame);
                let event = SessionEvent::Client {
                    piece: piece.unwrap().expect("it is whole"),
                    server: servers.attached.as_mut(),
                    router: &mut NoRouter,
                };
                session.step(event, &mut out).map(drop)
            }
            Step::Server(tag, body) if servers.attached.is_some() => {
                message::write(&mut frame, tag, &[&body], 0);
                let piece = MessageCutter::new(MessageSender::Server).next(&frame);
                let piece: StreamPiece<'_> = piece.unwrap().expect("it is whole");
                let event = SessionEvent::Server {
                    piece,
                    server: servers.attached.as_mut().expect("it is some"),
                    is_valid: &mut || index % 2 != 0,
                };
                session.step(event, &mut out).map(drop)
            }
            Step::Lose if servers.attached.is_some() => {
                let report = Report::new(Severity::Error, "08006", "gone");
                let is_cut = false;
                let lost = session.step(SessionEvent::ServerLost { report, is_cut }, &mut out);
                if matches!(lost, Ok(SessionAction::End(_))) {
                    break;
                }
                servers.attached = servers.kept.take();
                let next = session.next();
                prop_assert!(
                    next.takes(ClientPart::Message) || matches!(next, SessionAction::Route(_))
                );
                lost.map(drop)
            }
            _ => Ok(()),
        };
        if result.is_err() || serve(&mut session, &mut servers, offer, &mut out) {
            break;
        }
        // It never waits for a peer that waits for it.
        let waits_for_server = matches!(
            session.next(),
            SessionAction::Await | SessionAction::AwaitCheck
        );
        prop_assert!(!waits_for_server || session.leftover() == SessionLeftover::Batch);
    }
    Ok(())
}

/// A session whose client and server send the messages of the test.
struct Peers {
    session: Session,
    server: ServerConnection,
    out: PeerOutput,
}

impl Peers {
    fn new() -> Peers {
        Peers {
            session: session(),
            server: ServerConnection::default(),
            out: PeerOutput::default(),
        }
    }

    fn client(&mut self, tag: u8, body: &[u8], rest: usize) -> SessionAction {
        let mut frame = bytes::BytesMut::new();
        message::write(&mut frame, tag, &[body], rest);
        let message = WireMessage {
            frame: &frame,
            rest,
        };
        self.piece(StreamPiece::Message(message))
    }

    fn piece(&mut self, piece: StreamPiece<'_>) -> SessionAction {
        let event = SessionEvent::Client {
            piece,
            server: Some(&mut self.server),
            router: &mut NoRouter,
        };
        self.session.step(event, &mut self.out).unwrap()
    }

    fn server(&mut self, tag: u8, body: &[u8]) -> SessionAction {
        let mut frame = bytes::BytesMut::new();
        message::write(&mut frame, tag, &[body], 0);
        let piece = StreamPiece::Message(WireMessage {
            frame: &frame,
            rest: 0,
        });
        let event = SessionEvent::Server {
            piece,
            server: &mut self.server,
            is_valid: &mut || true,
        };
        self.session.step(event, &mut self.out).unwrap()
    }

    fn attach(&mut self, at: AttachedServer) -> SessionAction {
        let event = SessionEvent::Attach {
            server: &mut self.server,
            attachment: Attachment::at(at),
        };
        self.session.step(event, &mut self.out).unwrap()
    }
}

#[test]
fn rest_of_message_is_dropped_with_its_replica() {
    let mut peers = Peers::new();
    peers.client(
        b'Q',
        b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY\0",
        0,
    );
    let wanted = peers.client(b'Q', b"SELECT 1\0", 0);
    assert_eq!(wanted, SessionAction::Route(BatchTransaction::Snapshot));
    peers.attach(AttachedServer::Snapshot(TableOidMap::Unknown));
    peers.server(b'C', b"SELECT 1\0");
    peers.server(b'Z', b"T");
    peers.client(b'B', b"\0\0\0\0\0\x01\0\x10\0\0", 1 << 20);
    peers.out = PeerOutput::default();
    let lost = SessionEvent::ServerLost {
        report: Report::new(Severity::Error, "08006", "gone"),
        is_cut: false,
    };
    let next = peers.session.step(lost, &mut peers.out);
    assert_eq!(next, Ok(SessionAction::Exchange));
    peers.piece(StreamPiece::Rest(&[0; 100]));
    assert!(
        peers.out.to_server.is_empty(),
        "the next server would get it"
    );
}

#[test]
fn effect_of_proxys_setting_is_not_the_next_querys() {
    let mut peers = Peers::new();
    peers.client(b'P', b"a\0SELECT 1\0\0\0", 0);
    let wanted = peers.client(b'Q', b"SET replex.trace = on\0", 0);
    assert_eq!(
        wanted,
        SessionAction::Route(BatchTransaction::NoTransaction)
    );
    peers.attach(AttachedServer::Primary);
    peers.client(b'Q', b"SELECT 1\0", 0);
    assert!(!peers.server.is_dirty, "a read changes no settings");
}

#[test]
fn sync_of_an_earlier_copy_ends_no_later_one() {
    let mut peers = Peers::new();
    peers.client(b'Q', b"BEGIN\0", 0);
    peers.client(b'Q', b"COPY a FROM STDIN\0", 0);
    peers.attach(AttachedServer::Primary);
    peers.server(b'C', b"BEGIN\0");
    peers.server(b'Z', b"T");
    peers.server(b'G', b"\0\0\0");
    peers.client(b'S', b"", 0);
    let error = b"SERROR\0C22P04\0Mwrong\0\0";
    peers.server(b'E', error);
    peers.server(b'Z', b"E");
    peers.client(b'B', b"\0\0\0\0\0\0\0\0", 0);
    peers.client(b'E', b"\0\0\0\0\0", 0);
    peers.server(b'2', b"");
    peers.server(b'G', b"\0\0\0");
    peers.out = PeerOutput::default();
    peers.server(b'E', error);
    assert!(
        peers.out.to_server.is_empty(),
        "the client has sent no Sync"
    );
}

/// A statement with other columns than its client knows: the server is sent what fails it, and the
/// client gets PostgreSQL's error.
#[test]
fn statement_with_other_columns_does_not_run() {
    let mut peers = Peers::new();
    for (tag, body) in [
        (b'P', &b"a\0SELECT 1\0\0\0"[..]),
        (b'D', b"Sa\0"),
        (b'S', b""),
    ] {
        peers.client(tag, body, 0);
    }
    peers.attach(AttachedServer::Primary);
    for (tag, body) in [
        (b'1', &b""[..]),
        (b't', b"\0\0"),
        (b'T', b"\0\0"),
        (b'Z', b"I"),
    ] {
        peers.server(tag, body);
    }
    let released = peers.session.step(SessionEvent::Released, &mut peers.out);
    assert_eq!(released, Ok(SessionAction::Exchange));
    (peers.server, peers.out) = (ServerConnection::default(), PeerOutput::default());
    for (tag, body) in [
        (b'B', &b"\0a\0\0\0\0\0\0\0"[..]),
        (b'E', b"\0\0\0\0\0"),
        (b'S', b""),
    ] {
        peers.client(tag, body, 0);
    }
    assert_eq!(
        peers.attach(AttachedServer::Primary),
        SessionAction::AwaitCheck
    );
    let tags = |out: &[u8]| {
        let mut cutter = MessageCutter::new(MessageSender::Client);
        let (mut rest, mut tags) = (out, Vec::new());
        while let Ok(Some(StreamPiece::Message(message))) = cutter.next(rest) {
            tags.push(message.tag());
            rest = &rest[message.frame.len()..];
        }
        tags
    };
    assert_eq!(tags(&peers.out.to_server), b"PDH");
    peers.server(b'1', b"");
    peers.server(b't', b"\0\0");
    peers.out.to_server.clear();
    peers.server(b'n', b"");
    assert_eq!(tags(&peers.out.to_server), b"PS");
    assert_eq!(peers.out.to_client.first(), Some(&b'E'));
    peers.out.to_client.clear();
    peers.server(b'E', b"SERROR\0C22P02\0\0");
    assert!(
        peers.out.to_client.is_empty(),
        "the client has got its error"
    );
    peers.server(b'Z', b"I");
    assert_eq!(peers.out.to_client.first(), Some(&b'Z'));
    assert_eq!(peers.session.leftover(), SessionLeftover::Nothing);
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

    #[test]
    fn any_order_with_a_description(steps in prop::collection::vec(step(), 0..60)) {
        run([described(), steps].concat())?;
    }
}
