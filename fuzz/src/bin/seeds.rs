//! Writes the seeds of the fuzz targets with the encoders: `cargo run -p fuzz --bin seeds`. The seeds are in
//! git; run the program again after a change of a format or of the layout of an input.
//!
//! SSTables of Cassandra are copied from `testdata/` if they are small; those of version `me` are written
//! here.

use std::fs;
use std::path::{Path, PathBuf};

use base::rng::Rng;
use cql::Outcome;
use engine::commitlog::LogPosition;
use engine::commitlog::format::segment_id;
use engine::commitlog::manifest::{Listed, Manifest};
use engine::compaction::record::Record;
use engine::manifest::{self as sstable_manifest, Content};
use engine::table::truncation::Truncation;
use fuzz::sstable_input::Files;
use fuzz::{files, sstable_input, storage};
use model::sample::{self, Variety};
use model::{PartitionRange, codec};
use protocol::client::{RequestHead, write_request};
use protocol::{
    Batch, BatchQuery, BatchStatement, BatchType, Compression, Consistency, ProtocolVersion, QueryParameters,
    Request, Startup, Value, ValueBuffer, Values,
};
use reader::{MemorySource, ReadSpec, Source};
use runtime::{IoClass, sim};
use sstable::name::{Component, Generation, SSTableName};
use sstable::version::Version;
use sstable::write::{WriteOptions, write_reader};

/// Statements whose paging states are seeds, each with its index in the target `paging_states`.
const PAGED: [(u8, &str); 3] =
    [(0, "SELECT * FROM wide"), (3, "SELECT k, count(*) FROM wide GROUP BY k, c"), (7, "SELECT * FROM pair")];

/// SSTables of Cassandra: the smallest of each version with rows, indexes, deletions and compressors of
/// interest.
const SAMPLES: [&str; 12] = [
    "cassandra-4.1/keys/data/keys/no_columns-",
    "cassandra-4.1/expiring/data/expiring/t-",
    "cassandra-4.1/counters/data/counters/t-",
    "cassandra-4.1/statics/data/statics/t-",
    "cassandra-4.1/chunks/data/chunks/deflate_16-",
    "cassandra-4.1/all_types/data/all_types/by_decimal-",
    "cassandra-5.0-oa/expiring/data/expiring/by_default-",
    "cassandra-5.0-oa/vectors/data/vectors/by_text-",
    "cassandra-5.0-da/keys/data/keys/composite-",
    "cassandra-5.0-da/row_index/data/row_index/by_ascii-",
    "cassandra-5.0-da/chunks/data/chunks/zstd_16-",
    "cassandra-5.0-da/vectors/data/vectors/by_fixed-",
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Out(root.join("seeds"));
    requests(&out);
    paging_states(&out);
    mutations_and_log(&out);
    records(&out);
    values(&out);
    functions(&out);
    texts(&out);
    let mut sstables = samples(&root.join("../testdata"));
    sstables.extend(own_sstables());
    sstable_seeds(&out, &sstables);
}

struct Out(PathBuf);

impl Out {
    fn write(&self, target: &str, name: &str, bytes: &[u8]) {
        let dir = self.0.join(target);
        fs::create_dir_all(&dir).expect("a directory for seeds");
        fs::write(dir.join(name), bytes).expect("a seed");
    }
}

/// The first two bytes are those of the target `frame_decoding`.
fn requests(out: &Out) {
    let mut values = ValueBuffer::default();
    values.push(Value::Bytes(&[0, 0, 0, 7]));
    values.push(Value::Null);
    values.push(Value::Unset);
    let parameters = || QueryParameters {
        values: values.values(),
        page_size_rows: Some(100),
        paging_state: Some(b"state"),
        timestamp_us: Some(1),
        ..QueryParameters::new(Consistency::One)
    };
    let statement =
        BatchStatement { query: BatchQuery::Text("INSERT INTO t (k) VALUES (?)"), values: values.values() };
    let batch = Batch {
        batch_type: BatchType::Logged,
        statements: vec![statement],
        parameters: QueryParameters::new(Consistency::One),
    };
    let all = [
        (
            "startup",
            Request::Startup(Startup { options: vec![("CQL_VERSION", "3.0.0"), ("COMPRESSION", "lz4")] }),
        ),
        ("options", Request::Options),
        ("auth", Request::AuthResponse { token: Some(b"\0ann\0secret") }),
        ("query", Request::Query { text: "SELECT * FROM t WHERE k = ?", parameters: parameters() }),
        ("prepare", Request::Prepare { text: "SELECT * FROM t", keyspace: None }),
        ("batch", Request::Batch(batch)),
    ];
    for (name, request) in all {
        for (setup, version) in
            [(2, ProtocolVersion::V3), (4, ProtocolVersion::V4), (6 | 0x20, ProtocolVersion::V5)]
        {
            let mut bytes = vec![setup, 0xff];
            write_request(&mut bytes, &RequestHead::new(version, 1), &request);
            out.write("frame_decoding", &format!("{name}-{version:?}"), &bytes);
        }
    }
    let plain = b"the same again, the same again, the same again, and something else at the end".as_slice();
    for (kind, compression) in [(0, Compression::Lz4), (1, Compression::Snappy)] {
        let mut bytes = vec![kind];
        compression.compress(plain, &mut bytes);
        out.write("compressed_bodies", compression.name(), &bytes);
    }
}

