//! Connection tests: bytes in pieces of any size, compressed or not, damaged, too large, or of a wrong
//! version.

use base::rng::Rng;

use super::sample;
use super::*;
use crate::CqlError;

/// All combinations of version and compression.
const SETUPS: [(ProtocolVersion, Option<Compression>); 8] = [
    (ProtocolVersion::V3, None),
    (ProtocolVersion::V3, Some(Compression::Lz4)),
    (ProtocolVersion::V3, Some(Compression::Snappy)),
    (ProtocolVersion::V4, None),
    (ProtocolVersion::V4, Some(Compression::Lz4)),
    (ProtocolVersion::V4, Some(Compression::Snappy)),
    (ProtocolVersion::V5, None),
    (ProtocolVersion::V5, Some(Compression::Lz4)),
];

fn connection((version, compression): (ProtocolVersion, Option<Compression>)) -> (Outbound, Inbound) {
    let (mut outbound, mut inbound) = (Outbound::new(), Inbound::new(Side::Server, 4 << 20));
    outbound.started(version, compression);
    inbound.started(version, compression);
    (outbound, inbound)
}

/// Random requests as transmitted, and their envelopes.
fn stream(
    rng: &mut Rng,
    version: ProtocolVersion,
    outbound: &mut Outbound,
    long: bool,
) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut wire, mut envelopes) = (Vec::new(), Vec::new());
    for stream in 0..rng.below(8) + 1 {
        let bytes = sample::with_request(rng, version, long, |request| {
            request_bytes(version, stream as i16, request)
        });
        outbound.envelope(|out| out.extend_from_slice(&bytes));
        envelopes.push(bytes);
        if rng.chance(1, 3) {
            let ready = outbound.ready();
            wire.extend_from_slice(ready);
            let len = ready.len();
            outbound.sent(len);
        }
    }
    wire.extend_from_slice(outbound.ready());
    (wire, envelopes)
}

fn drain(inbound: &mut Inbound, into: &mut Vec<Vec<u8>>) {
    while let Some(envelope) = inbound.next().unwrap() {
        let mut header = envelope.header;
        header.body_bytes = envelope.body.len() as u32;
        header.flags = HeaderFlags(header.flags.0 & !HeaderFlags::COMPRESSED);
        into.push([&header.encode()[..], envelope.body].concat());
    }
}

/// A conversation of server and client: the answer to STARTUP has the old framing, later messages the
/// negotiated one.
#[test]
fn a_conversation() {
    for (version, compression) in SETUPS {
        let (mut to_server, mut at_server) = (Outbound::new(), Inbound::new(Side::Server, 1 << 20));
        let (mut to_client, mut at_client) = (Outbound::new(), Inbound::new(Side::Client, 1 << 20));
        let name = compression.map(Compression::name).unwrap_or_default();
        let text = "SELECT 'SELECT' ".repeat(100);
        let requests = [
            Request::Options,
            Request::Startup(Startup { options: vec![("CQL_VERSION", "3.0.0"), ("COMPRESSION", name)] }),
            Request::Query { text: &text, parameters: QueryParameters::new(Consistency::One) },
            Request::Prepare { text: &text, keyspace: None },
        ];
        for (stream, request) in (0..).zip(&requests) {
            to_server.envelope(|out| write_request(out, &RequestHead::new(version, stream), request));
            let len = to_server.ready().len();
            at_server.feed(to_server.ready());
            to_server.sent(len);
            let envelope = at_server.next().unwrap().expect("a request");
            let message = RequestMessage::decode(&envelope).unwrap();
            assert_eq!(&message.request, request);
            let reply = Reply::new(version, envelope.header.stream);
            let agreed = match &message.request {
                Request::Startup(startup) => Some(startup.compression(version).unwrap()),
                _ => None,
            };
            to_client.envelope(|out| match agreed {
                Some(_) => reply.ready(out),
                None => reply.set_keyspace(out, &text),
            });
            if let Some(agreed) = agreed {
                assert_eq!(agreed, compression);
                at_server.started(version, agreed);
                to_client.started(version, agreed);
            }
            let len = to_client.ready().len();
            at_client.feed(to_client.ready());
            to_client.sent(len);
            let envelope = at_client.next().unwrap().expect("an answer");
            assert_eq!(envelope.header.stream, stream);
            let answer = ResponseMessage::decode(&envelope).unwrap().response;
            match agreed {
                Some(_) => assert_eq!(answer, Response::Ready),
                None => assert_eq!(answer, Response::SetKeyspace(text.clone())),
            }
            if agreed.is_some() {
                to_server.started(version, agreed.flatten());
                at_client.started(version, agreed.flatten());
            }
            for (inbound, outbound) in [(&mut at_server, &mut to_client), (&mut at_client, &mut to_server)] {
                assert_eq!(inbound.next(), Ok(None));
                inbound.release_memory();
                outbound.release_memory();
                assert_eq!(inbound.memory_bytes(), 0, "an idle connection needs nothing");
            }
        }
    }
}

