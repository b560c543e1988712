//! TOC.txt: the components of an SSTable, one file name ending in each line.
//!
//! The SSTable exists if and only if this file exists: the file is written under a temporary name and renamed
//! last. The order of the lines is free. Components that this build does not know are kept, because deleting
//! or moving the SSTable must include them.

use crate::component::FormatError;
use crate::name::Component;

/// Encodes the file: the name ending of each component and a line feed, in the given order.
pub fn encode<'a>(components: impl IntoIterator<Item = &'a Component>) -> Vec<u8> {
    let mut out = vec![];
    for component in components {
        assert!(!component.suffix().contains('\n'), "a component is one line: {component}");
        out.extend_from_slice(component.suffix().as_bytes());
        out.push(b'\n');
    }
    out
}

/// Decodes the file: the components in file order, without duplicates. Blank lines and space around a name
/// are ignored.
///
/// Fails if the text is not UTF-8, if a line is no file name, or if Data.db, which every SSTable has, is
/// missing.
pub fn decode(bytes: &[u8]) -> Result<Vec<Component>, FormatError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| FormatError::new("component name", error.valid_up_to(), "UTF-8", "other bytes"))?;
    let mut components = vec![];
    let mut offset_bytes = 0;
    for line in text.split('\n') {
        let suffix = line.trim();
        if suffix.contains(['/', '\0']) {
            let found = suffix.escape_debug().to_string();
            return Err(FormatError::new("component name", offset_bytes, "a file name", found));
        }
        let component = Component::from_suffix(suffix);
        if !suffix.is_empty() && !components.contains(&component) {
            components.push(component);
        }
        offset_bytes += line.len() + 1;
    }
    if !components.contains(&Component::Data) {
        let found = format!("{} other components", components.len());
        return Err(FormatError::new("table of contents", 0, "a line Data.db", found));
    }
    Ok(components)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn components_round_trip_with_unknown_ones() {
        let components = [Component::Data, Component::Toc, Component::Other("Extra.db".into())];
        let bytes = encode(&components);
        assert_eq!(bytes, b"Data.db\nTOC.txt\nExtra.db\n");
        assert_eq!(decode(&bytes).unwrap(), components);
        let loose = decode(b"\r\n  Index.db\r\nData.db\r\nData.db").unwrap();
        assert_eq!(loose, [Component::Index, Component::Data]);
    }

    #[test]
    fn what_is_no_table_of_contents() {
        for wrong in [&b""[..], b"Index.db\n", b"Data.db\n\xff", b"Data.db\n../../etc\n"] {
            assert!(decode(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
