//! Golden bytes derived from the specification, message by message.

use model::types::{CqlType, UdtField, UserType};

use super::*;
use crate::{CqlError, FailureReason, WriteKind};

const V3: ProtocolVersion = ProtocolVersion::V3;
const V4: ProtocolVersion = ProtocolVersion::V4;
const V5: ProtocolVersion = ProtocolVersion::V5;

/// Checks that the client encodes the request as `expect` and that the server decodes the same request.
#[track_caller]
fn check_request(version: ProtocolVersion, request: &Request<'_>, expect: &str) {
    let expect = bytes_of(expect);
    let bytes = request_bytes(version, 0x0102, request);
    assert_eq!(bytes, expect, "{version}: wrote {bytes:02x?}");
    only_envelope(Side::Server, &expect, |envelope| {
        assert_eq!(envelope.header.stream, 0x0102);
        let message = RequestMessage::decode(envelope).unwrap();
        assert_eq!(&message.request, request);
    });
}

/// Checks that the server encodes `expect` and that the client decodes `response`.
#[track_caller]
fn check_reply(
    version: ProtocolVersion,
    write: impl FnOnce(&Reply<'_>, &mut Vec<u8>),
    expect: &str,
    response: Response,
) {
    let mut bytes = Vec::new();
    write(&Reply::new(version, 7), &mut bytes);
    assert_eq!(bytes, bytes_of(expect), "{version}: wrote {bytes:02x?}");
    assert_eq!(response_of(&bytes).response, response);
}

#[test]
fn requests_without_parameters() {
    check_request(V4, &Request::Options, "04 00 0102 05 00000000");
    check_request(V5, &Request::Options, "05 00 0102 05 00000000");
    let startup =
        Startup { options: [("CQL_VERSION", "3.0.0"), ("COMPRESSION", "lz4")].into_iter().collect() };
    check_request(
        V3,
        &Request::Startup(startup),
        "03 00 0102 01 00000028 0002 000b 'CQL_VERSION' 0005 '3.0.0' 000b 'COMPRESSION' 0003 'lz4'",
    );
    check_request(
        V4,
        &Request::AuthResponse { token: Some(b"\0cassandra\0cassandra") },
        "04 00 0102 0f 00000018 00000014 00 'cassandra' 00 'cassandra'",
    );
    check_request(V4, &Request::AuthResponse { token: None }, "04 00 0102 0f 00000004 ffffffff");
    let events = [EventType::SchemaChange, EventType::StatusChange].into_iter().collect();
    check_request(
        V4,
        &Request::Register { events },
        "04 00 0102 0b 00000020 0002 000d 'SCHEMA_CHANGE' 000d 'STATUS_CHANGE'",
    );
    check_request(
        V4,
        &Request::Prepare { text: "USE a", keyspace: None },
        "04 00 0102 09 00000009 00000005 'USE a'",
    );
    check_request(
        V5,
        &Request::Prepare { text: "USE a", keyspace: None },
        "05 00 0102 09 0000000d 00000005 'USE a' 00000000",
    );
    check_request(
        V5,
        &Request::Prepare { text: "USE a", keyspace: Some("ks") },
        "05 00 0102 09 00000011 00000005 'USE a' 00000001 0002 'ks'",
    );
}

#[test]
fn statements_with_all_parameters() {
    let mut buffer = ValueBuffer::default();
    buffer.push_named("a", Value::Bytes(&[1, 2]));
    buffer.push_named("b", Value::Null);
    let mut parameters = QueryParameters::new(Consistency::LocalQuorum);
    parameters.values = buffer.values();
    parameters.skip_metadata = true;
    parameters.page_size_rows = Some(5000);
    parameters.paging_state = Some(b"st");
    parameters.serial_consistency = Some(Consistency::LocalSerial);
    parameters.timestamp_us = Some(-2);
    let rest = "0002 0001 'a' 00000002 0102 0001 'b' ffffffff 00001388 00000002 'st' 0009 fffffffffffffffe";
    let query = Request::Query { text: "Q", parameters: parameters.clone() };
    check_request(V3, &query, &format!("03 00 0102 07 0000002e 00000001 'Q' 0006 7f {rest}"));
    check_request(V4, &query, &format!("04 00 0102 07 0000002e 00000001 'Q' 0006 7f {rest}"));
    let mut in_v5 = parameters.clone();
    in_v5.keyspace = Some("ks");
    in_v5.now_s = Some(3);
    check_request(
        V5,
        &Request::Query { text: "Q", parameters: in_v5 },
        &format!("05 00 0102 07 00000039 00000001 'Q' 0006 000001ff {rest} 0002 'ks' 00000003"),
    );
}

#[test]
fn execute_and_batch() {
    let mut buffer = ValueBuffer::default();
    buffer.push(Value::Bytes(b""));
    buffer.push(Value::Unset);
    let mut parameters = QueryParameters::new(Consistency::One);
    parameters.values = buffer.values();
    let execute = |result_metadata_id| {
        Request::Execute(Execute { id: b"id", result_metadata_id, parameters: parameters.clone() })
    };
    check_request(V4, &execute(None), "04 00 0102 0a 00000011 0002 'id' 0001 01 0002 00000000 fffffffe");
    check_request(
        V5,
        &execute(Some(b"m")),
        "05 00 0102 0a 00000017 0002 'id' 0001 'm' 0001 00000001 0002 00000000 fffffffe",
    );

    let statements = vec![
        BatchStatement { query: BatchQuery::Text("Q"), values: Values::default() },
        BatchStatement { query: BatchQuery::Prepared(b"id"), values: buffer.values() },
    ];
    let mut parameters = QueryParameters::new(Consistency::Quorum);
    parameters.timestamp_us = Some(1);
    let batch = Request::Batch(Batch { batch_type: BatchType::Unlogged, statements, parameters });
    let queries = "01 0002 00 00000001 'Q' 0000 01 0002 'id' 0002 00000000 fffffffe";
    check_request(V4, &batch, &format!("04 00 0102 0d 00000025 {queries} 0004 20 0000000000000001"));
    check_request(V5, &batch, &format!("05 00 0102 0d 00000028 {queries} 0004 00000020 0000000000000001"));
}

/// The expected messages were written by the Python driver 3.29.2.
#[test]
fn a_driver_writes_the_same() {
    let messages = [
        "03000102070000001c000000015100063c0000138800000002737400090000000000000007",
        "030001020a0000001b000269640001210002000000020102ffffffff0000000000000007",
        "04000102070000001c000000015100063c0000138800000002737400090000000000000007",
        "040001020d000000260100020000000001510000010002696400020000000178ffffffff0004200000000000000001",
        "040001020b000000110001000d534348454d415f4348414e4745",
        "05000102070000002300000001510006000000bc000013880000000273740009000000000000000700026b73",
        "050001020a000000210002696400016d0001000000210002000000020102ffffffff0000000000000007",
        "0500010209000000110000000555534520610000000100026b73",
        "050001020d000000290100020000000001510000010002696400020000000178ffffffff0004000000200000000000000001",
    ];
    for message in messages {
        let bytes = bytes_of(message);
        only_envelope(Side::Server, &bytes, |envelope| {
            let read = RequestMessage::decode(envelope).unwrap();
            assert_eq!(request_bytes(envelope.header.version, 0x0102, &read.request), bytes, "{read:?}");
        });
    }
}

#[test]
fn compression_is_agreed_at_startup() {
    let startup = |name| Startup { options: vec![("CQL_VERSION", "3.0.0"), ("compression", name)] };
    assert_eq!(startup("LZ4").compression(V5), Ok(Some(Compression::Lz4)));
    assert_eq!(startup("snappy").compression(V4), Ok(Some(Compression::Snappy)));
    assert!(startup("snappy").compression(V5).is_err());
    assert!(startup("zstd").compression(V4).is_err());
    assert_eq!(Startup::default().compression(V4), Ok(None));
}

#[test]
fn unset_is_null_in_v3() {
    let bytes = bytes_of("03 00 0000 0a 0000000d 0002 'id' 0001 01 0001 fffffffe");
    only_envelope(Side::Server, &bytes, |envelope| {
        let Ok(RequestMessage { request: Request::Execute(execute), .. }) = RequestMessage::decode(envelope)
        else {
            panic!("an EXECUTE");
        };
        assert_eq!(execute.parameters.values.get(0), Some(Value::Null));
    });
    let bytes = bytes_of("04 00 0000 0a 0000000d 0002 'id' 0001 01 0001 fffffffd");
    only_envelope(Side::Server, &bytes, |envelope| {
        assert!(RequestMessage::decode(envelope).is_err(), "-3 is nothing");
    });
}

#[test]
fn answers_of_a_few_bytes() {
    check_reply(V4, |reply, out| reply.ready(out), "84 00 0007 02 00000000", Response::Ready);
    check_reply(V5, |reply, out| reply.void(out), "85 00 0007 08 00000004 00000001", Response::Void);
    check_reply(
        V3,
        |reply, out| reply.set_keyspace(out, "ks"),
        "83 00 0007 08 00000008 00000003 0002 'ks'",
        Response::SetKeyspace("ks".into()),
    );
    check_reply(
        V4,
        |reply, out| reply.authenticate(out, "A"),
        "84 00 0007 03 00000003 0001 'A'",
        Response::Authenticate { class: "A".into() },
    );
    check_reply(
        V4,
        |reply, out| reply.auth_success(out, None),
        "84 00 0007 10 00000004 ffffffff",
        Response::AuthSuccess { token: None },
    );
    check_reply(
        V4,
        |reply, out| reply.auth_challenge(out, Some(b"c")),
        "84 00 0007 0e 00000005 00000001 'c'",
        Response::AuthChallenge { token: Some(b"c".to_vec()) },
    );
}

#[test]
fn supported_lists_versions_and_shards() {
    let mut supported = Supported::new("3.4.7");
    check_reply(
        V4,
        |reply, out| reply.supported(out, &supported),
        "84 00 0007 06 0000005b 0003 0011 'PROTOCOL_VERSIONS' 0003 0004 '3/v3' 0004 '4/v4' 0004 '5/v5' \
         000b 'COMPRESSION' 0002 0006 'snappy' 0003 'lz4' 000b 'CQL_VERSION' 0001 0005 '3.4.7'",
        Response::Supported {
            options: [
                ("PROTOCOL_VERSIONS", vec!["3/v3", "4/v4", "5/v5"]),
                ("COMPRESSION", vec!["snappy", "lz4"]),
                ("CQL_VERSION", vec!["3.4.7"]),
            ]
            .map(|(name, values)| (name.into(), values.into_iter().map(String::from).collect()))
            .into(),
        },
    );
    supported.sharding = Some(ShardingInfo {
        shard: 1,
        shards_count: 2,
        ignore_msb: 12,
        shard_aware_port: Some(19042),
        shard_aware_port_ssl: None,
    });
    supported.lwt_mark = true;
    supported.rate_limit_error = Some(0xf000);
    let mut bytes = Vec::new();
    Reply::new(V4, 7).supported(&mut bytes, &supported);
    let Response::Supported { options } = response_of(&bytes).response else { panic!("SUPPORTED") };
    let option = |name: &str| options.iter().find(|(key, _)| key == name).map(|(_, values)| values.join(","));
    assert_eq!(option("SCYLLA_SHARD").as_deref(), Some("1"));
    assert_eq!(option("SCYLLA_NR_SHARDS").as_deref(), Some("2"));
    assert_eq!(option("SCYLLA_SHARDING_IGNORE_MSB").as_deref(), Some("12"));
    assert_eq!(option("SCYLLA_SHARDING_ALGORITHM").as_deref(), Some("biased-token-round-robin"));
    assert_eq!(option("SCYLLA_SHARD_AWARE_PORT").as_deref(), Some("19042"));
    assert_eq!(option("SCYLLA_SHARD_AWARE_PORT_SSL"), None);
    let mark = option("SCYLLA_LWT_ADD_METADATA_MARK");
    assert_eq!(mark.as_deref(), Some("LWT_OPTIMIZATION_META_BIT_MASK=2147483648"));
    assert_eq!(option("SCYLLA_RATE_LIMIT_ERROR").as_deref(), Some("ERROR_CODE=61440"));
}

#[test]
fn changes_and_events() {
    let table = SchemaChange {
        change: ChangeType::Created,
        keyspace: "ks".into(),
        target: SchemaTarget::Table("t".into()),
    };
    check_reply(
        V4,
        |reply, out| reply.schema_change(out, &table),
        "84 00 0007 08 0000001b 00000005 0007 'CREATED' 0005 'TABLE' 0002 'ks' 0001 't'",
        Response::SchemaChange(table.clone()),
    );
    let function = SchemaChange {
        change: ChangeType::Dropped,
        keyspace: "ks".into(),
        target: SchemaTarget::Function { name: "f".into(), arguments: vec!["int".into()] },
    };
    check_reply(
        V4,
        |reply, out| reply.schema_change(out, &function),
        "84 00 0007 08 00000025 00000005 0007 'DROPPED' 0008 'FUNCTION' 0002 'ks' 0001 'f' 0001 0003 'int'",
        Response::SchemaChange(function.clone()),
    );
    let keyspace =
        SchemaChange { change: ChangeType::Updated, keyspace: "ks".into(), target: SchemaTarget::Keyspace };
    check_reply(
        V3,
        |reply, out| reply.schema_change(out, &function),
        "83 00 0007 08 0000001b 00000005 0007 'UPDATED' 0008 'KEYSPACE' 0002 'ks'",
        Response::SchemaChange(keyspace),
    );
    let check_event = |event: Event, expect: &str| {
        let mut bytes = Vec::new();
        Reply::event(V4, &mut bytes, &event);
        assert_eq!(bytes, bytes_of(expect), "wrote {bytes:02x?}");
        assert_eq!(response_of(&bytes).response, Response::Event(event));
    };
    check_event(
        Event::Schema(table),
        "84 00 ffff 0c 00000026 000d 'SCHEMA_CHANGE' 0007 'CREATED' 0005 'TABLE' 0002 'ks' 0001 't'",
    );
    check_event(
        Event::Status { change: StatusChange::Up, node: "127.0.0.1:9042".parse().unwrap() },
        "84 00 ffff 0c 0000001c 000d 'STATUS_CHANGE' 0002 'UP' 04 7f000001 00002352",
    );
    check_event(
        Event::Topology { change: TopologyChange::NewNode, node: "[::1]:9042".parse().unwrap() },
        "84 00 ffff 0c 00000030 000f 'TOPOLOGY_CHANGE' 0008 'NEW_NODE' 10 00000000000000000000000000000001 00002352",
    );
}

fn columns() -> Vec<ColumnSpec> {
    vec![
        ColumnSpec::new("ks", "t", "a", CqlType::Int),
        ColumnSpec::new("ks", "t", "b", CqlType::reversed(CqlType::Text)),
    ]
}

fn columns_seen() -> Vec<ColumnSpec> {
    vec![ColumnSpec::new("ks", "t", "a", CqlType::Int), ColumnSpec::new("ks", "t", "b", CqlType::Text)]
}

#[test]
fn rows_with_and_without_metadata() {
    let metadata = ResultMetadata::new(&columns());
    let write = |send, paging_state: Option<&'static [u8]>| {
        let metadata = metadata.clone();
        move |reply: &Reply<'_>, out: &mut Vec<u8>| {
            let mut rows = reply.rows(out, &metadata, send);
            rows.cell(Some(&[0, 0, 0, 1]));
            rows.cell_with(|out| out.push(b'x'));
            rows.end_row();
            rows.cell(None);
            rows.cell(Some(b""));
            rows.end_row();
            rows.finish(paging_state);
        }
    };
    let rows = vec![vec![Some(vec![0, 0, 0, 1]), Some(b"x".to_vec())], vec![None, Some(vec![])]];
    let cells = "00000002 00000004 00000001 00000001 'x' ffffffff 00000000";
    let specs = "0002 'ks' 0001 't' 0001 'a' 0009 0001 'b' 000d";
    let full = RowsMetadata { columns_count: 2, columns: Some(columns_seen()), ..RowsMetadata::default() };
    check_reply(
        V4,
        write(SendMetadata::Full, None),
        &format!("84 00 0007 08 00000036 00000002 00000001 00000002 {specs} {cells}"),
        Response::Rows(Rows { metadata: full.clone(), rows: rows.clone() }),
    );
    check_reply(
        V4,
        write(SendMetadata::Skip, Some(b"ps")),
        &format!("84 00 0007 08 0000002b 00000002 00000006 00000002 00000002 'ps' {cells}"),
        Response::Rows(Rows {
            metadata: RowsMetadata {
                columns_count: 2,
                paging_state: Some(b"ps".to_vec()),
                ..RowsMetadata::default()
            },
            rows: rows.clone(),
        }),
    );
    let id: String = metadata.id().iter().map(|byte| format!("{byte:02x}")).collect();
    check_reply(
        V5,
        write(SendMetadata::Changed, Some(b"ps")),
        &format!("85 00 0007 08 0000004e 00000002 0000000b 00000002 00000002 'ps' 0010 {id} {specs} {cells}"),
        Response::Rows(Rows {
            metadata: RowsMetadata {
                paging_state: Some(b"ps".to_vec()),
                new_metadata_id: Some(metadata.id().to_vec()),
                ..full
            },
            rows,
        }),
    );
}

