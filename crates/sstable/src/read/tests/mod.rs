//! Reads files of the writer, files of Cassandra, and files that neither would write.

mod clusterings;
mod compression;
mod damage;
mod examination;
mod sample_damage;
mod samples;
mod sharing;
mod tools;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use model::{Mutation, PartitionRange, TableSchema};
use reader::{MemorySource, ReadSpec, Source};
use runtime::{IoClass, Shard};

use super::*;
use crate::name::{Generation, SSTableName};
use crate::version::Version;
use crate::write::{WriteOptions, Written, write_reader};

fn dir() -> PathBuf {
    PathBuf::from("/data/ks/t")
}

fn name_of(version: Version, generation: u64) -> SSTableName {
    SSTableName::big(version, Generation::Number(generation))
}

/// Writes the union of `mutations`; `None` if they are empty.
async fn write(
    shard: &Shard,
    dir: &Path,
    name: SSTableName,
    schema: &Arc<TableSchema>,
    options: WriteOptions,
    mutations: &[Mutation],
) -> Option<Written> {
    shard.files().create_dir_all(dir).await.unwrap();
    let source = MemorySource::new(mutations);
    let mut reader = source.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
    // Boxed, because the writer's state is large.
    Box::pin(write_reader(shard.files(), dir, name, schema.clone(), options, &mut *reader, shard))
        .await
        .unwrap()
}

async fn open(
    shard: &Shard,
    dir: &Path,
    name: SSTableName,
    cache: &Rc<ChunkCache>,
) -> Result<Rc<SSTable>, SSTableError> {
    SSTable::open(shard.files(), dir, name, cache, IoClass::Statement).await
}
