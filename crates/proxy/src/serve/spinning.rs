//! Lets a thread poll for messages for some time before it sleeps, as an option. A thread that
//! polls receives a message at once, because it is awake and its data is in the processor's caches.
//! But it uses the whole processor while it polls.
//!
//! The option is for a thread that serves sessions with a single-threaded scheduler. While a task
//! is ready, the scheduler polls for messages without sleeping. The task of this module stays ready
//! for some time after the last movement of bytes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

thread_local! {
    /// Whether the thread has moved bytes since its spinning task has last checked.
    static HAS_MOVED: Cell<bool> = const { Cell::new(false) };
    /// The waker of the thread's spinning task, while the task sleeps.
    static ASLEEP: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Records that this thread has moved bytes.
pub(super) fn moved() {
    if !HAS_MOVED.replace(true)
        && let Some(waker) = ASLEEP.with_borrow_mut(Option::take)
    {
        waker.wake();
    }
}

/// Keeps the thread from sleeping for `time` after a session's relay on this thread has moved
/// bytes. Never returns: the caller spawns it as a task on a runtime with one thread.
pub async fn spin(time: Duration) {
    loop {
        poll_fn(|context| {
            if HAS_MOVED.get() {
                return Poll::Ready(());
            }
            ASLEEP.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
        let mut begun = Instant::now();
        while begun.elapsed() < time {
            tokio::task::yield_now().await;
            if HAS_MOVED.take() {
                begun = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The task sleeps until bytes move, is awake for the time, and sleeps again.
    #[tokio::test]
    async fn sleeps_but_for_a_while_after_something_has_moved() {
        let time = Duration::from_millis(5);
        let task = tokio::spawn(spin(time));
        let is_asleep = || ASLEEP.with_borrow(Option::is_some);
        while !is_asleep() {
            tokio::task::yield_now().await;
        }
        for _ in 0..2 {
            let begun = Instant::now();
            moved();
            assert!(!is_asleep());
            // A second one in the same moment wakes no task, and counts.
            moved();
            while !is_asleep() {
                tokio::task::yield_now().await;
            }
            assert!(begun.elapsed() >= time);
        }
        task.abort();
    }
}
