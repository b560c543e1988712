//! The life of one world: it is opened, used, crashed and opened again, and everything readable is compared.
//!
//! A round is a handful of concurrent operations, perhaps under faults, perhaps with a crash at an I/O
//! operation chosen beforehand. Everything readable is compared between rounds and after every restart.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use base::rng::Rng;
use catalog::Keyspace;
use engine::commitlog::SyncMode;
use engine::{EngineOptions, node, recover};
use model::sample::Variety;
use runtime::sim::{FaultPlan, SimNode, SimOptions, SimStop, SimWorld};

use crate::client::{Client, Counts, Excuses, History, SharedClient};
use crate::corruption;
use crate::failure::{Checker, Failure};
use crate::ops::{self, KEYSPACE, Op};
use crate::registers;

/// Start of the simulated world's wall clock, in seconds since 1970.
const WALL_START_S: u32 = 1_767_225_600;

/// The node's data directory.
const DATA_DIR: &str = "/node/data";

/// Result of a seed: equal for equal seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub schedule_hash: u64,
    pub disk_hash: u64,
    pub io_ops: u64,
    pub virtual_us: u64,
    pub counts: Counts,
}

/// Runs one seed; the error is the failure of a checker.
pub fn run(seed: u64, history: &History) -> Result<Outcome, Failure> {
    let mut run = Run::new(seed, history.clone());
    run.open()?;
    let rounds = 3 + run.rng.below(8);
    for round in 0..rounds {
        run.client.borrow().note(format!("--- round {round}"));
        run.round(round < 2)?;
        if run.of_maintenance.chance(1, 12) {
            run.decayed()?;
        }
    }
    run.faults_off();
    run.close_and_open()?;
    run.crash();
    run.open()?;
    run.world.power_loss();
    let world = &run.world;
    Ok(Outcome {
        schedule_hash: world.schedule_hash(),
        disk_hash: world.disk_snapshot_hash(),
        io_ops: world.io_ops(),
        virtual_us: world.now_us(),
        counts: run.client.borrow().counts,
    })
}

struct Run {
    world: SimWorld,
    node: Option<SimNode>,
    client: SharedClient,
    /// Decides what happens between rounds; inside rounds the client's generator decides.
    rng: Rng,
    options: EngineOptions,
    /// Faults that are always active.
    weather: FaultPlan,
    /// Decides about operations that were added later, so that other decisions of a seed stay the same.
    of_maintenance: Rng,
    /// Decides about clock jumps and competing tasks.
    of_time: Rng,
    /// Decides about batches.
    of_batches: Rng,
}

