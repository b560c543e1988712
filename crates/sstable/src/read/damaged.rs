//! Opening what cannot be opened: for a scrub, which can do without a table of contents and without an index.
//!
//! What Data.db is made of has to be known: how it is compressed, or its checksums, and the header in Statistics.db. Without
//! an index partitions are found as long as one stands behind the other: behind damage nothing says where the next one begins.

use std::path::Path;
use std::rc::Rc;

use runtime::{Files, IoClass};

use super::cache::ChunkCache;
use super::error::SSTableError;
use super::open::{self, Listing};
use super::table::SSTable;
use crate::dump::schema_of_header;
use crate::name::{Component, SstableName};

impl SSTable {
    /// As [`Self::open`]; what cannot be opened so is opened with the components that are there, if they are enough for
    /// [`Self::salvage`]. It is for nothing else then. [`Self::rebuilt`] says what is done without.
    ///
    /// # Errors
    /// As of [`Self::open`], if nothing can be salvaged.
    pub async fn open_damaged(
        files: &Files,
        dir: &Path,
        name: SstableName,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<Rc<Self>, SSTableError> {
        let first = match Self::open(files, dir, name, cache, class).await {
            Ok(sstable) => return Ok(sstable),
            Err(error) => error,
        };
        let mut components = vec![];
        for entry in files.read_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
            match SstableName::parse_file_name(&entry.name) {
                Ok((found, component)) if found == name => components.push(component),
                _ => {}
            }
        }
        let says_how_to_read =
            |component: &Component| matches!(component, Component::CompressionInfo | Component::Crc);
        if !components.iter().any(says_how_to_read) {
            // Compressed bytes would be taken for rows.
            return Err(first);
        }
        let opened =
            Box::pin(open::open(files, dir, name, Listing::Damaged(components), cache, class)).await?;
        if opened.rebuilt().iter().any(|(component, _)| *component == Component::Index) {
            return opened.with_bounds_of_data(class).await.ok_or(first);
        }
        // With what is there it can be opened, so it was the list of that.
        let mut opened = Rc::into_inner(opened).expect("nobody else has it yet");
        opened.rebuilt.push((Component::Toc, first.to_string()));
        Ok(Rc::new(opened))
    }

    /// The same between the least and the greatest key that can be read. `None` if there is none.
    async fn with_bounds_of_data(self: Rc<Self>, class: IoClass) -> Option<Rc<Self>> {
        let schema = schema_of_header(&self.statistics().header).ok()?;
        let mut salvage = self.salvage(&schema, class).ok()?;
        let mut bounds = None;
        while let Some(partition) = salvage.next_partition().await {
            let key = partition.key;
            let (first, last) = bounds.take().unwrap_or_else(|| (key.clone(), key.clone()));
            bounds = Some((first.min(key.clone()), last.max(key)));
        }
        drop(salvage);
        let (first_key, last_key) = bounds?;
        let opened = Rc::into_inner(self).expect("nobody else has it yet");
        Some(Rc::new(Self { first_key, last_key, ..opened }))
    }
}
