//! Where a batch goes, by what its statements touch.
//!
//! Reads outside of transactions, those of a transaction at READ COMMITTED that are independent of
//! what it has written, and transactions at REPEATABLE READ that are to read only may go to a
//! replica; everything else goes to the primary. What is not understood counts as writing anything
//! (R33).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::BytesMut;

use super::login::Reading;
use super::numbers::{Named, TableNumbers};
use super::pending_age;
use super::replicas::Replicas;
use super::trace;
use super::why::Detail;
pub use super::why::Why;
use super::writes::Writes;
use pg_analysis::effect::{self, GRAMMAR};
use pg_analysis::{
    Action, Analyser, Analysis, Constant, INT4, Parameter, Statement, Template, TransactionCommand,
    fires_triggers, is_of_node, is_of_roles_alone,
};
use pg_connect::address::Address;
use pg_wire::cut::Message;
use pg_wire::message;
use pg_wire::quoting::quoted;
use pg_wire::report::{Report, Severity};
use proxy_core::freshness::{
    Class, Level, Life, Manager, Moment, Reason, ReplicaId, Sets, Table, Target, Tsid, Watch, mark,
};
use proxy_core::grammar::Effect;
use proxy_core::session::{AsPrepared, Bound, Classes, Out, Prepared, Proof, Session, Text, Trace};
use proxy_pool::Node;
use replication::leadership::Leadership;
use replication::leadership::lease::Lease;
use replication::locked;
use replication::schema_changes::unless_noted;
use replication::{Error, Replication, Settings, Started};

/// SQLSTATE: what cannot be replicated.
const UNSUPPORTED: &str = "0A000";
/// SQLSTATE: the transaction is to be tried again.
const SERIALIZATION_FAILURE: &str = "40001";
/// Why the primary is needed by what writes, as far as that is understood.
const WRITES: &str = "it writes";
/// How every name of that schema begins.
const TEMPORARY_SCHEMA: &[u8] = b"pg_temp";
/// How a statement begins that may have the body of a function.
const CREATE: &[u8] = b"create";

/// What routing needs to know, and where reads can go.
pub struct Routing {
    /// The primary, for as long as this proxy is the active one.
    pub primary: Arc<Node>,
    /// Whether it is.
    pub lease: Lease,
    /// Says what statements touch.
    pub analyser: Arc<Analyser>,
    /// Says where reads may go, and is told of commits.
    pub manager: Arc<Mutex<Manager>>,
    /// The replicas.
    pub replicas: Replicas,
    /// Which numbers tables have there.
    pub numbers: TableNumbers,
}

/// What some statements are, together.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// All that they touch.
    pub sets: Sets,
    /// What they lock, among other things.
    pub locked: Sets,
    /// Is there something that is no read for any node?
    pub needs_primary: Option<&'static str>,
    /// May their transaction end with them, or with one of them?
    pub may_end: bool,
    /// Texts that replicas run, too, in order.
    pub schema: Vec<String>,
    /// May they change where names are looked up, or who runs what follows?
    pub changes_settings: bool,
    /// Do they ask for the time at which their transaction began?
    pub of_transaction_time: bool,
    /// Do they begin with BEGIN? What follows runs inside of a transaction.
    pub begins: bool,
    /// How many of them begin or end a transaction or a part of one.
    pub commands: usize,
    /// Why they must not run.
    pub refused: Option<&'static str>,
    /// How many statements there are.
    pub count: usize,
    /// The oldest catalogue by which this is known, see [`Analyser::generation`].
    pub generation: Option<u64>,
    /// The tables and views that reads among them name.
    pub named: BTreeSet<Table>,
    /// What the only one is as a prepared statement, if that is the same.
    pub as_prepared: Option<AsPrepared>,
}

impl Touched {
    /// What shows that they have taken their snapshots at a replica.
    pub fn proof(&self) -> Proof {
        match self.count {
            1 => Proof::First,
            _ => Proof::End,
        }
    }

