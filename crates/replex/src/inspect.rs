//! Reads whole copies of a table, each only from the cores that hold it.
//!
//! A client routes a read to the copy that answers it best. To show that all copies are equal, this
//! module reads each copy separately, partition by partition. It is not optimised for speed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::{Duration, Instant, SystemTime};

use placement::Layout;
use protocol::codec::{Bytes, Reader};
use protocol::configuration::{Configuration, PartitionState, PlacedTable, ServerState};
use protocol::identity::{Epoch, PartitionId, ReaderId, TableId, Version};
use protocol::message::{
    ChecksumRead, CoordinatorReply, CoordinatorRequest, OpenedSnapshot, Read, Refusal, Reply,
    Request, RowPage, SnapshotFailure, SnapshotReply, SnapshotRequest,
};

use tokio::time::timeout;

use crate::wire::FrameConnection;

/// Rows that one question covers.
const ROWS_PER_PART: u32 = 8_192;
/// Before a core that does not serve just now is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Attempts to read a table at a snapshot, and to read it at all: a snapshot can end before all is
/// read, and the copies can change.
const SNAPSHOTS_TRIED: u32 = 3;
const ATTEMPTS_MAX: u32 = 8;
/// A core that takes longer for one answer is asked again, if it still is the one to be asked.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// The reason why a copy cannot be read.
#[derive(Debug)]
pub enum InspectError {
    /// The table does not exist. Contains the names of the existing tables.
    NoTable(Vec<String>),
    /// No coordinator answers. The caller may retry.
    NoCoordinator(String),
    /// A core did not answer in time, or refused the request. The caller may retry when the core
    /// serves.
    Core(String),
    /// The partition's server is down, or the partition is being rebuilt. Only an inspector that
    /// skips such partitions returns this.
    Absent(PartitionId),
    /// The snapshot of the read has ended. It is returned only within an attempt.
    SnapshotEnded(SnapshotFailure),
    /// The copies of the table changed during each attempt to read them. The caller may retry.
    CopiesChanged,
}

impl InspectError {
    /// Returns whether another attempt may end well.
    fn is_of_attempt(&self) -> bool {
        matches!(
            self,
            InspectError::SnapshotEnded(_) | InspectError::CopiesChanged
        )
    }
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InspectError::NoTable(names) if names.is_empty() => {
                f.write_str("there is no such table; there are none yet")
            }
            InspectError::NoTable(names) => {
                write!(f, "there is no such table; there are: {}", names.join(", "))
            }
            InspectError::NoCoordinator(text) => write!(f, "no coordinator answers:{text}"),
            InspectError::Core(text) => f.write_str(text),
            InspectError::SnapshotEnded(failure) => failure.fmt(f),
            InspectError::CopiesChanged => f.write_str(
                "its copies changed while they were read: try again once no index of it is made \
                 or dropped",
            ),
            InspectError::Absent(partition) => {
                write!(
                    f,
                    "{partition} is on a server that is down, or is being filled"
                )
            }
        }
    }
}

impl std::error::Error for InspectError {}

/// One copy's rows, summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySum {
    /// The replex's name.
    pub name: String,
    /// The number of partitions of the copy.
    pub partitions: u32,
    /// The servers that hold these partitions, by ascending number.
    pub servers: Vec<u32>,
    /// The number of rows.
    pub rows: u64,
    /// The checksum of the copy, which is equal for equal sets of (pk, version, row).
    pub sum: u64,
    /// The partitions that were not read, each with the server that should hold it.
    pub absent: BTreeMap<u32, u32>,
}

/// Returns whether all copies hold the same rows, and none of their partitions was left out.
pub fn are_equal(copies: &[CopySum]) -> bool {
    copies.iter().all(|copy| copy.absent.is_empty())
        && copies
            .windows(2)
            .all(|pair| (pair[0].rows, pair[0].sum) == (pair[1].rows, pair[1].sum))
}

/// Rows of a copy in the order of their bytes: `placement::row` and the version.
pub type CopyRows = BTreeMap<Vec<u8>, Version>;

