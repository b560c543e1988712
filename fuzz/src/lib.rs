//! The fuzz targets, and the parts that several of them share: checksums that a fuzzer cannot guess,
//! several files in one input, and
//! the storage that statements run on.

pub mod files;
pub mod sstable_input;
pub mod storage;
pub mod targets;

use base::crc::crc32;

/// Appends the big-endian CRC-32 of `body`, as the binary records have it.
pub fn with_crc(body: &[u8]) -> Vec<u8> {
    let mut bytes = body.to_vec();
    bytes.extend_from_slice(&crc32(body).to_be_bytes());
    bytes
}

/// Appends the line `crc 0123abcd`, as the records of text have it.
pub fn with_crc_line(body: &[u8]) -> Vec<u8> {
    let mut bytes = body.to_vec();
    if !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    let crc = format!("crc {:08x}\n", crc32(&bytes));
    bytes.extend_from_slice(crc.as_bytes());
    bytes
}

/// A manifest of the commit log whose first slot is `body` with its length and checksum put right, and
/// whose second slot is empty.
pub fn manifest_file(body: &[u8]) -> Vec<u8> {
    let mut slot = body.to_vec();
    let slot_bytes = slot.len() + 4;
    if let Some(at) = slot.get_mut(8..12) {
        at.copy_from_slice(&(slot_bytes as u32).to_be_bytes());
    }
    let mut file = with_crc(&slot);
    file.resize(2 * slot_bytes, 0);
    file
}