    /// What their answers may be of.
    pub fn named(&self) -> Named {
        Named {
            tables: self.named.clone(),
            generation: self.generation,
        }
    }

    /// Statements that are not understood.
    fn anything(why: &'static str) -> Touched {
        Touched {
            sets: Sets::writes_anything(),
            needs_primary: Some(why),
            may_end: true,
            count: 1,
            ..Touched::default()
        }
    }

    /// Both together.
    pub fn merge(&mut self, other: Touched) {
        self.sets.absorb(other.sets);
        self.locked.absorb(other.locked);
        self.needs_primary = self.needs_primary.or(other.needs_primary);
        self.may_end |= other.may_end;
        self.begins |= self.count == 0 && other.begins;
        self.changes_settings |= other.changes_settings;
        self.of_transaction_time |= other.of_transaction_time;
        self.schema.extend(other.schema);
        self.refused = self.refused.or(other.refused);
        self.commands += other.commands;
        self.as_prepared = other.as_prepared.filter(|_| self.count == 0);
        self.count += other.count;
        self.named.extend(other.named);
        let generations = [self.generation, other.generation];
        self.generation = generations.into_iter().flatten().min();
    }

    /// They are statements of a transaction that is on no server, or waits on the primary: outside
    /// of it they would find another time, and share no portals with its other statements.
    pub fn stays_inside(&mut self, shares_portals: bool) {
        let why = match (self.of_transaction_time, shares_portals) {
            (true, _) => "it asks for the time of its transaction",
            (_, true) => "its transaction goes on with its portals",
            _ => return,
        };
        self.needs_primary = self.needs_primary.or(Some(why));
    }

    /// It is looked at what they read only so finely.
    pub fn coarsen(&mut self, classes: Classes) {
        match classes {
            Classes::Rows => {}
            Classes::Columns => self.sets.coarsen(Class::Columns),
            Classes::Tables => self.sets.coarsen(Class::Table),
        }
    }

    fn add(&mut self, statement: &Statement, parameters: &[Parameter<'_>]) {
        self.count += 1;
        self.of_transaction_time |= statement.of_transaction_time;
        let sets = statement.sets(parameters);
        if statement.locks {
            self.locked.merge(&sets);
        }
        self.sets.absorb(sets);
        let why = match &statement.action {
            Action::Read => {
                self.named.extend(statement.named());
                return;
            }
            Action::Primary(why) | Action::Unproven(why) | Action::Pin(why) => why,
            Action::Session => {
                self.changes_settings = true;
                "it is about the session"
            }
            Action::Write => WRITES,
            Action::Schema(text) => {
                self.may_end = true;
                self.schema.push(text.clone());
                "it changes the schema"
            }
            Action::Transaction(command) => {
                self.commands += 1;
                match command {
                    TransactionCommand::Begin => self.begins |= self.count == 1,
                    TransactionCommand::Savepoint => {}
                    TransactionCommand::Commit | TransactionCommand::Rollback => {
                        self.may_end = true;
                    }
                    // What another session has prepared may be anything.
                    TransactionCommand::TwoPhase => self.sets.merge(&Sets::writes_anything()),
                }
                "it begins or ends a transaction"
            }
            Action::Refused(why) => {
                self.refused = Some(why);
                "it is refused"
            }
        };
        // What writes anything may be a procedure, which may end transactions.
        self.may_end |= self.sets.may_write_anything();
        self.needs_primary = self.needs_primary.or(Some(why));
    }

    /// Do the statements change the schema and do nothing else? `text` is theirs: what it makes in
    /// the schema of temporary tables is its session's.
    pub fn is_schema_only(&self, text: &[u8]) -> bool {
        let is_temporary = |part: &[u8]| part.eq_ignore_ascii_case(TEMPORARY_SCHEMA);
        !self.schema.is_empty()
            && self.schema.len() == self.count
            && !text.windows(TEMPORARY_SCHEMA.len()).any(is_temporary)
    }

    /// May they run in a transaction that has its snapshot at a replica? Reads may, savepoints, and
    /// what does nothing but end it; behind that, another may begin. A write may, as its client has
    /// said that it is to read only: PostgreSQL refuses it there before it does anything, as it
    /// would on the primary.
    fn stays_elsewhere(&self, text: &[u8]) -> bool {
        let is_read = self.needs_primary.is_none();
        let is_savepoint = self.count == 1 && self.commands == 1 && !self.may_end;
        let leaves_nothing = effect::of(text) == Effect::Nothing;
        let writes_nothing = self.sets.tables().all(|(_, it)| !it.is_written());
        let is_refused = self.count == 1 && self.needs_primary == Some(WRITES);
        let goes_on = (is_read || is_savepoint) && writes_nothing || is_refused;
        Session::is_end(text) || goes_on && leaves_nothing && !self.sets.may_write_anything()
    }
}

/// What is known before a message goes to a server that is attached.
pub struct Before<'a> {
    /// Where routing is known.
    pub routing: &'a Routing,
    /// How statements are read, if that is known.
    pub reading: Option<&'a Reading>,
    /// Who runs it.
    pub user: &'a str,
    /// Where it goes; none for the primary.
    pub place: Option<ReplicaId>,
    /// Has the client been told where it goes, if it has asked for that?
    pub is_told: bool,
}

