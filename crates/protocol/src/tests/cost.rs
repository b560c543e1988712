//! Measures the cost of frequent messages: `cargo test --release -p protocol tests::cost -- --ignored
//! --nocapture`.

use std::hint::black_box;

use model::types::CqlType;

use super::*;

/// The smallest mean of all rounds, in nanoseconds per run.
#[allow(clippy::disallowed_methods, reason = "a measurement")]
fn best_ns(mut run: impl FnMut()) -> f64 {
    const TURNS: u32 = 100_000;
    (0..20)
        .map(|_| {
            let begun = std::time::Instant::now();
            (0..TURNS).for_each(|_| run());
            begun.elapsed().as_nanos() as f64 / f64::from(TURNS)
        })
        .fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "a measurement"]
fn hot_messages() {
    let mut buffer = ValueBuffer::default();
    (0..5).for_each(|_| buffer.push(Value::Bytes(&[7; 16])));
    let mut parameters = QueryParameters::new(Consistency::LocalQuorum);
    parameters.values = buffer.values();
    parameters.timestamp_us = Some(1);
    let execute = Request::Execute(Execute { id: &[1; 16], result_metadata_id: None, parameters });
    let bytes = request_bytes(ProtocolVersion::V4, 1, &execute);
    let mut inbound = Inbound::new(Side::Server, 1 << 20);
    inbound.feed(&bytes);
    let envelope = inbound.next().unwrap().unwrap();
    let ns = best_ns(|| {
        let message = RequestMessage::decode(black_box(&envelope)).unwrap();
        black_box(&message);
    });
    println!("decode EXECUTE with 5 values of 16 bytes: {ns:.0} ns");

    for version in [ProtocolVersion::V4, ProtocolVersion::V5] {
        let execute = match &execute {
            Request::Execute(execute) => {
                Request::Execute(Execute { result_metadata_id: Some(&[2; 16]), ..execute.clone() })
            }
            other => other.clone(),
        };
        let mut outbound = Outbound::new();
        outbound.started(version, None);
        let bytes = request_bytes(version, 1, &execute);
        (0..100).for_each(|_| outbound.envelope(|out| out.extend_from_slice(&bytes)));
        let wire = outbound.ready().to_vec();
        let mut inbound = Inbound::new(Side::Server, 1 << 20);
        inbound.started(version, None);
        let mut messages = 0_u32;
        let ns = best_ns(|| {
            // Reads a hundred messages on every hundredth run, so that the mean is the cost of one message.
            messages += 1;
            if messages.is_multiple_of(100) {
                inbound.feed(&wire);
                while let Some(envelope) = inbound.next().unwrap() {
                    black_box(RequestMessage::decode(&envelope).unwrap());
                }
            }
        });
        println!("{version}: frame and decode such an EXECUTE, a hundred in a row: {ns:.0} ns");
    }

    let columns: Vec<_> =
        ["a", "b", "c", "d", "e"].map(|name| ColumnSpec::new("ks", "t", name, CqlType::Blob)).into();
    let metadata = ResultMetadata::new(&columns);
    let cell = [7; 16];
    let mut out = Vec::with_capacity(1 << 16);
    for send in [SendMetadata::Full, SendMetadata::Skip] {
        let ns = best_ns(|| {
            out.clear();
            let mut rows = Reply::new(ProtocolVersion::V4, 1).rows(&mut out, &metadata, send);
            for _ in 0..10 {
                (0..5).for_each(|_| rows.cell(Some(black_box(&cell))));
                rows.end_row();
            }
            rows.finish(None);
            black_box(&out);
        });
        println!("encode ROWS of 10 x 5 x 16 bytes, metadata {send:?}: {ns:.0} ns");
    }

    for compression in [None, Some(Compression::Lz4)] {
        let mut outbound = Outbound::new();
        outbound.started(ProtocolVersion::V5, compression);
        let mut answers = 0_u32;
        let ns = best_ns(|| {
            outbound.envelope(|out| {
                let reply = Reply::new(ProtocolVersion::V5, 1);
                let mut rows = reply.rows(out, &metadata, SendMetadata::Skip);
                for _ in 0..10 {
                    (0..5).for_each(|_| rows.cell(Some(black_box(&cell))));
                    rows.end_row();
                }
                rows.finish(None);
            });
            answers += 1;
            if answers.is_multiple_of(20) {
                let len = black_box(outbound.ready()).len();
                outbound.sent(len);
            }
        });
        println!("the same in v5 segments, twenty at a time, {compression:?}: {ns:.0} ns");
    }
}
