//! Measures the cost of the machine itself: CPU time of lookups and of inserts through three
//! replexes, codec and frames included, without sockets and disks.
//!
//! `cargo run --release -p machines --example machine_cost [OPERATIONS]`

use std::sync::Arc;

use machines::core::{ClientId, CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput};
use placement::tables::MemoryTables;
use placement::{
    Column, ColumnType, Durability, Index, Layout, Schema, TableComments, TableConstraints, Value,
    encode_key, encode_row, prefix_end,
};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, Place, PlacedTable, Server, ServerState};
use protocol::frame;
use protocol::identity::{
    ClockReading, CoreId, Epoch, Incarnation, PartitionId, Position, RequestId, ServerId,
    SessionId, TableId,
};
use protocol::message::{Execute, Message, Read, Request};
use protocol::operation::{Action, Mutation};

struct Node {
    machine: CoreMachine,
    tables: MemoryTables,
    output: CoreOutput,
}

fn main() {
    let count = std::env::args().nth(1).map(|text| text.parse());
    let count: i64 = count.map_or(200_000, |count| count.expect("a number of operations"));
    let schema = schema();
    let layout = Layout::base(&schema);
    let place = |replex: usize| {
        Place::serving(
            CoreId {
                server: ServerId(replex as u32 + 1),
                core: 0,
            },
            Epoch(0),
        )
    };
    let placement = (0..3).map(|replex| vec![place(replex); 12]).collect();
    let server = |id| Server {
        id: ServerId(id),
        incarnation: Incarnation(1),
        domain: id.to_string(),
        cores: vec![String::new()],
        state: ServerState::Up,
        is_draining: false,
        is_new: false,
    };
    let configuration = Arc::new(Configuration {
        cluster: 1,
        epoch: Epoch(1),
        servers: (1..=3).map(server).collect(),
        tables: vec![PlacedTable {
            id: TableId(1),
            epoch: Epoch(1),
            sealing: None,
            columns_since: Epoch(0),
            schema,
            layout,
            placement,
            building: Vec::new(),
            comments: TableComments::default(),
        }]
        .into(),
        roles: Default::default(),
    });
    let mut nodes: Vec<Node> = (1..=3).map(|id| node(id, &configuration)).collect();
    settle(&mut nodes);

    let start = cpu_ns();
    for id in 0..count {
        insert(&mut nodes, &configuration.tables[0], id);
        if id % 256 == 0 {
            tick(&mut nodes, id as u64);
        }
    }
    let each = (cpu_ns() - start) as f64 / count as f64 / 1000.0;
    println!("insert through three replexes, all copies together: {each:.2} µs");

    let start = cpu_ns();
    for id in 0..count {
        lookup(&mut nodes[0], &configuration.tables[0], id * 7919 % count);
    }
    let each = (cpu_ns() - start) as f64 / count as f64 / 1000.0;
    println!("lookup by pk: {each:.2} µs");
}

/// CPU time of this process so far: what else the machine does hardly moves it.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("this is Linux");
    let first = text.split_whitespace().next();
    first
        .and_then(|first| first.parse().ok())
        .expect("it begins with a number")
}

fn schema() -> Schema {
    let column = |name: &str| Column {
        name: name.into(),
        column_type: ColumnType::Text,
        nullable: false,
        default: None,
        missing: None,
    };
    let mut columns = vec![Column {
        column_type: ColumnType::Int64,
        ..column("id")
    }];
    columns.extend((0..9).map(|number| column(&format!("field{number}"))));
    let index = |name: &str, column| Index {
        name: name.into(),
        columns: vec![column],
        constraint: None,
        partition_columns: None,
        by_range: false,
    };
    Schema {
        name: "t".into(),
        columns,
        primary_key: vec![0],
        indexes: vec![index("a", 1), index("b", 2)],
        further: Vec::new(),
        thin: Vec::new(),
        partitions: 12,
        failures_tolerated: 2,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Replicated,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    }
}

