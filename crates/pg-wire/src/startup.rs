//! Reads the first packet of a connection, which has no tag: a request for encryption (TLS or
//! GSSAPI), a cancel request, or a startup message.

use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use bytes::{BufMut, BytesMut};

use crate::{Malformed, message};

/// The longest first packet that PostgreSQL accepts, in bytes.
pub const LEN_MAX: usize = 10_000;

const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// The newest minor version of protocol 3 that is spoken.
const MINOR_MAX: u16 = 2;

/// The first packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstPacket {
    /// The client requests TLS. The answer is one byte.
    Tls,
    /// The client requests GSSAPI encryption. The answer is one byte.
    Gss,
    /// A request to cancel the statement of the session with this key.
    Cancel(CancelKey),
    /// The start of a session.
    Startup(StartupPacket),
    /// An unsupported version of the protocol. Contains the answer.
    Unsupported(String),
}

/// Identifies a session in cancel requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CancelKey {
    /// The session's number, in place of PostgreSQL's process number.
    pub process: u32,
    /// The secret: 4 bytes in protocol 3.0, up to 256 in 3.2.
    pub secret: Vec<u8>,
}

/// The user, the database and the settings of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupPacket {
    /// The minor version of protocol 3 that the client requested.
    pub minor: u16,
    /// Names and values in the client's order: user, database, settings.
    pub parameters: Vec<(String, String)>,
}

impl StartupPacket {
    /// Returns the value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut of_name = self.parameters.iter().filter(|(known, _)| known == name);
        of_name.next_back().map(|(_, value)| value.as_str())
    }

    /// Returns the minor version that both sides support. There was no 3.1.
    pub fn minor_spoken(&self) -> u16 {
        match self.minor {
            0 | 1 => 0,
            minor => minor.min(MINOR_MAX),
        }
    }

    /// Returns the requested options of the protocol itself, none of which is supported.
    pub fn protocol_options(&self) -> impl Iterator<Item = &str> {
        let names = self.parameters.iter().map(|(name, _)| name.as_str());
        names.filter(|name| name.starts_with("_pq_."))
    }
}

/// Returns the length of the first packet in bytes, from its first four bytes; none until they have
/// arrived.
pub fn length(buffer: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(bytes) = buffer.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*bytes) as usize;
    if (8..=LEN_MAX).contains(&length) {
        Ok(Some(length))
    } else {
        Err(Malformed::new("invalid length of startup packet"))
    }
}

/// Parses a first packet of this length, see [`length`].
pub fn read(packet: &[u8]) -> Result<FirstPacket, Malformed> {
    let Some((head, body)) = packet.split_first_chunk::<8>() else {
        return Err(Malformed::new("startup packet is too short"));
    };
    let code = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    match code {
        TLS => Ok(FirstPacket::Tls),
        GSS => Ok(FirstPacket::Gss),
        CANCEL => match body.split_first_chunk::<4>() {
            Some((process, secret)) if (1..=256).contains(&secret.len()) => {
                Ok(FirstPacket::Cancel(CancelKey {
                    process: u32::from_be_bytes(*process),
                    secret: secret.to_vec(),
                }))
            }
            _ => Err(Malformed::new("invalid length of cancel request packet")),
        },
        code if code >> 16 == 3 => Ok(FirstPacket::Startup(StartupPacket {
            minor: (code & 0xffff) as u16,
            parameters: parameters(body)?,
        })),
        code => Ok(FirstPacket::Unsupported(format!(
            "unsupported frontend protocol {}.{}: server supports 3.0 and 3.2",
            code >> 16,
            code & 0xffff
        ))),
    }
}

fn parameters(body: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
    let invalid = || Malformed::new("invalid startup packet layout");
    let Some(body) = body.strip_suffix(b"\0") else {
        return Err(invalid());
    };
    let Some(body) = body.strip_suffix(b"\0") else {
        return if body.is_empty() {
            Ok(Vec::new())
        } else {
            Err(invalid())
        };
    };
    let words: Result<Vec<&str>, _> = body.split(|&byte| byte == 0).map(str::from_utf8).collect();
    let words = words.map_err(|_| Malformed::new("startup packet is not UTF-8"))?;
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err(invalid());
    };
    if pairs.iter().any(|[name, _]| name.is_empty()) {
        return Err(invalid());
    }
    let owned = pairs
        .iter()
        .map(|[name, value]| (name.to_string(), value.to_string()));
    Ok(owned.collect())
}

