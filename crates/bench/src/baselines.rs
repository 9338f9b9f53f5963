//! Measures the baselines: an echo, a chain of echoes, and a flush. The echo servers use the
//! store's event loop without any state, and their clients are as simple as possible.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;

use protocol::codec::Bytes;
use protocol::frame::{self, HEADER_BYTES};
use protocol::message::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::measure::MeasuredWorker;
use crate::processes::BenchProcess;

/// A chain of baseline processes; one is `echo`.
#[derive(Debug)]
pub struct BaselineChain {
    /// The last process is the one that clients connect to.
    processes: Vec<BenchProcess>,
}

impl BaselineChain {
    /// Starts `length` processes. Each process but the first forwards frames to the previous one.
    /// Their logs are in `folder`.
    ///
    /// # Errors
    /// A process does not start.
    pub fn start(folder: &Path, length: usize) -> io::Result<BaselineChain> {
        let program = std::env::current_exe()?;
        let mut processes: Vec<BenchProcess> = Vec::new();
        for number in 0..length {
            let log = folder.join(format!("baseline-{length}-{number}.log"));
            let mut arguments = vec!["baseline"];
            if let Some(next) = processes.last() {
                arguments.extend(["--next", next.ready_value("baseline")?]);
            }
            let process = BenchProcess::start(&program, &arguments, &log)?;
            processes.push(process);
        }
        Ok(BaselineChain { processes })
    }

    /// Returns the process ids.
    pub fn ids(&self) -> Vec<u32> {
        self.processes.iter().map(BenchProcess::id).collect()
    }

    fn address(&self) -> io::Result<&str> {
        let first = self.processes.last().expect("a chain has a process");
        first.ready_value("baseline")
    }

    /// Opens one blocking connection with one frame at a time, without a runtime in between.
    ///
    /// # Errors
    /// The connection to the baseline process fails.
    pub fn blocking(&self, bytes: usize) -> io::Result<BlockingClient> {
        let stream = TcpStream::connect(self.address()?)?;
        stream.set_nodelay(true)?;
        let frame = echo_frame(bytes);
        let answer = vec![0; frame.len()];
        Ok(BlockingClient {
            stream,
            frame,
            answer,
        })
    }

    /// Opens `count` connections with `window` frames in flight on each.
    ///
    /// # Errors
    /// One of the connections to the baseline process fails.
    pub async fn windows(
        &self,
        count: usize,
        window: u64,
        bytes: usize,
    ) -> io::Result<Vec<FrameWindow>> {
        let mut windows = Vec::new();
        for _ in 0..count {
            let stream = tokio::net::TcpStream::connect(self.address()?).await?;
            stream.set_nodelay(true)?;
            let frame = echo_frame(bytes);
            windows.push(FrameWindow {
                stream,
                answers: vec![0; frame.len() * window as usize],
                frame,
                to_send: window,
                held: 0,
            });
        }
        Ok(windows)
    }
}

/// Returns a frame of `bytes` altogether.
fn echo_frame(bytes: usize) -> Vec<u8> {
    // Besides the header: the message's kind and the length of its bytes.
    let content = vec![b'e'; bytes.saturating_sub(HEADER_BYTES + 5)];
    let mut frame = Vec::new();
    frame::encode(1, &Message::Echo(Bytes(content)), &mut frame);
    frame
}

/// A client with a blocking socket and one frame at a time.
#[derive(Debug)]
pub struct BlockingClient {
    stream: TcpStream,
    frame: Vec<u8>,
    answer: Vec<u8>,
}

impl MeasuredWorker for BlockingClient {
    async fn operate(&mut self) -> io::Result<u64> {
        self.stream.write_all(&self.frame)?;
        self.stream.read_exact(&mut self.answer)?;
        Ok(1)
    }
}

/// A connection with frames in flight.
#[derive(Debug)]
pub struct FrameWindow {
    stream: tokio::net::TcpStream,
    frame: Vec<u8>,
    answers: Vec<u8>,
    /// Frames that may be sent now.
    to_send: u64,
    /// Bytes of an answer that is not whole yet.
    held: usize,
}

impl MeasuredWorker for FrameWindow {
    async fn operate(&mut self) -> io::Result<u64> {
        let frames = self.frame.repeat(self.to_send as usize);
        self.stream.write_all(&frames).await?;
        let mut answered = 0;
        while answered == 0 {
            let read = self.stream.read(&mut self.answers).await?;
            if read == 0 {
                return Err(io::Error::other("the baseline closed the connection"));
            }
            self.held += read;
            answered = self.held / self.frame.len();
            self.held %= self.frame.len();
        }
        self.to_send = answered as u64;
        Ok(self.to_send)
    }
}

/// Appends to a preallocated file, and waits until each append is on the disk.
#[derive(Debug)]
pub struct FlushBaseline {
    file: File,
    record: Vec<u8>,
    offset: u64,
}

const FLUSH_FILE_BYTES: u64 = 16 << 20;

impl FlushBaseline {
    /// Creates the file in `folder`. Each append writes `bytes` bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(folder: &Path, bytes: usize) -> io::Result<FlushBaseline> {
        let mut file = File::create(folder.join("flush"))?;
        let zeros = vec![0; 1 << 20];
        for _ in 0..FLUSH_FILE_BYTES >> 20 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        Ok(FlushBaseline {
            file,
            record: vec![b'f'; bytes],
            offset: 0,
        })
    }
}

impl MeasuredWorker for FlushBaseline {
    async fn operate(&mut self) -> io::Result<u64> {
        if self.offset + self.record.len() as u64 > FLUSH_FILE_BYTES {
            self.offset = 0;
        }
        self.file.write_all_at(&self.record, self.offset)?;
        self.file.sync_data()?;
        self.offset += self.record.len() as u64;
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_frames_have_the_asked_size_and_decode() {
        for bytes in [22, 64, 300] {
            let frame = echo_frame(bytes);
            assert_eq!(frame.len(), bytes);
            let (decoded, size) = frame::decode(&frame).unwrap().unwrap();
            assert_eq!(size, bytes);
            assert!(matches!(decoded.message, Message::Echo(_)));
        }
    }
}
