//! Tests of the protocol: golden bytes (`golden.rs`), laws over random messages (`laws.rs`), streams of bytes
//! in pieces of any size, valid or damaged (`streams.rs`), and costs (`cost.rs`, ignored by default: run with
//! `--release`).

mod cost;
mod golden;
mod laws;
mod sample;
mod streams;

use super::client::{RequestHead, ResponseMessage, write_request};
use super::*;

/// Parses hexadecimal digits. Spaces are ignored, and text between single quotes is taken literally.
#[track_caller]
fn bytes_of(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            out.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        assert_eq!(digits.len() % 2, 0, "half a byte in {part:?}");
        out.extend(digits.chunks(2).map(|pair| {
            u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).expect("hexadecimal digits")
        }));
    }
    out
}

fn request_bytes(version: ProtocolVersion, stream: i16, request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write_request(&mut out, &RequestHead::new(version, stream), request);
    out
}

/// Decodes `bytes` as exactly one envelope without further framing.
fn only_envelope(side: Side, bytes: &[u8], check: impl FnOnce(&Envelope<'_>)) {
    let mut inbound = Inbound::new(side, BODY_BYTES_MAX_DEFAULT);
    inbound.feed(bytes);
    check(&inbound.next().unwrap().expect("a whole message"));
    assert!(inbound.next().unwrap().is_none(), "and no more");
}

fn response_of(bytes: &[u8]) -> ResponseMessage {
    let mut message = None;
    only_envelope(Side::Client, bytes, |envelope| message = Some(ResponseMessage::decode(envelope).unwrap()));
    message.unwrap()
}
