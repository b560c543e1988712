//! Concatenates sources whose partitions do not overlap, so that only one of them is open at a time.
//!
//! Serves the fragments of a run, of which there may be a thousand: open together, each would hold buffers
//! and a read-ahead request.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::ReadError;
use crate::block_on::LocalFuture;
use crate::fragment::{ReadSpec, Reader, Source, Step};

/// Reader of several sources in sequence. See the head of this file. The caller guarantees that every
/// partition of a source comes before those of the next.
pub struct ChainReader {
    spec: ReadSpec,
    waiting: VecDeque<Rc<dyn Source>>,
    current: Option<Box<dyn Reader>>,
}

impl ChainReader {
    /// A reader of `sources`, in this order, each opened with `spec`. The partitions of a source must be
    /// before those of the next one.
    pub fn new(spec: ReadSpec, sources: impl IntoIterator<Item = Rc<dyn Source>>) -> Self {
        Self { spec, waiting: sources.into_iter().collect(), current: None }
    }
}

impl Reader for ChainReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        loop {
            if let Some(current) = &mut self.current {
                match current.next()? {
                    Step::End => self.current = None,
                    step => return Ok(step),
                }
            }
            match self.waiting.pop_front() {
                Some(source) => self.current = Some(source.reader(&self.spec)),
                None => return Ok(Step::End),
            }
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        match &mut self.current {
            Some(current) => current.load(),
            None => Box::pin(async { Ok(()) }),
        }
    }

    fn skip_partition(&mut self) {
        if let Some(current) = &mut self.current {
            current.skip_partition();
        }
    }
}
