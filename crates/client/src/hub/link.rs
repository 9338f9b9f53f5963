//! One connection to one core of a server.
//!
//! The reader task passes all complete frames to the session machine in one step.

use std::sync::Arc;

use cluster_tls::stream::ClusterStream;
use protocol::identity::{CoreId, Epoch};
use protocol::message::{Hello, Message, Reply};
use session::SessionInput;
use tokio::io::{AsyncRead, AsyncReadExt, split};
use tokio::time::timeout;
use tokio_util::either::Either;

use super::Hub;
use super::writer::LinkWriter;
use crate::framing::FrameReader;
use crate::greeting::greet;

/// The core that a link connects to.
#[derive(Clone, Debug)]
pub(crate) struct LinkTarget {
    pub core: CoreId,
    pub address: String,
    pub cluster: u64,
}

/// Opens a connection, serves it until it breaks, and reports both to the session machine. The
/// reported text is the reason.
pub(crate) async fn run(hub: Arc<Hub>, target: LinkTarget) {
    let core = target.core;
    let reason = match open(&hub, &target).await {
        Err(reason) => reason,
        Ok((stream, reader, epoch)) => {
            let (read_half, writer) = match stream {
                Either::Left(stream) => {
                    let (read_half, write_half) = stream.into_split();
                    (Either::Left(read_half), LinkWriter::new(write_half))
                }
                Either::Right(stream) => {
                    let (read_half, write_half) = split(stream);
                    (Either::Right(read_half), LinkWriter::encrypted(write_half))
                }
            };
            let writer = Arc::new(writer);
            hub.connected(core, epoch, Arc::clone(&writer));
            tokio::select! {
                reason = read(&hub, core, read_half, reader) => reason,
                result = writer.run() => match result {
                    Ok(()) => "the writer ended".to_owned(),
                    Err(error) => error.to_string(),
                },
            }
        }
    };
    let reason = format!("server {} at {}: {reason}", core.server.0, target.address);
    hub.disconnected(core, reason);
}

/// Opens a connection and exchanges greetings.
async fn open(
    hub: &Hub,
    target: &LinkTarget,
) -> Result<(ClusterStream, FrameReader, Epoch), String> {
    let greeting = async {
        let hello = Hello {
            cluster: Some(target.cluster),
            core: None,
        };
        let options = hub.options();
        let credentials = options.credentials.as_ref();
        let (stream, reader, message) =
            greet(&target.address, hello, options.silence, credentials).await?;
        match message {
            Message::Welcome(welcome) if welcome.cluster != target.cluster => Err(format!(
                "it belongs to cluster {:016x}, not {:016x}",
                welcome.cluster, target.cluster
            )),
            Message::Welcome(welcome) => match welcome.core {
                Some((core, _)) if core == target.core => Ok((stream, reader, welcome.epoch)),
                _ => Err("another server answers there".to_owned()),
            },
            Message::Goodbye { reason } => Err(reason),
            _ => Err("it does not greet".to_owned()),
        }
    };
    let patience = hub.options().connect_timeout;
    match timeout(patience, greeting).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {} ms", patience.as_millis())),
    }
}

/// Passes replies to the session machine until the connection ends. Returns the reason for that.
async fn read(
    hub: &Hub,
    core: CoreId,
    mut half: impl AsyncRead + Unpin,
    mut reader: FrameReader,
) -> String {
    let mut replies: Vec<(u64, Reply)> = Vec::new();
    loop {
        let end = loop {
            match reader.next() {
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
                Ok(Some(frame)) => match frame.message {
                    Message::Reply(reply) => replies.push((frame.correlation, reply)),
                    Message::Goodbye { reason } => break Some(reason),
                    _ => break Some("it sent an unexpected message".to_owned()),
                },
            }
        };
        if !replies.is_empty() {
            hub.step_all(
                replies
                    .drain(..)
                    .map(|(correlation, reply)| SessionInput::Reply {
                        core,
                        correlation,
                        reply,
                    }),
            );
        }
        if let Some(reason) = end {
            return reason;
        }
        let space = match reader.space() {
            Ok(space) => space,
            Err(error) => return error.to_string(),
        };
        match half.read(space).await {
            Ok(0) => return "it closed the connection".to_owned(),
            Ok(count) => reader.filled(count),
            Err(error) => return error.to_string(),
        }
    }
}
