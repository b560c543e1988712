//! Any bytes on a connection, in any pieces, are messages or errors, and memory stays bounded. A decoded
//! message is encoded again, and decodes to the same message.
//!
//! `fuzz/run.sh frame_decoding` runs this target; every target runs by its name.

use protocol::client::{RequestHead, ResponseMessage, write_request};
use protocol::{Compression, Inbound, Outbound, ProtocolVersion, RequestMessage, Side};

const BODY_BYTES_MAX: usize = 1 << 20;

// The first byte selects the reading side, version and compression; the second is the length of the pieces;
// the other bytes are the stream. With the bit 0x20 the stream is first put into segments, because a fuzzer
// does not guess checksums.
pub fn examine(data: &[u8]) {
    let [setup, piece_bytes, stream @ ..] = data else { return };
    let side = if setup & 1 == 0 { Side::Server } else { Side::Client };
    let version = match setup >> 1 & 3 {
        0 => None,
        1 => Some(ProtocolVersion::V3),
        2 => Some(ProtocolVersion::V4),
        _ => Some(ProtocolVersion::V5),
    };
    let compression = match setup >> 3 & 3 {
        1 => Some(Compression::Lz4),
        2 => Some(Compression::Snappy),
        _ => None,
    };
    let mut inbound = Inbound::new(side, BODY_BYTES_MAX);
    let mut segments = Outbound::new();
    if let Some(version) = version {
        inbound.started(version, compression);
        segments.started(version, compression);
    }
    let stream = if setup & 0x20 != 0 && version == Some(ProtocolVersion::V5) {
        segments.envelope(|out| out.extend_from_slice(stream));
        segments.ready()
    } else {
        stream
    };
    for piece in stream.chunks(usize::from(*piece_bytes) + 1) {
        inbound.feed(piece);
        loop {
            match inbound.next() {
                Ok(None) => break,
                Ok(Some(envelope)) if side == Side::Server => {
                    if let Ok(message) = RequestMessage::decode(&envelope) {
                        check_again(&message, envelope.header.version);
                    }
                }
                Ok(Some(envelope)) => drop(ResponseMessage::decode(&envelope)),
                Err(error) => error.write(&mut Vec::new()),
            }
        }
        assert!(inbound.memory_bytes() < 8 * BODY_BYTES_MAX, "{} bytes are held", inbound.memory_bytes());
    }
}

fn check_again(message: &RequestMessage<'_>, version: ProtocolVersion) {
    let head = RequestHead {
        tracing: message.tracing,
        custom_payload: message.custom_payload.clone(),
        ..RequestHead::new(version, 1)
    };
    let mut bytes = Vec::new();
    write_request(&mut bytes, &head, &message.request);
    // Before STARTUP, v5 has no segments and accepts no larger message.
    if version.has_segments() && bytes.len() > 100_000 {
        return;
    }
    let mut inbound = Inbound::new(Side::Server, usize::MAX);
    if !version.has_segments() {
        inbound.started(version, None);
    }
    inbound.feed(&bytes);
    let envelope = inbound.next().expect("what was written is sound").expect("and whole");
    let again = RequestMessage::decode(&envelope).expect("and can be read");
    assert_eq!(&again, message);
}
