//! The decisions for one strategy of one table: from a view in bytes to a plan in bytes.
//!
//! Java numbers the SSTables and sends what never changes about one only once. Each view lists all SSTables
//! of the table; the others are forgotten. A plan gets a number, by which Java reports its end.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use base::HashMap;
use base::hyperloglog::HyperLogLog;
use compaction::{
    DiskView, Finished, OptionsError, Plan, RunId, SSTableId, SSTableView, Strategy, TableView, strategy_from,
};
use model::PartitionKey;

use crate::wire::{Input, Output, WireError, write_plan};

/// Plans whose end was not reported yet. A plan that Java could not begin is never reported; the oldest of
/// them are forgotten.
const PLANS_MAX: usize = 1024;

/// Least bytes of an SSTable in a view.
const SSTABLE_BYTES: usize = 45;

const INSIDE: u8 = 1;
const COMPACTING: u8 = 2;
const FROZEN: u8 = 4;
const REPAIRED: u8 = 8;
const WITH_CONSTANTS: u8 = 16;

/// Why a decision failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionError {
    /// The message is damaged.
    Wire(WireError),
    /// The view names an SSTable of which nothing is known.
    UnknownSSTable(u64),
}

impl fmt::Display for DecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wire(error) => error.fmt(f),
            Self::UnknownSSTable(id) => write!(f, "SSTable {id} of the view was never described"),
        }
    }
}

impl std::error::Error for DecisionError {}

impl From<WireError> for DecisionError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

/// The strategy of a table, and the SSTables that it knows.
pub struct Decisions {
    strategy: Box<dyn Strategy>,
    /// SSTables with the values that never change.
    known: HashMap<u64, SSTableView>,
    plans: BTreeMap<u64, Plan>,
    plan_count: u64,
}

/// The values of a view, without the SSTables.
struct Frame {
    inside: Vec<SSTableView>,
    outside: Vec<SSTableView>,
    now_us: i64,
    gc_before_s: u32,
    memtable_min_timestamp_us: Option<i64>,
    jobs_running: u32,
    flush_bytes: u64,
    ring_share: f64,
    disk: DiskView,
    seed: u64,
}

impl Frame {
    fn view(&self) -> TableView<'_> {
        TableView {
            now_us: self.now_us,
            sstables: &self.inside,
            outside: &self.outside,
            gc_before_s: self.gc_before_s,
            memtable_min_timestamp_us: self.memtable_min_timestamp_us,
            jobs_running: self.jobs_running,
            flush_bytes: self.flush_bytes,
            ring_share: self.ring_share,
            // In Cassandra `min_threshold` is a limit, also if there is no other job.
            enforce_min_threshold: true,
            disk: self.disk,
            sampled: None,
            seed: self.seed,
        }
    }
}

impl Decisions {
    /// The strategy of these options.
    pub fn new(options: &BTreeMap<String, String>) -> Result<Self, OptionsError> {
        let strategy = strategy_from(options)?;
        Ok(Self { strategy, known: HashMap::default(), plans: BTreeMap::new(), plan_count: 0 })
    }

    /// An estimate of the number of pending jobs; then the byte 1 and the next plan, or the byte 0.
    pub fn next(&mut self, view: &[u8]) -> Result<Vec<u8>, DecisionError> {
        let frame = self.read(view)?;
        let may_begin = frame.jobs_running == 0 || self.strategy.runs_in_parallel();
        let plan = if may_begin { self.strategy.next(&frame.view()) } else { None };
        let mut out = Output::default();
        out.u64(self.strategy.pending(&frame.view()));
        match plan {
            None => out.u8(0),
            Some(plan) => {
                out.u8(1);
                self.add(&mut out, plan);
            }
        }
        Ok(out.into_bytes())
    }

    /// The plans of a major compaction: their number, then each.
    pub fn major(&mut self, view: &[u8], split: bool) -> Result<Vec<u8>, DecisionError> {
        let frame = self.read(view)?;
        let plans = self.strategy.major(&frame.view(), split);
        let mut out = Output::default();
        out.count(plans.len());
        for plan in plans {
            self.add(&mut out, plan);
        }
        Ok(out.into_bytes())
    }

    /// What the strategy considered, as text.
    pub fn explain(&mut self, view: &[u8]) -> Result<String, DecisionError> {
        let frame = self.read(view)?;
        Ok(self.strategy.explain(&frame.view()).to_string())
    }

    /// The size of an SSTable that the strategy makes, in bytes before compression; `None`: any.
    pub fn sstable_bytes(&self) -> Option<u64> {
        self.strategy.layout(1).max_bytes
    }

    /// Reports the end of a plan: its number, the lowest level of the inputs, the bytes before compression of
    /// inputs and outputs, the largest key of the outputs. An unknown number is ignored: the plan is old.
    pub fn finished(&mut self, report: &[u8]) -> Result<(), DecisionError> {
        let mut input = Input::new(report);
        let number = input.u64("plan")?;
        let input_level = input.u32("level")?;
        let input_bytes = input.u64("input bytes")?;
        let output_bytes = input.u64("output bytes")?;
        let last_key = input.bytes("last key")?.map(PartitionKey::new);
        input.end()?;
        if let Some(plan) = self.plans.remove(&number) {
            let finished = Finished { plan: &plan, input_level, last_key, input_bytes, output_bytes };
            self.strategy.finished(&finished);
        }
        Ok(())
    }

