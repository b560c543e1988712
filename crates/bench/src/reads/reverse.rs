//! Pages and whole partitions of 10 to 110 MB, bypassing the cache: forward, reversed, and reversed by the
//! old method.
//!
//! The old method reads the whole partition forward for every page and reverses it in memory. A page
//! therefore costs as much as the partition, all pages together cost the square of the partition's size, and
//! above a memory limit the read is refused. `reader::reversing` is that method, kept for the comparison.

use engine::shard::EngineShard;
use engine::{EngineError, ReadCommand};
use messina::plot::{Line, Lines};
use model::PartitionRange;

use super::wide::{self, ROW_BYTES};
use super::{Bench, percentile};
use crate::BenchError;
use crate::report::number;
use crate::world::World;

const SIZES_MB: [u64; 6] = [10, 30, 50, 70, 90, 110];
/// The default of `max_memory_for_unlimited_query_hard_limit`.
const LIMIT_BYTES: u64 = 100 << 20;
const PAGE_ROWS: u64 = 100;
const PAGES: usize = 15;
const OLD_PAGES: usize = 3;
const MEMORY_BYTES: u64 = 1 << 30;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Forward,
    Reversed,
    Old,
}

impl Method {
    const ALL: [Self; 3] = [Self::Forward, Self::Reversed, Self::Old];

    fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reversed => "reversed",
            Self::Old => "old-method",
        }
    }
}

pub(super) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let rows_of =
        |megabytes: u64| ((megabytes as f64 * 1e6 * bench.arguments.scale) as u64 / ROW_BYTES).max(200);
    let megabytes_of = |rows: u64| (rows * ROW_BYTES) as f64 / 1e6;
    let partitions: Vec<(u64, u64)> = SIZES_MB.iter().map(|size| (*size, rows_of(*size))).collect();
    let limit_bytes = (LIMIT_BYTES as f64 * bench.arguments.scale) as u64;
    bench.empty_dir()?;
    let world = wide::open(bench, wide::options(bench, MEMORY_BYTES))?;
    wide::fill(&world, &partitions)?;
    let mut pages: Vec<Line> = lines();
    let mut wholes: Vec<Line> = lines();
    for (key, rows) in &partitions {
        let megabytes = megabytes_of(*rows);
        let size = (megabytes * 100.0).round() / 100.0;
        for (at, method) in Method::ALL.into_iter().enumerate() {
            let name = method.name();
            let count = if method == Method::Old { OLD_PAGES } else { PAGES };
            match page_ms(&world, *key, method, limit_bytes, count)? {
                Ok(mut times) => {
                    let ms = percentile(&mut times, 0.5);
                    bench.add(&format!("page-of-{PAGE_ROWS}/{name}/{size}-mb"), "ms", ms);
                    pages[at].points.push((megabytes, ms));
                }
                Err(refused) => println!("a page of {size} MB, {name}: {refused}"),
            }
            match whole_s(&world, *key, method, limit_bytes, *rows)? {
                Ok(s) => {
                    bench.add(&format!("whole/{name}/{size}-mb"), "s", s);
                    wholes[at].points.push((megabytes, s));
                }
                Err(refused) => println!("all pages of {size} MB, {name}: {refused}"),
            }
        }
    }
    world.close()?;
    let mut ratios: Vec<f64> =
        pages[1].points.iter().zip(&pages[0].points).map(|(back, forward)| back.1 / forward.1).collect();
    let ratio = percentile(&mut ratios, 0.5);
    bench.add("page/reversed-over-forward", "", ratio);
    for line in &pages[..2] {
        let (least, most) = line.points.iter().fold((f64::MAX, 0.0f64), |(a, b), p| (a.min(p.1), b.max(p.1)));
        println!("pages, {}: {} to {} ms over all sizes", line.name, number(least), number(most));
    }
    println!("a reversed page takes {ratio:.2} times a forward one");
    let plot = |title: &str, y: &str, lines: Vec<Line>| Lines {
        title: title.to_string(),
        x: "MB of the partition".to_string(),
        y: y.to_string(),
        lines,
        log_y: true,
        dots: true,
    };
    bench
        .draw("reverse-pages", &plot(&format!("A page of {PAGE_ROWS} rows, past the cache"), "ms", pages))?;
    bench.draw("reverse-whole", &plot("A whole partition by pages, past the cache", "seconds", wholes))
}

fn lines() -> Vec<Line> {
    Method::ALL.iter().map(|method| Line { name: method.name().to_string(), points: vec![] }).collect()
}

fn command(world: &World, partition: u64, method: Method, limit_bytes: u64) -> ReadCommand {
    let key = wide::key_of(partition);
    ReadCommand {
        reversed: method != Method::Forward,
        buffered_reverse_bytes_max: (method == Method::Old).then_some(limit_bytes),
        bypass_cache: true,
        ..ReadCommand::new(world.table.id, PartitionRange::Key(key))
    }
}

/// The message of a refused read, which is also a result.
type Refused = String;

/// Separates a refusal from other errors.
fn refusal<T>(result: Result<T, EngineError>) -> Result<Result<T, Refused>, BenchError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(EngineError::Read(reader::ReadError::Limit(limit))) => Ok(Err(limit.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Duration of the first page in milliseconds, measured `count` times.
fn page_ms(
    world: &World,
    partition: u64,
    method: Method,
    limit_bytes: u64,
    count: usize,
) -> Result<Result<Vec<f64>, Refused>, BenchError> {
    let command = ReadCommand { page_rows: PAGE_ROWS, ..command(world, partition, method, limit_bytes) };
    let asked = world.engine.ask(0, move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        let mut times = vec![];
        for _ in 0..count {
            let began_us = shard.now_us();
            let page = engine.read(&command).await?;
            times.push((shard.now_us() - began_us) as f64 / 1e3);
            if page.row_count() != PAGE_ROWS {
                return Err(EngineError::Invalid(format!("a page of {} rows", page.row_count())));
            }
        }
        Ok(times)
    });
    refusal(asked.wait())
}

/// Duration of all pages, in seconds.
fn whole_s(
    world: &World,
    partition: u64,
    method: Method,
    limit_bytes: u64,
    rows: u64,
) -> Result<Result<f64, Refused>, BenchError> {
    let mut command = command(world, partition, method, limit_bytes);
    let asked = world.engine.ask(0, move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        let (began_us, mut found) = (shard.now_us(), 0);
        loop {
            let page = engine.read(&command).await?;
            found += page.row_count();
            command.paging = page.next;
            if command.paging.is_none() {
                break;
            }
        }
        if found != rows {
            return Err(EngineError::Invalid(format!("{found} of {rows} rows")));
        }
        Ok((shard.now_us() - began_us) as f64 / 1e6)
    });
    refusal(asked.wait())
}
