//! Files: written data is read back at any offset, direct or not; directories; errors; locks.

use std::path::PathBuf;

use runtime::{File, IoBuf, IoClass, OpenOptions, Shard};

use crate::worlds::in_every_world;

const CLASS: IoClass = IoClass::Statement;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 + at) as u8).collect()
}

async fn write_pattern(file: &File, len: usize) -> Vec<u8> {
    let bytes = pattern(len);
    let buf = file.write_at(0, IoBuf::copy_from(&bytes), CLASS).await.unwrap();
    assert_eq!(&*buf, &bytes[..], "the buffer comes back as it was");
    bytes
}

#[test]
fn what_was_written_is_read_at_any_offset() {
    async fn test(shard: Shard, dir: PathBuf) {
        for direct in [false, true] {
            let path = dir.join(format!("direct-{direct}"));
            let options = OpenOptions::create_new().with_direct(direct);
            let file = shard.files().open(&path, options).await.unwrap();
            assert_eq!(file.is_direct(), direct);
            let bytes = write_pattern(&file, 65_536).await;
            for (offset, len) in [(0, 65_536), (1, 1), (4095, 2), (4096, 4096), (5000, 20_000), (65_535, 1)] {
                let read = file.read_at(offset as u64, len, CLASS).await.unwrap();
                assert!(*read == bytes[offset..offset + len], "{len} at {offset}, direct: {direct}");
            }
            assert_eq!(&*file.read_at(65_000, 10_000, CLASS).await.unwrap(), &bytes[65_000..]);
            assert_eq!(file.read_at(65_536, 100, CLASS).await.unwrap().len(), 0);
            assert_eq!(file.read_at(1 << 40, 100, CLASS).await.unwrap().len(), 0);
            let huge = file.read_at(60_000, usize::MAX / 4, CLASS).await.unwrap();
            assert_eq!(&*huge, &bytes[60_000..], "a length from a broken file allocates what is there");
            assert!(
                file.read_at(u64::MAX - 4096, 100, CLASS).await.is_ok_and(|read| read.is_empty())
                    || file.read_at(u64::MAX - 4096, 100, CLASS).await.is_err()
            );
        }
    }
    in_every_world("any-offset", test);
}

#[test]
fn a_write_through_the_cache_arrives_whole_in_order_and_is_counted() {
    async fn test(shard: Shard, dir: PathBuf) {
        let options = OpenOptions::create_new();
        let file = shard.files().open(&dir.join("log"), options).await.unwrap();
        file.allocate(0, 1 << 20).await.unwrap();
        let written_bytes = |shard: &Shard| shard.stats().io_of(CLASS).write_bytes;
        let before_bytes = written_bytes(&shard);
        let mut buf = IoBuf::new();
        let mut end = 0;
        for round in 0..50_u8 {
            buf.clear();
            buf.extend_from_slice(&vec![round; 37 * usize::from(round) + 1]);
            let len = buf.len() as u64;
            buf = file.write_through_cache_at(end, buf, CLASS).await.unwrap();
            assert_eq!(buf.len() as u64, len, "the buffer comes back as it was");
            end += len;
        }
        assert_eq!(written_bytes(&shard) - before_bytes, end);
        // Longer than what a shard's thread copies itself.
        let long = pattern(600_000);
        file.write_through_cache_at(end, IoBuf::copy_from(&long), CLASS).await.unwrap();
        let read = file.read_at(0, end as usize + long.len(), CLASS).await.unwrap();
        let mut rest = &*read;
        for round in 0..50_u8 {
            let (part, after) = rest.split_at(37 * usize::from(round) + 1);
            assert!(part.iter().all(|byte| *byte == round), "round {round}");
            rest = after;
        }
        assert!(*rest == long[..]);
    }
    in_every_world("through-cache", test);
}

#[test]
fn a_write_through_the_cache_reports_its_error() {
    async fn test(shard: Shard, dir: PathBuf) {
        let path = dir.join("file");
        shard.files().write_all(&path, b"1", CLASS).await.unwrap();
        let read_only = shard.files().open(&path, OpenOptions::read()).await.unwrap();
        let error = read_only.write_through_cache_at(3, IoBuf::copy_from(b"2"), CLASS).await.unwrap_err();
        assert!(error.to_string().contains("at byte 3"), "{error}");
        let direct = OpenOptions::create_new().with_direct(true);
        let file = shard.files().open(&dir.join("direct"), direct).await.unwrap();
        let block = IoBuf::copy_from(&[7; 4096]);
        assert_eq!(file.write_through_cache_at(0, block, CLASS).await.unwrap().len(), 4096);
        assert_eq!(&*file.read_at(0, 4096, CLASS).await.unwrap(), &[7; 4096]);
    }
    in_every_world("through-cache-error", test);
}

