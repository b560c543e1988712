//! Values and options for the tests of COPY.

use model::CqlType;
use model::types::{UdtField, UserType};

use super::options::{self, ValueStyle};
use super::statement;

/// The style of a COPY TO with these options.
pub fn style(with: &str) -> ValueStyle {
    let with = if with.is_empty() { String::new() } else { format!("WITH {with}") };
    let statement = statement::parse(&format!("COPY t TO STDOUT {with}")).unwrap();
    options::read(&statement, "ks", 1, &|name| name.into()).unwrap().0.values
}

/// A type; `address` is a UDT.
pub fn type_of(name: &str) -> CqlType {
    let fields = [("street", CqlType::Text), ("zip", CqlType::Int)];
    let fields = fields.map(|(name, field_type)| UdtField { name: name.to_string(), field_type }).to_vec();
    let udt = CqlType::udt(UserType { keyspace: "ks".to_string(), name: "address".to_string(), fields });
    CqlType::from_cql(name, &|name| (name == "address").then(|| udt.clone())).unwrap()
}

/// Values of each type, as CQL literals.
pub const VALUES: &[(&str, &[&str])] = &[
    ("ascii", &["'a'", "'a,b'"]),
    ("text", &["'a'", "'it''s'", "'\"a\", b'", "'tab\t, line\r\n, \\ \u{85}\u{1}'", "'日本 🦀'", "' '"]),
    ("blob", &["0x", "0x00ff"]),
    ("boolean", &["true", "false"]),
    ("tinyint", &["-128", "127"]),
    ("smallint", &["-32768"]),
    ("int", &["0", "2147483647"]),
    ("bigint", &["-9223372036854775808"]),
    ("counter", &["5"]),
    ("varint", &["123456789012345678901234567890"]),
    ("decimal", &["1.50", "-1E+30", "0E-10"]),
    ("float", &["0.1", "-1e38", "1e-40", "Infinity"]),
    ("double", &["0.1", "-1e300", "1e-300", "-Infinity"]),
    ("date", &["'2026-11-24'", "'0001-01-01'"]),
    ("time", &["'23:59:59.999999999'"]),
    ("timestamp", &["0", "-1", "'2026-11-24 18:53:01.123+0000'", "9223372036854775807"]),
    ("duration", &["1y2mo3d4h5m6s7ms8us9ns", "-1d"]),
    ("uuid", &["62c36092-82a1-3a00-93d1-46196ee77204"]),
    ("timeuuid", &["62c36092-82a1-1a00-93d1-46196ee77204"]),
    ("inet", &["'127.0.0.1'", "'2001:db8::1'"]),
    ("list<text>", &["['a', 'it''s', '']", "['[', '{a: b}', '\\n']"]),
    ("set<timestamp>", &["{0, 1}"]),
    ("map<text, int>", &["{'a': 1, 'b: c': 2}"]),
    ("map<inet, frozen<set<double>>>", &["{'::1': {0.1, 2}}"]),
    ("tuple<int, text, boolean>", &["(1, 'a', true)", "(null, '', null)"]),
    ("address", &["{street: 'Elm, \"5\"', zip: 7}", "{street: null, zip: 1}"]),
    ("vector<float, 3>", &["[1, -2.5, 0.1]"]),
    ("list<frozen<address>>", &["[{street: 'a', zip: 1}, {street: 'it''s', zip: 2}]"]),
];
