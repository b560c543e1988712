//! Laws for every message: each side decodes what the other encodes, and a message cut anywhere is an error.

use base::rng::Rng;

use super::sample;
use super::*;
use crate::CqlError;

#[test]
fn a_server_reads_what_a_client_writes() {
    for seed in 0..3000 {
        let rng = &mut Rng::new(seed);
        let version = *rng.pick(&ProtocolVersion::ALL);
        sample::with_request(rng, version, false, |request| {
            let bytes = request_bytes(version, 9, request);
            only_envelope(Side::Server, &bytes, |envelope| {
                let message = RequestMessage::decode(envelope).unwrap();
                assert_eq!(&message.request, request, "seed {seed}");
            });
        });
    }
}

#[test]
fn a_client_reads_what_a_server_writes() {
    for seed in 0..3000 {
        let rng = &mut Rng::new(seed);
        let version = *rng.pick(&ProtocolVersion::ALL);
        let warnings = vec!["careful".to_string(); rng.below(3) as usize];
        let reply = Reply { warnings: &warnings, ..Reply::new(version, 3) };
        let mut bytes = Vec::new();
        let rows = sample::rows(rng, &reply, &mut bytes, 50);
        let message = response_of(&bytes);
        assert_eq!(message.response, Response::Rows(rows), "seed {seed}");
        let seen = if version >= ProtocolVersion::V4 { warnings } else { vec![] };
        assert_eq!(message.extras.warnings, seen);
    }
}

#[test]
fn prepared_statements_come_through() {
    for seed in 0..1000 {
        let rng = &mut Rng::new(seed);
        let version = *rng.pick(&ProtocolVersion::ALL);
        let (variables, columns) = (sample::columns(rng), sample::columns(rng));
        let result = ResultMetadata::new(&columns);
        let prepared = PreparedReply {
            id: b"0123456789abcdef",
            variables: &ResultMetadata::new(&variables),
            partition_key_indexes: &[2, 0, 1],
            result: &result,
            extra_flags: Supported::LWT_MARK,
        };
        let mut bytes = Vec::new();
        Reply::new(version, 3).prepared(&mut bytes, &prepared);
        let Response::Prepared(seen) = response_of(&bytes).response else { panic!("PREPARED") };
        assert_eq!(seen.variables, variables, "seed {seed}");
        let expect = if columns.is_empty() { None } else { Some(columns) };
        assert_eq!(seen.result.columns, expect);
        let in_v5 = version >= ProtocolVersion::V5;
        assert_eq!(seen.result_metadata_id, in_v5.then(|| result.id().to_vec()));
    }
}

#[test]
fn cut_short_is_an_error() {
    for seed in 0..400 {
        let rng = &mut Rng::new(seed);
        let version = *rng.pick(&ProtocolVersion::ALL);
        sample::with_request(rng, version, false, |request| {
            let bytes = request_bytes(version, 9, request);
            only_envelope(Side::Server, &bytes, |envelope| {
                for len in 0..envelope.body.len() {
                    let cut = Envelope { body: &envelope.body[..len], ..*envelope };
                    let error = RequestMessage::decode(&cut).expect_err("a field is missing");
                    assert!(matches!(error, CqlError::Protocol(_)), "seed {seed}: {error:?}");
                }
            });
        });
        let mut bytes = Vec::new();
        let rows = sample::rows(rng, &Reply::new(version, 3), &mut bytes, 50);
        only_envelope(Side::Client, &bytes, |envelope| {
            for len in 0..envelope.body.len() {
                let cut = Envelope { body: &envelope.body[..len], ..*envelope };
                // A page without columns ends with its row count, which the client does not need.
                if rows.metadata.columns_count > 0 || len + 4 < envelope.body.len() {
                    ResponseMessage::decode(&cut).expect_err("a field is missing");
                }
            }
        });
    }
}

#[test]
fn changed_bytes_are_an_answer_or_an_error() {
    for seed in 0..4000 {
        let rng = &mut Rng::new(seed);
        let version = *rng.pick(&ProtocolVersion::ALL);
        let mut bytes =
            sample::with_request(rng, version, false, |request| request_bytes(version, 9, request));
        let mut response = Vec::new();
        sample::rows(rng, &Reply::new(version, 3), &mut response, 50);
        for message in [&mut bytes, &mut response] {
            for _ in 0..=rng.below(4) {
                let at = rng.index(message.len());
                message[at] = rng.next_u64() as u8;
            }
        }
        for (side, message) in [(Side::Server, &bytes), (Side::Client, &response)] {
            let mut inbound = Inbound::new(side, 1 << 20);
            inbound.feed(message);
            for _ in 0..10 {
                match inbound.next() {
                    Ok(None) => break,
                    Ok(Some(envelope)) if side == Side::Server => drop(RequestMessage::decode(&envelope)),
                    Ok(Some(envelope)) => drop(ResponseMessage::decode(&envelope)),
                    Err(error) => error.write(&mut Vec::new()),
                }
            }
        }
    }
}

#[test]
fn metadata_are_skipped_only_if_the_client_has_the_right_ones() {
    use SendMetadata::{Changed, Full, Skip};
    let old = ResultMetadata::new(&[ColumnSpec::new("ks", "t", "a", model::types::CqlType::Int)]);
    let new = ResultMetadata::new(&[ColumnSpec::new("ks", "t", "a", model::types::CqlType::Text)]);
    assert_ne!(old.id(), new.id());
    let (v4, v5) = (ProtocolVersion::V4, ProtocolVersion::V5);
    let old_id = Some(&old.id()[..]);
    let new_id = Some(&new.id()[..]);
    assert_eq!(SendMetadata::for_execute(v4, true, None, &old, &old), Skip);
    assert_eq!(SendMetadata::for_execute(v4, true, None, &old, &new), Full);
    assert_eq!(SendMetadata::for_execute(v4, false, None, &old, &old), Full);
    assert_eq!(SendMetadata::for_execute(v5, true, old_id, &old, &old), Skip);
    assert_eq!(SendMetadata::for_execute(v5, true, new_id, &old, &new), Skip);
    assert_eq!(SendMetadata::for_execute(v5, true, old_id, &old, &new), Changed);
    assert_eq!(SendMetadata::for_execute(v5, false, old_id, &old, &new), Changed);
    assert_eq!(SendMetadata::for_execute(v5, false, old_id, &old, &old), Full);
}

#[test]
fn an_abandoned_page_leaves_nothing() {
    let metadata = ResultMetadata::new(&[ColumnSpec::new("ks", "t", "a", model::types::CqlType::Int)]);
    let mut out = b"before".to_vec();
    let mut rows = Reply::new(ProtocolVersion::V4, 1).rows(&mut out, &metadata, SendMetadata::Full);
    rows.cell(Some(b"1234"));
    rows.abandon();
    assert_eq!(out, b"before");
}
