//! The first frames of a connection, to a server or to a coordinator.

use std::time::Duration;

use cluster_tls::stream::{ClusterStream, secure};
use cluster_tls::{Credentials, explain};
use protocol::frame;
use protocol::message::{Hello, Message};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::framing::FrameReader;

/// Connects, sends `Hello`, and returns the first frame of the answer.
pub(crate) async fn greet(
    address: &str,
    hello: Hello,
    silence: Duration,
    credentials: Option<&Credentials>,
) -> Result<(ClusterStream, FrameReader, Message), String> {
    // Whether the other side accepts this one's certificate shows at the first read.
    let text = |error: std::io::Error| explain(&error);
    let stream = TcpStream::connect(address).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    // A host that vanished without a word is noticed by missing acknowledgements.
    let socket = SockRef::from(&stream);
    socket.set_tcp_user_timeout(Some(silence)).map_err(text)?;
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(silence)
        .with_interval(silence / 4);
    socket.set_tcp_keepalive(&keepalive).map_err(text)?;
    let mut stream = secure(stream, credentials).await.map_err(text)?;
    let mut bytes = Vec::new();
    frame::encode(0, &Message::Hello(hello), &mut bytes);
    stream.write_all(&bytes).await.map_err(text)?;
    stream.flush().await.map_err(text)?;
    let mut reader = FrameReader::new();
    loop {
        if let Some(frame) = reader.next().map_err(|error| error.to_string())? {
            return Ok((stream, reader, frame.message));
        }
        let space = reader.space().map_err(|error| error.to_string())?;
        match stream.read(space).await.map_err(text)? {
            0 => return Err("it closed the connection".to_owned()),
            count => reader.filled(count),
        }
        frame::check_first(reader.received()).map_err(|error| error.to_string())?;
    }
}
