//! A table whose SSTables use every compression in both versions: each codec, short and long chunks,
//! incompressible chunks.

use std::sync::Arc;

use base::rng::Rng;
use model::types::CqlType;
use model::{Cell, ClusteringPrefix, Codec, Compression, Liveness, Mutation, PartitionKey, TableSchema};
use sstable::component::index;
use sstable::component::statistics::DeltaBases;
use sstable::version::Version;

use crate::case::{Case, NOW_S, NOW_US};

pub fn table(keyspace: &str) -> Arc<TableSchema> {
    let table = TableSchema::builder(keyspace, "codecs").partition_key("p", CqlType::Int);
    let table = table.clustering("c", CqlType::Int).regular("t", CqlType::Text).regular("b", CqlType::Blob);
    table.build().expect("this is a table")
}

/// One SSTable for each version, codec and chunk length.
pub fn cases(seed: u64, schema: &Arc<TableSchema>) -> Vec<Case> {
    let codecs = [
        Codec::Noop,
        Codec::Lz4,
        Codec::Lz4High { level: 9 },
        Codec::Lz4High { level: 17 },
        Codec::Snappy,
        Codec::Deflate,
        Codec::Zstd { level: -10 },
        Codec::Zstd { level: 1 },
        Codec::Zstd { level: 3 },
        Codec::Zstd { level: 9 },
        Codec::Zstd { level: 22 },
    ];
    let mut cases = vec![];
    for codec in codecs {
        for (version, kib, max_compressed_bytes) in [
            (Version::Me, 1, Compression::ALWAYS),
            (Version::Me, 16, Compression::ALWAYS),
            (Version::Me, 256, Compression::ALWAYS),
            (Version::Nb, 4, Compression::ALWAYS),
            (Version::Nb, 64, Compression::ALWAYS),
            // About half of the chunks do not compress to this length.
            (Version::Nb, 1, 700),
            (Version::Nb, 16, 16 * 1024),
        ] {
            let generation = cases.len() as u64 + 1;
            let compression = Compression::new(codec, kib * 1024);
            cases.push(Case {
                schema: schema.clone(),
                generation,
                version,
                compression: Some(Compression { max_compressed_bytes, ..compression }),
                bases: DeltaBases { min_timestamp_us: NOW_US, ..DeltaBases::NONE },
                column_index_bytes: index::BLOCK_BYTES_DEFAULT,
                mutations: mutations(&mut Rng::new(seed.wrapping_mul(1000) + generation), schema, generation),
            });
        }
    }
    cases
}

/// Words in one column, random bytes in the other, with very different lengths. Each SSTable has its own
/// partitions.
fn mutations(rng: &mut Rng, schema: &Arc<TableSchema>, generation: u64) -> Vec<Mutation> {
    let named = |name: &str| schema.column_named(name).expect("the table has it");
    let (text, blob) = (named("t"), named("b"));
    let partition = |number: u64| {
        let key = i32::try_from(generation * 100 + number).expect("few partitions");
        let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(key.to_be_bytes()));
        for c in 0..1 + rng.below(12) as i32 {
            let row = mutation.row_mut(ClusteringPrefix::new([&c.to_be_bytes()[..]]));
            row.liveness = match rng.below(3) {
                0 => Liveness::expiring(NOW_US, 100, NOW_S),
                _ => Liveness::new(NOW_US),
            };
            let mut noise = vec![0; *rng.pick(&[0, 10, 600, 3000])];
            rng.fill(&mut noise);
            row.set(blob, Cell::live(NOW_US, noise));
            let words = (0..*rng.pick(&[1, 10, 300])).map(|_| format!("word{} ", rng.below(200)));
            row.set(text, Cell::live(NOW_US, words.collect::<String>().into_bytes()));
        }
        mutation
    };
    (0..40).map(partition).collect()
}
