//! Layers, errors, notes, and the documents that must agree with the table.

use std::path::Path;

use super::index::{Entry, Word};
use super::layers::{apply, from_environment, from_yaml, variable};
use super::options::{OPTIONS, Target, find};
use super::*;

fn yaml(text: &str) -> Result<(Config, Vec<Note>), ConfigErrors> {
    apply(from_yaml(Path::new("m.yaml"), text)?)
}

fn error(text: &str) -> String {
    yaml(text).expect_err(text).to_string()
}

#[test]
fn flags_count_more_than_environment_and_that_more_than_the_file() {
    let file = || from_yaml(Path::new("m.yaml"), "api_port: 1\nprometheus_port: 1\nsmp: 1\n").unwrap();
    let variables = [("MESSINA_PROMETHEUS_PORT", "2"), ("MESSINA_SMP", "2"), ("HOME", "/root")];
    let variables = variables.map(|(name, value)| (name.to_string(), value.to_string()));
    let flags = vec![Setting::flag("--smp", "smp", "3")];
    let all = [file(), from_environment(&variables), flags].concat();
    let (config, notes) = apply(all).unwrap();
    assert_eq!((config.http.api_port, config.http.prometheus_port, config.machine.smp), (1, 2, Some(3)));
    assert_eq!(config.listen.port, 9042);
    assert_eq!(notes, []);
}

#[test]
fn both_spellings_mean_the_same() {
    let check = |new: &str, old: &str| {
        let new = yaml(new).unwrap().0;
        assert_eq!(new, yaml(old).unwrap().0, "{old}");
        assert_ne!(new, Config::default(), "{old}");
    };
    check("commitlog_sync_period: 3000ms", "commitlog_sync_period_in_ms: 3000");
    check("commitlog_segment_size: 64MiB", "commitlog_segment_size_in_mb: 64");
    check("commitlog_total_space: 2GiB", "commitlog_total_space_in_mb: 2048");
    check("batch_size_warn_threshold: 128KiB", "batch_size_warn_threshold_in_kb: 128");
    check("read_request_timeout: 7s", "read_request_timeout_in_ms: 7000");
    check("native_transport_max_frame_size: 256MiB", "native_transport_max_frame_size_in_mb: 256");
    check("data_dir: /var/lib/x", "data_file_directories: [/var/lib/x/data]");
    check("data_dir: /var/lib/x", "workdir: /var/lib/x");
}

#[test]
fn sections_lists_and_classes() {
    let text = "
authenticator: org.apache.cassandra.auth.AllowAllAuthenticator
commitlog_total_space_in_mb: -1
data_file_directories:
    - /d/data
client_encryption_options:
    enabled: true
    certificate: c.pem
    keyfile: k.pem
    truststore:
listen_address: 10.0.0.1
";
    let (config, notes) = yaml(text).unwrap();
    assert_eq!(config.place.data_dir, Path::new("/d"));
    assert!(config.security.client_encryption.enabled);
    assert_eq!(config.security.client_encryption.keyfile.as_deref(), Some(Path::new("k.pem")));
    assert_eq!((config.commitlog.total_bytes, config.security.client_encryption.truststore), (None, None));
    assert_eq!(config.listen.listen_address, "10.0.0.1");
    assert_eq!(notes, []);
    assert_eq!(yaml("").unwrap().0, Config::default());
}

#[test]
fn loggers_have_levels_of_their_own() {
    let levels = |text: &str| yaml(text).unwrap().0.log.levels();
    let section = levels("log_level: warn\nlogger_log_level:\n    compaction: debug\n    cql: error\n");
    assert_eq!(section, levels("log_level: warn\nlogger_log_level: CQL=error:compaction=debug"));
    assert_eq!(section.list()[0], ("ROOT", log::LevelFilter::Warn));
    assert_eq!(section.of("compaction"), log::LevelFilter::Debug);
    assert_eq!(levels("logger_log_level: {}"), Config::default().log.levels());
    assert_eq!(levels("logger_log_level: auto"), Config::default().log.levels());
    assert!(error("logger_log_level: {cql: loud}").contains("a level of error or warn or "));
    assert!(error("logger_log_level: {cql: [debug]}").contains("a structure is not allowed"));
    assert!(error("logger_log_level: debug").contains("expected LOGGER=LEVEL:LOGGER=LEVEL"));
}

