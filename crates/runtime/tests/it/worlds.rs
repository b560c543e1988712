//! Runs a test in every world: on each real back end that works on this system, and in simulated worlds.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};

use runtime::sim::{FaultPlan, SimOptions, SimWorld};
use runtime::{BackendChoice, CpuGroup, Runtime, RuntimeOptions, Shard, StartError};

pub const SHARDS: u32 = 3;

/// An empty directory for one test in one world, on the disk of the build directory.
pub fn fresh_dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if fs::exists(&dir).unwrap() {
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// A runtime with this back end. `None`, with a printed line, if io_uring is blocked on this system; the
/// other two work everywhere.
pub fn start(backend: BackendChoice) -> Option<Runtime> {
    let options = RuntimeOptions { shards: SHARDS, backend, ..RuntimeOptions::default() };
    match Runtime::start(options, |_shard| async {}) {
        Ok(runtime) => Some(runtime),
        Err(error @ StartError::Unavailable { .. }) if backend == BackendChoice::IoUring => {
            println!("not tested here: {error}");
            None
        }
        Err(error) => panic!("{backend:?}: {error}"),
    }
}

pub const REAL: [BackendChoice; 3] =
    [BackendChoice::IoUring, BackendChoice::LinuxAio, BackendChoice::Threads];

/// Runs `test` on shard 0 of each world, with an empty directory.
pub fn in_every_world<F, Fut>(name: &str, test: F)
where
    F: Fn(Shard, PathBuf) -> Fut + Send + Copy + 'static,
    Fut: Future<Output = ()> + 'static,
{
    for backend in REAL {
        let Some(runtime) = start(backend) else { continue };
        let dir = fresh_dir(&format!("{name}-{backend:?}"));
        let place = dir.clone();
        let ran = runtime.remote().call(0, CpuGroup::Statement, move |shard| test(shard, place)).wait();
        if let Err(panicked) = runtime.shutdown() {
            panic!("{name} on {backend:?}: {panicked}");
        }
        ran.unwrap();
        fs::remove_dir_all(dir).unwrap();
    }
    for seed in 0..20 {
        let faults =
            FaultPlan { short_transfer: if seed % 2 == 0 { 0.0 } else { 0.3 }, ..FaultPlan::default() };
        let world = SimWorld::new(SimOptions { seed, shards: SHARDS, faults, ..SimOptions::default() });
        let node = world.start_node(|_shard| async {}).unwrap();
        let dir = PathBuf::from("/data");
        world.disk().write(&dir.join("x"), b"").unwrap();
        world.disk().remove(&dir.join("x")).unwrap();
        world.block_on(&node, 0, |shard| test(shard, dir)).unwrap();
    }
}
