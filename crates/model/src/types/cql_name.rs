//! CQL names of types: `frozen<map<text, list<int>>>`.
//!
//! Names are printed as in Cassandra's schema tables: `frozen<…>` surrounds every frozen collection, UDT and
//! tuple, at every level; user-defined types are printed without their keyspace. Internal types are printed
//! as their quoted class name, which is CQL's syntax for custom types, and can be parsed back. The parser
//! also accepts shorter forms: types inside a frozen type are frozen. Source: Cassandra 4.1
//! `cql3/CQL3Type.java`, `ColumnIdentifier.java`, `reserved_keywords.txt`.

use super::error::{excerpt, type_err};
use super::{CqlType, MAX_DEPTH, TypeError};

const NATIVE: &[(&str, CqlType)] = &[
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::BigInt),
    ("blob", CqlType::Blob),
    ("boolean", CqlType::Boolean),
    ("counter", CqlType::Counter),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
    ("empty", CqlType::Empty),
    ("float", CqlType::Float),
    ("inet", CqlType::Inet),
    ("int", CqlType::Int),
    ("smallint", CqlType::SmallInt),
    ("text", CqlType::Text),
    ("time", CqlType::Time),
    ("timestamp", CqlType::Timestamp),
    ("timeuuid", CqlType::TimeUuid),
    ("tinyint", CqlType::TinyInt),
    ("uuid", CqlType::Uuid),
    ("varchar", CqlType::Text),
    ("varint", CqlType::Varint),
];

/// Reserved words, which are identifiers only if quoted.
const RESERVED: &[&str] = &[
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

/// Appends a name such that CQL parses it back: in double quotes if it is not lower case or is reserved.
pub fn push_identifier(out: &mut String, name: &str) {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !RESERVED.contains(&name);
    if plain {
        out.push_str(name);
    } else {
        out.push('"');
        out.push_str(&name.replace('"', "\"\""));
        out.push('"');
    }
}

impl CqlType {
    /// The CQL name of the type. The order of a reversed type is not part of it.
    pub fn to_cql(&self) -> String {
        let mut out = String::new();
        self.write_cql(&mut out);
        out
    }

    fn write_cql(&self, out: &mut String) {
        let freezable = self.is_collection() || matches!(self, Self::Udt { .. } | Self::Tuple(_));
        let frozen = freezable && !self.is_multi_cell();
        if frozen {
            out.push_str("frozen<");
        }
        match self {
            Self::List { element, .. } => write_arguments(out, "list", [&**element]),
            Self::Set { element, .. } => write_arguments(out, "set", [&**element]),
            Self::Map { entry, .. } => write_arguments(out, "map", [&entry.0, &entry.1]),
            Self::Tuple(components) => write_arguments(out, "tuple", components.iter()),
            // Without quotes it would be parsed as the native type of that name.
            Self::Udt { user, .. } if NATIVE.iter().any(|(native, _)| *native == user.name) => {
                out.push_str(&format!("\"{}\"", user.name));
            }
            Self::Udt { user, .. } => push_identifier(out, &user.name),
            Self::Vector { element, dimension } => {
                out.push_str("vector<");
                element.write_cql(out);
                out.push_str(&format!(", {dimension}>"));
            }
            Self::Reversed(base) => base.write_cql(out),
            Self::LegacyTimestamp => out.push_str("timestamp"),
            Self::LexicalUuid | Self::Composite(_) => {
                out.push('\'');
                out.push_str(&self.to_java_name());
                out.push('\'');
            }
            native => {
                let row = NATIVE.iter().find(|(_, cql_type)| cql_type == native);
                out.push_str(row.expect("every other type is in NATIVE").0);
            }
        }
        if frozen {
            out.push('>');
        }
    }

    /// Parses a CQL name. `udts` is called for every name that is not native, in the form `name` or
    /// `keyspace.name`, without quotes (lower case if it was not quoted), and returns the non-frozen type.
    ///
    /// # Errors
    /// Invalid syntax, an unknown type, a non-frozen collection or UDT in a non-frozen collection, a counter
    /// inside another type, a duration in a set or as a map's key, or more than [`MAX_DEPTH`] levels.
    pub fn from_cql(text: &str, udts: &dyn Fn(&str) -> Option<CqlType>) -> Result<CqlType, TypeError> {
        let mut scanner = Scanner::new(text);
        let parsed = type_at(&mut scanner, udts, 0, false)?;
        scanner.end()?;
        Ok(parsed)
    }
}

fn write_arguments<'a>(out: &mut String, name: &str, arguments: impl IntoIterator<Item = &'a CqlType>) {
    out.push_str(name);
    out.push('<');
    for (i, argument) in arguments.into_iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        argument.write_cql(out);
    }
    out.push('>');
}

