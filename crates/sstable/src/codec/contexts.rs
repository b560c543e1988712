//! Per-thread contexts of compressors and decompressors, of a few hundred kilobytes to a few megabytes each.
//! A context is created at its first use on a thread and reused, so that a chunk needs no allocation. No
//! state passes from one chunk to the next.

use std::cell::RefCell;

use libdeflater::CompressionLvl;
use zstd_safe::{CCtx, DCtx};

use super::lz4;

/// The default level of Java's `Deflater`.
const DEFLATE_LEVEL: i32 = 6;

#[derive(Default)]
pub(super) struct Contexts {
    lz4: Option<lz4::Stream>,
    lz4_high: Option<lz4::StreamHigh>,
    snappy: Option<snap::raw::Encoder>,
    deflate: Option<libdeflater::Compressor>,
    inflate: Option<libdeflater::Decompressor>,
    zstd: Option<CCtx<'static>>,
    unzstd: Option<DCtx<'static>>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Calls `work` with the contexts of this thread. `work` must not call this function again.
pub(super) fn with_contexts<T>(work: impl FnOnce(&mut Contexts) -> T) -> T {
    CONTEXTS.with_borrow_mut(work)
}

impl Contexts {
    pub(super) fn lz4(&mut self) -> &mut lz4::Stream {
        self.lz4.get_or_insert_with(lz4::Stream::new)
    }

    pub(super) fn lz4_high(&mut self) -> &mut lz4::StreamHigh {
        self.lz4_high.get_or_insert_with(lz4::StreamHigh::new)
    }

    pub(super) fn snappy(&mut self) -> &mut snap::raw::Encoder {
        self.snappy.get_or_insert_with(snap::raw::Encoder::new)
    }

    pub(super) fn deflate(&mut self) -> &mut libdeflater::Compressor {
        let level = || CompressionLvl::new(DEFLATE_LEVEL).expect("6 is a level");
        self.deflate.get_or_insert_with(|| libdeflater::Compressor::new(level()))
    }

    pub(super) fn inflate(&mut self) -> &mut libdeflater::Decompressor {
        self.inflate.get_or_insert_with(libdeflater::Decompressor::new)
    }

    pub(super) fn zstd(&mut self) -> &mut CCtx<'static> {
        self.zstd.get_or_insert_with(CCtx::create)
    }

    pub(super) fn unzstd(&mut self) -> &mut DCtx<'static> {
        self.unzstd.get_or_insert_with(DCtx::create)
    }
}
