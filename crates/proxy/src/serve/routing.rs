//! Chooses the route of a batch from the analysis of its statements.
//!
//! Three kinds of reads may go to a replica: reads outside of transactions, reads of a READ
//! COMMITTED transaction that are independent of its writes, and read-only transactions at
//! REPEATABLE READ. Everything else goes to the primary. An unknown statement counts as a write of
//! everything (R33).

use std::sync::{Arc, Mutex, MutexGuard};

use super::numbers::TableNumbers;
use super::pending_age;
use super::replicas::Replicas;
use super::routing_reason::ReasonDetail;
pub use super::routing_reason::RoutingReason;
use super::server_settings::ParseContext;
use super::trace;
use pg_analysis::effect::GRAMMAR;
use pg_analysis::{
    AnalysedStatement, Analyser, BoundParameter, Constant, INT4, StatementAction, TextAnalysis,
    TextTemplate, fires_triggers, is_of_node, is_of_roles_alone,
};
use pg_connect::address::Address;
use pg_wire::message;
use pg_wire::quoting::quoted;
use pg_wire::report::{Report, Severity};
use proxy_core::freshness::{
    AccessSets, ConsistencyLevel, FreshnessManager, PrimaryReason, ReadMoment, ReadTarget,
    ReadWatch, ReplicaId, ServerLife, Tsid, mark,
};
use proxy_core::routing::{ReplicaFreshness, RoutingDecision, RoutingQuestion, decide};
use proxy_core::session::{
    BatchFault, PreparedForm, PreparedStatement, SnapshotProof, StatementText,
};
use proxy_core::touched::CombinedAnalysis;
use proxy_pool::ServerNode;
use replication::leadership::ProxyLeadership;
use replication::leadership::lease::Lease;
use replication::locked;
use replication::schema_changes::unless_noted;
use replication::{Replication, ReplicationError, ReplicationSettings, StartedReplication};

/// SQLSTATE: a statement that cannot be replicated.
const UNSUPPORTED: &str = "0A000";

/// The state with which an active proxy routes statements, and the servers for reads.
pub struct Routing {
    /// The primary, while this proxy is active.
    pub primary: Arc<ServerNode>,
    /// The proxy's lease.
    pub lease: Lease,
    /// The analyser of statements.
    pub analyser: Arc<Analyser>,
    /// The manager, which decides where reads may run. Replication reports commits to it.
    pub manager: Arc<Mutex<FreshnessManager>>,
    /// The replicas.
    pub replicas: Replicas,
    /// The OIDs of tables at the replicas.
    pub numbers: TableNumbers,
}

/// The route of a read.
pub struct ReadRoute {
    /// The reason for this route.
    pub reason: RoutingReason,
    /// The replica; none for the primary.
    pub replica: Option<ChosenReplica>,
    /// Whether a replica may soon have every commit that the read must see.
    pub may_wait: bool,
}

impl ReadRoute {
    /// Returns a route to the primary, without a wait for a replica.
    pub fn primary(reason: RoutingReason) -> ReadRoute {
        ReadRoute {
            reason,
            replica: None,
            may_wait: false,
        }
    }
}

/// A replica that was chosen for a read.
pub struct ChosenReplica {
    /// The replica's number.
    pub id: ReplicaId,
    /// The pool of connections to the server.
    pub node: Arc<ServerNode>,
    /// The TSID that the read must see.
    pub need: Tsid,
    /// The life of the replica's server for which the replica was chosen.
    pub life: ServerLife,
    /// Set if the read may be torn. Once its snapshots are taken, the manager must check it.
    pub watched: Option<Box<(ReadWatch, SnapshotProof)>>,
}

/// The route of statements.
pub enum RoutedStatements {
    /// The statements go to a server that is fresh enough.
    Fresh(ReadRoute),
    /// The statements go to a replica that has every commit, and their transaction takes its
    /// snapshot there.
    Snapshot,
    /// The statements go to the primary, for this reason.
    Primary(RoutingReason),
}

