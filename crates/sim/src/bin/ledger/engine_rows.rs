//! Kills a process with the engine alone: `ledger --engine`.
//!
//! The parent starts itself as a child that opens a directory with `batch` sync and writes single rows as
//! fast as it can from several threads. The child reports each acknowledged write to the parent through a
//! pipe. At a random moment the parent kills the child with SIGKILL; sometimes it kills another child during
//! its recovery. Then the parent opens the directory itself, reads the whole table and compares: every write
//! in the ledger must be present with its value, and every other row must be a whole write that was begun.
//!
//! Key and value of a write follow from its number, so the ledger is a set of numbers.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use base::rng::Rng;
use catalog::{Keyspace, TableSettings};
use clap::ValueEnum;
use engine::commitlog::SyncMode;
use engine::{Engine, EngineError, EngineOptions, ReadCommand, ShardOptions};
use model::{
    Cell, ClusteringPrefix, ColumnData, CqlType, Liveness, Mutation, PartitionKey, PartitionRange,
    TableSchema,
};

use crate::Args;

/// Threads of a child that write, and the number of writes in flight of each.
const WRITERS: u64 = 3;
const UNDER_WAY: u64 = 24;
/// A child without an acknowledgement by then has failed.
const FIRST_ACKNOWLEDGEMENT_S: u64 = 60;
const PARTITIONS: u64 = 500;

fn open(args: &Args, dir: &Path) -> Result<Engine, EngineError> {
    let mut options = EngineOptions::new(dir);
    options.commitlog_sync = SyncMode::Batch;
    // Small, so that flushes and recycling of segments happen.
    options.commitlog_segment_bytes = 256 << 10;
    options.commitlog_total_bytes = 4 << 20;
    options.memory_bytes = 8 << 20;
    let shards =
        ShardOptions { shards: shards(args), backend: args.backend.into(), ..ShardOptions::default() };
    Engine::open_with(options, shards)
}

fn shards(args: &Args) -> u32 {
    args.shards.unwrap_or(1)
}

/// The ledger's table; creates it if it does not exist.
fn table(engine: &Engine) -> Result<Arc<TableSchema>, EngineError> {
    if engine.catalog()?.keyspace("ledger").is_none() {
        engine.change_schema(|catalog| catalog.create_keyspace(Keyspace::simple("ledger")?))?;
    }
    if engine.table("ledger", "entries").is_err() {
        engine.change_schema(|catalog| {
            let table = TableSchema::builder("ledger", "entries").partition_key("p", CqlType::Text);
            let table = table.clustering("number", CqlType::BigInt).regular("value", CqlType::Blob);
            catalog.create_table(table.build().expect("a key and a column"), TableSettings::default())
        })?;
    }
    engine.table("ledger", "entries")
}

fn key(number: u64) -> PartitionKey {
    PartitionKey::new(format!("p{}", number % PARTITIONS).as_str())
}

fn value(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number);
    let mut value = vec![0; 8 + rng.below(300) as usize];
    rng.fill(&mut value);
    value
}

fn mutation(schema: &Arc<TableSchema>, number: u64) -> Mutation {
    let mut mutation = Mutation::new(schema.clone(), key(number));
    let timestamp_us = 1_700_000_000_000_000 + number as i64;
    let row = mutation.row_mut(ClusteringPrefix::new([&(number as i64).to_be_bytes()[..]]));
    row.liveness = Liveness::new(timestamp_us);
    row.set(schema.column_named("value").expect("made above"), Cell::live(timestamp_us, value(number)));
    mutation
}

#[allow(clippy::disallowed_methods, reason = "a host process with threads of its own is what is tested")]
pub fn child(args: &Args, first: u64) -> Result<ExitCode, String> {
    let engine = Arc::new(open(args, &args.dir).map_err(|error| error.to_string())?);
    let schema = table(&engine).map_err(|error| error.to_string())?;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (engine, schema) = (engine.clone(), schema.clone());
            std::thread::spawn(move || write(&engine, &schema, first + writer * 10_000_000))
        })
        .collect();
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked".to_string())??;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes until the process is killed.
fn write(engine: &Engine, schema: &Arc<TableSchema>, first: u64) -> Result<(), String> {
    let mut number = first;
    loop {
        let numbers = number..number + UNDER_WAY;
        let asked: Vec<_> =
            numbers.clone().map(|number| (number, engine.apply(mutation(schema, number)))).collect();
        for (number, answer) in asked {
            answer.wait().map_err(|error| format!("write {number}: {error}"))?;
            let mut out = std::io::stdout().lock();
            let reported = out.write_all(&number.to_be_bytes()).and_then(|()| out.flush());
            reported.map_err(|error| format!("the parent does not listen: {error}"))?;
        }
        number = numbers.end;
    }
}

