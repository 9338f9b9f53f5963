//! The chapters of the demo, in order.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pg_local::Postgres;
use replex::failure::CommandFailure;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::load::{DemoLoad, LoadSeen, connect, value};
use super::{DATABASE, LOOK_INTERVAL, PATIENCE, Stage, start_postgres};
use crate::output::{ShortDuration, count, plural};
use crate::story::Story;

/// How long the load is watched at a time.
const WATCH: Duration = Duration::from_secs(3);

/// Databases and proxy.
pub async fn stage(story: &mut Story) -> Result<Stage, CommandFailure> {
    story.chapter("A primary, two empty databases, and the proxy in front");
    let stage = Stage::build().await?;
    let mut rows = vec![vec![
        "primary".to_owned(),
        stage.primary.socket().to_string(),
        stage.primary.process().unwrap_or(0).to_string(),
    ]];
    for (number, replica) in (1..).zip(&stage.replicas) {
        rows.push(vec![
            format!("replica {number}"),
            replica.socket().to_string(),
            replica.process().unwrap_or(0).to_string(),
        ]);
    }
    rows.push(vec![
        "transactions buffer".into(),
        stage.store.coordinator_address().to_owned(),
        stage.store.server(0).id().to_string(),
    ]);
    let proxy = stage.proxy.to_string();
    rows.push(vec!["proxy".into(), proxy, std::process::id().to_string()]);
    story.show(&["what", "address", "#process"], &rows);
    story.say(story.screen.dim(format!(
        "psql -h {} -p {} -U {} {DATABASE}      and its console: … hihooi",
        stage.proxy.host, stage.proxy.port, stage.proxy.user
    )));
    for replica in &stage.replicas {
        stage.add(replica).await?;
    }
    for number in [1, 2] {
        stage.wait(story, number, "serving").await?;
    }
    Ok(stage)
}

/// Shows the notices of `SET replex.trace = on` for single statements.
pub async fn routing(story: &mut Story, stage: &Stage) -> Result<(), CommandFailure> {
    story.chapter("Each statement goes where it must, and reports why");
    let failed =
        |error: tokio_postgres::Error| CommandFailure::Failed(format!("a statement: {error}"));
    let proxy = &stage.proxy;
    let mut config = tokio_postgres::Config::new();
    config.host(&proxy.host).port(proxy.port);
    config.user(&proxy.user).dbname(&proxy.database);
    let (client, mut connection) = config.connect(NoTls).await.map_err(failed)?;
    let (notices_in, mut notices) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if let AsyncMessage::Notice(notice) = message {
                // A receiver that is gone needs no notice.
                let _ = notices_in.send(notice);
            }
        }
    });
    let trace = "SET replex.trace = on";
    client.batch_execute(trace).await.map_err(failed)?;
    let mut rows = Vec::new();
    let mut touched = Vec::new();
    for statement in [
        "SELECT name FROM country WHERE id = 7",
        "UPDATE account SET note = 'seen' WHERE id = 7",
        "SELECT note FROM account WHERE id = 7",
        "SELECT name FROM country WHERE id = 8",
        "SELECT nextval('entry_id_seq')",
        "SELECT count(*) FROM pg_class",
    ] {
        client.simple_query(statement).await.map_err(failed)?;
        let Some(notice) = notices.recv().await else {
            return Err(CommandFailure::Failed(format!(
                "{statement}: no notice came"
            )));
        };
        let touches = notice.detail().unwrap_or_default().replace("public.", "");
        let output = notice.message().trim_start_matches("replex: ");
        let (server, why) = output.split_once(", ").unwrap_or((output, ""));
        let server = server.trim_start_matches("the ");
        rows.push([statement, server, why].map(str::to_owned).to_vec());
        touched.push([statement, &touches].map(str::to_owned).to_vec());
    }
    story.show(&["statement", "touches"], &touched);
    story.show(&["statement", "went to", "why"], &rows);
    let went = |at: usize| rows[at][1].clone();
    story.claim(
        "The update went to the primary, reads of unwritten rows went to replicas",
        went(1) == "primary" && went(0).starts_with("rep") && went(3).starts_with("rep"),
    );
    Ok(())
}