impl Run {
    fn new(seed: u64, history: History) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed_5ea5);
        let sync = match rng.below(4) {
            0 => SyncMode::Group { window_us: 200 + rng.below(2000) },
            1 => SyncMode::Periodic { period_us: 1000 + rng.below(40_000) },
            _ => SyncMode::Batch,
        };
        let segment_bytes = (16 * 1024) << rng.below(3);
        let mut options = EngineOptions::new(DATA_DIR);
        options.commitlog_sync = sync;
        options.commitlog_segment_bytes = segment_bytes;
        options.commitlog_total_bytes = segment_bytes * (4 + rng.below(16));
        options.memory_bytes = (32 * 1024) << rng.below(6);
        let mut weather = FaultPlan::default();
        if rng.chance(1, 3) {
            weather.short_transfer = 0.1;
        }
        if rng.chance(1, 4) {
            weather.spike = 0.02;
        }
        weather.allocate_unsupported = rng.chance(1, 8);
        // From another generator, so that the other decisions of a seed stay the same.
        let mut of_compaction = Rng::new(seed ^ 0xc0_4ac7);
        let purges = of_compaction.chance(1, 2);
        options.compaction.is_automatic = of_compaction.chance(2, 3);
        options.compaction.concurrent_jobs = of_compaction.below(3) as u32;
        // With a snapshot a truncate flushes; without one it drops the memtables.
        options.auto_snapshot = Rng::new(seed ^ 0x5a_95_07).chance(1, 2);
        let variety = Variety {
            now_s: WALL_START_S,
            partitions: 1 + rng.below(8),
            rows: 2 + rng.below(12),
            value_bytes: *rng.pick(&[10, 40, 300]),
            ..Variety::default()
        };
        let world = SimWorld::new(SimOptions {
            seed,
            shards: 1,
            faults: weather.clone(),
            run_us_max: 300_000_000,
            run_steps_max: 20_000_000,
            ..SimOptions::default()
        });
        let client = Client::new(rng.fork(), history, variety, sync, purges, world.clock());
        client.note(format!("{options:?} {variety:?}"));
        let of_maintenance = Rng::new(seed ^ 0x00bb_7ee9);
        let of_time = Rng::new(seed ^ 0x0c10_c200);
        let of_batches = Rng::new(seed ^ 0x000b_a7c4);
        let client = Rc::new(RefCell::new(client));
        Self { world, node: None, client, rng, options, weather, of_maintenance, of_time, of_batches }
    }

    fn faults_off(&mut self) {
        let weather = self.weather.clone();
        self.world.set_faults(|faults| *faults = weather);
        self.client.borrow_mut().excuses = Excuses::default();
    }

    /// The node dies, alone or with the machine.
    fn crash(&mut self) {
        let power = self.rng.chance(1, 2);
        // A failed sync may lose earlier writes, from the page cache too.
        let loses_unsynced = power || self.client.borrow().excuses.io;
        self.client.borrow_mut().counts.crashes += 1;
        self.client.borrow().note(if power { "=== power loss" } else { "=== kill" });
        self.client.borrow_mut().crashed(loses_unsynced);
        self.node = None;
        if power {
            self.world.power_loss();
        } else {
            self.world.kill();
        }
        // Files of a load that did not happen must not be loaded later.
        let disk = self.world.disk();
        let is_upload = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "upload");
        for path in disk.files().into_iter().filter(is_upload) {
            disk.remove(&path).expect("a file that is there can be removed");
        }
    }

    /// Opens the directory, despite crashes and faults, and compares.
    fn open(&mut self) -> Result<(), Failure> {
        let mut crashes_left = if self.rng.chance(1, 3) { 1 + self.rng.below(3) } else { 0 };
        loop {
            self.faults_off();
            if self.rng.chance(1, 4) || self.client.borrow().counts.restarts == 0 {
                self.world.set_shards(1 + self.rng.below(3) as u32);
            }
            if crashes_left > 0 {
                crashes_left -= 1;
                match self.rng.below(6) {
                    0 => {
                        self.client.borrow_mut().excuses.io = true;
                        self.world.set_faults(|faults| {
                            faults.sync_error = 0.03;
                            faults.write_error = 0.03;
                        });
                    }
                    1 => {
                        self.client.borrow_mut().excuses.no_space = true;
                        let room = self.rng.below(150_000);
                        let used = self.world.disk().used_bytes();
                        self.world.set_faults(|faults| faults.capacity_bytes = Some(used + room));
                    }
                    _ => self.world.crash_after(self.rng.below(400)),
                }
            }
            match self.try_open() {
                Ok(Ok(())) => break,
                Ok(Err(error)) => {
                    let excuses = self.client.borrow().excuses;
                    self.client.borrow().note(format!("open failed: {error}"));
                    if !excuses.io && !excuses.no_space {
                        return Err(Failure::new(
                            Checker::Opens,
                            format!("the directory does not open: {error}"),
                        ));
                    }
                    self.crash();
                }
                Err(SimStop::Crashed) => self.crash(),
                Err(stop) => return Err(Failure::stopped("while opening", stop)),
            }
        }
        self.client.borrow_mut().counts.restarts += 1;
        // Replayed writes have been flushed, or are in a synced log.
        let Excuses { io: loses, no_space: was_full } = self.client.borrow().excuses;
        self.faults_off();
        if was_full {
            // A node starts on a full disk too. A flush that found no space is retried after at most ten
            // seconds; until then writes are refused.
            self.world
                .run_for_us(25_000_000)
                .map_err(|stop| Failure::stopped("after the disk was full", stop))?;
        }
        if loses {
            // The log of this run may have failed already.
            self.client.borrow_mut().needs_restart = true;
        }
        self.settle_schema()?;
        self.compare(true)
    }

    fn try_open(&mut self) -> Result<Result<(), String>, SimStop> {
        let options = self.options.clone();
        let node = self.world.start_node(|_| async {})?;
        let opened =
            self.world.block_on(&node, 0, |shard| async move { recover::open(&shard, options).await });
        let result = match opened? {
            Ok(report) => {
                let replay = &report.replay;
                self.client.borrow().note(format!(
                    "opened with {} shards: {} segments, {} entries, {} skipped, {} truncated, {} unfinished SSTables",
                    node.remote().shard_count(),
                    replay.segments,
                    replay.entries,
                    replay.skipped,
                    replay.truncated.len(),
                    report.removed_sstables.len()
                ));
                // No files are removed from outside, so none may be reported missing. After a power loss it
                // may be unknown whether any is missing.
                let missed = report
                    .missing_sstables
                    .iter()
                    .find(|text| text.contains("existed when the node stopped"));
                let client = self.client.borrow();
                match missed {
                    Some(text) if !client.excuses.io && !client.is_decayed => Err(text.clone()),
                    _ => Ok(()),
                }
            }
            Err(error) => Err(error.to_string()),
        };
        self.world.set_faults(|faults| faults.crash_after_ops = None);
        self.node = Some(node);
        Ok(result)
    }

    fn node(&self) -> &SimNode {
        self.node.as_ref().expect("a node runs")
    }

    fn some_shard(&mut self) -> u32 {
        let shards = u64::from(self.node().remote().shard_count());
        self.rng.below(shards) as u32
    }

    /// Checks that the node has the expected schema. Creates the keyspace if it does not exist.
    fn settle_schema(&mut self) -> Result<(), Failure> {
        let found = self.world.block_on(self.node(), 0, |shard| async move {
            let catalog = node::catalog(&shard).map_err(|error| error.to_string())?;
            if catalog.keyspace(registers::KEYSPACE).is_none() {
                let make = node::change_schema(&shard, registers::create);
                make.await.map_err(|error| error.to_string())?;
            }
            if catalog.keyspace(KEYSPACE).is_none() {
                let make = node::change_schema(&shard, |catalog| {
                    catalog.create_keyspace(Keyspace::simple(KEYSPACE)?)
                });
                make.await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(catalog.tables(KEYSPACE).map(|table| table.schema.clone()).collect::<Vec<_>>())
        });
        let found = found.map_err(|stop| Failure::stopped("reading the schema", stop))?;
        let found =
            found.map_err(|error| Failure::new(Checker::Errors, format!("making the keyspace: {error}")))?;
        self.client.borrow_mut().take_schema(&found).map_err(|text| Failure::new(Checker::Schema, text))
    }

    fn compare(&mut self, is_restarted: bool) -> Result<(), Failure> {
        let (client, target) = (self.client.clone(), self.some_shard());
        let compared =
            self.world.block_on(self.node(), target, |shard| ops::compare(shard, client, is_restarted));
        compared.map_err(|stop| Failure::stopped("comparing", stop))?;
        self.no_failure()
    }

    fn no_failure(&self) -> Result<(), Failure> {
        self.client.borrow_mut().failure.take().map_or(Ok(()), Err)
    }

    /// Operations that change nothing that a read returns.
    fn quiet_ops(&mut self) -> Vec<Op> {
        let rng = &mut self.of_maintenance;
        let mut ops: Vec<Op> = (0..1 + rng.below(4)).map(|_| Op::ReadSlowly(2 + rng.below(6))).collect();
        for (op, chance) in [
            (Op::Flush, 2),
            (Op::Flush, 2),
            (Op::Sync, 6),
            (Op::Snapshot, 4),
            (Op::Compact, 2),
            (Op::Compact, 2),
            (Op::Maintenance, 2),
            (Op::Maintenance, 2),
            (Op::StopCompactions, 6),
            (Op::AddColumn, 12),
            (Op::DropColumn, 12),
            (Op::ChangeOptions, 4),
            (Op::CreateTable, 12),
            (Op::DropTable, 12),
        ] {
            if rng.chance(1, chance) {
                ops.push(op);
            }
        }
        ops
    }

    fn random_ops(&mut self, is_early: bool) -> Vec<Op> {
        if !is_early && self.of_maintenance.chance(1, 4) {
            self.client.borrow().note("quiet");
            return self.quiet_ops();
        }
        let rng = &mut self.rng;
        let mut ops = vec![];
        if is_early || rng.chance(1, 6) {
            ops.extend([Op::CreateTable; 2]);
        }
        ops.extend((0..1 + rng.below(4)).map(|_| Op::Write(4 + rng.below(20))));
        for (op, chance) in [
            (Op::Read(4), 3),
            (Op::Flush, 2),
            (Op::Flush, 4),
            (Op::Sync, 4),
            (Op::Truncate, 5),
            (Op::Snapshot, 10),
            (Op::Compact, 2),
            (Op::Compact, 3),
            (Op::StopCompactions, 12),
            (Op::AddColumn, 8),
            (Op::DropColumn, 8),
            (Op::ChangeOptions, 12),
            (Op::DropTable, 12),
        ] {
            if rng.chance(1, chance) {
                ops.push(op);
            }
        }
        for (op, chance) in [(Op::Maintenance, 2), (Op::Maintenance, 3), (Op::Load, 3), (Op::Load, 5)] {
            if self.of_maintenance.chance(1, chance) {
                ops.push(op);
            }
        }
        ops
    }

    fn clock_jump_us(&mut self) -> i64 {
        let span_us = *self.of_time.pick(&[1_000_000, 60_000_000, 7_200_000_000]);
        self.of_time.below(2 * span_us) as i64 - span_us as i64
    }

    fn add_competition(&mut self, ops: &mut Vec<Op>) {
        if self.of_time.chance(1, 2) {
            ops.push(Op::Compete(2 + self.of_time.below(4)));
        }
        // If tombstones expire soon, a jump ahead would purge those that are newer than a write in flight.
        if self.of_time.chance(1, 8) {
            let us = self.clock_jump_us();
            ops.push(Op::SetClock(if self.client.borrow().purges { -us.abs() } else { us }));
        }
    }

    /// A run over damaged files, and another one after their repair.
    fn decayed(&mut self) -> Result<(), Failure> {
        if self.client.borrow().needs_restart {
            return Ok(());
        }
        self.faults_off();
        self.close()?;
        self.crash();
        let keyspace_dir = PathBuf::from(DATA_DIR).join("data").join(KEYSPACE);
        let damaged = corruption::damage(&mut self.of_maintenance, &self.world.disk(), &keyspace_dir);
        for damaged in &damaged {
            self.client.borrow().note(format!("damage: {}", damaged.how));
        }
        self.client.borrow_mut().is_decayed = true;
        self.client.borrow_mut().counts.decays += 1;
        match self.try_open() {
            Ok(Ok(())) => {
                self.settle_schema()?;
                let rng = &mut self.of_maintenance;
                let mut ops = vec![Op::ReadSlowly(12)];
                for op in [Op::Compact, Op::Compact, Op::Maintenance, Op::Snapshot] {
                    if rng.chance(1, 3) {
                        ops.push(op);
                    }
                }
                let (client, target) = (self.client.clone(), self.some_shard());
                let ran = self.world.block_on(self.node(), target, |shard| ops::round(shard, client, ops));
                ran.map_err(|stop| Failure::stopped("a round over damaged files", stop))?;
                self.no_failure()?;
            }
            Ok(Err(error)) => {
                return Err(Failure::new(
                    Checker::Opens,
                    format!("damaged files of a user's table: {error}"),
                ));
            }
            Err(stop) => return Err(Failure::stopped("while opening damaged files", stop)),
        }
        self.crash();
        corruption::repair(&self.world.disk(), damaged);
        self.client.borrow_mut().is_decayed = false;
        self.client.borrow().note("put right");
        self.open()
    }

    /// Checks that the disk of an idle node has no file of an unfinished SSTable and no record of a
    /// replacement.
    fn no_strays(&self) -> Result<(), Failure> {
        let is_stray = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_of_data = path.starts_with("/node/data/data");
            is_of_data && (name.ends_with(".tmp") || name.starts_with("compaction-"))
        };
        let strays: Vec<PathBuf> = self.world.disk().files().into_iter().filter(is_stray).collect();
        if strays.is_empty() {
            Ok(())
        } else {
            Err(Failure::new(Checker::Strays, format!("stray files: {strays:?}")))
        }
    }

    fn round(&mut self, is_early: bool) -> Result<(), Failure> {
        if self.client.borrow().purges && self.rng.chance(1, 2) {
            // Time passes, so that tombstones expire.
            self.world.run_for_us(8_000_000).map_err(|stop| Failure::stopped("between rounds", stop))?;
        }
        if self.of_time.chance(1, 8) {
            let us = self.clock_jump_us();
            self.client.borrow_mut().set_clock_by_us(self.world.wall_us(), us);
        }
        self.client.borrow_mut().variety.now_s = (self.world.wall_us() / 1_000_000) as u32;
        let mut ops = self.random_ops(is_early);
        if ops.iter().any(|op| matches!(op, Op::Write(_))) && self.of_batches.chance(2, 3) {
            ops.push(Op::Batch(2 + self.of_batches.below(10)));
        }
        self.add_competition(&mut ops);
        self.make_faults();
        if self.rng.chance(2, 5) {
            let after = 1 + self.rng.below(500);
            self.world.crash_after(after);
        }
        let (client, target) = (self.client.clone(), self.some_shard());
        let ran = self.world.block_on(self.node(), target, |shard| ops::round(shard, client, ops));
        self.world.set_faults(|faults| faults.crash_after_ops = None);
        self.no_failure()?;
        match ran {
            Ok(()) => {}
            Err(SimStop::Crashed) => {
                self.crash();
                return self.open();
            }
            Err(stop) => return Err(Failure::stopped("a round", stop)),
        }
        let excuses = self.client.borrow().excuses;
        if excuses.io {
            // The log may have failed; everything readable is compared before the node is opened again.
            self.world.set_faults(|faults| {
                faults.write_error = 0.0;
                faults.sync_error = 0.0;
                faults.read_error = 0.0;
                faults.write_error_paths = None;
            });
            self.compare(false)?;
            self.crash();
            return self.open();
        }
        if excuses.no_space {
            self.compare(false)?;
            self.faults_off();
            if !self.client.borrow().needs_restart {
                // A flush that found no space is retried after at most ten seconds.
                self.world
                    .run_for_us(25_000_000)
                    .map_err(|stop| Failure::stopped("after the disk was full", stop))?;
                let (client, target) = (self.client.clone(), self.some_shard());
                let resumed = self
                    .world
                    .block_on(self.node(), target, |shard| ops::write_until_acknowledged(shard, client));
                resumed.map_err(|stop| {
                    Failure::new(Checker::Resumes, format!("after the disk was full: {stop}"))
                })?;
                self.no_failure()?;
            }
        }
        self.compare(false)?;
        if self.client.borrow().needs_restart || self.rng.chance(1, 6) {
            self.crash();
            return self.open();
        }
        if self.rng.chance(1, 5) {
            return self.close_and_open();
        }
        Ok(())
    }

    /// Activates faults in one of four rounds.
    fn make_faults(&mut self) {
        let rng = &mut self.rng;
        let mut excuses = Excuses::default();
        match rng.below(16) {
            0 | 1 => {
                excuses.no_space = true;
                let capacity = self.world.disk().used_bytes() + rng.below(120_000);
                self.world.set_faults(|faults| faults.capacity_bytes = Some(capacity));
            }
            2 => {
                excuses.io = true;
                self.world.set_faults(|faults| {
                    faults.write_error_paths =
                        Some(Rc::new(|path| path.components().any(|part| part.as_os_str() == "commitlog")));
                });
            }
            3 => {
                excuses.io = true;
                self.world.set_faults(|faults| {
                    faults.sync_error = 0.05;
                    faults.write_error = 0.02;
                });
            }
            4 => {
                excuses.io = true;
                self.world.set_faults(|faults| faults.read_error = 0.02);
            }
            _ => {}
        }
        if excuses.io || excuses.no_space {
            self.client.borrow().note(format!("faults: {excuses:?}"));
        }
        self.client.borrow_mut().excuses = excuses;
    }

    fn close(&mut self) -> Result<(), Failure> {
        let target = self.some_shard();
        let stamp = self.client.borrow_mut().stamp();
        let closed =
            self.world.block_on(self.node(), target, |shard| async move { node::close(&shard).await });
        match closed {
            Ok(Ok(())) => self.client.borrow_mut().tables.iter_mut().for_each(|table| table.synced(stamp)),
            Ok(Err(error)) => return Err(Failure::new(Checker::Errors, format!("close: {error}"))),
            Err(stop) => return Err(Failure::stopped("close", stop)),
        }
        self.client.borrow().note("=== closed");
        self.no_strays()
    }

    fn close_and_open(&mut self) -> Result<(), Failure> {
        self.close()?;
        self.crash();
        self.open()
    }
}
