//! Damaged SSTables of Cassandra: flipped bits and truncations in every component of every version.
//!
//! No damage leads to a panic, and an error names its file. Data under a checksum (compressed chunks, and
//! Statistics.db in versions that have its checksum) are never wrong without an error, and neither are
//! truncated data. An SSTable that passes `check` gives the right answers to all questions: `check` compares
//! the components with one another, so this holds for components without checksums too.

use std::fs;

use base::rng::Rng;
use model::{ClusteringRange, PartitionKey, Position, RingPosition};
use reader::{Fragment, ReadError, collect};
use runtime::sim;

use super::*;
use crate::dump::schema_of_header;
use crate::name::Component;

/// For each version, small tables whose content is worth damaging.
const TABLES: [&str; 9] = [
    "cassandra-4.1/deletions/t-",
    "cassandra-4.1/chunks/zstd_1-",
    "cassandra-4.1/empty_values/reversed-",
    "cassandra-5.0-oa/deletions/reversed-",
    "cassandra-5.0-oa/far_expiry/t-",
    "cassandra-5.0-da/collections/t-",
    "cassandra-5.0-da/long_keys/t-",
    "cassandra-5.0-da/row_index/by_text-",
    "cassandra-5.0-da/wide_uncompressed/t-",
];

fn find(sstable: &str) -> (PathBuf, SSTableName) {
    let (case, prefix) = sstable.rsplit_once('/').unwrap();
    let (dir, name, _) = samples::all()
        .into_iter()
        .find(|(dir, ..)| {
            let table_dir = dir.file_name().unwrap().to_str().unwrap();
            dir.to_str().unwrap().contains(&format!("/{case}/")) && table_dir.starts_with(prefix)
        })
        .unwrap_or_else(|| panic!("there is no sample {sstable}"));
    (dir, name)
}

/// The questions: all partitions in both directions, ranges of partitions, and slices of single partitions.
fn questions(schema: &Arc<TableSchema>, right: &[Fragment]) -> Vec<ReadSpec> {
    let all = ReadSpec::new(schema.clone(), PartitionRange::all());
    let mut questions = vec![all.clone(), all.reversed(true)];
    let keys: Vec<PartitionKey> = right
        .iter()
        .filter_map(|fragment| match fragment {
            Fragment::PartitionStart { key, .. } => Some(key.clone()),
            _ => None,
        })
        .collect();
    for part in 1..4.min(keys.len()) {
        let at = RingPosition::AfterKey(keys[keys.len() * part / 4].clone());
        let (first, last) = (PartitionRange::all().start(), PartitionRange::all().end());
        for (start, end) in [(at.clone(), last), (first, at)] {
            questions.push(ReadSpec::new(schema.clone(), PartitionRange::Between { start, end }));
        }
    }
    let mut key = None;
    for (number, fragment) in right.iter().enumerate() {
        match fragment {
            Fragment::PartitionStart { key: new, .. } => {
                key = Some(new.clone());
                if questions.len() < 24 {
                    questions.push(ReadSpec::new(schema.clone(), PartitionRange::Key(new.clone())));
                }
            }
            Fragment::Row(row) if number % 7 == 0 && questions.len() < 40 => {
                let one = PartitionRange::Key(key.clone().expect("a row is in a partition"));
                let start = Position::before(row.key.clone());
                let range = ClusteringRange { start, end: Position::END };
                let spec = ReadSpec::new(schema.clone(), one).ranges(vec![range]);
                questions.extend([spec.clone(), spec.reversed(true)]);
            }
            _ => {}
        }
    }
    questions
}

async fn ask(sstable: &Rc<SSTable>, questions: &[ReadSpec]) -> Vec<Result<Vec<Fragment>, ReadError>> {
    let source = SSTableSource::new(Rc::clone(sstable), IoClass::Statement);
    let mut answers = vec![];
    for spec in questions {
        answers.push(collect(&mut *source.reader(spec)).await);
    }
    answers
}

