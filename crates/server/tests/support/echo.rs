//! A process on a thread that answers each frame with itself, or passes it to the next one.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use cluster_tls::Credentials;
use server::ServerError;
use server::baseline::Baseline;
use server::clock::Clock;
use server::event_loop::{LoopHandle, LoopLimits, LoopOptions};

/// An echo process on a thread; stopped when dropped.
pub struct Echo {
    pub address: SocketAddr,
    pub handle: LoopHandle,
    pub thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl Echo {
    pub fn start(limits: LoopLimits) -> Echo {
        Echo::chained(None, limits)
    }

    pub fn chained(next: Option<SocketAddr>, limits: LoopLimits) -> Echo {
        Echo::encrypted(None, next, limits)
    }

    /// Starts a process whose connections are encrypted, if there are credentials.
    pub fn encrypted(
        credentials: Option<&Credentials>,
        next: Option<SocketAddr>,
        limits: LoopLimits,
    ) -> Echo {
        let options = LoopOptions {
            limits,
            credentials: credentials.cloned(),
            ..LoopOptions::new(Clock::start())
        };
        let baseline = Baseline::bind("127.0.0.1:0".parse().unwrap(), next, options).unwrap();
        let (address, handle) = (baseline.address(), baseline.handle());
        let thread = Some(std::thread::spawn(move || baseline.run()));
        Echo {
            address,
            handle,
            thread,
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !std::thread::panicking() {
                result.unwrap().unwrap();
            }
        }
    }
}
