//! Takes trees of `jsonb` apart, and puts them together, as PostgreSQL's operators and functions.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Json, JsonError, key_order};

/// A change at a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PathEdit<'j> {
    /// The value at the path is removed.
    Remove,
    /// The value at the path becomes this one, if there is one.
    Replace(&'j Json),
    /// The value at the path becomes this one, also if there is none.
    Set(&'j Json),
}

impl PathEdit<'_> {
    /// Returns the new value.
    fn value(self) -> Option<Json> {
        match self {
            PathEdit::Remove => None,
            PathEdit::Replace(value) | PathEdit::Set(value) => Some(value.clone()),
        }
    }

    /// Returns the new value, if it is added where there is none.
    fn added(self) -> Option<Json> {
        match self {
            PathEdit::Set(value) => Some(value.clone()),
            PathEdit::Remove | PathEdit::Replace(_) => None,
        }
    }
}

impl Json {
    /// Returns the value of a key; none if this is no object or has no such key.
    pub fn member(&self, key: &str) -> Option<&Json> {
        let Json::Object(pairs) = self else {
            return None;
        };
        let found = pairs.binary_search_by(|(other, _)| key_order(other, key));
        found.ok().map(|position| &pairs[position].1)
    }

    /// Returns the item at a position, which counts from the end if it is negative; none if this is
    /// no array or has no such item.
    pub fn item(&self, position: i32) -> Option<&Json> {
        let Json::Array(items) = self else {
            return None;
        };
        items.get(place_of(position, items.len())?)
    }

    /// Returns the value at a path; none if there is none.
    pub fn at_path(&self, path: &[&str]) -> Option<&Json> {
        let mut found = self;
        for step in path {
            found = match found {
                Json::Array(_) => found.item(position_of(step)?)?,
                found => found.member(step)?,
            };
        }
        Some(found)
    }

    /// Returns whether a key is one of this object, or a string one of this array. A string alone
    /// has itself.
    pub fn has(&self, key: &str) -> bool {
        let is_key = |it: &Json| matches!(it, Json::String(text) if text == key);
        match self {
            Json::Array(items) => items.iter().any(is_key),
            Json::Object(_) => self.member(key).is_some(),
            scalar => is_key(scalar),
        }
    }

