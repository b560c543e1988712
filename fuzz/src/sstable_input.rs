//! Encodes an SSTable as an input: its version, the way to open it, and its files.
//!
//! ```text
//! u8   version, as an index of Version::ALL
//! u8   flags: 1 leaves out components that contain only checksums, so that changed bytes reach the readers;
//!      2 uses the given TOC.txt instead of one that lists the existing files
//!      the files (fuzz::files); a kind is an index of COMPONENTS
//! ```

use sstable::name::{Component, Generation, SSTableName};
use sstable::version::{Format, Version};

use crate::files;

pub const COMPONENTS: [Component; 12] = [
    Component::Data,
    Component::Index,
    Component::Summary,
    Component::Partitions,
    Component::Rows,
    Component::Filter,
    Component::Statistics,
    Component::CompressionInfo,
    Component::Crc,
    Component::Digest,
    Component::Messina,
    Component::Toc,
];

pub const WITHOUT_CHECKSUMS: u8 = 1;
pub const TOC_AS_GIVEN: u8 = 2;

/// The files of one SSTable with their bytes.
pub type Files = Vec<(Component, Vec<u8>)>;

/// The name and the files of the SSTable that an input describes.
pub fn parse(data: &[u8]) -> Option<(SSTableName, Files)> {
    let [version, flags, rest @ ..] = data else { return None };
    let version = Version::ALL[usize::from(*version) % Version::ALL.len()];
    let name = name(version);
    let mut found: Files = vec![];
    for (kind, bytes) in files::split(rest).into_iter().take(COMPONENTS.len()) {
        let component = COMPONENTS[usize::from(kind) % COMPONENTS.len()].clone();
        let is_checksum = matches!(component, Component::Crc | Component::Digest | Component::Messina);
        if flags & WITHOUT_CHECKSUMS != 0 && is_checksum || found.iter().any(|(known, _)| *known == component)
        {
            continue;
        }
        found.push((component, bytes.to_vec()));
    }
    if flags & TOC_AS_GIVEN == 0 {
        found.retain(|(component, _)| *component != Component::Toc);
        let mut toc: String = found.iter().map(|(component, _)| format!("{component}\n")).collect();
        toc.push_str("TOC.txt\n");
        found.push((Component::Toc, toc.into_bytes()));
    }
    Some((name, found))
}

/// Encodes an SSTable to an input; the inverse of [`parse`]. `None` if a file is too long, or is not one of
/// [`COMPONENTS`].
pub fn encode(version: Version, flags: u8, found: &[(Component, Vec<u8>)]) -> Option<Vec<u8>> {
    let number = Version::ALL.into_iter().position(|known| known == version)?;
    let mut listed = vec![];
    for (component, bytes) in found {
        let kind = COMPONENTS.iter().position(|known| known == component)?;
        if bytes.len() > files::FILE_BYTES_MAX {
            return None;
        }
        listed.push((kind as u8, &bytes[..]));
    }
    let mut input = vec![number as u8, flags];
    input.extend(files::join(&listed));
    Some(input)
}

fn name(version: Version) -> SSTableName {
    let format = if version == Version::Da { Format::Bti } else { Format::Big };
    SSTableName { generation: Generation::Number(1), version, format }
}
