//! Back end of a shard in a simulated process: the world's clock and network, and file operations that take
//! virtual time and may fail.
//!
//! An operation takes effect atomically when it completes, and has no visible effect before; a write into the
//! page cache may also take effect within the call. An operation keeps its file open, as the kernel does,
//! even if the future that waits for it is dropped.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Poll, Waker};

use base::rng::Rng;
use iosched::Direction;
use rustix::io::Errno;

use super::disk::InodeId;
use super::faults::FaultPlan;
use super::inode::{FileData, SECTOR_BYTES};
use super::net;
use super::world::World;
use crate::buf::{ALIGNMENT_BYTES, IoBuf};
use crate::real::taken_by;
use crate::shard::backend::{
    Backend, BackendFile, BackendListener, BackendStream, End, Op, Part, Transferred,
};
use crate::shard::files::{DirEntry, LOCK_FILE_NAME, OpenOptions};
use crate::shard::io_gate::Pass;
use crate::shard::net::ListenOptions;

/// Simulated files are kept in memory; a longer file is a bug of the test and gets EFBIG.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// The free space reported for a disk without a capacity, in bytes.
const FREE_BYTES_UNLIMITED: u64 = 1 << 40;

pub(crate) struct SimBackend {
    world: Rc<World>,
    alive: Rc<Cell<bool>>,
    pid: u32,
    rng: RefCell<Rng>,
}

impl SimBackend {
    pub(crate) fn new(world: Rc<World>, alive: Rc<Cell<bool>>, pid: u32, rng: Rng) -> Self {
        Self { world, alive, pid, rng: RefCell::new(rng) }
    }
}

/// Begins an operation; its result arrives when `happen` has run.
pub(super) fn begin<T: 'static>(world: &World, happen: impl FnOnce(&World) -> T + 'static) -> Op<T> {
    begin_moving(world, None, happen)
}

