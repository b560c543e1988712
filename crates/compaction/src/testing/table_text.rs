//! Tables and plans as text, for tests that a person can read aloud.
//!
//! A table is a list of SSTables with commas between. Each begins with its size in MB, before which a name may stand
//! (`a`, `b`, … otherwise); then, in any order and only what matters:
//!
//! | word | |
//! |---|---|
//! | `0-99` | its first and last key, as places of [`key`] in hundreds of the ring: `0-99` is all of it, the default |
//! | `L2` | its level |
//! | `run7` | its run; otherwise one of its own |
//! | `t10-20` or `t10` | timestamps from and to, in seconds |
//! | `age90` | written so many seconds ago; otherwise 100,000 |
//! | `dead0.3` | its ratio of droppable tombstones |
//! | `dies500` | all in it is dead after so many seconds; otherwise never |
//! | `same70` | it has a sketch, and 70 % of its partitions are those of all others with this word |
//! | `disk20` | MB on disk; otherwise as many as its size |
//! | `busy`, `frozen` | it is compacting, it is frozen |

use std::rc::Rc;

use base::hyperloglog::{HyperLogLog, key_hash};
use model::NO_DELETION_TIME_S;

use super::keys::{KEYS, key};
use crate::plan::{Layout, Plan, Split};
use crate::view::{DiskView, RunId, SSTableId, SSTableView, TableView};

/// MB in texts are 2^20 bytes.
pub const MB: u64 = 1 << 20;

/// The time of a table: 1,000,000 s.
pub const NOW_S: u32 = 1_000_000;

#[derive(Clone, Debug)]
pub struct Table {
    pub sstables: Vec<SSTableView>,
    pub names: Vec<String>,
    pub now_us: i64,
    pub gc_before_s: u32,
    pub memtable_min_timestamp_us: Option<i64>,
    pub jobs_running: u32,
    pub flush_bytes: u64,
    pub ring_share: f64,
    pub enforce_min_threshold: bool,
    pub disk: DiskView,
    pub seed: u64,
}

impl Table {
    /// # Panics
    /// If the text makes no sense.
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
            disk: DiskView { capacity_bytes: 1 << 50, free_bytes: 1 << 50 },
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

    pub fn view(&self) -> TableView<'_> {
        TableView {
            now_us: self.now_us,
            sstables: &self.sstables,
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

    pub fn name(&self, id: SSTableId) -> &str {
        &self.names[id.0 as usize - 1]
    }

    /// The names, sorted, with blanks between.
    pub fn names(&self, ids: &[SSTableId]) -> String {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        sorted.iter().map(|id| self.name(*id)).collect::<Vec<_>>().join(" ")
    }

    /// What is done, into what: `merge a b c`, `merge a b into level 1 of 160 MB`, `drop d`; `nothing`.
    pub fn say(&self, plan: Option<&Plan>) -> String {
        let Some(plan) = plan else { return "nothing".to_string() };
        let mut said = vec![];
        if !plan.inputs.is_empty() {
            said.push(format!("merge {}{}", self.names(&plan.inputs), say_layout(&plan.layout)));
        }
        if !plan.expired.is_empty() {
            said.push(format!("drop {}", self.names(&plan.expired)));
        }
        said.join(", ")
    }

    /// The same with the reason behind a colon.
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
    }
}

fn set(sstable: &mut SSTableView, word: &str) {
    let value = |prefix: &str| word.strip_prefix(prefix);
    let seconds = |text: &str| (number::<f64>(text) * 1e6) as i64;
    if word == "busy" {
        sstable.compacting = true;
    } else if word == "frozen" {
        sstable.frozen = true;
    } else if word == "deletes" {
        sstable.may_delete = true;
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

/// A hundred partitions for each hundredth of the ring that it covers, of which so many are the common ones.
fn sketch(sstable: &SSTableView, percent: u32) -> HyperLogLog {
    let mut sketch = HyperLogLog::new();
    for at in (0..10_000).filter(|at| (&sstable.first..=&sstable.last).contains(&key(at * KEYS / 10_000))) {
        let of = if at % 100 < percent { 0 } else { sstable.id.0 };
        sketch.offer(key_hash(&[&of.to_be_bytes()[..], &at.to_be_bytes()].concat()));
    }
    sketch
}

fn say_layout(layout: &Layout) -> String {
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
