//! Reports the progress of a long task, and estimates its end from the elapsed time (the paper's
//! section 6.3).

use std::time::Duration;

/// The time after which a replica that does not answer serves nothing until it answers again.
pub const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The status of a replica that only serves.
pub const SERVING: &str = "serving";

/// The progress of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskProgress {
    /// The completed fraction, from 0 to 1.
    pub share: f64,
    /// The estimated remaining time; none while the completed fraction is 0.
    pub left: Option<Duration>,
}

impl TaskProgress {
    /// Returns the progress of work, from the done part, the estimate of all, and the elapsed time.
    /// If the done part exceeds the estimate, the work counts as almost done.
    pub fn of(done: u64, all: u64, elapsed: Duration) -> TaskProgress {
        const ALMOST: f64 = 0.99;
        let share = (done as f64 / all.max(1) as f64).min(ALMOST);
        let left = (done > 0).then(|| elapsed.mul_f64((1.0 - share) / share));
        TaskProgress { share, left }
    }
}

/// The status of a replica, for operators.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaStatus {
    /// The status, in words.
    pub text: String,
    /// The progress; none if the activity has no end.
    pub progress: Option<TaskProgress>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_follows_the_elapsed_time() {
        let elapsed = Duration::from_secs(10);
        let progress = TaskProgress::of(25, 100, elapsed);
        assert_eq!(progress.left, Some(Duration::from_secs(30)));
        assert_eq!(TaskProgress::of(0, 100, elapsed).left, None);
        let beyond = TaskProgress::of(300, 100, elapsed);
        assert!(beyond.share < 1.0 && beyond.left.is_some());
        assert_eq!(TaskProgress::of(0, 0, elapsed).share, 0.0);
    }
}
