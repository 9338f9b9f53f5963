//! The functions that statements about the catalogue can call.
//!
//! Each submodule has the functions of one subject, in a list with their types. Overloads are
//! entries of the same name; the first that takes the arguments is called.

mod arrays;
mod privileges;
mod schema;
mod session;
mod sets;
mod text;

use crate::catalogue::Calls;
use crate::datum::Datum;
use crate::description::Oid;
use crate::error::CatalogueError;

pub(crate) use arrays::{append, concat, prepend};
pub(crate) use sets::SETS;
pub(crate) use text::{check_length, like, regex};

/// The result of a call.
pub(crate) type Called = Result<Datum, CatalogueError>;

/// A function that returns one value.
pub(crate) struct Function {
    pub name: &'static str,
    /// The types of the arguments. `ANY` takes an argument of any type as a text.
    pub arguments: &'static [Oid],
    /// Whether the last argument can be there any number of times, but at least once.
    pub is_variadic: bool,
    /// Whether the result is NULL if an argument is.
    pub is_strict: bool,
    pub result: Oid,
    pub body: fn(Calls<'_>, &[Datum]) -> Called,
}

/// The rows of a function, or its error.
pub(crate) type CalledRows = Result<Vec<Vec<Datum>>, CatalogueError>;

/// A function that returns rows.
pub(crate) struct SetFunction {
    pub name: &'static str,
    pub arguments: &'static [Oid],
    pub columns: &'static [(&'static str, Oid)],
    /// Returns the rows. It returns no more than so many.
    pub body: fn(Calls<'_>, &[Datum], usize) -> CalledRows,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl std::fmt::Debug for SetFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Returns a function that is NULL if one of its arguments is.
const fn strict(
    name: &'static str,
    arguments: &'static [Oid],
    result: Oid,
    body: fn(Calls<'_>, &[Datum]) -> Called,
) -> Function {
    Function {
        name,
        arguments,
        is_variadic: false,
        is_strict: true,
        result,
        body,
    }
}

/// Returns a function that is called with NULLs, too.
const fn lenient(
    name: &'static str,
    arguments: &'static [Oid],
    result: Oid,
    body: fn(Calls<'_>, &[Datum]) -> Called,
) -> Function {
    Function {
        is_strict: false,
        ..strict(name, arguments, result, body)
    }
}

/// Returns a function with any number of arguments like the last.
const fn variadic(
    name: &'static str,
    arguments: &'static [Oid],
    result: Oid,
    body: fn(Calls<'_>, &[Datum]) -> Called,
) -> Function {
    Function {
        is_variadic: true,
        ..lenient(name, arguments, result, body)
    }
}

const LISTS: [&[Function]; 5] = [
    arrays::FUNCTIONS,
    privileges::FUNCTIONS,
    schema::FUNCTIONS,
    session::FUNCTIONS,
    text::FUNCTIONS,
];

/// Returns all functions that return one value.
pub(crate) fn all() -> impl Iterator<Item = &'static Function> {
    static ALL: [&[Function]; 5] = LISTS;
    ALL.iter().flat_map(|list| list.iter())
}

/// Returns the functions of a name that return one value.
pub(crate) fn named(name: &str) -> impl Iterator<Item = &'static Function> {
    all().filter(move |function| function.name == name)
}

/// Returns the functions of a name that return rows.
pub(crate) fn sets(name: &str) -> impl Iterator<Item = &'static SetFunction> {
    SETS.iter().filter(move |function| function.name == name)
}

fn null() -> Called {
    Ok(Datum::Null)
}

fn text_of(value: &Datum) -> &str {
    value.as_text().unwrap_or_default()
}

fn int_of(value: &Datum) -> i64 {
    value.as_int().unwrap_or_default()
}

fn oid_of(value: &Datum) -> Oid {
    value.as_oid().unwrap_or_default()
}
