//! When the next operation is to start, and when a worker is done. Pure: time is an argument.
//!
//! With a rate, operation `n` of a worker is due at `start + (n + phase) / rate`, whether or not earlier
//! operations have ended. A latency that is counted from that moment contains the time for which the
//! operation waited for slow ones; this corrects the coordinated omission of a closed loop (Gil Tene, "How
//! NOT to Measure Latency", 2013).

use std::time::Duration;

/// How much a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of operations.
    Operations(u64),
    /// A time.
    Time(Duration),
}

/// Whether an operation is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Now. It was due at this time since the start; without a rate, that is now.
    Due(Duration),
    /// At this time since the start.
    At(Duration),
    /// The run has ended.
    Ended,
}

/// The operations of one worker.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Operations a second; `None`: as fast as answers come.
    rate: Option<f64>,
    /// 0 to 1; differs between workers, so that they do not start operations at the same moments.
    phase: f64,
    amount: Amount,
    started: u64,
}

impl Schedule {
    /// The part of worker `index` of `workers`: each has an equal share of the rate and of the operations.
    pub fn of_worker(amount: Amount, rate: Option<f64>, index: usize, workers: usize) -> Self {
        let amount = match amount {
            Amount::Operations(all) => {
                let (each, rest) = (all / workers as u64, all % workers as u64);
                Amount::Operations(each + u64::from((index as u64) < rest))
            }
            time @ Amount::Time(_) => time,
        };
        let phase = index as f64 / workers as f64;
        Self { rate: rate.map(|all| all / workers as f64), phase, amount, started: 0 }
    }

    /// The next operation at `now` since the start. [`Next::Due`] counts as started.
    pub fn next(&mut self, now: Duration) -> Next {
        let due = match self.rate {
            Some(rate) => Duration::from_secs_f64((self.started as f64 + self.phase) / rate),
            None => now,
        };
        let is_over = match self.amount {
            Amount::Operations(all) => self.started >= all,
            Amount::Time(time) => due >= time || now >= time,
        };
        if is_over {
            return Next::Ended;
        }
        if due > now {
            return Next::At(due);
        }
        self.started += 1;
        Next::Due(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn an_operation_is_due_by_the_rate_and_not_by_the_answers() {
        // Worker 1 of 2 with 20 operations a second: 10 of its own, half a period after worker 0.
        let mut schedule = Schedule::of_worker(Amount::Operations(9), Some(20.0), 1, 2);
        assert_eq!(schedule.next(ms(0)), Next::At(ms(50)));
        assert_eq!(schedule.next(ms(50)), Next::Due(ms(50)));
        assert_eq!(schedule.next(ms(50)), Next::At(ms(150)));
        // After a pause of the worker, the operations of the pause are late.
        assert_eq!(schedule.next(ms(400)), Next::Due(ms(150)));
        assert_eq!(schedule.next(ms(400)), Next::Due(ms(250)));
        assert_eq!(schedule.next(ms(400)), Next::Due(ms(350)));
        // 9 operations are 5 and 4.
        assert_eq!(schedule.next(ms(1000)), Next::Ended);
    }

    #[test]
    fn a_run_ends_by_time() {
        let mut schedule = Schedule::of_worker(Amount::Time(ms(100)), Some(20.0), 0, 1);
        assert_eq!(schedule.next(ms(0)), Next::Due(ms(0)));
        assert_eq!(schedule.next(ms(99)), Next::Due(ms(50)));
        assert_eq!(schedule.next(ms(99)), Next::Ended);
        let mut schedule = Schedule::of_worker(Amount::Time(ms(100)), None, 0, 1);
        assert_eq!(schedule.next(ms(99)), Next::Due(ms(99)));
        assert_eq!(schedule.next(ms(100)), Next::Ended);
    }
}
