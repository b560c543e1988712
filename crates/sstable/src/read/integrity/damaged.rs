//! Opens damaged SSTables for a scrub, which needs neither TOC.txt nor an index.
//!
//! The encoding of Data.db must be known: its compression or its checksums, and the header in Statistics.db.
//! Without an index, partitions are found only while each one starts where the previous one ends; after
//! damage the start of the next partition is unknown.

use std::path::Path;
use std::rc::Rc;

use runtime::{Files, IoClass};

use crate::dump::schema_of_header;
use crate::name::{Component, SSTableName};
use crate::read::data::cache::ChunkCache;
use crate::read::error::SSTableError;
use crate::read::open::{self, Listing};
use crate::read::sstable::SSTable;

impl SSTable {
    /// As [`Self::open`]. An SSTable that cannot be opened normally is opened with the components that exist,
    /// if they are sufficient for [`Self::salvage`]; it must not be used for anything else. [`Self::rebuilt`]
    /// lists the components that are not used.
    ///
    /// # Errors
    /// The errors of [`Self::open`], if nothing can be salvaged.
    pub async fn open_damaged(
        files: &Files,
        dir: &Path,
        name: SSTableName,
        cache: &Rc<ChunkCache>,
        class: IoClass,
    ) -> Result<Rc<Self>, SSTableError> {
        let first = match Self::open(files, dir, name, cache, class).await {
            Ok(sstable) => return Ok(sstable),
            Err(error) => error,
        };
        let mut components = vec![];
        for entry in files.read_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
            match SSTableName::parse_file_name(&entry.name) {
                Ok((found, component)) if found == name => components.push(component),
                _ => {}
            }
        }
        let says_how_to_read =
            |component: &Component| matches!(component, Component::CompressionInfo | Component::Crc);
        if !components.iter().any(says_how_to_read) {
            // Without both components it is unknown whether Data.db is compressed. Compressed bytes must not
            // be parsed as rows.
            return Err(first);
        }
        let opened =
            Box::pin(open::open(files, dir, name, Listing::Damaged(components), cache, class)).await?;
        if opened.rebuilt().iter().any(|(component, _)| *component == Component::Index) {
            return opened.with_bounds_of_data(class).await.ok_or(first);
        }
        // The SSTable opens with the components that exist, so TOC.txt was the damaged component.
        let mut opened = Rc::into_inner(opened).expect("nobody else has it yet");
        opened.rebuilt.push((Component::Toc, first.to_string()));
        Ok(Rc::new(opened))
    }

    /// The same SSTable with the smallest and largest key that can be read. `None` if no key can be read.
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