/// Returns the packet that starts a session of protocol 3.0 at a server.
///
/// Parameters must not contain zero bytes. Parameters from [`read`] contain none.
pub fn write<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> BytesMut {
    let mut packet = BytesMut::new();
    packet.put_u32(0);
    packet.put_u32(3 << 16);
    for (name, value) in parameters {
        packet.put_slice(name.as_bytes());
        packet.put_u8(0);
        packet.put_slice(value.as_bytes());
        packet.put_u8(0);
    }
    packet.put_u8(0);
    with_length(packet)
}

/// Returns the packet that requests TLS from a server.
pub fn write_tls() -> BytesMut {
    let mut packet = BytesMut::new();
    packet.put_u32(0);
    packet.put_u32(TLS);
    with_length(packet)
}

/// Returns the packet that cancels the statement of a server's connection.
pub fn write_cancel(key: &CancelKey) -> BytesMut {
    let mut packet = BytesMut::new();
    packet.put_u32(0);
    packet.put_u32(CANCEL);
    packet.put_u32(key.process);
    packet.put_slice(&key.secret);
    with_length(packet)
}

/// Returns NegotiateProtocolVersion for a client that has requested more than there is: the minor
/// version that is spoken, and the options that are not known. Returns none for other clients.
pub fn negotiation(startup: &StartupPacket, minor_spoken: u16) -> Option<BytesMut> {
    let options: Vec<&str> = startup.protocol_options().collect();
    if startup.minor == minor_spoken && options.is_empty() {
        return None;
    }
    let count = u32::try_from(options.len()).expect("a startup packet is short");
    let mut body = BytesMut::new();
    body.put_u32(3 << 16 | u32::from(minor_spoken));
    body.put_u32(count);
    for option in options {
        body.put_slice(option.as_bytes());
        body.put_u8(0);
    }
    let mut out = BytesMut::new();
    message::write(&mut out, b'v', &[&body], 0);
    Some(out)
}

fn with_length(mut packet: BytesMut) -> BytesMut {
    let length = u32::try_from(packet.len()).expect("made of parameters of a bounded packet");
    packet[..4].copy_from_slice(&length.to_be_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn written_packet_is_read() {
        let parameters = [("user", "ann"), ("options", ""), ("database", "shop")];
        let packet = write(parameters);
        assert_eq!(length(&packet), Ok(Some(packet.len())));
        let Ok(FirstPacket::Startup(startup)) = read(&packet) else {
            panic!("no startup")
        };
        assert_eq!(startup.minor_spoken(), 0);
        assert_eq!(startup.parameter("database"), Some("shop"));
        assert_eq!(startup.parameter("options"), Some(""));
        assert_eq!(startup.parameters.len(), 3);

        let key = CancelKey {
            process: 7,
            secret: vec![1; 32],
        };
        assert_eq!(read(&write_cancel(&key)), Ok(FirstPacket::Cancel(key)));
        assert_eq!(read(&write_tls()), Ok(FirstPacket::Tls));
    }

    #[test]
    fn newer_protocol_is_brought_down() {
        let mut packet = write([("user", "ann"), ("_pq_.new", "1")]);
        packet[7] = 9;
        let Ok(FirstPacket::Startup(startup)) = read(&packet) else {
            panic!("no startup")
        };
        assert_eq!((startup.minor, startup.minor_spoken()), (9, 2));
        assert_eq!(startup.protocol_options().collect::<Vec<_>>(), ["_pq_.new"]);
        let negotiated = negotiation(&startup, startup.minor_spoken()).unwrap();
        assert_eq!(
            &negotiated[..],
            b"v\0\0\0\x15\0\x03\0\x02\0\0\0\x01_pq_.new\0"
        );
    }

    #[test]
    fn lengths_that_cannot_be() {
        assert_eq!(length(b"\0\0\0"), Ok(None));
        for bytes in [*b"\0\0\0\x07", *b"\xff\xff\xff\xff", *b"GET "] {
            assert!(length(&bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_packet_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..80), code in prop::sample::select(vec![TLS, GSS, CANCEL, 3 << 16, 2 << 16])) {
            let mut packet = vec![0; 4];
            packet.extend_from_slice(&code.to_be_bytes());
            packet.extend_from_slice(&body);
            if let Ok(FirstPacket::Startup(startup)) = read(&packet) {
                prop_assert!(startup.parameters.iter().all(|(name, _)| !name.is_empty()));
            }
        }
    }
}