/// Where a message goes.
pub struct Goes<'a> {
    /// Whose it is.
    pub session: &'a mut Session,
    /// What its transaction has written.
    pub writes: &'a mut Writes,
    /// For both peers.
    pub out: &'a mut Out,
}

impl Before<'_> {
    /// Notes what the message's statements may write, and adds what must run in front of them.
    ///
    /// Returns what goes in its place, if it is not to run.
    pub fn look(&self, message: Message<'_>, goes: Goes<'_>) -> Option<BytesMut> {
        if goes.session.is_skipping() {
            return None;
        }
        if goes.session.has_snapshot_elsewhere() {
            return self.look_elsewhere(message, goes);
        }
        let Goes {
            session,
            writes,
            out,
        } = goes;
        if message.tag() == b'P' {
            self.look_at_parse(message, session);
            return None;
        }
        if message.tag() == b'S' {
            // It ends the transaction that the batch runs in, unless the client has begun that.
            let is_inside = session.is_in_transaction();
            writes.note(&Touched::default(), is_inside, &self.routing.manager);
            return None;
        }
        let bound = bound_by(message, session);
        let text = run_by(message, bound.as_ref())?;
        let is_simple = message.tag() == b'Q';
        let mut touched = self.routing.touched(&text, self.reading);
        if session.is_failed() {
            // Nothing changes the schema before a rollback.
            touched.schema.clear();
        }
        if text.text().is_some_and(|text| touched.is_schema_only(text)) {
            session.knows_schema_only();
        }
        let routing = self.routing;
        let prelude = match routing.prelude(&touched, self.reading, self.user) {
            Ok(prelude) => prelude,
            Err(report) => return session.raise(&report, is_simple, out),
        };
        let kept = match session.is_in_transaction() {
            true => "its transaction is there",
            false => "its session is there",
        };
        let reason = touched.needs_primary.unwrap_or(kept);
        self.tell(&Why::primary(reason), &touched, (session, out));
        // What Execute runs is ended by what follows, unless it ends its transaction by itself.
        let is_inside = session.is_in_transaction() || message.tag() == b'E';
        writes.note(&touched, is_inside, &routing.manager);
        if is_simple && !prelude.is_empty() {
            return Some(session.behind(&prelude, message));
        }
        for statement in prelude {
            session.add(&statement, out);
        }
        None
    }

    /// The message goes to a replica, where its transaction has its snapshot. What would find
    /// something else there than on the primary fails, so that the client begins anew: then on the
    /// primary.
    ///
    /// Returns what goes in its place, as [`Before::look`].
    fn look_elsewhere(&self, message: Message<'_>, goes: Goes<'_>) -> Option<BytesMut> {
        let session = goes.session;
        if session.is_inside_quietly() {
            // What might have ended it was skipped.
            goes.writes.goes_on();
        }
        let bound = bound_by(message, session);
        let text = match message.tag() {
            b'P' => match message::Parse::read(message.body()) {
                Ok(parse) if message.is_whole() => {
                    Text::Prepared(Arc::new(Prepared::of(parse, GRAMMAR)))
                }
                _ => Text::Unknown,
            },
            b'D' => match message::Subject::read(message.body()) {
                Ok(message::Subject::Statement(name)) => match session.statement(name) {
                    Some(prepared) => Text::Prepared(prepared),
                    None => return None,
                },
                _ => return None,
            },
            // A portal that was not bound is not there.
            b'E' if bound.is_none() && session.knows_portals() => return None,
            _ => run_by(message, bound.as_ref())?,
        };
        let touched = self.routing.touched(&text, self.reading);
        let words = text.text().unwrap_or_default();
        if touched.stays_elsewhere(words) && !goes.writes.may_be_over() {
            // Nothing is written: this says that the transaction may end.
            let is_run = matches!(message.tag(), b'Q' | b'E');
            // Those that are not known are told as no table's.
            if let Some(id) = self.place
                && let Some(pairs) = self.routing.numbers.of(id, &touched.named())
            {
                session.numbers_tables_also(pairs);
            }
            if let Some(id) = self.place.filter(|_| is_run) {
                self.tell(&Why::snapshot(id), &touched, (session, goes.out));
            }
            let is_inside = !is_run || !Session::is_end(words);
            goes.writes
                .note(&Touched::default(), is_inside, &self.routing.manager);
            return None;
        }
        if !session.is_failed() {
            session.keep_snapshots();
        }
        let text = "the transaction has its snapshot at a replica, where this cannot run";
        let report = Report::new(Severity::Error, SERIALIZATION_FAILURE, text)
            .hint("Begin it again: then it has one on the primary.");
        let is_batch = matches!(message.tag(), b'Q' | b'F');
        let instead = session.raise(&report, is_batch, goes.out);
        // What it would leave behind must not keep the session there: Flush stands in its place,
        // which has no answer, and what follows is skipped.
        Some(instead.unwrap_or_else(|| {
            let mut flush = BytesMut::new();
            message::write(&mut flush, b'H', &[], 0);
            flush
        }))
    }

    /// Tells a client that has asked for it where a statement goes, if nobody has.
    fn tell(&self, why: &Why, touched: &Touched, (session, out): (&mut Session, &mut Out)) {
        if !self.is_told && session.settings().trace == Trace::On {
            let touches = self.routing.described(&touched.sets);
            session.tell(&trace::notice(why, &touches), out);
        }
    }

    /// A statement that is being prepared may keep its session by its words.
    fn look_at_parse(&self, message: Message<'_>, session: &mut Session) {
        let Ok(parse) = message::Parse::read(message.body()) else {
            return;
        };
        let start = parse.rest.trim_ascii_start().get(..CREATE.len());
        if !message.is_whole() || !start.is_some_and(|word| word.eq_ignore_ascii_case(CREATE)) {
            return;
        }
        let text = Text::Prepared(Arc::new(Prepared::of(parse, GRAMMAR)));
        let touched = self.routing.touched(&text, self.reading);
        if text.text().is_some_and(|text| touched.is_schema_only(text)) {
            session.knows_schema_only();
        }
    }
}

