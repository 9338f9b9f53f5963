//! A client that writes the protocol by hand, to send messages that no driver sends.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use pg_wire::framing::HEADER_LEN;
use pg_wire::message;
use pg_wire::report::Report;
use pg_wire::startup;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A test that receives nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection on which anything can be sent.
pub struct Raw {
    pub socket: TcpStream,
    input: BytesMut,
    /// Sent at the next flush.
    pub out: BytesMut,
    /// Notices that [`Raw::until_ready`] has received.
    pub notices: Vec<Report>,
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Raw {
        Raw {
            socket: TcpStream::connect(address).await.unwrap(),
            input: BytesMut::new(),
            out: BytesMut::new(),
            notices: Vec::new(),
        }
    }

    /// A session that has logged in without a password.
    pub async fn log_in(address: SocketAddr) -> Raw {
        let mut raw = Raw::connect(address).await;
        raw.out = startup::write([("user", "postgres"), ("database", "postgres")]);
        raw.flush().await;
        raw.until_ready().await;
        raw
    }

    pub async fn flush(&mut self) {
        self.socket.write_all(&self.out).await.unwrap();
        self.out.clear();
    }

    pub fn query(&mut self, text: &str) -> &mut Raw {
        self.say(b'Q', &[text.as_bytes(), b"\0"])
    }

    pub fn parse(&mut self, name: &str, text: &str) -> &mut Raw {
        self.say(b'P', &[name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"])
    }

    /// Binds the unnamed portal without parameters.
    pub fn bind(&mut self, name: &str) -> &mut Raw {
        self.say(b'B', &[b"\0", name.as_bytes(), b"\0\0\0\0\0\0\0"])
    }

    pub fn execute(&mut self, rows_max: u32) -> &mut Raw {
        self.say(b'E', &[b"\0", &rows_max.to_be_bytes()])
    }

    pub fn close(&mut self, name: &str) -> &mut Raw {
        self.say(b'C', &[b"S", name.as_bytes(), b"\0"])
    }

    pub fn sync(&mut self) -> &mut Raw {
        self.say(b'S', &[])
    }

    pub fn say(&mut self, tag: u8, parts: &[&[u8]]) -> &mut Raw {
        message::write(&mut self.out, tag, parts, 0);
        self
    }

    /// The next message; none at the end.
    pub async fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some(header) = self.input.first_chunk::<HEADER_LEN>() {
                let [tag, length @ ..] = *header;
                let length = u32::from_be_bytes(length) as usize;
                if self.input.len() > length {
                    let message = self.input.split_to(length + 1);
                    return Some((tag, message[HEADER_LEN..].to_vec()));
                }
            }
            let read = self.socket.read_buf(&mut self.input);
            let read = tokio::time::timeout(PATIENCE, read).await;
            if matches!(read.expect("nothing comes"), Ok(0) | Err(_)) {
                return None;
            }
        }
    }

    /// The tags up to ReadyForQuery and its status. An error stands as its SQLSTATE in brackets, a
    /// row of one column as its text in quotes.
    pub async fn until_ready(&mut self) -> String {
        let mut received = String::new();
        while let Some((tag, body)) = self.message().await {
            match tag {
                b'E' => received += &format!("[{}]", Report::read(&body).code),
                b'D' if body.len() >= 6 => {
                    received += &format!("'{}'", String::from_utf8_lossy(&body[6..]));
                }
                b'N' => {
                    self.notices.push(Report::read(&body));
                    received.push('N');
                }
                b'S' | b'K' | b'R' => {}
                b'Z' => {
                    received.push('Z');
                    received.push(char::from(body[0]));
                    return received;
                }
                tag => received.push(char::from(tag)),
            }
        }
        received + "END"
    }

    /// Sends the prepared messages, and returns the settings that are reported up to ReadyForQuery.
    pub async fn reported_settings(&mut self) -> String {
        self.flush().await;
        let mut settings = Vec::new();
        loop {
            match self.message().await {
                Some((b'S', body)) => {
                    let mut texts = body.split(|byte| *byte == 0);
                    let mut text = || String::from_utf8_lossy(texts.next().unwrap()).into_owned();
                    settings.push(format!("{}={}", text(), text()));
                }
                Some((b'Z', _)) => return settings.join(" "),
                Some((b'E', body)) => panic!("{}", String::from_utf8_lossy(&body)),
                Some(_) => {}
                None => panic!("the connection has ended"),
            }
        }
    }

    /// Sends the prepared messages, and returns the reply as [`Raw::until_ready`].
    pub async fn reply(&mut self) -> String {
        self.flush().await;
        self.until_ready().await
    }

    /// Runs texts one after the other; each must get the reply beside it, see [`Raw::until_ready`].
    pub async fn converse(&mut self, texts: &[(&str, &str)]) {
        for (text, expected) in texts {
            self.query(text);
            assert_eq!(self.reply().await, *expected, "{text}");
        }
    }

    /// Sends the prepared messages. Returns where the statement went, of several places the last,
    /// and the reply but for notices. For the notices of places, the session has set
    /// `replex.trace`.
    pub async fn reply_at(&mut self) -> (String, String) {
        self.notices.clear();
        let reply = self.reply().await.replace('N', "");
        let place = self.notices.pop().map_or_else(String::new, |it| it.message);
        (place.replace("replex: ", ""), reply)
    }

    /// Runs texts, each of which must go to a place that begins so, and be answered so.
    pub async fn converse_at(&mut self, texts: &[(&str, &str, &str)]) {
        for (text, place, expected) in texts {
            self.query(text);
            let (went, reply) = self.reply_at().await;
            assert_eq!(reply, *expected, "{text}");
            assert!(went.starts_with(place), "{text} went to {went}");
        }
    }

    /// The error that ends the connection, which must end.
    pub async fn last_words(&mut self) -> Report {
        let mut report = None;
        while let Some((tag, body)) = self.message().await {
            if tag == b'E' {
                report = Some(Report::read(&body));
            }
        }
        report.expect("the connection ended without an error")
    }
}
