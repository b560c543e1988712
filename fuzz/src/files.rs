//! Encodes several files in one input. These fields repeat to the end of the input:
//!
//! ```text
//! u8   kind of the file; each target defines the numbers
//! u16  length, big-endian; if fewer bytes remain, the file has the remaining bytes
//!      the bytes
//! ```
//!
//! Every input decodes to a list of files.

/// Maximum length of a file.
pub const FILE_BYTES_MAX: usize = u16::MAX as usize;

/// Decodes an input to files, each with its kind.
pub fn split(mut input: &[u8]) -> Vec<(u8, &[u8])> {
    let mut files = vec![];
    while let [kind, high, low, rest @ ..] = input {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (bytes, after) = rest.split_at(len);
        files.push((*kind, bytes));
        input = after;
    }
    files
}

/// Encodes files to an input; the inverse of [`split`].
pub fn join(files: &[(u8, &[u8])]) -> Vec<u8> {
    let mut input = vec![];
    for (kind, bytes) in files {
        assert!(bytes.len() <= FILE_BYTES_MAX, "{} bytes", bytes.len());
        input.push(*kind);
        input.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        input.extend_from_slice(bytes);
    }
    input
}
