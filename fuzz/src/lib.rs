//! The fuzz targets, and the code that several targets share: checksums, which a fuzzer cannot guess; inputs
//! of several files; and the storage on which statements run.

pub mod files;
pub mod sstable_input;
pub mod storage;
pub mod targets;

use base::crc::crc32;

/// Appends the big-endian CRC-32 of `body`, as in binary records.
pub fn with_crc(body: &[u8]) -> Vec<u8> {
    let mut bytes = body.to_vec();
    bytes.extend_from_slice(&crc32(body).to_be_bytes());
    bytes
}

/// Appends the line `crc 0123abcd`, as in text records.
pub fn with_crc_line(body: &[u8]) -> Vec<u8> {
    let mut bytes = body.to_vec();
    if !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    let crc = format!("crc {:08x}\n", crc32(&bytes));
    bytes.extend_from_slice(crc.as_bytes());
    bytes
}

/// A manifest of the commit log. Its first slot is `body` with the correct length and checksum; the second
/// slot is empty.
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