/// Starts clients that read and write until the end of the demo.
pub async fn load(story: &mut Story, stage: &Stage) -> Result<DemoLoad, CommandFailure> {
    story.chapter("Clients read and write through the proxy, and go on from here to the end");
    let load = DemoLoad::start(&stage.proxy).await?;
    let routes = watch(story, stage, &load).await?;
    let mut rows = Vec::new();
    for ((server, why), batches) in &routes {
        rows.push(vec![server.clone(), why.clone(), count(*batches)]);
    }
    story.show(&["server", "why", "#batches"], &rows);
    let at_replicas = routes.iter().filter(|((server, _), _)| server != "primary");
    let at_replicas: u64 = at_replicas.map(|(_, batches)| batches).sum();
    story.claim("Both replicas answered reads", at_replicas > 0);
    Ok(load)
}

/// Prints the load's figures each second. Returns the numbers of batches during this time, by
/// server and by reason.
async fn watch(
    story: &Story,
    stage: &Stage,
    load: &DemoLoad,
) -> Result<BTreeMap<(String, String), u64>, CommandFailure> {
    let first = routes(stage).await?;
    let mut before = first.clone();
    let begun = Instant::now();
    while begun.elapsed() < WATCH {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = routes(stage).await?;
        let mut servers: BTreeMap<&str, u64> = BTreeMap::new();
        for ((server, why), batches) in &now {
            let known = before.get(&(server.clone(), why.clone())).unwrap_or(&0);
            *servers.entry(server).or_default() += batches - known;
        }
        let servers = servers.into_iter();
        let servers: Vec<String> = servers
            .map(|(server, batches)| format!("{server} {}", count(batches)))
            .collect();
        story.say(format!(
            "{} so far; in this second: {}",
            plural(load.seen.commits.load(Ordering::Relaxed), "commit"),
            servers.join(", ")
        ));
        before = now;
    }
    let mut routes = before;
    for (route, batches) in &mut routes {
        *batches -= first.get(route).unwrap_or(&0);
    }
    routes.retain(|_, batches| *batches > 0);
    Ok(routes)
}

/// Returns the numbers of batches by server and by reason.
async fn routes(stage: &Stage) -> Result<BTreeMap<(String, String), u64>, CommandFailure> {
    let output = stage.ask("SHOW ROUTES").await?;
    let rows = output.rows.into_iter().map(|row| {
        let text = |at: usize| row[at].clone().unwrap_or_default();
        ((text(0), text(1)), text(2).parse().unwrap_or(0))
    });
    Ok(rows.collect())
}

/// Adds a replica while the load continues.
pub async fn third(
    story: &mut Story,
    stage: &mut Stage,
    load: &DemoLoad,
) -> Result<(), CommandFailure> {
    story.chapter("A third replica is added under load");
    let commits = || load.seen.commits.load(Ordering::Relaxed);
    let replica = start_postgres(&[]).await?;
    let (begun, before) = (Instant::now(), commits());
    let url = stage.add(&replica).await?;
    story.say(story.screen.dim(format!("ADD REPLICA '{url}'")));
    stage.replicas.push(replica);
    stage.wait(story, 3, "serving").await?;
    let (took, meanwhile) = (begun.elapsed(), commits() - before);
    story.claim(
        format!(
            "It was filled in {}, while {} were answered",
            ShortDuration(took),
            plural(meanwhile, "transaction")
        ),
        meanwhile > 0,
    );
    let routes = watch(story, stage, load).await?;
    let is_third = |((server, _), _): &(&(String, String), &u64)| server == "replica 3";
    let served = routes
        .iter()
        .find(is_third)
        .map_or(0, |(_, batches)| *batches);
    let text = format!("It answers reads: {} so far", count(served));
    story.claim(text, served > 0);
    Ok(())
}

