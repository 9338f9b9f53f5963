//! Decodes the frames that arrive at a socket. Each connection has one buffer, and frames are
//! decoded in it without a copy.
//!
//! The buffer grows only for a frame that is larger than the buffer, up to the limit of frames, and
//! shrinks again afterwards. `link` and `coordinator` read the bytes from sockets.

use protocol::frame::{self, Frame, FrameError, FrameLimits};

/// The buffer of a connection without a larger frame, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Received bytes that are not decoded yet.
#[derive(Debug)]
pub(crate) struct FrameReader {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    limits: FrameLimits,
}

impl FrameReader {
    pub fn new() -> FrameReader {
        FrameReader {
            bytes: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            limits: FrameLimits::Ordinary,
        }
    }

    /// Takes frames with configurations from now on: the other side is a coordinator.
    pub fn expect_configurations(&mut self) {
        self.limits = FrameLimits::Configurations;
    }

    /// Returns the buffer for the next bytes, never empty. If the size of the first frame is known,
    /// the frame fits.
    pub fn space(&mut self) -> Result<&mut [u8], FrameError> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if self.bytes.len() > BUFFER_BYTES {
                self.bytes = vec![0; BUFFER_BYTES];
            }
        }
        let needed = frame::size(self.received(), self.limits)?.unwrap_or(frame::HEADER_BYTES);
        if self.start > 0
            && (self.end == self.bytes.len() || self.start + needed > self.bytes.len())
        {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if needed > self.bytes.len() {
            self.bytes.resize(needed, 0);
        }
        Ok(&mut self.bytes[self.end..])
    }

    /// Records that `count` bytes were written into the space.
    pub fn filled(&mut self, count: usize) {
        self.end += count;
        assert!(self.end <= self.bytes.len(), "it was that much space");
    }

    /// Returns the bytes that are not decoded yet.
    pub fn received(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns the next whole frame, if there is one.
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let decoded = frame::decode_within(self.received(), self.limits)?;
        Ok(decoded.map(|(frame, size)| {
            self.start += size;
            frame
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::message::Message;

    fn frames() -> (Vec<Message>, Vec<u8>) {
        let sizes = [0, 3, 70_000, 1, 200_000, 5];
        let messages: Vec<Message> = sizes
            .iter()
            .map(|size| Message::Echo(vec![7; *size].into()))
            .collect();
        let mut bytes = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            frame::encode(number as u64, message, &mut bytes);
        }
        (messages, bytes)
    }

    #[test]
    fn frames_come_whole_however_they_are_cut() {
        let (messages, bytes) = frames();
        for cut in [1, 7, 1_000, 65_536, usize::MAX] {
            let mut reader = FrameReader::new();
            let mut rest = &bytes[..];
            let mut came = Vec::new();
            while !rest.is_empty() {
                let space = reader.space().unwrap();
                let count = space.len().min(cut).min(rest.len());
                space[..count].copy_from_slice(&rest[..count]);
                rest = &rest[count..];
                reader.filled(count);
                while let Some(frame) = reader.next().unwrap() {
                    assert_eq!(frame.correlation, came.len() as u64);
                    came.push(frame.message);
                }
            }
            assert_eq!(came, messages, "cut at {cut}");
            reader.space().unwrap();
            assert_eq!(reader.bytes.len(), BUFFER_BYTES, "it shrinks again");
        }
    }

    #[test]
    fn a_length_beyond_the_limit_takes_no_memory() {
        let mut reader = FrameReader::new();
        reader.space().unwrap()[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        reader.filled(4);
        assert!(matches!(reader.next(), Err(FrameError::Length(_))));
        assert!(matches!(reader.space(), Err(FrameError::Length(_))));
        assert_eq!(reader.bytes.len(), BUFFER_BYTES);
    }
}