/// A `scylla.yaml` has the names of ScyllaDB's loggers.
#[test]
fn levels_of_unknown_loggers_cause_a_warning_and_a_flag_an_error() {
    let (config, notes) =
        yaml("log_level: warn\nlogger_log_level: {compactoin: debug, cql: error, sstable: trace}\n").unwrap();
    let levels = config.log.levels();
    assert_eq!(levels.of("cql"), log::LevelFilter::Error);
    assert_eq!((levels.loggers.len(), levels.of("compaction")), (1, log::LevelFilter::Warn));
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.is_warning && note.text.contains("logger_log_level"), "{}", note.text);
    let names = "no loggers of this node, their levels have no effect: \
                 compactoin (did you mean compaction?), sstable";
    assert!(note.text.ends_with(names), "{}", note.text);

    let (config, notes) = yaml("logger_log_level: sstable=debug").unwrap();
    assert_eq!((config.log.levels(), notes.len()), (Config::default().log.levels(), 1));
    let flag = Setting::flag("--logger-log-level", "logger_log_level", "compactoin=debug");
    assert!(apply(vec![flag]).unwrap_err().to_string().contains("did you mean compaction?"));
}

#[test]
fn the_page_has_each_logger() {
    let page = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let (_, table) = page.split_once("| logger | logs |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with("| `"));
    let on_page: Vec<&str> = rows.filter_map(|line| line.split('`').nth(1)).collect();
    assert_eq!(on_page, crate::log_levels::LOGGERS);
}

#[test]
fn clients_connect_to_rpc_address_if_there_is_one() {
    let check = |text: &str, cql: &str, broadcast: &str| {
        let config = yaml(text).unwrap().0;
        let (listen, identity) = (&config.listen, &config.identity);
        assert_eq!((listen.address(), identity.address(listen)), (cql, broadcast), "{text}");
    };
    check("", "127.0.0.1", "127.0.0.1");
    check("listen_address: 10.1.1.1", "10.1.1.1", "10.1.1.1");
    check(
        "listen_address: 10.1.1.1\nrpc_address: 0.0.0.0\nbroadcast_rpc_address: 10.2.2.2",
        "0.0.0.0",
        "10.2.2.2",
    );
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_what_is_allowed() {
    let check = |text: &str, expected: &str| assert_eq!(error(text), expected);
    check(
        "# head\n\nnative_transport_port: lots\n",
        "m.yaml, line 3: native_transport_port: \"lots\" is not allowed; expected a port, 0 to 65535",
    );
    check(
        "commitlog_sync: sometimes",
        "m.yaml, line 1: commitlog_sync: \"sometimes\" is not allowed; expected periodic or batch or group",
    );
    check(
        "client_encryption_options:\n  # no\n  optional: maybe",
        "m.yaml, line 3: client_encryption_options.optional: \"maybe\" is not allowed; expected true or false",
    );
    check(
        "authorizer: TransitionalAuthorizer",
        "m.yaml, line 1: authorizer: \"TransitionalAuthorizer\" is not allowed; expected AllowAllAuthorizer or CassandraAuthorizer",
    );
    check("smp: 0", "m.yaml, line 1: smp: \"0\" is not allowed; expected auto or a whole number; 1 to 256");
    check(
        "data_file_directories: [/a/data, /b/data]",
        "m.yaml, line 1: data_file_directories: a list of 2 is not allowed; expected one directory; combine several disks below \
         it (RAID 0, LVM)",
    );
    check("api_port: [1]", "m.yaml, line 1: api_port: a list is not allowed; expected port");
    assert!(error("commitlog_sync_period: 10000").contains("expected a number with a unit: 500ms, 10s"));
    assert!(error("commitlog_segment_size: 32MB").contains("64KiB (or 64K)"));
    assert!(error("memory: 1K").contains("; 32MiB to "));
}

#[test]
fn all_errors_are_reported_at_once() {
    assert_eq!(error("smp: x\napi_port: y\ntombstone_warn_threshold: 200000").lines().count(), 3);
    let tls = error("client_encryption_options: {enabled: true}");
    assert!(tls.contains("give both as PEM files"), "{tls}");
}

#[test]
fn what_is_no_yaml_is_an_error_with_its_place() {
    let broken = error("a: 1\nb: [1\nc: 2");
    assert!(broken.starts_with("m.yaml: not YAML: ") && broken.contains("line 3"), "{broken}");
    assert!(error("- a\n- b").contains("expected lines of the form `name: value`"));
    for (text, expected) in [
        ("smp: 1\n# two\nsmp: 2", "m.yaml, line 3: smp is on line 1 already; remove one of them"),
        (
            "a:\n  enabled: true\nb:\n  enabled: false\n  \"enabled\": true",
            "m.yaml, line 5: enabled is on line 4 already; remove one of them",
        ),
        (
            "l:\n  - x: 1\n    y: 1\n  - x: 2\n    x: 3",
            "m.yaml, line 5: x is on line 4 already; remove one of them",
        ),
        (
            "commitlog_sync_period: 5s\nsmp: 1\ncommitlog_sync_period_in_ms: 7",
            "m.yaml, line 3: commitlog_sync_period_in_ms: m.yaml, line 1: commitlog_sync_period is another spelling of it; \
             remove one of them",
        ),
        (
            "partitioner: org.apache.cassandra.dht.RandomPartitioner",
            "m.yaml, line 1: partitioner: \"org.apache.cassandra.dht.RandomPartitioner\" is not allowed; expected \
             Murmur3Partitioner",
        ),
    ] {
        assert_eq!(error(text), expected);
    }
    // Hostile input: exponential expansion of references, and deep nesting.
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..20 {
        let refs = vec![format!("*a{}", i - 1); 9].join(", ");
        bomb.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
    }
    error(&bomb);
    error(&"[".repeat(2_000));
}

#[test]
fn unknown_names_are_noted_with_the_nearest_known_one() {
    let (_, notes) =
        yaml("native_transport_prot: 1\nnum_tokens: 16\nseed_provider: [{class_name: x}]\n").unwrap();
    let texts: Vec<(bool, &str)> = notes.iter().map(|note| (note.is_warning, note.text.as_str())).collect();
    assert_eq!(
        texts,
        [
            (
                true,
                "m.yaml, line 1: native_transport_prot: unknown option, ignored; did you mean native_transport_port?"
            ),
            (
                true,
                "m.yaml: no meaning on one node, so without effect: num_tokens (line 2), seed_provider (line 3)"
            ),
        ]
    );
    let variables = [("MESSINA_MEMROY".to_string(), "1G".to_string())];
    let (_, notes) = apply(from_environment(&variables)).unwrap();
    assert_eq!(
        notes[0].text,
        "environment: MESSINA_MEMROY: unknown option, ignored; did you mean MESSINA_MEMORY?"
    );
    let flag = apply(vec![Setting::flag("--set memroy=1G", "memroy", "1G")]).unwrap_err().to_string();
    assert_eq!(flag, "--set memroy=1G: there is no option memroy; did you mean memory?");
}

#[test]
fn every_option_takes_what_it_shows() {
    for option in OPTIONS {
        let mut config = Config::default();
        let shown = (option.target)(&mut config).show();
        (option.target)(&mut config).set(&shown, super::units::DefaultUnit::Refused).unwrap_or_else(
            |allowed| panic!("{}: {shown} is its default, but {allowed} is expected", option.name),
        );
        assert_eq!(config, Config::default(), "{}", option.name);
    }
}

#[test]
fn names_are_unique_in_files_and_in_the_environment() {
    let mut names: Vec<String> = super::layers::spellings().map(variable).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(find("client_encryption_options").is_none());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The table of options, as `docs/configuration.md` must have it.
fn documentation() -> String {
    let mut text = String::from("| option | default | values | what it does |\n|---|---|---|---|\n");
    for option in OPTIONS {
        let mut config = Config::default();
        let kind = (option.target)(&mut config).kind();
        let default = (option.target)(&mut config).show();
        let also: Vec<String> = option.also.iter().map(|(name, _)| format!("`{name}`")).collect();
        let also = if also.is_empty() { String::new() } else { format!(" Also: {}.", also.join(", ")) };
        text.push_str(&format!("| `{}` | `{default}` | {kind} | {}{also} |\n", option.name, option.what));
    }
    text
}

#[test]
fn the_documentation_has_the_table() {
    let page = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let table = documentation();
    assert!(page.contains(&table), "docs/configuration.md: its table must be\n{table}");
}

#[test]
fn the_documentation_has_the_index() {
    let page = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let index = super::index::markdown();
    assert!(page.ends_with(&index), "docs/configuration.md must end with\n{index}");
}

/// Every name in the documentation of Cassandra and ScyllaDB is recognised.
#[test]
fn every_option_of_cassandra_and_scylladb_is_in_the_index() {
    let known: Vec<&str> = super::index::entries().iter().map(|entry| entry.name).collect();
    for file in ["cassandra-5.0.options", "scylla.options"] {
        let path = root().join("crates/server/tests/data").join(file);
        let names = std::fs::read_to_string(&path).unwrap();
        for name in names.split_whitespace() {
            let is_known = known.contains(&name)
                || super::ignored::why(name).is_some()
                || known.iter().any(|known| known.starts_with(&format!("{name}.")));
            assert!(is_known, "{}: {name}", path.display());
        }
    }
}

#[test]
fn a_name_of_the_index_acts_or_warns() {
    for Entry { name, word, .. } in super::index::entries() {
        let text = match (word, name.split_once('.')) {
            (Word::Acts, _) => continue,
            (_, Some((section, name))) => format!("{section}:\n  {name}: 1"),
            // Any other partitioner prevents the start.
            (_, None) if name == "partitioner" => "partitioner: Murmur3Partitioner".to_string(),
            (_, None) => format!("{name}: 1"),
        };
        match yaml(&text) {
            Ok((_, notes)) => {
                let is_said = |note: &Note| {
                    note.is_warning
                        && note.text.contains("m.yaml")
                        && note.text.contains("line 1")
                        && note.text.contains(name)
                };
                assert!(notes.iter().any(is_said), "{text}: {notes:?}");
            }
            Err(error) => assert!(error.to_string().starts_with("m.yaml, line 1: "), "{text}: {error}"),
        }
    }
}

#[test]
fn the_sample_names_every_option_and_sets_its_default() {
    let path = root().join("conf/messina.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let settings = from_yaml(&path, &text).unwrap();
    let names: Vec<String> = settings.iter().map(|setting| setting.name.clone()).collect();
    let (config, notes) = apply(settings).unwrap();
    assert_eq!((config, notes), (Config::default(), vec![]));
    // `data_file_directories` is another name of `data_dir`; TLS paths have no default.
    let mut config = Config::default();
    let optional = |target: Target<'_>| matches!(target, Target::DataDirectories(_) | Target::AutoPath(_));
    let missing: Vec<&str> = OPTIONS
        .iter()
        .filter(|option| !optional((option.target)(&mut config)))
        .map(|option| option.name)
        .filter(|name| !names.iter().any(|found| found == name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