#[test]
fn bytes_may_come_in_any_pieces() {
    for seed in 0..300 {
        for setup in SETUPS {
            let rng = &mut Rng::new(seed);
            let (mut outbound, mut inbound) = connection(setup);
            let (wire, envelopes) = stream(rng, setup.0, &mut outbound, seed % 10 == 0);
            let mut seen = Vec::new();
            let mut rest = &wire[..];
            while !rest.is_empty() {
                let len = (rng.below(3000) as usize + 1).min(rest.len());
                inbound.feed(&rest[..len]);
                rest = &rest[len..];
                if rng.chance(2, 3) {
                    drain(&mut inbound, &mut seen);
                }
                if rng.chance(1, 4) {
                    inbound.release_memory();
                }
            }
            drain(&mut inbound, &mut seen);
            assert!(seen == envelopes, "seed {seed}, {setup:?}: other messages came out");
        }
    }
}

#[test]
fn a_stream_may_be_cut_at_every_byte() {
    for setup in SETUPS {
        let rng = &mut Rng::new(5);
        let (mut outbound, _) = connection(setup);
        let (wire, envelopes) = stream(rng, setup.0, &mut outbound, false);
        for cut in 0..=wire.len() {
            let (_, mut inbound) = connection(setup);
            let mut seen = Vec::new();
            inbound.feed(&wire[..cut]);
            drain(&mut inbound, &mut seen);
            inbound.feed(&wire[cut..]);
            drain(&mut inbound, &mut seen);
            assert!(seen == envelopes, "{setup:?} cut at {cut}");
        }
    }
}

#[test]
fn large_messages_take_several_segments() {
    for compression in [None, Some(Compression::Lz4)] {
        let setup = (ProtocolVersion::V5, compression);
        for len in [131_060, 131_061, 131_062, 131_071, 131_072, 262_133, 262_142, 262_143, 1_000_000] {
            let (mut outbound, mut inbound) = connection(setup);
            let mut rng = Rng::new(len);
            let mut text = vec![0; len as usize - 9 - 4 - 4];
            rng.fill(&mut text);
            text.iter_mut().for_each(|byte| *byte = b'a' + *byte % 16);
            let text = String::from_utf8(text).unwrap();
            let small = request_bytes(ProtocolVersion::V5, 1, &Request::Options);
            let large =
                request_bytes(ProtocolVersion::V5, 2, &Request::Prepare { text: &text, keyspace: None });
            for bytes in [&small, &large, &small, &large] {
                outbound.envelope(|out| out.extend_from_slice(bytes));
            }
            inbound.feed(outbound.ready());
            let mut seen = Vec::new();
            drain(&mut inbound, &mut seen);
            assert!(seen == [&small[..], &large, &small, &large], "{len} bytes, {compression:?}");
        }
    }
}

#[test]
fn small_messages_share_a_segment_and_are_borrowed_from_it() {
    let (mut outbound, mut inbound) = connection((ProtocolVersion::V5, None));
    let options = request_bytes(ProtocolVersion::V5, 1, &Request::Options);
    for _ in 0..3 {
        outbound.envelope(|out| out.extend_from_slice(&options));
    }
    assert_eq!(outbound.ready().len(), 6 + 3 * 9 + 4);
    inbound.feed(outbound.ready());
    let memory_bytes = inbound.memory_bytes();
    let mut seen = Vec::new();
    drain(&mut inbound, &mut seen);
    assert_eq!(seen.len(), 3);
    assert_eq!(inbound.memory_bytes(), memory_bytes, "nothing was copied");
}

