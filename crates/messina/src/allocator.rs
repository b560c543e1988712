//! Settings of the allocator that the programs have, mimalloc: how soon what is freed goes back to the system.
//!
//! Allocations on a shard are freed on the same shard, nearly always; mimalloc is made for that. It is built without
//! transparent huge pages: to clear one at its first use takes milliseconds, for which everybody on the shard waits, and a part
//! of one keeps the whole resident.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// Number of the option in mimalloc 3, which libmimalloc-sys has no name for.
const PURGE_DELAY: mi_option_t = 15;
/// Milliseconds. mimalloc's own second is long when caches turn over by 200 MB/s: all of that would be resident.
const PURGE_DELAY_MS: c_long = 50;

/// What is freed goes back soon, unless `MIMALLOC_PURGE_DELAY` says when.
pub fn give_back_soon() {
    // SAFETY: the option exists, and this is called before there are other threads.
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
        give_back_soon();
        assert_eq!(delay_ms(), PURGE_DELAY_MS);
    }
}
