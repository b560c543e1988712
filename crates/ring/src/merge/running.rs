//! Running merges: each has a runtime of one shard, and a control that Java's thread reads and sets.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use runtime::{CpuGroup, Reply, Runtime, RuntimeOptions, Shard};

use super::merge_run::{Merged, run};
use super::request::MergeRequest;
use crate::wire::Output;

/// Shared by the merge and the thread of the node that waits for it.
#[derive(Debug, Default)]
pub struct Control {
    /// Uncompressed bytes of the inputs that the merge may read; it pauses when it has read more.
    pub allowed_bytes: AtomicU64,
    /// Uncompressed bytes of the inputs that were read.
    pub read_bytes: AtomicU64,
    /// The merge must end.
    pub stop: AtomicBool,
}

/// A merge that was started and not finished.
struct Running {
    control: Arc<Control>,
    reply: Reply<Result<Merged, String>>,
    runtime: Runtime,
}

#[derive(Default)]
struct Merges {
    by_handle: BTreeMap<i64, Running>,
    last: i64,
}

static MERGES: LazyLock<Mutex<Merges>> = LazyLock::new(Mutex::default);

/// Starts a merge and returns its handle.
///
/// # Errors
/// As text: no thread or no I/O back end.
pub fn start(request: MergeRequest) -> Result<i64, String> {
    let runtime =
        Runtime::start(RuntimeOptions::default(), |_| async {}).map_err(|error| error.to_string())?;
    let control: Arc<Control> = Arc::default();
    let shared = control.clone();
    let call = move |shard: Shard| async move { Box::pin(run(&shard, &request, &shared)).await };
    let reply = runtime.remote().call(0, CpuGroup::Compaction, call);
    let mut merges = MERGES.lock().unwrap_or_else(PoisonError::into_inner);
    merges.last += 1;
    let handle = merges.last;
    merges.by_handle.insert(handle, Running { control, reply, runtime });
    Ok(handle)
}

/// Lets the merge read up to `allowed_bytes`. Returns the bytes that it has read, and -1 if it has ended.
pub fn progress(handle: i64, allowed_bytes: u64) -> Result<i64, String> {
    let merges = MERGES.lock().unwrap_or_else(PoisonError::into_inner);
    let running = merges.by_handle.get(&handle).ok_or_else(|| format!("there is no merge {handle}"))?;
    running.control.allowed_bytes.store(allowed_bytes, Relaxed);
    if running.reply.is_ready() {
        return Ok(-1);
    }
    Ok(i64::try_from(running.control.read_bytes.load(Relaxed)).unwrap_or(i64::MAX))
}

/// Asks the merge to end. An unknown handle is ignored.
pub fn stop(handle: i64) {
    let merges = MERGES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = merges.by_handle.get(&handle) {
        running.control.stop.store(true, Relaxed);
    }
}

/// Waits for the end of the merge, ends its thread, and returns the result in bytes.
///
/// # Errors
/// As text: those of [`run`], or a panic.
pub fn finish(handle: i64) -> Result<Vec<u8>, String> {
    let running = MERGES.lock().unwrap_or_else(PoisonError::into_inner).by_handle.remove(&handle);
    let Running { control, reply, runtime } = running.ok_or_else(|| format!("there is no merge {handle}"))?;
    control.allowed_bytes.store(u64::MAX, Relaxed);
    let result = reply.wait();
    let ended = runtime.shutdown();
    let merged = match (result, ended) {
        (Ok(result), Ok(())) => result?,
        (_, Err(panicked)) => return Err(panicked.to_string()),
        (Err(gone), Ok(())) => return Err(gone.to_string()),
    };
    let mut out = Output::default();
    out.count(merged.outputs.len());
    for (index, part) in &merged.outputs {
        out.count(*index);
        out.count(*part);
    }
    out.u64(merged.partitions);
    out.u64(merged.rows);
    out.count(merged.counts.len());
    for (inputs, partitions) in &merged.counts {
        out.count(*inputs as usize);
        out.u64(*partitions);
    }
    Ok(out.into_bytes())
}
