//! Opens a log: finds its records, detects missing records, and determines the durable end.
//!
//! Every retained record is read and checked here, and again when it is replayed. Only the last
//! segment may have bytes that were never flushed. Its records are copied to another file and
//! flushed, because after a failed flush a page may be readable but not on disk (R23).
//!
//! | found | meaning |
//! |---|---|
//! | bad bytes, nothing valid after, nothing recorded as durable there | torn tail: cut |
//! | a bad record with a valid one after it | damage (R24) |
//! | the end lies below a position recorded as durable | damage (R24) |
//! | segments that do not join | damage |
//!
//! Damaged segments stay as they are, and new records go after the highest known position. Every
//! opening reports the damage again, until a checkpoint retires the segments.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use placement::Position;

use super::LogOptions;
use super::preparer::{self, Spare};
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::record::{
    Encoder, Gap, HEADER_BYTES, ScanItem, SegmentKey, SegmentScan, StoredRecord, record_bytes,
};
use crate::segment::{
    self, BLOCK_BYTES, FORMAT, HeaderError, SegmentHeader, parse_segment_name, segment_name,
};

/// The contents of an opened log: its records from the checkpoint on, and its damage.
pub struct Recovery {
    disk: Arc<dyn Disk>,
    segments: Vec<SegmentKey>,
    replay_from: Position,
    /// Where the log read before this opening ends: the next segment's records begin behind it.
    next: Position,
    /// Records that are missing, in the order of their positions.
    pub damage: Vec<Damage>,
    /// The number of records that [`Recovery::replay`] returns.
    pub records: u64,
    /// The bytes of these records in the log.
    pub bytes: u64,
}

/// Lost records that were durable, or may have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The missing records.
    pub gap: Gap,
    /// Whether a later record or header states that the missing records were durable. If not, the
    /// cause may be a power failure that wrote the last blocks out of order.
    pub was_durable: bool,
    /// The file with the invalid bytes, or the file after which a segment is missing.
    pub file: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gap { from, to } = self.gap;
        write!(f, "{}: records {from} to {to} (exclusive) ", self.file)?;
        match self.was_durable {
            true => write!(f, "were durable and are lost"),
            false => write!(f, "are unreadable, later ones are not"),
        }
    }
}

/// The items of a replay, in the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayItem<'a> {
    /// A record, as it was appended.
    Record(StoredRecord<'a>),
    /// Records are missing here. Later records are only a hint (R24, R25).
    Gap(Gap),
}

impl Recovery {
    /// Returns false if records that may have been durable are missing: the server must answer
    /// *unknown* about operations, and have the partitions repaired by its peers (R24).
    pub fn tail_trusted(&self) -> bool {
        self.damage.is_empty()
    }

    /// Passes every record from the replay position on to the caller, in order, with the gaps
    /// between them.
    ///
    /// # Errors
    /// [`StorageError::Io`]: a segment cannot be read any more.
    pub fn replay(
        &self,
        visit: &mut dyn FnMut(ReplayItem) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut expected = self.replay_from;
        let mut show = |expected: &mut Position, record: StoredRecord| {
            if record.position < *expected {
                return Ok(());
            }
            if record.position > *expected {
                let (from, to) = (*expected, record.position);
                visit(ReplayItem::Gap(Gap { from, to }))?;
            }
            *expected = record.position.next();
            visit(ReplayItem::Record(record))
        };
        for (index, key) in self.segments.iter().enumerate() {
            let limit = self.segments.get(index + 1).map(|next| next.first);
            let name = segment_name(key);
            let bytes = read_all(&*self.disk, &name)?;
            let records = bytes.get(BLOCK_BYTES..).unwrap_or_default();
            for item in SegmentScan::new(key, records) {
                match item {
                    ScanItem::Record(record)
                        if limit.is_some_and(|limit| record.position >= limit) =>
                    {
                        break;
                    }
                    // Appends may have begun already: they are not for replay.
                    ScanItem::Record(record) if record.position >= self.next => break,
                    ScanItem::Record(record) => show(&mut expected, record)?,
                    ScanItem::Gap(_) => {}
                }
            }
        }
        if expected < self.next {
            let (from, to) = (expected, self.next);
            visit(ReplayItem::Gap(Gap { from, to }))?;
        }
        Ok(())
    }
}

/// A log ready for appends.
pub(super) struct OpenedLog {
    pub(super) recovery: Recovery,
    pub(super) segments: Vec<SegmentKey>,
    pub(super) spares: Vec<Spare>,
    /// The segment for the next records.
    pub(super) key: SegmentKey,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) offset: u64,
    pub(super) next: Position,
}

