//! Reads the messages of a client whole, for a server that must understand all of them.
//!
//! The proxy forwards most of these messages and reads only their beginnings, see
//! [`message`](crate::message). Each error has the SQLSTATE 08P01 in PostgreSQL.

use alloc::format;
use alloc::vec::Vec;

use crate::Malformed;
use crate::message::{BindMessage, ParseMessage, StatementOrPortal, split_string};

/// The format of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireFormat {
    /// As text.
    #[default]
    Text,
    /// As the type's binary representation.
    Binary,
}

/// A message of a client after its login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage<'a> {
    /// A string of statements.
    Query(&'a str),
    /// A statement to be prepared.
    Parse {
        /// The statement's name; empty for the unnamed one.
        name: &'a str,
        /// The query string.
        text: &'a str,
        /// The OIDs of the parameters' types; 0 leaves a type to the server.
        types: Vec<u32>,
    },
    /// A portal to be created from a statement.
    Bind(BindRequest<'a>),
    /// A request for the columns of a statement or portal.
    Describe(StatementOrPortal<'a>),
    /// A portal to be run.
    Execute {
        /// The portal's name.
        portal: &'a str,
        /// The most rows to return; 0 or less is all.
        rows_max: i32,
    },
    /// A statement or portal to be closed.
    Close(StatementOrPortal<'a>),
    /// A request for all answers so far.
    Flush,
    /// The end of a series of messages.
    Sync,
    /// A call of a function by its OID, which drivers stopped sending long ago.
    FunctionCall,
    /// Data of a COPY, its end, or its failure.
    Copy(CopyMessage<'a>),
    /// The end of the session.
    Terminate,
}

/// A message of a client during a COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMessage<'a> {
    /// Bytes of the data, cut anywhere.
    Data(&'a [u8]),
    /// The end of the data.
    Done,
    /// The client gives up. Contains its reason.
    Fail(&'a str),
}

/// A portal to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest<'a> {
    /// The portal's name; empty for the unnamed one.
    pub portal: &'a str,
    /// The statement's name.
    pub statement: &'a str,
    /// The formats of the parameters: none for text, one for all parameters, or one for each.
    pub formats: Vec<WireFormat>,
    /// The parameters; none is NULL.
    pub values: Vec<Option<&'a [u8]>>,
    /// The formats of the result's columns, as those of the parameters.
    pub result_formats: Vec<WireFormat>,
}

impl<'a> ClientMessage<'a> {
    /// Parses a message of this tag.
    pub fn read(tag: u8, body: &'a [u8]) -> Result<ClientMessage<'a>, Malformed> {
        Ok(match tag {
            b'Q' => ClientMessage::Query(only_string(body)?),
            b'P' => {
                let parse = ParseMessage::read(body)?;
                let (text, mut rest) = split_string(parse.rest)?;
                let mut types = Vec::new();
                for _ in 0..count(&mut rest)? {
                    types.push(u32::from_be_bytes(*chunk(&mut rest)?));
                }
                end(rest)?;
                ClientMessage::Parse {
                    name: utf8(parse.name)?,
                    text: utf8(text)?,
                    types,
                }
            }
            b'B' => ClientMessage::Bind(bind(body)?),
            b'D' => ClientMessage::Describe(StatementOrPortal::read(body)?),
            b'C' => ClientMessage::Close(StatementOrPortal::read(body)?),
            b'E' => {
                let (portal, mut rest) = split_string(body)?;
                let rows_max = i32::from_be_bytes(*chunk(&mut rest)?);
                end(rest)?;
                ClientMessage::Execute {
                    portal: utf8(portal)?,
                    rows_max,
                }
            }
            b'H' => end(body).map(|()| ClientMessage::Flush)?,
            b'S' => end(body).map(|()| ClientMessage::Sync)?,
            b'X' => end(body).map(|()| ClientMessage::Terminate)?,
            b'F' => ClientMessage::FunctionCall,
            b'd' => ClientMessage::Copy(CopyMessage::Data(body)),
            b'c' => end(body).map(|()| ClientMessage::Copy(CopyMessage::Done))?,
            b'f' => ClientMessage::Copy(CopyMessage::Fail(only_string(body)?)),
            tag => {
                let text = format!("invalid frontend message type {tag}");
                return Err(Malformed::new(text));
            }
        })
    }
}

fn bind(body: &[u8]) -> Result<BindRequest<'_>, Malformed> {
    let BindMessage {
        portal,
        statement,
        mut rest,
    } = BindMessage::read(body)?;
    let formats = read_formats(&mut rest)?;
    let parameters = count(&mut rest)?;
    if formats.len() > 1 && formats.len() != parameters {
        return Err(Malformed::new(format!(
            "bind message has {} parameter formats but {parameters} parameters",
            formats.len()
        )));
    }
    let mut values = Vec::new();
    for _ in 0..parameters {
        let length = i32::from_be_bytes(*chunk(&mut rest)?);
        values.push(match usize::try_from(length) {
            Err(_) if length == -1 => None,
            Err(_) => return Err(Malformed::new("a parameter has a negative length")),
            Ok(length) => {
                let (value, after) = rest.split_at_checked(length).ok_or_else(short)?;
                rest = after;
                Some(value)
            }
        });
    }
    let result_formats = read_formats(&mut rest)?;
    end(rest)?;
    Ok(BindRequest {
        portal: utf8(portal)?,
        statement: utf8(statement)?,
        formats,
        values,
        result_formats,
    })
}

impl BindRequest<'_> {
    /// Returns the format of a parameter.
    pub fn format(&self, parameter: usize) -> WireFormat {
        format_of(&self.formats, parameter)
    }
}

/// Returns the format at a position of a list of formats: one stands for all, none for text.
pub fn format_of(formats: &[WireFormat], position: usize) -> WireFormat {
    match formats {
        [] => WireFormat::Text,
        [all] => *all,
        each => each.get(position).copied().unwrap_or_default(),
    }
}

fn read_formats(rest: &mut &[u8]) -> Result<Vec<WireFormat>, Malformed> {
    let mut formats = Vec::new();
    for _ in 0..count(rest)? {
        formats.push(match u16::from_be_bytes(*chunk(rest)?) {
            0 => WireFormat::Text,
            1 => WireFormat::Binary,
            other => return Err(Malformed::new(format!("unsupported format code: {other}"))),
        });
    }
    Ok(formats)
}

fn count(rest: &mut &[u8]) -> Result<usize, Malformed> {
    chunk(rest).map(|bytes| u16::from_be_bytes(*bytes).into())
}

fn chunk<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], Malformed> {
    let (bytes, after) = rest.split_first_chunk().ok_or_else(short)?;
    *rest = after;
    Ok(bytes)
}

fn only_string(body: &[u8]) -> Result<&str, Malformed> {
    let (text, rest) = split_string(body)?;
    end(rest)?;
    utf8(text)
}

fn end(rest: &[u8]) -> Result<(), Malformed> {
    match rest {
        [] => Ok(()),
        _ => Err(Malformed::new("invalid message format")),
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    str::from_utf8(bytes).map_err(|_| Malformed::new("a text in a message is not UTF-8"))
}

fn short() -> Malformed {
    Malformed::new("insufficient data left in message")
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_read() {
        let parse = b"s\0SELECT $1\0\0\x01\0\0\0\x14";
        let expected = ClientMessage::Parse {
            name: "s",
            text: "SELECT $1",
            types: vec![20],
        };
        assert_eq!(ClientMessage::read(b'P', parse), Ok(expected));
        let execute = ClientMessage::Execute {
            portal: "",
            rows_max: -1,
        };
        assert_eq!(
            ClientMessage::read(b'E', b"\0\xff\xff\xff\xff"),
            Ok(execute)
        );
        let bind = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\x02\0\0\0\x01";
        let Ok(ClientMessage::Bind(bind)) = ClientMessage::read(b'B', bind) else {
            panic!("no Bind")
        };
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!(bind.values, [Some(&b"a"[..]), None]);
        assert_eq!(bind.format(1), WireFormat::Binary);
        assert_eq!(bind.result_formats, [WireFormat::Text, WireFormat::Binary]);
    }

    #[test]
    fn invalid_messages_have_reasons() {
        let refused = |tag, body: &[u8]| ClientMessage::read(tag, body).unwrap_err().to_string();
        for (tag, body, reason) in [
            (b'Q', &b"SELECT 1"[..], "no end"),
            (b'Q', b"SELECT 1\0x", "invalid message format"),
            (b'Q', b"\xff\0", "not UTF-8"),
            (b'P', b"\0\0\0\x02\0\0\0\x14", "insufficient data"),
            (
                b'B',
                b"\0\0\0\x01\0\x07\0\0\0\0",
                "unsupported format code: 7",
            ),
            (
                b'B',
                b"\0\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0",
                "2 parameter formats",
            ),
            (
                b'B',
                b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0",
                "negative length",
            ),
            (
                b'B',
                b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0",
                "insufficient data",
            ),
            (b'S', b"x", "invalid message format"),
            (b'D', b"Xname\0", "Describe or Close"),
            (b'!', b"", "message type 33"),
        ] {
            let found = refused(tag, body);
            assert!(found.contains(reason), "{found}");
        }
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(
            tag in prop::sample::select(b"QPBDECHSXFdcf!".to_vec()),
            body in prop::collection::vec(0_u8..4, 0..30),
        ) {
            let _ = ClientMessage::read(tag, &body);
        }

        #[test]
        fn a_bind_cut_anywhere_is_refused(values in prop::collection::vec(any::<Vec<u8>>(), 0..4)) {
            let mut body = b"p\0s\0".to_vec();
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            body.extend_from_slice(&crate::message::bound_texts(&values));
            prop_assert!(bind(&body).is_ok());
            for length in 0..body.len() {
                prop_assert!(bind(&body[..length]).is_err());
            }
        }
    }
}