#[test]
fn columns_of_several_tables_name_theirs() {
    let columns =
        [ColumnSpec::new("ks", "t", "a", CqlType::Int), ColumnSpec::new("ks", "u", "b", CqlType::Blob)];
    check_reply(
        V4,
        |reply, out| reply.rows(out, &ResultMetadata::new(&columns), SendMetadata::Full).finish(None),
        "84 00 0007 08 00000028 00000002 00000000 00000002 0002 'ks' 0001 't' 0001 'a' 0009 \
         0002 'ks' 0001 'u' 0001 'b' 0003 00000000",
        Response::Rows(Rows {
            metadata: RowsMetadata {
                columns_count: 2,
                columns: Some(columns.to_vec()),
                ..RowsMetadata::default()
            },
            rows: vec![],
        }),
    );
}

#[test]
fn prepared_in_each_version() {
    let variables = ResultMetadata::new(&columns()[..1]);
    let none = ResultMetadata::none();
    let prepared = PreparedReply {
        id: b"id",
        variables: &variables,
        partition_key_indexes: &[0],
        result: &none,
        extra_flags: 0,
    };
    let specs = "0002 'ks' 0001 't' 0001 'a' 0009";
    let expected = |result_metadata_id: Option<Vec<u8>>, partition_key_indexes: Vec<u16>| {
        Response::Prepared(Prepared {
            id: b"id".to_vec(),
            result_metadata_id,
            variables: columns_seen()[..1].to_vec(),
            partition_key_indexes,
            result: RowsMetadata::default(),
        })
    };
    check_reply(
        V3,
        |reply, out| reply.prepared(out, &prepared),
        &format!("83 00 0007 08 00000024 00000004 0002 'id' 00000001 00000001 {specs} 00000004 00000000"),
        expected(None, vec![]),
    );
    check_reply(
        V4,
        |reply, out| reply.prepared(out, &prepared),
        &format!(
            "84 00 0007 08 0000002a 00000004 0002 'id' 00000001 00000001 00000001 0000 {specs} 00000004 00000000"
        ),
        expected(None, vec![0]),
    );
    let id: String = none.id().iter().map(|byte| format!("{byte:02x}")).collect();
    check_reply(
        V5,
        |reply, out| reply.prepared(out, &prepared),
        &format!(
            "85 00 0007 08 0000003c 00000004 0002 'id' 0010 {id} 00000001 00000001 00000001 0000 {specs} \
             00000004 00000000"
        ),
        expected(Some(none.id().to_vec()), vec![0]),
    );
}