pub(super) fn open(disk: &Arc<dyn Disk>, options: &LogOptions) -> Result<OpenedLog, StorageError> {
    let folder = LogFolder::read(&**disk, options)?;
    if folder.chosen.is_empty() {
        if !options.create {
            let what = "the log has no segment any more".into();
            return Err(StorageError::Lost { what });
        }
        return create(disk, options, folder.spares);
    }
    let mut findings = ScanFindings::new(options.replay_from);
    let mut tail = Tail::default();
    for (index, found) in folder.chosen.iter().enumerate() {
        let limit = folder
            .chosen
            .get(index + 1)
            .map(|next| next.header.key.first);
        let bytes = read_all(&**disk, &segment_name(&found.header.key))?;
        let records = bytes.get(BLOCK_BYTES..).unwrap_or_default();
        let end = findings.segment(&found.header, records, limit);
        if !found.readable {
            findings.unreadable_header(&found.header.key, limit, records.len());
        }
        if limit.is_none() {
            tail.records = records[..end].to_vec();
        }
    }
    tail.damaged = findings.end();
    drop_superseded(&**disk, &folder, options)?;
    finish(disk, options, folder, findings, tail)
}

/// The last segment's valid records, as they are in the file.
#[derive(Default)]
struct Tail {
    records: Vec<u8>,
    /// Whether something is wrong with the last segment, so that it must stay as it is.
    damaged: bool,
}

fn create(
    disk: &Arc<dyn Disk>,
    options: &LogOptions,
    mut spares: Vec<Spare>,
) -> Result<OpenedLog, StorageError> {
    let header = SegmentHeader {
        key: SegmentKey {
            identity: options.identity,
            first: options.replay_from,
            generation: 0,
        },
        durable: Position(options.replay_from.0 - 1),
    };
    let spare = take_spare(&**disk, options, &mut spares)?;
    segment::begin(&**disk, &*spare.file, &spare.name, &header)?;
    let recovery = Recovery {
        disk: Arc::clone(disk),
        segments: vec![header.key],
        replay_from: options.replay_from,
        next: options.replay_from,
        damage: vec![],
        records: 0,
        bytes: 0,
    };
    Ok(OpenedLog {
        recovery,
        segments: vec![header.key],
        spares,
        key: header.key,
        file: spare.file,
        offset: BLOCK_BYTES as u64,
        next: options.replay_from,
    })
}

/// Copies the tail, or begins after the damage, and puts the result together.
fn finish(
    disk: &Arc<dyn Disk>,
    options: &LogOptions,
    mut folder: LogFolder,
    findings: ScanFindings,
    tail: Tail,
) -> Result<OpenedLog, StorageError> {
    let last = folder.chosen.last().expect("the caller found segments");
    let last = last.header;
    let fits = BLOCK_BYTES + tail.records.len() <= options.segment_bytes as usize;
    let in_place = !tail.damaged && fits && findings.next >= options.replay_from;
    let next = findings.next.max(options.replay_from);
    let header = if in_place {
        let generation = last.key.generation + 1;
        let key = SegmentKey {
            generation,
            ..last.key
        };
        let durable = last.durable;
        SegmentHeader { key, durable }
    } else {
        let key = SegmentKey {
            identity: options.identity,
            first: next,
            generation: 0,
        };
        let durable = Position(next.0 - 1);
        SegmentHeader { key, durable }
    };
    let key = header.key;
    let records = if in_place { &tail.records[..] } else { &[] };
    let spare = take_spare(&**disk, options, &mut folder.spares)?;
    let copied = recode(&last.key, &key, records);
    let is_as_long = copied.len() == records.len();
    assert!(is_as_long, "a copy differs in checksums only");
    let written = spare.file.write_at(BLOCK_BYTES as u64, &copied);
    written.map_err(StorageError::io("copy the log's tail"))?;
    // Flushes the copied records too, before the file gets its name.
    segment::begin(&**disk, &*spare.file, &spare.name, &header)?;
    let chosen = folder.chosen.iter().map(|found| found.header.key);
    let mut segments: Vec<_> = chosen.collect();
    if in_place {
        segments.pop();
        let old = segment_name(&last.key);
        let wanted = (folder.spares.len() < preparer::SPARES).then_some(options.segment_bytes);
        let recycled = preparer::recycle(&**disk, &old, wanted);
        let recycled = recycled.map_err(StorageError::io(format!("give up {old}")))?;
        folder.spares.extend(recycled);
    }
    segments.push(key);
    let recovery = Recovery {
        disk: Arc::clone(disk),
        segments: segments.clone(),
        replay_from: options.replay_from,
        next,
        damage: findings.damage,
        records: findings.records,
        bytes: findings.bytes,
    };
    Ok(OpenedLog {
        recovery,
        segments,
        spares: folder.spares,
        key,
        file: spare.file,
        offset: (BLOCK_BYTES + copied.len()) as u64,
        next,
    })
}