/// The manager's view of the replicas, for reads at one level of consistency.
pub(super) struct FreshnessAtLevel<'a> {
    routing: &'a Routing,
    level: ConsistencyLevel,
    /// Watches the read, if it goes to a replica.
    watch: Option<ReadWatch>,
}

impl ReplicaFreshness for FreshnessAtLevel<'_> {
    fn target(&mut self, reads: &CombinedAnalysis) -> ReadTarget {
        let mut manager = self.routing.manager();
        let target = manager.route(&reads.sets, self.level);
        self.watch = match target {
            ReadTarget::Replica { id, .. } => manager.watch(&reads.sets, self.level, id),
            ReadTarget::Primary(_) => None,
        };
        target
    }

    fn generation(&self) -> u64 {
        self.routing.analyser.generation()
    }
}

impl Routing {
    /// Waits until this proxy is active, and prepares the primary. There are no replicas yet.
    /// `connections_max` is the most connections for sessions to each replica.
    pub async fn start(
        primary: &Address,
        connections_max: usize,
        settings: &ReplicationSettings,
    ) -> Result<Routing, ReplicationError> {
        let started = Replication::start(primary, settings).await?;
        Ok(Routing::of(started, primary, connections_max))
    }

    /// Creates the routing of a proxy that is already active.
    pub async fn begin(
        primary: &Address,
        connections_max: usize,
        settings: &ReplicationSettings,
        leadership: ProxyLeadership,
    ) -> Result<Routing, ReplicationError> {
        let started = Replication::begin(primary, settings, leadership).await?;
        Ok(Routing::of(started, primary, connections_max))
    }

    fn of(started: StartedReplication, primary: &Address, connections_max: usize) -> Routing {
        let StartedReplication {
            replication,
            manager,
            analyser,
        } = started;
        let node = ServerNode::new(primary.clone(), connections_max);
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

    /// Returns the statements that run before a batch. They write schema changes for replicas into
    /// the WAL, unless the primary's triggers do that. Fails if the statements cannot be
    /// replicated.
    pub fn prelude(
        &self,
        touched: &CombinedAnalysis,
        reading: Option<&ParseContext>,
        role: &str,
    ) -> Result<Vec<String>, Report> {
        let refused = |text: &str| Report::new(Severity::Error, UNSUPPORTED, text);
        if let Some(reason) = touched.refused {
            return Err(refused(reason));
        }
        if touched.schema.is_empty() {
            return Ok(Vec::new());
        }
        let is_mixed = touched.count > touched.schema.len();
        let read = match reading {
            _ if is_mixed => {
                let text =
                    "this change of the schema cannot be sent together with other statements";
                Err(refused(text).hint("Send each statement in a message of its own."))
            }
            None => {
                let text =
                    "a session that has changed its settings cannot change the schema in this way";
                Err(refused(text).hint("Give search_path and role when connecting, not by SET."))
            }
            Some(reading) if reading.is_changed => {
                let text = "a session that has changed how its texts are read cannot change the schema in this way";
                Err(refused(text)
                    .hint("Give TimeZone, DateStyle and the like when connecting, not by SET."))
            }
            Some(reading) => Ok(reading),
        };
        // A superuser runs these at replicas: they have succeeded on the primary.
        let plain = ParseContext::default();
        let is_plain = |text: &String| !is_mixed && is_of_roles_alone(text);
        let prelude = |text: &String| match (&read, fires_triggers(text)) {
            (Err(_), false) if is_plain(text) => Ok(self.announcing(text, &plain, "")),
            (Ok(reading), true) => {
                let announcing = self.announcing(text, reading, role);
                let announcing = announcing.replacen("SELECT", "PERFORM", 1);
                let otherwise = match touched.unless_rows {
                    Some(reason) => refused(reason).raised(),
                    None => announcing,
                };
                Ok(unless_noted(&otherwise, text, touched.unless_rows))
            }
            (Ok(reading), false) => Ok(self.announcing(text, reading, role)),
            (Err(report), true) => Ok(unless_noted(&report.raised(), text, touched.unless_rows)),
            (Err(report), false) => Err(report.clone()),
        };
        touched.schema.iter().map(prelude).collect()
    }

    /// Returns the statement that writes this one into the log.
    fn announcing(&self, text: &str, reading: &ParseContext, role: &str) -> String {
        let names = reading.search_path.iter().map(|name| quoted(name));
        let statement = mark::AnnouncedStatement {
            search_path: names.collect::<Vec<_>>().join(", "),
            role: role.to_string(),
            text: text.to_owned(),
        };
        statement.sql(self.manager().key())
    }

    pub(super) fn replicas_at(&self, level: ConsistencyLevel) -> FreshnessAtLevel<'_> {
        FreshnessAtLevel {
            routing: self,
            level,
            watch: None,
        }
    }

