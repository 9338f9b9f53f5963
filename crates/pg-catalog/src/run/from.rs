//! Runs through the rows of a `FROM`: each part fills its slots of the row, and passes it on.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use super::{Env, Run};
use crate::catalogue::{RowIndex, index_key, index_rows};
use crate::datum::Datum;
use crate::error::CatalogueError;
use crate::plan::{From, Scan, SetCall, Source};
use crate::relations;
use crate::rows::{self, Row, RowSource};

/// The most rows of one call of a function.
const SET_ROWS_MAX: usize = 1_000_000;

/// Receives each row.
type Visit<'v> = dyn FnMut(&mut Vec<Datum>) -> Result<(), CatalogueError> + 'v;

impl Run<'_> {
    /// Passes each row of a part, in the slots of `row`.
    pub(super) fn each(
        &self,
        from: &From,
        row: &mut Vec<Datum>,
        parent: Option<&Env<'_>>,
        visit: &mut Visit<'_>,
    ) -> Result<(), CatalogueError> {
        match from {
            From::Scan(scan) => self.scan(scan, row, parent, visit),
            From::Cross(parts) => self.cross(parts, row, parent, visit),
            From::Filtered(inner, filters) => self.each(inner, row, parent, &mut |row| match self
                .all_true(filters, row, parent)?
            {
                true => visit(row),
                false => Ok(()),
            }),
            From::Left(left, right) => self.each(left, row, parent, &mut |row| {
                let mut is_matched = false;
                self.each(right, row, parent, &mut |row| {
                    is_matched = true;
                    visit(row)
                })?;
                match is_matched {
                    true => Ok(()),
                    false => {
                        right.fills(&mut |slot| row[slot] = Datum::Null);
                        visit(row)
                    }
                }
            }),
            From::Full { left, right, on } => {
                // The rows of the right part that have no match are those that no left row finds.
                let mut matched = HashSet::new();
                self.each(left, row, parent, &mut |row| {
                    let mut is_matched = false;
                    let mut position = 0_usize;
                    self.each(right, row, parent, &mut |row| {
                        position += 1;
                        if self.all_true(on, row, parent)? {
                            is_matched = true;
                            matched.insert(position);
                            visit(row)?;
                        }
                        Ok(())
                    })?;
                    if !is_matched {
                        right.fills(&mut |slot| row[slot] = Datum::Null);
                        visit(row)?;
                    }
                    Ok(())
                })?;
                let mut position = 0_usize;
                self.each(right, row, parent, &mut |row| {
                    position += 1;
                    if !matched.contains(&position) {
                        left.fills(&mut |slot| row[slot] = Datum::Null);
                        visit(row)?;
                    }
                    Ok(())
                })
            }
        }
    }

    fn cross(
        &self,
        parts: &[From],
        row: &mut Vec<Datum>,
        parent: Option<&Env<'_>>,
        visit: &mut Visit<'_>,
    ) -> Result<(), CatalogueError> {
        match parts {
            [] => visit(row),
            [first, rest @ ..] => self.each(first, row, parent, &mut |row| {
                self.cross(rest, row, parent, visit)
            }),
        }
    }

    // tidy: long — one arm per source of rows.
    fn scan(
        &self,
        scan: &Scan,
        row: &mut Vec<Datum>,
        parent: Option<&Env<'_>>,
        visit: &mut Visit<'_>,
    ) -> Result<(), CatalogueError> {
        let wanted = match &scan.lookup {
            None => None,
            Some((column, value)) => {
                let value = self.value(value, &Env { row, parent })?;
                if value.is_null() {
                    return Ok(());
                }
                Some((*column, index_key(&value)))
            }
        };
        let mut pass = |found: &[Datum], row: &mut Vec<Datum>| {
            self.step()?;
            row[scan.offset..scan.offset + scan.width].clone_from_slice(found);
            match self.all_true(&scan.filters, row, parent)? {
                true => visit(row),
                false => Ok(()),
            }
        };
        if let Source::Relation(relation) = scan.source {
            let rows = self.relation_rows(relation);
            let Some((column, value)) = &wanted else {
                return rows.iter().try_for_each(|found| pass(found, row));
            };
            let index = self.relation_index(relation, *column, &rows);
            let positions = index.get(value).map_or(&[][..], |it| it);
            return positions
                .iter()
                .try_for_each(|position| pass(&rows[*position], row));
        }
        let is_wanted = |found: &[Datum]| match &wanted {
            None => true,
            Some((column, value)) => index_key(&found[*column]) == *value,
        };
        match &scan.source {
            Source::Relation(_) => unreachable!("it is handled above"),
            Source::Cte(id) => {
                let rows = self.ctes.borrow().get(id).map(Rc::clone);
                let rows = rows.expect("a query runs its WITH first");
                for found in &rows.rows {
                    self.step()?;
                    if is_wanted(found) {
                        pass(found, row)?;
                    }
                }
            }
            Source::Derived(query) => {
                let rows = {
                    let env = Env { row, parent };
                    self.cached_query(query, Some(&env))?
                };
                for found in &rows.rows {
                    self.step()?;
                    if is_wanted(found) {
                        pass(found, row)?;
                    }
                }
            }
            Source::Function {
                calls,
                with_ordinality,
            } => {
                for found in self.function_rows(calls, *with_ordinality, row, parent)? {
                    if is_wanted(&found) {
                        pass(&found, row)?;
                    }
                }
            }
            Source::Value(node) => {
                let found = [self.value(node, &Env { row, parent })?];
                if is_wanted(&found) {
                    pass(&found, row)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the rows of functions, side by side.
    fn function_rows(
        &self,
        calls: &[SetCall],
        with_ordinality: bool,
        row: &[Datum],
        parent: Option<&Env<'_>>,
    ) -> Result<Vec<Vec<Datum>>, CatalogueError> {
        let env = Env { row, parent };
        let results = calls.iter().map(|call| self.set(call, &env));
        let results: Vec<Vec<Vec<Datum>>> = results.collect::<Result<_, _>>()?;
        let longest = results.iter().map(Vec::len).max().unwrap_or(0);
        let rows = (0..longest).map(|position| {
            let mut joined = Vec::new();
            for (call, found) in calls.iter().zip(&results) {
                match found.get(position) {
                    Some(found) => joined.extend(found.iter().cloned()),
                    None => joined.extend(call.function.columns.iter().map(|_| Datum::Null)),
                }
            }
            if with_ordinality {
                joined.push(Datum::Int(i64::try_from(position + 1).unwrap_or(i64::MAX)));
            }
            joined
        });
        Ok(rows.collect())
    }

    /// Calls a function that returns rows.
    pub(super) fn set(
        &self,
        call: &SetCall,
        env: &Env<'_>,
    ) -> Result<Vec<Vec<Datum>>, CatalogueError> {
        let arguments = call.arguments.iter().map(|it| self.value(it, env));
        let arguments: Vec<Datum> = arguments.collect::<Result<_, _>>()?;
        let rows = (call.function.body)(self.calls, &arguments, SET_ROWS_MAX)?;
        self.steps_of(rows.len() as u64)?;
        Ok(rows)
    }

    fn relation_rows(&self, relation: usize) -> Arc<Vec<Row>> {
        let definition = &relations::all()[relation];
        if !rows::depends_on_session(definition) {
            return self.calls.catalogue.rows(relation);
        }
        let mut known = self.session_rows.borrow_mut();
        let rows = known.entry(relation).or_insert_with(|| {
            let source = RowSource {
                schema: &self.calls.catalogue.schema,
                session: self.calls.session,
            };
            Arc::new(rows::rows(definition, source))
        });
        Arc::clone(rows)
    }

    fn relation_index(&self, relation: usize, column: usize, rows: &[Row]) -> Arc<RowIndex> {
        if !rows::depends_on_session(&relations::all()[relation]) {
            return self.calls.catalogue.index(relation, column);
        }
        let mut known = self.session_indexes.borrow_mut();
        let index = known
            .entry((relation, column))
            .or_insert_with(|| Arc::new(index_rows(rows.iter().map(|row| &row[column]))));
        Arc::clone(index)
    }
}