/// Returns records encoded for another segment. Only their checksums change.
fn recode(from: &SegmentKey, to: &SegmentKey, records: &[u8]) -> Vec<u8> {
    let encoder = Encoder::new(to);
    let mut copied = Vec::with_capacity(records.len());
    for item in SegmentScan::new(from, records) {
        match item {
            ScanItem::Record(record) => encoder.encode(&record, &mut copied),
            ScanItem::Gap(gap) => unreachable!("a damaged tail is not copied: {gap:?}"),
        }
    }
    copied
}

fn take_spare(
    disk: &dyn Disk,
    options: &LogOptions,
    spares: &mut Vec<Spare>,
) -> Result<Spare, StorageError> {
    let action = format!(
        "find {} bytes for the log; free some disk space",
        options.segment_bytes
    );
    match spares.pop() {
        Some(spare) => Ok(spare),
        None => preparer::create(disk, options.segment_bytes).map_err(StorageError::io(action)),
    }
}

fn drop_superseded(
    disk: &dyn Disk,
    folder: &LogFolder,
    options: &LogOptions,
) -> Result<(), StorageError> {
    // Everything was understood, so that from here on the folder may be changed.
    let ours = |found: &FoundSegment| found.header.key.identity == options.identity;
    assert!(folder.chosen.iter().all(ours));
    for name in &folder.superseded {
        disk.remove(name)
            .map_err(StorageError::io(format!("remove {name}")))?;
    }
    Ok(())
}

fn read_all(disk: &dyn Disk, name: &str) -> Result<Vec<u8>, StorageError> {
    let read = || {
        let file = disk.open(name)?;
        let mut bytes = vec![0; file.bytes()? as usize];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    };
    read().map_err(StorageError::io(format!("read log segment {name}")))
}

/// A named segment. Its name alone determines how to read its records.
#[derive(Clone, Copy)]
struct FoundSegment {
    header: SegmentHeader,
    /// False if the first block is damaged: more may be, and nothing would show it.
    readable: bool,
}

/// The log's files, sorted by their purpose. Reading it changes no file in use.
struct LogFolder {
    /// Segments that hold records to keep, by position; the newest copy of each.
    chosen: Vec<FoundSegment>,
    /// Older copies, and segments that a checkpoint covers.
    superseded: Vec<String>,
    spares: Vec<Spare>,
}

impl LogFolder {
    fn read(disk: &dyn Disk, options: &LogOptions) -> Result<Self, StorageError> {
        let names = disk
            .names()
            .map_err(StorageError::io("list the log's folder"))?;
        let mut by_first = BTreeMap::<Position, Vec<(u32, String)>>::new();
        for name in &names {
            if let Some((first, generation)) = parse_segment_name(name) {
                let copies = by_first.entry(first).or_default();
                copies.push((generation, name.clone()));
            }
        }
        let mut superseded = vec![];
        // The last segment that starts at or before the replay position holds it.
        let start = by_first.range(..=options.replay_from).next_back();
        let start = start.map_or(Position::ZERO, |(&first, _)| first);
        let kept = by_first.split_off(&start);
        superseded.extend(by_first.into_values().flatten().map(|(_, name)| name));
        let mut chosen = vec![];
        for (first, mut copies) in kept {
            copies.sort();
            let (generation, _) = copies.pop().expect("every position has a file");
            let identity = options.identity;
            let key = SegmentKey {
                identity,
                first,
                generation,
            };
            chosen.push(read_header(disk, &key)?);
            superseded.extend(copies.into_iter().map(|(_, name)| name));
        }
        let spares = read_spares(disk, &names, options.segment_bytes)?;
        Ok(Self {
            chosen,
            superseded,
            spares,
        })
    }
}

/// Returns the header of the segment `key`; rebuilt from the file's name if it is damaged.
fn read_header(disk: &dyn Disk, key: &SegmentKey) -> Result<FoundSegment, StorageError> {
    let name = segment_name(key);
    let mut block = [0; BLOCK_BYTES];
    let mut read = || {
        let file = disk.open(&name)?;
        let bytes = file.bytes()?.min(BLOCK_BYTES as u64) as usize;
        file.read_at(0, &mut block[..bytes])
    };
    read().map_err(StorageError::io(format!("read log segment {name}")))?;
    let rebuilt = FoundSegment {
        header: SegmentHeader {
            key: *key,
            // A segment is named only after all before it is durable.
            durable: Position(key.first.0.saturating_sub(1)),
        },
        readable: false,
    };
    match SegmentHeader::decode(&block) {
        Err(HeaderError::Bad) => Ok(rebuilt),
        Err(HeaderError::Newer(found)) => {
            let (file, known) = (name, FORMAT);
            Err(StorageError::NewerFormat { file, found, known })
        }
        Ok(header) if header.key.identity != key.identity => {
            Err(StorageError::Foreign { file: name })
        }
        Ok(header) if header.key != *key => Ok(rebuilt),
        Ok(header) => Ok(FoundSegment {
            header,
            readable: true,
        }),
    }
}

