//! How quickly an Extension makes up for what was written while the proxy was away, with one
//! connection, which is serial replay, and with several (H5).
//!
//! The load is TPC-C's two transactions that write most, New-Order and Payment, as often as there (45 to
//! 43), over ten warehouses: it goes to the Primary directly while there is no proxy. Orders have ten
//! lines, which is TPC-C's mean, customers are found by number, and reads that leave nothing behind are
//! left out. The time is that between two commits at the Extension, the first and the last of what
//! it missed, by its own clock.
//!
//! And how long an Extension takes for one statement that changes many rows, beside what that took at the
//! Primary.

use std::fmt::Write;
use std::io;
use std::time::Instant;

use super::databases::{Site, ask, await_row, connect};
use super::pgbench::{Load, Script};
use crate::command::Options;
use crate::pairs::Figures;
use crate::plot::{Lines, Scale};
use crate::report::Report;

/// Connections at the Extension. The first is serial replay, the third what the proxy has unless told
/// otherwise.
const CONNECTIONS: [usize; 4] = [1, 2, 4, 8];
const DEFAULT: usize = 4;
const CLIENTS: usize = 8;
/// The paper has 500; with one, every payment waits for the one before.
const WAREHOUSES: u64 = 10;
const DISTRICTS: u64 = 10;
/// Of each district; TPC-C has 3,000.
const CUSTOMERS: u64 = 300;
/// TPC-C has 100,000.
const ITEMS: u64 = 2_000;
const LINES: u64 = 10;
/// Rows that one statement changes.
const MANY: u64 = 50_000;