/// Reads copies by requests to single cores.
pub struct Inspector {
    coordinators: Vec<String>,
    /// No core is waited for beyond this.
    deadline: Instant,
    configuration: Configuration,
    connections: HashMap<String, FrameConnection>,
    /// The pause after each answer, as a multiple of the time that the answer took.
    rests: u32,
    /// Partitions that cannot be read now are left out instead of being waited for.
    leaves_out: bool,
    /// Names it to the cores that open snapshots for it.
    reader: ReaderId,
    /// The table that is read, as it was when the attempt began.
    reading: Option<(TableId, Layout)>,
    /// Where the snapshot that is summed was opened, the snapshot, and when it was renewed.
    snapshot: Option<(PartitionId, OpenedSnapshot, Instant)>,
}

impl Inspector {
    /// Fetches the configuration; everything together must be done `within`.
    ///
    /// # Errors
    /// No coordinator answers.
    pub async fn new(coordinators: &[String], within: Duration) -> Result<Self, InspectError> {
        let mut inspector = Inspector {
            coordinators: coordinators.to_vec(),
            deadline: Instant::now() + within,
            configuration: Configuration::default(),
            connections: HashMap::new(),
            rests: 0,
            leaves_out: false,
            reader: ReaderId(RandomState::new().hash_one(SystemTime::now())),
            reading: None,
            snapshot: None,
        };
        inspector.fetch().await?;
        Ok(inspector)
    }

    /// Pauses after each answer of a core, so that requests take about one part in `parts` of the
    /// time.
    pub fn paced(mut self, parts: u32) -> Self {
        self.rests = parts.saturating_sub(1);
        self
    }

    /// Skips partitions on servers that are down, and partitions that are being rebuilt, in all
    /// later reads.
    pub fn leaving_out(mut self) -> Self {
        self.leaves_out = true;
        self
    }

    /// Fails for a partition that is left out. A snapshot is of all partitions, so that it has
    /// ended then.
    fn check_present(&self, partition: PartitionId) -> Result<(), InspectError> {
        let place = self.configuration.place(partition);
        let is_present = place.is_some_and(|place| {
            let server = self.configuration.server(place.core.server);
            place.state == PartitionState::Serving
                && server.is_some_and(|server| server.state == ServerState::Up)
        });
        if is_present || !self.leaves_out {
            return Ok(());
        }
        match place.filter(|_| self.snapshot.is_some()) {
            Some(place) => {
                let missing = SnapshotFailure::ServerMissing(place.core.server);
                Err(InspectError::SnapshotEnded(missing))
            }
            None => Err(InspectError::Absent(partition)),
        }
    }

    /// Returns the configuration that this inspector uses.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Counts and sums every copy of a table: of one snapshot if that is possible, so that equal
    /// copies have equal sums whatever is written meanwhile.
    ///
    /// # Errors
    /// There is no such table, or a core does not answer in time.
    pub async fn sums(&mut self, table: &str) -> Result<Vec<CopySum>, InspectError> {
        self.in_attempts(table, async |inspector| inspector.copy_sums(table).await)
            .await
    }

    /// Reads a table at a snapshot if one is possible, again if the snapshot or the copies of the
    /// table turn out to be others meanwhile.
    pub(crate) async fn in_attempts<T>(
        &mut self,
        table: &str,
        mut read: impl AsyncFnMut(&mut Inspector) -> Result<T, InspectError>,
    ) -> Result<T, InspectError> {
        let mut attempt = 0;
        loop {
            self.begin_attempt(table, attempt).await?;
            let found = read(self).await;
            match self.end_attempt(found, attempt).await {
                None => attempt += 1,
                Some(found) => return found,
            }
        }
    }

    /// Opens a snapshot of a table if one is possible, and notes what its copies are.
    async fn begin_attempt(&mut self, table: &str, attempt: u32) -> Result<(), InspectError> {
        if attempt < SNAPSHOTS_TRIED {
            self.open_snapshot(table).await?;
        }
        let table = self.table(table)?;
        self.reading = Some((table.id, table.layout));
        Ok(())
    }

    /// Ends the snapshot. Returns the result, or nothing if another attempt is to be made.
    async fn end_attempt<T>(
        &mut self,
        result: Result<T, InspectError>,
        attempt: u32,
    ) -> Option<Result<T, InspectError>> {
        self.reading = None;
        self.close_snapshot().await;
        let is_last = attempt + 1 >= ATTEMPTS_MAX;
        let goes_on = |error: &InspectError| error.is_of_attempt() && !is_last;
        match &result {
            Err(error) if goes_on(error) => None,
            _ => Some(result),
        }
    }

