//! Servers that are lost, and others that hold their partitions instead: what a coordinator would
//! decide.

use machines::core::CoreMachine;
use placement::Schema;
use placement::tables::MemoryTables;
use protocol::configuration::{
    MoveProgress, PartitionState, Place, PlacedTable, ServerState, Tenure,
};
use protocol::identity::{CoreId, Epoch, Position, ServerId};
use protocol::message::SealStage;

use super::Cluster;

impl Cluster {
    /// Lets everything that was begun be finished and forgotten everywhere.
    pub fn rest(&mut self) -> Result<(), String> {
        for _ in 0..100 {
            self.run()?;
            if self.is_at_rest() {
                return Ok(());
            }
            self.pass(250)?;
        }
        Err("operations do not end".into())
    }

    fn is_at_rest(&self) -> bool {
        let awake = self.nodes.values().filter(|node| !node.asleep);
        let machines = awake.filter_map(|node| node.machine.as_ref());
        let mut backlogs = machines.map(CoreMachine::backlog);
        backlogs.all(|it| it.operations == 0 && it.queued_requests == 0)
    }

    /// Time passes until no server that runs lacks local entries.
    pub fn make_entries(&mut self) -> Result<(), String> {
        for _ in 0..1_000 {
            self.run()?;
            let machines = self.nodes.values().filter_map(|it| it.machine.as_ref());
            let mut backlogs = machines.map(CoreMachine::backlog);
            if backlogs.all(|it| it.orders_unmade == 0) {
                return Ok(());
            }
            self.pass(1)?;
        }
        Err("local entries are made for ever".into())
    }

    /// Returns whether all running servers have reported the end of the sealed epochs.
    pub fn is_resolved(&self) -> bool {
        let holders = self.configuration.tables[0].holders();
        let nodes = self
            .nodes
            .iter()
            .filter(|(id, _)| holders.contains(&core(**id)));
        let mut running = nodes.filter(|(_, node)| node.machine.is_some() && !node.asleep);
        running.all(|(_, node)| node.stage == Some(SealStage::Resolved))
    }

    /// An epoch in which another server holds partitions, with nothing in them, and servers that
    /// do not run are down. The epochs before have been ended, or nothing of them is under way.
    pub fn replace(&mut self, partitions: &[(usize, usize)], by: u32) -> Result<(), String> {
        self.end_epochs()?;
        for (replex, number) in partitions {
            let place = &mut self.configuration.tables[0].placement[*replex][*number];
            *place = Place {
                core: core(by),
                state: PartitionState::Rebuilding,
                since: self.configuration.epoch,
                moving: None,
                former: Some(place.core),
            };
        }
        self.spread()
    }

    /// An epoch in which a server has another copy of the table, with nothing in it. As above.
    pub fn add_copy(&mut self, wanted: &Schema, by: u32) -> Result<(), String> {
        self.end_epochs()?;
        let table = &mut self.configuration.tables[0];
        let place = |_: &PlacedTable, _, _| Some(core(by));
        *table = table.with_copy(wanted, self.configuration.epoch, &place)?;
        self.spread()
    }

    /// An epoch in which the table lacks a copy that it had. As above.
    pub fn remove_copy(&mut self, name: &str) -> Result<(), String> {
        self.end_epochs()?;
        let table = &mut self.configuration.tables[0];
        *table = table.without_copy(name)?;
        self.spread()
    }

    /// Returns whether a core reports that a copy cannot be made.
    pub fn has_obstacles(&self) -> bool {
        self.nodes.values().any(|node| !node.obstacles.is_empty())
    }

    fn end_epochs(&mut self) -> Result<(), String> {
        if self.configuration.tables[0].sealing.take().is_some() {
            if !self.is_resolved() {
                return Err("the epochs before have not ended".into());
            }
        } else {
            if !self.is_at_rest() {
                return Err("operations are under way".into());
            }
            // Logs begin here: heads that are gone do not report any more what they have finished.
            for id in self.nodes.keys().copied().collect::<Vec<_>>() {
                if self.nodes[&id].machine.is_some() {
                    self.checkpoint(id)?;
                }
            }
        }
        self.configuration.epoch = Epoch(self.configuration.epoch.0 + 1);
        for node in self.nodes.values_mut() {
            node.filled.clear();
            node.obstacles.clear();
        }
        for server in &mut self.configuration.servers {
            if self.nodes[&server.id.0].machine.is_none() {
                server.state = ServerState::Down;
            }
        }
        let (epoch, nodes) = (self.configuration.epoch, &self.nodes);
        let is_gone = |id: ServerId| nodes[&id.0].machine.is_none();
        let places = self.configuration.tables[0].placement.iter_mut();
        for place in places.flatten() {
            *place = place.without(is_gone, epoch);
        }
        Ok(())
    }

    /// An epoch in which what servers have reported as filled serves. False if that is nothing.
    pub fn serve(&mut self) -> Result<bool, String> {
        let mut is_new = false;
        for (id, node) in &mut self.nodes {
            let places = &mut self.configuration.tables[0].placement;
            node.filled.retain(|filled| {
                let place = &mut places[usize::from(filled.replex)][filled.number as usize];
                let serves = place.core.server.0 == *id;
                if serves && place.state == PartitionState::Rebuilding {
                    *place = place.filled();
                    is_new = true;
                }
                // A partition that moves there is reported as level.
                !serves
            });
        }
        if is_new {
            self.configuration.tables[0].finish_building();
            self.configuration.epoch = Epoch(self.configuration.epoch.0 + 1);
            self.spread()?;
        }
        Ok(is_new)
    }

    /// An epoch in which partitions move to another server.
    pub fn begin_move(&mut self, partitions: &[(usize, usize)], to: u32) -> Result<(), String> {
        let since = Epoch(self.configuration.epoch.0 + 1);
        let core = CoreId {
            server: ServerId(to),
            core: 0,
        };
        for (replex, number) in partitions {
            let place = &mut self.configuration.tables[0].placement[*replex][*number];
            place.moving = Some(MoveProgress::To(Tenure { core, since }));
        }
        self.reconfigure()
    }

    /// Returns whether all that moves lacks no more than the last changes.
    pub fn is_level(&self) -> bool {
        let mut places = self.configuration.places();
        places.all(|(id, place)| match place.moving {
            Some(MoveProgress::To(next)) => self.nodes[&next.core.server.0].filled.contains(&id),
            _ => true,
        })
    }

    /// Servers that have nothing to do with any partition.
    pub fn spares(&self) -> Vec<u32> {
        let ids = self.nodes.keys().copied();
        ids.filter(|id| !self.configuration.holds(ServerId(*id)))
            .collect()
    }

    /// An epoch serves after one in which chains stood still: what moves is held by the next.
    pub fn hand_over(&mut self) -> Result<(), String> {
        let places = self.configuration.tables[0].placement.iter_mut();
        for place in places.flatten() {
            *place = place.handed_over();
        }
        self.unseal()
    }

    /// A server that does not run has lost its disk.
    pub fn wipe(&mut self, id: u32) {
        let node = self.nodes.get_mut(&id).expect("a server of the cluster");
        assert!(node.machine.is_none(), "it runs");
        node.tables = MemoryTables::new();
        node.checkpoint = (MemoryTables::new(), Position(1));
        node.log.clear();
        node.durable = 0;
    }
}

fn core(server: u32) -> CoreId {
    CoreId {
        server: ServerId(server),
        core: 0,
    }
}