    /// Returns the route of statements (R33). `fault` is set if they ran at a replica before and
    /// failed there.
    pub fn route(
        &self,
        question: RoutingQuestion<'_>,
        fault: Option<&BatchFault>,
        level: ConsistencyLevel,
    ) -> RoutedStatements {
        let mut replicas = self.replicas_at(level);
        let question = RoutingQuestion {
            has_failed: fault.is_some(),
            ..question
        };
        match decide(question, &mut replicas) {
            RoutingDecision::Fresh(target) => {
                let proof = question.touched.proof();
                let watched = replicas.watch.map(|watch| Box::new((watch, proof)));
                RoutedStatements::Fresh(self.of_target(target, watched, "it has all that is read"))
            }
            RoutingDecision::Snapshot => RoutedStatements::Snapshot,
            RoutingDecision::Primary(reason) => {
                RoutedStatements::Primary(RoutingReason::primary(reason))
            }
            RoutingDecision::FailedAtReplica => RoutedStatements::Primary(RoutingReason::failed(
                fault.expect("the question has it"),
            )),
            decided @ (RoutingDecision::Stays | RoutingDecision::BeginsAgain) => {
                unreachable!("its transaction has no snapshot at a replica: {decided:?}")
            }
        }
    }

    /// Returns the route of a read that waits, or of a transaction that takes its snapshot, see
    /// [`FreshnessManager::route_moment`].
    pub fn route_moment(&self, moment: &mut ReadMoment, proof: SnapshotProof) -> ReadRoute {
        let (target, watch) = self.manager().route_moment(moment);
        let watched = watch.map(|watch| Box::new((watch, proof)));
        let mut route = self.of_target(target, watched, "it has been waited for");
        if target == ReadTarget::Primary(PrimaryReason::Pending) {
            route.reason = RoutingReason::primary("it must see a commit under way");
        }
        route
    }

    fn of_target(
        &self,
        target: ReadTarget,
        watched: Option<Box<(ReadWatch, SnapshotProof)>>,
        summary: &'static str,
    ) -> ReadRoute {
        let reason = match target {
            ReadTarget::Replica { .. } if !self.lease.is_valid() => {
                RoutingReason::primary("another proxy might be the active one")
            }
            ReadTarget::Replica {
                id,
                need,
                applied,
                life,
            } => match self.replicas.node(id) {
                Some(node) => {
                    let reason = RoutingReason {
                        summary,
                        detail: ReasonDetail::Replica { id, need, applied },
                    };
                    let chosen = ChosenReplica {
                        id,
                        node,
                        need,
                        life,
                        watched,
                    };
                    return ReadRoute {
                        reason,
                        replica: Some(chosen),
                        may_wait: false,
                    };
                }
                None => RoutingReason::primary("the replica is gone"),
            },
            ReadTarget::Primary(PrimaryReason::Writes) => RoutingReason::primary("it writes"),
            ReadTarget::Primary(PrimaryReason::Pending) => {
                RoutingReason::primary("it touches a commit under way")
            }
            ReadTarget::Primary(PrimaryReason::NoneFresh { need }) => RoutingReason {
                summary: "no replica has all that is read yet",
                detail: ReasonDetail::NoneHas(need),
            },
            ReadTarget::Primary(PrimaryReason::Outdated) => {
                RoutingReason::primary("the schema has changed meanwhile")
            }
        };
        let may_wait = match target {
            ReadTarget::Primary(PrimaryReason::Pending | PrimaryReason::NoneFresh { .. }) => {
                self.lease.is_valid()
            }
            ReadTarget::Primary(PrimaryReason::Writes | PrimaryReason::Outdated)
            | ReadTarget::Replica { .. } => false,
        };
        ReadRoute {
            reason,
            replica: None,
            may_wait,
        }
    }

