//! The work of `messina-bench engine` on RocksDB, with settings that mean the same.
//!
//! - Log on, synced by the operating system when it likes (our `periodic`), or on every write (our `batch`).
//! - Memtable large enough for all rows; one background thread, on the same core; no compaction.
//! - LZ4, 16 KiB blocks, bloom filter of 10 bits, index and filter in memory (ours: filter in memory, index
//!   in the cache), a block cache as large as ours.
//! - Past the cache: no block cache, direct reads, one thread for each client, since a read blocks its
//!   thread.
//!
//! Other phases have one client: RocksDB's calls do not wait, so more of them on one core only get in each
//! other's way. RocksDB allocates by the C library, not by mimalloc.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bench::BenchError;
use bench::engine::{BATCH_WRITES, CHECKED, COLD_READS, EngineArguments, Phase, memory_bytes};
use bench::report::{Report, Sample};
use bench::stopwatch::{Spent, Stopwatch};
use bench::workload::{Picks, Workload};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, FlushOptions, IteratorMode, Options, ReadOptions,
    WriteOptions,
};

#[derive(Clone, Copy, PartialEq)]
enum Reads {
    Cached,
    /// Neither block cache nor page cache.
    Direct,
}

fn options(workload: &Workload, reads: Reads) -> Options {
    let memory_bytes = memory_bytes(workload) as usize;
    let mut table = BlockBasedOptions::default();
    table.set_block_size(16 * 1024);
    table.set_bloom_filter(10.0, false);
    match reads {
        Reads::Cached => table.set_block_cache(&Cache::new_lru_cache(memory_bytes / 4)),
        Reads::Direct => table.disable_cache(),
    }
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(memory_bytes / 2);
    options.set_max_write_buffer_number(4);
    options.set_max_background_jobs(1);
    options.set_disable_auto_compactions(true);
    options.set_use_direct_reads(reads == Reads::Direct);
    options.set_use_direct_io_for_flush_and_compaction(true);
    options
}

/// One run of all wanted phases below `dir`, with the names that Messina's figures have.
pub fn run_once(
    report: &mut Report,
    arguments: &EngineArguments,
    workload: &Workload,
    dir: &Path,
) -> Result<(), BenchError> {
    let rows = workload.rows;
    let path = dir.join("rocksdb");
    let db = DB::open(&options(workload, Reads::Cached), &path)?;
    let spent = write(&db, workload, rows, false)?;
    if arguments.wants(Phase::Write) {
        report.add_rate("write", "/s", rows as f64, spent);
    }
    if arguments.wants(Phase::ReadMemtable) {
        report.add_rate("read-memtable", "/s", rows as f64, read(&db, workload, rows)?);
    }
    let db = if arguments.wants(Phase::Replay) {
        // Not flushed, and written by the operating system: as after a crash.
        drop(db);
        let watch = Stopwatch::start();
        let db = DB::open(&options(workload, Reads::Cached), &path)?;
        let wall_s = watch.spent().wall_s;
        check(&db, workload, &mut workload.picks(3), 1)?;
        // RocksDB flushes at the end of its recovery; so what is compared with it is our replay and flush.
        let rate = |count: f64| Sample { value: count / wall_s, cpu_us: None };
        report.add("replay-flush", "/s", rate(rows as f64));
        drop(db);
        DB::destroy(&Options::default(), &path)?;
        let db = DB::open(&options(workload, Reads::Cached), &path)?;
        write(&db, workload, rows, false)?;
        db
    } else {
        db
    };
    on_disk(report, arguments, workload, db, &path)?;
    DB::destroy(&Options::default(), &path)?;
    if arguments.wants(Phase::Batch) {
        let writes = rows.min(BATCH_WRITES);
        let db = DB::open(&options(workload, Reads::Cached), &path)?;
        let spent = write_synced(&db, workload, writes, arguments.concurrency)?;
        report.add_rate("write-batch", "/s", writes as f64, spent);
        drop(db);
        DB::destroy(&Options::default(), &path)?;
    }
    Ok(())
}

