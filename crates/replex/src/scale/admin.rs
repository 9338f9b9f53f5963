//! `replex scale admin`: one command for a running proxy's console, and its answer as a table.

use replex::failure::Failure;
use scale::address::Address;
use scale::console::client;
use scale::replication::Error;

use super::arguments::Admin;
use crate::output::Screen;

/// `replex scale admin`
pub async fn run(arguments: &Admin) -> Result<(), Failure> {
    let address = Address::parse(&arguments.proxy).map_err(Failure::Usage)?;
    let told = client::ask(&address, &arguments.words.join(" ")).await;
    let told = told.map_err(|error| match error {
        Error::Connection(what) => Failure::Unreachable(format!(
            "the proxy at {address} does not answer: {what}. Name it by --proxy URL"
        )),
        other => Failure::Failed(other.to_string()),
    })?;
    for notice in &told.notices {
        eprintln!("note: {notice}");
    }
    if told.columns.is_empty() {
        println!("done");
        return Ok(());
    }
    let header: Vec<&str> = told.columns.iter().map(String::as_str).collect();
    let rows = told.rows.into_iter();
    let rows = rows.map(|row| row.into_iter().map(Option::unwrap_or_default).collect());
    let rows: Vec<Vec<String>> = rows.collect();
    print!("{}", Screen::of_stdout().table(&header, &rows));
    Ok(())
}
