//! How long a call may take: instructions of the virtual machine, and time on a clock.
//!
//! The hook of the virtual machine spends instructions in steps of [`STEP`]; code in Rust that runs for long
//! spends what it costs. Once a limit is exceeded, every further spending fails, until the next call begins.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Instructions between two calls of the hook. In that time, code that handles the longest strings takes a
/// few milliseconds.
pub const STEP: u32 = 64;

/// Spendings between two readings of the clock, which may take a system call.
const CLOCK_STEP: u64 = 8;

/// Returns the time in microseconds. It need not be that of any other clock.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The limits of one call.
#[derive(Clone)]
pub struct Limits {
    /// Instructions of the virtual machine.
    pub instructions: u64,
    /// Time, if there is a clock. A clock that counts only the CPU time of the calling thread is best: a busy
    /// machine then fails no call.
    pub time_us: u64,
    pub clock: Option<Clock>,
    /// Memory of Lua for arguments, result and what lies between.
    pub memory_bytes: usize,
}

impl Default for Limits {
    /// ScyllaDB's limits of time and memory, without a clock.
    fn default() -> Self {
        Self { instructions: 5_000_000, time_us: 10_000, clock: None, memory_bytes: 1 << 20 }
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instructions, {} us, {} bytes", self.instructions, self.time_us, self.memory_bytes)
    }
}

/// What is left of the limits in the current call.
pub struct Budget {
    limits: Limits,
    left: AtomicU64,
    end_us: AtomicU64,
    is_exceeded: AtomicBool,
    /// Spendings in this call.
    spendings: AtomicU64,
}

impl Budget {
    /// Until the first call begins, nothing is limited.
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            left: AtomicU64::new(u64::MAX),
            end_us: AtomicU64::new(u64::MAX),
            is_exceeded: AtomicBool::new(false),
            spendings: AtomicU64::new(0),
        }
    }

    /// Begins a call, with all limits whole.
    pub fn begin(&self) {
        let now_us = self.limits.clock.as_ref().map_or(0, |clock| clock());
        self.left.store(self.limits.instructions, Ordering::Relaxed);
        self.end_us.store(now_us.saturating_add(self.limits.time_us), Ordering::Relaxed);
        self.is_exceeded.store(false, Ordering::Relaxed);
    }

    /// Spends instructions, and checks the clock now and then.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn spend(&self, instructions: u64) -> mlua::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(instructions), Ordering::Relaxed);
        if left < instructions {
            self.is_exceeded.store(true, Ordering::Relaxed);
        }
        let spendings = self.spendings.load(Ordering::Relaxed);
        self.spendings.store(spendings + 1, Ordering::Relaxed);
        if spendings.is_multiple_of(CLOCK_STEP) {
            let end_us = self.end_us.load(Ordering::Relaxed);
            if self.limits.clock.as_ref().is_some_and(|clock| clock() > end_us) {
                self.is_exceeded.store(true, Ordering::Relaxed);
            }
        }
        self.check()
    }

    /// # Errors
    /// A limit was exceeded earlier in this call.
    pub fn check(&self) -> mlua::Result<()> {
        if !self.is_exceeded() {
            return Ok(());
        }
        Err(mlua::Error::runtime(match self.left.load(Ordering::Relaxed) {
            0 => format!("the function took more than {} instructions", self.limits.instructions),
            _ => format!("the function took more than {} ms", self.limits.time_us.div_ceil(1000)),
        }))
    }

    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }
}
