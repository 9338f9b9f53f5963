//! Notes the requests and reads of clients for the order of all of them (`check::cycles`).

use protocol::identity::RequestId;
use protocol::message::{Request, RowPage};
use protocol::transaction::RangeCheck;
use session::SessionOutcome;

use crate::check::cycles::{ShownRange, ShownRead, ShownRequest, ShownVersions, Span};
use crate::model::{ID, PartitionRange, WorkloadOperation};
use crate::world::World;

impl World {
    /// Notes that a client sends a request that changes rows.
    pub(super) fn note_request(&mut self, number: u64, correlation: u64, sent: &Request) {
        let name = match sent {
            Request::Execute(execute) => execute.request,
            Request::Transact(transact) => transact.request,
            _ => return,
        };
        let begun = self.next_moment();
        let client = self.clients.get_mut(&number).expect("it sends");
        client.asked.insert(correlation, name);
        let span = Span { begun, ended: None };
        let (checks, ranges) = match sent {
            Request::Transact(transact) => {
                let shown = |check: &RangeCheck| {
                    let mut known = client.checked_ranges.iter();
                    let own = known.find(|(other, _)| other == check);
                    own.map(|(_, shown)| shown.clone())
                };
                let ranges = transact.ranges.iter().filter_map(shown).collect();
                (transact.checks.clone(), ranges)
            }
            _ => Default::default(),
        };
        let request = ShownRequest {
            span,
            checks,
            ranges,
        };
        self.shown.requests.entry(name).or_insert(request);
    }

    /// Notes that a client has learnt that a request took effect.
    pub(super) fn note_end(&mut self, request: RequestId) {
        let ended = self.next_moment();
        if let Some(request) = self.shown.requests.get_mut(&request) {
            request.span.ended.get_or_insert(ended);
        }
    }

    /// Notes a range that a transaction is going to check, as the client has read it.
    pub(super) fn note_checked_range(
        &mut self,
        number: u64,
        (table, group): (usize, i64),
        check: &RangeCheck,
    ) {
        let known = &self.known_ranges[&group];
        let rows = known.rows.iter();
        let shown = ShownRange {
            table,
            group,
            range: known.range.clone(),
            rows: rows.map(|(row, version)| (row[ID], version.0)).collect(),
            versions: match check.versions {
                true => ShownVersions::Exactly,
                false => ShownVersions::Nothing,
            },
        };
        let client = self.clients.get_mut(&number).expect("callers have it");
        client.checked_ranges.push((check.clone(), shown));
    }

    /// Notes the pages of a read that has ended.
    pub(super) fn note_pages(&mut self, table: usize, history: usize, outcome: &SessionOutcome) {
        match outcome {
            SessionOutcome::Rows(page) => {
                self.note_read(&[(table, history, &[vec![page.clone()]])]);
            }
            SessionOutcome::Moment(pages) => {
                self.note_range(table, history, &pages.ranges);
                self.note_read(&[(table, history, &pages.ranges)]);
            }
            _ => {}
        }
    }

    /// Notes a read that has ended: of each table the place in the history, and the pages of each
    /// range. Counts are left out.
    pub(super) fn note_read(&mut self, parts: &[(usize, usize, &[Vec<RowPage>])]) {
        let ended = Some(self.next_moment());
        let mut begun = 0;
        let mut ranges = Vec::new();
        for (table, history, pages) in parts {
            let (group, call) = &self.history[*history];
            begun = begun.max(call.begun);
            let read: &[PartitionRange] = match &call.operation {
                WorkloadOperation::Statement(ranges) => ranges,
                WorkloadOperation::Read(range) => core::slice::from_ref(range),
                _ => continue,
            };
            let translation = &self.tables[*table].translation;
            for (range, pages) in read.iter().zip(*pages) {
                if pages
                    .iter()
                    .any(|page| page.rows.is_empty() && page.count > 0)
                {
                    continue;
                }
                // That a row can be parsed is checked elsewhere.
                let rows = pages.iter().flat_map(RowPage::rows);
                let rows = rows.filter_map(|(version, row)| {
                    let row = translation.parse(row).ok()?;
                    Some((row[ID], version.0))
                });
                let is_thin = translation.model.copies[range.replex].is_thin;
                ranges.push(ShownRange {
                    table: *table,
                    group: *group,
                    range: range.clone(),
                    rows: rows.collect(),
                    versions: match is_thin {
                        true => ShownVersions::AtLeast,
                        false => ShownVersions::Exactly,
                    },
                });
            }
        }
        let span = Span { begun, ended };
        self.shown.reads.push(ShownRead { span, ranges });
    }
}
