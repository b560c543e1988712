//! Tables and plans as text, for readable tests.
//!
//! A table is a comma-separated list of SSTables. Each begins with its size in MB, optionally preceded by a
//! name (`a`, `b`, … by default). Further properties follow in any order:
//!
//! | word | |
//! |---|---|
//! | `0-99` | first and last key, as positions of [`key`] in hundredths of the ring; default `0-99`, the whole ring |
//! | `L2` | level |
//! | `run7` | run; default: a run of its own |
//! | `t10-20` or `t10` | smallest and largest timestamp, in seconds |
//! | `age90` | age in seconds since it was written; default 100,000 |
//! | `dead0.3` | ratio of droppable tombstones |
//! | `dies500` | time in seconds after which all its data is dead; default: never |
//! | `same70` | it has a sketch, and 70 % of its partitions are common to all SSTables with this word |
//! | `disk20` | MB on disk; default: its size |
//! | `busy`, `frozen` | it is compacting, it is frozen |
//! | `deletes` | it contains deletions |
//! | `reads5` | reads per second that open it; default: unknown |
//! | `repaired` | it is repaired |

use std::rc::Rc;

use base::hyperloglog::{HyperLogLog, key_hash};
use model::NO_DELETION_TIME_S;

use super::keys::{KEYS, key};
use crate::plan::{Layout, Plan, Split};
use crate::sstable_id::{RunId, SSTableId};
use crate::view::{DiskView, SSTableView, TableView};

/// MB in texts are 2^20 bytes.
pub const MB: u64 = 1 << 20;

/// The current time of a table: 1,000,000 s.
pub const NOW_S: u32 = 1_000_000;

/// A table of text form, see the head of this file.
#[derive(Clone, Debug)]
pub struct Table {
    /// The SSTables, in the order of the text.
    pub sstables: Vec<SSTableView>,
    /// Their names, in the same order.
    pub names: Vec<String>,
    /// The time of the decision.
    pub now_us: i64,
    /// Tombstones deleted before this second are droppable.
    pub gc_before_s: u32,
    /// The least timestamp in memtables; `None`: they are empty.
    pub memtable_min_timestamp_us: Option<i64>,
    /// Jobs of the table that run.
    pub jobs_running: u32,
    /// Bytes of an average flush.
    pub flush_bytes: u64,
    /// The shard's part of the ring, from 0 to 1.
    pub ring_share: f64,
    /// Whether merges of fewer than `min_threshold` runs are forbidden.
    pub enforce_min_threshold: bool,
    /// Free and total space of the disk.
    pub disk: DiskView,
    /// Seed of the strategy's random decisions.
    pub seed: u64,
}

impl Table {
    /// # Panics
    /// If the text is not valid.
    pub fn new(text: &str) -> Self {
        let mut table = Self {
            sstables: vec![],
            names: vec![],
            now_us: i64::from(NOW_S) * 1_000_000,
            gc_before_s: NOW_S - 10,
            memtable_min_timestamp_us: None,
            jobs_running: 0,
            flush_bytes: 0,
            ring_share: 1.0,
            enforce_min_threshold: true,
            disk: DiskView::new(1 << 50, 1 << 50),
            seed: 0,
        };
        for (at, drawn) in text.split(',').map(str::trim).filter(|drawn| !drawn.is_empty()).enumerate() {
            let mut words = drawn.split_whitespace().peekable();
            let named = words.next_if(|word| word.parse::<f64>().is_err());
            let name = named.map_or_else(|| letter(at), str::to_string);
            let mut sstable = plain(at as u64 + 1, mb(words.next().expect("a size")));
            words.for_each(|word| set(&mut sstable, word));
            table.sstables.push(sstable);
            table.names.push(name);
        }
        table
    }

    /// The table as a strategy sees it.
    pub fn view(&self) -> TableView<'_> {
        TableView {
            now_us: self.now_us,
            sstables: &self.sstables,
            outside: &[],
            gc_before_s: self.gc_before_s,
            memtable_min_timestamp_us: self.memtable_min_timestamp_us,
            jobs_running: self.jobs_running,
            flush_bytes: self.flush_bytes,
            ring_share: self.ring_share,
            enforce_min_threshold: self.enforce_min_threshold,
            disk: self.disk,
            sampled: None,
            seed: self.seed,
        }
    }

    /// The name of an SSTable.
    pub fn name(&self, id: SSTableId) -> &str {
        &self.names[id.0 as usize - 1]
    }

    /// The names, sorted and separated by spaces.
    pub fn names(&self, ids: &[SSTableId]) -> String {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        sorted.iter().map(|id| self.name(*id)).collect::<Vec<_>>().join(" ")
    }

    /// The plan as text: `merge a b c`, `merge a b into level 1 of 160 MB`, `drop d`, or `nothing`.
    pub fn say(&self, plan: Option<&Plan>) -> String {
        let Some(plan) = plan else { return "nothing".to_string() };
        let mut said = vec![];
        if !plan.inputs.is_empty() {
            said.push(format!("merge {}{}", self.names(&plan.inputs), layout_text(&plan.layout)));
        }
        if !plan.expired.is_empty() {
            said.push(format!("drop {}", self.names(&plan.expired)));
        }
        said.join(", ")
    }

    /// Like `Self::say`, followed by a colon and the reason.
    pub fn explain(&self, plan: Option<&Plan>) -> String {
        match plan {
            Some(plan) => format!("{}: {}", self.say(Some(plan)), plan.reason),
            None => "nothing".to_string(),
        }
    }
}

