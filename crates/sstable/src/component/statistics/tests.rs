//! Statistics.db as a whole: layout, versions, checksums, damage.

use proptest::prelude::*;

use super::*;

fn sample() -> Statistics {
    let mut collector = StatsCollector::new(Some([0x11; 16]));
    for number in 0..300u32 {
        collector.add_partition(&number.to_be_bytes(), u64::from(number) * 100, u64::from(number));
        collector.add_row(3);
        collector.update_timestamp(1_700_000_000_000_000 + i64::from(number));
        collector.update_ttl(0);
        collector.update_deletion_time(1_700_000_000 + number as i32 * 61);
    }
    let values = [Some(&b"\0\0\0\x07"[..]), Some(b"x")];
    collector.update_clustering(crate::component::clustering::PrefixKind::Row, &values, |_| unreachable!());
    let at = |segment_id, position| CommitLogPosition { segment_id, position };
    collector.add_commit_log_interval(at(1, 2), at(3, 4));
    collector.set_compression(1, 2);
    collector.set_level(2);
    collector.set_repaired_at(77);
    let (stats, compaction) = collector.finish();
    let column = |name: &str, type_name: &str| HeaderColumn {
        name: name.into(),
        type_name: format!("org.apache.cassandra.db.marshal.{type_name}"),
    };
    Statistics {
        validation: ValidationMetadata {
            partitioner: MURMUR3_PARTITIONER.into(),
            bloom_filter_fp_chance: 0.01,
        },
        compaction,
        stats,
        header: SerializationHeader {
            bases: DeltaBases { min_timestamp_us: EPOCH_US + 5, ..DeltaBases::NONE },
            key_type: "org.apache.cassandra.db.marshal.Int32Type".into(),
            clustering_types: vec![
                "org.apache.cassandra.db.marshal.Int32Type".into(),
                "org.apache.cassandra.db.marshal.UTF8Type".into(),
            ],
            static_columns: vec![column("s", "LongType")],
            regular_columns: vec![column("v", "UTF8Type"), column("w", "Int32Type")],
        },
    }
}

const VERSIONS: [Version; 5] = [Version::Mc, Version::Md, Version::Me, Version::Na, Version::Nb];

#[test]
fn every_version_round_trips_with_the_fields_it_has() {
    let full = Statistics {
        stats: StatsMetadata { pending_repair: Some([9; 16]), is_transient: true, ..sample().stats },
        ..sample()
    };
    for version in VERSIONS {
        let mut expect = full.clone();
        if !version.has_pending_repair() {
            (expect.stats.pending_repair, expect.stats.is_transient) = (None, false);
        }
        if !version.has_originating_host_id() {
            expect.stats.originating_host_id = None;
        }
        let bytes = full.encode(version);
        assert_eq!(Statistics::decode(&bytes, version), Ok(expect), "{version}");
    }
    assert!(Statistics::decode(&full.encode(Version::Nb), Version::Oa).is_err());
}

#[test]
fn the_layout_is_the_formats() {
    let me = sample().encode(Version::Me);
    assert_eq!(me[..16], [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 36, 0, 0, 0, 1]);
    assert_eq!(me[36..38], [0, 43]);
    assert_eq!(&me[38..81], MURMUR3_PARTITIONER.as_bytes());
    assert_eq!(me[81..89], 0.01f64.to_be_bytes());
    let compaction_at = 36 + 2 + 43 + 8;
    assert_eq!(me[16..20], [0, 0, 0, compaction_at as u8]);
    assert_eq!(me[compaction_at + 4..compaction_at + 8], [0xff, 0xff, 0xff, 0xfe]);
    let stats_at = u32::from_be_bytes(me[24..28].try_into().unwrap()) as usize;
    assert_eq!(me[stats_at..stats_at + 20], [0, 0, 0, 151, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    let nb = sample().encode(Version::Nb);
    assert_eq!(nb[4..8], crc32(&nb[..4]).to_be_bytes());
    assert_eq!(nb[40..44], crc32(&[&nb[..4], &nb[8..40]].concat()).to_be_bytes());
    assert_eq!(nb[12..16], [0, 0, 0, 44]);
    assert_eq!(nb[97..101], crc32(&nb[44..97]).to_be_bytes());
    // The flag for no pending repair, the transient flag, and the checksums.
    let without_host = [Version::Md, Version::Na].map(|version| sample().encode(version).len());
    assert_eq!(without_host[1] - without_host[0], 2 + 6 * CRC_BYTES);
}

#[test]
fn parts_are_found_in_any_order() {
    let bytes = sample().encode(Version::Me);
    let offset =
        |entry: usize| u32::from_be_bytes(bytes[8 + entry * 8..12 + entry * 8].try_into().unwrap()) as usize;
    let ends = [offset(1), offset(2), offset(3), bytes.len()];
    let mut shuffled = bytes[..4].to_vec();
    let (mut entries, mut parts) = (vec![], vec![]);
    for kind in [2usize, 0, 3, 1] {
        entries.extend((kind as u32).to_be_bytes());
        entries.extend((36 + parts.len() as u32).to_be_bytes());
        parts.extend_from_slice(&bytes[offset(kind)..ends[kind]]);
    }
    shuffled.extend(entries);
    shuffled.extend(parts);
    assert_eq!(Statistics::decode(&shuffled, Version::Me), Ok(sample()));
}

#[test]
fn every_truncation_is_an_error() {
    for version in [Version::Me, Version::Nb] {
        let bytes = sample().encode(version);
        for cut in 0..bytes.len() {
            assert!(Statistics::decode(&bytes[..cut], version).is_err(), "{version} cut at {cut}");
        }
    }
}

#[test]
fn checksums_find_every_wrong_byte() {
    let bytes = sample().encode(Version::Nb);
    for at in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x10;
        assert!(Statistics::decode(&wrong, Version::Nb).is_err(), "wrong at {at}");
    }
}

#[test]
fn a_missing_part_is_named() {
    let mut bytes = sample().encode(Version::Me);
    bytes[4 + 3 * 8 + 3] = 9;
    let error = Statistics::decode(&bytes, Version::Me).unwrap_err().to_string();
    assert_eq!(error, "table of contents at byte 0: expected a header part, found none");
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer(bytes: Vec<u8>) {
        for version in VERSIONS {
            let _ = Statistics::decode(&bytes, version);
        }
    }

    #[test]
    fn wrong_bytes_are_an_answer(wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = sample().encode(Version::Me);
        for (at, value) in wrong {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = Statistics::decode(&bytes, Version::Me);
    }
}