#[test]
fn warnings_tracing_and_payload_stand_in_front() {
    let warnings = vec!["w".to_string()];
    let payload = vec![("k".to_string(), Some(b"v".to_vec())), ("n".to_string(), None)];
    let reply = Reply {
        tracing_id: Some(&[0xaa; 16]),
        warnings: &warnings,
        custom_payload: &payload,
        ..Reply::new(V4, 7)
    };
    let mut bytes = Vec::new();
    reply.void(&mut bytes);
    let id = "aa".repeat(16);
    let expect = format!(
        "84 0e 0007 08 0000002a {id} 0001 0001 'w' 0002 0001 'k' 00000001 'v' 0001 'n' ffffffff 00000001"
    );
    assert_eq!(bytes, bytes_of(&expect), "wrote {bytes:02x?}");
    let message = response_of(&bytes);
    assert_eq!(message.extras.warnings, warnings);
    assert_eq!(message.extras.tracing_id, Some([0xaa; 16]));
    assert_eq!(message.extras.custom_payload, payload);

    let mut bytes = Vec::new();
    Reply { version: V3, ..reply }.void(&mut bytes);
    assert_eq!(bytes, bytes_of(&format!("83 02 0007 08 00000014 {id} 00000001")), "v3 has no warnings");

    let request = bytes_of("04 06 0000 05 0000000a 0001 0001 'k' 00000001 'v'");
    only_envelope(Side::Server, &request, |envelope| {
        let message = RequestMessage::decode(envelope).unwrap();
        assert_eq!((message.request, message.tracing), (Request::Options, true));
        assert_eq!(message.custom_payload, [("k", Some(&b"v"[..]))]);
    });
    let in_v3 = bytes_of("03 04 0000 05 0000000a 0001 0001 'k' 00000001 'v'");
    only_envelope(Side::Server, &in_v3, |envelope| assert!(RequestMessage::decode(envelope).is_err()));
}