/// Kills a replica and starts it again.
pub async fn kill(
    story: &mut Story,
    stage: &mut Stage,
    load: &DemoLoad,
) -> Result<(), CommandFailure> {
    story.chapter("A replica is killed and started again");
    let of = |seen: &LoadSeen| {
        (
            seen.commits.load(Ordering::Relaxed),
            seen.lost.load(Ordering::Relaxed),
        )
    };
    let before = of(&load.seen);
    let process = stage.replicas[0].process().unwrap_or(0);
    story.say(story.screen.dim(format!("kill -9 {process}")));
    with_first(stage, Postgres::crash).await?;
    stage.wait(story, 1, "unavailable").await?;
    watch(story, stage, load).await?;
    let now = of(&load.seen);
    story.claim(
        format!(
            "{} were answered without it; {} failed, those that ran there",
            plural(now.0 - before.0, "transaction"),
            plural(now.1 - before.1, "read")
        ),
        now.0 > before.0 && load.seen.failed.load(Ordering::Relaxed) == 0,
    );
    let lacks = wait_until_forgotten(stage).await?;
    story.claim(
        format!(
            "The primary keeps no log for it: the transactions buffer has the {} kB that it lacks",
            count(lacks / 1000)
        ),
        lacks > 0,
    );
    with_first(stage, move |postgres| postgres.start_again()).await?;
    let begun = Instant::now();
    stage.wait(story, 1, "serving").await?;
    story.say(format!(
        "it serves again {} after its start",
        ShortDuration(begun.elapsed())
    ));
    Ok(())
}

