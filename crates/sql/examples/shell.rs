//! The SQL shell against a cluster: `cargo run -p sql --example shell -- 127.0.0.1:7400 [FILE]`.
//! Without a file, a person talks with it. `replex sql` is the same with options.

use client::{Client, ConnectOptions};
use sql::SqlSession;
use sql::shell::{Shell, ShellOptions, ShellOutput, interactive};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let coordinator = arguments
        .next()
        .ok_or("give the address of a coordinator, such as 127.0.0.1:7400")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let client = runtime.block_on(Client::connect(ConnectOptions::new([coordinator])))?;
    let mut shell = Shell::new(SqlSession::new(client), ShellOptions::default());
    let Some(file) = arguments.next() else {
        return Ok(interactive(shell, &runtime, None)?);
    };
    let text = std::fs::read_to_string(&file)?;
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let mut output = ShellOutput {
        out: &mut out,
        err: &mut err,
    };
    Ok(runtime.block_on(shell.script(&file, &text, &mut output))?)
}
