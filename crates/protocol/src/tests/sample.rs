//! Random messages, from a seed.

use base::rng::Rng;
use model::types::CqlType;

use super::*;

pub fn bytes(rng: &mut Rng, len_max: u64) -> Vec<u8> {
    // Runs of equal bytes, so that the data can be compressed.
    let mut out = Vec::new();
    let len = rng.below(len_max + 1) as usize;
    while out.len() < len {
        let run = (rng.below(40) as usize + 1).min(len - out.len());
        let byte = rng.next_u64() as u8;
        out.resize(out.len() + run, byte);
    }
    out
}

fn text(rng: &mut Rng, len_max: u64) -> String {
    let len = rng.below(len_max + 1);
    (0..len).map(|_| *rng.pick(&['a', 'Z', '0', ' ', '\'', 'ü', '中', '🦀'])).collect()
}

fn maybe<T>(rng: &mut Rng, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    if rng.chance(1, 2) { Some(make(rng)) } else { None }
}

fn values(rng: &mut Rng, version: ProtocolVersion, named: bool) -> ValueBuffer {
    let mut buffer = ValueBuffer::default();
    for _ in 0..rng.below(20) {
        let content = bytes(rng, 60);
        let value = match rng.below(4) {
            0 => Value::Null,
            1 if version >= ProtocolVersion::V4 => Value::Unset,
            _ => Value::Bytes(&content),
        };
        if named { buffer.push_named(&text(rng, 9), value) } else { buffer.push(value) }
    }
    buffer
}

/// A random request that the version can encode; with `long`, occasionally one of several hundred kilobytes.
pub fn with_request<T>(
    rng: &mut Rng,
    version: ProtocolVersion,
    long: bool,
    use_it: impl FnOnce(&Request<'_>) -> T,
) -> T {
    let len_max = if long && rng.chance(1, 3) { 100_000 } else { 60 };
    let words: Vec<String> = (0..8).map(|_| text(rng, 20)).collect();
    let statement = text(rng, len_max);
    let blob = bytes(rng, 40);
    let named = rng.chance(1, 3);
    let buffers: Vec<ValueBuffer> = (0..6).map(|at| values(rng, version, named && at == 0)).collect();
    let in_v5 = version >= ProtocolVersion::V5;
    let mut parameters = QueryParameters::new(*rng.pick(&Consistency::ALL));
    parameters.values = buffers[0].values();
    parameters.skip_metadata = rng.chance(1, 2);
    parameters.page_size_rows = maybe(rng, |rng| rng.next_u64() as i32);
    parameters.paging_state = maybe(rng, |_| &blob[..]);
    parameters.serial_consistency = maybe(rng, |_| Consistency::Serial);
    parameters.timestamp_us = maybe(rng, |rng| (rng.next_u64() as i64).max(i64::MIN + 1));
    parameters.keyspace = maybe(rng, |_| words[0].as_str()).filter(|_| in_v5);
    parameters.now_s = maybe(rng, |rng| rng.next_u64() as i32).filter(|_| in_v5);
    let request = match rng.below(8) {
        0 => {
            let count = rng.below(4) as usize;
            let options = words.chunks(2).take(count).map(|pair| (pair[0].as_str(), pair[1].as_str()));
            Request::Startup(Startup { options: options.collect() })
        }
        1 => Request::AuthResponse { token: maybe(rng, |_| &blob[..]) },
        2 => Request::Options,
        3 => Request::Query { text: &statement, parameters },
        4 => {
            let keyspace = maybe(rng, |_| words[0].as_str()).filter(|_| in_v5);
            Request::Prepare { text: &statement, keyspace }
        }
        5 => Request::Execute(Execute {
            id: &blob,
            result_metadata_id: in_v5.then_some(words[1].as_bytes()),
            parameters,
        }),
        6 => {
            parameters.values = Values::default();
            let statements = buffers
                .iter()
                .skip(1)
                .map(|buffer| BatchStatement {
                    query: if rng.chance(1, 2) {
                        BatchQuery::Text(&statement)
                    } else {
                        BatchQuery::Prepared(&blob)
                    },
                    values: buffer.values(),
                })
                .collect();
            let batch_type = *rng.pick(&[BatchType::Logged, BatchType::Unlogged, BatchType::Counter]);
            Request::Batch(Batch { batch_type, statements, parameters })
        }
        _ => {
            let count = rng.below(4) as usize;
            Request::Register { events: EventType::ALL.into_iter().take(count).collect() }
        }
    };
    use_it(&request)
}

pub fn columns(rng: &mut Rng) -> Vec<ColumnSpec> {
    let types = [
        CqlType::Int,
        CqlType::Text,
        CqlType::Duration,
        CqlType::TinyInt,
        CqlType::list(CqlType::Uuid),
        CqlType::map(CqlType::Text, CqlType::Date),
        CqlType::tuple([CqlType::Int, CqlType::Time]),
        CqlType::vector(CqlType::Float, 3).unwrap(),
    ];
    let several_tables = rng.chance(1, 4);
    (0..rng.below(5))
        .map(|_| {
            let table = if several_tables { text(rng, 5) } else { "t".into() };
            ColumnSpec::new("ks", &table, &text(rng, 9), rng.pick(&types).clone())
        })
        .collect()
}

/// Appends a random page and returns the rows that a client must decode.
pub fn rows(rng: &mut Rng, reply: &Reply<'_>, out: &mut Vec<u8>, cell_bytes_max: u64) -> Rows {
    let columns = columns(rng);
    let metadata = ResultMetadata::new(&columns);
    let send = *rng.pick(&[SendMetadata::Full, SendMetadata::Skip, SendMetadata::Changed]);
    let paging_state = maybe(rng, |rng| bytes(rng, 30));
    let mut writer = reply.rows(out, &metadata, send);
    let mut rows = Vec::new();
    if !columns.is_empty() {
        for _ in 0..rng.below(20) {
            let row: Vec<_> = columns.iter().map(|_| maybe(rng, |rng| bytes(rng, cell_bytes_max))).collect();
            row.iter().for_each(|cell| writer.cell(cell.as_deref()));
            writer.end_row();
            rows.push(row);
        }
    }
    writer.finish(paging_state.as_deref());
    let changed = send == SendMetadata::Changed && reply.version >= ProtocolVersion::V5;
    Rows {
        metadata: RowsMetadata {
            columns_count: columns.len(),
            columns: (send != SendMetadata::Skip).then_some(columns),
            paging_state,
            new_metadata_id: changed.then(|| metadata.id().to_vec()),
        },
        rows,
    }
}