fn paging_states(out: &Out) {
    let storage = storage::storage();
    for (number, text) in PAGED {
        let page = storage::run(&storage, text, &Values::default(), Some(1), None).expect("a page");
        let Outcome::Rows(page) = page else { panic!("{text} gives rows") };
        let mut bytes = vec![number, 0];
        bytes.extend(page.paging_state.expect("there are more rows"));
        out.write("paging_states", &format!("{number}"), &bytes);
    }
}

/// Mutations of each table, and a directory of the commit log with them.
fn mutations_and_log(out: &Out) {
    let mut rng = Rng::new(11);
    let mut payloads = vec![];
    for (number, table) in sample::tables().iter().enumerate() {
        for round in 0..3 {
            let mut bytes = vec![];
            codec::encode(&sample::mutation(&mut rng, table, &Variety::default()), &mut bytes);
            // The target prepends version and id.
            let seed = [&[number as u8], &bytes[17..]].concat();
            out.write("mutations", &format!("{}-{round}", table.name), &seed);
            let mut payload = (bytes.len() as u32).to_be_bytes().to_vec();
            payload.extend(bytes);
            payloads.push(payload);
        }
    }
    let chunk = |flags: u8, payload: &Vec<u8>| files::join(&[(flags, payload)]);
    let chunks: Vec<u8> = payloads.iter().take(4).flat_map(|payload| chunk(1, payload)).collect();
    let last: Vec<u8> = payloads.iter().skip(4).take(2).flat_map(|payload| chunk(2, payload)).collect();
    let manifest = manifest();
    let log = files::join(&[(0x11, &chunks), (0x21, &last), (0x16, &manifest)]);
    out.write("commit_log", "two-segments", &log);
    out.write("commit_log", "one-segment", &files::join(&[(0x11, &last)]));
    out.write("commit_log", "manifest", &files::join(&[(0x16, &manifest), (0x10, b"MSCL")]));
}

/// A slot of a manifest without its checksum.
fn manifest() -> Vec<u8> {
    let (run, second) = (segment_id(0, 2), segment_id(0, 3));
    let listed =
        |id| Listed { id, begun_us: 1_700_000_000_000_000, synced_bytes: 4096, is_closed: id == run };
    let manifest = Manifest {
        run,
        shard_count: 1,
        needed_from: 2,
        sequence: 5,
        segment_bytes: 1 << 20,
        segments: vec![listed(run), listed(second)],
    };
    let mut bytes = manifest.encode(4096);
    bytes.truncate(bytes.len() - 4);
    bytes
}

