//! A tour of the client against a running cluster: a table with three keys, rows found by each of
//! them, a row that moves, a range, a conditional update, a scan, and the checksums of all copies.
//!
//! ```text
//! cargo run -p client --example flights -- 127.0.0.1:7400
//! ```
//! It takes the coordinator's address. It leaves out everything about starting a cluster.

use std::ops::Bound;

use client::{
    Assignment, BinaryOperator, Client, ColumnType, ConnectOptions, Error, Expression, IfExists,
    IfMissing, RequestResult, SchemaBuilder, Value,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(coordinator) = std::env::args().nth(1) else {
        return Err("usage: flights COORDINATOR_ADDRESS".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for line in runtime.block_on(tour(&coordinator))? {
        println!("{line}");
    }
    Ok(())
}

/// The tour; returns its observations, line by line.
// tidy: long — an example, read from top to bottom
pub async fn tour(coordinator: &str) -> Result<Vec<String>, Error> {
    let mut seen = Vec::new();
    let client = Client::connect(ConnectOptions::new([coordinator])).await?;
    client.drop_table("tour", IfMissing::Accept).await?;
    let schema = SchemaBuilder::new("tour")
        .column("id", ColumnType::Int64)
        .column("tail", ColumnType::Text)
        .column("origin", ColumnType::Text)
        .column("delay", ColumnType::Int64)
        .primary_key(&["id"])
        .index("tour_by_tail", &["tail"])
        .index("tour_by_route", &["origin", "delay"])
        .partitions(4)
        .build()?;
    let flights = client.create_table(schema, IfExists::Fail).await?;

    // Many writes in flight: each is one chain through all copies, run exactly once.
    let row = |id: i64| {
        vec![
            Value::Int64(id),
            Value::Text(format!("N{}", id % 10)),
            Value::Text("EWR".into()),
            Value::Int64(id % 7),
        ]
    };
    let mutations = (0..200).map(|id| flights.insertion(&row(id)));
    let mutations = mutations.collect::<Result<Vec<_>, Error>>()?;
    for result in flights.execute_all(mutations, 64).await {
        assert!(matches!(result?, RequestResult::Applied { .. }));
    }

    // Any key finds its rows in one hop.
    let by_tail = flights.lookup("tour_by_tail", &[Value::Text("N3".into())])?;
    seen.push(format!("N3 flew {} times", by_tail.await?.len()));
    let key = [Value::Text("EWR".into()), Value::Int64(6)];
    let by_route = flights.lookup("tour_by_route", &key)?.count().await?;
    seen.push(format!("{by_route} flights from EWR were 6 minutes late"));

    // Rows between two keys come from every partition, in the order of the index.
    let from = [Value::Text("EWR".into()), Value::Int64(5)];
    let late = flights.range("tour_by_route", Bound::Included(&from), Bound::Unbounded)?;
    let last = late.clone().descending().limit(1).await?;
    seen.push(format!(
        "{} were 5 minutes late or more, the last of them number {}",
        late.count().await?,
        last[0].values[0]
    ));

    // A changed key moves the row: the old lookup no longer has it, the new one does.
    let delay = flights.column("delay")?;
    let rename = Assignment {
        column: flights.column("tail")?,
        value: Expression::Literal(Value::Text("N777".into())),
    };
    let renamed = flights
        .update(&[Value::Int64(3)], vec![rename], None)
        .await?;
    if !matches!(renamed, RequestResult::Applied { .. }) {
        seen.push(flights.explain(&renamed));
    }
    for tail in ["N3", "N777"] {
        let rows = flights.lookup("tour_by_tail", &[Value::Text(tail.into())])?;
        seen.push(format!("{tail} has {} flights", rows.await?.len()));
    }

    // Compare and set, evaluated under the row's lock.
    let is_3 = Expression::Binary(
        BinaryOperator::Equal,
        Box::new(Expression::Column(delay)),
        Box::new(Expression::Literal(Value::Int64(3))),
    );
    let one_more = Assignment {
        column: delay,
        value: Expression::Binary(
            BinaryOperator::Add,
            Box::new(Expression::Column(delay)),
            Box::new(Expression::Literal(Value::Int64(1))),
        ),
    };
    for _ in 0..2 {
        let changes = vec![one_more.clone()];
        let result = flights
            .update(&[Value::Int64(3)], changes, Some(is_3.clone()))
            .await?;
        let applied = matches!(result, RequestResult::Applied { .. });
        seen.push(format!("compare and set: {applied}"));
    }
    // A key that exists already is a result, and no error: nothing was written.
    match flights.insert(&row(3)).await? {
        RequestResult::Applied { version } => seen.push(format!("version {}", version.0)),
        other => seen.push(flights.explain(&other)),
    }

    // A scan is called by its name, and comes page by page.
    let mut rows = flights.scan().ascending().limit(150).rows()?;
    let mut last = None;
    let mut count = 0;
    while let Some(row) = rows.next().await? {
        assert!(Some(&row.values[0]) > last.as_ref(), "in the order of ids");
        last = Some(row.values[0].clone());
        count += 1;
    }
    seen.push(format!(
        "the first {count} rows end with id 149: {}",
        last == Some(Value::Int64(149))
    ));

    // Every copy holds the same rows.
    let sums = flights.checksums().await?;
    let equal = sums.iter().all(|(_, sum)| *sum == sums[0].1);
    seen.push(format!(
        "{} copies of {} rows are equal: {equal}",
        sums.len(),
        sums[0].1.count
    ));
    client.drop_table("tour", IfMissing::Fail).await?;
    Ok(seen)
}