fn on_disk(
    report: &mut Report,
    arguments: &EngineArguments,
    workload: &Workload,
    db: DB,
    path: &Path,
) -> Result<(), BenchError> {
    let rows = workload.rows;
    let user_mb = workload.user_bytes() as f64 / 1e6;
    let watch = Stopwatch::start();
    let mut flush = FlushOptions::default();
    flush.set_wait(true);
    db.flush_opt(&flush)?;
    let spent = watch.spent();
    if arguments.wants(Phase::Flush) {
        report.add_rate("flush-user", "MB/s", user_mb, spent);
    }
    if arguments.wants(Phase::ReadCached) {
        let reads = (rows / 2).max(1);
        read(&db, workload, reads)?;
        report.add_rate("read-cached", "/s", reads as f64, read(&db, workload, reads)?);
    }
    drop(db);
    let db = DB::open(&options(workload, Reads::Direct), path)?;
    if arguments.wants(Phase::ReadCold) {
        let reads = rows.min(COLD_READS);
        let spent = read_by_threads(&db, workload, reads, arguments.concurrency)?;
        report.add_rate("read-cold", "/s", reads as f64, spent);
    }
    if arguments.wants(Phase::Scan) {
        report.add_rate("scan-user", "MB/s", user_mb, scan(&db, rows)?);
    }
    Ok(())
}

fn write_options(sync: bool) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(sync);
    options
}

fn write(db: &DB, workload: &Workload, rows: u64, sync: bool) -> Result<Spent, BenchError> {
    let options = write_options(sync);
    let watch = Stopwatch::start();
    for row in 0..rows {
        db.put_opt(workload.key(row), workload.value(row), &options)?;
    }
    Ok(watch.spent())
}

/// Runs `work` for the numbers below `count` on `threads` threads.
fn by_threads(
    count: u64,
    threads: u16,
    work: impl Fn(u64) -> Result<(), BenchError> + Sync,
) -> Result<Spent, BenchError> {
    let next = AtomicU64::new(0);
    let watch = Stopwatch::start();
    std::thread::scope(|scope| {
        let client = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                work(number)?;
            }
        };
        let clients: Vec<_> = (0..threads).map(|_| scope.spawn(client)).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
    })
    .map(|()| watch.spent())
}

/// Writers that wait for a sync share it with those that come meanwhile, as ours do; each is a thread here.
fn write_synced(db: &DB, workload: &Workload, writes: u64, threads: u16) -> Result<Spent, BenchError> {
    by_threads(writes, threads, |row| {
        Ok(db.put_opt(workload.key(row), workload.value(row), &write_options(true))?)
    })
}

fn read(db: &DB, workload: &Workload, reads: u64) -> Result<Spent, BenchError> {
    let mut picks = workload.picks(2);
    let watch = Stopwatch::start();
    for number in 0..reads {
        check(db, workload, &mut picks, number)?;
    }
    Ok(watch.spent())
}

fn read_by_threads(db: &DB, workload: &Workload, reads: u64, threads: u16) -> Result<Spent, BenchError> {
    by_threads(reads, threads, |number| check(db, workload, &mut workload.picks(1000 + number), number))
}

/// Reads the next row of `picks`; one in [`CHECKED`] is compared byte by byte.
fn check(db: &DB, workload: &Workload, picks: &mut Picks, number: u64) -> Result<(), BenchError> {
    let row = picks.pick();
    let found = db.get_pinned(workload.key(row))?;
    let is_right = found.is_some_and(|value| {
        value.len() == workload.value_bytes
            && (!number.is_multiple_of(CHECKED) || *value == *workload.value(row))
    });
    if is_right { Ok(()) } else { Err(format!("RocksDB does not have row {row} as it was written").into()) }
}

fn scan(db: &DB, wanted: u64) -> Result<Spent, BenchError> {
    let mut options = ReadOptions::default();
    options.fill_cache(false);
    options.set_readahead_size(1 << 20);
    let watch = Stopwatch::start();
    let mut rows = 0;
    for entry in db.iterator_opt(IteratorMode::Start, options) {
        // The iterator copies key and value, as a page of ours does.
        entry?;
        rows += 1;
    }
    let spent = watch.spent();
    if rows != wanted {
        return Err(format!("RocksDB's scan found {rows} of {wanted} rows").into());
    }
    Ok(spent)
}
