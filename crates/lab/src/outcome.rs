//! The results of a simulated workload: totals, peaks, and moments over time.

use serde::Serialize;

use crate::workload::NamedStrategy;

/// Moments kept for plots; when there are twice as many, every first one of two is dropped.
const MOMENTS: usize = 240;

/// The state at one time; bytes are on disk and of the whole node.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TimelinePoint {
    pub at_s: f64,
    /// Bytes of all SSTables, complete or not.
    pub disk_bytes: f64,
    /// The largest space since the moment before.
    pub disk_peak_bytes: f64,
    pub live_bytes: f64,
    /// Space that running compactions take and would not take if they had not started.
    pub temporary_bytes: f64,
    pub backlog_bytes: f64,
    pub sstables: f64,
    /// SSTables that a read opens.
    pub sstables_per_read: f64,
    /// Bytes that a read not answered from memory reads from disk.
    pub bytes_per_read: f64,
    /// Totals since the begin.
    pub writes: f64,
    pub reads: f64,
    pub log_bytes: f64,
    pub flushed_bytes: f64,
    pub compacted_bytes: f64,
    pub compaction_read_bytes: f64,
}

/// The results; see the head of this file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SimulationResult {
    pub strategy: NamedStrategy,
    pub seed: u64,
    /// Sampled rows, and the real rows that each stands for.
    pub sampled_rows: u64,
    pub rows_per_sampled_row: f64,
    /// Time of the load, and until compaction had nothing left to do.
    pub load_s: f64,
    pub total_s: f64,
    /// Whether compaction came to an end after the load.
    pub is_settled: bool,
    pub peak_disk_bytes: f64,
    pub peak_live_bytes: f64,
    pub peak_temporary_bytes: f64,
    pub peak_backlog_bytes: f64,
    /// Mean over the time of the load.
    pub mean_disk_bytes: f64,
    pub mean_live_bytes: f64,
    pub end_disk_bytes: f64,
    pub end_live_bytes: f64,
    pub end_sstables: f64,
    /// Means over the time in which there are reads, or over the whole load if there are none.
    pub sstables_per_read: f64,
    pub bytes_per_read: f64,
    /// The same when compaction had come to an end.
    pub end_sstables_per_read: f64,
    pub end_bytes_per_read: f64,
    /// The fraction of the reads, at the end, that open at most one SSTable.
    pub end_single_reads: f64,
    pub writes: f64,
    pub reads: f64,
    /// Writes and reads that the load asked for; equal to the done ones if the node kept up or the rate is
    /// max.
    pub writes_wanted: f64,
    pub reads_wanted: f64,
    /// Fraction of the time in which writes waited for memory, and in which a flush was delayed.
    pub writes_waited: f64,
    pub flushes_waited: f64,
    pub log_bytes: f64,
    pub flushed_bytes: f64,
    pub compacted_bytes: f64,
    pub compaction_read_bytes: f64,
    pub flushes: u64,
    pub jobs: u64,
    pub moments: Vec<TimelinePoint>,
}

impl SimulationResult {
    /// Bytes written by flushes and compactions per byte written by flushes.
    pub fn write_amplification(&self) -> f64 {
        (self.flushed_bytes + self.compacted_bytes) / self.flushed_bytes.max(1.0)
    }

    /// Bytes written to disk, the commit log included.
    pub fn written_bytes(&self) -> f64 {
        self.log_bytes + self.flushed_bytes + self.compacted_bytes
    }

    /// The largest disk space per byte of the data that is live at the same time, from the time at which a
    /// quarter of the largest live data was there.
    pub fn peak_space(&self) -> f64 {
        let is_grown = |moment: &&TimelinePoint| moment.live_bytes >= self.peak_live_bytes / 4.0;
        let ratio = |moment: &TimelinePoint| moment.disk_peak_bytes / moment.live_bytes.max(1.0);
        self.moments.iter().filter(is_grown).map(ratio).fold(0.0, f64::max)
    }

    /// The mean disk space per byte of the mean live data.
    pub fn mean_space(&self) -> f64 {
        self.mean_disk_bytes / self.mean_live_bytes.max(1.0)
    }

    /// The same for `shards` shards of which this is one.
    #[must_use]
    pub fn times(mut self, shards: u32) -> Self {
        let factor = f64::from(shards);
        for value in [
            &mut self.peak_disk_bytes,
            &mut self.peak_live_bytes,
            &mut self.peak_temporary_bytes,
            &mut self.peak_backlog_bytes,
            &mut self.mean_disk_bytes,
            &mut self.mean_live_bytes,
            &mut self.end_disk_bytes,
            &mut self.end_live_bytes,
            &mut self.end_sstables,
            &mut self.writes,
            &mut self.reads,
            &mut self.writes_wanted,
            &mut self.reads_wanted,
            &mut self.log_bytes,
            &mut self.flushed_bytes,
            &mut self.compacted_bytes,
            &mut self.compaction_read_bytes,
        ] {
            *value *= factor;
        }
        for moment in &mut self.moments {
            for value in [
                &mut moment.disk_bytes,
                &mut moment.disk_peak_bytes,
                &mut moment.live_bytes,
                &mut moment.temporary_bytes,
                &mut moment.backlog_bytes,
                &mut moment.sstables,
                &mut moment.writes,
                &mut moment.reads,
                &mut moment.log_bytes,
                &mut moment.flushed_bytes,
                &mut moment.compacted_bytes,
                &mut moment.compaction_read_bytes,
            ] {
                *value *= factor;
            }
        }
        self.flushes *= u64::from(shards);
        self.jobs *= u64::from(shards);
        self
    }

    /// The fraction of the wanted operations that was done in the time of the load.
    pub fn kept_up(&self) -> f64 {
        let wanted = self.writes_wanted + self.reads_wanted;
        if wanted > 0.0 { ((self.writes + self.reads) / wanted).min(1.0) } else { 1.0 }
    }
}

/// Collects moments at growing intervals.
pub struct Recorder {
    pub moments: Vec<TimelinePoint>,
    interval_s: f64,
    next_s: f64,
}

impl Recorder {
    pub fn new(now_s: f64) -> Self {
        Self { moments: vec![], interval_s: 0.25, next_s: now_s }
    }

    /// When the next moment is due.
    pub fn next_s(&self) -> f64 {
        self.next_s
    }

    pub fn add(&mut self, now_s: f64, moment: TimelinePoint) {
        self.next_s = now_s + self.interval_s;
        self.moments.push(moment);
        if self.moments.len() >= 2 * MOMENTS {
            let pairs = self.moments.chunks(2).map(|pair| {
                let last = pair[pair.len() - 1];
                let disk_peak_bytes = pair.iter().map(|moment| moment.disk_peak_bytes).fold(0.0, f64::max);
                TimelinePoint { disk_peak_bytes, ..last }
            });
            self.moments = pairs.collect();
            self.interval_s *= 2.0;
        }
    }
}
