//! `replex demo`: shows how Replex works, with real flights in a cluster of real processes.
//!
//! Each chapter does something, shows it as a table, and claims something about it. A claim is
//! checked, not assumed: the demo ends with the list of its claims, and with an error if one of
//! them did not hold.

mod chapters;
mod crash;
mod load;
mod loss;
mod ordered;
mod session;
mod store;
mod transfers;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use placement::{Value, percentile};
use replex::cluster::{Cluster, ClusterOptions, ProcessLife};
use replex::failure::CommandFailure;
use replex::say;

use crate::arguments::DemoArguments;
use crate::flights::{self, CREATE_TABLE};
use crate::story::Story;
use store::Flights;

/// Servers: one for each copy, so that losing any two of them loses no row.
const SERVERS: usize = 3;
/// Flights that are loaded before the crash, in hundredths of all.
const BEFORE_CRASH: usize = 75;

/// Runs `replex demo`. In a terminal it ends in a session of psql, or else of this program's shell.
pub fn demo(arguments: &DemoArguments) -> Result<(), CommandFailure> {
    let (cluster, verdict) = crate::run(run(arguments))?;
    if arguments.keep {
        print_how_to_go_on(cluster);
        return verdict;
    }
    let session = match session::is_wanted() {
        true => session::run(cluster.coordinator_address(), &own_program()?),
        false => Ok(()),
    };
    drop(cluster);
    say!("The cluster is stopped and its data removed.");
    say!("Leave it up and go on by hand: `{} demo --keep`", typed());
    verdict.and(session)
}

/// Tells the story. Returns the cluster, and an error if a claim of the story did not hold.
async fn run(
    arguments: &DemoArguments,
) -> Result<(Cluster, Result<(), CommandFailure>), CommandFailure> {
    let started = Instant::now();
    let mut story = Story::of_stdout();
    say!(
        "{}: a store that keeps several copies of every table, and makes each copy an index.",
        story.screen.bold("Replex")
    );
    if arguments.full {
        flights::check_year(&arguments.flights)?;
    }
    let options = ClusterOptions {
        parent: arguments.folder.clone(),
        servers: SERVERS,
        // The story shows the waiting processes, and when they go on.
        coordinator_arguments: ["--replace-after", "never"].map(str::to_owned).into(),
        server_arguments: ["--range-entries", ordered::RANGE_ENTRIES]
            .map(str::to_owned)
            .into(),
        life: if arguments.keep {
            ProcessLife::Detached
        } else {
            ProcessLife::WithParent
        },
        ..ClusterOptions::new(own_program()?)
    };
    let mut cluster = Cluster::start(options)
        .await
        .map_err(CommandFailure::at("start a cluster"))?;
    chapters::cluster(&mut story, &cluster).await?;
    let mut flights = Flights::create(cluster.coordinator_address(), CREATE_TABLE).await?;
    chapters::table(&mut story, &flights);

    let rows = rows(arguments, &flights)?;
    let early = rows.len() * BEFORE_CRASH / 100;
    chapters::load(&mut story, &mut flights, &rows[..early]).await?;
    chapters::lookups(&mut story, &flights, &rows[..early]).await?;
    let moved = chapters::moving(&mut story, &mut flights, &rows[..early]).await?;
    ordered::ordered(&mut story, &flights, &rows[..early]).await?;
    let (early_rows, late_rows) = rows.split_at(early);
    let acknowledged =
        crash::crash(&mut story, &mut cluster, &flights, early_rows, late_rows).await?;

    let mut expected: Vec<Vec<Value>> = early_rows.to_vec();
    expected.extend(acknowledged);
    moved.apply(&mut expected);
    story.chapter("Nothing is lost: every copy is read from the server that holds it");
    crash::compare(&mut story, &cluster, &flights, &expected).await?;
    transfers::transfers(&mut story, &mut cluster, &flights, &expected).await?;
    loss::loss(&mut story, &mut cluster, flights.schema(), &rows).await?;
    let verdict = story.verdict(started);
    Ok((cluster, verdict))
}

fn own_program() -> Result<PathBuf, CommandFailure> {
    std::env::current_exe().map_err(CommandFailure::at("find this program's own file"))
}

fn rows(arguments: &DemoArguments, flights: &Flights) -> Result<Vec<Vec<Value>>, CommandFailure> {
    let columns = &flights.schema().columns;
    if arguments.full {
        flights::year(&arguments.flights, columns)
    } else {
        flights::january(columns)
    }
}

/// Returns a percentile of some times; zero if there are no times.
fn percentile_of(times: &[Duration], share: f64) -> Duration {
    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    Duration::try_from_secs_f64(percentile(&seconds, share)).unwrap_or_default()
}

/// Returns the name by which this program was called, so that users can type the printed commands.
fn typed() -> String {
    std::env::args()
        .next()
        .unwrap_or_else(|| "replex".to_owned())
}

fn print_how_to_go_on(cluster: Cluster) {
    let (replex, address) = (typed(), cluster.coordinator_address().to_owned());
    let (folder, ids) = cluster.keep();
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    say!("The cluster stays up. Go on by hand:\n");
    say!("  export REPLEX_COORDINATOR={address}");
    say!("  {replex} sql");
    say!("  {replex} sql -c \"SELECT * FROM flights WHERE tailnum = 'N14228'\"");
    say!("  {replex} admin status");
    say!("  {replex} admin table show flights");
    say!("  {replex} admin check flights");
    say!("\nEnd it, and remove its data:\n");
    // At once: a process that ends cleanly might still write while its folder is removed.
    say!("  kill -9 {}", ids.join(" "));
    say!("  rm -r {}", folder.display());
}
