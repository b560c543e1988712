//! Backups of an engine to a target that fails at any operation: a backup is complete or does not exist, the
//! next one goes on, and a prune removes nothing that is needed.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use backup::lease::Lease;
use backup::storage::{Chunks, dir::DirTarget};
use backup::{BackupError, CreateOptions, Retention, Target};
use catalog::{Keyspace, TableSettings};
use engine::{Engine, EngineOptions};
use model::{Cell, ClusteringPrefix, CqlType, Liveness, Mutation, PartitionKey, TableSchema};

/// A directory that is removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A directory whose operations fail from the given one on, and that may damage one put.
struct Faulty {
    inner: DirTarget,
    /// Operations until all fail.
    left: AtomicI64,
    puts: AtomicU64,
    /// The put of this number writes other bytes.
    damages: Option<u64>,
    /// Names of the objects that were put.
    names: Mutex<Vec<String>>,
}

impl Faulty {
    fn new(dir: &Path, left: i64, damages: Option<u64>) -> Self {
        let inner = DirTarget::new(dir);
        Self { inner, left: AtomicI64::new(left), puts: AtomicU64::new(0), damages, names: Mutex::default() }
    }

    fn step(&self) -> Result<(), BackupError> {
        match self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            true => Ok(()),
            false => Err(BackupError("the target is gone".to_string())),
        }
    }
}

impl Target for Faulty {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn put(&self, name: &str, bytes: u64, chunks: &mut Chunks<'_>) -> Result<(), BackupError> {
        self.step()?;
        if name.starts_with("objects/") {
            self.names.lock().unwrap().push(name.to_string());
            if self.damages == Some(self.puts.fetch_add(1, Ordering::Relaxed)) {
                let mut damaged = || Ok(chunks()?.map(|chunk| vec![7; chunk.len()]));
                return self.inner.put(name, bytes, &mut damaged);
            }
        }
        self.inner.put(name, bytes, chunks)
    }

    fn read(
        &self,
        name: &str,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<Option<u64>, BackupError> {
        self.step()?;
        self.inner.read(name, sink)
    }

    fn list(&self, dir: &str) -> Result<Vec<(String, u64)>, BackupError> {
        self.step()?;
        self.inner.list(dir)
    }

    fn remove(&self, name: &str) -> Result<(), BackupError> {
        self.step()?;
        self.inner.remove(name)
    }
}

fn open(dir: &Path) -> Engine {
    Engine::open(EngineOptions { memory_bytes: 64 << 20, ..EngineOptions::new(dir) }).unwrap()
}

fn make_table(engine: &Engine) {
    engine.change_schema(|catalog| catalog.create_keyspace(Keyspace::simple("ks")?)).unwrap();
    let create = |catalog: &catalog::Catalog| {
        let table = TableSchema::builder("ks", "t").partition_key("p", CqlType::Int);
        let table = table.clustering("c", CqlType::Int).regular("v", CqlType::Text);
        catalog.create_table(table.build().expect("it is a table"), TableSettings::default())
    };
    engine.change_schema(create).unwrap();
}

fn write(engine: &Engine, p: i32) {
    let table = engine.table("ks", "t").unwrap();
    let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&p.to_be_bytes()[..]));
    let row = mutation.row_mut(ClusteringPrefix::new([&1i32.to_be_bytes()[..]]));
    row.liveness = Liveness::new(1);
    row.set(table.column_named("v").unwrap(), Cell::live(1, "value"));
    engine.apply(mutation).wait().unwrap();
}

fn options() -> CreateOptions {
    CreateOptions { host_id: "node".into(), version: "test".into(), io_bytes_per_s: 0, archive: None }
}

