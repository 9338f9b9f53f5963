//! Generates open-loop load: operations start at scheduled times, whether or not earlier operations
//! have ended. The latency of an operation counts from its scheduled start, so it includes the time
//! that the operation waits behind a pause (coordinated omission).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// An operation that has ended. Its times count from the beginning of the load.
#[derive(Clone, Copy, Debug)]
pub struct TimedOperation {
    /// The operation's number in the order of the scheduled starts, from 0.
    pub number: u64,
    pub intended: Duration,
    pub ended: Duration,
    /// Whether the operation returned an error.
    pub failed: bool,
}

impl TimedOperation {
    /// Returns the latency from the intended start, in microseconds.
    pub fn latency_us(&self) -> f64 {
        self.ended.saturating_sub(self.intended).as_secs_f64() * 1e6
    }
}

/// Starts `rate` operations per second from `started` on until `stop` is set, and returns all of
/// them once they have ended. `operate` returns whether the operation succeeded. Must run in a
/// [`tokio::task::LocalSet`].
pub async fn run<F, O>(
    rate: f64,
    started: Instant,
    stop: Rc<Cell<bool>>,
    operate: F,
) -> Vec<TimedOperation>
where
    F: Fn(u64) -> O,
    O: Future<Output = bool> + 'static,
{
    // The runtime's timers are a millisecond coarse: a thread keeps the time.
    let (sender, mut ticks) = mpsc::unbounded_channel();
    let intended = move |number: u64| Duration::from_secs_f64(number as f64 / rate);
    let pace = thread::spawn(move || {
        for number in 0.. {
            thread::sleep((started + intended(number)).saturating_duration_since(Instant::now()));
            if sender.send(number).is_err() {
                return;
            }
        }
    });
    let ended = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    while !stop.get() {
        let number = ticks.recv().await.expect("the thread ends after this");
        let (operation, ended) = (operate(number), Rc::clone(&ended));
        tasks.spawn_local(async move {
            let went_well = operation.await;
            ended.borrow_mut().push(TimedOperation {
                number,
                intended: intended(number),
                ended: started.elapsed(),
                failed: !went_well,
            });
        });
        // Ended operations are on record.
        while tasks.try_join_next().is_some() {}
    }
    drop(ticks);
    while tasks.join_next().await.is_some() {}
    // It only sleeps until its next moment.
    let _ = pace.join();
    ended.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_takes_long_delays_no_other_and_all_are_counted() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let stop = Rc::new(Cell::new(false));
        let (release, _) = tokio::sync::watch::channel(false);
        let release = Rc::new(release);
        let operate = |number: u64| {
            let (stop, release) = (Rc::clone(&stop), Rc::clone(&release));
            async move {
                match number {
                    // It ends only after the last one has begun.
                    0 => {
                        let mut released = release.subscribe();
                        released.wait_for(|released| *released).await.unwrap();
                    }
                    9 => {
                        stop.set(true);
                        release.send_replace(true);
                    }
                    _ => {}
                }
                number != 3
            }
        };
        let set = tokio::task::LocalSet::new();
        let started = Instant::now();
        let load = run(10_000.0, started, Rc::clone(&stop), operate);
        let mut operations = runtime.block_on(set.run_until(load));
        operations.sort_unstable_by_key(|it| it.number);
        assert!(operations.len() >= 10);
        for (operation, number) in operations.iter().zip(0..) {
            assert_eq!(operation.number, number);
            assert_eq!(operation.failed, number == 3);
            assert!(operation.latency_us() >= 0.0);
        }
        assert!(operations[0].ended >= operations[9].intended);
    }
}