pub fn parent(args: &Args) -> Result<ExitCode, String> {
    let dir = args.dir.join(format!("run-{}", std::process::id()));
    let mut rng = Rng::new(args.seed);
    let mut ledger: BTreeSet<u64> = BTreeSet::new();
    let (mut passed, mut failed, mut in_recovery) = (0, 0, 0);
    for kill in 1..=args.kills {
        let before = ledger.len();
        let while_recovering = kill > 1 && rng.chance(1, 4);
        in_recovery += u64::from(while_recovering);
        let after_ms = if while_recovering { rng.below(120) } else { 2 + rng.below(399) };
        run_and_kill(args, &dir, kill, while_recovering, after_ms, &mut ledger)?;
        let verified = verify(args, &dir, &ledger, kill);
        let what = if while_recovering { "of its start" } else { "of writing" };
        match &verified {
            Ok((rows, backend)) => {
                passed += 1;
                if kill % 10 == 0 || kill == 1 || kill == args.kills {
                    println!(
                        "kill {kill}, {after_ms} ms {what}: {} acknowledged since the last, {} in all, {rows} found ({backend})",
                        ledger.len() - before,
                        ledger.len()
                    );
                }
            }
            Err(error) => {
                failed += 1;
                println!("kill {kill}, {after_ms} ms {what}: FAILED: {error}");
            }
        }
    }
    println!("{} acknowledged writes, {in_recovery} kills while recovering", ledger.len());
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        println!("the directory is kept: {}", dir.display());
        return Ok(ExitCode::FAILURE);
    }
    std::fs::remove_dir_all(&dir).map_err(|error| format!("cannot remove {}: {error}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a child, kills it, and adds the acknowledged writes to the ledger.
#[allow(clippy::disallowed_methods, reason = "the moment of a kill is real time; the pipe is read meanwhile")]
fn run_and_kill(
    args: &Args,
    dir: &Path,
    kill: u64,
    while_recovering: bool,
    after_ms: u64,
    ledger: &mut BTreeSet<u64>,
) -> Result<(), String> {
    let myself = std::env::current_exe().map_err(|error| error.to_string())?;
    let backend = args.backend.to_possible_value().expect("every back end has a name");
    let mut child: Child = Command::new(myself)
        .arg("--engine")
        .arg("--child")
        .arg((kill * 1_000_000_000).to_string())
        .arg("--dir")
        .arg(dir)
        .arg("--shards")
        .arg(shards(args).to_string())
        .arg("--backend")
        .arg(backend.get_name())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start a child: {error}"))?;
    let mut pipe = child.stdout.take().expect("asked for");
    let (tell_first, first) = mpsc::channel();
    let listener = std::thread::spawn(move || {
        let mut reported = vec![];
        let mut buf = [0; 8];
        // The kill may have cut off the last number.
        while pipe.read_exact(&mut buf).is_ok() {
            if reported.is_empty() {
                let _ = tell_first.send(());
            }
            reported.push(u64::from_be_bytes(buf));
        }
        reported
    });
    let mut began = true;
    if !while_recovering {
        began = first.recv_timeout(Duration::from_secs(FIRST_ACKNOWLEDGEMENT_S)).is_ok();
    }
    std::thread::sleep(Duration::from_millis(after_ms));
    let exited = child.try_wait().map_err(|error| error.to_string())?;
    let killed = child.kill();
    child.wait().map_err(|error| error.to_string())?;
    let reported = listener.join().map_err(|_| "the listener panicked".to_string())?;
    ledger.extend(reported);
    match exited {
        Some(status) => Err(format!("kill {kill}: the child ended by itself: {status}")),
        None if !began => {
            Err(format!("kill {kill}: nothing was acknowledged in {FIRST_ACKNOWLEDGEMENT_S} s"))
        }
        None => killed.map_err(|error| format!("kill {kill}: {error}")),
    }
}

/// Opens the directory and compares; returns the number of rows and the back end in use.
fn verify(args: &Args, dir: &Path, ledger: &BTreeSet<u64>, kill: u64) -> Result<(u64, String), String> {
    let engine = open(args, dir).map_err(|error| format!("it does not open: {error}"))?;
    let compared = compare(&engine, ledger, kill);
    let backend = engine.backend();
    if kill.is_multiple_of(3) {
        engine.close().map_err(|error| format!("it does not close: {error}"))?;
    } else {
        // Equivalent to another crash.
        drop(engine);
    }
    Ok((compared?, backend))
}

fn compare(engine: &Engine, ledger: &BTreeSet<u64>, kill: u64) -> Result<u64, String> {
    let schema = table(engine).map_err(|error| error.to_string())?;
    let column = schema.column_named("value").expect("made above").id;
    let mut command = ReadCommand::new(schema.id, PartitionRange::all());
    let mut missing = ledger.clone();
    let mut rows = 0;
    loop {
        let page = engine.read(command.clone()).wait().map_err(|error| error.to_string())?;
        for partition in &page.partitions {
            for row in &partition.rows {
                rows += 1;
                let bytes = row.key.values().next().and_then(|value| value.first_chunk::<8>());
                let number = u64::from_be_bytes(*bytes.ok_or("a key that is no number")?);
                let is_right = match row.row.cell(column) {
                    Some(ColumnData::Simple(cell)) => *cell.value == *value(number),
                    _ => false,
                };
                if !is_right || partition.key != key(number) || number / 1_000_000_000 > kill {
                    return Err(format!("write {number} is present, but not as it was written: {row:?}"));
                }
                missing.remove(&number);
            }
        }
        match page.next {
            Some(next) => command.paging = Some(next),
            None => break,
        }
    }
    if missing.is_empty() {
        return Ok(rows);
    }
    let some: Vec<u64> = missing.iter().take(20).copied().collect();
    Err(format!("{} acknowledged writes of {} are lost, such as {some:?}", missing.len(), ledger.len()))
}
