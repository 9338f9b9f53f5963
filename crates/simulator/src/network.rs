//! Decides whether and when a message arrives.
//!
//! Connections keep order, as TCP does. If the run's faults include it, messages between cores are
//! also lost, duplicated or reordered on an open connection. TCP would never do this. This module
//! does not know the content of a message.

use std::collections::BTreeMap;

use protocol::identity::CoreId;

use crate::plan::Faults;
use crate::random::Random;

/// A sender or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A core of a server.
    Core(CoreId),
    /// A server that joins and has no number yet.
    Starting(usize),
    /// The coordinator.
    Coordinator,
    /// A client.
    Client(u64),
}

/// The simulated network: the state of each link between two nodes, with its delays and faults.
#[derive(Debug)]
pub struct Network {
    random: Random,
    links: BTreeMap<(Node, Node), Link>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// Nothing sent later arrives earlier.
    last_arrival_us: u64,
    clogged_until_us: u64,
    /// Messages that were sent into a clog arrive after it, though faults have stopped meanwhile.
    held_until_us: u64,
    /// How often the connection has broken. Each break loses the messages in flight.
    breaks: u64,
    /// When the connection broke for the last time.
    broke_us: u64,
}

/// The arrival times of a message: none, one or two.
pub type Arrivals = [Option<u64>; 2];

impl Network {
    /// Returns a network without faults.
    pub fn new(random: Random) -> Self {
        Self {
            random,
            links: BTreeMap::new(),
        }
    }

    /// Decides when a message that is sent now arrives.
    pub fn send(&mut self, now_us: u64, from: Node, to: Node, faults: &Faults) -> Arrivals {
        let between_cores = matches!((from, to), (Node::Core(_), Node::Core(_)));
        if between_cores && self.random.chance(faults.loss) {
            return [None, None];
        }
        let first = self.arrival(now_us, from, to, faults);
        let twice = between_cores && self.random.chance(faults.duplication);
        let second = twice.then(|| {
            let late = self
                .random
                .exponential(20 * faults.latency_us + faults.jitter_us);
            first + late
        });
        [Some(first), second]
    }

    fn arrival(&mut self, now_us: u64, from: Node, to: Node, faults: &Faults) -> u64 {
        let jitter = self.random.exponential(faults.jitter_us);
        let link = self.links.entry((from, to)).or_default();
        let sent = now_us.max(link.clogged_until_us);
        let arrival = sent + faults.latency_us + jitter;
        if self.random.chance(faults.reordering) {
            return arrival
                + self
                    .random
                    .exponential(4 * (faults.latency_us + faults.jitter_us));
        }
        let link = self.links.entry((from, to)).or_default();
        link.last_arrival_us = arrival.max(link.last_arrival_us);
        link.last_arrival_us
    }

    /// Blocks all messages from one node to the other until a time.
    pub fn block(&mut self, from: Node, to: Node, until_us: u64) {
        let link = self.links.entry((from, to)).or_default();
        link.clogged_until_us = link.clogged_until_us.max(until_us);
        link.held_until_us = link.held_until_us.max(until_us);
    }

    /// Returns whether no message from one node to the other was blocked, or lost with its
    /// connection, since a time.
    pub fn flows_since(&self, since_us: u64, from: Node, to: Node) -> bool {
        let link = self.links.get(&(from, to));
        link.is_none_or(|link| link.held_until_us.max(link.broke_us) <= since_us)
    }

    /// Ends all blocks.
    pub fn unblock_all(&mut self, now_us: u64) {
        for link in self.links.values_mut() {
            link.clogged_until_us = link.clogged_until_us.min(now_us);
        }
    }

    /// Breaks the connection between two nodes, and drops its messages in flight.
    pub fn break_connection(&mut self, now_us: u64, from: Node, to: Node) {
        let link = self.links.entry((from, to)).or_default();
        link.breaks += 1;
        link.broke_us = now_us;
        link.last_arrival_us = 0;
    }

    /// Returns the number of the present connection between two nodes.
    pub fn connection(&self, from: Node, to: Node) -> u64 {
        self.links.get(&(from, to)).map_or(0, |link| link.breaks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(server: u32) -> Node {
        let server = protocol::identity::ServerId(server);
        Node::Core(CoreId { server, core: 0 })
    }

    #[test]
    fn a_calm_network_keeps_order_and_loses_nothing() {
        let faults = Faults {
            latency_us: 100,
            jitter_us: 1_000,
            ..Faults::default()
        };
        let mut network = Network::new(Random::new(1));
        let mut last = 0;
        for now in 0..1_000 {
            let [first, second] = network.send(now, core(1), core(2), &faults);
            assert_eq!(second, None);
            let arrival = first.unwrap();
            assert!(arrival >= last);
            assert!(arrival >= now + 100);
            last = arrival;
        }
    }

    #[test]
    fn faults_between_cores_happen_at_their_rates() {
        let faults = Faults {
            latency_us: 100,
            jitter_us: 10,
            loss: 0.1,
            duplication: 0.1,
            reordering: 0.1,
            ..Faults::default()
        };
        let mut network = Network::new(Random::new(2));
        let (mut lost, mut doubled, mut overtaken, mut last) = (0, 0, 0, 0);
        for now in 0..10_000 {
            match network.send(now, core(1), core(2), &faults) {
                [None, _] => lost += 1,
                [Some(first), second] => {
                    doubled += u32::from(second.is_some());
                    overtaken += u32::from(first < last);
                    last = first;
                }
            }
        }
        for count in [lost, doubled, overtaken] {
            assert!(
                (800..1_200).contains(&count),
                "{lost} {doubled} {overtaken}"
            );
        }
    }

    #[test]
    fn a_clogged_direction_delays_and_the_other_does_not() {
        let faults = Faults {
            latency_us: 100,
            jitter_us: 10,
            ..Faults::default()
        };
        let mut network = Network::new(Random::new(3));
        network.block(core(1), core(2), 5_000);
        assert!(network.send(0, core(1), core(2), &faults)[0] > Some(5_000));
        assert!(network.send(0, core(2), core(1), &faults)[0] < Some(5_000));
        assert!(!network.flows_since(4_999, core(1), core(2)));
        assert!(network.flows_since(5_000, core(1), core(2)));
        assert!(network.flows_since(0, core(2), core(1)));
        network.break_connection(7_000, core(1), core(2));
        assert!(!network.flows_since(6_999, core(1), core(2)));
        assert!(network.flows_since(7_000, core(1), core(2)));
    }
}
