//! Several files in one input.
//!
//! ```text
//! u8   kind of the file, as the target numbers them
//! u16  length, big-endian; the last file has what is left if that is less
//!      the bytes
//! ```
//!
//! and again, to the end of the input. Every input is some list of files.

/// A file has at most this many bytes.
pub const FILE_BYTES_MAX: usize = u16::MAX as usize;

/// The files of an input, by kind.
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

/// The input that [`split`] takes apart.
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
