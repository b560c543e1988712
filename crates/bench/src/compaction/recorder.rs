//! Samples the disk space and the number of SSTables of a table ten times per second while a load runs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::shard::EngineShard;

use crate::BenchError;
use crate::stopwatch::Stopwatch;
use crate::world::World;

const EVERY_US: u64 = 100_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) at_s: f64,
    /// Bytes of all files of the table, including unfinished ones.
    pub(super) disk_bytes: f64,
    pub(super) sstables: f64,
    /// SSTables of level 0.
    pub(super) unleveled: f64,
    /// Pending compactions, as estimated by the strategy.
    pub(super) pending: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    pub(super) samples: Vec<Sample>,
}

impl Trace {
    pub(super) fn peak_disk_bytes(&self) -> f64 {
        self.samples.iter().map(|moment| moment.disk_bytes).fold(0.0, f64::max)
    }

    pub(super) fn end_disk_bytes(&self) -> f64 {
        self.samples.last().map_or(0.0, |moment| moment.disk_bytes)
    }

    pub(super) fn peak(&self, of: fn(&Sample) -> f64) -> f64 {
        self.samples.iter().map(of).fold(0.0, f64::max)
    }

    /// The mean over the samples after the fraction `share` of the time.
    pub(super) fn mean_from(&self, share: f64, of: fn(&Sample) -> f64) -> f64 {
        let begin = (self.samples.len() as f64 * share) as usize;
        let samples = &self.samples[begin.min(self.samples.len().saturating_sub(1))..];
        samples.iter().map(of).sum::<f64>() / samples.len().max(1) as f64
    }
}

/// Runs `work` and records samples at the same time.
pub(super) fn record<T>(
    world: &World,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, Trace), BenchError> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let recording = scope.spawn(|| {
            let watch = Stopwatch::start();
            let mut trace = Trace::default();
            loop {
                let is_last = ended.load(Ordering::Relaxed);
                let at_s = watch.spent().wall_s;
                match read(world, at_s) {
                    Ok(moment) => trace.samples.push(moment),
                    Err(_stopped) => return trace,
                }
                if is_last || world.sleep_us(EVERY_US).is_err() {
                    return trace;
                }
            }
        });
        let result = work();
        ended.store(true, Ordering::Relaxed);
        let trace = recording.join().map_err(|_| "the recorder panicked")?;
        Ok((result?, trace))
    })
}

fn read(world: &World, at_s: f64) -> Result<Sample, BenchError> {
    let id = world.table.id;
    let counted = world.engine.ask(0, move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        let sstables = engine.table(id)?.sstables();
        let unleveled = sstables.iter().filter(|sstable| sstable.level() == 0).count();
        let pending: u64 = engine.compactions().report().pending.iter().map(|(_, jobs)| jobs).sum();
        Ok((sstables.len(), unleveled, pending))
    });
    let (sstables, unleveled, pending) = counted.wait()?;
    let dir = world.dir.join("data").join(&world.table.keyspace);
    Ok(Sample {
        at_s,
        disk_bytes: disk_bytes(&dir) as f64,
        sstables: sstables as f64,
        unleveled: unleveled as f64,
        pending: pending as f64,
    })
}

/// Bytes of the files below a directory. Files that are removed in the meantime are not counted.
fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => disk_bytes(&entry.path()),
        Ok(data) => data.len(),
        Err(_gone) => 0,
    };
    entries.flatten().map(bytes).sum()
}