#[test]
fn a_changed_bit_of_a_segment_closes_the_connection() {
    for compression in [None, Some(Compression::Lz4)] {
        let setup = (ProtocolVersion::V5, compression);
        let rng = &mut Rng::new(11);
        let (mut outbound, _) = connection(setup);
        let text = "SELECT ".repeat(20);
        let bytes = request_bytes(ProtocolVersion::V5, 1, &Request::Prepare { text: &text, keyspace: None });
        outbound.envelope(|out| out.extend_from_slice(&bytes));
        let wire = outbound.ready().to_vec();
        for at in 0..wire.len() {
            let mut damaged = wire.clone();
            damaged[at] ^= 1 << rng.below(8);
            let (_, mut inbound) = connection(setup);
            inbound.feed(&damaged);
            let error = inbound.next().expect_err("the checksum is wrong");
            assert!(
                error.close && matches!(&error.error, CqlError::Protocol(text) if text.contains("checksum"))
            );
            inbound.feed(&wire);
            assert_eq!(inbound.next(), Ok(None), "nothing is taken any more");
        }
    }
}

#[test]
fn a_wrong_version_is_answered_as_drivers_expect() {
    let text = "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5)";
    for (first, header) in
        [(66_u8, "85 00 0000 00"), (6, "85 00 0000 00"), (2, "82 00 00 00"), (1, "81 00 00 00")]
    {
        let mut inbound = Inbound::new(Side::Server, 1 << 20);
        inbound.feed(&[first]);
        let error = inbound.next().expect_err("an unknown version");
        assert!(error.close);
        let mut answer = Vec::new();
        error.write(&mut answer);
        let header = bytes_of(header);
        assert_eq!(answer[..header.len()], header);
        let text = text.replace("66", &first.to_string());
        assert!(answer.ends_with(text.as_bytes()), "{answer:?}");
        let body = &answer[header.len() + 4..];
        assert_eq!(answer[header.len()..][..4], (body.len() as u32).to_be_bytes());
        assert_eq!(body[..4], 0x000A_i32.to_be_bytes());
    }
    let mut inbound = Inbound::new(Side::Server, 1 << 20);
    inbound.started(ProtocolVersion::V4, None);
    inbound.feed(&request_bytes(ProtocolVersion::V3, 1, &Request::Options));
    assert!(inbound.next().expect_err("another version than before").close);
    let mut inbound = Inbound::new(Side::Server, 1 << 20);
    inbound.feed(b"\x84\0\0\0\x02\0\0\0\0");
    assert!(inbound.next().expect_err("a response").close);
}

#[test]
fn what_is_too_large_is_refused_before_it_is_there_and_skipped() {
    let options = request_bytes(ProtocolVersion::V4, 2, &Request::Options);
    let mut inbound = Inbound::new(Side::Server, 1000);
    inbound.started(ProtocolVersion::V4, None);
    inbound.feed(&bytes_of("04 00 0001 07 00100000"));
    let error = inbound.next().expect_err("too large");
    assert_eq!((error.stream, error.close), (1, false));
    let text = "Request is too big: length 1048576 exceeds maximum allowed length 1000.";
    assert_eq!(error.error, CqlError::Invalid(text.into()));
    for _ in 0..1024 {
        inbound.feed(&[0x55; 1024]);
        assert_eq!(inbound.next(), Ok(None));
    }
    assert!(inbound.memory_bytes() < 100_000, "{} bytes for what was skipped", inbound.memory_bytes());
    inbound.feed(&options);
    assert_eq!(inbound.next().unwrap().unwrap().header.stream, 2, "it goes on");

    let mut inbound = Inbound::new(Side::Server, BODY_BYTES_MAX_DEFAULT);
    inbound.feed(&bytes_of("04 00 0001 07 ffffffff"));
    assert!(inbound.next().expect_err("a negative length").close);
    let mut inbound = Inbound::new(Side::Server, BODY_BYTES_MAX_DEFAULT);
    inbound.feed(&bytes_of("04 00 0001 07 00100000"));
    assert!(!inbound.next().expect_err("1 MiB before STARTUP").close);
    let mut inbound = Inbound::new(Side::Server, BODY_BYTES_MAX_DEFAULT);
    inbound.started(ProtocolVersion::V4, None);
    inbound.feed(&bytes_of("04 00 0001 07 0fffffff 00"));
    assert_eq!(inbound.next(), Ok(None));
    assert!(inbound.memory_bytes() < 100_000, "memory grows with what arrives");
}

