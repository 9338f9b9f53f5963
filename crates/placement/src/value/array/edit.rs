//! Parts of arrays, and arrays made of others, by PostgreSQL's rules.

use alloc::vec::Vec;

use super::{Array, ArrayBuilder, ArrayDimension, ArrayError, ArrayRef};
use crate::value::ValueRef;

impl<'a> ArrayRef<'a> {
    /// Returns the element at these subscripts, one per dimension; NULL if there is none.
    pub fn element_at(self, subscripts: &[i32]) -> ValueRef<'a> {
        if subscripts.len() != self.dimension_count() {
            return ValueRef::Null;
        }
        let mut position: usize = 0;
        for (dimension, subscript) in self.dimensions().zip(subscripts) {
            if !(dimension.lower..=dimension.upper()).contains(subscript) {
                return ValueRef::Null;
            }
            let offset = i64::from(*subscript) - i64::from(dimension.lower);
            let offset = usize::try_from(offset).expect("the subscript is not below the first");
            position = position * dimension.length as usize + offset;
        }
        let found = self.values().nth(position);
        found
            .filter(|_| !subscripts.is_empty())
            .unwrap_or(ValueRef::Null)
    }

    /// Returns the part between two subscripts of each of the first dimensions, which begins at 1.
    /// A bound that is none is that of the array.
    pub fn slice(self, bounds: &[(Option<i32>, Option<i32>)]) -> Array {
        let empty = Array::empty(self.element());
        let dimensions: Vec<ArrayDimension> = self.dimensions().collect();
        if dimensions.len() < bounds.len() {
            return empty;
        }
        // The first and the last member of each dimension that are taken, from 0.
        let mut taken = Vec::with_capacity(dimensions.len());
        for (place, dimension) in dimensions.iter().enumerate() {
            let (lower, upper) = bounds.get(place).copied().unwrap_or((None, None));
            let lower = lower.unwrap_or(i32::MIN).max(dimension.lower);
            let upper = upper.unwrap_or(i32::MAX).min(dimension.upper());
            if lower > upper {
                return empty;
            }
            let offset = |it: i32| i64::from(it) - i64::from(dimension.lower);
            taken.push((offset(lower), offset(upper)));
        }
        let mut builder = ArrayBuilder::new(self.element());
        for (number, value) in (0_i64..).zip(self.values()) {
            let mut rest = number;
            let pairs = dimensions.iter().zip(&taken).rev();
            let is_taken = pairs.fold(true, |is_taken, (dimension, (first, last))| {
                let length = i64::from(dimension.length);
                let member = rest % length;
                rest /= length;
                is_taken && (*first..=*last).contains(&member)
            });
            if is_taken {
                builder.push(value);
            }
        }
        let taken = taken.iter().map(|(first, last)| ArrayDimension {
            length: u32::try_from(last - first + 1).unwrap_or(0),
            lower: 1,
        });
        let taken: Vec<ArrayDimension> = taken.collect();
        let slice = builder.finish(&taken);
        slice.expect("a part of an array has the dimensions of one")
    }

    /// Returns both arrays as one: one after the other, or one as a member of the other one.
    ///
    /// # Errors
    /// Their dimensions do not fit.
    pub fn concatenated(self, other: ArrayRef<'_>) -> Result<Array, ArrayError> {
        let left: Vec<ArrayDimension> = self.dimensions().collect();
        let right: Vec<ArrayDimension> = other.dimensions().collect();
        let mut dimensions = match (left.len(), right.len()) {
            (0, count) if count > 0 => return Ok(other.to_owned()),
            (_, 0) => return Ok(self.to_owned()),
            (own, others) if own >= others => left.clone(),
            _ => right.clone(),
        };
        let first = &mut dimensions[0].length;
        let fits = match (left.len(), right.len()) {
            (own, others) if own == others => {
                *first = first.saturating_add(right[0].length);
                left[1..] == right[1..]
            }
            (own, others) if own + 1 == others => {
                *first = first.saturating_add(1);
                left == right[1..]
            }
            (own, others) if own == others + 1 => {
                *first = first.saturating_add(1);
                left[1..] == right
            }
            _ => false,
        };
        if !fits {
            return Err(ArrayError::NotConcatenable);
        }
        let mut builder = ArrayBuilder::new(self.element());
        builder.extend(self);
        builder.extend(other);
        builder.finish(&dimensions)
    }

    /// Returns the array with an element before its first one or behind its last one. The first
    /// subscript stays.
    ///
    /// # Errors
    /// The array has several dimensions, or no subscript is left.
    pub fn with_element(self, value: ValueRef<'_>, is_first: bool) -> Result<Array, ArrayError> {
        let dimension = match self.dimension_count() {
            0 => None,
            1 => self.dimensions().next(),
            _ => return Err(ArrayError::NotOneDimension),
        };
        let ArrayDimension { length, lower } = dimension.unwrap_or(ArrayDimension {
            length: 0,
            lower: 1,
        });
        let next = i64::from(lower) + i64::from(length);
        if is_first && dimension.is_some() && lower == i32::MIN
            || !is_first && i32::try_from(next).is_err()
        {
            return Err(ArrayError::SubscriptOutOfRange);
        }
        let mut builder = ArrayBuilder::new(self.element());
        if is_first {
            builder.push(value);
        }
        builder.extend(self);
        if !is_first {
            builder.push(value);
        }
        builder.finish(&[ArrayDimension {
            length: length + 1,
            lower,
        }])
    }

    /// Returns the array without the elements that equal a value, or with another value instead of
    /// them. NULL equals NULL here.
    ///
    /// # Errors
    /// Elements are removed from an array of several dimensions.
    pub fn replaced(
        self,
        from: ValueRef<'_>,
        to: Option<ValueRef<'_>>,
    ) -> Result<Array, ArrayError> {
        if to.is_none() && self.dimension_count() > 1 {
            return Err(ArrayError::RemovalFromDimensions);
        }
        let mut builder = ArrayBuilder::new(self.element());
        for value in self.values() {
            match (value == from, to) {
                (false, _) => builder.push(value),
                (true, Some(to)) => builder.push(to),
                (true, None) => {}
            }
        }
        let mut dimensions: Vec<ArrayDimension> = self.dimensions().collect();
        if let (None, [dimension]) = (to, &mut dimensions[..]) {
            dimension.length = builder.count();
        }
        builder.finish(&dimensions)
    }

    /// Returns the subscripts of the elements that equal a value, from the subscript `start` on.
    /// NULL equals NULL here.
    ///
    /// # Errors
    /// The array has several dimensions.
    pub fn positions(
        self,
        value: ValueRef<'_>,
        start: Option<i32>,
    ) -> Result<impl Iterator<Item = i32>, ArrayError> {
        if self.dimension_count() > 1 {
            return Err(ArrayError::SearchInDimensions);
        }
        let lower = self.dimensions().next().map_or(1, |it| it.lower);
        let start = start.unwrap_or(lower);
        let subscripts = (lower..).zip(self.values());
        let found = subscripts.filter(move |(at, found)| *at >= start && *found == value);
        Ok(found.map(|(at, _)| at))
    }

    /// Returns the array without its last members of the first dimension, so many of them.
    ///
    /// # Errors
    /// It has fewer.
    pub fn trimmed(self, count: i32) -> Result<Array, ArrayError> {
        let first = self.dimensions().next();
        let length = first.map_or(0, |it| it.length);
        let count = u32::try_from(count).ok().filter(|it| *it <= length);
        let count = count.ok_or(ArrayError::TrimOutOfRange)?;
        let Some(first) = first else {
            return Ok(self.to_owned());
        };
        let upper = i64::from(first.upper()) - i64::from(count);
        let bounds = match i32::try_from(upper) {
            Ok(upper) => (None, Some(upper)),
            // Nothing is left below the first subscript.
            Err(_) => return Ok(Array::empty(self.element())),
        };
        Ok(self.slice(&[bounds]))
    }

    /// Returns whether all elements of another array are elements of this one. A NULL equals none.
    pub fn contains_all(self, other: ArrayRef<'_>) -> bool {
        other.values().all(|wanted| self.has(wanted))
    }

    /// Returns whether an element of another array is one of this one. A NULL equals none.
    pub fn overlaps(self, other: ArrayRef<'_>) -> bool {
        other.values().any(|wanted| self.has(wanted))
    }

    fn has(self, wanted: ValueRef<'_>) -> bool {
        !wanted.is_null() && self.values().any(|it| it == wanted)
    }
}