#[test]
fn a_direct_read_ends_where_the_file_does() {
    async fn test(shard: Shard, dir: PathBuf) {
        let path = dir.join("odd");
        let bytes = pattern(10_001);
        shard.files().write_all(&path, &bytes, CLASS).await.unwrap();
        let file = shard.files().open(&path, OpenOptions::read().with_direct(true)).await.unwrap();
        assert_eq!(&*file.read_at(0, 20_000, CLASS).await.unwrap(), &bytes[..]);
        assert_eq!(&*file.read_at(9_999, 5, CLASS).await.unwrap(), &bytes[9_999..]);
        assert!(file.read_at(10_001, 5, CLASS).await.unwrap().is_empty());
        assert_eq!(shard.files().read_all(&path, CLASS, 1 << 20).await.unwrap(), bytes);
        let error = shard.files().read_all(&path, CLASS, 10_000).await.unwrap_err();
        assert!(error.to_string().contains("10001 bytes"), "{error}");
    }
    in_every_world("direct-end", test);
}

#[test]
fn a_file_is_allocated_cut_and_synced() {
    async fn test(shard: Shard, dir: PathBuf) {
        let path = dir.join("segment");
        let file = shard.files().open(&path, OpenOptions::create_new().with_direct(true)).await.unwrap();
        file.allocate(0, 100_000).await.unwrap();
        assert_eq!(file.len_bytes().await.unwrap(), 100_000);
        let bytes = write_pattern(&file, 8192).await;
        file.sync_data().await.unwrap();
        let read = file.read_at(0, 12_288, CLASS).await.unwrap();
        assert_eq!(&read[..8192], &bytes[..]);
        assert!(read[8192..].iter().all(|byte| *byte == 0));
        file.truncate(5000).await.unwrap();
        assert_eq!(file.len_bytes().await.unwrap(), 5000);
        assert_eq!(&*file.read_at(0, 12_288, CLASS).await.unwrap(), &bytes[..5000]);
        file.truncate(6000).await.unwrap();
        assert!(file.read_at(5000, 1000, CLASS).await.unwrap().iter().all(|byte| *byte == 0));
        assert!(shard.files().free_bytes(&dir).await.unwrap() > 0);
    }
    in_every_world("allocate", test);
}

#[test]
fn names_are_made_changed_and_listed() {
    async fn test(shard: Shard, dir: PathBuf) {
        let files = shard.files();
        files.create_dir_all(&dir.join("a/b")).await.unwrap();
        files.create_dir_all(&dir.join("a/b")).await.unwrap();
        for name in ["z", "y", "x"] {
            files.write_all(&dir.join("a").join(name), name.as_bytes(), CLASS).await.unwrap();
        }
        files.rename(&dir.join("a/z"), &dir.join("a/y")).await.unwrap();
        files.hard_link(&dir.join("a/y"), &dir.join("a/b/link")).await.unwrap();
        files.sync_dir(&dir.join("a")).await.unwrap();
        let listed = files.read_dir(&dir.join("a")).await.unwrap();
        let listed: Vec<_> = listed.iter().map(|e| (e.name.as_str(), e.is_dir, e.len_bytes)).collect();
        assert_eq!(listed, [("b", true, 0), ("x", false, 1), ("y", false, 1)]);
        files.remove(&dir.join("a/y")).await.unwrap();
        assert_eq!(files.read_all(&dir.join("a/b/link"), CLASS, 10).await.unwrap(), b"z");
        assert!(!files.exists(&dir.join("a/y")).await.unwrap());
        assert!(files.exists(&dir.join("a/b")).await.unwrap());
        files.remove_dir_all(&dir.join("a")).await.unwrap();
        assert!(files.read_dir(&dir).await.unwrap().is_empty());
    }
    in_every_world("names", test);
}

