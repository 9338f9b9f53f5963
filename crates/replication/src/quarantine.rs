//! Checks a replica's database before the proxy fills or follows it. The database must not be known
//! to differ from the primary, and must not be the primary itself. Also empties it.
//!
//! Invariant: a database that differed from the primary is followed again only after it was
//! emptied. This is so for every proxy, and after any restart.

use super::lineage;
use tokio_postgres::Client;

use super::query::{has_table, one};
use super::{ReplicationError, SLOT, Shared, connect, fence};
use pg_connect::address::Address;
use pg_wire::quoting::{literal, quoted};

/// Records in the replica's own database that it differs from the primary, with the reason.
pub async fn note(replica: &Address, why: &str) -> Result<(), ReplicationError> {
    let client = connect(replica, fence::EXTRACTOR).await?;
    let why = literal(why);
    let sql = format!(
        "SET standard_conforming_strings = on; SET default_transaction_read_only = off;
         CREATE SCHEMA IF NOT EXISTS hihooi;
         CREATE TABLE IF NOT EXISTS hihooi.difference (why text NOT NULL);
         INSERT INTO hihooi.difference VALUES ({why})"
    );
    Ok(client.batch_execute(&sql).await?)
}

/// Returns the reason why the database was found to differ; none if it was not.
pub async fn noted(replica: &Client) -> Result<Option<String>, ReplicationError> {
    if !has_table(replica, "difference").await? {
        return Ok(None);
    }
    let why = one(
        replica,
        "SELECT coalesce(min(why), '') FROM hihooi.difference",
    )
    .await?;
    Ok(Some(why))
}

/// Returns whether two connections reach the same database of the same server, whatever their
/// addresses. Both servers must accept writes.
pub async fn is_same(primary: &Client, replica: &Client) -> Result<bool, ReplicationError> {
    // A lock is seen only in its own database.
    let key = one(primary, "SELECT (random() * 9e18)::int8").await?;
    one(primary, &format!("SELECT pg_advisory_lock({key})::text")).await?;
    let lock = format!("SELECT pg_try_advisory_xact_lock({key})");
    let is_same = one(replica, &lock).await? == "f";
    one(primary, &format!("SELECT pg_advisory_unlock({key})")).await?;
    Ok(is_same)
}

/// Replaces the replica's database by an empty one, or creates it, with the primary's encoding and
/// collation. The new database is created before the old one is dropped.
pub async fn empty(shared: &Shared, replica: &Address) -> Result<(), ReplicationError> {
    let primary = connect(&shared.primary, "replex seed").await?;
    let name = &replica.database;
    let maintenance = Address {
        database: "template1".into(),
        ..replica.clone()
    };
    let server = connect(&maintenance, "replex seed").await?;
    let has = format!(
        "SELECT count(*) FROM pg_database WHERE datname = {}",
        literal(name)
    );
    // Only a database that is not there is surely not the primary's.
    if one(&server, &has).await? != "0" {
        let there = connect(replica, "replex seed").await?;
        refuse_primary(&primary, &there).await?;
        if lineage::has_replaced(&there, &lineage::line(&primary).await?).await? {
            return Err(lineage::replaced("this database"));
        }
    }
    let of_primary = |what: &str| {
        let sql = format!(
            "SELECT coalesce({what}, '') FROM pg_database d WHERE datname = current_database()"
        );
        let primary = &primary;
        async move { one(primary, &sql).await.map(|text| literal(&text)) }
    };
    let encoding = of_primary("pg_encoding_to_char(encoding)").await?;
    let (collate, ctype) = (
        of_primary("datcollate").await?,
        of_primary("datctype").await?,
    );
    // The column's name differs between versions.
    let icu = of_primary(
        "CASE to_jsonb(d)->>'datlocprovider' WHEN 'i'
         THEN coalesce(to_jsonb(d)->>'daticulocale', to_jsonb(d)->>'datlocale') END",
    );
    let icu = match icu.await?.as_str() {
        "''" => String::new(),
        locale => format!(" LOCALE_PROVIDER icu ICU_LOCALE {locale}"),
    };
    // As long for every name: PostgreSQL cuts long ones, and must not take this for the old one.
    let hash = one(&server, &format!("SELECT md5({})", literal(name))).await?;
    let (new, old) = (quoted(&format!("hihooi {hash}")), quoted(name));
    for sql in [
        format!("DROP DATABASE IF EXISTS {new}"),
        format!(
            "CREATE DATABASE {new} TEMPLATE template0 ENCODING {encoding} LC_COLLATE {collate} \
             LC_CTYPE {ctype}{icu}"
        ),
        // It may have been a primary's.
        format!(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
              WHERE slot_name = '{SLOT}' AND database = {} AND NOT active",
            literal(name)
        ),
        format!("DROP DATABASE IF EXISTS {old} WITH (FORCE)"),
        format!("ALTER DATABASE {new} RENAME TO {old}"),
    ] {
        let refused = |error: tokio_postgres::Error| match error.as_db_error() {
            Some(reported) => {
                ReplicationError::Setup(format!("cannot empty {old}: {}", reported.message()))
            }
            None => error.into(),
        };
        server.batch_execute(&sql).await.map_err(refused)?;
    }
    Ok(())
}

/// Fails if a database must not become a replica.
pub async fn refuse_primary(primary: &Client, replica: &Client) -> Result<(), ReplicationError> {
    if one(replica, "SELECT pg_is_in_recovery()").await? == "t" {
        return Err(ReplicationError::Setup(
            "it is a standby, which takes no writes: add it without EMPTY".into(),
        ));
    }
    match is_same(primary, replica).await? {
        true => Err(ReplicationError::Setup("it is the primary itself".into())),
        false => Ok(()),
    }
}
