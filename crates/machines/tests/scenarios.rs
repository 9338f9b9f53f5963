//! Scenario files: one behaviour each, written as commands and the output after them.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p machines --test scenarios` writes what is seen into the
//! files; read the difference before committing it. The table is always
//! `t(id int64, tail text, number int64)` with primary key `id`.

mod cluster;
mod histories;

use std::error::Error;

use cluster::Cluster;
use goldenscript::{ArgumentConsumer, Command, Context, Runner};
use machines::core::CoreLimits;
use placement::{
    Column, ColumnType, Constraint, Cut, Deferral, Durability, ForeignKey, FurtherCopy, Index,
    ReferentialAction, Schema, Share, SlotConstraints, TableConstraints, Value, encode_key,
    encode_row, prefix_end,
};
use protocol::codec::Bytes;
use protocol::expression::{Assignment, BinaryOperator, Expression};
use protocol::identity::{Epoch, PartitionId, RequestId, SessionId, TableId};
use protocol::message::{Consistency, Execute, Read, Redirect, Request};
use protocol::operation::{Action, Mutation};

const COLUMNS: [&str; 3] = ["id", "tail", "number"];

#[derive(Default)]
struct Scenario {
    cluster: Option<Cluster>,
    requests: u64,
}

impl Runner for Scenario {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        match command.name.as_str() {
            "cluster" => self.start(command)?,
            "insert" | "keep" | "upsert" | "update" | "delete" => self.execute(command)?,
            "find" => self.find(command)?,
            _ => self.world(command)?,
        }
        let cluster = self.cluster.as_mut().ok_or("start with `cluster`")?;
        Ok(std::mem::take(&mut cluster.events))
    }
}

impl Scenario {
    /// `cluster servers=3 f=2 partitions=1 durability=sync by_tail=tail log=tail.number/dense`, and
    /// `hybrid=2.2` for a hybrid of the primary key and the first index with these divisions;
    /// `page=2` for so many keys in one page of a fill, or of entries that are made; `entries=off`
    /// for no local entries; `reference=number` for a foreign key of this column to the same table.
    fn start(&mut self, command: &Command) -> Result<(), Box<dyn Error>> {
        let mut arguments = command.consume_args();
        let servers = arguments.take_key("servers").unwrap_or("3").parse()?;
        let mut limits = CoreLimits::default();
        if let Some(keys) = arguments.take_key("page") {
            limits.fill_page_keys_max = keys.parse()?;
            limits.entry_page_max = keys.parse()?;
        }
        let column = |name: &str, column_type, nullable| Column {
            name: name.into(),
            column_type,
            nullable,
            default: None,
            missing: None,
        };
        let mut schema = Schema {
            name: "t".into(),
            columns: vec![
                column("id", ColumnType::Int64, false),
                column("tail", ColumnType::Text, true),
                column("number", ColumnType::Int64, false),
            ],
            primary_key: vec![0],
            indexes: Vec::new(),
            further: Vec::new(),
            thin: Vec::new(),
            partitions: arguments.take_key("partitions").unwrap_or("1").parse()?,
            failures_tolerated: arguments.take_key("f").unwrap_or("2").parse()?,
            failures_wanted: 0,
            local_entries: arguments.take_key("entries") != Some("off"),
            durability: match arguments.take_key("durability") {
                None | Some("sync") => Durability::Sync,
                Some(_) => Durability::Replicated,
            },
            primary_partition_columns: None,
            sequence: None,
            constraints: TableConstraints::default(),
        };
        if let Some(divisions) = arguments.take_key("hybrid") {
            let (primary, first) = divisions.split_once('.').ok_or("as in hybrid=2.2")?;
            let share = |index, divisions: &str| -> Result<Share, Box<dyn Error>> {
                let divisions = divisions.parse()?;
                Ok(Share { index, divisions })
            };
            let shares = vec![share(None, primary)?, share(Some(0), first)?];
            schema.further.push(FurtherCopy {
                name: "hybrid".into(),
                cut: Cut::Hybrid { shares },
            });
        }
        if let Some(column) = arguments.take_key("reference") {
            schema.constraints.foreign_keys.push(ForeignKey {
                name: "t_fkey".into(),
                columns: vec![column_index(column)?],
                parent: "t".into(),
                on_delete: ReferentialAction::NoAction,
                on_update: ReferentialAction::NoAction,
                deferral: Deferral::NotDeferrable,
                is_valid: true,
            });
            schema.constraints.referenced_by.push("t".into());
        }
        while let Some((name, columns)) = arguments.next_key() {
            schema.indexes.push(index(name, columns)?);
        }
        arguments.reject_next()?;
        self.cluster = Some(Cluster::new(schema, servers, limits)?);
        Ok(())
    }