#[test]
fn too_large_in_segments_is_skipped_too() {
    for compression in [None, Some(Compression::Lz4)] {
        let (mut outbound, _) = connection((ProtocolVersion::V5, compression));
        let text = "x".repeat(500_000);
        let options = request_bytes(ProtocolVersion::V5, 2, &Request::Options);
        outbound.envelope(|out| {
            out.extend(request_bytes(
                ProtocolVersion::V5,
                1,
                &Request::Prepare { text: &text, keyspace: None },
            ));
        });
        outbound.envelope(|out| out.extend_from_slice(&options));
        let mut inbound = Inbound::new(Side::Server, 300_000);
        inbound.started(ProtocolVersion::V5, compression);
        inbound.feed(outbound.ready());
        let error = inbound.next().expect_err("too large");
        assert_eq!((error.stream, error.close), (1, false));
        assert_eq!(inbound.next().unwrap().unwrap().header.stream, 2, "it goes on");
        assert_eq!(inbound.next(), Ok(None));
    }
}

#[test]
fn an_unknown_opcode_harms_only_its_message() {
    let options = request_bytes(ProtocolVersion::V4, 2, &Request::Options);
    let mut inbound = Inbound::new(Side::Server, 1000);
    inbound.feed(&bytes_of("04 00 0005 77 00000003 010203"));
    inbound.feed(&options);
    let error = inbound.next().expect_err("there is no such opcode");
    assert_eq!((error.stream, error.close), (5, false));
    assert_eq!(inbound.next().unwrap().unwrap().header.stream, 2);
}

#[test]
fn compressed_bodies_are_bounded() {
    let bomb = |declared: u32, body: &[u8]| {
        let len = body.len() as u32 + 4;
        let header = bytes_of("04 01 0003 07");
        [&header[..], &len.to_be_bytes(), &declared.to_be_bytes(), body].concat()
    };
    for (declared, body) in
        [(1 << 30, &[0x1f_u8; 100][..]), (1 << 19, &[0x1f; 100]), (50, &[0xff; 100]), (7, b"")]
    {
        let mut inbound = Inbound::new(Side::Server, 1 << 20);
        inbound.started(ProtocolVersion::V4, Some(Compression::Lz4));
        inbound.feed(&bomb(declared, body));
        let error = inbound.next().expect_err("not an LZ4 body");
        assert_eq!((error.stream, error.close), (3, false));
        assert!(inbound.memory_bytes() < 100_000);
    }
    let mut inbound = Inbound::new(Side::Server, 1 << 20);
    inbound.started(ProtocolVersion::V4, Some(Compression::Snappy));
    inbound.feed(&bomb(0x8080_8004, &[0; 20]));
    assert!(!inbound.next().expect_err("not a Snappy body").close);
    let mut inbound = Inbound::new(Side::Server, 1 << 20);
    inbound.started(ProtocolVersion::V4, None);
    inbound.feed(&bomb(0, b""));
    assert!(!inbound.next().expect_err("nothing was agreed").close);

    for compression in [Compression::Lz4, Compression::Snappy] {
        let plain = vec![7; 1 << 20];
        let (mut packed, mut seen) = (Vec::new(), Vec::new());
        compression.compress(&plain, &mut packed);
        compression.decompress(&packed, &mut seen, 1 << 20).expect("the best ratio there is");
        assert_eq!(seen, plain);
        assert!(compression.decompress(&packed, &mut seen, (1 << 20) - 1).is_err());
    }
}