/// What the portal runs that a message executes, if it executes one.
fn bound_by(message: Message<'_>, session: &Session) -> Option<Bound> {
    if message.tag() != b'E' {
        return None;
    }
    let portal = message::executed_portal(message.body()).ok()?;
    session.of_portal(portal)
}

/// What a message runs, if it runs something; if by a portal, that is bound to this.
fn run_by<'a>(message: Message<'a>, bound: Option<&'a Bound>) -> Option<Text<'a>> {
    Some(match (message.tag(), bound) {
        (b'Q', _) => match message::split_string(message.body()) {
            // What it leaves behind is looked at where it is forwarded.
            Ok((text, _)) if message.is_whole() => Text::Simple(text, Effect::Nothing),
            _ => Text::Unknown,
        },
        (b'E', Some(bound)) => Text::Bound(Arc::clone(&bound.prepared), &bound.parameters),
        (b'E' | b'F', _) => Text::Unknown,
        _ => return None,
    })
}

/// Where a read goes.
pub struct Route {
    /// Why.
    pub why: Why,
    /// Unless it goes to the primary.
    pub replica: Option<Chosen>,
    /// Whether a replica may soon have all that it must see.
    pub may_wait: bool,
}

impl Route {
    /// To the primary, and a replica is not waited for.
    pub fn primary(why: Why) -> Route {
        Route {
            why,
            replica: None,
            may_wait: false,
        }
    }
}