    pub(crate) async fn copy_sums(&mut self, table: &str) -> Result<Vec<CopySum>, InspectError> {
        let mut copies = Vec::new();
        let readable: Vec<usize> = self.table(table)?.readable().collect();
        for replex in readable {
            copies.push(self.sum(table, replex, None).await?);
        }
        Ok(copies)
    }

    /// Opens a snapshot of a table for all that is read from now on; false if none is possible.
    /// Servers keep earlier rows for a snapshot, so an inspector that takes its time reads the
    /// present rows.
    async fn open_snapshot(&mut self, table: &str) -> Result<bool, InspectError> {
        if self.rests > 0 {
            return Ok(false);
        }
        let table = self.table(table)?;
        let (id, opener) = (table.id, table.primary_partition(0));
        let reader = self.reader;
        let open = |epoch| {
            let tables = vec![(id, epoch)];
            Request::Snapshot(SnapshotRequest::Open { reader, tables })
        };
        match self.ask(opener, open).await {
            Ok(Reply::Snapshot(SnapshotReply::Opened(opened))) => {
                let renewed = Instant::now();
                self.snapshot = Some((opener, opened, renewed));
                Ok(true)
            }
            Ok(_) => Err(InspectError::Core(format!("{opener} answered otherwise"))),
            Err(InspectError::SnapshotEnded(_) | InspectError::Absent(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renews the snapshot's lease if a part of it is over.
    async fn keep_snapshot(&mut self) -> Result<(), InspectError> {
        let Some((opener, opened, renewed)) = self.snapshot else {
            return Ok(());
        };
        if renewed.elapsed() < Duration::from_micros(opened.lease_us / 4) {
            return Ok(());
        }
        self.snapshot = Some((opener, opened, Instant::now()));
        let keep = |_| Request::Snapshot(SnapshotRequest::Keep(opened.share));
        self.ask(opener, keep).await.map(|_| ())
    }

    /// Returns whether a snapshot is read.
    pub(crate) fn reads_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Ends the snapshot, if one is open. If that fails, its lease ends it.
    async fn close_snapshot(&mut self) {
        if let Some((opener, opened, _)) = self.snapshot.take() {
            let close = |_| Request::Snapshot(SnapshotRequest::Close(opened.share));
            let _ = self.ask(opener, close).await;
        }
    }

    /// Counts and sums the rows of a replex, or the entries of a thin index: those that this index
    /// has, or those that the rows of a copy should have there.
    pub(crate) async fn sum(
        &mut self,
        table: &str,
        replex: usize,
        entries_of: Option<u8>,
    ) -> Result<CopySum, InspectError> {
        let name = self.table(table)?.layout.replexes[replex].name.clone();
        let partitions = self.partitions(table, replex)?;
        let (mut rows, mut sum) = (0, 0_u64);
        let mut absent = BTreeMap::new();
        for partition in &partitions {
            match self.sum_partition(*partition, entries_of).await {
                Ok(part) => {
                    rows += part.0;
                    sum = sum.wrapping_add(part.1);
                }
                Err(InspectError::Absent(_)) => {
                    let place = self.configuration.place(*partition);
                    let server = place.map_or(0, |place| place.core.server.0);
                    absent.insert(partition.number, server);
                }
                Err(error) => return Err(error),
            }
        }
        let mut servers: Vec<u32> = partitions
            .iter()
            .filter_map(|partition| self.configuration.place(*partition))
            .map(|place| place.core.server.0)
            .collect();
        servers.sort_unstable();
        servers.dedup();
        Ok(CopySum {
            name,
            partitions: u32::try_from(partitions.len()).expect("a layout bounds its partitions"),
            servers,
            rows,
            sum,
            absent,
        })
    }

    /// Returns rows of a partition, counted and summed.
    async fn sum_partition(
        &mut self,
        partition: PartitionId,
        entries_of: Option<u8>,
    ) -> Result<(u64, u64), InspectError> {
        let (mut rows, mut sum) = (0, 0_u64);
        let mut start = Bytes::default();
        let snapshot = self.snapshot.map(|(_, opened, _)| opened.share.snapshot);
        loop {
            self.keep_snapshot().await?;
            let request = |epoch| {
                Request::Checksum(ChecksumRead {
                    epoch,
                    partition,
                    start: start.clone(),
                    limit: ROWS_PER_PART,
                    snapshot,
                    entries_of,
                })
            };
            let Reply::Checksum(part) = self.ask(partition, request).await? else {
                return Err(InspectError::Core(format!(
                    "{partition} answered otherwise"
                )));
            };
            rows += part.count;
            sum = sum.wrapping_add(part.sum);
            match part.next {
                Some(next) => start = next,
                None => return Ok((rows, sum)),
            }
        }
    }

    /// Returns all rows of one copy.
    ///
    /// # Errors
    /// As [`Inspector::sums`].
    pub async fn rows(&mut self, table: &str, replex: usize) -> Result<CopyRows, InspectError> {
        let mut rows = CopyRows::new();
        for partition in self.partitions(table, replex)? {
            let mut read = read(partition, &Bytes::default());
            read.limit = ROWS_PER_PART;
            loop {
                let page = self.page(&read).await?;
                let damaged = |error| InspectError::Core(format!("{partition}: {error}"));
                unpack(&page.rows.0, &mut rows).map_err(damaged)?;
                match page.next {
                    Some(next) => read.start = next,
                    None => break,
                }
            }
        }
        Ok(rows)
    }

    /// Returns a page of rows, in any epoch, of the snapshot that is open if one is.
    pub(crate) async fn page(&mut self, read: &Read) -> Result<RowPage, InspectError> {
        self.keep_snapshot().await?;
        let snapshot = self.snapshot.map(|(_, opened, _)| opened.share.snapshot);
        let request = |epoch| {
            let mut read = read.clone();
            (read.epoch, read.snapshot) = (epoch, snapshot);
            Request::Read(read)
        };
        match self.ask(read.partition, request).await? {
            Reply::Rows(page) => Ok(page),
            _ => Err(InspectError::Core(format!(
                "{} answered otherwise",
                read.partition
            ))),
        }
    }

    /// Asks the core that holds a partition until it answers or time is up.
    async fn ask(
        &mut self,
        partition: PartitionId,
        request: impl Fn(Epoch) -> Request,
    ) -> Result<Reply, InspectError> {
        loop {
            self.check_present(partition)?;
            let table = self.configuration.table(partition.table);
            let epoch = table.map_or(Epoch(0), |table| table.epoch);
            let asked = Instant::now();
            // A server that stands still answers nothing, and breaks no connection.
            let answer = timeout(ANSWERS_WITHIN, self.ask_once(partition, request(epoch))).await;
            let late = |_| Err(io::Error::other("no answer"));
            let answer = answer.unwrap_or_else(late);
            if self.rests > 0 {
                tokio::time::sleep(asked.elapsed() * self.rests).await;
            }
            let why = match answer {
                Ok(Reply::Refused(Refusal::Invalid { message })) => {
                    return Err(InspectError::Core(format!("{partition}: {message}")));
                }
                Ok(Reply::Refused(Refusal::Snapshot(failure))) => {
                    return Err(InspectError::SnapshotEnded(failure));
                }
                Ok(Reply::Refused(refusal)) => format!("{refusal:?}"),
                Ok(reply) => return Ok(reply),
                Err(error) => error.to_string(),
            };
            if Instant::now() > self.deadline {
                let place = self.configuration.place(partition);
                let core = place.map_or_else(|| "no core".to_owned(), |it| it.core.to_string());
                return Err(InspectError::Core(format!(
                    "{core}, which holds {partition}, does not answer in time ({why}): see \
                     `replex admin status`"
                )));
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
            self.fetch().await?;
        }
    }

    async fn ask_once(&mut self, partition: PartitionId, request: Request) -> io::Result<Reply> {
        let place = self.configuration.place(partition);
        let address = place.and_then(|place| self.configuration.address(place.core));
        let address = address
            .ok_or_else(|| io::Error::other("no server holds it"))?
            .to_owned();
        let mut connection = match self.connections.remove(&address) {
            Some(connection) => connection,
            None => FrameConnection::greet(&address).await?.0,
        };
        let reply = connection.request(request).await?;
        self.connections.insert(address, connection);
        Ok(reply)
    }

    /// Returns the table of this name, as it is now.
    pub(crate) fn table(&self, name: &str) -> Result<PlacedTable, InspectError> {
        let tables = &self.configuration.tables;
        let table = self.configuration.table_named(name).cloned();
        let names = tables.iter().map(|table| table.schema.name.clone());
        table.ok_or_else(|| InspectError::NoTable(names.collect()))
    }

    /// Asks the coordinator that leads.
    pub(crate) async fn coordinate(
        &mut self,
        request: CoordinatorRequest,
    ) -> Result<CoordinatorReply, InspectError> {
        let failed = |error: io::Error| InspectError::NoCoordinator(format!(" {error}"));
        let (address, _) = fetch_any(&self.coordinators).await.map_err(failed)?;
        let (mut connection, _) = FrameConnection::greet(&address).await.map_err(failed)?;
        connection.ask(request).await.map_err(failed)
    }

    /// Looks at the configuration again, after a pause.
    pub(crate) async fn refresh(&mut self) -> Result<(), InspectError> {
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
        self.fetch().await
    }

    /// Returns whether the time limit for the whole inspection has passed.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() > self.deadline
    }

    async fn fetch(&mut self) -> Result<(), InspectError> {
        let fetched = fetch_any(&self.coordinators).await;
        let failed = |error: io::Error| InspectError::NoCoordinator(error.to_string());
        (_, self.configuration) = fetched.map_err(failed)?;
        let Some((table, layout)) = &self.reading else {
            return Ok(());
        };
        let table = self.configuration.table(*table);
        match table.is_some_and(|table| table.layout == *layout) {
            true => Ok(()),
            false => Err(InspectError::CopiesChanged),
        }
    }

    fn partitions(&self, table: &str, replex: usize) -> Result<Vec<PartitionId>, InspectError> {
        let table = self.table(table)?;
        let numbers = 0..table.layout.partition_count(replex);
        Ok(numbers
            .map(|number| table.partition(replex, number))
            .collect())
    }
}

/// Returns all rows of a partition from a key on.
pub(crate) fn read(partition: PartitionId, start: &Bytes) -> Read {
    Read {
        start: start.clone(),
        limit: u32::MAX,
        ..Read::of(Default::default(), partition)
    }
}

/// Fetches the configuration from the coordinator at this address.
///
/// # Errors
/// The coordinator does not answer, the process at this address is not a coordinator, or its answer
/// contradicts itself.
pub async fn fetch(address: &str) -> io::Result<Configuration> {
    let (mut connection, welcome) = FrameConnection::greet(address).await?;
    if let Some((core, _)) = welcome.core {
        let text = format!("this is {core}, not a coordinator");
        return Err(io::Error::other(text));
    }
    let known = Epoch(0);
    match connection.ask(CoordinatorRequest::Fetch { known }).await? {
        CoordinatorReply::Configuration(configuration) => {
            // From here on everything may rely on it.
            configuration.check().map_err(io::Error::other)?;
            Ok(configuration)
        }
        other => Err(io::Error::other(format!("not a configuration: {other:?}"))),
    }
}

/// Returns the configuration of the first of these coordinators that leads, and its address.
///
/// # Errors
/// None of them answers as a leader; a line for each has the reason.
pub async fn fetch_any(addresses: &[String]) -> io::Result<(String, Configuration)> {
    let mut failures = String::new();
    for address in addresses {
        match fetch(address).await {
            Ok(configuration) => return Ok((address.clone(), configuration)),
            Err(error) => failures += &format!("\n  {address}: {error}"),
        }
    }
    Err(io::Error::other(failures))
}

/// Returns a core's counters by name.
///
/// # Errors
/// The core does not answer.
pub async fn counters(address: &str) -> io::Result<Vec<(String, u64)>> {
    let (mut connection, _) = FrameConnection::greet(address).await?;
    match connection.request(Request::Status).await? {
        Reply::Status(counters) => Ok(counters),
        other => Err(io::Error::other(format!("not a status: {other:?}"))),
    }
}

/// Adds the rows of a page to `rows`, which are encoded as in `RowPage`.
fn unpack(packed: &[u8], rows: &mut CopyRows) -> Result<(), protocol::codec::DecodeError> {
    use protocol::codec::Wire;
    let mut reader = Reader::new(packed);
    while reader.remaining() > 0 {
        let version = Version::decode(&mut reader)?;
        let row = reader.bytes()?.to_vec();
        rows.insert(row, version);
    }
    Ok(())
}
