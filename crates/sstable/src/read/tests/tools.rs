//! The tools on SSTables of every version that Cassandra wrote: they are verified, listed, and rewritten with
//! the same content, and a scrub omits what is damaged.

use std::fs;

use base::rng::Rng;
use model::{Partition, PartitionKey};
use reader::collect_partitions;
use runtime::sim;

use super::*;
use crate::dump::schema_of_header;
use crate::name::Component;
use crate::tools::{
    CompressionChoice, Finding, Findings, RewritePlan, index_json, index_text, rewrite, scrub, summary_json,
    summary_text,
};

const CLASS: IoClass = IoClass::Maintenance;

fn output_dir() -> PathBuf {
    PathBuf::from("/output")
}

fn plan() -> RewritePlan {
    let compression = CompressionChoice::AsSource;
    RewritePlan { version: Version::Nb, compression, split_bytes: None, origin: "test" }
}

async fn copied(shard: &Shard, from: &Path) {
    shard.files().create_dir_all(&output_dir()).await.unwrap();
    shard.files().create_dir_all(&dir()).await.unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let bytes = fs::read(file.path()).unwrap();
        shard.files().write_all(&dir().join(file.file_name()), &bytes, CLASS).await.unwrap();
    }
}

async fn contents(sstable: &Rc<SSTable>, schema: &Arc<TableSchema>) -> Vec<(PartitionKey, Partition)> {
    let spec = ReadSpec::new(schema.clone(), PartitionRange::all());
    let source = SSTableSource::new(Rc::clone(sstable), CLASS);
    collect_partitions(&mut *source.reader(&spec), schema, false).await.unwrap()
}

async fn findings(sstable: &Rc<SSTable>, depth: Depth) -> Vec<String> {
    let mut found = vec![];
    let mut findings = Findings::new(|finding: &Finding| found.push(finding.to_string()), |_, _| {});
    sstable.verify(depth, CLASS, &mut findings).await.unwrap();
    drop(findings);
    found
}

async fn use_tools(shard: &Shard, from: &Path, name: SSTableName) {
    copied(shard, from).await;
    let cache = ChunkCache::new(1 << 16);
    let sstable = open(shard, &dir(), name, &cache).await.unwrap();
    let schema = schema_of_header(&sstable.statistics().header).unwrap();
    let right = contents(&sstable, &schema).await;
    for depth in [Depth::Components, Depth::Rows] {
        assert_eq!(findings(&sstable, depth).await, Vec::<String>::new(), "{from:?}");
    }

    let mut text = String::new();
    index_text(&sstable, &schema, CLASS, |part| text += part).await.unwrap();
    let (blocks, partitions): (Vec<&str>, _) =
        text.lines().partition(|line| line.starts_with("    block at "));
    assert_eq!(partitions.len(), right.len(), "{from:?}: {text}");
    let (mut indexed, mut at) = (0, 0);
    let mut walk = sstable.walk_index(CLASS);
    while let Some(partition) = walk.next().await.unwrap() {
        assert!(partition.position >= at);
        at = partition.position;
        let counted = walk.row_index(&partition).await.unwrap().map_or(0, |(_, blocks)| blocks);
        let mut seen = 0;
        let mut end = None;
        let follow = |block: IndexBlockEntry| {
            assert!(end.is_none_or(|end| end == block.offset), "{from:?}: a gap between blocks");
            end = Some(block.offset + block.width);
            seen += 1;
        };
        walk.blocks(&partition, follow).await.unwrap();
        assert_eq!(seen, counted, "{from:?}");
        indexed += counted;
    }
    let (walked, all) = walk.progress();
    assert_eq!(walked, all);
    assert_eq!(blocks.len() as u64, indexed, "{from:?}: {text}");
    let mut json = String::new();
    index_json(&sstable, &schema, CLASS, |part| json += part).await.unwrap();
    assert_eq!(json.matches("\"key\" : ").count(), right.len(), "{json}");
    let (mut text, mut json) = (String::new(), String::new());
    summary_text(&sstable, &schema, |part| text += part);
    summary_json(&sstable, &schema, |part| json += part);
    assert_eq!(text == "Summary: - (format bti has none)\n", name.version == Version::Da, "{text}");
    assert_eq!(json == "null\n", name.version == Version::Da, "{json}");

    let (written, _) = Box::pin(rewrite(shard, &sstable, &output_dir(), &plan(), |_, _| {})).await.unwrap();
    let report = Box::pin(scrub(shard, &sstable, &output_dir(), &plan(), true, |_, _| {})).await.unwrap();
    assert!(report.is_complete(), "{from:?}: {:?}", report.losses);
    for written in [written, report.written] {
        assert_eq!(written.len(), 1);
        let piece = open(shard, &output_dir(), written[0].name, &cache).await.unwrap();
        piece.check(CLASS).await.unwrap();
        let found = contents(&piece, &schema).await;
        // Expiry times after 2038 cannot be stored in `nb`.
        let keeps_all = !from.to_str().unwrap().contains("/far_expiry/");
        assert!(!keeps_all || found == right, "{from:?}\nfound {found:#?}\nexpected {right:#?}");
        assert_eq!(found.len(), right.len());
    }
}

