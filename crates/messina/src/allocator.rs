//! Settings of the programs' allocator, mimalloc: how soon freed memory returns to the system.
//!
//! Nearly all allocations of a shard are freed on the same shard; mimalloc is designed for that. It is built
//! without transparent huge pages: clearing one at its first use takes milliseconds, in which the whole shard
//! waits, and a huge page of which a part is in use is resident as a whole.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// Number of the option in mimalloc 3; libmimalloc-sys has no name for it.
const PURGE_DELAY: mi_option_t = 15;
/// Milliseconds. mimalloc's default of a second is long for caches that turn over 200 MB/s: all of that
/// memory would stay resident.
const PURGE_DELAY_MS: c_long = 50;

/// Sets the delay after which freed memory returns to the system, unless `MIMALLOC_PURGE_DELAY` sets it.
pub fn set_purge_delay() {
    // SAFETY: the option exists, and the call precedes the start of other threads.
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: the option exists.
        let delay_ms = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(delay_ms(), 1000, "mimalloc's default; without MIMALLOC_PURGE_DELAY");
        set_purge_delay();
        assert_eq!(delay_ms(), PURGE_DELAY_MS);
    }
}