    /// `insert id=1 tail=A number=1`, `update id=1 number=add/1 if=number/3`; `request=N` repeats
    /// one.
    fn execute(&mut self, command: &Command) -> Result<(), Box<dyn Error>> {
        let cluster = self.cluster.as_mut().ok_or("start with `cluster`")?;
        let mut arguments = command.consume_args();
        let number = match arguments.take_key("request") {
            Some(number) => number.parse()?,
            None => self.requests + 1,
        };
        self.requests = self.requests.max(number);
        let acknowledged_below = arguments.take_key("acknowledged").unwrap_or("1").parse()?;
        let session = arguments.take_key("session").unwrap_or("1").parse()?;
        let epoch = match arguments.take_key("epoch") {
            Some(epoch) => epoch.parse()?,
            None => cluster.configuration.epoch.0,
        };
        let condition = arguments.take_key("if").map(condition).transpose()?;
        let id = Value::Int64(arguments.take_key("id").ok_or("which id?")?.parse()?);
        let mut row = vec![id.clone(), Value::Null, Value::Int64(0)];
        let mut assignments = Vec::new();
        while let Some((name, text)) = arguments.next_key() {
            let column = column_index(name)?;
            let (value, expression) = value(column, text)?;
            row[column] = value;
            assignments.push(Assignment {
                column: column as u16,
                value: expression,
            });
        }
        arguments.reject_next()?;
        let encoded = Bytes(encode_row(&cluster.schema().columns, &row)?);
        let action = match command.name.as_str() {
            "insert" => Action::Insert { row: encoded },
            "keep" => Action::InsertOrKeep { row: encoded },
            "upsert" => Action::Upsert {
                row: encoded,
                assignments,
                condition,
            },
            "update" => Action::Update {
                assignments,
                condition,
            },
            _ => Action::Delete { condition },
        };
        let pk = Bytes(encode_key([id.as_ref()]));
        let number_of = cluster.layout().partition_of_values(0, |_| id.as_ref());
        let request = Request::Execute(Execute {
            request: RequestId {
                session: SessionId(session),
                number,
            },
            acknowledged_below,
            epoch: Epoch(epoch),
            table: TableId(1),
            partition: PartitionId {
                table: TableId(1),
                replex: 0,
                number: number_of,
            },
            mutations: vec![Mutation { pk, action }],
        });
        let head = cluster.configuration.tables[0].placement[0][number_of as usize]
            .core
            .server
            .0;
        Ok(cluster.ask(head, session, number, request)?)
    }

    /// `find id=1`, `find tail=A stale`, `find by_tail` (all of it, if it has one partition);
    /// `find tail=A through=t`: as at a member of a cover, partition 0 of that replex.
    fn find(&mut self, command: &Command) -> Result<(), Box<dyn Error>> {
        let cluster = self.cluster.as_mut().ok_or("start with `cluster`")?;
        let mut arguments = command.consume_args();
        let client = arguments.take_key("client").unwrap_or("9").parse()?;
        let epoch = match arguments.take_key("epoch") {
            Some(epoch) => epoch.parse()?,
            None => cluster.configuration.epoch.0,
        };
        let mut consistency = Consistency::Linearizable;
        let mut replex = None;
        let mut number = 0;
        let mut start = Vec::new();
        if let Some((name, text)) = arguments.next_key() {
            let column = column_index(name)?;
            let (value, _) = value(column, text)?;
            let replexes = &cluster.layout().replexes;
            let found = replexes
                .iter()
                .position(|one| one.sort_columns[0].column == column);
            let found = found.ok_or("no replex is sorted by that column")?;
            number = cluster
                .layout()
                .partition_of_values(found, |_| value.as_ref());
            start = encode_key([value.as_ref()]);
            replex = Some(found);
        }
        let through = arguments.take_key("through");
        while let Some(word) = arguments.next_pos() {
            if word == "stale" {
                consistency = Consistency::Stale;
            } else {
                let mut replexes = cluster.layout().replexes.iter();
                replex = replexes.position(|one| one.name == word);
            }
        }
        let replex = replex.ok_or("by which index?")?;
        let end = prefix_end(&start).map(Bytes);
        let (lost, layout) = (replex, cluster.layout());
        let member = through.map(|name| layout.replexes.iter().position(|one| one.name == name));
        let redirect = member.is_some().then(|| Redirect {
            replex: lost as u8,
            constraints: SlotConstraints::any(layout.key_spaces.len()),
            scan_from: None,
        });
        let (replex, number) = match member {
            None => (lost, number),
            Some(member) => (member.ok_or("through which copy?")?, 0),
        };
        let request = Request::Read(Read {
            start: Bytes(start),
            end,
            limit: 100,
            consistency,
            redirect,
            ..Read::of(
                Epoch(epoch),
                PartitionId {
                    table: TableId(1),
                    replex: replex as u8,
                    number,
                },
            )
        });
        let place = cluster.configuration.tables[0].placement[replex][number as usize];
        Ok(cluster.ask(place.core.server.0, client, 0, request)?)
    }