/// A replica for a read.
pub struct Chosen {
    /// Its number.
    pub id: ReplicaId,
    /// Its connections.
    pub node: Arc<Node>,
    /// What the read must see.
    pub need: Tsid,
    /// In which life of its server it has that.
    pub life: Life,
    /// If the read may be torn: when its snapshots are known to have been taken, it is to be asked
    /// whether it is.
    pub watched: Option<Box<(Watch, Proof)>>,
}

impl Routing {
    /// Becomes the active proxy, however long another one is, and prepares the primary for
    /// replicas, of which there are none yet. Each will have so many connections for sessions, at
    /// most.
    pub async fn start(
        primary: &Address,
        connections_max: usize,
        settings: &Settings,
    ) -> Result<Routing, Error> {
        let started = Replication::start(primary, settings).await?;
        Ok(Routing::of(started, primary, connections_max))
    }

    /// The same of the proxy that is the active one already.
    pub async fn begin(
        primary: &Address,
        connections_max: usize,
        settings: &Settings,
        leadership: Leadership,
    ) -> Result<Routing, Error> {
        let started = Replication::begin(primary, settings, leadership).await?;
        Ok(Routing::of(started, primary, connections_max))
    }

    fn of(started: Started, primary: &Address, connections_max: usize) -> Routing {
        let (replication, manager, analyser) = started;
        let node = Node::new(primary.clone(), connections_max);
        tokio::spawn(pending_age::watch(Arc::downgrade(&manager)));
        Routing {
            primary: Arc::new(node.with_ledger(replication.ledger().clone())),
            lease: replication.lease().clone(),
            analyser,
            manager,
            replicas: Replicas::new(replication, connections_max),
            numbers: TableNumbers::default(),
        }
    }

    /// What runs in front of statements: what replicas run, too, is written into the log, unless
    /// the primary's triggers do that. Fails where the statements cannot be replicated.
    pub fn prelude(
        &self,
        touched: &Touched,
        reading: Option<&Reading>,
        role: &str,
    ) -> Result<Vec<String>, Report> {
        let refused = |text: &str| Report::new(Severity::Error, UNSUPPORTED, text);
        if let Some(why) = touched.refused {
            return Err(refused(why));
        }
        if touched.schema.is_empty() {
            return Ok(Vec::new());
        }
        let is_mixed = touched.count > touched.schema.len();
        let read = match reading {
            _ if is_mixed => {
                let text =
                    "this change of the schema cannot be sent together with other statements";
                Err(refused(text).hint("Send each statement by itself."))
            }
            None => {
                let text =
                    "the schema cannot be changed so by a session that has changed its settings";
                Err(refused(text).hint("Give search_path and role when connecting, not by SET."))
            }
            Some(reading) if reading.is_changed => {
                let text = "the schema cannot be changed so by a session that has changed how its texts are read";
                Err(refused(text)
                    .hint("Give TimeZone, DateStyle and the like when connecting, not by SET."))
            }
            Some(reading) => Ok(reading),
        };
        // A superuser runs these at replicas: they have succeeded on the primary.
        let plain = Reading::default();
        let is_plain = |text: &String| !is_mixed && is_of_roles_alone(text);
        let prelude = |text: &String| match (&read, fires_triggers(text)) {
            (Err(_), false) if is_plain(text) => Ok(self.announcing(text, &plain, "")),
            (Ok(reading), true) => {
                let announcing = self.announcing(text, reading, role);
                let announcing = announcing.replacen("SELECT", "PERFORM", 1);
                Ok(unless_noted(&announcing, text))
            }
            (Ok(reading), false) => Ok(self.announcing(text, reading, role)),
            (Err(report), true) => Ok(unless_noted(&report.raised(), text)),
            (Err(report), false) => Err(report.clone()),
        };
        touched.schema.iter().map(prelude).collect()
    }

