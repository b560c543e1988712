//! `messina-bench batches`: measures what a logged batch over two shards costs, beside the same two rows as
//! single writes and as an unlogged batch.
//!
//! An engine with two shards has one table. Clients are tasks on the first shard; each operation writes one row
//! that the first shard owns and one of the second. CPU time is that of the whole process: both shards, which
//! poll before they sleep, and helper threads. So the clients are enough to keep the shards busy.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use clap::Args;
use engine::node::{self, Deadline};
use engine::{Engine, EngineError, EngineOptions, ShardOptions};
use model::{CqlType, Mutation, TableSchema};
use runtime::{CpuGroup, Shard};

use super::BenchError;
use super::engine::mutation;
use super::report::Report;
use super::stopwatch::Stopwatch;
use super::workload::Workload;
use super::world::uncompacted;

const SEED: u64 = 27;

#[derive(Args, Clone, Debug)]
pub struct BatchesArguments {
    /// Operations of each kind in each run; each writes two rows.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: u64,
    #[arg(long, default_value_t = 100)]
    pub value_bytes: usize,
    /// Number of concurrent clients.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Directory for data; created if it does not exist. Its content is removed at the end.
    #[arg(long, default_value = "bench-data/batches")]
    pub dir: PathBuf,
}

/// How the two rows of an operation are written.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// One write after the other.
    Single,
    Unlogged,
    Logged,
}

const KINDS: [(Kind, &str); 3] =
    [(Kind::Single, "two-writes"), (Kind::Unlogged, "unlogged-batch"), (Kind::Logged, "logged-batch")];

pub fn run(arguments: &BatchesArguments) -> Result<(), BenchError> {
    // Twice as many rows as needed, because the shards do not own the same number of them.
    let workload = Workload::new(arguments.operations * 3, arguments.value_bytes, SEED);
    let mut report = Report::default();
    for _ in 0..arguments.runs {
        for (kind, name) in KINDS {
            let _ = fs::remove_dir_all(&arguments.dir);
            let spent = one(arguments, &workload, kind)?;
            report.add_rate(name, "op/s", arguments.operations as f64, spent);
        }
    }
    fs::remove_dir_all(&arguments.dir)?;
    print!("{}", report.table());
    Ok(())
}

fn one(
    arguments: &BatchesArguments,
    workload: &Workload,
    kind: Kind,
) -> Result<super::stopwatch::Spent, BenchError> {
    let options = EngineOptions { memory_bytes: 1 << 30, ..EngineOptions::new(&arguments.dir) };
    let engine = Engine::open_with(options, ShardOptions { shards: 2, ..ShardOptions::default() })?;
    engine.change_schema(|catalog| catalog.create_keyspace(catalog::Keyspace::simple("bench")?))?;
    let table = TableSchema::builder("bench", "rows").partition_key("key", CqlType::Blob);
    let table = table.regular("value", CqlType::Blob).build()?;
    engine.change_schema(|catalog| catalog.create_table(table, uncompacted()))?;
    let table = engine.table("bench", "rows")?;
    let value = table.column_named("value").expect("made above").id;
    // Operations take the next row of each shard from these lists.
    let sharder = engine::sharder::Sharder { shard_count: 2 };
    let mut rows: [Vec<Mutation>; 2] = [vec![], vec![]];
    for row in 0..workload.rows {
        let mutation = mutation(&table, value, workload, row);
        rows[sharder.shard_of(mutation.key.token()) as usize].push(mutation);
    }
    let count = arguments.operations as usize;
    if rows.iter().any(|rows| rows.len() < count) {
        return Err("too few rows of one shard; use more operations".into());
    }
    let [first, second] = rows;
    let pairs: Arc<Vec<(Mutation, Mutation)>> = Arc::new(first.into_iter().zip(second).take(count).collect());
    let concurrency = arguments.concurrency;
    let watch = Stopwatch::start();
    engine.ask(0, move |shard| async move { clients(&shard, concurrency, pairs, kind).await }).wait()?;
    let spent = watch.spent();
    engine.close()?;
    Ok(spent)
}

async fn clients(
    shard: &Shard,
    concurrency: u16,
    pairs: Arc<Vec<(Mutation, Mutation)>>,
    kind: Kind,
) -> Result<(), EngineError> {
    let next = Rc::new(Cell::new(0));
    let client = || {
        let (here, next, pairs) = (shard.clone(), next.clone(), pairs.clone());
        shard.spawn(CpuGroup::Statement, async move {
            while let Some((first, second)) = pairs.get(next.replace(next.get() + 1)).cloned() {
                match kind {
                    Kind::Single => {
                        node::apply(&here, first, Deadline::NONE).await?;
                        node::apply(&here, second, Deadline::NONE).await?;
                    }
                    Kind::Unlogged => {
                        node::apply_unlogged(&here, vec![first, second], Deadline::NONE).await?;
                    }
                    Kind::Logged => node::apply_batch(&here, vec![first, second], Deadline::NONE).await?,
                }
            }
            Ok::<(), EngineError>(())
        })
    };
    let clients: Vec<_> = (0..concurrency).map(|_| client()).collect();
    for client in clients {
        client.await?;
    }
    Ok(())
}