    /// Runs a command that concerns the world around the servers.
    fn world(&mut self, command: &Command) -> Result<(), Box<dyn Error>> {
        let cluster = self.cluster.as_mut().ok_or("start with `cluster`")?;
        let mut arguments = command.consume_args();
        let name = command.name.as_str();
        match name {
            "run" => cluster.run()?,
            "rest" => {
                cluster.rest()?;
                cluster.events.clear();
            }
            "serve" => {
                cluster.serve()?;
            }
            "replace" | "move" => {
                let (places, server) = places(cluster, &mut arguments)?;
                match name {
                    "replace" => cluster.replace(&places, server)?,
                    _ => cluster.begin_move(&places, server)?,
                }
            }
            "hand-over" => cluster.hand_over()?,
            "add" => add(cluster, &mut arguments)?,
            "remove" => cluster.remove_copy(arguments.next_pos().ok_or("which copy?")?)?,
            "rows" => {
                let rows = cluster.rows();
                cluster.events.push_str(&rows);
            }
            "looked-at" => {
                let id = server(arguments.next_pos())?;
                cluster.ask(id, 9, 0, Request::Status)?;
            }
            "seal" => {
                let leaving = arguments.take_key("leaving").map(str::to_owned);
                let mut removed = Vec::new();
                while let Some(name) = arguments.next_pos() {
                    removed.push(server(Some(name))?);
                }
                cluster.seal(removed, leaving.as_deref())?;
            }
            "unseal" => cluster.unseal()?,
            "pass" => {
                let ms = arguments.next_pos().ok_or("how many ms?")?.parse()?;
                cluster.pass(ms)?;
            }
            "deliver" | "drop" | "duplicate" => {
                let kind = arguments.next_pos().ok_or("which kind of message?")?;
                let from = server(arguments.next_pos())?;
                let to = server(arguments.next_pos())?;
                let index = cluster
                    .finds(kind, from, to)
                    .ok_or("no such message is under way")?;
                match name {
                    "deliver" => cluster.deliver(index)?,
                    "drop" => drop(cluster.network.remove(index)),
                    _ => cluster.duplicate(index),
                }
            }
            _ => happen_to(cluster, name, &mut arguments)?,
        }
        arguments.reject_next()
    }
}

/// `tail`, `tail.number/dense`, `tail/unique`
fn index(name: &str, text: &str) -> Result<Index, Box<dyn Error>> {
    let (columns, constraint) = match text.split_once('/') {
        None => (text, None),
        Some((columns, "unique")) => (columns, Some(Constraint::Unique)),
        Some((columns, _)) => (columns, Some(Constraint::Dense)),
    };
    let columns = columns.split('.').map(column_index);
    Ok(Index {
        name: name.into(),
        columns: columns.collect::<Result<_, _>>()?,
        constraint,
        partition_columns: None,
        by_range: false,
    })
}

