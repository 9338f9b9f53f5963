//! Promotes a replica: it becomes the primary after the loss of the primary.
//!
//! All replicas hold prefixes of one order (I14), so the most advanced replica has every commit of
//! the others. Sessions that execute there are ended and kept out first (`fence`), so that the
//! commits found then are all that it will ever have. It gets a *mark* that names the primary whose
//! place it takes. Its sequences go past the values in its tables, and it gets the objects of a
//! primary. Replicas with exactly the same commits follow it from the beginning of its slot, before
//! which no client has written. The others must be filled again.
//!
//! Invariants:
//! - A replica notes which primary it follows: [`line()`]. It follows no other one.
//! - A proxy that finds a mark with its primary's line at a replica is active no more, and does not
//!   become active.
//! - A promotion that was begun can be continued: the database with the mark is taken again, and so
//!   is a standby that was promoted and has no mark yet. It is not known whether a client has
//!   written there since, so no replica follows that one without being filled again. A server that
//!   has stopped being a standby for another reason looks the same: it is not chosen if another
//!   replica has more commits, and no other replica is promoted in addition to it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;

use super::lineage::{FOLLOWS, follows, line};
use super::query::{has_table, number, one};
use super::query::{rows, value};
use super::standby::{self, TimelineFork};
use super::{ReplicationError, connect, described, fence, leadership, quarantine, setup};
use pg_connect::address::Address;
use pg_wire::quoting::literal;
use proxy_core::freshness::Tsid;
use proxy_pool::connection;

/// The application name of the connections for a promotion.
const NAME: &str = "replex promotion";
/// The time after which a primary that does not answer counts as gone.
const GONE_AFTER: Duration = Duration::from_secs(5);
/// Time in which a standby must replay the WAL that it has received.
const REPLAY_MAX: Duration = Duration::from_secs(60);
/// Time between two checks of a standby's replay position.
const REPLAY_INTERVAL: Duration = Duration::from_millis(20);

/// The query for each sequence with the columns that take values from it.
const SEQUENCES: &str = "
SELECT s.oid::regclass, q.seqincrement < 0, u.adrelid::regclass, quote_ident(a.attname)
  FROM pg_class s JOIN pg_namespace n ON n.oid = s.relnamespace JOIN pg_sequence q ON q.seqrelid = s.oid
  LEFT JOIN (SELECT objid AS seq, refobjid AS adrelid, refobjsubid AS adnum FROM pg_depend
              WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
                AND deptype IN ('a', 'i') AND refobjsubid > 0
             UNION
             SELECT d.refobjid, e.adrelid, e.adnum FROM pg_depend d
               JOIN pg_attrdef e ON d.classid = 'pg_attrdef'::regclass AND e.oid = d.objid
              WHERE d.refclassid = 'pg_class'::regclass) u ON u.seq = s.oid
  LEFT JOIN pg_attribute a ON a.attrelid = u.adrelid AND a.attnum = u.adnum
        AND a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
 WHERE s.relkind = 'S' AND s.relpersistence <> 't' AND n.nspname NOT IN ('hihooi', 'information_schema')
   AND n.nspname !~ '^pg_'
 ORDER BY 1, 3, 4";

/// The outcome of a promotion.
pub struct PromotionOutcome {
    /// The new primary.
    pub primary: Address,
    /// The replicas that can follow the new primary.
    pub followers: Vec<Address>,
    /// The replicas that cannot follow it, with the reasons.
    pub left: Vec<(Address, String)>,
    /// Notes for operators.
    pub notes: Vec<String>,
}

/// Returns the line that a standby had followed until it took writes.
async fn line_before(client: &Client, parted: &TimelineFork) -> Result<String, ReplicationError> {
    let own = line(client).await?;
    let mut words: Vec<&str> = own.split('/').collect();
    words[1] = &parted.timeline;
    Ok(words.join("/"))
}

/// The position of a mark whose commits are not known: higher than any server's position.
const NOT_KNOWN: Tsid = Tsid(u64::MAX);

/// The mark of a database that was promoted.
#[derive(Clone, Copy, Debug)]
struct PromotionMark {
    /// The database's position in the old primary's WAL, and its last commit of the old primary;
    /// [`NOT_KNOWN`] if other clients may have written since.
    has: Tsid,
    last: Tsid,
    /// The position at which the database's own slot began; none if the position was not recorded.
    begins: Option<Tsid>,
}

/// A replica that answers.
struct ReachedReplica {
    address: Address,
    client: Client,
    is_standby: bool,
    /// The highest epoch that the replica knows.
    epoch: u64,
    mark: Option<PromotionMark>,
    /// The position at which the replica stopped being a standby, if it accepts writes and has no
    /// mark.
    parted: Option<TimelineFork>,
    /// The line of the primary that the replica follows, if it has recorded one.
    follows: Option<String>,
}

