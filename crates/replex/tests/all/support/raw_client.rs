//! A client of PostgreSQL's protocol that sends any bytes, and returns the messages of the server
//! one by one. Drivers never send most of this.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::BytesMut;
use pg_wire::message::{row, write};
use pg_wire::report::Report;
use pg_wire::startup;

/// The longest wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The kind of the message.
    pub tag: u8,
    /// The bytes after the header.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the report of an error or a notice.
    pub fn report(&self) -> Report {
        Report::read(&self.body)
    }
}

/// A connection.
pub struct RawClient {
    pub stream: TcpStream,
    /// The messages at the start of the session.
    pub greeting: Vec<Answer>,
}

impl RawClient {
    /// Opens a connection and sends nothing.
    pub fn open(address: SocketAddr) -> RawClient {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
        stream.set_nodelay(true).unwrap();
        RawClient {
            stream,
            greeting: Vec::new(),
        }
    }

    /// Begins a session.
    pub fn connect(address: SocketAddr) -> RawClient {
        let mut client = RawClient::open(address);
        let packet = startup::write([("user", "postgres"), ("database", "postgres")]);
        client.send(&packet);
        client.greeting = client.until_ready();
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Returns the next message; none if the server has ended the connection.
    pub fn answer(&mut self) -> Option<Answer> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some(Answer { tag: head[0], body })
    }

    /// Returns the messages up to ReadyForQuery, or up to the end of the connection.
    pub fn until_ready(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(answer) = self.answer() {
            let is_last = answer.tag == b'Z';
            answers.push(answer);
            if is_last {
                break;
            }
        }
        answers
    }

    /// Sends messages that end with a Query or a Sync, and returns the answers.
    pub fn ask(&mut self, messages: &Messages) -> Vec<Answer> {
        self.send(&messages.0);
        self.until_ready()
    }

    /// Runs a string of statements, and returns the rows as text.
    pub fn rows(&mut self, text: &str) -> Vec<Vec<String>> {
        let answers = self.ask(&Messages::new().query(text));
        if let Some(error) = answers.iter().find(|it| it.tag == b'E') {
            panic!("{text}: {}", error.report());
        }
        let rows = answers.iter().filter(|it| it.tag == b'D');
        rows.map(|it| row(&it.body).unwrap()).collect()
    }
}

/// Messages of a client, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Messages(pub BytesMut);

impl Messages {
    pub fn new() -> Messages {
        Messages::default()
    }

    pub fn message(mut self, tag: u8, parts: &[&[u8]]) -> Messages {
        write(&mut self.0, tag, parts, 0);
        self
    }

    pub fn query(self, text: &str) -> Messages {
        self.message(b'Q', &[text.as_bytes(), b"\0"])
    }

    pub fn parse(self, name: &str, text: &str, types: &[u32]) -> Messages {
        let mut rest = u16::try_from(types.len()).unwrap().to_be_bytes().to_vec();
        rest.extend(types.iter().flat_map(|oid| oid.to_be_bytes()));
        let parts = [name.as_bytes(), b"\0", text.as_bytes(), b"\0", &rest];
        self.message(b'P', &parts)
    }

    /// Binds values that all have this format, for a result of this format.
    pub fn bind(
        self,
        (portal, statement): (&str, &str),
        format: u16,
        values: &[Option<Vec<u8>>],
        result: u16,
    ) -> Messages {
        let mut rest = [1_u16.to_be_bytes(), format.to_be_bytes()].concat();
        rest.extend(u16::try_from(values.len()).unwrap().to_be_bytes());
        for value in values {
            match value {
                None => rest.extend((-1_i32).to_be_bytes()),
                Some(value) => {
                    rest.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
                    rest.extend(value);
                }
            }
        }
        rest.extend([1_u16.to_be_bytes(), result.to_be_bytes()].concat());
        let names = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0", &rest];
        self.message(b'B', &names)
    }

    /// Binds text values to the unnamed statement and portal.
    pub fn bind_texts(self, values: &[&str]) -> Messages {
        let values: Vec<Option<Vec<u8>>> = values
            .iter()
            .map(|it| Some(it.as_bytes().to_vec()))
            .collect();
        self.bind(("", ""), 0, &values, 0)
    }

    pub fn describe(self, kind: u8, name: &str) -> Messages {
        self.message(b'D', &[&[kind], name.as_bytes(), b"\0"])
    }

    pub fn close(self, kind: u8, name: &str) -> Messages {
        self.message(b'C', &[&[kind], name.as_bytes(), b"\0"])
    }

    pub fn execute(self, portal: &str, rows_max: i32) -> Messages {
        self.message(b'E', &[portal.as_bytes(), b"\0", &rows_max.to_be_bytes()])
    }

    pub fn flush(self) -> Messages {
        self.message(b'H', &[])
    }

    pub fn sync(self) -> Messages {
        self.message(b'S', &[])
    }
}
