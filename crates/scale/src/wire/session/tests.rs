//! Whatever both peers say, in whatever order, the machine neither panics nor leaves its invariants.

use std::sync::Arc;

use proptest::prelude::*;

use super::{At, Leftover, Out, Pinning, Session, Wants};
use crate::wire::cut::{Cutter, Piece, Side};
use crate::wire::message;
use crate::wire::report::{Report, Severity};
use crate::wire::server::{Parameters, Server};

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Client(u8, Vec<u8>),
    Server(u8, Vec<u8>),
    /// The next server that is wanted cannot be had.
    Refuse,
    /// The server that is attached is gone.
    Lose,
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(b"a\0".to_vec()),
        Just(b"\0\0\0\0\0\0\0\0".to_vec()),
        Just(b"\0a\0\0\0\0\0\0\0".to_vec()),
        Just(b"a\0SELECT 1\0\0\0".to_vec()),
        Just(b"SET a.b = 1\0".to_vec()),
        Just(b"BEGIN\0".to_vec()),
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

fn step() -> impl Strategy<Value = Step> {
    let client = prop::sample::select(b"QPBDECSSSHFdcfX".to_vec());
    let server = prop::sample::select(b"1122334TtnDCCIsEZZZGHWdcSNAVKR".to_vec());
    prop_oneof![
        5 => (client, body()).prop_map(|(tag, body)| Step::Client(tag, body)),
        5 => (server, body()).prop_map(|(tag, body)| Step::Server(tag, body)),
        1 => Just(Step::Refuse),
        1 => Just(Step::Lose),
    ]
}

/// Gives the session what it wants, as a relay does. True if it ended.
fn serve(session: &mut Session, server: &mut Option<Server>, refuse: bool, out: &mut Out) -> bool {
    match session.wants() {
        Wants::Messages => {}
        Wants::End => return true,
        Wants::Release => {
            assert_eq!(session.leftover(), Leftover::Nothing);
            let released = server
                .take()
                .expect("only a server that is attached is released");
            assert!(!released.is_dirty);
            session.released();
        }
        Wants::Server if refuse => {
            session.refuse(&Report::new(Severity::Error, "08001", "no"), out);
        }
        Wants::Server => {
            let is_read = session.demand().is_whole && !session.is_pinned();
            let at = if is_read { At::Extension } else { At::Primary };
            let server = server.insert(Server::default());
            return session.attach(server, (at, &[]), out).is_err();
        }
    }
    false
}

proptest! {
    #[test]
    fn any_order_of_messages(steps in prop::collection::vec(step(), 0..60)) {
        let mut session = Session::new(1, Arc::new(Parameters::new()), Pinning::WhenNeeded);
        session.defer_transactions();
        let (mut server, mut out) = (None, Out::default());
        for step in steps {
            let mut frame = bytes::BytesMut::new();
            let refuse = matches!(step, Step::Refuse);
            let result = match step {
                Step::Client(tag, body) if session.takes_client() => {
                    message::write(&mut frame, tag, &[&body], 0);
                    let piece = Cutter::new(Side::Client).next(&frame);
                    let piece = piece.unwrap().expect("it is whole");
                    session.client(piece, server.as_mut(), &mut out)
                }
                Step::Server(tag, body) if server.is_some() => {
                    message::write(&mut frame, tag, &[&body], 0);
                    let piece = Cutter::new(Side::Server).next(&frame);
                    let piece: Piece<'_> = piece.unwrap().expect("it is whole");
                    let server = server.as_mut().expect("it is some");
                    session.server(piece, server, &mut out)
                }
                Step::Lose if server.is_some() => {
                    let report = Report::new(Severity::Error, "08006", "gone");
                    if !session.lost(&report, &mut out) {
                        break;
                    }
                    server = None;
                    prop_assert!(session.takes_client());
                    Ok(())
                }
                _ => Ok(()),
            };
            if result.is_err() || serve(&mut session, &mut server, refuse, &mut out) {
                break;
            }
            // It never waits for somebody who waits for it.
            let waits_for_server = !session.takes_client() && session.wants() == Wants::Messages;
            prop_assert!(!waits_for_server || session.leftover() == Leftover::Batch);
        }
    }
}
