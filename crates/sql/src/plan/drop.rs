//! Plans `DROP TABLE`.

use protocol::configuration::Configuration;

use super::{StatementPlan, sequence};
use crate::error::SqlError;

/// A foreign key that is dropped because the table to which it refers is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeveredReference {
    /// The table that refers.
    pub child: String,
    /// The name of the foreign key.
    pub constraint: String,
    /// Whether this table stays.
    pub stays: bool,
}

/// Plans `DROP TABLE`.
pub(super) fn tables(
    names: &[String],
    if_exists: bool,
    cascade: bool,
    configuration: &Configuration,
) -> Result<StatementPlan, SqlError> {
    sequence::check_tables(names, configuration)?;
    let mut names = drop_order(names, configuration);
    sequence::users_first(&mut names, configuration);
    Ok(StatementPlan::DropTable {
        severed: severed(&names, cascade, configuration),
        names,
        if_exists,
    })
}

/// Returns tables in an order in which each can be dropped: one that refers to another before it.
/// The first ones are missing, then come those that cannot be dropped, so that an error comes
/// before anything is dropped.
fn drop_order(names: &[String], configuration: &Configuration) -> Vec<String> {
    let mut left: Vec<&String> = Vec::with_capacity(names.len());
    for name in names {
        if !left.contains(&name) {
            left.push(name);
        }
    }
    // The tables that refer to one; none if it does not exist.
    let children = |name: &String| {
        let table = configuration.table_named(name)?;
        Some(&table.schema.constraints.referenced_by)
    };
    left.sort_by_key(|name| {
        let goes = |children: &Vec<String>| children.iter().all(|child| names.contains(child));
        children(name).map(goes)
    });
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let is_free = |name: &&String| {
            let children = children(name).into_iter().flatten();
            let mut others = children.filter(|child| *child != *name);
            !others.any(|child| left.contains(&child))
        };
        let next = left.iter().position(is_free).unwrap_or(0);
        order.push(left.remove(next).clone());
    }
    order
}

/// Returns the foreign keys that are dropped before tables, which are in the order of their drop:
/// those of tables that refer to each other, and with `CASCADE` those of tables that stay.
fn severed(
    names: &[String],
    cascade: bool,
    configuration: &Configuration,
) -> Vec<SeveredReference> {
    let position = |name: &String| names.iter().position(|it| it == name);
    let mut severed = Vec::new();
    for child in configuration.tables.iter() {
        for key in &child.schema.constraints.foreign_keys {
            let (own, parent) = (position(&child.schema.name), position(&key.parent));
            let is_severed = match (own, parent) {
                (_, None) => false,
                (None, Some(_)) => cascade,
                (Some(own), Some(parent)) => own > parent,
            };
            if is_severed {
                severed.push(SeveredReference {
                    child: child.schema.name.clone(),
                    constraint: key.name.clone(),
                    stays: own.is_none(),
                });
            }
        }
    }
    severed
}