    /// The statement that writes this one into the log.
    fn announcing(&self, text: &str, reading: &Reading, role: &str) -> String {
        let names = reading.search_path.iter().map(|name| quoted(name));
        let statement = mark::Statement {
            search_path: names.collect::<Vec<_>>().join(", "),
            role: role.to_string(),
            text: text.to_owned(),
        };
        statement.sql(self.manager().key())
    }

    /// Where a read goes.
    pub fn route(&self, touched: &Touched, level: Level) -> Route {
        let mut manager = self.manager();
        let target = manager.route(&touched.sets, level);
        let watch = match target {
            Target::Replica { id, .. } => manager.watch(&touched.sets, level, id),
            Target::Primary(_) => None,
        };
        drop(manager);
        let watched = watch.map(|watch| Box::new((watch, touched.proof())));
        self.of_target(target, watched, "it has all that is read")
    }

    /// Where a read goes that waits, or where a transaction takes its snapshot, see
    /// [`Manager::route_moment`].
    pub fn route_moment(&self, moment: &mut Moment, proof: Proof) -> Route {
        let (target, watch) = self.manager().route_moment(moment);
        let watched = watch.map(|watch| Box::new((watch, proof)));
        let mut route = self.of_target(target, watched, "it has been waited for");
        if target == Target::Primary(Reason::Pending) {
            route.why = Why::primary("what it must see is being committed");
        }
        route
    }

    fn of_target(
        &self,
        target: Target,
        watched: Option<Box<(Watch, Proof)>>,
        reason: &'static str,
    ) -> Route {
        let why = match target {
            Target::Replica { .. } if !self.lease.is_valid() => {
                Why::primary("another proxy might be the active one")
            }
            Target::Replica {
                id,
                need,
                applied,
                life,
            } => match self.replicas.node(id) {
                Some(node) => {
                    let why = Why {
                        reason,
                        detail: Detail::Replica { id, need, applied },
                    };
                    let chosen = Chosen {
                        id,
                        node,
                        need,
                        life,
                        watched,
                    };
                    return Route {
                        why,
                        replica: Some(chosen),
                        may_wait: false,
                    };
                }
                None => Why::primary("the replica is gone"),
            },
            Target::Primary(Reason::Writes) => Why::primary("it writes"),
            Target::Primary(Reason::Pending) => Why::primary("it touches what is being committed"),
            Target::Primary(Reason::NoneFresh { need }) => Why {
                reason: "no replica has all that is read yet",
                detail: Detail::NoneHas(need),
            },
            Target::Primary(Reason::Outdated) => Why::primary("the schema has changed meanwhile"),
        };
        let may_wait = match target {
            Target::Primary(Reason::Pending | Reason::NoneFresh { .. }) => self.lease.is_valid(),
            Target::Primary(Reason::Writes | Reason::Outdated) | Target::Replica { .. } => false,
        };
        Route {
            why,
            replica: None,
            may_wait,
        }
    }