/// Waits until the primary has forgotten the log that the first replica lacks; how much of that
/// the buffer has, in bytes of the log.
async fn wait_until_forgotten(stage: &Stage) -> Result<u64, CommandFailure> {
    let failed = |error: tokio_postgres::Error| {
        CommandFailure::Failed(format!("looking at the slot: {error}"))
    };
    let primary = connect(&stage.primary.address(DATABASE)).await?;
    let begun = Instant::now();
    loop {
        let lag = stage.ask("SHOW LAG").await?;
        let has = lag
            .rows
            .first()
            .and_then(|row| row[3].clone())
            .unwrap_or_default();
        let buffer = stage.buffer().await?;
        let sql = format!(
            "SELECT confirmed_flush_lsn > '{has}' AND '{}' <= '{has}'::pg_lsn, ('{}'::pg_lsn - '{has}')::int8
               FROM pg_replication_slots WHERE slot_name = 'hihooi'",
            buffer.from, buffer.until
        );
        let row = primary.query_one(&sql, &[]).await.map_err(failed)?;
        if row.get(0) {
            return Ok(u64::try_from(row.get::<_, i64>(1)).unwrap_or(0));
        }
        if begun.elapsed() > PATIENCE {
            let text = "the primary still keeps its log for the offline replica";
            return Err(CommandFailure::Failed(text.into()));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Kills the transactions buffer and starts it again.
pub async fn buffer(
    story: &mut Story,
    stage: &mut Stage,
    load: &DemoLoad,
) -> Result<(), CommandFailure> {
    story.chapter("The transactions buffer is killed and started again");
    let failed = CommandFailure::at("kill or start the store");
    let commits = || load.seen.commits.load(Ordering::Relaxed);
    let (before, had) = (commits(), stage.buffer().await?.until);
    let process = stage.store.server(0).id();
    story.say(story.screen.dim(format!("kill -9 {process}")));
    stage.store.kill(0).await.map_err(failed)?;
    watch(story, stage, load).await?;
    let meanwhile = commits() - before;
    story.claim(
        format!(
            "{} were answered without it, and none failed",
            plural(meanwhile, "transaction")
        ),
        meanwhile > 0 && load.seen.failed.load(Ordering::Relaxed) == 0,
    );
    let failed = CommandFailure::at("kill or start the store");
    stage.store.restart(0).await.map_err(failed)?;
    let begun = Instant::now();
    let failed =
        |error: tokio_postgres::Error| CommandFailure::Failed(format!("comparing places: {error}"));
    let primary = connect(&stage.primary.address(DATABASE)).await?;
    let now = "SELECT pg_current_wal_insert_lsn()::text";
    let now = value(&primary, now).await.map_err(failed)?;
    let kept = loop {
        let kept = stage.buffer().await?;
        let has = format!("SELECT '{}'::pg_lsn >= '{now}'::pg_lsn", kept.until);
        let has = value(&primary, &has).await.map_err(failed)?;
        if has == "t" && kept.doing == "serving" {
            break kept;
        }
        if begun.elapsed() > PATIENCE {
            return Err(CommandFailure::Failed(format!(
                "the transactions buffer does not catch up: {}",
                kept.doing
            )));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    };
    let took = begun.elapsed();
    let has = format!("SELECT '{}'::pg_lsn <= '{had}'::pg_lsn", kept.from);
    let has = value(&primary, &has).await.map_err(failed)?;
    let text = "It has its earlier commits, and all commits since";
    story.claim(
        format!("{text}, {} after its start", ShortDuration(took)),
        has == "t",
    );
    Ok(())
}

/// Does something to the first replica that takes a while.
async fn with_first(
    stage: &mut Stage,
    work: impl FnOnce(&mut Postgres) -> std::io::Result<()> + Send + 'static,
) -> Result<(), CommandFailure> {
    let mut postgres = stage.replicas.remove(0);
    let done = tokio::task::spawn_blocking(move || {
        let done = work(&mut postgres);
        (postgres, done)
    });
    let (postgres, done) = done.await.map_err(CommandFailure::at("kill or start it"))?;
    stage.replicas.insert(0, postgres);
    done.map_err(CommandFailure::at("kill or start it"))
}

/// The tables that are compared.
const TABLES: [&str; 4] = ["account", "counter", "country", "entry"];

/// Ends the load, and compares every table of all databases.
pub async fn compare(
    story: &mut Story,
    stage: &Stage,
    load: DemoLoad,
) -> Result<(), CommandFailure> {
    story.chapter("The load ends, and every table of every database is compared");
    let seen = std::sync::Arc::clone(&load.seen);
    let answered = load.stop().await;
    let failed =
        |error: tokio_postgres::Error| CommandFailure::Failed(format!("comparing: {error}"));
    let primary = connect(&stage.primary.address(DATABASE)).await?;
    let mut replicas = Vec::new();
    for replica in &stage.replicas {
        replicas.push(connect(&replica.address(DATABASE)).await?);
    }
    wait_until_equal(&primary, &replicas).await?;
    let (mut rows, mut is_equal) = (Vec::new(), true);
    for table in TABLES {
        let sum = |client| sum(client, table);
        let expected = sum(&primary).await.map_err(failed)?;
        for (number, client) in (0..).zip(std::iter::once(&primary).chain(&replicas)) {
            let found = sum(client).await.map_err(failed)?;
            is_equal &= found == expected;
            let place = match number {
                0 => "primary".to_owned(),
                number => format!("replica {number}"),
            };
            rows.push(vec![table.to_owned(), place, found.0, found.1]);
        }
    }
    story.show(&["table", "database", "#rows", "#checksum"], &rows);
    story.claim(
        "Count and checksum of each table are equal in all four databases",
        is_equal,
    );
    let counted = value(&primary, "SELECT sum(n) FROM counter")
        .await
        .map_err(failed)?;
    story.claim(
        format!(
            "Each of the {} transactions that were answered is there",
            count(answered)
        ),
        counted == answered.to_string(),
    );
    let number = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    story.claim(
        format!(
            "None of {} reads missed an earlier acknowledged commit",
            count(number(&seen.reads))
        ),
        number(&seen.stale) == 0,
    );
    story.claim(
        "No read saw a transaction in parts",
        number(&seen.torn) == 0,
    );
    Ok(())
}

/// Returns the count and the checksum of a table's rows.
async fn sum(client: &Client, table: &str) -> Result<(String, String), tokio_postgres::Error> {
    let settings = "SET timezone = 'UTC'; SET extra_float_digits = 3";
    client.batch_execute(settings).await?;
    let rows = value(client, &format!("SELECT count(*) FROM {table}")).await?;
    let sum =
        format!("SELECT coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM {table} t");
    Ok((rows, value(client, &sum).await?))
}

/// Waits until the last commit is everywhere: nothing is written any more.
async fn wait_until_equal(primary: &Client, replicas: &[Client]) -> Result<(), CommandFailure> {
    let failed =
        |error: tokio_postgres::Error| CommandFailure::Failed(format!("comparing: {error}"));
    let last =
        "SELECT count(*) || ' ' || max(id) || ' ' || (SELECT sum(n) FROM counter) FROM entry";
    let expected = value(primary, last).await.map_err(failed)?;
    let begun = Instant::now();
    for client in replicas {
        while value(client, last).await.map_err(failed)? != expected && begun.elapsed() < PATIENCE {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
    Ok(())
}
