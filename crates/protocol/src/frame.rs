//! Frames: the headers that separate messages on a connection.
//!
//! ```text
//! offset  bytes
//!      0      4  length of all that follows this field
//!      4      4  CRC-32C of all that follows this field
//!      8      1  format version
//!      9      8  correlation: chosen by the asker, the same in the answer, otherwise 0
//!     17      …  one message (`message::Message`)
//! ```
//! Integers are little-endian. A length beyond the limit is refused before any memory is allocated.

use alloc::vec::Vec;
use core::fmt;

use crate::codec::{DecodeError, MEMORY_BYTES_MAX, Wire};
use crate::message::{CoordinatorRequest, Message};

/// The version of frames and messages that this program uses.
pub const FORMAT_VERSION: u8 = 1;
/// The number of bytes of a frame before the message.
pub const HEADER_BYTES: usize = 17;
/// The largest ordinary frame, including its length field. A row of 1 MiB fits several times.
pub const FRAME_BYTES_MAX: usize = 8 << 20;
/// The largest frame with a configuration: of ten thousand tables and more.
pub const CONFIGURATION_FRAME_BYTES_MAX: usize = 32 << 20;

/// The first bytes of a connection with TLS: a record that is an alert or part of a handshake.
const TLS_ALERT: u8 = 0x15;
const TLS_HANDSHAKE: u8 = 0x16;
const TLS_VERSION_MAJOR: u8 = 3;

/// The frames that a connection takes. A configuration comes only from a coordinator, or to one
/// that recovers its state: no other connection may take up the memory for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameLimits {
    /// Up to [`FRAME_BYTES_MAX`].
    #[default]
    Ordinary,
    /// Up to [`CONFIGURATION_FRAME_BYTES_MAX`].
    Configurations,
}

impl FrameLimits {
    /// Returns the limits under which a message travels.
    fn of(message: &Message) -> FrameLimits {
        match message {
            Message::Answer(_) | Message::Ask(CoordinatorRequest::Remember(_)) => {
                FrameLimits::Configurations
            }
            _ => FrameLimits::Ordinary,
        }
    }

    fn frame_bytes_max(self) -> usize {
        match self {
            FrameLimits::Ordinary => FRAME_BYTES_MAX,
            FrameLimits::Configurations => CONFIGURATION_FRAME_BYTES_MAX,
        }
    }

    fn memory_bytes_max(self) -> usize {
        match self {
            FrameLimits::Ordinary => MEMORY_BYTES_MAX,
            FrameLimits::Configurations => 8 * MEMORY_BYTES_MAX,
        }
    }
}

/// The bytes are not a valid frame. The connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The other side uses TLS, and this side does not.
    Encrypted,
    /// The length field is beyond the limit of the connection or below the header's size.
    Length(u32),
    /// The checksum does not match.
    Checksum,
    /// The frame has another format version.
    Version(u8),
    /// The message does not decode.
    Message(DecodeError),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Encrypted => write!(
                f,
                "the other side uses TLS: give this process --certificates, too"
            ),
            FrameError::Length(length) => write!(
                f,
                "a frame of {length} bytes; frames have {} to {FRAME_BYTES_MAX}, with a \
                 configuration up to {CONFIGURATION_FRAME_BYTES_MAX}",
                HEADER_BYTES - 4
            ),
            FrameError::Checksum => write!(f, "a frame whose checksum does not match"),
            FrameError::Version(version) => write!(
                f,
                "a frame of format version {version}; this side speaks {FORMAT_VERSION}: \
                 use the same release on both"
            ),
            FrameError::Message(error) => write!(f, "a frame that does not decode: {error}"),
        }
    }
}

impl core::error::Error for FrameError {}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The number that an answer repeats from its request.
    pub correlation: u64,
    /// The message.
    pub message: Message,
}

/// Appends a message as a frame. Panics if the frame would be too large, which the limits of rows,
/// pages and queues exclude.
pub fn encode(correlation: u64, message: &Message, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.push(FORMAT_VERSION);
    correlation.encode(out);
    message.encode(out);
    let length = out.len() - start;
    assert!(
        length <= FrameLimits::of(message).frame_bytes_max(),
        "a message of {length} bytes was built"
    );
    let checksum = crc32c::crc32c(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&(length as u32 - 4).to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the size of the frame at the start of `bytes`, including its length field. Returns none
/// if the length field is incomplete.
pub fn size(bytes: &[u8], limits: FrameLimits) -> Result<Option<usize>, FrameError> {
    let Some(field) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*field);
    let size = length as usize + 4;
    if !(HEADER_BYTES..=limits.frame_bytes_max()).contains(&size) {
        return Err(FrameError::Length(length));
    }
    Ok(Some(size))
}

/// Checks the first bytes of a connection, whose first frame is always short: with TLS they would
/// be those of a long one.
///
/// # Errors
/// [`FrameError::Encrypted`].
pub fn check_first(bytes: &[u8]) -> Result<(), FrameError> {
    match bytes {
        [TLS_ALERT | TLS_HANDSHAKE, TLS_VERSION_MAJOR, 0..=4, ..] => Err(FrameError::Encrypted),
        _ => Ok(()),
    }
}

/// Decodes the frame at the start of `bytes`. Returns it with its size, or none if it is
/// incomplete.
pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, FrameError> {
    decode_within(bytes, FrameLimits::Ordinary)
}

/// Decodes a frame like [`decode`], on a connection with these limits.
pub fn decode_within(
    bytes: &[u8],
    limits: FrameLimits,
) -> Result<Option<(Frame, usize)>, FrameError> {
    let Some(size) = size(bytes, limits)? else {
        return Ok(None);
    };
    let Some(frame) = bytes.get(..size) else {
        return Ok(None);
    };
    let checksum = u32::from_le_bytes(frame[4..8].try_into().expect("four bytes"));
    if crc32c::crc32c(&frame[8..]) != checksum {
        return Err(FrameError::Checksum);
    }
    if frame[8] != FORMAT_VERSION {
        return Err(FrameError::Version(frame[8]));
    }
    let correlation = u64::from_le_bytes(frame[9..17].try_into().expect("eight bytes"));
    let message = Message::decode_within(&frame[HEADER_BYTES..], limits.memory_bytes_max());
    let message = message.map_err(FrameError::Message)?;
    Ok(Some((
        Frame {
            correlation,
            message,
        },
        size,
    )))
}