#[test]
fn they_work_on_every_version() {
    for (number, (from, name, _)) in (0..).zip(samples::all()) {
        sim::run(number, 1, move |shard| async move {
            Box::pin(use_tools(&shard, &from, name)).await;
        });
    }
}

/// A large partition and small ones; bits of the data are flipped, and the checksums are adapted.
#[test]
fn a_scrub_continues_with_the_next_block_of_every_version() {
    for (from, name, _) in samples::all() {
        if !from.to_str().unwrap().contains("/wide_uncompressed/") {
            continue;
        }
        for seed in 0..24 {
            let from = from.clone();
            sim::run(seed, 1, move |shard| async move {
                copied(&shard, &from).await;
                let cache = ChunkCache::new(1 << 16);
                let sstable = open(&shard, &dir(), name, &cache).await.unwrap();
                let schema = schema_of_header(&sstable.statistics().header).unwrap();
                let right = contents(&sstable, &schema).await;
                let rows = |all: &[(PartitionKey, Partition)]| -> usize {
                    all.iter().map(|(_, partition)| partition.rows().len()).sum()
                };
                drop(sstable);
                let path = dir().join(name.file_name(&Component::Data));
                let mut bytes = shard.files().read_all(&path, CLASS, 1 << 30).await.unwrap();
                let mut rng = Rng::new(seed);
                let at = rng.index(bytes.len());
                let end = (at + 4).min(bytes.len());
                bytes[at..end].fill(0xff);
                shard.files().write_all(&path, &bytes, CLASS).await.unwrap();
                let crc_chunk_bytes = 65_536;
                let mut crcs = crate::component::crc::ChunkCrcsBuilder::new(crc_chunk_bytes);
                crcs.update(&bytes);
                let crc_path = dir().join(name.file_name(&Component::Crc));
                shard.files().write_all(&crc_path, &crcs.finish().encode(), CLASS).await.unwrap();
                let sstable = open(&shard, &dir(), name, &cache).await.unwrap();
                assert!(!findings(&sstable, Depth::Components).await.is_empty(), "the digest is another");
                let report =
                    Box::pin(scrub(&shard, &sstable, &output_dir(), &plan(), true, |_, _| {})).await.unwrap();
                let mut kept = 0;
                for written in &report.written {
                    let piece = open(&shard, &output_dir(), written.name, &cache).await.unwrap();
                    piece.check(CLASS).await.unwrap();
                    kept += rows(&contents(&piece, &schema).await);
                }
                let all = rows(&right);
                assert!(kept * 3 > all * 2, "{from:?}, {seed}: {kept} of {all}: {:?}", report.losses);
            });
        }
    }
}