/// A database that may be promoted.
struct PromotionCandidate {
    reached: ReachedReplica,
    /// The position of the candidate, and its last commit, which may be less. No commit is between
    /// them.
    has: Tsid,
    last: Tsid,
}

/// Promotes the replica with the most commits, or `chosen` if it has as many. `report` gets each
/// step, for people.
pub async fn promote(
    primary: &Address,
    replicas: &[Address],
    chosen: Option<&Address>,
    mut report: impl FnMut(&str),
) -> Result<PromotionOutcome, ReplicationError> {
    refuse_alive(primary).await?;
    let mut followers = Vec::new();
    let mut left = Vec::new();
    let mut reached = Vec::new();
    for address in replicas {
        report(&format!("looking at {address}"));
        match ReachedReplica::new(address).await {
            Ok(there) => reached.push(there),
            Err(problem) => left.push((address.clone(), problem.to_string())),
        }
    }
    // Replicas that follow a database that was promoted before stay unchanged.
    if let Some(marked) = reached.iter().find(|there| there.mark.is_some()) {
        let new = Some(line(&marked.client).await?);
        let follows = |there: &mut ReachedReplica| there.follows == new;
        followers.extend(reached.extract_if(.., follows).map(|there| there.address));
    }
    refuse_primaries(&reached).await?;
    let epoch = reached.iter().map(|there| there.epoch).max();
    let epoch = epoch.unwrap_or(0) + 1;
    let mut candidates = Vec::new();
    for there in reached {
        let address = there.address.clone();
        match there.stop(epoch).await {
            Ok(candidate) => candidates.push(candidate),
            Err(problem) => left.push((address, problem.to_string())),
        }
    }
    let first = choose(&candidates, chosen, &left)?;
    let first = candidates.swap_remove(first);
    report(&format!("promoting {}", first.reached.address));
    let mut notes = Vec::new();
    let begins = first.promote(epoch, &mut notes, &mut report).await?;
    let new = line(&first.reached.client).await?;
    for other in candidates {
        let address = other.reached.address.clone();
        let why = match begins {
            _ if other.reached.is_standby => {
                "it streams from the old primary: have it stream from the new one"
            }
            Some(begins) if first.is_equal(&other) => {
                report(&format!("leading over {address}"));
                other.follow(&new, begins).await?;
                followers.push(address);
                continue;
            }
            _ => "it does not have exactly the commits of the new primary: add it with EMPTY",
        };
        left.push((address, why.into()));
    }
    Ok(PromotionOutcome {
        primary: first.reached.address,
        followers,
        left,
        notes,
    })
}