#[test]
fn garbage_is_an_error() {
    for seed in 0..2000 {
        let rng = &mut Rng::new(seed);
        let setup = *rng.pick(&SETUPS);
        let (_, mut inbound) = connection(setup);
        let mut garbage = vec![0; rng.below(300) as usize];
        rng.fill(&mut garbage);
        if let Some(first) = garbage.first_mut() {
            *first = setup.0.number();
        }
        inbound.feed(&garbage);
        for _ in 0..50 {
            match inbound.next() {
                Ok(None) => break,
                Ok(Some(envelope)) => drop(RequestMessage::decode(&envelope)),
                Err(error) => error.write(&mut Vec::new()),
            }
        }
    }
}

#[test]
fn what_is_sent_in_part_is_not_lost() {
    let mut outbound = Outbound::new();
    outbound.started(ProtocolVersion::V5, None);
    let options = request_bytes(ProtocolVersion::V5, 1, &Request::Options);
    let mut wire = Vec::new();
    for _ in 0..50 {
        outbound.envelope(|out| out.extend_from_slice(&options));
        let ready = outbound.ready();
        let len = ready.len().min(7);
        wire.extend_from_slice(&ready[..len]);
        outbound.sent(len);
    }
    wire.extend_from_slice(outbound.ready());
    let mut inbound = Inbound::new(Side::Server, 1000);
    inbound.started(ProtocolVersion::V5, None);
    inbound.feed(&wire);
    let mut seen = Vec::new();
    drain(&mut inbound, &mut seen);
    assert!(seen == vec![options; 50]);
}

/// The blocks of a body that are not sent yet.
#[derive(Debug)]
struct Body(Vec<Vec<u8>>);

impl Blocks for Body {
    fn next_block(&mut self) -> Option<Vec<u8>> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    fn left_bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// Small envelopes around large streamed ones, in blocks of any size: the order and every byte are preserved,
/// however few bytes are sent at a time.
#[test]
fn streamed_envelopes_arrive_among_others() {
    for seed in 0..40 {
        for setup in SETUPS {
            let rng = &mut Rng::new(seed);
            let (mut outbound, mut inbound) = (Outbound::default(), connection(setup).1);
            outbound.started(setup.0, setup.1);
            let (mut seen, mut expected, mut wire) = (vec![], vec![], 0);
            for stream in 0..rng.below(12) as i16 {
                let body_bytes = [0, 10, 700, 130_000, 131_071, 400_000][rng.index(6)];
                let body: Vec<u8> = (0..body_bytes).map(|_| rng.next_u64() as u8 & 3).collect();
                let mut header = Header {
                    version: setup.0,
                    flags: HeaderFlags::default(),
                    stream,
                    opcode: Opcode::Query,
                    body_bytes: body.len() as u32,
                };
                header.flags = HeaderFlags::default();
                let head = header.encode();
                expected.push([&head[..], &body].concat());
                if rng.chance(1, 2) {
                    let first = rng.index(body.len() + 1);
                    let (front, mut rest) = body.split_at(first);
                    let mut blocks = vec![];
                    while !rest.is_empty() {
                        let (block, more) = rest.split_at(rng.index(rest.len().min(200_000)) + 1);
                        blocks.push(block.to_vec());
                        rest = more;
                    }
                    let append = |out: &mut Vec<u8>| out.extend([&head[..], front].concat());
                    outbound.streamed(append, Body(blocks));
                } else {
                    outbound.envelope(|out| out.extend([&head[..], &body].concat()));
                }
                // Sends some of the bytes before the next envelope is appended.
                for _ in 0..rng.below(4) {
                    let ready = outbound.ready();
                    let len = rng.index(ready.len() + 1);
                    inbound.feed(&ready[..len]);
                    wire += len;
                    outbound.sent(len);
                    drain(&mut inbound, &mut seen);
                }
            }
            loop {
                let ready = outbound.ready();
                if ready.is_empty() {
                    break;
                }
                let len = (rng.index(300_000) + 1).min(ready.len());
                inbound.feed(&ready[..len]);
                wire += len;
                outbound.sent(len);
                drain(&mut inbound, &mut seen);
            }
            assert!(seen == expected, "seed {seed}, {setup:?}, {wire} bytes");
            assert_eq!((outbound.pending_bytes(), outbound.streamed_bytes()), (0, 0));
        }
    }
}