    /// Returns whether a whole value has all parts of another one, wherever they are in arrays. An
    /// array has a scalar that is one of its items.
    pub fn contains(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Array(items), scalar) if !scalar.is_container() => {
                items.iter().any(|it| it.part_order(scalar).is_eq())
            }
            _ => self.contains_part(other),
        }
    }

    fn contains_part(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Object(_), Json::Object(wanted)) => wanted.iter().all(|(key, value)| {
                let found = self.member(key);
                found.is_some_and(|found| found.contains_part(value))
            }),
            (Json::Array(items), Json::Array(wanted)) => wanted
                .iter()
                .all(|value| items.iter().any(|item| item.contains_part(value))),
            (left, right) => left.part_order(right).is_eq(),
        }
    }

    /// Returns the object of the keys of both, of which the right ones count, or else the array of
    /// the items of both.
    pub fn joined(self, other: Json) -> Json {
        match (self, other) {
            (Json::Object(mut pairs), Json::Object(others)) => {
                pairs.extend(others);
                Json::object(pairs)
            }
            (left, right) => {
                let items = |it| match it {
                    Json::Array(items) => items,
                    other => Vec::from([other]),
                };
                let mut joined = items(left);
                joined.extend(items(right));
                Json::Array(joined)
            }
        }
    }

    /// Returns the value without some keys of an object, or some strings of an array.
    ///
    /// # Errors
    /// It is a scalar.
    pub fn without(self, is_removed: impl Fn(&str) -> bool) -> Result<Json, JsonError> {
        match self {
            Json::Object(mut pairs) => {
                pairs.retain(|(key, _)| !is_removed(key));
                Ok(Json::Object(pairs))
            }
            Json::Array(mut items) => {
                items.retain(|it| !matches!(it, Json::String(text) if is_removed(text)));
                Ok(Json::Array(items))
            }
            _ => Err(JsonError::NotRemovable),
        }
    }

    /// Returns the array without the item at a position, which counts from the end if it is
    /// negative.
    ///
    /// # Errors
    /// It is no array.
    pub fn without_item(self, position: i32) -> Result<Json, JsonError> {
        let Json::Array(mut items) = self else {
            return Err(JsonError::NotRemovable);
        };
        if let Some(place) = place_of(position, items.len())
            && place < items.len()
        {
            items.remove(place);
        }
        Ok(Json::Array(items))
    }

    /// Returns the value without the keys whose values are null, at any depth.
    pub fn without_nulls(self) -> Json {
        match self {
            Json::Array(items) => Json::Array(items.into_iter().map(Json::without_nulls).collect()),
            Json::Object(pairs) => {
                let pairs = pairs.into_iter();
                let pairs = pairs.filter(|(_, value)| !matches!(value, Json::Null));
                Json::Object(pairs.map(|(key, it)| (key, it.without_nulls())).collect())
            }
            scalar => scalar,
        }
    }

    /// Returns the value with a change at a path. A step that is none is NULL.
    ///
    /// # Errors
    /// It is a scalar, a step that it needs is NULL, or one is no position of an array.
    pub fn edited(mut self, path: &[Option<&str>], edit: PathEdit<'_>) -> Result<Json, JsonError> {
        if !self.is_container() {
            return Err(match edit {
                PathEdit::Remove => JsonError::NotRemovable,
                PathEdit::Replace(_) | PathEdit::Set(_) => JsonError::NotSettable,
            });
        }
        let is_empty = match &self {
            Json::Array(items) => items.is_empty(),
            Json::Object(pairs) => pairs.is_empty(),
            _ => false,
        };
        if !path.is_empty() && (!is_empty || edit.added().is_some()) {
            self.edit(path, edit)?;
        }
        Ok(self)
    }

    /// Changes the value at a path, which has a step at least.
    fn edit(&mut self, path: &[Option<&str>], edit: PathEdit<'_>) -> Result<(), JsonError> {
        let Some((step, rest)) = path.split_first() else {
            return Ok(());
        };
        let step = step.ok_or(JsonError::NullStep)?;
        match self {
            Json::Object(pairs) => {
                let found = pairs.binary_search_by(|(key, _)| key_order(key, step));
                match (found, rest) {
                    (Ok(at), []) => match edit.value() {
                        Some(value) => pairs[at].1 = value,
                        None => drop(pairs.remove(at)),
                    },
                    (Ok(at), rest) => pairs[at].1.edit(rest, edit)?,
                    (Err(at), []) => {
                        if let Some(value) = edit.added() {
                            pairs.insert(at, (String::from(step), value));
                        }
                    }
                    (Err(_), _) => {}
                }
            }
            Json::Array(items) => {
                let position = position_of(step).ok_or(JsonError::NoPosition)?;
                let place = place_of(position, items.len());
                match (place.filter(|it| *it < items.len()), rest) {
                    (Some(at), []) => match edit.value() {
                        Some(value) => items[at] = value,
                        None => drop(items.remove(at)),
                    },
                    (Some(at), rest) => items[at].edit(rest, edit)?,
                    (None, []) => {
                        if let Some(value) = edit.added() {
                            let at = if position < 0 { 0 } else { items.len() };
                            items.insert(at, value);
                        }
                    }
                    (None, _) => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the place of a position, which counts from the end if it is negative; none before the
/// first item.
fn place_of(position: i32, count: usize) -> Option<usize> {
    let from_end = position.unsigned_abs() as usize;
    match position < 0 {
        true => count.checked_sub(from_end),
        false => Some(from_end),
    }
}

/// Returns the position that a step of a path is; none if it is none. PostgreSQL reads it with a
/// function of C, which skips spaces.
fn position_of(step: &str) -> Option<i32> {
    let is_space = |it: char| matches!(it, ' ' | '\t'..='\r');
    step.trim_start_matches(is_space).parse().ok()
}
