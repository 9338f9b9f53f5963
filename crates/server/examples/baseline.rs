//! A baseline process: `baseline echo|chain-echo [--next ADDRESS] [--spin]`, or `baseline measure
//! ADDRESS CONNECTIONS IN_FLIGHT SECONDS` against one. Prints its address, then its figures.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use placement::median;
use protocol::codec::Bytes;
use protocol::frame;
use protocol::message::Message;
use server::baseline::Baseline;
use server::clock::Clock;
use server::event_loop::LoopOptions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "measure") {
        let number = |at: usize, default: u64| {
            arguments
                .get(at)
                .map_or(Ok(default), |text| text.parse::<u64>())
        };
        let address = arguments.get(1).ok_or("which address?")?;
        return measure(address, number(2, 1)?, number(3, 1)?, number(4, 2)?);
    }
    let mut options = LoopOptions::new(Clock::start());
    options.spin = arguments.iter().any(|argument| argument == "--spin");
    let next = arguments
        .iter()
        .position(|argument| argument == "--next")
        .and_then(|at| arguments.get(at + 1))
        .map(|address| address.parse())
        .transpose()?;
    let baseline = Baseline::bind("127.0.0.1:0".parse()?, next, options)?;
    println!("{}", baseline.address());
    baseline.run()?;
    Ok(())
}

fn measure(
    address: &str,
    connections: u64,
    in_flight: u64,
    seconds: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut request = Vec::new();
    let body = Bytes(vec![7; 64 - frame::HEADER_BYTES - 5]);
    for correlation in 0..in_flight {
        frame::encode(correlation, &Message::Echo(body.clone()), &mut request);
    }
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let mut answer = vec![0; request.len()];
    let mut times_us = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        let start = Instant::now();
        for stream in &mut streams {
            stream.write_all(&request)?;
        }
        for stream in &mut streams {
            stream.read_exact(&mut answer)?;
        }
        times_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let count = times_us.len() as f64 * (connections * in_flight) as f64;
    println!(
        "{connections} connections, {in_flight} in flight: {:.0}/s, p50 {:.1} us",
        count / elapsed,
        median(&times_us)
    );
    Ok(())
}
