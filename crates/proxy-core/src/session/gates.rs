//! Bytes for a server that the session holds back until the server has answered earlier ones.
//!
//! Between two steps of the machine, [`PeerOutput::to_server`] has the bytes that may be sent, and
//! [`Gates`] has the others. During a step it is the other way round, as new bytes go behind all
//! others.

use alloc::collections::VecDeque;

use bytes::BytesMut;

use super::PeerOutput;

/// Gates between a session and its server. Bytes behind a gate are sent once it opens.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// During a step: what is in front of each gate that is closed, and behind the one before.
    /// Between two: what is behind each.
    parts: VecDeque<BytesMut>,
}

impl Gates {
    pub fn are_closed(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Closes a new gate after everything that was written.
    pub fn close(&mut self, out: &mut PeerOutput) {
        self.parts.push_back(out.to_server.split());
    }

    /// Opens the first gate.
    pub fn open(&mut self, out: &mut PeerOutput) {
        let Some(mut first) = self.parts.pop_front() else {
            return;
        };
        let behind = self.parts.front_mut().unwrap_or(&mut out.to_server);
        first.unsplit(behind.split());
        *behind = first;
    }

    /// Returns the buffer before all closed gates.
    pub fn in_front<'a>(&'a mut self, out: &'a mut PeerOutput) -> &'a mut BytesMut {
        self.parts.front_mut().unwrap_or(&mut out.to_server)
    }

    /// Drops the bytes behind the gates, and opens the gates.
    pub fn drop_behind(&mut self, out: &mut PeerOutput) {
        if let Some(first) = self.parts.pop_front() {
            self.parts.clear();
            out.to_server = first;
        }
    }

    /// Begins a step.
    pub fn rejoin(&mut self, out: &mut PeerOutput) {
        if let Some(last) = self.parts.pop_back() {
            self.parts
                .push_front(core::mem::replace(&mut out.to_server, last));
        }
    }

    /// Ends a step.
    pub fn part(&mut self, out: &mut PeerOutput) {
        if let Some(first) = self.parts.pop_front() {
            self.parts
                .push_back(core::mem::replace(&mut out.to_server, first));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_gate_is_kept_back() {
        let (mut gates, mut out) = (Gates::default(), PeerOutput::default());
        let step =
            |gates: &mut Gates, out: &mut PeerOutput, act: &dyn Fn(&mut Gates, &mut PeerOutput)| {
                gates.rejoin(out);
                act(gates, out);
                gates.part(out);
                out.to_server.to_vec()
            };
        let sent = step(&mut gates, &mut out, &|gates, out| {
            out.to_server.extend_from_slice(b"a");
            gates.close(out);
            out.to_server.extend_from_slice(b"b");
            gates.close(out);
            out.to_server.extend_from_slice(b"c");
        });
        assert_eq!(sent, b"a");
        out.to_server.clear();
        let write = |_: &mut Gates, out: &mut PeerOutput| out.to_server.extend_from_slice(b"d");
        assert_eq!(step(&mut gates, &mut out, &write), b"");
        assert_eq!(step(&mut gates, &mut out, &Gates::open), b"b");
        assert!(gates.are_closed());
        assert_eq!(step(&mut gates, &mut out, &Gates::open), b"bcd");
        assert!(!gates.are_closed());
        step(&mut gates, &mut out, &|gates, out| {
            gates.close(out);
            out.to_server.extend_from_slice(b"e");
            gates.close(out);
            out.to_server.extend_from_slice(b"f");
            gates.drop_behind(out);
        });
        assert_eq!(&out.to_server[..], b"bcd");
        assert!(!gates.are_closed());
    }
}
