//! The simulated clocks of a machine: a monotonic clock that is slightly fast or slow, and a wall
//! clock that steps.

use protocol::identity::ClockReading;

use crate::random::Random;

/// Wall time at the start of the simulation, in microseconds since 1970.
const WALL_START_US: u64 = 1_700_000_000_000_000;

/// The clocks of one server, client or coordinator.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedClock {
    /// The time that the monotonic clock shows at simulated time 0.
    pub base_us: u64,
    /// The parts per million by which the monotonic clock is fast.
    pub drift_ppm: i64,
    /// The time by which the wall clock has been stepped.
    pub step_us: i64,
}

impl SimulatedClock {
    /// Draws the clocks of a machine, which run fast or slow by up to `drift_ppm` parts per
    /// million.
    pub fn draw(random: &mut Random, drift_ppm: u64) -> SimulatedClock {
        SimulatedClock {
            base_us: random.below(1_000_000_000),
            drift_ppm: random.below(2 * drift_ppm + 1) as i64 - drift_ppm as i64,
            step_us: random.below(10_000) as i64 - 5_000,
        }
    }

    /// Returns the readings of the clocks at a simulated time.
    pub fn now(&self, at_us: u64) -> ClockReading {
        let drift = at_us as i64 * self.drift_ppm / 1_000_000;
        let monotonic_us = self.base_us.saturating_add_signed(at_us as i64 + drift);
        let wall_us = (WALL_START_US + at_us).saturating_add_signed(self.step_us + drift);
        ClockReading {
            monotonic_us,
            wall_us,
        }
    }

    /// Returns the first simulated time at which the monotonic clock shows at least `monotonic_us`.
    pub fn when(&self, monotonic_us: u64) -> u64 {
        let elapsed = monotonic_us.saturating_sub(self.base_us);
        let rate = (1_000_000 + self.drift_ppm) as u128;
        let mut at_us = (u128::from(elapsed) * 1_000_000 / rate) as u64;
        while self.now(at_us).monotonic_us < monotonic_us {
            at_us += 1;
        }
        at_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_inverse_of_now() {
        for drift_ppm in [-200, -1, 0, 50, 200] {
            let clock = SimulatedClock {
                base_us: 12_345,
                drift_ppm,
                step_us: 0,
            };
            for monotonic_us in (12_345..90_000_000).step_by(777_777) {
                let at_us = clock.when(monotonic_us);
                assert!(clock.now(at_us).monotonic_us >= monotonic_us);
                assert!(at_us == 0 || clock.now(at_us - 1).monotonic_us <= monotonic_us);
            }
        }
    }
}
