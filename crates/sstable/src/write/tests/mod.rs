//! The files of the writer: their bytes, the order of the writes, and the state that a crash leaves.

mod contents;
mod crash;
mod golden;
mod large;
mod secondary;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::HashMap;
use model::{Mutation, PartitionRange, TableSchema};
use reader::{MemorySource, ReadSpec, Source};
use runtime::{CpuGroup, IoClass, Shard, sim};

use super::*;
use crate::component::statistics::DeltaBases;
use crate::name::{Component, Generation, SSTableName};
use crate::version::Version;

fn dir() -> PathBuf {
    PathBuf::from("/data/ks/t")
}

fn name_of(version: Version) -> SSTableName {
    SSTableName::big(version, Generation::Number(1))
}

fn options(schema: &TableSchema) -> WriteOptions {
    WriteOptions {
        delta_bases: DeltaBases { min_timestamp_us: 1000, min_local_deletion_time_s: 100, min_ttl_s: 60 },
        ..WriteOptions::for_table(schema, "memtable", IoClass::MemtableFlush)
    }
}

/// All files of the SSTable of `mutations`, by component, and the result of the write.
struct Files {
    bytes: HashMap<Component, Vec<u8>>,
    written: Option<Written>,
}

impl std::ops::Index<Component> for Files {
    type Output = [u8];

    fn index(&self, component: Component) -> &[u8] {
        &self.bytes[&component]
    }
}

fn write(version: Version, options: WriteOptions, mutations: Vec<Mutation>) -> Files {
    let schema = mutations[0].schema.clone();
    write_as(version, options, schema, mutations)
}

/// Writes mutations of an earlier schema with `schema`.
fn write_as(
    version: Version,
    options: WriteOptions,
    schema: Arc<TableSchema>,
    mutations: Vec<Mutation>,
) -> Files {
    sim::run(1, 1, move |shard| async move {
        let files = shard.files();
        files.create_dir_all(&dir()).await.unwrap();
        let name = name_of(version);
        let written = write_mutations(&shard, &dir(), name, schema, options, &mutations).await.unwrap();
        let mut bytes = HashMap::default();
        for entry in files.read_dir(&dir()).await.unwrap() {
            let (found, component) = SSTableName::parse_file_name(&entry.name).unwrap();
            assert_eq!(found, name);
            let path = dir().join(&entry.name);
            bytes.insert(component, files.read_all(&path, IoClass::Maintenance, 1 << 30).await.unwrap());
        }
        Files { bytes, written }
    })
}

async fn write_mutations(
    shard: &Shard,
    dir: &Path,
    name: SSTableName,
    schema: Arc<TableSchema>,
    options: WriteOptions,
    mutations: &[Mutation],
) -> Result<Option<Written>, WriteError> {
    let source = MemorySource::new(mutations);
    let mut reader = source.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
    write_reader(shard.files(), dir, name, schema, options, &mut *reader, shard).await
}

/// Runs `f` on shard 0 of `node`.
fn on_node<T: Send + 'static, F, Fut>(
    world: &sim::SimWorld,
    node: &sim::SimNode,
    f: F,
) -> Result<T, sim::SimStop>
where
    F: FnOnce(Shard) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    world.run_until(node.remote().call(0, CpuGroup::Memtable, f))
}
