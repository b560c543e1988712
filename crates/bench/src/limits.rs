//! The limits of the machine: single operations without any overhead, measured in the same run as the engine.
//!
//! - memory: `memcpy`, and a sorted map of the standard library with the same keys and values, as an ideal
//!   memtable;
//! - codecs: LZ4 in both directions, and CRC-32, over 16 KiB chunks of the workload's bytes;
//! - disk: direct sequential writes and reads, random 4 KiB reads, and syncs, through the same backend as the
//!   engine.
//!
//! Each is the simplest possible loop, so an engine that reaches most of a limit has little to gain there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;

use base::rng::Rng;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use runtime::{
    BackendChoice, CpuGroup, File, FileError, IoBuf, IoClass, OpenOptions, Runtime, RuntimeOptions, Shard,
};

use super::BenchError;
use super::report::{Report, Sample};
use super::stopwatch::Stopwatch;
use super::workload::Workload;

pub const MEMCPY: &str = "limit/memcpy";
pub const MAP_INSERT: &str = "limit/map-insert";
pub const MAP_GET: &str = "limit/map-get";
pub const LZ4_COMPRESS: &str = "limit/lz4-compress";
pub const LZ4_DECOMPRESS: &str = "limit/lz4-decompress";
pub const CRC32: &str = "limit/crc32";
pub const DISK_WRITE: &str = "limit/disk-write";
pub const DISK_READ: &str = "limit/disk-read";
pub const DISK_RANDOM_READ: &str = "limit/disk-random-read";
pub const DISK_SYNC: &str = "limit/disk-sync";
/// Writes per second if every sync served all clients at once.
pub const SYNCED_WRITES: &str = "limit/synced-writes";

const CHUNK_BYTES: usize = 16 * 1024;
/// Minimum duration of each loop, in seconds.
const SECONDS_MIN: f64 = 0.3;
const FILE_BYTES: u64 = 256 << 20;
const TRANSFER_BYTES: usize = 1 << 20;
/// Sequential transfers in flight.
const TRANSFERS: usize = 4;
const RANDOM_READ_BYTES: usize = 4096;
const RANDOM_READS: u64 = 20_000;
const SYNCS: u64 = 200;

/// Measures all limits once. `dir` must exist.
pub fn measure(
    report: &mut Report,
    workload: &Workload,
    concurrency: usize,
    backend: BackendChoice,
    dir: &Path,
) -> Result<(), BenchError> {
    memory(report, workload);
    codecs(report, workload);
    let runtime = Runtime::start(RuntimeOptions { backend, ..Default::default() }, |_| async {})?;
    let path = dir.join("limits");
    let measured = runtime.remote().call(0, CpuGroup::Statement, move |shard| async move {
        let mut report = Report::default();
        disk(&shard, &mut report, concurrency, path).await.map(|()| report)
    });
    for figure in measured.wait()??.figures {
        report.add(&figure.name, figure.unit, figure.samples[0]);
    }
    runtime.shutdown()?;
    Ok(())
}

/// Repeats `work`, which handles `megabytes`, for at least `SECONDS_MIN`, and adds the rate in MB/s.
fn rate(report: &mut Report, name: &str, megabytes: f64, mut work: impl FnMut()) {
    work();
    let watch = Stopwatch::start();
    let mut rounds = 0;
    while rounds == 0 || watch.spent().wall_s < SECONDS_MIN {
        work();
        rounds += 1;
    }
    report.add_rate(name, "MB/s", megabytes * f64::from(rounds), watch.spent());
}

fn memory(report: &mut Report, workload: &Workload) {
    let from = vec![1u8; 64 << 20];
    let mut to = vec![0u8; from.len()];
    rate(report, MEMCPY, from.len() as f64 / 1e6, || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    });

    let mut map = BTreeMap::new();
    let watch = Stopwatch::start();
    for row in 0..workload.rows {
        map.insert(workload.key(row), Box::<[u8]>::from(workload.value(row)));
    }
    report.add_rate(MAP_INSERT, "/s", workload.rows as f64, watch.spent());
    let mut picks = workload.picks(1);
    let watch = Stopwatch::start();
    for _ in 0..workload.rows {
        let value = map.get(&workload.key(picks.pick())).expect("every row was inserted");
        black_box(value.to_vec());
    }
    report.add_rate(MAP_GET, "/s", workload.rows as f64, watch.spent());
}