    /// The manager; it is locked for a moment only, as none of its functions waits.
    pub fn manager(&self) -> MutexGuard<'_, Manager> {
        locked(&self.manager)
    }

    /// For people: what sets have in them.
    pub fn described(&self, sets: &Sets) -> String {
        trace::described(sets, &self.analyser.catalogue())
    }

    /// What a text touches that is read like this; none where that is not known.
    pub fn touched(&self, text: &Text<'_>, reading: Option<&Reading>) -> Touched {
        let is_utf8 = reading.is_none_or(|reading| reading.is_utf8);
        let has_escapes = reading.is_some_and(|reading| reading.has_escapes);
        let is_read =
            |text: &&[u8]| (is_utf8 || text.is_ascii()) && !(has_escapes && text.contains(&b'\\'));
        let bytes = text.text().filter(is_read);
        let Some(Ok(words)) = bytes.map(str::from_utf8) else {
            return Touched::anything("it is not understood");
        };
        let search_path = reading.map_or(&[][..], |reading| &reading.search_path);
        let mut touched = Touched {
            generation: Some(self.analyser.generation()),
            ..Touched::default()
        };
        let (analysis, template) = match text {
            Text::Simple(..) => self.analyser.analyse_with_constants(words, search_path),
            _ => (self.analyser.analyse(words, search_path), None),
        };
        let parameters = match text {
            _ if !analysis.iter().any(Statement::is_by_parameters) => Vec::new(),
            Text::Bound(prepared, bytes) => parameters_of(prepared, bytes, is_utf8),
            _ => {
                let constants = template.iter().flat_map(|template| &template.values);
                constants.map(Constant::parameter).collect()
            }
        };
        if text.parameter_types().any(is_of_node) {
            touched.needs_primary = Some("the type of a parameter differs between nodes");
        }
        let mut is_known = reading.is_some();
        for statement in analysis.iter() {
            let is_transaction =
                matches!(statement.action, Action::Transaction(_) | Action::Session);
            if !is_known && !is_transaction {
                // It is no further statement.
                touched.merge(Touched {
                    count: 0,
                    ..Touched::anything("its session has settings of its own")
                });
            }
            touched.add(statement, &parameters);
            is_known &= statement.action != Action::Session;
        }
        touched.as_prepared = template.and_then(|template| as_prepared(&analysis, &template));
        touched
    }
}

/// A text that reads a row by its key, as a prepared statement with these values. Each is of the
/// type that it has as a constant, so that the same operators are meant.
fn as_prepared(analysis: &Analysis, template: &Template<'_>) -> Option<AsPrepared> {
    let [statement] = &**analysis else {
        return None;
    };
    let count = template.values.len();
    statement.key_parameters().filter(|keys| *keys == count)?;
    let mut values = Vec::with_capacity(count);
    for value in &template.values {
        let Constant::Number(digits) = value else {
            return None;
        };
        digits.parse::<i32>().ok()?;
        values.push(digits.as_bytes());
    }
    let Some(prepared) = analysis.prepared.get() else {
        // Not every text comes twice: the first time it runs as it is.
        let prepared = Prepared::by_proxy(&template.text, &vec![INT4; count], GRAMMAR);
        analysis.prepared.get_or_init(|| Arc::new(prepared));
        return None;
    };
    Some(AsPrepared {
        prepared: Arc::clone(prepared),
        parameters: message::bound_texts(&values),
    })
}

/// The parameters of a Bind message; none where they are not understood.
fn parameters_of<'a>(prepared: &Prepared, bytes: &'a [u8], is_utf8: bool) -> Vec<Parameter<'a>> {
    let types = prepared.parameter_types().chain(std::iter::repeat(0));
    let values = message::values(bytes).unwrap_or_default();
    let parameters = values.into_iter().zip(types);
    let parameters = parameters.map(|(value, type_oid)| {
        let is_read = is_utf8 || value.bytes.is_some_and(<[u8]>::is_ascii);
        Parameter {
            type_oid,
            binary: value.binary,
            value: value.bytes.filter(|_| is_read),
        }
    });
    parameters.collect()
}
