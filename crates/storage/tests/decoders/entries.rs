//! One entry per decoder of the log: any bytes may come in, and the properties that hold for all of
//! them are asserted. The fuzzer calls these (`fuzz/`), and so do the tests beside this file.

use placement::Position;
use storage::record::{Encoder, HEADER_BYTES, ScanItem, SegmentKey, SegmentScan, StoredRecord};
use storage::segment::SegmentHeader;

const KEY: SegmentKey = SegmentKey {
    identity: 0x5265_706c_6578,
    first: Position(100),
    generation: 2,
};

/// Bytes of a segment as they are, and a log that was written and then spoilt by them.
pub fn log_scan(bytes: &[u8]) {
    scan(bytes, None);
    if let Ok(header) = SegmentHeader::decode(bytes) {
        assert!(bytes.starts_with(&header.encode()), "a header has one form");
    }
    let Some((count, script)) = bytes.split_first() else {
        return;
    };
    let (lengths, changes) = script.split_at(script.len().min(usize::from(count % 16)));
    let payloads: Vec<Vec<u8>> = lengths
        .iter()
        .map(|length| vec![length.wrapping_mul(31); usize::from(*length)])
        .collect();
    let encoder = Encoder::new(&KEY);
    let mut log = Vec::new();
    for (payload, position) in payloads.iter().zip(KEY.first.0..) {
        let record = StoredRecord {
            position: Position(position),
            epoch: 3,
            durable: Position(position - 1),
            payload,
        };
        encoder.encode(&record, &mut log);
    }
    let whole = scan(&log, Some(&payloads));
    assert_eq!(whole, payloads.len(), "an unspoilt log is read to its end");
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if at < log.len() {
            log[at] = change[2];
        }
    }
    scan(&log, Some(&payloads));
}

/// Reads all there is, and counts the records. Where the written records are known, a record that
/// comes out is one of those.
fn scan(bytes: &[u8], written: Option<&[Vec<u8>]>) -> usize {
    let mut scan = SegmentScan::new(&KEY, bytes);
    let mut records = 0;
    let mut expected = KEY.first;
    for turn in 0.. {
        assert!(turn <= 2 * bytes.len() / HEADER_BYTES + 2, "a scan ends");
        match scan.next() {
            None => break,
            Some(ScanItem::Record(record)) => {
                assert_eq!(record.position, expected, "positions follow each other");
                let index = (record.position.0 - KEY.first.0) as usize;
                assert!(
                    written.is_none_or(|it| it.get(index).is_some_and(|it| it == record.payload)),
                    "record {} was never written",
                    record.position
                );
                records += 1;
            }
            Some(ScanItem::Gap(gap)) => {
                assert_eq!(gap.from, expected);
                assert!(gap.to >= gap.from, "a gap leads forwards");
            }
        }
        expected = scan.expected();
        assert!(scan.offset() <= bytes.len());
    }
    records
}
