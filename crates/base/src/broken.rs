//! Deliberately broken guarantees, to verify that the checker of each guarantee detects a violation.
//!
//! Code that keeps a guarantee calls [`is`] at the one place where the guarantee could be broken:
//! `if !broken::is("log_sync") { file.sync_data().await? }`. In a release build [`is`] is the constant
//! `false`, and the compiler removes the check. A build with debug assertions, such as `cargo build` without
//! `--release`, has the check; there at most one guarantee of the process is broken at a time. Only
//! `sim --break NAME` sets its name; no server can.

#[cfg(debug_assertions)]
pub use on::{clear, is, set, times};

/// Whether the guarantee `name` is broken deliberately.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn is(_name: &str) -> bool {
    false
}

#[cfg(debug_assertions)]
mod on {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{PoisonError, RwLock};

    /// Whether [`BROKEN`] has a name: all that is read while every promise is kept.
    static IS_ANY: AtomicBool = AtomicBool::new(false);
    static BROKEN: RwLock<Option<&'static str>> = RwLock::new(None);
    static TIMES: AtomicU64 = AtomicU64::new(0);

    /// Breaks the guarantee `name` for the whole process, and restores the one that was broken before.
    pub fn set(name: &'static str) {
        *BROKEN.write().unwrap_or_else(PoisonError::into_inner) = Some(name);
        TIMES.store(0, Ordering::Relaxed);
        IS_ANY.store(true, Ordering::Release);
    }

    /// Restores all guarantees.
    pub fn clear() {
        *BROKEN.write().unwrap_or_else(PoisonError::into_inner) = None;
        IS_ANY.store(false, Ordering::Release);
    }

    /// Whether the guarantee `name` is broken deliberately. Calls that return true are counted in [`times`].
    pub fn is(name: &str) -> bool {
        if !IS_ANY.load(Ordering::Acquire) {
            return false;
        }
        let broken = *BROKEN.read().unwrap_or_else(PoisonError::into_inner) == Some(name);
        if broken {
            TIMES.fetch_add(1, Ordering::Relaxed);
        }
        broken
    }

    /// How often [`is`] was called for the broken guarantee since [`set`]; 0 means that no code was reached
    /// that would break it.
    pub fn times() -> u64 {
        TIMES.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn one_promise_at_a_time_is_broken() {
            assert!(!super::is("log_sync"));
            super::set("log_sync");
            assert!(super::is("log_sync") && !super::is("page_end"));
            assert_eq!(super::times(), 1);
            super::set("page_end");
            assert!(!super::is("log_sync") && super::is("page_end"));
            super::clear();
            assert!(!super::is("page_end"));
        }
    }
}