/// Records without a checksum. The bit 0x80 makes the target append a valid one.
fn records(out: &Out) {
    let name = |number| SSTableName::big(Version::Me, Generation::Number(number));
    let record = Record { outputs: vec![name(9)], inputs: vec![name(3), name(4)] };
    let at = |base, offset_bytes| LogPosition { segment: segment_id(0, base), offset_bytes };
    let mut content = Content {
        sstables: vec![
            sstable_manifest::Listed { name: name(3), crc: None },
            sstable_manifest::Listed { name: name(12), crc: Some(0xa1b2c3) },
        ],
        ..Content::default()
    };
    content.flushed.add(at(5, 96), at(7, 31_600));
    let truncation = Truncation { first_generation: 9, positions: vec![at(5, 100), at(2, 64)] }.encode();
    let without_crc = |text: String| {
        let body = text.trim_end_matches('\n').rsplit_once('\n').expect("the line of the checksum").0;
        format!("{body}\n")
    };
    let seed = |kind: u8, body: &[u8]| [&[kind], body].concat();
    // 0x80 is 2 more than a multiple of 6.
    out.write("records", "compaction", &seed(0x84, without_crc(record.encode()).as_bytes()));
    out.write("records", "roster", &seed(0x85, without_crc(sstable_manifest::encode(&content)).as_bytes()));
    out.write("records", "truncation", &seed(0x80, &truncation[..truncation.len() - 4]));
    out.write("records", "manifest", &seed(0x82, &manifest()));
    for kind in [0x80u8, 0x82, 0x84, 0x85] {
        assert!([2, 4, 0, 1].contains(&(kind % 6)));
    }
}

fn values(out: &Out) {
    let all: [(&str, &[u8]); 16] = [
        ("int", &[0, 0, 0, 7]),
        ("text", b"caf\xc3\xa9"),
        ("decimal", &[0, 0, 0, 2, 0x30, 0x39]),
        ("varint", &[0x80, 0, 0, 0, 0, 0, 0, 0, 1]),
        ("duration", &[2, 4, 6]),
        ("inet", &[127, 0, 0, 1]),
        ("list<int>", b"[1, 2]"),
        ("map<text, frozen<set<int>>>", b"{\"a\": [1]}"),
        ("tuple<int, text>", &[0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, b'x']),
        ("vector<float, 2>", &[0x3f, 0x80, 0, 0, 0, 0, 0, 0]),
        ("timestamp", b"2024-02-29T12:00:00.123+0100"),
        ("date", b"2024-02-29"),
        ("time", b"12:34:56.789"),
        ("uuid", b"00112233-4455-6677-8899-aabbccddeeff"),
        (
            "org.apache.cassandra.db.marshal.ReversedType(org.apache.cassandra.db.marshal.Int32Type)",
            &[0, 0, 0, 1],
        ),
        (
            "org.apache.cassandra.db.marshal.UserType(ks,706f696e74,78:org.apache.cassandra.db.marshal.Int32Type)",
            &[0, 0, 0, 4, 0, 0, 0, 1],
        ),
    ];
    for (number, (name, bytes)) in all.into_iter().enumerate() {
        out.write("values", &format!("{number:02}"), &[name.as_bytes(), &[0], bytes].concat());
    }
}

/// A type, a body in Lua, and a value.
const FUNCTIONS: [(&str, &str, &[u8]); 14] = [
    ("int", "return x + 1", &[0, 0, 0, 7]),
    ("text", "return (x:gsub('(%w+)', '<%1>')) .. ('a'):rep(3)", b"caf\xc3\xa9 au lait"),
    ("varint", "return x * x // 3 - x % 7", &[0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1]),
    ("decimal", "return x + 0.5 .. ''", &[0, 0, 0, 2, 0x30, 0x39]),
    ("duration", "return {months = x.months, days = 3}", &[2, 4, 6]),
    ("date", "return {year = 2024, month = 14, day = -3}", &[0x80, 0, 0, 1]),
    ("timestamp", "return '2024-02-29 13:30'", &[0, 0, 0, 0, 0, 0, 3, 0xe8]),
    ("inet", "return '2001:db8::1'", &[127, 0, 0, 1]),
    ("list<int>", "table.sort(x) table.insert(x, 1, 5) return x", &[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 9]),
    ("set<text>", "x.b = true return x", &[0, 0, 0, 1, 0, 0, 0, 1, b'a']),
    (
        "map<int, text>",
        "for k, v in pairs(x) do x[k] = v .. k end return x",
        &[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0, 1, b'a'],
    ),
    (
        "tuple<int, text>",
        "return {x[1], pcall(error, x) and 1 or 'no'}",
        &[0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, b'x'],
    ),
    ("vector<float, 2>", "return {x[2], x[1]}", &[0x3f, 0x80, 0, 0, 0, 0, 0, 0]),
    ("blob", "while true do pcall(string.find, x, '(.-)%b()%f[%a]') end", b"f(a)"),
];

fn functions(out: &Out) {
    for (number, (ty, body, value)) in FUNCTIONS.into_iter().enumerate() {
        let bytes = [ty.as_bytes(), &[0], body.as_bytes(), &[0], value].concat();
        out.write("functions", &format!("{number:02}"), &bytes);
    }
}