/// Checks the body of an error whose message is the error's own text.
#[track_caller]
fn check_error(version: ProtocolVersion, error: &CqlError, code: i32, extra: &str, seen: &CqlError) {
    let text = error.to_string();
    let mut body = code.to_be_bytes().to_vec();
    body.extend((text.len() as u16).to_be_bytes());
    body.extend(text.as_bytes());
    body.extend(bytes_of(extra));
    let mut out = Vec::new();
    Reply::new(version, 7).error(&mut out, error);
    assert_eq!(out[9..], body, "{version} {error:?}: wrote {out:02x?}");
    assert_eq!(response_of(&out).response, Response::Error(seen.clone()));
}

#[test]
fn errors_carry_their_fields() {
    let text = |text: &str| text.to_string();
    let plain = [
        (CqlError::Server(text("s")), 0x0000),
        (CqlError::Protocol(text("p")), 0x000A),
        (CqlError::BadCredentials(text("b")), 0x0100),
        (CqlError::Overloaded(text("o")), 0x1001),
        (CqlError::Bootstrapping(text("b")), 0x1002),
        (CqlError::Truncate(text("t")), 0x1003),
        (CqlError::Syntax(text("s")), 0x2000),
        (CqlError::Unauthorized(text("u")), 0x2100),
        (CqlError::Invalid(text("i")), 0x2200),
        (CqlError::Config(text("c")), 0x2300),
    ];
    for version in ProtocolVersion::ALL {
        for (error, code) in &plain {
            check_error(version, error, *code, "", error);
        }
        let error = CqlError::Unavailable { consistency: 4, required: 2, alive: 1 };
        check_error(version, &error, 0x1000, "0004 00000002 00000001", &error);
        let error = CqlError::ReadTimeout { consistency: 4, received: 1, required: 2, data_present: true };
        check_error(version, &error, 0x1200, "0004 00000001 00000002 01", &error);
        let error =
            CqlError::WriteTimeout { consistency: 4, received: 1, required: 2, kind: WriteKind::BatchLog };
        check_error(version, &error, 0x1100, "0004 00000001 00000002 0009 'BATCH_LOG'", &error);
        let error = CqlError::AlreadyExists { keyspace: text("ks"), table: text("t") };
        check_error(version, &error, 0x2400, "0002 'ks' 0001 't'", &error);
        let error = CqlError::Unprepared { id: b"id".to_vec() };
        check_error(version, &error, 0x2500, "0002 'id'", &error);
    }
}