fn letter(at: usize) -> String {
    let letter = char::from(b'a' + (at % 26) as u8);
    if at < 26 { letter.to_string() } else { format!("{letter}{}", at / 26) }
}

fn mb(text: &str) -> u64 {
    let size: f64 = text.parse().unwrap_or_else(|_| panic!("{text} is no size"));
    (size * MB as f64) as u64
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn place(hundredth: f64) -> u32 {
    ((hundredth / 100.0 * f64::from(KEYS)) as u32).min(KEYS)
}

fn plain(id: u64, bytes: u64) -> SSTableView {
    SSTableView {
        id: SSTableId(id),
        run: RunId(u128::from(id) + 1_000_000),
        data_bytes: bytes,
        disk_bytes: bytes,
        first: key(0).clone(),
        last: key(KEYS - 1).clone(),
        level: 0,
        min_timestamp_us: 1_000_000,
        max_timestamp_us: 2_000_000,
        max_deletion_time_s: NO_DELETION_TIME_S,
        written_s: NOW_S - 100_000,
        may_delete: false,
        droppable_ratio: 0.0,
        partitions: 1000,
        keys: None,
        compacting: false,
        frozen: false,
        is_repaired: false,
        reads_per_s: None,
    }
}

fn set(sstable: &mut SSTableView, word: &str) {
    let value = |prefix: &str| word.strip_prefix(prefix);
    let seconds = |text: &str| (number::<f64>(text) * 1e6) as i64;
    if word == "busy" {
        sstable.compacting = true;
    } else if word == "frozen" {
        sstable.frozen = true;
    } else if word == "repaired" {
        sstable.is_repaired = true;
    } else if word == "deletes" {
        sstable.may_delete = true;
    } else if let Some(reads) = value("reads") {
        sstable.reads_per_s = Some(number(reads));
    } else if let Some(age) = value("age") {
        sstable.written_s = NOW_S - number::<u32>(age);
    } else if let Some(ratio) = value("dead") {
        sstable.droppable_ratio = number(ratio);
    } else if let Some(at) = value("dies") {
        sstable.max_deletion_time_s = number(at);
    } else if let Some(percent) = value("same") {
        sstable.keys = Some(Rc::new(sketch(sstable, number(percent))));
    } else if let Some(size) = value("disk") {
        sstable.disk_bytes = mb(size);
    } else if let Some(run) = value("run") {
        sstable.run = RunId(number(run));
    } else if let Some(level) = value("L") {
        sstable.level = number(level);
    } else if let Some(times) = value("t") {
        let (from, to) = times.split_once('-').unwrap_or((times, times));
        (sstable.min_timestamp_us, sstable.max_timestamp_us) = (seconds(from), seconds(to));
    } else if let Some((from, to)) = word.split_once('-') {
        sstable.first = key(place(number(from)).min(KEYS - 1)).clone();
        sstable.last = key(place(number::<f64>(to) + 1.0) - 1).clone();
    } else {
        panic!("{word} is not understood");
    }
}

/// A sketch with a hundred partitions per covered hundredth of the ring; `percent` of them are the common
/// ones.
fn sketch(sstable: &SSTableView, percent: u32) -> HyperLogLog {
    let mut sketch = HyperLogLog::new();
    for at in (0..10_000).filter(|at| (&sstable.first..=&sstable.last).contains(&key(at * KEYS / 10_000))) {
        let of = if at % 100 < percent { 0 } else { sstable.id.0 };
        sketch.offer(key_hash(&[&of.to_be_bytes()[..], &at.to_be_bytes()].concat()));
    }
    sketch
}

fn layout_text(layout: &Layout) -> String {
    let mut said = String::new();
    if layout.level > 0 {
        said += &format!(" into level {}", layout.level);
    } else if layout.is_run {
        said += " into a run";
    }
    if let Some(max) = layout.max_bytes {
        said += &format!(" of {} MB each", max / MB);
    }
    match &layout.split {
        Split::Nowhere => {}
        Split::Tokens(tokens) => said += &format!(" into {} parts", tokens.len() + 1),
        Split::Runs(pieces) => {
            let runs: Vec<String> = pieces.iter().map(|piece| format!("run{}", piece.run.0)).collect();
            said += &format!(" back into {}", runs.join(" "));
        }
        Split::Windows { window_us, .. } => said += &format!(" by {} s", window_us / 1_000_000),
    }
    said
}
