//! Tests the protocol machine with every order of first packets, with hostile lengths, and with
//! random bytes in random pieces.

use bytes::BufMut;
use pg_wire::frontend::CopyMessage;
use pg_wire::message::write;
use proptest::prelude::*;

use super::*;

const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
const CANCEL: u32 = 80_877_102;

fn packet(code: u32, body: &[u8]) -> BytesMut {
    let mut packet = BytesMut::new();
    packet.put_u32(u32::try_from(body.len() + 8).unwrap());
    packet.put_u32(code);
    packet.put_slice(body);
    packet
}

fn startup_packet() -> BytesMut {
    startup::write([("user", "ann")])
}

/// A machine after its StartupMessage.
fn serving() -> ClientProtocol {
    let mut protocol = ClientProtocol::default();
    let received = protocol.next(&mut startup_packet());
    assert!(matches!(received, Received::Startup(_)), "{received:?}");
    protocol
}

fn framed(tag: u8, body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    write(&mut out, tag, &[body], 0);
    out
}

/// Returns the machine's result in short: the tag of a message, or the SQLSTATE of a refusal, with
/// `!` if it is fatal and with `+Z` if ReadyForQuery follows.
fn short(received: &Received) -> String {
    match received {
        Received::Nothing => "-".into(),
        Received::TlsRequest | Received::GssRequest => "N".into(),
        Received::Startup(_) => "start".into(),
        Received::Cancel(_) => "cancel".into(),
        Received::Message(frame) => char::from(frame.0[0]).to_string(),
        Received::Refused(refusal) => {
            let end = match refusal.report.severity {
                Severity::Fatal => "!",
                _ if refusal.is_ready_after => "+Z",
                _ => "",
            };
            format!("{}{end}", refusal.report.code)
        }
        Received::Close => "close".into(),
    }
}

/// Returns everything that the machine returns for these bytes.
fn all(protocol: &mut ClientProtocol, bytes: &[u8]) -> Vec<String> {
    let mut input = BytesMut::from(bytes);
    let mut found = Vec::new();
    loop {
        let received = protocol.next(&mut input);
        if received == Received::Nothing {
            return found;
        }
        found.push(short(&received));
    }
}

#[test]
fn every_order_of_four_first_packets() {
    let kinds: [(&str, BytesMut); 6] = [
        ("tls", packet(TLS, b"")),
        ("gss", packet(GSS, b"")),
        ("cancel", packet(CANCEL, b"\0\0\0\x01\0\0\0\x02")),
        ("start", startup_packet()),
        ("version 2", packet(2 << 16, b"user\0ann\0\0")),
        ("http", BytesMut::from(&b"GET / HTTP/1.1\r\n"[..])),
    ];
    for number in 0..kinds.len().pow(4) {
        let order = (0..4).map(|place| &kinds[number / kinds.len().pow(place) % kinds.len()]);
        let order: Vec<&(&str, BytesMut)> = order.collect();
        let mut protocol = ClientProtocol::default();
        let (mut tls, mut gss, mut is_over, mut serves) = (false, false, false, false);
        for (name, bytes) in order.iter().map(|it| (it.0, &it.1)) {
            let expected: &[&str] = match name {
                _ if is_over => &[],
                // The first byte of a packet's length is no tag.
                "http" if serves => &["08P01!"],
                _ if serves => &["08P01!"],
                "tls" if !std::mem::replace(&mut tls, true) => &["N"],
                "gss" if !std::mem::replace(&mut gss, true) => &["N"],
                "tls" | "gss" => &["08P01!"],
                "cancel" => &["cancel"],
                "start" => &["start"],
                "version 2" => &["0A000!"],
                _ => &["close"],
            };
            serves |= expected == ["start"];
            is_over |= !matches!(expected, ["N"] | ["start"]);
            let names: Vec<&str> = order.iter().map(|it| it.0).collect();
            assert_eq!(all(&mut protocol, bytes), expected, "{name} in {names:?}");
        }
    }
}

