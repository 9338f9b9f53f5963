//! Executes plans: over rows in memory, one part of a `FROM` inside of the other.
//!
//! A statement counts its steps and the bytes of the rows that it holds. It ends with an error if
//! it takes too many of either or too long, or if it is canceled. Without that, a join of
//! everything with everything would hold a thread for hours.

mod expression;
mod from;
mod group;

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};
use std::time::{Duration, Instant};

use regex::Regex;

use crate::catalogue::{Calls, RowIndex};
use crate::datum::Datum;
use crate::error::CatalogueError;
use crate::plan::{Body, Cte, Node, Query, Select, SetOperator, SortKey};
use crate::rows::Row;

/// The most steps of a statement: rows that are looked at, and functions that are called.
const STEPS_MAX: u64 = 50_000_000;
/// The most bytes of the rows that a statement holds at a time.
const BYTES_MAX: usize = 64 << 20;
/// The longest time of a statement.
const TIME_MAX: Duration = Duration::from_secs(10);
/// The steps between two looks at the clock.
const STEPS_UNCHECKED: u64 = 4096;
/// The most different regular expressions that a statement keeps compiled.
const REGEXES_MAX: usize = 64;

/// The rows of a query, which count as held while they exist.
#[derive(Debug)]
pub(super) struct HeldRows<'r> {
    pub rows: Vec<Vec<Datum>>,
    bytes: usize,
    held: &'r Cell<usize>,
}

impl Drop for HeldRows<'_> {
    fn drop(&mut self) {
        self.held.set(self.held.get() - self.bytes);
    }
}

impl HeldRows<'_> {
    fn push(&mut self, row: Vec<Datum>) -> Result<(), CatalogueError> {
        let bytes = size_of::<Vec<Datum>>() + row.iter().map(Datum::size).sum::<usize>();
        self.bytes += bytes;
        self.held.set(self.held.get() + bytes);
        self.rows.push(row);
        match self.held.get() > BYTES_MAX {
            true => Err(CatalogueError::limit(format!(
                "a statement about the catalogue holds more than {BYTES_MAX} bytes"
            ))),
            false => Ok(()),
        }
    }
}

/// The row of an expression, and those further out.
#[derive(Clone, Copy)]
pub(super) struct Env<'e> {
    pub row: &'e [Datum],
    pub parent: Option<&'e Env<'e>>,
}

/// The work space of a statement. It outlives the execution, so that the rows can refer to it.
#[derive(Debug, Default)]
pub(crate) struct Held(Cell<usize>);

/// The execution of a statement.
pub(crate) struct Run<'r> {
    pub calls: Calls<'r>,
    pub parameters: &'r [Datum],
    canceled: &'r AtomicBool,
    held: &'r Cell<usize>,
    steps: Cell<u64>,
    end: Instant,
    /// The rows of queries that depend on no row further out, by the queries' numbers.
    cached: RefCell<HashMap<usize, Rc<HeldRows<'r>>>>,
    ctes: RefCell<HashMap<usize, Rc<HeldRows<'r>>>>,
    /// The rows of relations that depend on the session.
    session_rows: RefCell<HashMap<usize, Arc<Vec<Row>>>>,
    session_indexes: RefCell<HashMap<(usize, usize), Arc<RowIndex>>>,
    regexes: RefCell<HashMap<(String, bool), Rc<Regex>>>,
}

