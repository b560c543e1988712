//! Blocking system calls of file operations, for helper threads.

use std::fs;
use std::io::{self, IoSlice, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::buf::ALIGNMENT_BYTES;
use crate::shard::files::{DirEntry, LOCK_FILE_NAME, OpenOptions};

/// `STATX_DIO_READ_ALIGN`, which `rustix` does not name.
const DIO_READ_ALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2_0000);

/// Opens a file; for a direct file also returns the unit of its reads. Direct I/O is switched on after
/// opening, so that a file system that refuses it leaves an open buffered file and no partly created one.
///
/// A pipe, a socket or a device is refused before it is opened, because opening a pipe waits for its other
/// end, possibly forever.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> io::Result<(OwnedFd, Option<usize>)> {
    if let Ok(metadata) = fs::metadata(path)
        && !metadata.is_file()
        && !metadata.is_dir()
    {
        let what = "not a regular file but a pipe, a socket or a device; put a file in its place";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let file = fs::OpenOptions::new()
        .read(options.read)
        .write(options.write)
        .create(options.create)
        .create_new(options.create_new)
        .truncate(options.truncate)
        .open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let direct = options.direct && set_direct(&file)?;
    let read_unit_bytes = direct.then(|| direct_read_unit_bytes(&file));
    Ok((file.into(), read_unit_bytes))
}

/// The unit in bytes of offsets and lengths of direct reads. Kernels before 6.1 and some file systems do not
/// report it; [`ALIGNMENT_BYTES`] is valid everywhere.
fn direct_read_unit_bytes(fd: impl AsFd) -> usize {
    let wanted = StatxFlags::DIOALIGN | DIO_READ_ALIGN;
    let Ok(stat) = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, wanted) else { return ALIGNMENT_BYTES };
    let reported = StatxFlags::from_bits_retain(stat.stx_mask);
    let unit = if reported.contains(DIO_READ_ALIGN) && stat.stx_dio_read_offset_align > 0 {
        stat.stx_dio_read_offset_align
    } else if reported.contains(StatxFlags::DIOALIGN) && stat.stx_dio_offset_align > 0 {
        stat.stx_dio_offset_align
    } else {
        return ALIGNMENT_BYTES;
    };
    let fits = unit.is_power_of_two() && stat.stx_dio_mem_align <= unit;
    if fits { (unit as usize).clamp(512, ALIGNMENT_BYTES) } else { ALIGNMENT_BYTES }
}

fn set_direct(file: &fs::File) -> io::Result<bool> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    match rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn sync_data(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(fd)?)
}

/// Writes to a file through the page cache. With `or_refuses`, the call fails with `WouldBlock` if it would
/// block, or with EOPNOTSUPP if the file system cannot tell.
pub(crate) fn write_at(
    fd: impl AsFd,
    bytes: &[u8],
    offset_bytes: u64,
    or_refuses: bool,
) -> io::Result<usize> {
    signed(offset_bytes)?;
    let flags = if or_refuses { ReadWriteFlags::NOWAIT } else { ReadWriteFlags::empty() };
    Ok(rustix::io::pwritev2(fd, &[IoSlice::new(bytes)], offset_bytes, flags)?)
}

/// How often the calling thread has slept in the kernel so far.
pub(crate) fn thread_sleeps() -> libc::c_long {
    // SAFETY: all zeros is a valid `rusage`.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: `usage` is an owned structure to be filled.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    if result == 0 { usage.ru_nvcsw } else { 0 }
}

pub(crate) fn allocate(fd: impl AsFd, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    if len_bytes == 0 {
        return Ok(());
    }
    loop {
        match rustix::fs::fallocate(&fd, FallocateFlags::empty(), offset_bytes, len_bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => (),
            Err(Errno::OPNOTSUPP) => return Err(io::ErrorKind::Unsupported.into()),
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) fn truncate(fd: impl AsFd, len_bytes: u64) -> io::Result<()> {
    Ok(rustix::fs::ftruncate(fd, len_bytes)?)
}

pub(crate) fn len_bytes(fd: impl AsFd) -> io::Result<u64> {
    let stat = rustix::fs::fstat(fd)?;
    u64::try_from(stat.st_size).map_err(|_negative| io::ErrorKind::InvalidData.into())
}

/// A file offset or length as the kernel represents it. Fails with EINVAL if it is too large.
pub(crate) fn signed(bytes: u64) -> io::Result<i64> {
    i64::try_from(bytes).map_err(|_too_big| Errno::INVAL.into())
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

pub(crate) fn read_dir(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // Links are followed: directories of tables may be on other disks.
        match fs::metadata(entry.path()) {
            Ok(data) => {
                let is_dir = data.is_dir();
                entries.push(DirEntry { name, is_dir, len_bytes: if is_dir { 0 } else { data.len() } });
            }
            // The entry was removed after it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => (),
            Err(error) => return Err(error),
        }
    }
    Ok(entries)
}

pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Locks a directory until the result is dropped: by a lock on its lock file, which names the holder, and by
/// one on the directory itself, which holds even if the lock file was removed.
pub(crate) fn lock_dir(path: &Path) -> io::Result<[fs::File; 2]> {
    let dir = fs::File::open(path)?;
    let lock_path = path.join(LOCK_FILE_NAME);
    // Some network file systems can lock only files.
    if matches!(flock(&dir), Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        return Err(taken_by(fs::read_to_string(&lock_path).unwrap_or_default().trim()));
    }
    let mut file =
        fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path)?;
    if let Err(error) = flock(&file) {
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(error);
        }
        let mut pid = String::new();
        file.take(20).read_to_string(&mut pid)?;
        return Err(taken_by(pid.trim()));
    }
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())?;
    Ok([dir, file])
}

/// Takes an exclusive lock until the file is closed, or fails with [`io::ErrorKind::WouldBlock`].
fn flock(file: &fs::File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// The error for a second holder of a lock.
pub(crate) fn taken_by(pid: &str) -> io::Error {
    let holder = if pid.is_empty() { "another process".to_string() } else { format!("process {pid}") };
    let text = format!("{holder} uses it; stop that process or choose another directory");
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}