#[test]
fn lengths_that_no_packet_has() {
    for length in [0_u32, 3, 7, 10_001, 1 << 31, u32::MAX] {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0; 16]);
        let found = all(&mut ClientProtocol::default(), &bytes);
        assert_eq!(found, ["close"], "{length}");
    }
    for length in [
        0_u32,
        3,
        1 << 30,
        1 << 31,
        u32::MAX,
        (-1_i32).cast_unsigned(),
    ] {
        let mut bytes = vec![b'Q'];
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(b"SELECT 1\0");
        assert_eq!(all(&mut serving(), &bytes), ["08P01!"], "{length}");
    }
    // A Sync is short.
    let mut bytes = vec![b'S'];
    bytes.extend_from_slice(&20_000_u32.to_be_bytes());
    assert_eq!(all(&mut serving(), &bytes), ["08P01!"]);
}

#[test]
fn startup_options_have_an_end() {
    let mut protocol = ClientProtocol::default();
    let mut input = BytesMut::new();
    input.put_u32(10_000);
    input.put_u32(3 << 16);
    while input.len() < 9_999 {
        assert_eq!(protocol.next(&mut input), Received::Nothing);
        input.put_u8(b'a');
    }
    input.put_u8(b'a');
    // The last byte is not the end of a list.
    assert_eq!(short(&protocol.next(&mut input)), "08P01!");
    input.put_slice(&startup_packet());
    assert_eq!(protocol.next(&mut input), Received::Nothing);
    assert!(input.is_empty());
}

#[test]
fn an_error_skips_to_the_next_sync() {
    let mut protocol = serving();
    let mut bytes = BytesMut::new();
    bytes.extend(framed(b'P', b"no end"));
    bytes.extend(framed(b'B', b"\0\0\0\0\0\0\0\0"));
    bytes.extend(framed(b'Q', b"SELECT 1\0"));
    bytes.extend(framed(b'E', b"\0\0\0\0\0"));
    bytes.extend(framed(b'S', b""));
    bytes.extend(framed(b'Q', b"SELECT 2\0"));
    assert_eq!(all(&mut protocol, &bytes), ["08P01", "S", "Q"]);
    protocol.skip_to_sync();
    let mut bytes = BytesMut::new();
    bytes.extend(framed(b'H', b""));
    bytes.extend(framed(b'P', b"broken"));
    bytes.extend(framed(b'X', b""));
    assert_eq!(all(&mut protocol, &bytes), ["X"]);
}

#[test]
fn messages_that_are_answered_on_their_own() {
    let mut protocol = serving();
    let mut bytes = BytesMut::new();
    bytes.extend(framed(b'Q', b"\xff\0"));
    bytes.extend(framed(b'F', b"\0\0\0\x01\0\0\0\0\0\0"));
    // The session knows whether a COPY runs.
    bytes.extend(framed(b'd', b"1\t2\n"));
    bytes.extend(framed(b'c', b""));
    bytes.extend(framed(b'f', b"why\0"));
    bytes.extend(framed(b'S', b""));
    bytes.extend(framed(b'p', b"password\0"));
    assert_eq!(
        all(&mut protocol, &bytes),
        ["08P01+Z", "0A000+Z", "d", "c", "f", "S", "08P01!"]
    );
    assert_eq!(all(&mut protocol, &framed(b'Q', b"SELECT 1\0")), [""; 0]);
}

#[test]
fn a_message_that_is_too_long_is_not_held() {
    for (tag, expected) in [(b'Q', &["54000+Z", "Q"][..]), (b'B', &["54000", "S"])] {
        let mut protocol = serving();
        let mut found = Vec::new();
        let mut input = BytesMut::new();
        input.put_u8(tag);
        input.put_u32(u32::try_from(4 * MESSAGE_LEN_MAX).unwrap());
        let mut left = 4 * MESSAGE_LEN_MAX - 4;
        while left > 0 {
            let count = left.min(100_000);
            input.put_bytes(b'x', count);
            left -= count;
            loop {
                let received = protocol.next(&mut input);
                if received == Received::Nothing {
                    break;
                }
                found.push(short(&received));
            }
            assert!(input.len() <= 100_000 && !matches!(protocol.long, Some(LongMessage::Held(_))));
        }
        let next = match tag {
            b'Q' => framed(b'Q', b"SELECT 1\0"),
            _ => framed(b'S', b""),
        };
        found.extend(all(&mut protocol, &next));
        assert_eq!(found, expected);
    }
}

