//! Checks the requirements on a primary.

use tokio_postgres::Client;

use super::{DatabaseFindings, major, setting};
use pg_connect::address::Address;
use proxy_pool::{Connection, ConnectionKey, ServerLogin, StartSettings};
use replication::query::{self, one};
use replication::setup::{FIRING, FIX_FIRING, KEYLESS};
use replication::{ReplicationError, SLOT, dump_version};

/// Selects the relations whose reads only the primary can answer.
const PRIMARY_ONLY: &str = "
SELECT coalesce(string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid), '') FROM pg_class c
 WHERE (c.relkind IN ('m', 'f') OR c.relkind = 'r' AND c.relpersistence = 'u') AND c.oid >= 16384";

pub async fn look(
    notes: &mut DatabaseFindings,
    address: &Address,
    client: &Client,
) -> Result<(), ReplicationError> {
    if one(client, "SELECT pg_is_in_recovery()").await? == "t" {
        notes.stops(
            "it is a standby",
            "Name the database that takes writes, or promote this one.",
        );
        return Ok(());
    }
    notes.look_at_server(client).await?;
    match one(client, "SHOW wal_level").await?.as_str() {
        "logical" => notes.fine("wal_level = logical"),
        level => notes.stops(
            format!("wal_level = {level}"),
            "ALTER SYSTEM SET wal_level = logical, and restart it.",
        ),
    }
    slot(notes, client).await?;
    stream(notes, address, client).await?;
    match one(client, KEYLESS).await?.as_str() {
        "" => notes.fine("every table has a key"),
        tables => notes.stops(
            format!("tables without a key: {tables}"),
            "ALTER TABLE … ADD PRIMARY KEY, or ALTER TABLE … REPLICA IDENTITY FULL, for each.",
        ),
    }
    match one(client, FIRING).await?.as_str() {
        "" => {}
        firing => notes.stops(
            format!("ENABLE ALWAYS or ENABLE REPLICA, which would run again at replicas: {firing}"),
            format!("{FIX_FIRING}."),
        ),
    }
    match one(client, PRIMARY_ONLY).await?.as_str() {
        "" => {}
        names => notes.mind(
            format!("materialised views, unlogged and foreign tables: {names}"),
            "No action is needed: statements that read them stay on the primary.",
        ),
    }
    if one(client, "SHOW synchronous_commit").await? == "off" {
        notes.mind(
            "synchronous_commit = off: a commit reaches replicas only when it is on disk, up to \
             0.6 s later",
            "ALTER SYSTEM SET synchronous_commit = on, and SELECT pg_reload_conf().",
        );
    }
    tools(notes, client).await
}

/// Checks the slot from which the proxy reads commits.
async fn slot(notes: &mut DatabaseFindings, client: &Client) -> Result<(), ReplicationError> {
    let state = format!(
        "SELECT coalesce(max(CASE WHEN wal_status IN ('lost', 'unreserved') THEN wal_status
                                  WHEN plugin IS DISTINCT FROM 'pgoutput'
                                       OR database <> current_database()
                                  THEN 'other' WHEN active THEN 'active' ELSE 'free' END), 'none')
           FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
    );
    let drop = format!("SELECT pg_drop_replication_slot('{SLOT}'), then add replicas with EMPTY.");
    match one(client, &state).await?.as_str() {
        "none" => {
            let (max, used) = (
                setting(client, "max_replication_slots").await?,
                "SELECT count(*) FROM pg_replication_slots",
            );
            let used = query::number(&one(client, used).await?)?;
            match used < max {
                true => notes.fine(format!("{} replication slots are free", max - used)),
                false => notes.stops(
                    format!("all {max} replication slots are taken"),
                    format!(
                        "Set max_replication_slots = {} and restart it, or drop one.",
                        max + 1
                    ),
                ),
            }
        }
        "free" => notes.fine(format!("the slot {SLOT} is there, and no proxy reads it")),
        "active" => notes.mind(
            format!("the slot {SLOT} is read: a proxy is active in front of this database"),
            "Another proxy with the same options stands by for it.",
        ),
        "other" => notes.stops(
            format!("there is a slot {SLOT} that is of another kind, or of another database"),
            format!("SELECT pg_drop_replication_slot('{SLOT}'), if no proxy needs it."),
        ),
        lost => notes.stops(
            format!("the slot {SLOT} is {lost}: the log that replicas need is gone or going"),
            drop,
        ),
    }
    let kept = one(client, "SHOW max_slot_wal_keep_size").await?;
    match kept.as_str() {
        "-1" => notes.mind(
            "max_slot_wal_keep_size = -1: while a replica is offline, the log grows until the disk \
             is full",
            "Set it to the free space of the disk; a replica that is offline for longer is filled again.",
        ),
        size => notes.fine(format!("max_slot_wal_keep_size = {size}")),
    }
    Ok(())
}

/// Checks whether the log can be read from here.
async fn stream(
    notes: &mut DatabaseFindings,
    address: &Address,
    client: &Client,
) -> Result<(), ReplicationError> {
    let max = setting(client, "max_wal_senders").await?;
    let key = ConnectionKey {
        user: address.user.clone(),
        database: address.database.clone(),
        settings: StartSettings::default(),
        changed: StartSettings::default(),
    };
    let key = key.with([("replication".into(), "database".into())]);
    let password = address.password.clone();
    let opened = Connection::open(address, &key, &ServerLogin { password }).await;
    match opened {
        Ok(_) => notes.fine("its log can be read from here"),
        Err(report) if report.code == "53300" => notes.stops(
            format!("all {max} senders of its log are taken"),
            format!("Set max_wal_senders = {} and restart it.", max + 2),
        ),
        Err(report) => notes.stops(
            format!("its log cannot be read from here: {report}"),
            "Let this user in by pg_hba.conf for its database, and give it the right REPLICATION.",
        ),
    }
    Ok(())
}

/// Checks the tools that fill replicas.
async fn tools(notes: &mut DatabaseFindings, client: &Client) -> Result<(), ReplicationError> {
    let version = major(client).await?;
    let install = format!("apt-get install postgresql-client-{version}, or newer.");
    match dump_version().await {
        Some(found) if found >= version => notes.fine(format!("pg_dump {found} is installed here")),
        Some(found) => notes.stops(
            format!("pg_dump {found} is installed here, older than the primary's {version}"),
            install,
        ),
        None => notes.stops("pg_dump is not installed here", install),
    }
    Ok(())
}