#[test]
fn errors_name_the_file_and_their_kind() {
    async fn test(shard: Shard, dir: PathBuf) {
        let files = shard.files();
        let missing = dir.join("missing");
        let error = files.open(&missing, OpenOptions::read()).await.unwrap_err();
        assert!(error.is_not_found() && error.to_string().contains("missing"), "{error}");
        assert!(files.remove(&missing).await.unwrap_err().is_not_found());
        assert!(files.rename(&missing, &dir.join("b")).await.unwrap_err().to_string().contains("b"));
        assert!(files.read_dir(&missing).await.unwrap_err().is_not_found());
        files.write_all(&dir.join("here"), b"1", CLASS).await.unwrap();
        let error = files.open(&dir.join("here"), OpenOptions::create_new()).await.unwrap_err();
        assert!(error.is_already_exists(), "{error}");
        let read_only = files.open(&dir.join("here"), OpenOptions::read()).await.unwrap();
        let error = read_only.write_at(0, IoBuf::copy_from(b"2"), CLASS).await.unwrap_err();
        assert!(error.offset_bytes == Some(0) && error.to_string().contains("at byte 0"), "{error}");
        assert!(files.open(&dir, OpenOptions::read()).await.is_err(), "a directory is not a file");
    }
    in_every_world("errors", test);
}

#[test]
fn a_directory_has_one_holder() {
    async fn test(shard: Shard, dir: PathBuf) {
        let held = shard.files().lock_dir(&dir).await.unwrap();
        let error = shard.files().lock_dir(&dir).await.unwrap_err();
        let pid = shard.files().read_all(&dir.join("messina.lock"), CLASS, 100).await.unwrap();
        let pid = String::from_utf8(pid).unwrap();
        assert!(error.is_locked(), "{error}");
        assert!(error.to_string().contains(&format!("process {pid}")), "{error} does not name {pid}");
        // A cleanup may remove the lock file, but not the directory.
        shard.files().remove(&dir.join("messina.lock")).await.unwrap();
        let error = shard.files().lock_dir(&dir).await.unwrap_err();
        assert!(error.is_locked(), "{error}");
        drop(held);
        drop(shard.files().lock_dir(&dir).await.unwrap());
    }
    in_every_world("lock", test);
}

#[test]
fn a_dropped_operation_keeps_its_buffer_until_it_is_done() {
    async fn test(shard: Shard, dir: PathBuf) {
        let path = dir.join("dropped");
        let file = shard.files().open(&path, OpenOptions::create_new().with_direct(true)).await.unwrap();
        let bytes = write_pattern(&file, 1 << 20).await;
        for round in 0..100 {
            let reading = {
                let file = file.clone();
                shard.spawn(runtime::CpuGroup::Statement, async move {
                    drop(file.read_at(0, 1 << 20, CLASS).await);
                })
            };
            let writing = {
                let (file, part) = (file.clone(), IoBuf::copy_from(&bytes[4096..8192]));
                shard.spawn(runtime::CpuGroup::Statement, async move {
                    drop(file.write_at(4096, part, CLASS).await);
                })
            };
            if round % 2 == 0 {
                shard.yield_now().await;
                shard.yield_now().await;
            }
            drop((reading, writing));
            // New buffers reuse the memory of freed ones, so a late transfer would overwrite them.
            let fresh: Vec<IoBuf> = (0..4).map(|_| IoBuf::zeroed(1 << 20)).collect();
            shard.sleep_us(200).await;
            assert!(fresh.iter().all(|buf| buf.iter().all(|byte| *byte == 0)), "round {round}");
        }
        shard.sleep_us(10_000).await;
        assert!(*file.read_at(0, 1 << 20, CLASS).await.unwrap() == bytes[..]);
    }
    in_every_world("dropped", test);
}

#[test]
fn many_operations_at_once_all_arrive() {
    async fn test(shard: Shard, dir: PathBuf) {
        let path = dir.join("many");
        let file = shard.files().open(&path, OpenOptions::create_new().with_direct(true)).await.unwrap();
        file.allocate(0, 1000 * 4096).await.unwrap();
        let writes: Vec<_> = (0..1000_u64)
            .map(|block| {
                let file = file.clone();
                shard.spawn(runtime::CpuGroup::Memtable, async move {
                    let buf = IoBuf::copy_from(&[block as u8; 4096]);
                    file.write_at(block * 4096, buf, IoClass::MemtableFlush).await.unwrap();
                })
            })
            .collect();
        for write in writes {
            write.await;
        }
        file.sync_data().await.unwrap();
        for block in 0..1000_u64 {
            let read = file.read_at(block * 4096, 4096, CLASS).await.unwrap();
            assert!(read.len() == 4096 && read.iter().all(|byte| *byte == block as u8), "block {block}");
        }
        let stats = shard.stats();
        assert_eq!(stats.io_of(IoClass::MemtableFlush).writes, 1000);
        assert_eq!(stats.io_of(IoClass::MemtableFlush).write_bytes, 4_096_000);
        assert_eq!(stats.io_of(CLASS).reads, 1000);
    }
    in_every_world("many", test);
}