/// `in_frozen`: a surrounding type is frozen, so this one is frozen even without the keyword.
fn type_at(
    scanner: &mut Scanner<'_>,
    udts: &dyn Fn(&str) -> Option<CqlType>,
    depth: usize,
    in_frozen: bool,
) -> Result<CqlType, TypeError> {
    if depth >= MAX_DEPTH {
        return type_err!("type '{}' nests more than {MAX_DEPTH} levels", excerpt(scanner.text));
    }
    if let Some(class) = scanner.quoted_string()? {
        return CqlType::from_java_name(&class);
    }
    let quoted = scanner.at('"');
    let mut name = scanner.identifier()?;
    let parametrized = !quoted && scanner.at('<');
    if !parametrized {
        if scanner.take('.') {
            name = format!("{name}.{}", scanner.identifier()?);
        } else if let Some((_, native)) = NATIVE.iter().find(|(native, _)| !quoted && *native == name) {
            return Ok(native.clone());
        }
        let Some(udt) = udts(&name) else {
            return type_err!("type '{}': unknown type '{}'", excerpt(scanner.text), excerpt(&name));
        };
        return Ok(if in_frozen { udt.freeze() } else { udt });
    }
    scanner.expect('<')?;
    let parsed = match name.as_str() {
        "frozen" => {
            let inner = type_at(scanner, udts, depth + 1, true)?;
            if !inner.is_collection()
                && !matches!(inner, CqlType::Udt { .. } | CqlType::Tuple(_) | CqlType::Vector { .. })
            {
                return type_err!(
                    "frozen<> is only allowed on collections, tuples, and user-defined types (got {})",
                    inner.to_cql()
                );
            }
            inner.freeze()
        }
        "list" => CqlType::list(element_at(scanner, udts, depth, in_frozen)?),
        "set" => {
            let element = element_at(scanner, udts, depth, in_frozen)?;
            if element == CqlType::Duration {
                return type_err!("Durations are not allowed inside sets: set<duration>");
            }
            CqlType::set(element)
        }
        "map" => {
            let key = element_at(scanner, udts, depth, in_frozen)?;
            if key == CqlType::Duration {
                return type_err!("Durations are not allowed as map keys: {}", excerpt(scanner.text));
            }
            scanner.expect(',')?;
            CqlType::map(key, element_at(scanner, udts, depth, in_frozen)?)
        }
        "tuple" => {
            let mut components = vec![];
            loop {
                let component = type_at(scanner, udts, depth + 1, true)?;
                if component.is_counter() {
                    return type_err!("Counters are not allowed inside tuples");
                }
                components.push(component);
                if !scanner.take(',') {
                    break;
                }
            }
            CqlType::tuple(components)
        }
        "vector" => {
            let element = element_at(scanner, udts, depth, true)?;
            scanner.expect(',')?;
            let digits = scanner.bare_token();
            let Ok(dimension) = digits.parse() else {
                return scanner.fail("a dimension");
            };
            CqlType::vector(element, dimension)?
        }
        _ => return type_err!("type '{}': '{}' takes no parameters", excerpt(scanner.text), excerpt(&name)),
    };
    scanner.expect('>')?;
    Ok(if in_frozen { parsed.freeze() } else { parsed })
}

