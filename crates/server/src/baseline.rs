//! The baselines to which every published figure is compared: `echo` and `chain-echo`.
//!
//! The baselines use the server's own event loop, with a handler that keeps no state. So they
//! measure only the cost of sockets, frames and batching. `echo` answers each `Message::Echo` with
//! the same bytes. With a next process, the bytes go down a chain and back up, like a write (Replex
//! Fig. 3).

use std::collections::VecDeque;
use std::net::SocketAddr;

use protocol::frame::Frame;
use protocol::message::Message;

use crate::error::ServerError;
use crate::event_loop::{
    ConnectionId, ConnectionSide, EventLoop, Handler, Io, LoopHandle, LoopOptions,
};

/// The most frames that were forwarded and have not come back. With more, the chain has lost
/// frames, and is not merely slower than its clients.
const UNDER_WAY_MAX: usize = 1 << 20;

/// A baseline process that listens, but does not serve yet.
pub struct Baseline {
    event_loop: EventLoop,
    next: Option<SocketAddr>,
}

impl Baseline {
    /// Returns a baseline that listens at `address`. With `next`, the baseline forwards frames to
    /// that process and returns its answers. Otherwise it answers frames itself.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn bind(
        address: SocketAddr,
        next: Option<SocketAddr>,
        options: LoopOptions,
    ) -> Result<Self, ServerError> {
        Ok(Baseline {
            event_loop: EventLoop::bind(address, options)?,
            next,
        })
    }

    /// Returns the listening address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.event_loop.address()
    }

    /// Returns a handle that stops the baseline.
    pub fn handle(&self) -> LoopHandle {
        self.event_loop.handle()
    }

    /// Serves until the baseline is stopped.
    ///
    /// # Errors
    /// The next process cannot be reached or has ended. Frames in flight are then lost, which makes
    /// the measurement invalid.
    pub fn run(self) -> Result<(), ServerError> {
        match self.next {
            None => self.event_loop.run(&mut Echo),
            Some(next) => self.event_loop.run(&mut ChainEcho {
                next,
                link: None,
                lost: None,
                under_way: VecDeque::new(),
            }),
        }
    }
}

struct Echo;

impl Handler for Echo {
    fn opened(&mut self, _: &mut Io, _: ConnectionId, _: ConnectionSide) {}

    fn frame(&mut self, io: &mut Io, id: ConnectionId, frame: Frame) -> Result<(), String> {
        expect_echo(&frame)?;
        io.send(id, frame.correlation, &frame.message);
        Ok(())
    }

    fn closed(&mut self, _: &mut Io, _: ConnectionId, _: &str) {}

    fn turn(&mut self, _: &mut Io) -> Result<(), ServerError> {
        Ok(())
    }

    fn deadline_us(&self) -> Option<u64> {
        None
    }
}

struct ChainEcho {
    next: SocketAddr,
    link: Option<ConnectionId>,
    lost: Option<String>,
    /// The askers, in the order passed on: the next process answers in that order.
    under_way: VecDeque<(ConnectionId, u64)>,
}

impl Handler for ChainEcho {
    fn opened(&mut self, _: &mut Io, _: ConnectionId, _: ConnectionSide) {}

    fn frame(&mut self, io: &mut Io, id: ConnectionId, frame: Frame) -> Result<(), String> {
        expect_echo(&frame)?;
        if Some(id) == self.link {
            let (asker, correlation) = self
                .under_way
                .pop_front()
                .ok_or("it sent an answer to no question")?;
            io.send(asker, correlation, &frame.message);
            return Ok(());
        }
        let sent = match self.link {
            Some(link) if self.under_way.len() < UNDER_WAY_MAX => io.send(link, 0, &frame.message),
            _ => false,
        };
        if !sent {
            return Err("the next process of the chain is not there, or too slow".to_owned());
        }
        self.under_way.push_back((id, frame.correlation));
        Ok(())
    }

    fn closed(&mut self, _: &mut Io, id: ConnectionId, reason: &str) {
        if Some(id) == self.link {
            self.lost = Some(reason.to_owned());
        }
    }

    fn turn(&mut self, io: &mut Io) -> Result<(), ServerError> {
        if let Some(reason) = &self.lost {
            return Err(ServerError::Options(format!(
                "the next process of the chain, {}, is lost ({reason}): start it first, and stop \
                 it last",
                self.next
            )));
        }
        if self.link.is_none() {
            let link = io.connect(self.next);
            let what = format!("connect to the next process of the chain, {}", self.next);
            self.link = Some(link.map_err(ServerError::io(what))?);
        }
        Ok(())
    }

    fn deadline_us(&self) -> Option<u64> {
        None
    }
}

fn expect_echo(frame: &Frame) -> Result<(), String> {
    match frame.message {
        Message::Echo(_) => Ok(()),
        _ => Err("a baseline answers echo frames only".to_owned()),
    }
}