/// Runs a command that concerns one server.
fn happen_to(
    cluster: &mut Cluster,
    what: &str,
    arguments: &mut ArgumentConsumer<'_>,
) -> Result<(), Box<dyn Error>> {
    let id = server(arguments.next_pos())?;
    let how = arguments.next_pos();
    match what {
        "flush" => cluster.flush(id)?,
        "checkpoint" if how == Some("unflushed") => cluster.checkpoint_unflushed(id)?,
        "checkpoint" => cluster.checkpoint(id)?,
        "crash" => {
            if how == Some("loses-one") {
                cluster.lose_last_record(id)?;
            }
            cluster.crash(id, how.is_some())?;
        }
        "restart" => cluster.start(id)?,
        "rejoin" => cluster.rejoin(id)?,
        "down" => cluster.note_down(id)?,
        "wipe" => cluster.wipe(id),
        "sleep" | "wake" => {
            let node = cluster.nodes.get_mut(&id).ok_or("no such server")?;
            node.asleep = what == "sleep";
            cluster.spread()?;
        }
        "slow-clock" => {
            let node = cluster.nodes.get_mut(&id).ok_or("no such server")?;
            node.slow_clock = true;
        }
        "slow-disk" | "fast-disk" => {
            let node = cluster.nodes.get_mut(&id).ok_or("no such server")?;
            node.slow_disk = what == "slow-disk";
            cluster.flush(id)?;
        }
        _ => return Err(format!("unknown command {what}").into()),
    }
    Ok(())
}

/// Partitions by replex and number, and a server.
type Places = (Vec<(usize, usize)>, u32);

/// As in `replace by_tail/0 s4`, several with commas between them.
fn places(
    cluster: &Cluster,
    arguments: &mut ArgumentConsumer<'_>,
) -> Result<Places, Box<dyn Error>> {
    let places = arguments.next_pos().ok_or("which, as in by_tail/0?")?;
    let by = server(arguments.next_pos())?;
    let place = |place: &str| -> Result<_, Box<dyn Error>> {
        let (name, number) = place.split_once('/').ok_or("as in by_tail/0")?;
        let mut replexes = cluster.layout().replexes.iter();
        let replex = replexes.position(|one| one.name == name);
        Ok((replex.ok_or("no such replex")?, number.parse()?))
    };
    let places: Vec<_> = places.split(',').map(place).collect::<Result<_, _>>()?;
    Ok((places, by))
}

/// `add by_tail=tail/unique s4`
fn add(cluster: &mut Cluster, arguments: &mut ArgumentConsumer<'_>) -> Result<(), Box<dyn Error>> {
    let (name, columns) = arguments.next_key().ok_or("as in by_tail=tail")?;
    let mut wanted = cluster.schema().clone();
    wanted.indexes.push(index(name, columns)?);
    Ok(cluster.add_copy(&wanted, server(arguments.next_pos())?)?)
}

fn server(name: Option<&str>) -> Result<u32, Box<dyn Error>> {
    let number = name
        .and_then(|name| name.strip_prefix('s'))
        .ok_or("which server, as in s1?")?;
    Ok(number.parse()?)
}

fn column_index(name: &str) -> Result<usize, Box<dyn Error>> {
    let found = COLUMNS.iter().position(|column| *column == name);
    found.ok_or_else(|| format!("no column {name}").into())
}

/// A value as text; `add/1` is an increment, `long/2000` a text of so many bytes.
fn value(column: usize, text: &str) -> Result<(Value, Expression), Box<dyn Error>> {
    if text == "null" {
        return Ok((Value::Null, Expression::Literal(Value::Null)));
    }
    if column == 1 {
        let long = text.strip_prefix("long/").map(str::parse).transpose()?;
        let value = Value::Text(long.map_or(text.into(), |bytes| "x".repeat(bytes)));
        return Ok((value.clone(), Expression::Literal(value)));
    }
    let added = text.strip_prefix("add/");
    let value = Value::Int64(added.unwrap_or(text).parse()?);
    let literal = Expression::Literal(value.clone());
    let expression = if added.is_some() {
        let column = Expression::Column(column as u16);
        Expression::Binary(BinaryOperator::Add, Box::new(column), Box::new(literal))
    } else {
        literal
    };
    Ok((value, expression))
}

/// `number/3` means number = 3.
fn condition(text: &str) -> Result<Expression, Box<dyn Error>> {
    let (name, text) = text.split_once('/').ok_or("a condition is column/value")?;
    let column = column_index(name)?;
    let (value, _) = value(column, text)?;
    let column = Box::new(Expression::Column(column as u16));
    let value = Box::new(Expression::Literal(value));
    Ok(Expression::Binary(BinaryOperator::Equal, column, value))
}

// A build with planted bugs plants them one after the other, for the whole process.
#[cfg(not(feature = "planted"))]
#[test]
fn scenarios_have_the_expected_output() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        println!("{}", path.display());
        goldenscript::run(&mut Scenario::default(), &path).unwrap();
    }
}
