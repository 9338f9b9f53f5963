//! The connections that this core opens: to its peers, and to the coordinator.
//!
//! A link is opened when it is first needed and then kept. When it breaks, it is opened again after
//! a pause that doubles up to a limit. Messages for a link that is not open, or whose queue is
//! full, are dropped. The machine repeats unconfirmed messages, and learns of each new connection.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use machines::core::CoreIdentity;
use protocol::configuration::Configuration;
use protocol::identity::CoreId;
use protocol::message::{CoordinatorRequest, Hello, Message, PeerHeader, PeerMessage, Welcome};

use crate::event_loop::{ConnectionId, Io};

/// The first pause before a link is opened again, in microseconds.
const PAUSE_US_MIN: u64 = 10_000;
/// The longest one.
const PAUSE_US_MAX: u64 = 1_000_000;
/// Bytes that may wait for one peer; messages beyond are dropped.
const PEER_QUEUE_BYTES_MAX: usize = 64 << 20;
/// The longest pause before all coordinators are tried once more. A new leader gives every server a
/// lease's time to report, and no server may miss that.
const COORDINATOR_PAUSE_US_MAX: u64 = 100_000;
/// If the coordinator has not answered for this long, the core connects to the next one, because
/// the first may be suspended while another one leads.
const COORDINATOR_PATIENCE_US: u64 = 500_000;
/// Questions that wait for the coordinator.
const EARLY_QUESTIONS_MAX: usize = 4;

/// One link.
#[derive(Debug)]
struct Link {
    address: SocketAddr,
    connection: Option<ConnectionId>,
    /// The other side has identified itself.
    welcomed: bool,
    retry_us: u64,
    pause_us: u64,
}

impl Link {
    fn new(address: SocketAddr) -> Self {
        Link {
            address,
            connection: None,
            welcomed: false,
            retry_us: 0,
            pause_us: PAUSE_US_MIN,
        }
    }

    fn open_if_due(&mut self, io: &mut Io, identity: CoreIdentity) -> Option<ConnectionId> {
        if self.connection.is_some() || self.retry_us > io.now_us() {
            return None;
        }
        match io.connect(self.address) {
            Ok(id) => {
                let hello = Message::Hello(Hello {
                    cluster: Some(identity.cluster),
                    core: Some((identity.core, identity.incarnation)),
                });
                io.send(id, 0, &hello);
                self.connection = Some(id);
                Some(id)
            }
            Err(_) => {
                self.broke(io.now_us());
                None
            }
        }
    }

    fn broke(&mut self, now_us: u64) {
        self.connection = None;
        self.welcomed = false;
        self.retry_us = now_us + self.pause_us;
        self.pause_us = (self.pause_us * 2).min(PAUSE_US_MAX);
    }

    fn welcome(&mut self) {
        self.welcomed = true;
        self.pause_us = PAUSE_US_MIN;
    }

    fn deadline_us(&self) -> Option<u64> {
        self.connection.is_none().then_some(self.retry_us)
    }
}

/// The links to other cores.
#[derive(Debug)]
pub(super) struct Peers {
    identity: CoreIdentity,
    links: BTreeMap<CoreId, Link>,
    pub dropped: u64,
}