/// Damages every component of the table at `bits` positions and truncates it at `cuts` positions; at all
/// positions if there are fewer.
async fn damage(shard: &Shard, sstable: &str, bits: usize, cuts: usize) {
    let (from, name) = find(sstable);
    shard.files().create_dir_all(&dir()).await.unwrap();
    for file in fs::read_dir(&from).unwrap() {
        let file = file.unwrap();
        let bytes = fs::read(file.path()).unwrap();
        shard.files().write_all(&dir().join(file.file_name()), &bytes, IoClass::Maintenance).await.unwrap();
    }
    let cache = ChunkCache::new(1 << 16);
    let intact = open(shard, &dir(), name, &cache).await.unwrap();
    let schema = schema_of_header(&intact.statistics().header).unwrap();
    let everything = ReadSpec::new(schema.clone(), PartitionRange::all());
    let everything = ask(&intact, &[everything]).await.remove(0).unwrap();
    let questions = questions(&schema, &everything);
    let right: Vec<_> = ask(&intact, &questions).await.into_iter().map(Result::unwrap).collect();
    let is_compressed = intact.components().contains(&Component::CompressionInfo);
    let components = intact.components().to_vec();
    drop(intact);
    let mut rng = Rng::new(5);
    let (mut noticed, mut tried) = (0, 0);
    for component in &components {
        let path = dir().join(name.file_name(component));
        let bytes = shard.files().read_all(&path, IoClass::Maintenance, 1 << 30).await.unwrap();
        let pick = |rng: &mut Rng, all: usize, some: usize| -> Vec<usize> {
            if all <= some { (0..all).collect() } else { (0..some).map(|_| rng.index(all)).collect() }
        };
        let turned = pick(&mut rng, bytes.len() * 8, bits).into_iter().map(|bit| {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            (format!("bit {bit}"), bytes)
        });
        let turned: Vec<_> = turned.collect();
        let cut = pick(&mut rng, bytes.len(), cuts).into_iter();
        let cut = cut.map(|len| (format!("cut at {len}"), bytes[..len].to_vec()));
        for (what, changed) in turned.into_iter().chain(cut) {
            let context = format!("{sstable}: {component}, {what}");
            shard.files().write_all(&path, &changed, IoClass::Maintenance).await.unwrap();
            tried += 1;
            let opened = match open(shard, &dir(), name, &cache).await {
                Ok(opened) => opened,
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(&name.to_string()), "{context}: {text}");
                    noticed += 1;
                    continue;
                }
            };
            assert!(
                *component != Component::Statistics || !name.version.has_stats_checksums(),
                "{context}: its checksums do not hold, and it was opened"
            );
            let check = opened.check(IoClass::Maintenance).await;
            noticed += usize::from(check.is_err() || !opened.rebuilt().is_empty());
            for (answer, right) in ask(&opened, &questions).await.iter().zip(&right) {
                match answer {
                    Err(error) => {
                        assert!(error.to_string().contains(&name.to_string()), "{context}: {error}")
                    }
                    // Chunks of a compressed Data.db have checksums. TOC.txt has none.
                    Ok(answer)
                        if *component == Component::Data && (is_compressed || what.starts_with("cut")) =>
                    {
                        assert!(answer == right, "{context}");
                    }
                    Ok(answer) => assert!(answer == right || check.is_err(), "{context}: {check:?}"),
                }
                assert!(answer.is_ok() || check.is_err(), "{context}: {answer:?}, and the check is content");
            }
        }
        shard.files().write_all(&path, &bytes, IoClass::Maintenance).await.unwrap();
    }
    assert!(noticed * 2 > tried, "{sstable}: {noticed} of {tried} were noticed");
}

fn damage_all(bits: usize, cuts: usize) {
    for (number, sstable) in TABLES.into_iter().enumerate() {
        sim::run(number as u64, 1, move |shard| async move {
            Box::pin(damage(&shard, sstable, bits, cuts)).await;
        });
    }
}

#[test]
fn some_bits_and_ends() {
    damage_all(48, 12);
}

#[test]
#[ignore = "takes minutes: every bit and every length of the small components"]
fn every_bit_and_end() {
    damage_all(20_000, 3_000);
}