fn texts(out: &Out) {
    let options = b"native_transport_port: 9042\ncommitlog_sync: batch\nread_request_timeout: 5s\nclient_encryption_options:\n  enabled: true\n  keystore: [a, b]\n";
    out.write("configuration", "options.yaml", &[b"\0", &options[..]].concat());
    let environment = b"MESSINA_NATIVE_TRANSPORT_PORT=9042\nMESSINA_MEMORY=2G\nMESSINA_UNKNOWN=1\n";
    out.write("configuration", "environment", &[b"\x01", &environment[..]].concat());
    let disks = b"disks:\n  - mountpoint: /a\n    read_iops: 285k\n    read_bandwidth: 2G\n    write_iops: 1000\n    write_bandwidth: 1048576\n    duplex: true\n";
    out.write("configuration", "io_properties.yaml", &[b"\x02", &disks[..]].concat());
    out.write("admin_http", "answer", b"\0HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    out.write("admin_http", "query", b"\x01k s&=\xc3\xa9");
    out.write("admin_http", "headers", b"\x02host:127.0.0.1:10000\nx-requested-by:nodetool\norigin:null");
    out.write("admin_http", "login", b"\x0ehost:a\nauthorization:Basic YW5uOnNlY3JldA==\nx-requested-by:x");
    let scripts: [&[u8]; 6] = [
        b"INSERT INTO wide (k, c, d, v) VALUES (?, 1, 2, 3) IF NOT EXISTS\0\x04\0\0\0\x01",
        b"SELECT k, count(*), max(v) FROM wide WHERE k IN (0, 1) GROUP BY k, c; SELECT JSON * FROM wide WHERE k = ? AND c >= 1 ORDER BY c DESC LIMIT 3\0\x04\0\0\0\x01",
        b"UPDATE wide SET m['x'] = 3, l = l + [4], e = e - {1}, v = ? WHERE k = 1 AND c = 1 AND d = 0 IF v = 1\0\x04\0\0\0\x09\xff",
        b"UPDATE counts SET n = n + 3 WHERE k = 1 AND c = 'a'; SELECT * FROM counts; BEGIN BATCH INSERT INTO pair (a, b) VALUES (1, 'x'); DELETE v FROM wide WHERE k = 1 AND c = 2 AND d = 0; APPLY BATCH",
        b"CREATE TABLE made (a int, b text, PRIMARY KEY (a, b)) WITH comment = 'x' AND CLUSTERING ORDER BY (b DESC); ALTER TABLE made ADD c map<int, frozen<list<text>>>; DESCRIBE TABLE made; DROP TABLE made; TRUNCATE wide",
        b"INSERT INTO types JSON '{\"k\": 1, \"date\": \"2024-02-29\", \"vector\": [1, 2, 3], \"duration\": \"1h\"}'; SELECT CAST(int AS text), toJson(date), ttl(text), writetime(text), token(k) FROM types WHERE token(k) > 5 ALLOW FILTERING",
    ];
    for (number, script) in scripts.into_iter().enumerate() {
        out.write("cql_execution", &format!("{number}"), script);
    }
    let schema = b"CREATE TYPE point (x int, y int); CREATE TABLE t (k int, c text, s text STATIC, p frozen<point>, PRIMARY KEY (k, c))\n WITH CLUSTERING ORDER BY (c DESC) AND compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 10}\n AND compression = {'sstable_compression': 'ZstdCompressor', 'chunk_length_in_kb': 16} AND gc_grace_seconds = 5;";
    out.write("schema_file", "table", schema);
    out.write("schema_file", "keyspace", b"CREATE KEYSPACE x WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; USE x; CREATE TABLE c (k int PRIMARY KEY, n counter);");
}

fn samples(testdata: &Path) -> Vec<(String, Version, Files)> {
    let mut found = vec![];
    for sample in SAMPLES {
        let (parent, prefix) = sample.rsplit_once('/').expect("a table's directory");
        let parent = testdata.join(parent);
        let dirs = fs::read_dir(&parent).expect("samples");
        let dir = dirs
            .map(|dir| dir.expect("an entry").path())
            .find(|dir| dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
        let dir = dir.unwrap_or_else(|| panic!("there is no sample {sample}"));
        let mut files: Files = vec![];
        let mut version = None;
        for file in fs::read_dir(dir).expect("a table") {
            let path = file.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            let Ok((sstable, component)) = SSTableName::parse_file_name(&name) else { continue };
            if *version.get_or_insert(sstable) == sstable {
                files.push((component, fs::read(&path).expect("a component")));
            }
        }
        files.sort_by_key(|(component, _)| component.to_string());
        let version = version.expect("an SSTable").version;
        let name = format!("{version}-{}", sample.rsplit('/').next().expect("a name").trim_end_matches('-'));
        found.push((name, version, files));
    }
    found
}

/// Tables of `model::sample`, uncompressed and compressed, with small blocks so that there are promoted
/// indexes.
fn own_sstables() -> Vec<(String, Version, Files)> {
    let mut found = vec![];
    for (number, schema) in sample::tables().into_iter().enumerate() {
        for is_compressed in [false, true] {
            let name = format!("me-{}-{is_compressed}", schema.name);
            let schema = schema.clone();
            let files = sim::run(number as u64, 1, move |shard| async move {
                let dir = Path::new("/data/ks/t");
                shard.files().create_dir_all(dir).await.expect("a directory");
                let mut rng = Rng::new(5);
                let variety = Variety { rows: 12, value_bytes: 12, ..Variety::default() };
                let mutations: Vec<_> =
                    (0..20).map(|_| sample::mutation(&mut rng, &schema, &variety)).collect();
                let source = MemorySource::new(&mutations);
                let mut reader = source.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
                let mut options = WriteOptions::for_table(&schema, "memtable", IoClass::Maintenance);
                options.column_index_bytes = 200;
                if !is_compressed {
                    options.compression = None;
                }
                let name = SSTableName::big(Version::Me, Generation::Number(1));
                let written =
                    write_reader(shard.files(), dir, name, schema, options, &mut *reader, &shard).await;
                written.expect("an SSTable");
                let mut files: Files = vec![];
                for entry in shard.files().read_dir(dir).await.expect("its directory") {
                    let (_, component) = SSTableName::parse_file_name(&entry.name).expect("its name");
                    let path = dir.join(&entry.name);
                    files.push((
                        component,
                        shard.files().read_all(&path, IoClass::Maintenance, 1 << 20).await.expect("a file"),
                    ));
                }
                files.sort_by_key(|(component, _)| component.to_string());
                files
            });
            found.push((name, Version::Me, files));
        }
    }
    found
}

/// Writes each SSTable as a whole, and its components for the target `sstable_components`, each after the
/// number of the component and the version.
fn sstable_seeds(out: &Out, sstables: &[(String, Version, Files)]) {
    let numbers = [
        (Component::Statistics, 0),
        (Component::Summary, 1),
        (Component::Filter, 2),
        (Component::Index, 3),
        (Component::Crc, 7),
        (Component::Digest, 8),
        (Component::Toc, 9),
        (Component::Messina, 10),
    ];
    for (name, version, files) in sstables {
        let is_plain = !files.iter().any(|(component, _)| *component == Component::CompressionInfo);
        let flags = if is_plain { sstable_input::WITHOUT_CHECKSUMS } else { 0 };
        match sstable_input::encode(*version, flags, files) {
            Some(seed) => out.write("sstable_files", name, &seed),
            None => eprintln!("{name} is too large for a seed"),
        }
        let place =
            Version::ALL.into_iter().position(|known| known == *version).expect("a known version") as u8;
        for (component, number) in &numbers {
            let Some((_, bytes)) = files.iter().find(|(known, _)| known == component) else { continue };
            if bytes.len() > 6000 {
                continue;
            }
            let seed = [&[*number, place], &bytes[..]].concat();
            out.write("sstable_components", &format!("{name}-{component}"), &seed);
        }
        if let Some((_, bytes)) = files.iter().find(|(component, _)| *component == Component::CompressionInfo)
        {
            let which = u8::from(version.has_max_compressed_length());
            out.write("sstable_chunks", &format!("{name}-info"), &[&[0, which], &bytes[..]].concat());
        }
    }
    for name in [
        "me-1-big-Data.db",
        "la-7-big-Index.db",
        "ka-ks-t-1-Data.db",
        "da-3gt1_0z5u_4d0qo2abcdefghijkl-bti-Rows.db",
    ] {
        out.write("sstable_components", &format!("name-{name}"), &[&[11, 0], name.as_bytes()].concat());
    }
}
