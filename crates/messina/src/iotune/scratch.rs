//! A scratch file on the measured disk, and a runtime whose shards have it open.
//!
//! The file's name is removed before the first measurement, so the file disappears however the process ends.
//! The file is filled, because a disk is faster with blocks that were never written; if that takes too long,
//! a shorter file is used.

use std::fs::{self, File as StdFile};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use runtime::{
    CpuGroup, DiskOptions, FileError, IoBuf, IoClass, OpenOptions, Runtime, RuntimeOptions, Shard,
};

use super::IotuneError;
use super::measure::{self, MeasuredRates, ShardLoad, Window};

/// Divisor: the scratch file takes at most this part of the free space.
const FREE_PART: u64 = 4;
/// A smaller file would fit into the disk's own memory.
const FILE_BYTES_MIN: u64 = 64 << 20;
/// Size of the requests that fill the file.
const FILL_BYTES: usize = 1 << 20;
/// Requests in flight on each shard while the file is filled.
const FILL_DEPTH: u64 = 4;
/// Time in which the buffers of writes are filled and late reads complete.
const WARM_UP_US_MIN: u64 = 300_000;
/// Types of file systems in memory, as statfs reports them: tmpfs and ramfs.
const MEMORY_FILE_SYSTEMS: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// See the head of the file.
pub struct ScratchDisk {
    runtime: Runtime,
    /// Keeps the file open, which has no name.
    file: StdFile,
    file_bytes: u64,
}

impl ScratchDisk {
    /// Makes the file, of `wanted_bytes` if the disk has four times as much free space, and fills as much of
    /// it as possible within `fill_us`.
    ///
    /// # Errors
    /// The directory is not writable, is in memory, or has too little space.
    pub fn make(dir: &Path, wanted_bytes: u64, fill_us: u64, shards: u32) -> Result<Self, IotuneError> {
        let within = |error: std::io::Error| format!("{}: {error}", dir.display());
        if !fs::metadata(dir).map_err(within)?.is_dir() {
            return Err(format!("{}: not a directory", dir.display()).into());
        }
        let (kind, free_bytes) = file_system(dir).map_err(within)?;
        if MEMORY_FILE_SYSTEMS.contains(&kind) {
            return Err(
                format!("{}: these files are in memory; there is no disk to measure", dir.display()).into()
            );
        }
        let align = FILL_BYTES as u64 * u64::from(shards);
        let file_bytes = wanted_bytes.min(free_bytes / FREE_PART) / align * align;
        if file_bytes < FILE_BYTES_MIN {
            let (least, free) = ((FILE_BYTES_MIN * FREE_PART) >> 20, free_bytes >> 20);
            return Err(format!(
                "{}: {free} MiB are free; at least {least} are needed, and --file-size must be at least 64 MiB",
                dir.display()
            )
            .into());
        }
        let path = dir.join(format!(".messina-iotune-{}", std::process::id()));
        let file = fs::File::options().read(true).write(true).create_new(true).open(&path).map_err(within)?;
        fs::remove_file(&path).map_err(within)?;
        let mut disk = Self::started(
            file,
            file_bytes,
            shards,
            DiskOptions { latency_goal_ns: 1 << 60, ..DiskOptions::default() },
        )?;
        let filled_bytes = disk.fill(fill_us)?;
        if filled_bytes < file_bytes {
            println!("{} MiB were filled in that time; the measurement uses only these", filled_bytes >> 20);
            disk.file_bytes = filled_bytes;
        }
        Ok(disk)
    }

    /// Opens the same file on other shards, with these options of the disk.
    pub fn restarted(self, disk: DiskOptions) -> Result<Self, IotuneError> {
        let Self { runtime, file, file_bytes } = self;
        let shards = runtime.remote().shard_count();
        runtime.shutdown()?;
        Self::started(file, file_bytes, shards, disk)
    }

    fn started(file: StdFile, file_bytes: u64, shards: u32, disk: DiskOptions) -> Result<Self, IotuneError> {
        let options = RuntimeOptions { shards, disk, ..RuntimeOptions::default() };
        let runtime = Runtime::start(options, |_| async {})?;
        let scratch = Self { runtime, file, file_bytes };
        // A file without a name is opened by its descriptor.
        let path = format!("/proc/self/fd/{}", scratch.file.as_raw_fd());
        scratch.on_all(move |shard| {
            let path = path.clone();
            async move {
                let options = OpenOptions::read_write().with_direct(true);
                let file = shard.files().open(Path::new(&path), options).await?;
                shard.set_local(std::rc::Rc::new(file));
                Ok(())
            }
        })?;
        Ok(scratch)
    }

    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    pub fn shards(&self) -> u32 {
        self.runtime.remote().shard_count()
    }

    /// Whether requests bypass the page cache.
    pub fn is_direct(&self) -> Result<bool, IotuneError> {
        let direct = self.on_all(|shard| async move { Ok(file_of(&shard).is_direct()) })?;
        Ok(direct.into_iter().all(|direct| direct))
    }