#[test]
fn a_backup_that_fails_anywhere_is_none_and_the_next_one_goes_on() {
    let dir = Dir::new("fails-anywhere");
    let engine = open(&dir.0.join("data"));
    make_table(&engine);
    (0..50).for_each(|p| write(&engine, p));
    let target = dir.0.join("target");
    let mut failures = 0;
    let mut left = 1;
    let created = loop {
        let faulty = Faulty::new(&target, left, None);
        match backup::create(&engine, &faulty, &options()) {
            Ok(created) => break created,
            Err(error) => {
                assert!(error.0.contains("gone"), "{error}");
                failures += 1;
                let healthy = DirTarget::new(&target);
                // The last operation, the removal of the mark, may fail after the backup is complete.
                assert!(backup::fetch::ids(&healthy).unwrap().is_empty(), "after {left} operations");
            }
        }
        // A killed process leaves its mark; it must not keep the next backup back.
        left += 7;
    };
    assert!(failures > 5, "{failures}");
    // Every round went on: the last one had less to copy than there is.
    assert!(created.copied_files < created.files, "{created:?}");
    let healthy = DirTarget::new(&target);
    let verified = backup::verify(&healthy, None, 0).unwrap();
    assert_eq!((verified.problems.len(), verified.backups), (0, vec![created.id.clone()]));
    // Nothing changed, so nothing of the table is copied again.
    let faulty = Faulty::new(&target, i64::MAX, None);
    backup::create(&engine, &faulty, &options()).unwrap();
    let table = engine.table("ks", "t").unwrap().id.simple().to_string();
    assert!(!faulty.names.lock().unwrap().iter().any(|name| name.contains(&table)));
    engine.close().unwrap();
}

#[test]
fn an_object_that_is_not_what_was_written_ends_the_backup() {
    let dir = Dir::new("not-what-was-written");
    let engine = open(&dir.0.join("data"));
    make_table(&engine);
    write(&engine, 1);
    let target = dir.0.join("target");
    let faulty = Faulty::new(&target, i64::MAX, Some(3));
    let error = backup::create(&engine, &faulty, &options()).unwrap_err();
    let name = faulty.names.lock().unwrap()[3].clone();
    assert!(error.0.contains(&name) && error.0.contains("checksum is wrong"), "{error}");
    let healthy = DirTarget::new(&target);
    assert!(backup::fetch::ids(&healthy).unwrap().is_empty());
    // The next backup does not trust the object that it finds.
    backup::create(&engine, &healthy, &options()).unwrap();
    assert!(backup::verify(&healthy, None, 0).unwrap().problems.is_empty());
    engine.close().unwrap();
}

#[test]
fn a_prune_and_a_backup_exclude_each_other() {
    let dir = Dir::new("exclude");
    let target = DirTarget::new(&dir.0.join("target"));
    let engine = open(&dir.0.join("data"));
    make_table(&engine);
    let keep_one = Retention { keep: Some(1), older_than_us: None };
    for p in 0..3 {
        write(&engine, p);
        backup::create(&engine, &target, &options()).unwrap();
    }
    {
        let _other = Lease::create(&target, "other").unwrap();
        let error = backup::prune(&target, &keep_one, false).unwrap_err();
        assert!(error.0.contains("create-other") && error.0.contains("nothing was removed"), "{error}");
    }
    {
        let _prune = Lease::prune(&target, "now").unwrap();
        assert!(Lease::prune(&target, "second").is_err());
    }
    // A mark that was not renewed for an hour belongs to nobody.
    let old = (backup::clock::now_us() - backup::lease::STALE_US - 1).to_string();
    (&target as &dyn Target).put_bytes("leases/create-gone", old.as_bytes()).unwrap();
    // An interrupted backup has left an object that no manifest names.
    let orphan = format!("objects/{}/{}", "0".repeat(32), "1".repeat(64));
    (&target as &dyn Target).put_bytes(&orphan, b"left").unwrap();
    let pruned = backup::prune(&target, &keep_one, false).unwrap();
    assert_eq!((pruned.removed.len(), pruned.kept.len()), (2, 1));
    assert!(pruned.objects > 0 && target.list("leases").unwrap().is_empty());
    assert!((&target as &dyn Target).get(&orphan).unwrap().is_none());
    assert!(backup::verify(&target, None, 0).unwrap().problems.is_empty());
    engine.close().unwrap();
}