fn codecs(report: &mut Report, workload: &Workload) {
    let sample = workload.sample(4 << 20);
    let chunks: Vec<&[u8]> = sample.chunks_exact(CHUNK_BYTES).collect();
    let megabytes = (chunks.len() * CHUNK_BYTES) as f64 / 1e6;
    rate(report, CRC32, megabytes, || {
        chunks.iter().for_each(|chunk| _ = black_box(base::crc::crc32(chunk)));
    });
    let mut table = CompressTable::default();
    let mut out = vec![0; get_maximum_output_size(CHUNK_BYTES)];
    rate(report, LZ4_COMPRESS, megabytes, || {
        for chunk in &chunks {
            let packed = compress_into_with_table(chunk, &mut out, &mut table);
            black_box(packed.expect("there is room for the worst case"));
        }
    });
    let packed: Vec<Vec<u8>> = chunks.iter().map(|chunk| lz4_flex::block::compress(chunk)).collect();
    rate(report, LZ4_DECOMPRESS, megabytes, || {
        for packed in &packed {
            black_box(decompress_into(packed, &mut out).expect("compressed above"));
        }
    });
}

/// Runs `work(0)` to `work(count - 1)`, `concurrency` of them at a time.
async fn at_once<W, F>(shard: &Shard, concurrency: usize, count: u64, work: W) -> Result<(), FileError>
where
    W: Fn(u64) -> F + 'static,
    F: Future<Output = Result<(), FileError>> + 'static,
{
    let next = Rc::new(Cell::new(0));
    let work = Rc::new(work);
    let client = || {
        let (next, work) = (next.clone(), work.clone());
        shard.spawn(CpuGroup::Statement, async move {
            while next.get() < count {
                let number = next.replace(next.get() + 1);
                work(number).await?;
            }
            Ok::<(), FileError>(())
        })
    };
    let clients: Vec<_> = (0..concurrency).map(|_| client()).collect();
    for client in clients {
        client.await?;
    }
    Ok(())
}

async fn disk(
    shard: &Shard,
    report: &mut Report,
    concurrency: usize,
    path: PathBuf,
) -> Result<(), FileError> {
    let files = shard.files();
    let file = files.open(&path, OpenOptions::create_truncate().with_direct(true)).await?;
    file.allocate(0, FILE_BYTES).await?;
    let mut noise = IoBuf::zeroed(TRANSFER_BYTES);
    Rng::new(1).fill(&mut noise);
    let transfers = FILE_BYTES / TRANSFER_BYTES as u64;

    // The first round writes the reserved blocks for the first time; the second is measured.
    for round in 0..2 {
        let bufs: Vec<IoBuf> = (0..TRANSFERS).map(|_| noise.clone()).collect();
        let bufs = Rc::new(RefCell::new(bufs));
        let watch = Stopwatch::start();
        let to = file.clone();
        let write = move |number: u64| {
            let (file, bufs) = (to.clone(), bufs.clone());
            async move {
                let buf = bufs.borrow_mut().pop().expect("a buffer for each client");
                let buf = file.write_at(number * TRANSFER_BYTES as u64, buf, IoClass::Maintenance).await?;
                bufs.borrow_mut().push(buf);
                Ok(())
            }
        };
        at_once(shard, TRANSFERS, transfers, write).await?;
        file.sync_data().await?;
        if round == 1 {
            report.add_rate(DISK_WRITE, "MB/s", FILE_BYTES as f64 / 1e6, watch.spent());
        }
    }

    let watch = Stopwatch::start();
    at_once(shard, TRANSFERS, transfers, reads(&file, TRANSFER_BYTES, |number| number)).await?;
    report.add_rate(DISK_READ, "MB/s", FILE_BYTES as f64 / 1e6, watch.spent());

    let places = FILE_BYTES / RANDOM_READ_BYTES as u64;
    let place = move |number: u64| Rng::new(number).below(places);
    let watch = Stopwatch::start();
    at_once(shard, concurrency, RANDOM_READS, reads(&file, RANDOM_READ_BYTES, place)).await?;
    report.add_rate(DISK_RANDOM_READ, "/s", RANDOM_READS as f64, watch.spent());

    let mut block = IoBuf::zeroed(RANDOM_READ_BYTES);
    let watch = Stopwatch::start();
    for number in 0..SYNCS {
        block = file.write_at(number * RANDOM_READ_BYTES as u64, block, IoClass::Maintenance).await?;
        file.sync_data().await?;
    }
    let spent = watch.spent();
    report.add_rate(DISK_SYNC, "/s", SYNCS as f64, spent);
    let value = SYNCS as f64 / spent.wall_s * concurrency as f64;
    report.add(SYNCED_WRITES, "/s", Sample { value, cpu_us: None });
    drop(file);
    files.remove(&path).await
}

type ReadFuture = Pin<Box<dyn Future<Output = Result<(), FileError>>>>;

/// Reads of `bytes` bytes. `place` returns the position of each read, in units of `bytes`.
fn reads(
    file: &File,
    bytes: usize,
    place: impl Fn(u64) -> u64 + 'static,
) -> impl Fn(u64) -> ReadFuture + 'static {
    let file = file.clone();
    move |number| {
        let (file, at) = (file.clone(), place(number) * bytes as u64);
        Box::pin(async move {
            let buf = file.read_at(at, bytes, IoClass::Maintenance).await?;
            assert_eq!(buf.len(), bytes, "the file was written whole");
            Ok(())
        })
    }
}
