//! Log lines of a test: a [`log::Log`] that is installed once per process and hands each record to the
//! captures that are open.
//!
//! A capture of one thread gets the lines of a simulated world, whose shards run on that thread. A capture of
//! all threads gets the lines of other tests too, which run at the same time; its test chooses lines by their
//! text.

use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread::ThreadId;

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::{ShardId, current_shard};

/// A line, with the shard that logged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub level: Level,
    pub target: String,
    /// `None`: the thread belongs to no shard.
    pub shard: Option<ShardId>,
    pub text: String,
}

struct Sink {
    /// `None`: all threads.
    thread: Option<ThreadId>,
    lines: Mutex<Vec<LogLine>>,
}

/// The lines that are logged until it is dropped.
pub struct LogCapture(Arc<Sink>);

struct Captures;

static SINKS: Mutex<Vec<Weak<Sink>>> = Mutex::new(vec![]);

impl LogCapture {
    /// Captures the lines of this thread.
    ///
    /// # Panics
    /// The process has another logger.
    pub fn of_this_thread() -> Self {
        Self::of(Some(std::thread::current().id()))
    }

    /// Captures the lines of every thread of the process.
    ///
    /// # Panics
    /// The process has another logger.
    pub fn of_all_threads() -> Self {
        Self::of(None)
    }

    fn of(thread: Option<ThreadId>) -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            log::set_logger(&Captures).expect("a test process has no other logger");
            log::set_max_level(LevelFilter::Trace);
        });
        let sink = Arc::new(Sink { thread, lines: Mutex::default() });
        SINKS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&sink));
        Self(sink)
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<LogLine> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The texts of the lines of a logger so far.
    pub fn texts_of(&self, target: &str) -> Vec<String> {
        self.lines().into_iter().filter(|line| line.target == target).map(|line| line.text).collect()
    }
}

/// The open captures that get the lines of this thread.
fn sinks() -> Vec<Arc<Sink>> {
    let thread = std::thread::current().id();
    let mut sinks = SINKS.lock().unwrap_or_else(PoisonError::into_inner);
    sinks.retain(|sink| sink.strong_count() > 0);
    let open = sinks.iter().filter_map(Weak::upgrade);
    open.filter(|sink| sink.thread.is_none_or(|of| of == thread)).collect()
}

impl Log for Captures {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        !sinks().is_empty()
    }

    fn log(&self, record: &Record<'_>) {
        let sinks = sinks();
        if sinks.is_empty() {
            return;
        }
        let line = LogLine {
            level: record.level(),
            target: record.target().to_string(),
            shard: current_shard(),
            text: record.args().to_string(),
        };
        for sink in sinks {
            sink.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimOptions, SimWorld};

    #[test]
    fn a_line_of_a_simulated_world_names_its_shard() {
        let log = LogCapture::of_this_thread();
        let world = SimWorld::new(SimOptions { shards: 2, ..SimOptions::default() });
        let node = world.start_node(|_| async {}).unwrap();
        log::info!(target: "outside", "a");
        world.block_on(&node, 1, |_| async { log::warn!(target: "inside", "{}", "b") }).unwrap();
        let line = |level, target: &str, shard, text: &str| LogLine {
            level,
            target: target.to_string(),
            shard,
            text: text.to_string(),
        };
        assert_eq!(
            log.lines(),
            [line(Level::Info, "outside", None, "a"), line(Level::Warn, "inside", Some(1), "b")]
        );
        assert_eq!(log.texts_of("inside"), ["b"]);
    }

    #[test]
    fn a_capture_of_a_thread_has_no_lines_of_others() {
        let (ours, all) = (LogCapture::of_this_thread(), LogCapture::of_all_threads());
        std::thread::scope(|scope| {
            scope.spawn(|| log::info!(target: "elsewhere", "c"));
        });
        assert_eq!(ours.texts_of("elsewhere"), [""; 0]);
        assert_eq!(all.texts_of("elsewhere"), ["c"]);
    }
}