impl<'r> Run<'r> {
    pub(crate) fn new(
        calls: Calls<'r>,
        parameters: &'r [Datum],
        held: &'r Held,
        canceled: &'r AtomicBool,
    ) -> Run<'r> {
        Run {
            calls,
            parameters,
            canceled,
            held: &held.0,
            steps: Cell::new(0),
            end: Instant::now() + TIME_MAX,
            cached: RefCell::default(),
            ctes: RefCell::default(),
            session_rows: RefCell::default(),
            session_indexes: RefCell::default(),
            regexes: RefCell::default(),
        }
    }

    /// Returns the rows of the whole statement.
    pub(crate) fn statement(&self, query: &Query) -> Result<Vec<Vec<Datum>>, CatalogueError> {
        let mut rows = self.query(query, None)?;
        Ok(std::mem::take(&mut rows.rows))
    }

    /// Counts a step.
    fn step(&self) -> Result<(), CatalogueError> {
        self.steps_of(1)
    }

    fn steps_of(&self, count: u64) -> Result<(), CatalogueError> {
        let before = self.steps.get();
        let steps = before + count;
        self.steps.set(steps);
        if before / STEPS_UNCHECKED == steps / STEPS_UNCHECKED {
            return Ok(());
        }
        if steps > STEPS_MAX || Instant::now() > self.end {
            return Err(CatalogueError::limit(
                "a statement about the catalogue takes too many steps",
            ));
        }
        match self.canceled.load(atomic::Ordering::Relaxed) {
            true => {
                let text = "canceling statement due to user request";
                Err(CatalogueError::new("57014", text))
            }
            false => Ok(()),
        }
    }

    fn empty(&self) -> HeldRows<'r> {
        HeldRows {
            rows: Vec::new(),
            bytes: 0,
            held: self.held,
        }
    }

    /// Returns the rows of a query. Rows that depend on no row further out are computed once.
    fn cached_query(
        &self,
        query: &Query,
        parent: Option<&Env<'_>>,
    ) -> Result<Rc<HeldRows<'r>>, CatalogueError> {
        if query.is_correlated {
            return self.query(query, parent).map(Rc::new);
        }
        if let Some(known) = self.cached.borrow().get(&query.id) {
            return Ok(Rc::clone(known));
        }
        let rows = Rc::new(self.query(query, parent)?);
        self.cached.borrow_mut().insert(query.id, Rc::clone(&rows));
        Ok(rows)
    }

    fn query(
        &self,
        query: &Query,
        parent: Option<&Env<'_>>,
    ) -> Result<HeldRows<'r>, CatalogueError> {
        if !query.ctes.is_empty() {
            // Other rows further out may have changed what these queries return.
            self.cached.borrow_mut().clear();
        }
        for cte in &query.ctes {
            let rows = match cte.is_recursive {
                true => self.recursive(cte, parent)?,
                false => self.query(&cte.query, parent)?,
            };
            self.ctes.borrow_mut().insert(cte.id, Rc::new(rows));
        }
        let mut rows = self.body(query, parent)?;
        if !query.order.is_empty() {
            rows.rows
                .sort_by(|left, right| order_rows(&query.order, left, right));
        }
        if let Some(positions) = &query.distinct_on {
            let mut seen = HashSet::new();
            rows.rows.retain(|row| {
                let key: Vec<Datum> = positions.iter().map(|it| row[*it].clone()).collect();
                seen.insert(key)
            });
        }
        let count = |node: &Option<Node>| -> Result<Option<usize>, CatalogueError> {
            let Some(node) = node else {
                return Ok(None);
            };
            let env = Env { row: &[], parent };
            match self.value(node, &env)?.as_int() {
                None => Ok(None),
                Some(count) => usize::try_from(count)
                    .map(Some)
                    .map_err(|_| CatalogueError::new("2201W", "LIMIT must not be negative")),
            }
        };
        if let Some(offset) = count(&query.offset)? {
            rows.rows.drain(..offset.min(rows.rows.len()));
        }
        if let Some(limit) = count(&query.limit)? {
            rows.rows.truncate(limit);
        }
        let width = query.columns.len();
        rows.rows.iter_mut().for_each(|row| row.truncate(width));
        Ok(rows)
    }

    fn body(
        &self,
        query: &Query,
        parent: Option<&Env<'_>>,
    ) -> Result<HeldRows<'r>, CatalogueError> {
        match &query.body {
            Body::Select(select) => self.select(select, parent),
            Body::Values(values) => {
                let mut rows = self.empty();
                let env = Env { row: &[], parent };
                for row in values {
                    self.step()?;
                    let row = row.iter().map(|it| self.value(it, &env));
                    rows.push(row.collect::<Result<_, _>>()?)?;
                }
                Ok(rows)
            }
            Body::Set {
                operator,
                all,
                left,
                right,
            } => {
                let left = self.query(left, parent)?;
                let right = self.query(right, parent)?;
                self.combine(*operator, *all, left, right)
            }
        }
    }

    fn combine(
        &self,
        operator: SetOperator,
        all: bool,
        mut left: HeldRows<'r>,
        mut right: HeldRows<'r>,
    ) -> Result<HeldRows<'r>, CatalogueError> {
        self.steps_of((left.rows.len() + right.rows.len()) as u64)?;
        if operator == SetOperator::Union {
            for row in std::mem::take(&mut right.rows) {
                left.push(row)?;
            }
            if !all {
                keep_distinct(&mut left.rows);
            }
            return Ok(left);
        }
        let mut counts: HashMap<Vec<Datum>, usize> = HashMap::new();
        for row in std::mem::take(&mut right.rows) {
            *counts.entry(row).or_default() += 1;
        }
        let keeps_common = operator == SetOperator::Intersect;
        left.rows.retain(|row| match counts.get_mut(row) {
            Some(count) if all && *count > 0 => {
                *count -= 1;
                keeps_common
            }
            Some(_) if all => !keeps_common,
            Some(_) => keeps_common,
            None => !keeps_common,
        });
        if !all {
            keep_distinct(&mut left.rows);
        }
        Ok(left)
    }

    /// Returns the rows of a recursive query: the first part's, and the second part's over the rows
    /// of the step before, until it has none.
    fn recursive(
        &self,
        cte: &Cte,
        parent: Option<&Env<'_>>,
    ) -> Result<HeldRows<'r>, CatalogueError> {
        let Body::Set {
            all, left, right, ..
        } = &cte.query.body
        else {
            unreachable!("the binder has made it a union");
        };
        let mut whole = self.empty();
        let mut seen = HashSet::new();
        let mut next = self.query(left, parent)?;
        loop {
            if !all {
                next.rows.retain(|row| seen.insert(row.clone()));
            }
            if next.rows.is_empty() {
                return Ok(whole);
            }
            for row in &next.rows {
                self.step()?;
                whole.push(row.clone())?;
            }
            self.ctes.borrow_mut().insert(cte.id, Rc::new(next));
            // Queries that depend on the rows of the step before are computed again.
            self.cached.borrow_mut().clear();
            next = self.query(right, parent)?;
        }
    }

    fn select(
        &self,
        select: &Select,
        parent: Option<&Env<'_>>,
    ) -> Result<HeldRows<'r>, CatalogueError> {
        let mut out = self.empty();
        let is_plain = select.groups.is_none() && select.windows.is_empty();
        if is_plain {
            self.rows(select, parent, &mut |row| {
                self.emit(select, row, parent, &mut out)
            })?;
        } else {
            let mut rows = match &select.groups {
                Some(groups) => self.grouped(select, groups, parent)?,
                None => {
                    let mut rows = self.empty();
                    self.rows(select, parent, &mut |row| rows.push(row.clone()))?;
                    rows
                }
            };
            for window in &select.windows {
                self.window(window, &mut rows.rows, parent)?;
            }
            for mut row in std::mem::take(&mut rows.rows) {
                self.emit(select, &mut row, parent, &mut out)?;
            }
        }
        if select.distinct {
            keep_distinct(&mut out.rows);
        }
        Ok(out)
    }

    /// Passes each row of the `FROM` for which the conditions hold.
    fn rows(
        &self,
        select: &Select,
        parent: Option<&Env<'_>>,
        visit: &mut dyn FnMut(&mut Vec<Datum>) -> Result<(), CatalogueError>,
    ) -> Result<(), CatalogueError> {
        let mut row = vec![Datum::Null; select.width];
        match &select.from {
            None => {
                self.step()?;
                match self.all_true(&select.filters, &row, parent)? {
                    true => visit(&mut row),
                    false => Ok(()),
                }
            }
            Some(from) => self.each(from, &mut row, parent, visit),
        }
    }

    /// Appends the items of a row to the result: once, or once for each row of its functions.
    fn emit(
        &self,
        select: &Select,
        row: &mut [Datum],
        parent: Option<&Env<'_>>,
        out: &mut HeldRows<'r>,
    ) -> Result<(), CatalogueError> {
        if select.sets.is_empty() {
            let env = Env { row, parent };
            let items = select.items.iter().map(|it| self.value(it, &env));
            return out.push(items.collect::<Result<_, _>>()?);
        }
        let mut results = Vec::with_capacity(select.sets.len());
        for set in &select.sets {
            let env = Env { row, parent };
            // An argument may be a function that returns rows; its first row counts.
            let found = self.set(set, &env)?;
            row[set.slot] = found.first().map_or(Datum::Null, |row| as_value(row));
            results.push(found);
        }
        let longest = results.iter().map(Vec::len).max().unwrap_or(0);
        for position in 0..longest {
            self.step()?;
            for (set, found) in select.sets.iter().zip(&results) {
                row[set.slot] = found.get(position).map_or(Datum::Null, |row| as_value(row));
            }
            let env = Env { row, parent };
            let items = select.items.iter().map(|it| self.value(it, &env));
            out.push(items.collect::<Result<_, _>>()?)?;
        }
        Ok(())
    }

    fn all_true(
        &self,
        conditions: &[Node],
        row: &[Datum],
        parent: Option<&Env<'_>>,
    ) -> Result<bool, CatalogueError> {
        let env = Env { row, parent };
        for condition in conditions {
            if !self.value(condition, &env)?.is_true() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns a row of a function as the value of an item.
fn as_value(row: &[Datum]) -> Datum {
    match row {
        [value] => value.clone(),
        row => Datum::Record(row.into()),
    }
}

/// Keeps the first of equal rows.
fn keep_distinct(rows: &mut Vec<Vec<Datum>>) {
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert(row.clone()));
}

/// Compares two values by a direction.
fn order_values(left: &Datum, right: &Datum, (descending, nulls_first): (bool, bool)) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if descending => right.order(left),
        (false, false) => left.order(right),
    }
}

fn order_rows(keys: &[SortKey], left: &[Datum], right: &[Datum]) -> Ordering {
    let mut orders = keys.iter().map(|key| {
        let directions = (key.descending, key.nulls_first);
        order_values(&left[key.position], &right[key.position], directions)
    });
    let first = orders.find(|order| *order != Ordering::Equal);
    first.unwrap_or(Ordering::Equal)
}