fn element_at(
    scanner: &mut Scanner<'_>,
    udts: &dyn Fn(&str) -> Option<CqlType>,
    depth: usize,
    in_frozen: bool,
) -> Result<CqlType, TypeError> {
    let element = type_at(scanner, udts, depth + 1, in_frozen)?;
    if element.is_counter() {
        return type_err!("Counters are not allowed inside collections: {}", excerpt(scanner.text));
    }
    if !element.is_multi_cell() {
        return Ok(element);
    }
    let kind = if element.is_collection() { "collections" } else { "UDTs" };
    type_err!(
        "Non-frozen {kind} are not allowed inside collections: {}; write frozen<{}>",
        excerpt(scanner.text),
        element.to_cql()
    )
}

/// A scanner of CQL text: the lexical forms that type names and literals share.
pub(crate) struct Scanner<'a> {
    pub(crate) text: &'a str,
    offset: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, offset: 0 }
    }

    /// The remaining text, without leading blanks.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.offset..];
        let trimmed = rest.trim_start();
        self.offset += rest.len() - trimmed.len();
        trimmed
    }

    pub(crate) fn fail<T>(&mut self, expected: &str) -> Result<T, TypeError> {
        let found = match self.rest().chars().next() {
            Some(found) => format!("'{found}'"),
            None => "the end".to_owned(),
        };
        type_err!("'{}': expected {expected} at byte {}, found {found}", excerpt(self.text), self.offset)
    }

    pub(crate) fn at(&mut self, c: char) -> bool {
        self.rest().starts_with(c)
    }

    /// Consumes `c` if it is next.
    pub(crate) fn take(&mut self, c: char) -> bool {
        let found = self.at(c);
        self.offset += if found { c.len_utf8() } else { 0 };
        found
    }

    pub(crate) fn expect(&mut self, c: char) -> Result<(), TypeError> {
        if self.take(c) { Ok(()) } else { self.fail(&format!("'{c}'")) }
    }

    /// After an element: consumes a comma (true: more elements follow) or the closing bracket (false).
    pub(crate) fn more(&mut self, close: char) -> Result<bool, TypeError> {
        if self.take(',') {
            Ok(true)
        } else if self.take(close) {
            Ok(false)
        } else {
            self.fail(&format!("',' or '{close}'"))
        }
    }

    pub(crate) fn end(&mut self) -> Result<(), TypeError> {
        if self.rest().is_empty() { Ok(()) } else { self.fail("the end") }
    }

    /// Consumes `word`, in any case, if it is the next bare token.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let before = self.offset;
        let found = self.bare_token().eq_ignore_ascii_case(word);
        if !found {
            self.offset = before;
        }
        found
    }

    /// Consumes the text up to a blank, a bracket, a quote, a comma or a colon; it may be empty.
    pub(crate) fn bare_token(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || "[]{}()<>,:'\"".contains(c)).unwrap_or(rest.len());
        self.offset += end;
        &rest[..end]
    }

    /// Consumes a constant `0x…` if it is next, and returns its digits.
    pub(crate) fn hex_constant(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        if !rest.starts_with("0x") && !rest.starts_with("0X") {
            return None;
        }
        Some(&self.bare_token()[2..])
    }

    /// Consumes a string like `'it''s'` or `$$it's$$` if one is next.
    pub(crate) fn quoted_string(&mut self) -> Result<Option<String>, TypeError> {
        let rest = self.rest();
        if let Some(raw) = rest.strip_prefix("$$") {
            let Some(end) = raw.find("$$") else {
                return type_err!("'{}': $$ at byte {} is not closed", excerpt(self.text), self.offset);
            };
            self.offset += end + 4;
            return Ok(Some(raw[..end].to_owned()));
        }
        self.quoted('\'')
    }

    /// Consumes a name; it is converted to lower case unless it is in double quotes.
    pub(crate) fn identifier(&mut self) -> Result<String, TypeError> {
        if let Some(quoted) = self.quoted('"')? {
            return Ok(quoted);
        }
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end == 0 || !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return self.fail("a name");
        }
        self.offset += end;
        Ok(rest[..end].to_ascii_lowercase())
    }

    fn quoted(&mut self, quote: char) -> Result<Option<String>, TypeError> {
        let Some(mut rest) = self.rest().strip_prefix(quote) else {
            return Ok(None);
        };
        let start = self.offset;
        let mut out = String::new();
        loop {
            let Some(end) = rest.find(quote) else {
                return type_err!("'{}': {quote} at byte {start} is not closed", excerpt(self.text));
            };
            out.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix(quote) {
                Some(after) => {
                    out.push(quote);
                    rest = after;
                }
                None => {
                    self.offset = self.text.len() - rest.len();
                    return Ok(Some(out));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{UdtField, UserType};

    fn udts(name: &str) -> Option<CqlType> {
        let fields = vec![UdtField { name: "street".into(), field_type: CqlType::Text }];
        ["address", "ks.address", "Select"].contains(&name).then(|| {
            CqlType::udt(UserType {
                keyspace: "ks".into(),
                name: name.trim_start_matches("ks.").into(),
                fields,
            })
        })
    }

    #[test]
    fn names_print_as_the_schema_tables_have_them() {
        for name in [
            "int",
            "text",
            "map<text, int>",
            "frozen<map<text, frozen<list<int>>>>",
            "list<frozen<address>>",
            "frozen<tuple<int, frozen<set<text>>, frozen<address>>>",
            "list<frozen<tuple<int, int>>>",
            "vector<float, 3>",
            "\"Select\"",
            "empty",
            "'org.apache.cassandra.db.marshal.LexicalUUIDType'",
            "duration",
        ] {
            let parsed = CqlType::from_cql(name, &udts).unwrap();
            assert_eq!(parsed.to_cql(), name);
        }
        assert_eq!(CqlType::reversed(CqlType::LegacyTimestamp).to_cql(), "timestamp");
        for (name, cql_type) in NATIVE {
            assert_eq!(&CqlType::from_cql(name, &udts).unwrap(), cql_type);
        }
    }

    #[test]
    fn shorter_spellings_mean_the_same() {
        let read = |text: &str| CqlType::from_cql(text, &udts).unwrap();
        assert_eq!(read("frozen<map<text, list<int>>>"), read("frozen<map<text, frozen<list<int>>>>"));
        assert_eq!(
            read("tuple<list<int>, address>"),
            read("frozen<tuple<frozen<list<int>>, frozen<address>>>")
        );
        assert_eq!(read(" LIST < VarChar > "), read("list<text>"));
        assert_eq!(read("ks.address"), read("address"));
        assert_eq!(read("'Int32Type'"), CqlType::Int);
        assert!(
            read("list<int>").is_multi_cell() && !read("vector<list<int>, 2>").any(&CqlType::is_multi_cell)
        );
    }

    #[test]
    fn errors_name_what_cql_does_not_allow() {
        let error = |text: &str| CqlType::from_cql(text, &udts).unwrap_err().to_string();
        assert!(
            error("list<list<int>>").contains("Non-frozen collections are not allowed inside collections")
        );
        assert!(error("list<address>").contains("Non-frozen UDTs"));
        assert!(error("set<duration>").contains("Durations are not allowed inside sets"));
        assert!(error("map<duration, int>").contains("Durations are not allowed as map keys"));
        assert!(error("list<counter>").contains("Counters are not allowed"));
        assert!(error("frozen<int>").contains("frozen<> is only allowed on"));
        assert!(error("nothing").contains("unknown type 'nothing'"));
        assert!(error("list<int").contains("expected '>' at byte 8, found the end"));
        assert!(error("int int").contains("expected the end at byte 4"));
        assert!(error("int<int>").contains("'int' takes no parameters"));
        assert!(error("vector<int, 0>").contains("positive dimensions; given 0"));
        assert!(error(&"frozen<".repeat(100_000)).contains("more than 100 levels"));
        assert!(error("").contains("expected a name"));
        assert!(error("\"a").contains("is not closed"));
    }
}
