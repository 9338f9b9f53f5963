//! Checks the requirements on a database that will be a replica.

use tokio_postgres::Client;

use super::{DatabaseFindings, major, texts};
use proxy_core::freshness::Tsid;
use replication::setup::{self, ReplicaStart};
use replication::{ReplicationError, has_tables, is_same, noted_difference, refused_standby};
use replication::{lineage, query};

const EMPTY: &str = "ADD REPLICA '…' EMPTY drops its contents and fills it; or empty it by hand.";

/// Checks a replica, and adds the findings to `notes`. Without a connection to the primary, the
/// replica is not compared with it.
pub async fn look(
    notes: &mut DatabaseFindings,
    primary: Option<&Client>,
    client: &Client,
) -> Result<(), ReplicationError> {
    if query::one(client, "SELECT pg_is_in_recovery()").await? == "t" {
        let refused = match primary {
            Some(primary) => refused_standby(primary, client).await?,
            None => None,
        };
        match refused {
            Some(why) => notes.stops(why, "Name a standby of the primary, or an empty database."),
            None => notes.fine("it is a standby, and is followed as it is"),
        }
        notes.look_at_server(client).await?;
        return Ok(());
    }
    if let Some(primary) = primary
        && query::one(primary, "SELECT pg_is_in_recovery()").await? == "f"
        && is_same(primary, client).await?
    {
        notes.stops("it is the primary itself", "Name another database.");
        return Ok(());
    }
    notes.look_at_server(client).await?;
    contents(notes, primary, client).await?;
    let Some(primary) = primary else {
        return Ok(());
    };
    let (here, there) = (major(client).await?, major(primary).await?);
    if here < there {
        notes.mind(
            format!("PostgreSQL {here}, older than the primary's {there}"),
            "Upgrade it: it may not know new features of the primary.",
        );
    }
    let expected = texts(primary).await?;
    for (name, found) in texts(client).await? {
        let expected = &expected[name];
        if found != *expected {
            notes.mind(
                format!("its {name} is {found}, the primary's is {expected}: answers may be ordered otherwise"),
                "Add it with EMPTY, which makes a database like the primary's.",
            );
        }
    }
    Ok(())
}

/// Checks by the replica's contents whether the proxy can fill it, or continue to replicate to it.
async fn contents(
    notes: &mut DatabaseFindings,
    primary: Option<&Client>,
    client: &Client,
) -> Result<(), ReplicationError> {
    if let Some(why) = noted_difference(client).await? {
        notes.stops(format!("it was found to differ: {why}"), EMPTY);
        return Ok(());
    }
    if let Some(primary) = primary {
        let line = lineage::line(primary).await?;
        if lineage::has_replaced(client, &line).await? {
            let fix = "Name it by --primary, and see that the old one is not started again.";
            notes.stops("it was promoted to be the primary", fix);
            return Ok(());
        }
        let follows = lineage::follows(client).await?;
        if follows.is_some_and(|follows| follows != line) {
            notes.stops("it is a replica of another primary", EMPTY);
            return Ok(());
        }
    }
    match setup::applied(client).await? {
        Some(ReplicaStart { applied, .. }) => {
            let confirmed = match primary {
                Some(primary) => setup::confirmed(primary).await?,
                None => Tsid(0),
            };
            match confirmed <= applied {
                true => notes.fine(format!("it was filled before, and goes on at {applied}")),
                false => notes.stops(
                    format!("it was filled before, up to {applied}, but the primary has no log from there"),
                    EMPTY,
                ),
            }
        }
        None if has_tables(client).await? => notes.stops(
            "its database has tables, but was not filled by the proxy",
            EMPTY,
        ),
        None => notes.fine("it is empty, and will be filled"),
    }
    Ok(())
}