#[test]
fn errors_that_a_version_does_not_know_become_older_ones() {
    let read_failure = |reason| CqlError::ReadFailure {
        consistency: 1,
        received: 0,
        required: 1,
        failures: 1,
        reason,
        data_present: false,
    };
    let read = read_failure(FailureReason::Unknown);
    let as_timeout = CqlError::ReadTimeout { consistency: 1, received: 0, required: 1, data_present: false };
    check_error(V3, &read, 0x1200, "0001 00000000 00000001 00", &as_timeout);
    check_error(V4, &read, 0x1300, "0001 00000000 00000001 00000001 00", &read);
    check_error(V5, &read, 0x1300, "0001 00000000 00000001 00000001 04 00000000 0000 00", &read);

    let tombstones = read_failure(FailureReason::ReadTooManyTombstones);
    check_error(V4, &tombstones, 0x1300, "0001 00000000 00000001 00000001 00", &read);
    check_error(V5, &tombstones, 0x1300, "0001 00000000 00000001 00000001 04 00000000 0001 00", &tombstones);

    let kind = WriteKind::Simple;
    let write = CqlError::WriteFailure { consistency: 1, received: 0, required: 1, failures: 1, kind };
    let as_timeout = CqlError::WriteTimeout { consistency: 1, received: 0, required: 1, kind };
    check_error(V3, &write, 0x1100, "0001 00000000 00000001 0006 'SIMPLE'", &as_timeout);
    check_error(V4, &write, 0x1500, "0001 00000000 00000001 00000001 0006 'SIMPLE'", &write);
    check_error(V5, &write, 0x1500, "0001 00000000 00000001 00000001 04 00000000 0000 0006 'SIMPLE'", &write);

    let cas = CqlError::CasWriteUnknown { consistency: 8, received: 0, required: 1 };
    let as_timeout =
        CqlError::WriteTimeout { consistency: 8, received: 0, required: 1, kind: WriteKind::Cas };
    check_error(V4, &cas, 0x1100, "0008 00000000 00000001 0003 'CAS'", &as_timeout);
    check_error(V5, &cas, 0x1700, "0008 00000000 00000001", &cas);
    check_error(V5, &as_timeout, 0x1100, "0008 00000000 00000001 0003 'CAS' 0000", &as_timeout);

    let function = CqlError::FunctionFailure {
        keyspace: "ks".into(),
        function: "f".into(),
        arguments: vec!["int".into()],
        text: "boom".into(),
    };
    check_error(V3, &function, 0x2200, "", &CqlError::Invalid("boom".into()));
    check_error(V4, &function, 0x1400, "0002 'ks' 0001 'f' 0001 0003 'int'", &function);
    let cdc = CqlError::CdcWriteFailure("full".into());
    check_error(V3, &cdc, 0x2200, "", &CqlError::Invalid("full".into()));
    check_error(V4, &cdc, 0x1600, "", &cdc);
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let error = CqlError::Invalid(format!("x{}", "ü".repeat(40_000)));
    let mut out = Vec::new();
    Reply::new(V4, 7).error(&mut out, &error);
    let Response::Error(CqlError::Invalid(text)) = response_of(&out).response else { panic!("an error") };
    assert_eq!(text.len(), 65_535);
    assert!(text.ends_with('ü'));
}

