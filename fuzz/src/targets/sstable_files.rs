//! Any files are an SSTable or are refused. An SSTable that opens is read in both directions, by key and by
//! row, dumped, verified and salvaged; each step returns a result or an error.
//!
//! `crate::sstable_input` describes the layout of an input.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::sstable_input::{self, Files};
use model::{ClusteringRange, PartitionRange, Position, TableSchema};
use reader::{Fragment, ReadError, ReadSpec, Reader, Source, Step};
use runtime::{IoClass, Shard, sim};
use sstable::dump::{DumpOptions, JsonDump, schema_of_header};
use sstable::name::SSTableName;
use sstable::read::{ChunkCache, SSTable, SSTableSource};
use sstable::tools::{ScrubRounds, metadata_text};

const DIR: &str = "/data/ks/t";
const CLASS: IoClass = IoClass::Statement;
const CACHE_BYTES: usize = 1 << 18;
/// Inputs are small: a reader that returns more fragments than this is in an endless loop.
const FRAGMENTS_MAX: usize = 200_000;
const KEYS_MAX: usize = 3;
const DUMP: DumpOptions = DumpOptions { raw_times: false, now_s: 1_700_000_000 };

pub fn examine(data: &[u8]) {
    let Some((name, files)) = sstable_input::parse(data) else { return };
    sim::run(1, 1, move |shard| async move { Box::pin(read_all(&shard, name, files)).await });
}

async fn read_all(shard: &Shard, name: SSTableName, files: Files) {
    let dir = Path::new(DIR);
    shard.files().create_dir_all(dir).await.expect("a directory");
    for (component, bytes) in files {
        let path = dir.join(name.file_name(&component));
        shard.files().write_all(&path, &bytes, CLASS).await.expect("a file");
    }
    let cache = ChunkCache::new(CACHE_BYTES);
    match SSTable::open(shard.files(), dir, name, &cache, CLASS).await {
        Ok(sstable) => question(&sstable).await,
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(damaged) = SSTable::open_damaged(shard.files(), dir, name, &cache, CLASS).await {
        salvage(&damaged).await;
    }
}

async fn question(sstable: &Rc<SSTable>) {
    let check = sstable.check(CLASS).await;
    let _ = metadata_text(sstable, 1_700_000_000);
    let mut walk = sstable.walk_index(CLASS);
    for _ in 0..FRAGMENTS_MAX {
        match walk.next().await {
            Ok(Some(partition)) => drop(walk.row_index(&partition).await),
            Ok(None) | Err(_) => break,
        }
    }
    let Ok(schema) = schema_of_header(&sstable.statistics().header) else { return };
    let all = ReadSpec::new(schema.clone(), PartitionRange::all());
    let forward = read(sstable, &all, Some(&schema)).await;
    let backward = read(sstable, &all.clone().reversed(true), None).await;
    if let (Ok(_), Ok(forward), Ok(backward)) = (&check, &forward, &backward) {
        let rows =
            |fragments: &[Fragment]| fragments.iter().filter(|one| matches!(one, Fragment::Row(_))).count();
        assert_eq!(rows(forward), rows(backward), "the check was content");
    }
    let Ok(forward) = forward else { return };
    let mut keys = 0;
    for (at, fragment) in forward.iter().enumerate() {
        let Fragment::PartitionStart { key, .. } = fragment else { continue };
        keys += 1;
        if keys > KEYS_MAX {
            break;
        }
        let one = ReadSpec::new(schema.clone(), PartitionRange::Key(key.clone()));
        let row = forward[at..].iter().skip(1).find_map(|fragment| match fragment {
            Fragment::Row(row) => Some(row.key.clone()),
            _ => None,
        });
        let _ = read(sstable, &one, None).await;
        let Some(row) = row else { continue };
        let range = ClusteringRange { start: Position::before(row), end: Position::END };
        let slice = one.ranges(vec![range]);
        let _ = read(sstable, &slice, None).await;
        let _ = read(sstable, &slice.reversed(true), None).await;
    }
}

/// Reads all fragments, and prints them if `dump` has a schema.
async fn read(
    sstable: &Rc<SSTable>,
    spec: &ReadSpec,
    dump: Option<&Arc<TableSchema>>,
) -> Result<Vec<Fragment>, ReadError> {
    let source = SSTableSource::new(Rc::clone(sstable), CLASS);
    let mut reader: Box<dyn Reader> = source.reader(spec);
    let mut fragments = vec![];
    let mut dump = dump.map(|schema| JsonDump::new(schema.clone(), DUMP));
    loop {
        assert!(fragments.len() < FRAGMENTS_MAX, "a reader goes round in circles");
        match reader.next()? {
            Step::Ready(fragment) => {
                if let Some(dump) = &mut dump {
                    dump.push(&fragment);
                    dump.take();
                }
                fragments.push(fragment);
            }
            Step::Load => reader.load().await?,
            Step::End => break,
        }
    }
    if let Some(dump) = dump {
        dump.finish();
    }
    Ok(fragments)
}

async fn salvage(damaged: &Rc<SSTable>) {
    let Ok(schema) = schema_of_header(&damaged.statistics().header) else { return };
    let Ok(mut rounds) = ScrubRounds::new(damaged, &schema, CLASS) else { return };
    let mut fragments = 0;
    loop {
        while rounds.next().await.is_some() {
            fragments += 1;
            assert!(fragments < FRAGMENTS_MAX, "a salvage goes round in circles");
        }
        if !rounds.next_round() {
            break;
        }
    }
    let _ = rounds.into_losses().is_none();
}