fn read_spares(
    disk: &dyn Disk,
    names: &[String],
    segment_bytes: u64,
) -> Result<Vec<Spare>, StorageError> {
    let mut spares = vec![];
    for name in names.iter().filter(|name| preparer::is_spare(name)) {
        let action = format!("open {name}");
        let mut open = || {
            let file = disk.open(name)?;
            let name = name.clone();
            // A spare that was being filled when the process ended is too short.
            if file.bytes()? == segment_bytes && spares.len() < preparer::SPARES {
                spares.push(Spare { name, file });
                return Ok(());
            }
            disk.remove(&name)
        };
        open().map_err(StorageError::io(action))?;
    }
    Ok(spares)
}

/// The results of the scan, gathered over the segments in order.
struct ScanFindings {
    damage: Vec<Damage>,
    records: u64,
    bytes: u64,
    replay_from: Position,
    /// Where the next record ought to be.
    next: Position,
    /// The highest position that anything recorded as durable.
    durable: Position,
    /// The file scanned last.
    file: String,
    damaged_here: bool,
}

impl ScanFindings {
    fn new(replay_from: Position) -> Self {
        Self {
            damage: vec![],
            records: 0,
            bytes: 0,
            replay_from,
            next: replay_from,
            durable: Position::ZERO,
            file: "the log's folder".into(),
            damaged_here: false,
        }
    }

    /// Scans one segment up to `limit`; returns where its valid records end.
    fn segment(
        &mut self,
        header: &SegmentHeader,
        records: &[u8],
        limit: Option<Position>,
    ) -> usize {
        if header.key.first > self.next {
            self.missing(Gap {
                from: self.next,
                to: header.key.first,
            });
        }
        self.file = segment_name(&header.key);
        self.damaged_here = false;
        self.next = header.key.first;
        self.durable = self.durable.max(header.durable);
        let mut scan = SegmentScan::new(&header.key, records);
        let mut end = 0;
        let mut gap = None;
        while let Some(item) = scan.next() {
            match item {
                ScanItem::Gap(found) => gap = Some(found),
                ScanItem::Record(record) if limit.is_some_and(|limit| record.position >= limit) => {
                    break;
                }
                ScanItem::Record(record) => {
                    if let Some(gap) = gap.take() {
                        self.missing(gap);
                    }
                    self.next = record.position.next();
                    self.durable = self.durable.max(record.durable);
                    if record.position >= self.replay_from {
                        self.records += 1;
                        self.bytes += record_bytes(record.payload.len()) as u64;
                    }
                    end = scan.offset();
                }
            }
        }
        if let Some(gap) = gap.filter(|gap| limit.is_none_or(|limit| gap.to < limit)) {
            // Bytes made to look like records: see the bound on resynchronisation.
            self.missing(gap);
            self.next = self.next.max(gap.to);
        }
        end
    }

    /// Takes a damaged first block for a sign that records are gone too: as many as the segment
    /// could have held, so that no position of a lost one is given out again.
    fn unreadable_header(&mut self, key: &SegmentKey, limit: Option<Position>, bytes: usize) {
        let most = Position(key.first.0.saturating_add((bytes / HEADER_BYTES) as u64));
        let to = limit.unwrap_or(most);
        self.missing(Gap {
            from: self.next.min(to),
            to,
        });
        if limit.is_none() {
            self.next = self.next.max(to);
        }
    }

    fn missing(&mut self, gap: Gap) {
        self.damaged_here = true;
        // Before the replay position nothing is missed: a checkpoint covers it.
        if gap.to <= self.replay_from && gap.from < gap.to {
            return;
        }
        let gap = Gap {
            from: gap.from.max(self.replay_from),
            ..gap
        };
        self.damage.push(Damage {
            gap,
            was_durable: false,
            file: self.file.clone(),
        });
    }

    /// Ends the scan; true if the last segment must not be written to any more.
    fn end(&mut self) -> bool {
        if self.next <= self.durable {
            let to = self.durable.next();
            self.missing(Gap {
                from: self.next,
                to,
            });
            self.next = to;
        }
        for damage in &mut self.damage {
            damage.was_durable = damage.gap.from <= self.durable;
        }
        self.damaged_here
    }
}