#[test]
fn a_long_message_comes_whole() {
    let mut protocol = serving();
    let mut body = vec![b'x'; 3 << 20];
    body.push(0);
    let bytes = framed(b'Q', &body);
    let mut input = BytesMut::new();
    for piece in bytes.chunks(70_001) {
        assert_eq!(protocol.next(&mut input), Received::Nothing);
        input.put_slice(piece);
    }
    let Received::Message(frame) = protocol.next(&mut input) else {
        panic!("no message")
    };
    let ClientMessage::Query(text) = frame.message() else {
        panic!("no query")
    };
    assert_eq!(text.len(), 3 << 20);
    assert!(protocol.is_between_messages(&input));
}

/// The data of a COPY are not held, however long their message is.
#[test]
fn long_data_of_a_copy_come_in_pieces() {
    let mut protocol = serving();
    let data: Vec<u8> = (0..2 * MESSAGE_LEN_MAX)
        .map(|it| (it % 251) as u8)
        .collect();
    let bytes = [&framed(b'd', &data)[..], &framed(b'c', b"")].concat();
    let mut input = BytesMut::new();
    let mut found = Vec::new();
    let mut is_done = false;
    for piece in bytes.chunks(70_001) {
        input.put_slice(piece);
        loop {
            match protocol.next(&mut input) {
                Received::Nothing => break,
                Received::Message(frame) => match frame.message() {
                    ClientMessage::Copy(CopyMessage::Data(piece)) => found.extend_from_slice(piece),
                    message => is_done = message == ClientMessage::Copy(CopyMessage::Done),
                },
                other => panic!("{other:?}"),
            }
        }
        assert!(input.len() < 70_100);
    }
    assert!(found == data && is_done);
    // After a failure the rest of a message is dropped.
    let mut bytes = framed(b'd', &data[..500_000]);
    let mut rest = bytes.split_off(300_000);
    assert_eq!(all(&mut protocol, &bytes), ["d"]);
    protocol.skip_to_sync();
    rest.extend(framed(b'c', b""));
    rest.extend(framed(b'S', b""));
    assert_eq!(all(&mut protocol, &rest), ["S"]);
}

proptest! {
    /// Bytes mean the same in any pieces, and never cause a panic.
    #[test]
    fn random_bytes_in_random_pieces(
        starts in any::<bool>(),
        bytes in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                (prop::sample::select(b"QPBDECHSXFdcf".to_vec()), prop::collection::vec(0_u8..3, 0..20))
                    .prop_map(|(tag, body)| framed(tag, &body).to_vec()),
            ],
            0..8,
        ),
        piece in 1_usize..30,
    ) {
        let bytes = bytes.concat();
        let machine = || match starts {
            true => serving(),
            false => ClientProtocol::default(),
        };
        // A long CopyData is returned in pieces.
        let in_one = |mut found: Vec<String>| {
            found.dedup_by(|next, first| next == "d" && first == "d");
            found
        };
        let whole = in_one(all(&mut machine(), &bytes));
        let mut protocol = machine();
        let mut input = BytesMut::new();
        let mut found = Vec::new();
        for piece in bytes.chunks(piece) {
            input.put_slice(piece);
            loop {
                let received = protocol.next(&mut input);
                if received == Received::Nothing {
                    break;
                }
                found.push(short(&received));
            }
        }
        let found = in_one(found);
        prop_assert_eq!(&found, &whole);
        if let Some(end) = found.iter().position(|it| it.ends_with('!') || it == "close") {
            prop_assert_eq!(end, found.len() - 1);
        }
    }

    /// A stream that is cut anywhere leaves the machine waiting.
    #[test]
    fn truncated_streams_wait(cut in 0_usize..60) {
        let mut bytes = BytesMut::new();
        bytes.extend(framed(b'P', b"name\0SELECT $1\0\0\0"));
        bytes.extend(framed(b'B', b"\0name\0\0\0\0\x01\0\0\0\x01a\0\0"));
        bytes.extend(framed(b'S', b""));
        let cut = cut.min(bytes.len());
        let found = all(&mut serving(), &bytes[..cut]);
        prop_assert!(["P", "B", "S"].starts_with(&found.iter().map(String::as_str).collect::<Vec<_>>()));
    }
}