/// As [`begin`], for an operation that moves bytes.
fn begin_moving<T: 'static>(
    world: &World,
    moves: Option<(Direction, usize)>,
    happen: impl FnOnce(&World) -> T + 'static,
) -> Op<T> {
    let slot: Rc<RefCell<(Option<Waker>, Option<T>)>> = Rc::new(RefCell::new((None, None)));
    let filled = Rc::clone(&slot);
    let happen = Box::new(move |world: &World| {
        let result = happen(world);
        let waker = {
            let mut slot = filled.borrow_mut();
            slot.1 = Some(result);
            slot.0.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    });
    world.begin(moves, happen);
    Box::pin(std::future::poll_fn(move |context| {
        let mut slot = slot.borrow_mut();
        match slot.1.take() {
            Some(result) => Poll::Ready(result),
            None => {
                slot.0 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }))
}

pub(super) fn os_error(code: Errno) -> io::Error {
    code.into()
}

impl Backend for SimBackend {
    fn now_ns(&self) -> u64 {
        self.world.now_us() * 1000
    }

    fn wall_us(&self) -> i64 {
        self.world.wall_us()
    }

    fn random_u64(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    fn need_preempt(&self) -> bool {
        self.world.need_preempt()
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Op<io::Result<Rc<dyn BackendFile>>> {
        let (path, options) = (path.to_owned(), *options);
        let (shared, alive) = (Rc::clone(&self.world), Rc::clone(&self.alive));
        begin(&self.world, move |world| {
            let mut disk = world.disk.borrow_mut();
            let inode = match disk.lookup(&path) {
                Ok(_) if options.create_new => return Err(io::ErrorKind::AlreadyExists.into()),
                Ok(inode) if disk.is_dir(inode) => return Err(io::ErrorKind::IsADirectory.into()),
                Ok(inode) => inode,
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && (options.create || options.create_new) =>
                {
                    disk.create(&path)?
                }
                Err(error) => return Err(error),
            };
            disk.opened(inode);
            if options.truncate {
                disk.with_file(inode, |file| file.resize(0));
            }
            drop(disk);
            let open = Rc::new(OpenFile { world: shared, alive, inode, path, options });
            Ok(Rc::new(SimFile(open)) as Rc<dyn BackendFile>)
        })
    }

    fn remove(&self, path: &Path) -> Op<io::Result<()>> {
        let path = path.to_owned();
        begin(&self.world, move |world| {
            if world.faults.borrow().remove_fails(&path) {
                return Err(os_error(Errno::IO));
            }
            world.disk.borrow_mut().remove(&path)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Op<io::Result<()>> {
        let (from, to) = (from.to_owned(), to.to_owned());
        begin(&self.world, move |world| world.disk.borrow_mut().rename(&from, &to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Op<io::Result<()>> {
        let (from, to) = (from.to_owned(), to.to_owned());
        begin(&self.world, move |world| world.disk.borrow_mut().hard_link(&from, &to))
    }

    fn create_dir_all(&self, path: &Path) -> Op<io::Result<()>> {
        let path = path.to_owned();
        begin(&self.world, move |world| world.disk.borrow_mut().create_dir_all(&path))
    }

    fn remove_dir_all(&self, path: &Path) -> Op<io::Result<()>> {
        let path = path.to_owned();
        begin(&self.world, move |world| world.disk.borrow_mut().remove_dir_all(&path))
    }

    fn sync_dir(&self, path: &Path) -> Op<io::Result<()>> {
        let path = path.to_owned();
        let covered = self.world.disk.borrow().latest_change();
        begin(&self.world, move |world| {
            if world.faults.borrow().sync_fails(&mut world.rng.borrow_mut(), &path) {
                return Err(os_error(Errno::IO));
            }
            world.disk.borrow_mut().sync_dir(&path, covered)
        })
    }

    fn exists(&self, path: &Path) -> Op<io::Result<bool>> {
        let path = path.to_owned();
        begin(&self.world, move |world| match world.disk.borrow().lookup(&path) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn read_dir(&self, path: &Path) -> Op<io::Result<Vec<DirEntry>>> {
        let path = path.to_owned();
        begin(&self.world, move |world| world.disk.borrow().read_dir(&path))
    }

    fn lock_dir(&self, path: &Path) -> Op<io::Result<Box<dyn Any>>> {
        let (path, pid, shared) = (path.to_owned(), self.pid, Rc::clone(&self.world));
        begin(&self.world, move |world| {
            let mut disk = world.disk.borrow_mut();
            let dir = disk.lookup(&path)?;
            if let Some(holder) = world.locks.borrow().get(&dir) {
                return Err(taken_by(&holder.to_string()));
            }
            let file_path = path.join(LOCK_FILE_NAME);
            let file = match disk.lookup(&file_path) {
                Ok(file) => file,
                Err(_absent) => disk.create(&file_path)?,
            };
            disk.with_file(file, |file| {
                file.resize(0);
                file.write(0, pid.to_string().as_bytes());
            });
            world.locks.borrow_mut().insert(dir, pid);
            Ok(Box::new(SimLock { world: shared, dir, pid }) as Box<dyn Any>)
        })
    }

    fn free_bytes(&self, _path: &Path) -> Op<io::Result<u64>> {
        begin(&self.world, move |world| {
            let capacity = world.faults.borrow().capacity_bytes;
            let used_bytes = world.disk.borrow().used_bytes();
            Ok(capacity.map_or(FREE_BYTES_UNLIMITED, |bytes| bytes.saturating_sub(used_bytes)))
        })
    }

    fn listen(&self, addr: SocketAddr, options: &ListenOptions) -> io::Result<Box<dyn BackendListener>> {
        net::listen(&self.world, addr, options)
    }

    fn connect(&self, addr: SocketAddr) -> Op<io::Result<Box<dyn BackendStream>>> {
        net::connect(&self.world, addr)
    }

    fn adopt(&self, end: End) -> io::Result<Box<dyn BackendStream>> {
        Ok(net::adopt(&self.world, end))
    }
}

struct SimLock {
    world: Rc<World>,
    dir: InodeId,
    pid: u32,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut locks = self.world.locks.borrow_mut();
        if locks.get(&self.dir) == Some(&self.pid) {
            locks.remove(&self.dir);
        }
    }
}

/// A file descriptor: held by the process and by each of its operations.
struct OpenFile {
    world: Rc<World>,
    alive: Rc<Cell<bool>>,
    inode: InodeId,
    path: PathBuf,
    options: OpenOptions,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // The files of a dead process are closed already, as by the kernel.
        if self.alive.get() {
            self.world.disk.borrow_mut().closed(self.inode);
        }
    }
}

impl OpenFile {
    /// Applies `change` to the file if it may grow to `len_bytes`.
    fn grow<T>(
        &self,
        world: &World,
        len_bytes: u64,
        change: impl FnOnce(&mut FileData) -> T,
    ) -> io::Result<T> {
        let room = self.room(world, len_bytes)?;
        if room < len_bytes {
            return Err(os_error(Errno::NOSPC));
        }
        self.change(world, change)
    }

    /// The length that the file may have if it needs `len_bytes`.
    fn room(&self, world: &World, len_bytes: u64) -> io::Result<u64> {
        if !self.options.write {
            return Err(os_error(Errno::BADF));
        }
        if len_bytes > FILE_BYTES_MAX {
            return Err(os_error(Errno::FBIG));
        }
        let disk = world.disk.borrow();
        let file = disk.file(self.inode).ok_or_else(|| os_error(Errno::BADF))?;
        let capacity = world.faults.borrow().capacity_bytes.unwrap_or(u64::MAX);
        Ok((file.len() as u64).saturating_add(capacity.saturating_sub(disk.used_bytes())))
    }

    fn change<T>(&self, world: &World, change: impl FnOnce(&mut FileData) -> T) -> io::Result<T> {
        world.disk.borrow_mut().with_file(self.inode, change).ok_or_else(|| os_error(Errno::BADF))
    }

    fn fails(
        &self,
        world: &World,
        fault: impl FnOnce(&FaultPlan, &mut Rng, &Path) -> bool,
    ) -> io::Result<()> {
        let fails = fault(&world.faults.borrow(), &mut world.rng.borrow_mut(), &self.path);
        if fails { Err(os_error(Errno::IO)) } else { Ok(()) }
    }

    /// The number of bytes that this transfer moves, of `len`.
    fn moved(&self, world: &World, len: usize) -> usize {
        let moved = world.faults.borrow().moved(&mut world.rng.borrow_mut(), len);
        if self.options.direct && moved < len {
            moved.next_multiple_of(ALIGNMENT_BYTES).min(len)
        } else {
            moved
        }
    }

    fn read(&self, world: &World, buf: &mut IoBuf, at: usize, len: usize, offset: u64) -> io::Result<usize> {
        if !self.options.read {
            return Err(os_error(Errno::BADF));
        }
        self.fails(world, FaultPlan::read_fails)?;
        let wanted = self.moved(world, len);
        let disk = world.disk.borrow();
        let bytes = disk.file(self.inode).ok_or_else(|| os_error(Errno::BADF))?.bytes();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let to = from.saturating_add(wanted).min(bytes.len());
        buf.fill_at(at, &bytes[from..to]);
        Ok(to - from)
    }

    fn write(&self, world: &World, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.fails(world, FaultPlan::write_fails)?;
        let end_bytes = offset.checked_add(bytes.len() as u64).ok_or_else(|| os_error(Errno::FBIG))?;
        let room = self.room(world, end_bytes)?;
        let mut moved = self.moved(world, bytes.len());
        if room < end_bytes {
            // The part that fits is written, as in a real file system.
            let fits = room.saturating_sub(offset) as usize;
            let fits = if self.options.direct { fits - fits % ALIGNMENT_BYTES } else { fits };
            if fits == 0 {
                return Err(os_error(Errno::NOSPC));
            }
            moved = moved.min(fits);
        }
        self.change(world, |file| file.write(offset as usize, &bytes[..moved]))?;
        Ok(moved)
    }
}

struct SimFile(Rc<OpenFile>);

impl SimFile {
    fn check_aligned(&self, at: usize, len: usize, offset_bytes: u64, align: usize) {
        if self.0.options.direct {
            let aligned = at.is_multiple_of(align)
                && len.is_multiple_of(align)
                && offset_bytes.is_multiple_of(align as u64);
            assert!(aligned, "direct I/O of {len} bytes at {offset_bytes}, from byte {at} of its buffer");
        }
    }

    fn begin<T: 'static>(&self, happen: impl FnOnce(&World, &OpenFile) -> T + 'static) -> Op<T> {
        let open = Rc::clone(&self.0);
        begin(&self.0.world, move |world| happen(world, &open))
    }
}

impl BackendFile for SimFile {
    fn direct_read_unit_bytes(&self) -> Option<usize> {
        self.0.options.direct.then_some(SECTOR_BYTES)
    }

    fn read(&self, part: Part, pass: Pass) -> Op<Transferred> {
        let Part { mut buf, at, len, offset_bytes } = part;
        self.check_aligned(at, len, offset_bytes, SECTOR_BYTES);
        let open = Rc::clone(&self.0);
        begin_moving(&self.0.world, Some((Direction::Read, len)), move |world| {
            let moved = open.read(world, &mut buf, at, len, offset_bytes);
            pass.finish(&moved);
            (buf, moved)
        })
    }

    fn write(&self, part: Part, pass: Pass) -> Op<Transferred> {
        let Part { buf, at, len, offset_bytes } = part;
        self.check_aligned(at, len, offset_bytes, ALIGNMENT_BYTES);
        let open = Rc::clone(&self.0);
        begin_moving(&self.0.world, Some((Direction::Write, len)), move |world| {
            let moved = open.write(world, buf.part_at(at, len), offset_bytes);
            pass.finish(&moved);
            (buf, moved)
        })
    }

    fn write_at_once(&self, bytes: &[u8], offset_bytes: u64) -> Option<io::Result<usize>> {
        let happens = !self.0.options.direct && self.0.world.may_happen_at_once();
        happens.then(|| self.0.write(&self.0.world, bytes, offset_bytes))
    }

    fn sync_data(&self) -> Op<io::Result<()>> {
        let covered = self.0.world.disk.borrow().file(self.0.inode).map_or(0, FileData::latest_change);
        self.begin(move |world, open| {
            if let Err(error) = open.fails(world, FaultPlan::sync_fails) {
                open.change(world, |file| file.lose_some(&mut world.rng.borrow_mut()))?;
                return Err(error);
            }
            open.change(world, |file| file.sync(covered))
        })
    }

    fn allocate(&self, offset_bytes: u64, len_bytes: u64) -> Op<io::Result<()>> {
        self.begin(move |world, open| {
            if world.faults.borrow().allocate_unsupported {
                return Err(io::ErrorKind::Unsupported.into());
            }
            open.fails(world, FaultPlan::write_fails)?;
            let end_bytes = offset_bytes.checked_add(len_bytes).ok_or_else(|| os_error(Errno::FBIG))?;
            open.grow(world, end_bytes, |file| file.resize(file.len().max(end_bytes as usize)))
        })
    }

    fn truncate(&self, len_bytes: u64) -> Op<io::Result<()>> {
        self.begin(move |world, open| {
            open.fails(world, FaultPlan::write_fails)?;
            open.grow(world, len_bytes, |file| file.resize(len_bytes as usize))
        })
    }

    fn len_bytes(&self) -> Op<io::Result<u64>> {
        let disk = self.0.world.disk.borrow();
        let len = disk.file(self.0.inode).map(|file| file.len() as u64).ok_or_else(|| os_error(Errno::BADF));
        Box::pin(std::future::ready(len))
    }
}