/// Statements that change many rows of `many`, one after the other.
fn statements() -> [(&'static str, String); 3] {
    let insert = format!(
        "INSERT INTO many SELECT n, n % 100, 'row ' || n, now() FROM generate_series(1, {MANY}) n"
    );
    let update = "UPDATE many SET kind = kind + 1, changed = now()";
    [
        ("INSERT", insert),
        ("UPDATE", update.to_owned()),
        ("DELETE", "DELETE FROM many".to_owned()),
    ]
}

/// `replex bench scale replay`
pub async fn run(options: &Options) -> io::Result<Report> {
    let base = options.base();
    std::fs::create_dir_all(&base)?;
    let settings = ["track_commit_timestamp=on"];
    let mut site = Site::start(&base, &schema(), (1, &settings)).await?;
    let mut measured = CONNECTIONS.map(|_| Figures::default());
    let mut run = 0;
    for _ in 0..options.pairs {
        for (connections, figures) in CONNECTIONS.into_iter().zip(&mut measured) {
            run += 1;
            figures.push(rate(&mut site, (run, connections), options).await?);
        }
    }
    let many = many_rows(&site, options).await?;
    let mut report = Report::default();
    let serial = ("serial", &measured[0]);
    for (connections, figures) in CONNECTIONS.into_iter().zip(&measured) {
        let what = format!("replay on {connections} at a time");
        let own = (figures, "1/s");
        match connections {
            1 => report.plain("", &what, figures, "1/s"),
            DEFAULT => report.pair(("H5", "≥ 1.7 ×"), &what, own, serial),
            _ => report.pair(("", ""), &what, own, serial),
        }
    }
    for ((name, _), [primary, extension]) in statements().into_iter().zip(&many) {
        let what = format!("{name} of {MANY} rows: from its answer until the Extension has it");
        report.pair(
            ("", ""),
            &what,
            (extension, "s"),
            ("the statement itself", primary),
        );
    }
    let points = CONNECTIONS.into_iter().zip(&measured);
    let points = points.map(|(count, figures)| (count as f64, figures.median()));
    let plot = Lines {
        title: "New-Order and Payment of TPC-C, replayed at one Extension".to_owned(),
        x: "connections".to_owned(),
        y: "transactions per second".to_owned(),
        x_scale: Scale::Linear,
        series: vec![("replay".to_owned(), points.collect())],
    };
    options.draw_lines("scale-replay", &plot)?;
    Ok(report)
}

/// For each statement that changes many rows, how long it takes at the Primary, and from there until the
/// Extension has it; seconds.
async fn many_rows(site: &Site, options: &Options) -> io::Result<[[Figures; 2]; 3]> {
    let primary = connect(site.primary.socket()).await?;
    let extension = connect(site.extensions[0].socket()).await?;
    let mut measured = statements().map(|_| [Figures::default(), Figures::default()]);
    for run in 0..options.pairs {
        for (number, (_, statement)) in statements().into_iter().enumerate() {
            let name = format!("many {run}");
            let marked =
                format!("BEGIN; {statement}; INSERT INTO run VALUES ({number}, '{name}'); COMMIT");
            let begun = Instant::now();
            ask(&primary, &marked).await?;
            measured[number][0].push(begun.elapsed().as_secs_f64());
            let answered = Instant::now();
            let there = format!("SELECT 1 FROM run WHERE number = {number} AND what = '{name}'");
            await_row(&extension, &there).await?;
            measured[number][1].push(answered.elapsed().as_secs_f64());
        }
    }
    Ok(measured)
}

/// Has the Extension miss a load, and gives how many transactions a second it makes up for.
async fn rate(
    site: &mut Site,
    (run, connections): (u64, usize),
    options: &Options,
) -> io::Result<f64> {
    let primary = connect(site.primary.socket()).await?;
    site.stop_proxy()?;
    ask(
        &primary,
        &format!("INSERT INTO run VALUES ({run}, 'begun')"),
    )
    .await?;
    let sample = load(options).run(site.primary.socket(), &[]).await?;
    ask(
        &primary,
        &format!("INSERT INTO run VALUES ({run}, 'ended')"),
    )
    .await?;
    let connections = connections.to_string();
    site.start_proxy(&["--replay-connections", &connections])
        .await?;
    let extension = connect(site.extensions[0].socket()).await?;
    let took = format!(
        "SELECT extract(epoch FROM pg_xact_commit_timestamp(ended.xmin)
                                 - pg_xact_commit_timestamp(begun.xmin))
           FROM run begun, run ended
          WHERE begun.number = {run} AND begun.what = 'begun'
            AND ended.number = {run} AND ended.what = 'ended'"
    );
    let seconds: f64 = await_row(&extension, &took)
        .await?
        .parse()
        .map_err(io::Error::other)?;
    Ok(sample.operations as f64 / seconds)
}

fn load(options: &Options) -> Load {
    let mut load = Load::of(&new_order(), 0, CLIENTS, options.span());
    load.scripts[0].weight = 45;
    load.scripts.push(Script {
        text: payment(),
        weight: 43,
    });
    load
}

/// TPC-C section 2.4. Stock is locked in the order of items, so that none waits for the other.
fn new_order() -> String {
    let mut text = format!(
        "\\set w random(1, {WAREHOUSES})\n\
         \\set d random(1, {DISTRICTS})\n\
         \\set c random(1, {CUSTOMERS})\n"
    );
    let (mut items, mut lines) = (Vec::new(), Vec::new());
    for line in 1..=LINES {
        let _ = writeln!(text, "\\set i{line} random(1, {ITEMS})");
        let _ = writeln!(text, "\\set q{line} random(1, 10)");
        items.push(format!(":i{line}"));
        lines.push(format!(
            "(:w, :d, :o, {line}, :i{line}, :w, :q{line}, :q{line} * 1.5, 'dist {line}')"
        ));
    }
    let (items, lines) = (items.join(", "), lines.join(", "));
    let _ = write!(
        text,
        "BEGIN;\n\
         UPDATE district SET next_o_id = next_o_id + 1 WHERE w_id = :w AND d_id = :d \
         RETURNING next_o_id - 1 AS o \\gset\n\
         INSERT INTO orders VALUES (:w, :d, :o, :c, now(), NULL, {LINES});\n\
         INSERT INTO new_order VALUES (:w, :d, :o);\n\
         SELECT count(*) FROM (SELECT FROM stock WHERE w_id = :w AND i_id IN ({items}) \
         ORDER BY i_id FOR UPDATE) locked;\n\
         UPDATE stock SET quantity = CASE WHEN quantity > 14 THEN quantity - 5 ELSE quantity + 86 END, \
         ytd = ytd + 5, order_cnt = order_cnt + 1 WHERE w_id = :w AND i_id IN ({items});\n\
         INSERT INTO order_line VALUES {lines};\n\
         COMMIT;\n"
    );
    text
}