fn node(id: u32, configuration: &Arc<Configuration>) -> Node {
    let identity = CoreIdentity {
        cluster: 1,
        core: CoreId {
            server: ServerId(id),
            core: 0,
        },
        incarnation: Incarnation(1),
    };
    let mut node = Node {
        machine: CoreMachine::new(identity, CoreLimits::default(), Arc::clone(configuration)),
        tables: MemoryTables::new(),
        output: CoreOutput::default(),
    };
    let Node {
        machine,
        tables,
        output,
    } = &mut node;
    machine
        .restore(tables)
        .expect("there is nothing to be restored");
    machine
        .start(ClockReading::default(), Position(1), tables, output)
        .expect("memory does not fail");
    let beat = CoreInput::Beat {
        sent_us: 0,
        epoch: Epoch(1),
        lease_us: u64::MAX / 2,
        session_floor: SessionId(0),
    };
    step(&mut node, ClockReading::default(), beat);
    node
}

fn step(node: &mut Node, now: ClockReading, input: CoreInput) {
    node.machine
        .step(now, input, &mut node.tables, &mut node.output)
        .expect("memory does not fail");
}

fn now() -> ClockReading {
    ClockReading {
        monotonic_us: 1,
        wall_us: 1,
    }
}

/// Carries messages between the nodes, as frames, until there are none.
fn settle(nodes: &mut [Node]) {
    let mut bytes = Vec::new();
    loop {
        let mut idle = true;
        for from in 0..nodes.len() {
            let output = std::mem::take(&mut nodes[from].output);
            if let Some(last) = output.records.last() {
                let durable = CoreInput::Durable(last.position);
                step(&mut nodes[from], now(), durable);
            }
            for send in output.sends {
                idle = false;
                bytes.clear();
                let header = nodes[from].machine.header(&send.message);
                frame::encode(0, &Message::Peer(header, send.message), &mut bytes);
                let (decoded, _) = frame::decode(&bytes).expect("own frame").expect("whole");
                let Message::Peer(header, message) = decoded.message else {
                    unreachable!()
                };
                let to = send.to.server.0 as usize - 1;
                step(&mut nodes[to], now(), CoreInput::Peer { header, message });
            }
        }
        if idle {
            return;
        }
    }
}

fn tick(nodes: &mut [Node], at: u64) {
    let now = ClockReading {
        monotonic_us: at * 1000,
        wall_us: at * 1000,
    };
    for node in nodes.iter_mut() {
        step(node, now, CoreInput::Tick);
    }
    settle(nodes);
}

fn request(node: &mut Node, request: Request) {
    let mut bytes = Vec::new();
    frame::encode(1, &Message::Request(request), &mut bytes);
    let (decoded, _) = frame::decode(&bytes).expect("own frame").expect("whole");
    let Message::Request(request) = decoded.message else {
        unreachable!()
    };
    step(
        node,
        now(),
        CoreInput::Request {
            client: ClientId(1),
            correlation: 1,
            request,
        },
    );
}

fn insert(nodes: &mut [Node], table: &PlacedTable, id: i64) {
    let mut row = vec![Value::Int64(id)];
    row.extend((0..9).map(|field| Value::Text(format!("{:010}", id * 31 + field))));
    let pk = encode_key([row[0].as_ref()]);
    let number = table
        .layout
        .partition_of_values(0, |column| row[column].as_ref());
    let row = encode_row(&table.schema.columns, &row).expect("it fits the schema");
    let execute = Execute {
        request: RequestId {
            session: SessionId(1),
            number: id as u64 + 1,
        },
        acknowledged_below: id as u64 + 1,
        epoch: Epoch(1),
        table: TableId(1),
        partition: PartitionId {
            table: TableId(1),
            replex: 0,
            number,
        },
        mutations: vec![Mutation {
            pk: Bytes(pk),
            action: Action::Insert { row: Bytes(row) },
        }],
    };
    request(&mut nodes[0], Request::Execute(execute));
    settle(nodes);
}

fn lookup(node: &mut Node, table: &PlacedTable, id: i64) {
    let value = Value::Int64(id);
    let start = encode_key([value.as_ref()]);
    let number = table.layout.partition_of_values(0, |_| value.as_ref());
    let read = Read {
        end: prefix_end(&start).map(Bytes),
        start: Bytes(start),
        limit: 1,
        ..Read::of(
            Epoch(1),
            PartitionId {
                table: TableId(1),
                replex: 0,
                number,
            },
        )
    };
    request(node, Request::Read(read));
    let reply = node
        .output
        .replies
        .pop()
        .expect("a lookup is answered at once");
    let mut bytes = Vec::new();
    frame::encode(1, &Message::Reply(reply.reply), &mut bytes);
    assert!(bytes.len() > 100, "the row was found");
}