#[test]
fn types_have_numbers_or_class_names() {
    let udt = CqlType::udt(UserType {
        keyspace: "ks".into(),
        name: "u".into(),
        fields: vec![UdtField { name: "f".into(), field_type: CqlType::SmallInt }],
    });
    let class = |name: &str| format!("0000 {:04x} '{name}'", name.len());
    let short = class("org.apache.cassandra.db.marshal.ShortType");
    let duration = class("org.apache.cassandra.db.marshal.DurationType");
    let vector =
        class("org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3)");
    let cases = [
        (CqlType::Text, V3, "000d".to_string()),
        (CqlType::reversed(CqlType::Varint), V3, "000e".into()),
        (CqlType::LegacyTimestamp, V4, "000b".into()),
        (CqlType::SmallInt, V3, short.clone()),
        (CqlType::SmallInt, V4, "0013".into()),
        (CqlType::TinyInt, V4, "0014".into()),
        (CqlType::Date, V4, "0011".into()),
        (CqlType::Time, V4, "0012".into()),
        (CqlType::Duration, V4, duration),
        (CqlType::Duration, V5, "0015".into()),
        (CqlType::list(CqlType::Int).freeze(), V3, "0020 0009".into()),
        (CqlType::map(CqlType::Text, CqlType::set(CqlType::Uuid)), V4, "0021 000d 0022 000c".into()),
        (CqlType::tuple([CqlType::Int, CqlType::Blob]), V4, "0031 0002 0009 0003".into()),
        (udt.clone(), V3, format!("0030 0002 'ks' 0001 'u' 0001 0001 'f' {short}")),
        (udt, V5, "0030 0002 'ks' 0001 'u' 0001 0001 'f' 0013".into()),
        (CqlType::vector(CqlType::Float, 3).unwrap(), V5, vector),
    ];
    for (cql_type, version, expect) in cases {
        let mut out = Vec::new();
        put_type(&mut out, &cql_type, version);
        assert_eq!(out, bytes_of(&expect), "{cql_type:?} in {version}");
        let mut take = base::bytes::Take::new(&out);
        let seen = take_type(&mut take).unwrap();
        let plain = if cql_type == CqlType::LegacyTimestamp { CqlType::Timestamp } else { cql_type };
        assert_eq!(seen.freeze(), plain.without_reversed().freeze());
        assert!(take.is_empty());
    }
}