/// TPC-C section 2.5.
fn payment() -> String {
    format!(
        "\\set w random(1, {WAREHOUSES})\n\
         \\set d random(1, {DISTRICTS})\n\
         \\set c random(1, {CUSTOMERS})\n\
         \\set amount random(1, 5000)\n\
         BEGIN;\n\
         UPDATE warehouse SET ytd = ytd + :amount WHERE w_id = :w;\n\
         UPDATE district SET ytd = ytd + :amount WHERE w_id = :w AND d_id = :d;\n\
         UPDATE customer SET balance = balance - :amount, ytd_payment = ytd_payment + :amount, \
         payment_cnt = payment_cnt + 1 WHERE w_id = :w AND d_id = :d AND c_id = :c;\n\
         INSERT INTO history (w_id, d_id, c_id, made, amount, data) \
         VALUES (:w, :d, :c, now(), :amount, 'warehouse    district');\n\
         COMMIT;\n"
    )
}

fn schema() -> String {
    format!(
        "CREATE TABLE run (number bigint, what text, PRIMARY KEY (number, what));
         CREATE TABLE many (id int PRIMARY KEY, kind int, word text, changed timestamptz);
         CREATE TABLE warehouse (w_id int PRIMARY KEY, name text, ytd numeric NOT NULL);
         CREATE TABLE district (w_id int, d_id int, name text, ytd numeric NOT NULL,
             next_o_id int NOT NULL, PRIMARY KEY (w_id, d_id));
         CREATE TABLE customer (w_id int, d_id int, c_id int, balance numeric NOT NULL,
             ytd_payment numeric NOT NULL, payment_cnt int NOT NULL, data text,
             PRIMARY KEY (w_id, d_id, c_id));
         CREATE TABLE stock (w_id int, i_id int, quantity int NOT NULL, ytd int NOT NULL,
             order_cnt int NOT NULL, data text, PRIMARY KEY (w_id, i_id));
         CREATE TABLE orders (w_id int, d_id int, o_id int, c_id int, entered timestamptz,
             carrier int, lines int, PRIMARY KEY (w_id, d_id, o_id));
         CREATE TABLE new_order (w_id int, d_id int, o_id int, PRIMARY KEY (w_id, d_id, o_id));
         CREATE TABLE order_line (w_id int, d_id int, o_id int, number int, i_id int,
             supply_w_id int, quantity int, amount numeric, dist text,
             PRIMARY KEY (w_id, d_id, o_id, number));
         CREATE TABLE history (h_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, w_id int,
             d_id int, c_id int, made timestamptz, amount numeric, data text);
         INSERT INTO warehouse SELECT w, 'name', 300000 FROM generate_series(1, {WAREHOUSES}) w;
         INSERT INTO district SELECT w, d, 'name', 30000, 1
           FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {DISTRICTS}) d;
         INSERT INTO customer SELECT w, d, c, -10, 10, 1, repeat('data ', 60)
           FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {DISTRICTS}) d,
                generate_series(1, {CUSTOMERS}) c;
         INSERT INTO stock SELECT w, i, 50, 0, 0, repeat('data ', 10)
           FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {ITEMS}) i;
         ANALYZE"
    )
}