    /// Writes every byte once until the time is over; returns the number of bytes from the start of the file
    /// that were written.
    fn fill(&self, for_us: u64) -> Result<u64, IotuneError> {
        let file_bytes = self.file_bytes;
        self.on_all(move |shard| async move {
            match shard.id() {
                0 => file_of(&shard).allocate(0, file_bytes).await,
                _ => Ok(()),
            }
        })?;
        let (shards, pieces) = (u64::from(self.shards()), self.file_bytes / FILL_BYTES as u64);
        let filled = self.on_all(move |shard| async move {
            let until_us = shard.now_us() + for_us;
            let worker = |number: u64| {
                let clock = shard.clone();
                shard.spawn(CpuGroup::Maintenance, async move {
                    let (step, mut at) = (shards * FILL_DEPTH, u64::from(clock.id()) * FILL_DEPTH + number);
                    let mut buf = IoBuf::zeroed(FILL_BYTES);
                    base::rng::Rng::new(clock.random_u64()).fill(&mut buf);
                    // At least the minimal length, however slow.
                    while at < pieces
                        && (clock.now_us() < until_us || at * (FILL_BYTES as u64) < FILE_BYTES_MIN)
                    {
                        buf = file_of(&clock)
                            .write_at(at * FILL_BYTES as u64, buf, IoClass::Maintenance)
                            .await?;
                        at += step;
                    }
                    Ok::<_, FileError>(at)
                })
            };
            let workers: Vec<_> = (0..FILL_DEPTH).map(worker).collect();
            let mut first_missing = u64::MAX;
            for worker in workers {
                first_missing = first_missing.min(worker.await?);
            }
            file_of(&shard).sync_data().await?;
            Ok(first_missing)
        })?;
        let first_missing = filled.into_iter().min().unwrap_or(0).min(pieces);
        Ok(first_missing / shards * shards * FILL_BYTES as u64)
    }

    /// Loads the disk from all shards and returns an outcome for each load. The first tenth of the time, or
    /// 0.3 s, is the warm-up.
    pub fn measure(&self, loads: Vec<ShardLoad>, for_us: u64) -> Result<Vec<MeasuredRates>, IotuneError> {
        let warm_up_us = (for_us / 10).max(WARM_UP_US_MIN).min(for_us / 2);
        let window = Window {
            file_bytes: self.file_bytes,
            shards: u64::from(self.shards()),
            warm_up_us,
            measure_us: (for_us - warm_up_us).max(1),
        };
        let loads = Arc::new(loads);
        let outcomes = self.on_all(move |shard| {
            let loads = Arc::clone(&loads);
            async move { measure::run(&shard, &file_of(&shard), &loads, window).await }
        })?;
        let count = outcomes.first().map_or(0, Vec::len);
        let of_load =
            |load: usize| MeasuredRates::sum(outcomes.iter().map(|of_shard| of_shard[load].clone()));
        Ok((0..count).map(of_load).collect())
    }

    /// Runs `f` on all shards concurrently.
    pub fn on_all<T, F, Fut>(&self, f: F) -> Result<Vec<T>, IotuneError>
    where
        T: Send + 'static,
        F: Fn(Shard) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<T, FileError>> + 'static,
    {
        let remote = self.runtime.remote();
        let started: Vec<_> =
            (0..self.shards()).map(|shard| remote.call(shard, CpuGroup::Statement, f.clone())).collect();
        started.into_iter().map(|reply| Ok(reply.wait()??)).collect()
    }

    /// Stops the shards; the file disappears.
    pub fn close(self) -> Result<(), IotuneError> {
        Ok(self.runtime.shutdown()?)
    }
}

/// The scratch file as the shard has opened it.
fn file_of(shard: &Shard) -> runtime::File {
    (*shard.local::<runtime::File>().expect("opened at the start")).clone()
}

/// The magic number of a directory's file system, and the bytes that an ordinary user may still write.
fn file_system(dir: &Path) -> std::io::Result<(i64, u64)> {
    let found = rustix::fs::statfs(dir)?;
    Ok((found.f_type, found.f_bavail * found.f_bsize as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let refused =
            |dir: &str, bytes| ScratchDisk::make(Path::new(dir), bytes, 0, 1).err().unwrap().to_string();
        assert!(refused("/dev/shm", 1 << 30).contains("in memory"));
        assert!(refused("/proc/version", 1 << 30).contains("not a directory"));
        assert!(refused("/no/such/place", 1 << 30).contains("No such file"));
        let here = env!("CARGO_MANIFEST_DIR");
        assert!(refused(here, 1 << 20).contains("at least 64 MiB"));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test needs a directory of its own")]
    fn the_file_has_no_name_and_keeps_its_bytes_over_a_restart() {
        let dir = std::env::temp_dir().join(format!("messina-iotune-test-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        match ScratchDisk::make(&dir, FILE_BYTES_MIN, 60_000_000, 2) {
            Ok(disk) => {
                assert_eq!((disk.file_bytes(), fs::read_dir(&dir).unwrap().count()), (FILE_BYTES_MIN, 0));
                let disk = disk.restarted(DiskOptions::default()).unwrap();
                let length = disk.on_all(|shard| async move { file_of(&shard).len_bytes().await }).unwrap();
                assert_eq!(length, [FILE_BYTES_MIN; 2]);
                disk.close().unwrap();
            }
            // The directory of temporary files is in memory here.
            Err(error) => assert!(error.to_string().contains("in memory"), "{error}"),
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
