//! Golden tests: names, values and order of types, compared with the Python driver and Cassandra.
//!
//! The files in `testdata/` were written by the programs next to them; to add cases, the programs are run
//! again.

use std::cmp::Ordering;

use super::java_name::{parse_hex, push_hex};
use super::{CqlType, build_composite};

const DRIVER: &str = include_str!("../../testdata/driver_values.txt");
const CASSANDRA: [&str; 2] = [
    include_str!("../../testdata/cassandra_types.txt"),
    include_str!("../../testdata/cassandra_vectors.txt"),
];

fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    push_hex(&mut out, bytes);
    out
}

fn cql(name: &str) -> CqlType {
    CqlType::from_cql(name, &|_| None).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn cassandra(kind: &str) -> impl Iterator<Item = Vec<&str>> {
    CASSANDRA.into_iter().flat_map(move |file| lines(file, kind))
}

/// The fields of the lines that start with `kind`, without `kind`.
fn lines<'a>(file: &'a str, kind: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    let fields = file.split('\n').map(|line| line.split('\t').collect::<Vec<_>>());
    fields.filter(move |fields| fields[0] == kind).map(|mut fields| fields.split_off(1))
}

#[test]
fn the_drivers_bytes_are_ours_and_read_back_as_its_text() {
    let mut seen = 0;
    for line in lines(DRIVER, "value") {
        let [name, literal, expect] = line[..] else { panic!("{line:?}") };
        let cql_type = cql(name);
        let bytes = cql_type.bytes_of(literal).unwrap_or_else(|error| panic!("{name} {literal}: {error}"));
        assert_eq!(hex(&bytes), expect, "{name} {literal}");
        assert_eq!(cql_type.validate(&bytes), Ok(()), "{name} {literal}");
        assert_eq!(cql_type.text_of(&bytes), literal, "{name} {expect}");
        seen += 1;
    }
    assert!(seen > 200, "{seen} lines");
}

#[test]
fn the_drivers_tokens_are_ours() {
    let mut seen = 0;
    for line in lines(DRIVER, "token") {
        let [key, token] = line[..] else { panic!("{line:?}") };
        assert_eq!(base::murmur3::token(&parse_hex(key).unwrap()).to_string(), token, "{key}");
        seen += 1;
    }
    assert!(seen > 100, "{seen} lines");
}

#[test]
fn the_drivers_routing_keys_are_ours() {
    let mut seen = 0;
    for line in lines(DRIVER, "key") {
        let [literals, names, key, token] = line[..] else { panic!("{line:?}") };
        let parts: Vec<_> = names
            .split(", ")
            .zip(literals.split(" | "))
            .map(|(name, literal)| cql(name).bytes_of(literal).unwrap())
            .collect();
        let bytes = build_composite(parts.iter().map(Vec::as_slice));
        assert_eq!(hex(&bytes), key, "{literals}");
        assert_eq!(base::murmur3::token(&bytes).to_string(), token, "{literals}");
        assert_eq!(CqlType::composite(names.split(", ").map(cql)).validate(&bytes), Ok(()));
        seen += 1;
    }
    assert!(seen >= 4, "{seen} lines");
}

#[test]
fn cassandras_type_names_are_ours() {
    let mut seen = 0;
    for line in cassandra("type") {
        let [given, printed, cql_name] = line[..] else { panic!("{line:?}") };
        let parsed = CqlType::from_java_name(given);
        if printed == "!" {
            assert!(parsed.is_err(), "{given}");
        } else {
            let parsed = parsed.unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(parsed.to_java_name(), printed);
            assert_eq!(CqlType::from_java_name(printed).unwrap(), parsed);
            // Cassandra freezes only the outermost type that is marked as frozen; types inside it are stored
            // frozen anyway.
            let same =
                parsed.to_cql() == cql_name || CqlType::from_cql(cql_name, &|_| None).as_ref() == Ok(&parsed);
            assert!(same, "{} and {cql_name}", parsed.to_cql());
        }
        seen += 1;
    }
    assert!(seen > 40, "{seen} lines");
}

#[test]
fn cassandras_verdicts_and_texts_are_ours() {
    let mut seen = 0;
    let mut differences = vec![];
    for line in cassandra("value") {
        let [name, digits, verdict, json, raw] = line[..] else { panic!("{line:?}") };
        let cql_type = CqlType::from_java_name(name).unwrap();
        let bytes = parse_hex(digits.trim_matches('-')).unwrap();
        let mut check = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                differences.push(format!("{name} {digits} {what}: ours {ours}, theirs {theirs}"));
            }
        };
        let ours = cql_type.validate(&bytes).map_or_else(|error| error.to_string(), |()| "ok".to_owned());
        // The text here may continue after Cassandra's. For short input, Cassandra's text may come from
        // Java's buffers.
        let short = ["Not enough bytes", "newLimit > capacity"];
        let same_kind = |text: &str| short.iter().any(|start| text.starts_with(start));
        let agree = ours.starts_with(verdict) || (same_kind(&ours) && same_kind(verdict));
        if !agree {
            check("verdict", ours, verdict.to_owned());
        }
        if verdict == "ok" {
            let unescape = |text: &str| {
                text.replace("\\\\", "\u{fffe}")
                    .replace("\\t", "\t")
                    .replace("\\n", "\n")
                    .replace('\u{fffe}', "\\")
            };
            if json != "!" {
                check("JSON", cql_type.json_of(&bytes), unescape(json));
            }
            if raw != "!" {
                check("raw text", cql_type.raw_text_of(&bytes), unescape(raw));
            }
        }
        seen += 1;
    }
    assert!(seen > 350, "{seen} lines");
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn cassandras_order_is_ours() {
    let mut pairs = 0;
    for line in cassandra("order") {
        let [name, order] = line[..] else { panic!("{line:?}") };
        let cql_type = CqlType::from_java_name(name).unwrap();
        let valid: Vec<_> = cassandra("value")
            .filter(|value| value[0] == name && value[2] == "ok")
            .map(|value| parse_hex(value[1].trim_matches('-')).unwrap())
            .collect();
        let mut signs = order.chars();
        for (i, a) in valid.iter().enumerate() {
            for b in &valid[i + 1..] {
                let theirs = match signs.next().unwrap() {
                    '<' => Ordering::Less,
                    '>' => Ordering::Greater,
                    '=' => Ordering::Equal,
                    // Cassandra throws an exception for an empty tinyint in a collection, and for a counter.
                    '!' => continue,
                    other => panic!("{other}"),
                };
                assert_eq!(cql_type.compare(a, b), theirs, "{name} {} {}", hex(a), hex(b));
                assert_eq!(cql_type.compare(b, a), theirs.reverse(), "{name} {} {}", hex(b), hex(a));
                pairs += 1;
            }
        }
        assert_eq!(signs.next(), None, "{name}");
    }
    assert!(pairs > 2_000, "{pairs} pairs");
}
