//! Logs statements that took longer than `slow_query_log_timeout`, in Cassandra's words (source:
//! `db/monitoring/MonitoringTask.java` of 5.0), five seconds' worth at a time. The [`STATEMENTS_MAX`] texts
//! that were slow last stay in memory until the node stops, for `nodetool slowstatements` and the page.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::rc::Rc;

use base::HashMap;
use engine::EngineError;
use engine::node;
use log::info;
use runtime::{CpuGroup, Shard};

use super::CqlShard;

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

/// The slow executions of one text on one shard, since the start or since the text was last forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowStatement {
    /// Cut after 1000 bytes.
    pub text: String,
    pub shard: u32,
    pub count: u64,
    /// End of the last one, in milliseconds since the Unix epoch.
    pub last_ms: i64,
    pub last_us: u64,
    pub max_us: u64,
    pub total_us: u64,
}

/// The slow statements of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowStatements {
    /// `slow_query_log_timeout`; 0: no statement is recorded.
    pub limit_us: u64,
    /// Slow executions since the start, of forgotten texts too.
    pub count: u64,
    /// In no order.
    pub statements: Vec<SlowStatement>,
}

/// The slow statements of a shard: those since the last report, and the last ones.
#[derive(Default)]
pub(crate) struct SlowQueries {
    by_text: RefCell<HashMap<String, Slow>>,
    /// Executions, with those of statements beyond [`STATEMENTS_MAX`].
    count: Cell<u64>,
    /// At most [`STATEMENTS_MAX`] texts; the one whose last execution ended first is forgotten.
    latest: RefCell<Vec<SlowStatement>>,
    /// Since the start.
    count_ever: Cell<u64>,
}

/// The slow statements of all shards.
///
/// # Errors
/// The node has stopped, or does not serve CQL.
pub async fn slow_statements(shard: &Shard) -> Result<SlowStatements, EngineError> {
    let ask = |shard: Shard| async move {
        let cql = CqlShard::of(&shard)?;
        let slow = &cql.slow_queries;
        let statements = slow.latest.borrow().clone();
        Ok((cql.options.slow_query_us, slow.count_ever.get(), statements))
    };
    let mut all = SlowStatements::default();
    for (limit_us, count, statements) in node::on_all(shard, CpuGroup::Maintenance, ask).await? {
        all.limit_us = limit_us;
        all.count += count;
        all.statements.extend(statements);
    }
    Ok(all)
}

impl SlowQueries {
    /// Records a statement that took `took_us`, and logs it with others when the next report is due.
    pub fn record(self: &Rc<Self>, shard: &Shard, text: &str, took_us: u64, limit_us: u64) {
        self.keep(shard.id(), text, took_us, shard.wall_us() / 1000);
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

    /// Records an execution that ended at `now_ms` among the last ones.
    fn keep(&self, shard: u32, text: &str, took_us: u64, now_ms: i64) {
        self.count_ever.set(self.count_ever.get() + 1);
        let text = cut(text);
        let mut latest = self.latest.borrow_mut();
        if let Some(known) = latest.iter_mut().find(|known| known.text == text) {
            known.count += 1;
            (known.last_ms, known.last_us) = (now_ms, took_us);
            known.max_us = known.max_us.max(took_us);
            known.total_us += took_us;
            return;
        }
        if latest.len() == STATEMENTS_MAX {
            let oldest = latest.iter().enumerate().min_by_key(|(_, known)| known.last_ms);
            if let Some((at, _)) = oldest {
                latest.swap_remove(at);
            }
        }
        latest.push(SlowStatement {
            text: text.to_string(),
            shard,
            count: 1,
            last_ms: now_ms,
            last_us: took_us,
            max_us: took_us,
            total_us: took_us,
        });
    }

    /// Returns whether this is the first since the last report.
    fn add(&self, text: &str, took_us: u64) -> bool {
        let mut by_text = self.by_text.borrow_mut();
        let count = self.count.get() + 1;
        self.count.set(count);
        let text = cut(text);
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

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_texts_are_kept() {
        let slow = SlowQueries::default();
        slow.keep(1, "SELECT 1", 600_000, 10);
        slow.keep(1, "SELECT 1", 500_000, 20);
        let one = SlowStatement {
            text: "SELECT 1".to_string(),
            shard: 1,
            count: 2,
            last_ms: 20,
            last_us: 500_000,
            max_us: 600_000,
            total_us: 1_100_000,
        };
        assert_eq!(slow.latest.borrow()[..], [one]);
        // The text that was slow longest ago makes room: not the first one, which is slow again.
        for number in 0..STATEMENTS_MAX as i64 - 1 {
            slow.keep(1, &format!("UPDATE {number}"), 1, 30 + number);
        }
        slow.keep(1, "SELECT 1", 1, 1000);
        slow.keep(1, "DELETE", 1, 1001);
        let latest = slow.latest.borrow();
        let has = |text: &str| latest.iter().any(|known| known.text == text);
        assert_eq!(latest.len(), STATEMENTS_MAX);
        assert!(has("SELECT 1") && has("DELETE") && has("UPDATE 1") && !has("UPDATE 0"));
        assert_eq!(slow.count_ever.get(), 3 + STATEMENTS_MAX as u64);
    }

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
