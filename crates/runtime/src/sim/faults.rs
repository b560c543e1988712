//! Fault plan: the faults of a simulated world and their frequency. May be changed while the world runs.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use base::rng::Rng;
use iosched::DiskModel;

/// A predicate on paths of files.
pub type PathFilter = Rc<dyn Fn(&Path) -> bool>;

/// The faults of a world. The default has only delays and reordering.
#[derive(Clone)]
pub struct FaultPlan {
    /// Probability that a read fails with EIO.
    pub read_error: f64,
    /// Probability that a write fails with EIO; a failed write writes nothing.
    pub write_error: f64,
    /// Probability that a sync fails with EIO. Data that was not synced before may then be lost.
    pub sync_error: f64,
    /// Every read of these files fails with EIO.
    pub read_error_paths: Option<PathFilter>,
    /// Every write to and sync of these files fails with EIO.
    pub write_error_paths: Option<PathFilter>,
    /// Every removal of these files fails with EIO.
    pub remove_error_paths: Option<PathFilter>,
    /// Probability that a read or write of a file or socket moves fewer bytes than requested.
    pub short_transfer: f64,
    /// Whether the file system cannot reserve space, so that `allocate` falls back to writing zeros.
    pub allocate_unsupported: bool,
    /// The size of the disk; a write that does not fit fails with ENOSPC.
    pub capacity_bytes: Option<u64>,
    /// The minimal latency of an operation, in microseconds.
    pub latency_us_min: u64,
    /// The maximal latency of an operation without a spike, in microseconds.
    pub latency_us_max: u64,
    /// The speed of the disk: a transfer waits for earlier ones, then takes its cost by this model, then the
    /// latency. `None`: only the latency.
    pub disk_speed: Option<DiskModel>,
    /// The number of transfers that the disk serves in parallel, each slower by this factor; long transfers
    /// use several channels.
    pub disk_channels: usize,
    /// Probability that an operation takes `spike_us` longer.
    pub spike: f64,
    /// Duration of a spike in microseconds.
    pub spike_us: u64,
    /// Probability that a connection breaks, for both ends, when bytes arrive.
    pub net_reset: f64,
    /// Probability that a closing end does not notify its peer, as when a machine vanishes. The peer then
    /// gets neither the end nor an error, and its writes fill the buffers.
    pub net_silent_close: f64,
    /// The same for closes of the side that connected only, such as clients.
    pub net_vanish: f64,
    /// Microseconds after which the system gives up a connection whose peer has vanished, if the peer has not
    /// acknowledged everything. (Otherwise keepalive notices it, if it is set.) By default that of Linux.
    pub net_gives_up_us: u64,
    /// The world stops before it executes the operation after this number of operations, counted since its
    /// creation.
    pub crash_after_ops: Option<u64>,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self {
            read_error: 0.0,
            write_error: 0.0,
            sync_error: 0.0,
            read_error_paths: None,
            write_error_paths: None,
            remove_error_paths: None,
            short_transfer: 0.0,
            allocate_unsupported: false,
            capacity_bytes: None,
            latency_us_min: 20,
            latency_us_max: 300,
            disk_speed: None,
            disk_channels: 1,
            spike: 0.0,
            spike_us: 20_000,
            net_reset: 0.0,
            net_silent_close: 0.0,
            net_vanish: 0.0,
            net_gives_up_us: 924_000_000,
            crash_after_ops: None,
        }
    }
}

impl FaultPlan {
    pub(crate) fn latency_us(&self, rng: &mut Rng) -> u64 {
        let span_us = self.latency_us_max.saturating_sub(self.latency_us_min) + 1;
        let spike_us = if chance(rng, self.spike) { self.spike_us } else { 0 };
        self.latency_us_min + rng.below(span_us) + spike_us
    }

    pub(crate) fn read_fails(&self, rng: &mut Rng, path: &Path) -> bool {
        chance(rng, self.read_error) || chosen(self.read_error_paths.as_ref(), path)
    }

    pub(crate) fn write_fails(&self, rng: &mut Rng, path: &Path) -> bool {
        chance(rng, self.write_error) || chosen(self.write_error_paths.as_ref(), path)
    }

    pub(crate) fn remove_fails(&self, path: &Path) -> bool {
        chosen(self.remove_error_paths.as_ref(), path)
    }

    pub(crate) fn sync_fails(&self, rng: &mut Rng, path: &Path) -> bool {
        chance(rng, self.sync_error) || chosen(self.write_error_paths.as_ref(), path)
    }

    /// The number of bytes that a transfer of `len` moves; at least one.
    pub(crate) fn moved(&self, rng: &mut Rng, len: usize) -> usize {
        if len > 1 && chance(rng, self.short_transfer) { 1 + rng.index(len) } else { len }
    }
}

impl fmt::Debug for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultPlan")
            .field("read_error", &self.read_error)
            .field("write_error", &self.write_error)
            .field("sync_error", &self.sync_error)
            .field("short_transfer", &self.short_transfer)
            .field("capacity_bytes", &self.capacity_bytes)
            .field("net_reset", &self.net_reset)
            .field("net_silent_close", &self.net_silent_close)
            .field("net_vanish", &self.net_vanish)
            .field("crash_after_ops", &self.crash_after_ops)
            .finish_non_exhaustive()
    }
}

fn chosen(filter: Option<&PathFilter>, path: &Path) -> bool {
    filter.is_some_and(|filter| filter(path))
}

/// True with this probability. Draws a random number only if the probability is above 0.
pub(crate) fn chance(rng: &mut Rng, probability: f64) -> bool {
    const WHOLE: f64 = (1_u64 << 32) as f64;
    probability > 0.0 && (rng.below(1 << 32) as f64) < probability * WHOLE
}