impl Peers {
    pub fn new(identity: CoreIdentity) -> Self {
        Peers {
            identity,
            links: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// Sends a message, or drops it if there is no connection or too much waits.
    pub fn send(&mut self, io: &mut Io, to: CoreId, header: PeerHeader, message: PeerMessage) {
        let link = self.links.get(&to).filter(|link| link.welcomed);
        let sent = link.and_then(|link| link.connection).is_some_and(|id| {
            io.queued_bytes(id) < PEER_QUEUE_BYTES_MAX
                && io.send(id, 0, &Message::Peer(header, message))
        });
        self.dropped += u64::from(!sent);
    }

    /// Makes sure that there is a link to a core to which a message is about to be sent.
    pub fn want(&mut self, to: CoreId, configuration: &Configuration) {
        if self.links.contains_key(&to) {
            return;
        }
        let address = configuration.address(to).and_then(|text| text.parse().ok());
        if let Some(address) = address {
            self.links.insert(to, Link::new(address));
        }
    }

    /// Adopts a new configuration: reconnects to cores whose address has changed, and disconnects
    /// from removed cores.
    pub fn follow(&mut self, io: &mut Io, configuration: &Configuration) {
        self.links.retain(|core, link| {
            let address = configuration.address(*core);
            let address = address.and_then(|text| text.parse::<SocketAddr>().ok());
            if address == Some(link.address) {
                return true;
            }
            if let Some(id) = link.connection {
                io.close(id, "the configuration names another address for this core");
            }
            if let Some(address) = address {
                *link = Link::new(address);
            }
            address.is_some()
        });
    }

    /// Opens the links that are due. Returns each connection with its core.
    pub fn open_due(&mut self, io: &mut Io) -> Vec<(ConnectionId, CoreId)> {
        let identity = self.identity;
        self.links
            .iter_mut()
            .filter_map(|(core, link)| Some((link.open_if_due(io, identity)?, *core)))
            .collect()
    }

    /// Handles the `Welcome` of the other side of a link.
    pub fn welcomed(
        &mut self,
        core: CoreId,
        id: ConnectionId,
        welcome: &Welcome,
    ) -> Result<(), String> {
        let link = self.links.get_mut(&core);
        let link = link.filter(|link| link.connection == Some(id));
        let Some(link) = link else {
            return Err("this link is not needed any more".to_owned());
        };
        if welcome.cluster != self.identity.cluster
            || welcome.core.map(|(core, _)| core) != Some(core)
        {
            return Err(format!("{core} was expected here"));
        }
        link.welcome();
        Ok(())
    }

    pub fn broke(&mut self, core: CoreId, id: ConnectionId, now_us: u64) {
        let link = self.links.get_mut(&core);
        if let Some(link) = link.filter(|link| link.connection == Some(id)) {
            link.broke(now_us);
        }
    }

    pub fn deadline_us(&self) -> Option<u64> {
        self.links.values().filter_map(Link::deadline_us).min()
    }
}

/// The link to the leading coordinator. It is found by trying several addresses: a standby answers
/// with the leader.
#[derive(Debug)]
pub(super) struct CoordinatorLink {
    identity: CoreIdentity,
    link: Link,
    addresses: Vec<SocketAddr>,
    /// Which of them is next.
    next_address: usize,
    /// How many were tried since one has greeted.
    tried: usize,
    /// When the oldest question, or the greeting, was sent that has no answer yet.
    asked_us: Option<u64>,
    /// Questions asked before the coordinator has identified itself.
    early: VecDeque<CoordinatorRequest>,
}

impl CoordinatorLink {
    pub fn new(identity: CoreIdentity, addresses: Vec<SocketAddr>) -> Self {
        CoordinatorLink {
            identity,
            link: Link::new(addresses[0]),
            addresses,
            next_address: 1,
            tried: 0,
            asked_us: None,
            early: VecDeque::new(),
        }
    }

    pub fn connection(&self) -> Option<ConnectionId> {
        self.link.connection
    }

    /// Opens the link if it is due. Closes a link without answers if there is another address to
    /// try.
    pub fn open_due(&mut self, io: &mut Io) {
        if let Some(id) = self.link.connection {
            if self.patience_ends_us().is_some_and(|at| at <= io.now_us()) {
                self.asked_us = None;
                io.close(id, "it does not answer");
            }
        } else if let Some(id) = self.link.open_if_due(io, self.identity) {
            io.expect_configurations(id);
            self.asked_us = Some(io.now_us());
        }
    }

    /// Sends a request as soon as there is a connection. If too many wait, the oldest are dropped,
    /// because the machine repeats requests.
    pub fn ask(&mut self, io: &mut Io, request: CoordinatorRequest) {
        if let Some(id) = self.link.connection.filter(|_| self.link.welcomed) {
            self.asked_us.get_or_insert(io.now_us());
            io.send(id, 0, &Message::Ask(request));
            return;
        }
        if self.early.len() == EARLY_QUESTIONS_MAX {
            self.early.pop_front();
        }
        self.early.push_back(request);
    }

    /// Records an answer to a request. Earlier requests are answered, too, because answers come in
    /// order.
    pub fn answered(&mut self) {
        self.asked_us = None;
    }

    pub fn welcomed(&mut self, io: &mut Io, welcome: &Welcome) -> Result<(), String> {
        if welcome.cluster != self.identity.cluster || welcome.core.is_some() {
            return Err("the coordinator of this cluster was expected here".to_owned());
        }
        self.link.welcome();
        self.tried = 0;
        self.asked_us = None;
        for request in std::mem::take(&mut self.early) {
            self.ask(io, request);
        }
        Ok(())
    }

    /// Handles a standby's answer: tries the leader next, if it is one of the known addresses.
    pub fn redirected(&mut self, leader: Option<&str>) {
        let leader: Option<SocketAddr> = leader.and_then(|leader| leader.parse().ok());
        let place = self
            .addresses
            .iter()
            .position(|address| Some(*address) == leader);
        self.next_address = place.unwrap_or(self.next_address);
    }

    /// Tries the next address at once. After a round of all addresses it pauses.
    pub fn broke(&mut self, now_us: u64) {
        self.link.broke(now_us);
        self.link.pause_us = self.link.pause_us.min(COORDINATOR_PAUSE_US_MAX);
        self.tried += 1;
        if !self.tried.is_multiple_of(self.addresses.len()) {
            self.link.retry_us = now_us;
        }
        self.asked_us = None;
        self.link.address = self.addresses[self.next_address % self.addresses.len()];
        self.next_address += 1;
    }

    fn patience_ends_us(&self) -> Option<u64> {
        let asked_us = self.asked_us.filter(|_| self.addresses.len() > 1)?;
        Some(asked_us + COORDINATOR_PATIENCE_US)
    }

    pub fn deadline_us(&self) -> Option<u64> {
        self.link.deadline_us().or(self.patience_ends_us())
    }
}