    /// Locks the manager. The lock is held only briefly, because none of the manager's functions
    /// waits.
    pub fn manager(&self) -> MutexGuard<'_, FreshnessManager> {
        locked(&self.manager)
    }

    /// Describes sets for people.
    pub fn described(&self, sets: &AccessSets) -> String {
        trace::described(sets, &self.analyser.catalogue())
    }

    /// Returns the analysis of a query string.
    pub fn touched(
        &self,
        text: &StatementText<'_>,
        reading: Option<&ParseContext>,
    ) -> CombinedAnalysis {
        let is_utf8 = reading.is_none_or(|reading| reading.is_utf8);
        let has_escapes = reading.is_some_and(|reading| reading.has_escapes);
        let is_read =
            |text: &&[u8]| (is_utf8 || text.is_ascii()) && !(has_escapes && text.contains(&b'\\'));
        let bytes = text.text().filter(is_read);
        let Some(Ok(words)) = bytes.map(str::from_utf8) else {
            return CombinedAnalysis::anything("it is not understood");
        };
        let search_path = reading.map_or(&[][..], |reading| &reading.search_path);
        let mut touched = CombinedAnalysis {
            generation: Some(self.analyser.generation()),
            ..CombinedAnalysis::default()
        };
        let (analysis, template) = match text {
            StatementText::Simple(..) => self.analyser.analyse_with_constants(words, search_path),
            _ => (self.analyser.analyse(words, search_path), None),
        };
        let parameters = match text {
            _ if !analysis.iter().any(AnalysedStatement::is_by_parameters) => Vec::new(),
            StatementText::Bound(prepared, bytes) => parameters_of(prepared, bytes, is_utf8),
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
            let is_transaction = matches!(
                statement.action,
                StatementAction::Transaction(_) | StatementAction::Session
            );
            if !is_known && !is_transaction {
                // It is no further statement.
                touched.merge(CombinedAnalysis {
                    count: 0,
                    ..CombinedAnalysis::anything("its session has settings of its own")
                });
            }
            statement.add_to(&mut touched, &parameters);
            is_known &= statement.action != StatementAction::Session;
        }
        touched.prepared_form = template.and_then(|template| prepared_form(&analysis, &template));
        touched
    }
}

/// Returns a text that reads a row by its key, as a prepared statement with these values. Each is
/// of the type that it has as a constant, so that the same operators are meant.
fn prepared_form(analysis: &TextAnalysis, template: &TextTemplate<'_>) -> Option<PreparedForm> {
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
        let prepared = PreparedStatement::by_proxy(&template.text, &vec![INT4; count], GRAMMAR);
        analysis.prepared.get_or_init(|| Arc::new(prepared));
        return None;
    };
    Some(PreparedForm {
        prepared: Arc::clone(prepared),
        parameters: message::bound_texts(&values),
    })
}

/// Returns the parameters of a Bind message; none where they are not understood.
fn parameters_of<'a>(
    prepared: &PreparedStatement,
    bytes: &'a [u8],
    is_utf8: bool,
) -> Vec<BoundParameter<'a>> {
    let types = prepared.parameter_types().chain(std::iter::repeat(0));
    let values = message::values(bytes).unwrap_or_default();
    let parameters = values.into_iter().zip(types);
    let parameters = parameters.map(|(value, type_oid)| {
        let is_read = is_utf8 || value.bytes.is_some_and(<[u8]>::is_ascii);
        BoundParameter {
            type_oid,
            binary: value.binary,
            value: value.bytes.filter(|_| is_read),
        }
    });
    parameters.collect()
}