    fn add(&mut self, out: &mut Output, plan: Plan) {
        self.plan_count += 1;
        write_plan(out, self.plan_count, &plan);
        self.plans.insert(self.plan_count, plan);
        if self.plans.len() > PLANS_MAX {
            self.plans.pop_first();
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Frame, DecisionError> {
        let mut input = Input::new(bytes);
        let now_us = input.i64()?;
        let gc_before_s = input.clamped_u32()?;
        let has_memtable = input.u8()? != 0;
        let memtable_us = input.i64()?;
        let jobs_running = input.u32("running jobs")?;
        let flush_bytes = input.u64("bytes of a flush")?;
        let ring_share = input.f64()?;
        let capacity_bytes = input.u64("capacity")?;
        let free_bytes = input.u64("free space")?;
        let seed = input.i64()?.cast_unsigned();
        let count = input.count("number of SSTables", SSTABLE_BYTES)?;
        let mut frame = Frame {
            inside: Vec::with_capacity(count),
            outside: vec![],
            now_us,
            gc_before_s,
            memtable_min_timestamp_us: has_memtable.then_some(memtable_us),
            jobs_running,
            flush_bytes,
            ring_share: if ring_share > 0.0 && ring_share <= 1.0 { ring_share } else { 1.0 },
            disk: DiskView::new(capacity_bytes, free_bytes),
            seed,
        };
        let mut seen: HashMap<u64, SSTableView> = HashMap::default();
        for _ in 0..count {
            let id = input.u64("id")?;
            let flags = input.u8()?;
            let level = input.u32("level")?;
            let droppable_ratio = input.f64()?;
            let reads_per_s = input.f64()?;
            let run = RunId(input.u128()?);
            let constants = match flags & WITH_CONSTANTS {
                0 => self.known.get(&id).cloned().ok_or(DecisionError::UnknownSSTable(id))?,
                _ => read_constants(&mut input, id)?,
            };
            seen.insert(id, constants.clone());
            let view = SSTableView {
                run,
                level,
                droppable_ratio: if droppable_ratio > 0.0 { droppable_ratio } else { 0.0 },
                reads_per_s: Some(reads_per_s).filter(|rate| rate.is_finite() && *rate >= 0.0),
                compacting: flags & COMPACTING != 0,
                frozen: flags & FROZEN != 0,
                is_repaired: flags & REPAIRED != 0,
                ..constants
            };
            if flags & INSIDE != 0 { frame.inside.push(view) } else { frame.outside.push(view) }
        }
        input.end()?;
        self.known = seen;
        Ok(frame)
    }
}

/// The values of an SSTable that never change.
fn read_constants(input: &mut Input<'_>, id: u64) -> Result<SSTableView, WireError> {
    let data_bytes = input.u64("bytes of data")?;
    let disk_bytes = input.u64("bytes on disk")?;
    let min_timestamp_us = input.i64()?;
    let max_timestamp_us = input.i64()?;
    let max_deletion_time_s = input.clamped_u32()?;
    let may_delete = input.u8()? != 0;
    let written_s = input.clamped_u32()?;
    let partitions = input.u64("partitions")?;
    let first = PartitionKey::new(input.bytes("first key")?.unwrap_or_default());
    let last = PartitionKey::new(input.bytes("last key")?.unwrap_or_default());
    // A sketch that cannot be decoded costs an estimate, not a compaction.
    let keys = input.bytes("sketch")?.and_then(|bytes| HyperLogLog::decode(bytes).ok());
    Ok(SSTableView {
        id: SSTableId(id),
        run: RunId(id.into()),
        data_bytes,
        disk_bytes,
        first,
        last,
        level: 0,
        min_timestamp_us,
        max_timestamp_us,
        max_deletion_time_s,
        may_delete,
        written_s,
        droppable_ratio: 0.0,
        partitions,
        keys: keys.map(Rc::new),
        compacting: false,
        frozen: false,
        reads_per_s: None,
        is_repaired: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    /// A view of SSTables with (id, flags, MiB, run); their keys are 1 and 2.
    fn view(sstables: &[(i64, u8, i64, u128)]) -> Vec<u8> {
        let mut out = Output::default();
        out.i64(1_700_000_000_000_000);
        out.i64(1_699_000_000);
        out.u8(0);
        out.i64(0);
        out.count(0);
        out.i64(MIB);
        out.i64(1f64.to_bits().cast_signed());
        out.i64(1 << 40);
        out.i64(1 << 39);
        out.i64(7);
        out.count(sstables.len());
        for (id, flags, size_mib, run) in sstables {
            out.i64(*id);
            out.u8(*flags);
            out.count(0);
            out.i64(0);
            out.i64(f64::NAN.to_bits().cast_signed());
            out.u128(*run);
            if flags & WITH_CONSTANTS != 0 {
                out.i64(size_mib * MIB);
                out.i64(size_mib * MIB / 2);
                out.i64(1_600_000_000_000_000);
                out.i64(1_650_000_000_000_000);
                out.i64(i64::MAX);
                out.u8(0);
                out.i64(1_650_000_000);
                out.i64(1000);
                out.byte_string(&[1]);
                out.byte_string(&[2]);
                out.byte_string(&[]);
            }
        }
        out.into_bytes()
    }

    fn decisions(class: &str, more: &[(&str, &str)]) -> Decisions {
        let mut options: BTreeMap<String, String> =
            more.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        options.insert("class".to_string(), format!("io.messina.{class}CompactionStrategy"));
        Decisions::new(&options).expect("options")
    }

    /// The inputs of the plan in a message; `None`: there is no plan.
    fn inputs(message: &[u8]) -> Option<Vec<u64>> {
        let mut input = Input::new(message);
        input.u64("pending jobs").unwrap();
        if input.u8().unwrap() == 0 {
            input.end().unwrap();
            return None;
        }
        input.u64("plan").unwrap();
        let count = input.count("inputs", 8).unwrap();
        Some((0..count).map(|_| input.u64("id").unwrap()).collect())
    }

    #[test]
    fn four_of_one_size_are_merged_and_those_of_others_are_left() {
        let mut size_tiered = decisions("SizeTiered", &[]);
        let new = INSIDE | WITH_CONSTANTS;
        let four: Vec<_> = (1..=4).map(|id| (id, new, 100, id as u128)).collect();
        let mut plan = inputs(&size_tiered.next(&view(&four)).unwrap()).expect("a plan");
        plan.sort_unstable();
        assert_eq!(plan, [1, 2, 3, 4]);
        // One is outside the strategy, or used by another job, or must not be touched.
        for flags in [WITH_CONSTANTS, new | COMPACTING, new | FROZEN] {
            let mut three = four.clone();
            three[2].1 = flags;
            assert_eq!(inputs(&size_tiered.next(&view(&three)).unwrap()), None, "{flags}");
        }
    }

    #[test]
    fn constants_are_sent_once_and_forgotten_with_the_sstable() {
        let mut size_tiered = decisions("SizeTiered", &[]);
        let all = |flags| (1..=4).map(|id| (id, flags, 100, id as u128)).collect::<Vec<_>>();
        size_tiered.next(&view(&all(INSIDE | WITH_CONSTANTS))).unwrap();
        assert!(inputs(&size_tiered.next(&view(&all(INSIDE))).unwrap()).is_some());
        size_tiered.next(&view(&all(INSIDE)[..3])).unwrap();
        assert_eq!(size_tiered.next(&view(&all(INSIDE))), Err(DecisionError::UnknownSSTable(4)));
    }

    #[test]
    fn a_run_counts_as_one() {
        let mut incremental = decisions("Incremental", &[("sstable_size_in_mb", "100")]);
        let new = INSIDE | WITH_CONSTANTS;
        let of_one_run: Vec<_> = (1..=4).map(|id| (id, new, 100, 77)).collect();
        assert_eq!(inputs(&incremental.next(&view(&of_one_run)).unwrap()), None);
        assert_eq!(incremental.sstable_bytes(), Some(100 << 20));
        let runs: Vec<_> = (1..=4).map(|id| (id, new, 100, id as u128)).collect();
        assert_eq!(inputs(&incremental.next(&view(&runs)).unwrap()).map(|plan| plan.len()), Some(4));
    }

    #[test]
    fn a_major_compaction_takes_all() {
        let mut incremental = decisions("Incremental", &[]);
        let new = INSIDE | WITH_CONSTANTS;
        let message = incremental.major(&view(&[(1, new, 10, 1), (2, new, 900, 2)]), false).unwrap();
        let mut input = Input::new(&message);
        assert_eq!(input.count("plans", 1), Ok(1));
        let number = input.u64("plan").unwrap();
        assert_eq!(input.count("inputs", 8), Ok(2));
        let mut report = Output::default();
        report.u64(number);
        report.count(0);
        report.i64(910 * MIB);
        report.i64(900 * MIB);
        report.byte_string(&[2]);
        let report = report.into_bytes();
        assert_eq!(incremental.finished(&report), Ok(()));
        assert!(incremental.plans.is_empty());
        assert_eq!(incremental.finished(&report), Ok(()));
    }

    #[test]
    fn a_damaged_view_is_an_error() {
        let mut size_tiered = decisions("SizeTiered", &[]);
        let message = view(&[(1, INSIDE | WITH_CONSTANTS, 100, 1)]);
        for len in 0..message.len() {
            assert!(size_tiered.next(&message[..len]).is_err(), "{len} bytes");
        }
        let mut rng = base::rng::Rng::new(5);
        for _ in 0..20_000 {
            let mut damaged = message.clone();
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(damaged.len() as u64) as usize;
                damaged[at] = rng.below(256) as u8;
            }
            let _ = size_tiered.next(&damaged);
            let _ = size_tiered.explain(&damaged);
        }
    }
}
