//! Starts a cluster and makes its tables, without faults.

use std::rc::Rc;

use protocol::message::{CoordinatorReply, CoordinatorRequest};

use crate::event::Event;
use crate::plan::SECOND;
use crate::workload::Translation;
use crate::world::server::SimulatedServer;
use crate::world::{SimulatedTable, World};

/// Starts everything and makes the tables.
pub fn set_up(world: &mut World) -> bool {
    world.start_coordinator();
    for place in 0..world.servers.len() {
        world.after(place as u64, Event::Start(place));
    }
    let all_run = |world: &World| world.servers.iter().all(SimulatedServer::is_running);
    if !world.run(10 * SECOND, all_run) {
        world.check(
            "I16 everything finishes",
            Err("the servers do not start".into()),
        );
        return false;
    }
    (0..world.plan.tables).all(|place| create_table(world, place))
}

/// Makes a table.
fn create_table(world: &mut World, place: usize) -> bool {
    let schema = world.plan.schema_of(place);
    let request = CoordinatorRequest::CreateTable {
        schema,
        if_not_exists: false,
        sequences: Vec::new(),
        owner: Default::default(),
    };
    world.ask(request);
    let made = |world: &World| world.created.is_some();
    let limit_us = world.now_us + 15 * SECOND;
    if !world.run(limit_us, made) {
        world.check(
            "I16 everything finishes",
            Err("the table is not created".into()),
        );
        return false;
    }
    match world.created.take() {
        Some(CoordinatorReply::Done {
            table: Some(id), ..
        }) => {
            let configuration = world.coordinator.configuration().expect("it runs");
            let table = configuration.table(id).expect("it was just created");
            let translation = Translation::new(&table.schema, &table.layout);
            let translation = Rc::new(translation);
            world.tables.push(SimulatedTable { id, translation });
            true
        }
        other => {
            world.check("create table", Err(format!("it was answered {other:?}")));
            false
        }
    }
}
