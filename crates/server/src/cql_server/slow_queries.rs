//! Logs statements that took longer than `slow_query_log_timeout`, in Cassandra's words (source:
//! `db/monitoring/MonitoringTask.java` of 5.0), five seconds' worth at a time.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::rc::Rc;

use base::HashMap;
use log::info;
use runtime::{CpuGroup, Shard};

/// Time between two reports.
const REPORT_US: u64 = 5_000_000;
/// Different statements of a report; further ones are only counted.
const STATEMENTS_MAX: usize = 50;
/// Longer texts are cut in the log.
const TEXT_BYTES_MAX: usize = 1000;

/// The executions of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slow {
    count: u64,
    total_us: u64,
    min_us: u64,
    max_us: u64,
}

/// The slow statements of a shard since the last report.
#[derive(Default)]
pub(crate) struct SlowQueries {
    by_text: RefCell<HashMap<String, Slow>>,
    /// Executions, with those of statements beyond [`STATEMENTS_MAX`].
    count: Cell<u64>,
}

impl SlowQueries {
    /// Records a statement that took `took_us`, and logs it with others when the next report is due.
    pub fn record(self: &Rc<Self>, shard: &Shard, text: &str, took_us: u64, limit_us: u64) {
        if self.add(text, took_us) {
            let (this, of_shard) = (self.clone(), shard.clone());
            let report = async move {
                of_shard.sleep_us(REPORT_US).await;
                let text = this.take(REPORT_US, limit_us);
                info!(target: "slow_query", "{text}");
            };
            shard.spawn(CpuGroup::Background, report).detach();
        }
    }

    /// Returns whether this is the first since the last report.
    fn add(&self, text: &str, took_us: u64) -> bool {
        let mut by_text = self.by_text.borrow_mut();
        let count = self.count.get() + 1;
        self.count.set(count);
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        if let Some(slow) = by_text.get_mut(text) {
            slow.count += 1;
            slow.total_us += took_us;
            slow.min_us = slow.min_us.min(took_us);
            slow.max_us = slow.max_us.max(took_us);
        } else if by_text.len() < STATEMENTS_MAX {
            let slow = Slow { count: 1, total_us: took_us, min_us: took_us, max_us: took_us };
            by_text.insert(text.to_string(), slow);
        }
        count == 1
    }

    /// The report; the next begins empty.
    fn take(&self, during_us: u64, limit_us: u64) -> String {
        let mut slow: Vec<(String, Slow)> = self.by_text.take().into_iter().collect();
        slow.sort_by(|a, b| (b.1.total_us, &a.0).cmp(&(a.1.total_us, &b.0)));
        let count = self.count.take();
        let mut report = format!("{count} operations were slow in the last {} msecs:", during_us / 1000);
        for (text, Slow { count, total_us, min_us, max_us }) in &slow {
            let ms = |us: u64| us / 1000;
            let _ = match count {
                1 => write!(report, "\n<{text}>, time {} msec", ms(*total_us)),
                _ => write!(
                    report,
                    "\n<{text}>, was slow {count} times: avg/min/max {}/{}/{} msec",
                    ms(total_us / count),
                    ms(*min_us),
                    ms(*max_us)
                ),
            };
            let _ = write!(report, " - slow timeout {} msec", ms(limit_us));
        }
        let listed: u64 = slow.iter().map(|(_, slow)| slow.count).sum();
        if listed < count {
            let _ = write!(report, "\n({} were dropped)", count - listed);
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_gathered_by_text() {
        let slow = SlowQueries::default();
        assert!(slow.add("SELECT 1", 600_000));
        assert!(!slow.add("SELECT 2", 700_000));
        assert!(!slow.add("SELECT 1", 800_000));
        assert_eq!(
            slow.take(5_000_000, 500_000),
            "3 operations were slow in the last 5000 msecs:\n\
             <SELECT 1>, was slow 2 times: avg/min/max 700/600/800 msec - slow timeout 500 msec\n\
             <SELECT 2>, time 700 msec - slow timeout 500 msec"
        );
        assert!(slow.add("SELECT 1", 1), "a new report begins");
    }

    #[test]
    fn a_report_is_bounded() {
        let slow = SlowQueries::default();
        for number in 0..STATEMENTS_MAX + 3 {
            slow.add(&"é".repeat(900 - number), 1000);
        }
        let report = slow.take(5_000_000, 1000);
        assert!(report.len() < 110_000, "{}", report.len());
        // Texts that begin with the same thousand bytes are one statement.
        assert!(report.contains("was slow 53 times"), "{report}");
        for number in 0..STATEMENTS_MAX + 3 {
            slow.add(&format!("SELECT {number}"), 1000);
        }
        assert!(slow.take(5_000_000, 1000).ends_with("(3 were dropped)"));
    }
}