/// Fails while a server answers at the primary's address, with any answer.
async fn refuse_alive(primary: &Address) -> Result<(), ReplicationError> {
    match timeout(GONE_AFTER, connection::connect(primary)).await {
        Ok(Ok(_)) => Err(ReplicationError::Setup(format!(
            "the primary at {primary} is there. If another one is to take its place, stop it first, and see that \
             nothing starts it again: there must not be two"
        ))),
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// Returns an error if a server that accepts writes may not be the server that an earlier run has
/// promoted. Otherwise, no proxy becomes active in front of this server while the promotion is
/// connected to it.
async fn refuse_primaries(reached: &[ReachedReplica]) -> Result<(), ReplicationError> {
    let mut all_parted = reached.iter().filter(|there| there.parted.is_some());
    let Some((first, Some(parted))) = all_parted.next().map(|there| (there, &there.parted)) else {
        return Ok(());
    };
    let address = &first.address;
    let marked = reached.iter().find(|there| there.mark.is_some());
    if let Some(second) = marked.or(all_parted.next()) {
        let second = &second.address;
        return Err(ReplicationError::Setup(format!(
            "{address} and {second} were standbys or replicas, and both take writes: there must not be two \
             primaries. See which of them was written to, and leave out the other one"
        )));
    }
    let before = line_before(&first.client, parted).await?;
    let is_other = |there: &&ReachedReplica| there.follows.as_ref().is_some_and(|it| *it != before);
    if let Some(other) = reached.iter().find(is_other) {
        let other = &other.address;
        return Err(ReplicationError::Setup(format!(
            "{address} takes writes, and was no standby of the primary that {other} follows: leave one of them out"
        )));
    }
    let is_kept = leadership::keep_out(&first.client).await?;
    if !is_kept || setup::confirmed(&first.client).await? != setup::NO_SLOT {
        return Err(ReplicationError::Setup(format!(
            "{address} is a primary: it takes writes, and a proxy is in front of it, or was. Start proxies with it \
             as --primary, or leave it out"
        )));
    }
    Ok(())
}

/// Returns the index of the candidate to promote.
fn choose(
    candidates: &[PromotionCandidate],
    chosen: Option<&Address>,
    left: &[(Address, String)],
) -> Result<usize, ReplicationError> {
    let takes_writes =
        |it: &PromotionCandidate| it.reached.mark.is_some() || it.reached.parted.is_some();
    let marked = candidates.iter().position(takes_writes);
    let most = (0..candidates.len()).max_by_key(|number| {
        let candidate = &candidates[*number];
        (candidate.last, candidate.reached.is_standby)
    });
    if let (Some(marked), Some(most)) = (marked, most)
        && candidates[marked].reached.parted.is_some()
        && candidates[marked].has < candidates[most].last
    {
        let [marked, most] = [marked, most].map(|it| &candidates[it].reached.address);
        return Err(ReplicationError::Setup(format!(
            "{marked} takes writes already, and has less than {most}. Leave out the server that must not be the \
             primary, and make sure that it takes no more writes: its further commits are lost"
        )));
    }
    let Some(most) = marked.or(most) else {
        let why = left
            .iter()
            .map(|(address, why)| format!("\n  {address}: {why}"));
        let why: String = why.collect();
        return Err(ReplicationError::Setup(format!(
            "no replica can be promoted{why}"
        )));
    };
    let Some(chosen) = chosen else {
        return Ok(most);
    };
    let wanted = candidates
        .iter()
        .position(|it| is_same(&it.reached.address, chosen));
    let (most_address, last) = (&candidates[most].reached.address, candidates[most].last);
    match wanted {
        Some(wanted) if marked.is_some_and(|marked| marked != wanted) => {
            Err(ReplicationError::Setup(format!(
                "{most_address} was promoted before: {chosen} cannot be"
            )))
        }
        Some(wanted) if wanted == most || candidates[wanted].has >= last => Ok(wanted),
        Some(_) => Err(ReplicationError::Setup(format!(
            "{chosen} has less than {most_address}. Promote that server; or leave it out, if its further commits may be lost"
        ))),
        None => Err(ReplicationError::Setup(format!(
            "{chosen} cannot be promoted: {}",
            left.iter()
                .find(|(address, _)| is_same(address, chosen))
                .map_or("it is not among the replicas", |(_, why)| why)
        ))),
    }
}

/// Returns whether two addresses are written in the same way.
fn is_same(one: &Address, other: &Address) -> bool {
    format!("{one:?}") == format!("{other:?}")
}

impl ReachedReplica {
    async fn new(address: &Address) -> Result<ReachedReplica, ReplicationError> {
        let client = connect(address, NAME).await?;
        // Names of tables are qualified, whatever the settings of the reader.
        client.batch_execute("SET search_path = ''").await?;
        let is_standby = standby::is_one(&client).await?;
        let mut epoch = 0;
        for table in ["epoch", "leader"] {
            if has_table(&client, table).await? {
                let raised = format!("SELECT coalesce(max(epoch), 0) FROM hihooi.{table}");
                epoch = epoch.max(number(&one(&client, &raised).await?)?);
            }
        }
        let follows = follows(&client).await?;
        let (mut mark, mut parted) = (None, None);
        if !is_standby && !has_table(&client, "applied").await? {
            if has_table(&client, "promoted").await? {
                mark = PromotionMark::read(&client).await?;
            }
            if mark.is_none() && has_table(&client, "leader").await? {
                parted = standby::timeline_fork(&client).await?;
            }
        }
        Ok(ReachedReplica {
            address: address.clone(),
            client,
            is_standby,
            epoch,
            mark,
            parted,
            follows,
        })
    }

    /// Ensures that the replica receives no more commits, and returns it with its position. Fails
    /// if the replica cannot be promoted.
    async fn stop(self, epoch: u64) -> Result<PromotionCandidate, ReplicationError> {
        let client = &self.client;
        let (has, last) = if let Some(mark) = self.mark {
            (mark.has, mark.last)
        } else if let Some(parted) = &self.parted {
            (parted.at, parted.at)
        } else if self.is_standby {
            let has = replayed(client).await?;
            (has, has)
        } else {
            if let Some(why) = quarantine::noted(client).await? {
                return Err(ReplicationError::Setup(format!(
                    "it was found to differ: {why}"
                )));
            }
            if setup::applied(client).await?.is_none() {
                return Err(ReplicationError::Setup("it was never filled".into()));
            }
            fence::raise(client, epoch).await?;
            let start = setup::applied(client).await?;
            let start =
                start.ok_or_else(|| ReplicationError::Setup("it is being emptied".into()))?;
            if start.seed.is_some_and(|seed| start.applied < seed.until) {
                return Err(ReplicationError::Setup(
                    "it was not filled to the end".into(),
                ));
            }
            let last = "SELECT coalesce(max(tsid), 0) FROM hihooi.applied WHERE worker >= 0";
            (start.applied, Tsid(number(&one(client, last).await?)?))
        };
        Ok(PromotionCandidate {
            reached: self,
            has,
            last,
        })
    }
}

impl PromotionCandidate {
    /// Returns whether this candidate and another one have the same commits.
    fn is_equal(&self, other: &PromotionCandidate) -> bool {
        self.last <= other.has && other.last <= self.has
    }

    /// Makes the candidate the primary. Returns the position at which its slot begins; none if
    /// clients may have written before that position.
    async fn promote(
        &self,
        epoch: u64,
        notes: &mut Vec<String>,
        report: &mut impl FnMut(&str),
    ) -> Result<Option<Tsid>, ReplicationError> {
        let client = &self.reached.client;
        setup::check(client).await?;
        let mark = match self.reached.mark {
            Some(mark) => mark,
            None => self.mark().await?,
        };
        if let Some(begins) = mark.begins {
            // It may be in use since.
            let is_untouched = setup::confirmed(client).await? == begins;
            return Ok(is_untouched.then_some(begins));
        }
        report("setting sequences");
        set_sequences(client, notes).await?;
        if !self.reached.is_standby && self.reached.parted.is_none() {
            refresh(client, notes, report).await?;
        }
        leadership::begin_after(&self.reached.address, epoch).await?;
        let had_slot = setup::confirmed(client).await? != setup::NO_SLOT;
        setup::prepare(client).await?;
        if had_slot || self.reached.parted.is_some() {
            return Ok(None);
        }
        let begins = setup::confirmed(client).await?;
        let begun = begins.0;
        let note = format!("UPDATE hihooi.promoted SET begins = {begun} WHERE begins IS NULL");
        client.batch_execute(&note).await?;
        Ok(Some(begins))
    }

    /// Makes the candidate accept writes, and stores its mark. Also clears the register of a
    /// standby, which is the old primary's and may include the standby itself: a new proxy receives
    /// the list of the replicas that can follow. From here on, no proxy that finds this database
    /// among its replicas accepts the old primary as primary.
    async fn mark(&self) -> Result<PromotionMark, ReplicationError> {
        let client = &self.reached.client;
        let (has, mut last) = (self.has, self.last);
        if self.reached.is_standby && one(client, "SELECT pg_promote(true, 60)").await? != "t" {
            let text =
                "the standby was promoted, and takes no writes yet: see its log, and try again";
            return Err(ReplicationError::Connection(text.into()));
        }
        let before = if self.reached.is_standby {
            let unreadable = || {
                ReplicationError::Setup(
                    "PostgreSQL does not report which primary it has followed".into(),
                )
            };
            let parted = standby::timeline_fork(client)
                .await?
                .ok_or_else(unreadable)?;
            line_before(client, &parted).await?
        } else if let Some(parted) = &self.reached.parted {
            last = NOT_KNOWN;
            line_before(client, parted).await?
        } else {
            self.reached.follows.clone().unwrap_or_default()
        };
        let (before, own) = (literal(&before), literal(&line(client).await?));
        let (had, ended) = (has.0, last.0);
        let note = format!(
            "BEGIN; SET LOCAL synchronous_commit = on;
             CREATE SCHEMA IF NOT EXISTS hihooi;
             CREATE TABLE IF NOT EXISTS hihooi.promoted (line text PRIMARY KEY, has numeric NOT NULL,
               last numeric NOT NULL, begins numeric, time timestamptz NOT NULL DEFAULT now());
             ALTER TABLE hihooi.promoted ADD COLUMN IF NOT EXISTS own text;
             INSERT INTO hihooi.promoted (line, has, last, own) VALUES ({before}, {had}, {ended}, {own});
             DROP TABLE IF EXISTS hihooi.applied, hihooi.seed, hihooi.follows, hihooi.replica; COMMIT"
        );
        client.batch_execute(&note).await?;
        Ok(PromotionMark {
            has,
            last,
            begins: None,
        })
    }

    /// Makes this replica follow the new primary of this line from position `begins` on.
    async fn follow(&self, line: &str, begins: Tsid) -> Result<(), ReplicationError> {
        let (line, begins) = (literal(line), begins.0);
        let lead = format!(
            "BEGIN; SET LOCAL synchronous_commit = on; {FOLLOWS};
             INSERT INTO hihooi.follows (line) VALUES ({line})
               ON CONFLICT (one) DO UPDATE SET line = excluded.line;
             UPDATE hihooi.applied SET tsid = {begins};
             DELETE FROM hihooi.seed; COMMIT"
        );
        Ok(self.reached.client.batch_execute(&lead).await?)
    }
}

impl PromotionMark {
    /// Returns the last mark of this database; none if it has none. A promoted standby also has the
    /// marks of its primary, which do not count.
    async fn read(client: &Client) -> Result<Option<PromotionMark>, ReplicationError> {
        let own = literal(&line(client).await?);
        let sql = format!(
            "SELECT has, last, coalesce(begins::text, '') FROM hihooi.promoted p
              WHERE coalesce(to_jsonb(p)->>'own', {own}) = {own} ORDER BY time DESC LIMIT 1"
        );
        let marks = rows(client, &sql).await?;
        let Some(row) = marks.first() else {
            return Ok(None);
        };
        let begins = value(row, 2)?;
        Ok(Some(PromotionMark {
            has: Tsid(number(&value(row, 0)?)?),
            last: Tsid(number(&value(row, 1)?)?),
            begins: match begins.is_empty() {
                true => None,
                false => Some(Tsid(number(&begins)?)),
            },
        }))
    }
}

/// Returns the replay position of a standby, once the standby has replayed all WAL that it has
/// received.
async fn replayed(standby: &Client) -> Result<Tsid, ReplicationError> {
    let began = Instant::now();
    let state = "SELECT CASE WHEN pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn() THEN ''
                 ELSE (pg_last_wal_replay_lsn() - '0/0')::text END";
    loop {
        let replayed = one(standby, state).await?;
        if !replayed.is_empty() {
            return Ok(Tsid(number(&replayed)?));
        }
        if began.elapsed() > REPLAY_MAX {
            let text = "it does not replay the WAL that it has received: is its replay paused?";
            return Err(ReplicationError::Connection(text.into()));
        }
        sleep(REPLAY_INTERVAL).await;
    }
}

/// Sets each sequence past the values in the columns that take values from it. Adds a note for each
/// sequence without such a column.
async fn set_sequences(client: &Client, notes: &mut Vec<String>) -> Result<(), ReplicationError> {
    // Each with whether it descends.
    let mut sequences: BTreeMap<(String, bool), Vec<String>> = BTreeMap::new();
    for row in rows(client, SEQUENCES).await? {
        let (sequence, descends) = (value(&row, 0)?, value(&row, 1)? == "t");
        let column = match (row.get(2), row.get(3)) {
            (Some(table), Some(column)) => Some(format!("SELECT {column}::int8 AS n FROM {table}")),
            _ => None,
        };
        let columns = sequences.entry((sequence, descends)).or_default();
        columns.extend(column);
    }
    for ((sequence, descends), columns) in sequences {
        if columns.is_empty() {
            notes.push(format!(
                "the sequence {sequence} is for no column of whole numbers: set it by hand, it may be behind"
            ));
            continue;
        }
        let (most, goes_on) = match descends {
            true => ("min", "<="),
            false => ("max", ">="),
        };
        let name = literal(&sequence);
        let set = format!(
            "SELECT setval({name}::regclass, used.n) FROM {sequence} s,
               (SELECT {most}(n) AS n FROM ({}) all_used) used, pg_sequence q
              WHERE q.seqrelid = {name}::regclass AND used.n {goes_on} s.last_value
                AND used.n BETWEEN q.seqmin AND q.seqmax",
            columns.join(" UNION ALL ")
        );
        client.simple_query(&set).await?;
    }
    Ok(())
}

/// Refreshes the materialised views, whose rows are not replicated as changes. Views that other
/// views read come first.
async fn refresh(
    client: &Client,
    notes: &mut Vec<String>,
    report: &mut impl FnMut(&str),
) -> Result<(), ReplicationError> {
    let views = "SELECT c.oid::regclass FROM pg_class c WHERE c.relkind = 'm' AND c.relispopulated
                  ORDER BY c.oid";
    for row in rows(client, views).await? {
        let view = value(&row, 0)?;
        report(&format!("filling the materialised view {view}"));
        let filled = client
            .simple_query(&format!("REFRESH MATERIALIZED VIEW {view}"))
            .await;
        if let Err(problem) = filled {
            let why = described(&problem);
            notes.push(format!(
                "the materialised view {view} could not be filled: {why}"
            ));
        }
    }
    Ok(())
}
