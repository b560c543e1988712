//! Any body of a frame decompresses within the limit or is refused. A body that is compressed and
//! decompressed is unchanged. Any text is a compression name of STARTUP or is refused.
//!
//! The first byte selects the codec.

use protocol::Compression;

const BODY_BYTES_MAX: usize = 1 << 20;

pub fn examine(data: &[u8]) {
    let [what, body @ ..] = data else { return };
    if let Ok(name) = std::str::from_utf8(body)
        && let Some(compression) = Compression::from_name(name)
    {
        assert!(compression.name().eq_ignore_ascii_case(name));
    }
    let compression = if what & 1 == 0 { Compression::Lz4 } else { Compression::Snappy };
    let mut plain = Vec::new();
    if compression.decompress(body, &mut plain, BODY_BYTES_MAX).is_ok() {
        assert!(plain.len() <= BODY_BYTES_MAX);
    }
    let mut compressed = Vec::new();
    compression.compress(body, &mut compressed);
    compression.decompress(&compressed, &mut plain, BODY_BYTES_MAX).expect("it was compressed here");
    assert_eq!(plain, body);
}