/// Counters contain the bytes moved, not the bytes requested, for files of any length.
#[test]
fn counters_show_moved_bytes() {
    async fn test(shard: Shard, dir: PathBuf) {
        let files = shard.files();
        for direct in [false, true] {
            for len in [0, 1, 100, 4096, 5000, 70_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000] {
                let path = dir.join(format!("moved-{len}-{direct}"));
                files.write_all(&path, &vec![7; len], IoClass::MemtableFlush).await.unwrap();
                let file = files.open(&path, OpenOptions::read().with_direct(direct)).await.unwrap();
                let unit_bytes = file.fetched_bytes(0, 1);
                let before = shard.stats().io_of(CLASS);
                assert_eq!(file.read_at(0, len + 10_000_000, CLASS).await.unwrap().len(), len);
                assert_eq!(file.read_at(0, len + 10_000, CLASS).await.unwrap().len(), len);
                let after = shard.stats().io_of(CLASS);
                let moved_bytes = 2 * len.next_multiple_of(unit_bytes) as u64;
                assert_eq!(after.read_bytes - before.read_bytes, moved_bytes, "{len} bytes, {direct}");
                assert_eq!(files.read_all(&path, CLASS, 1 << 30).await.unwrap().len(), len);
                let whole = shard.stats().io_of(CLASS);
                assert_eq!(whole.read_bytes - after.read_bytes, len as u64, "{len} bytes as a whole");
            }
        }
        let written = shard.stats().io_of(IoClass::MemtableFlush);
        assert_eq!(written.write_bytes, 2 * (1 + 100 + 4096 + 5000 + 70_000 + 3 * (1 << 20) + 3_000_000));
        let of_class = shard.io_stats().into_iter().find(|stats| stats.class == CLASS).unwrap().counters;
        assert_eq!(of_class.read_bytes, shard.stats().io_of(CLASS).read_bytes);
    }
    in_every_world("moved", test);
}

#[test]
fn random_operations_agree_with_a_vector() {
    async fn test(shard: Shard, dir: PathBuf) {
        let mut rng = base::rng::Rng::new(shard.random_u64());
        for direct in [false, true] {
            let path = dir.join(format!("random-{direct}"));
            let file =
                shard.files().open(&path, OpenOptions::create_new().with_direct(direct)).await.unwrap();
            let unit = if direct { 4096 } else { 1 };
            let mut model = Vec::new();
            for step in 0..200 {
                match rng.below(10) {
                    0 => {
                        let len = rng.index(100_000);
                        model.resize(len, 0);
                        file.truncate(len as u64).await.unwrap();
                    }
                    1 => {
                        let end = rng.index(100_000) + 1;
                        model.resize(end.max(model.len()), 0);
                        file.allocate(0, end as u64).await.unwrap();
                    }
                    2 => file.sync_data().await.unwrap(),
                    3..=5 => {
                        let offset = rng.index(100_000) / unit * unit;
                        let mut bytes = vec![0; (rng.index(20_000) + 1).next_multiple_of(unit)];
                        rng.fill(&mut bytes);
                        model.resize(model.len().max(offset + bytes.len()), 0);
                        model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                        file.write_at(offset as u64, IoBuf::copy_from(&bytes), CLASS).await.unwrap();
                    }
                    _ => {
                        let from = rng.index(120_000);
                        let len = rng.index(30_000);
                        let read = file.read_at(from as u64, len, CLASS).await.unwrap();
                        let there = from.min(model.len())..(from + len).min(model.len());
                        assert!(*read == model[there], "step {step}: {len} at {from}, direct: {direct}");
                    }
                }
            }
            assert!(*file.read_at(0, 200_000, CLASS).await.unwrap() == model[..]);
        }
    }
    in_every_world("random", test);
}
