//! Cassandra's class names of types, as in SSTable headers and `system_schema.dropped_columns`.
//!
//! Examples: `org.apache.cassandra.db.marshal.Int32Type`, `ListType(…)`, `FrozenType(ListType(…))`,
//! `UserType(ks,hex name,hex field:type,…)`, `VectorType(… , 3)`. The package of a class may be omitted. The
//! printed names are exactly Cassandra's, because other tools compare these strings: `FrozenType` surrounds
//! only the outermost frozen type, and does not occur inside a tuple.
//!
//! The parser is stricter than Cassandra's: no text may follow a type, and the empty string is not a type.
//! Source: Cassandra `db/marshal/TypeParser.java`, `UserType.java`, `TupleType.java`, `VectorType.java`.

use std::fmt::Write;

use super::error::{excerpt, type_err};
use super::{CqlType, MAX_DEPTH, TypeError, UdtField, UserType};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Class names without parameters. The first name of a type is printed.
const SIMPLE: &[(&str, CqlType)] = &[
    ("AsciiType", CqlType::Ascii),
    ("LongType", CqlType::BigInt),
    ("BytesType", CqlType::Blob),
    ("BooleanType", CqlType::Boolean),
    ("CounterColumnType", CqlType::Counter),
    ("SimpleDateType", CqlType::Date),
    ("DecimalType", CqlType::Decimal),
    ("DoubleType", CqlType::Double),
    ("DurationType", CqlType::Duration),
    ("EmptyType", CqlType::Empty),
    ("FloatType", CqlType::Float),
    ("InetAddressType", CqlType::Inet),
    ("Int32Type", CqlType::Int),
    ("ShortType", CqlType::SmallInt),
    ("UTF8Type", CqlType::Text),
    ("TimeType", CqlType::Time),
    ("TimestampType", CqlType::Timestamp),
    ("DateType", CqlType::LegacyTimestamp),
    ("TimeUUIDType", CqlType::TimeUuid),
    ("LegacyTimeUUIDType", CqlType::TimeUuid),
    ("ByteType", CqlType::TinyInt),
    ("UUIDType", CqlType::Uuid),
    ("LexicalUUIDType", CqlType::LexicalUuid),
    ("IntegerType", CqlType::Varint),
];

impl CqlType {
    /// Parses a class name.
    ///
    /// # Errors
    /// An unknown class (with its name), a syntax error (with its position in bytes), or more than
    /// [`MAX_DEPTH`] levels.
    pub fn from_java_name(name: &str) -> Result<CqlType, TypeError> {
        let mut parser = Parser { text: name, at: 0 };
        let parsed = parser.type_at(0)?;
        parser.skip_blank();
        if parser.at < name.len() {
            return parser.fail("the end of the type");
        }
        Ok(parsed)
    }

    /// The fully qualified class name, as Cassandra writes it into an SSTable header.
    pub fn to_java_name(&self) -> String {
        let mut out = String::new();
        self.write_java_name(&mut out, false);
        out
    }

    fn write_java_name(&self, out: &mut String, ignore_freezing: bool) {
        let freezable = self.is_collection() || matches!(self, Self::Udt { .. });
        let frozen = freezable && !self.is_multi_cell();
        let wrap = frozen && !ignore_freezing;
        if wrap {
            out.push_str(PACKAGE);
            out.push_str("FrozenType(");
        }
        out.push_str(PACKAGE);
        let inner_ignores = ignore_freezing || frozen;
        match self {
            Self::List { element, .. } => write_parameters(out, "ListType", [&**element], inner_ignores),
            Self::Set { element, .. } => write_parameters(out, "SetType", [&**element], inner_ignores),
            Self::Map { entry, .. } => write_parameters(out, "MapType", [&entry.0, &entry.1], inner_ignores),
            Self::Tuple(components) => write_parameters(out, "TupleType", components.iter(), true),
            Self::Composite(components) => write_parameters(out, "CompositeType", components.iter(), false),
            Self::Reversed(base) => write_parameters(out, "ReversedType", [&**base], false),
            Self::Vector { element, dimension } => {
                out.push_str("VectorType(");
                element.write_java_name(out, ignore_freezing);
                let _infallible = write!(out, " , {dimension})");
            }
            Self::Udt { user, .. } => {
                let _infallible = write!(out, "UserType({},", user.keyspace);
                push_hex(out, user.name.as_bytes());
                for field in &user.fields {
                    out.push(',');
                    push_hex(out, field.name.as_bytes());
                    out.push(':');
                    field.field_type.write_java_name(out, inner_ignores);
                }
                out.push(')');
            }
            simple => {
                let row = SIMPLE.iter().find(|(_, cql_type)| cql_type == simple);
                out.push_str(row.expect("every other type is in SIMPLE").0);
            }
        }
        if wrap {
            out.push(')');
        }
    }
}

fn write_parameters<'a>(
    out: &mut String,
    class: &str,
    types: impl IntoIterator<Item = &'a CqlType>,
    ignore_freezing: bool,
) {
    out.push_str(class);
    out.push('(');
    for (i, parameter) in types.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        parameter.write_java_name(out, ignore_freezing);
    }
    out.push(')');
}

/// Appends lower-case hexadecimal digits, two per byte.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Parses an even number of hexadecimal digits.
pub(crate) fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn fail<T>(&self, expected: &str) -> Result<T, TypeError> {
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => format!("'{found}'"),
            None => "the end".to_owned(),
        };
        type_err!(
            "Error setting type {}: expected {expected} at byte {}, found {found}",
            excerpt(self.text),
            self.at
        )
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n')) {
            self.at += 1;
        }
    }

    /// Skips blanks and at most one comma.
    fn skip_separator(&mut self) {
        self.skip_blank();
        if self.peek() == Some(b',') {
            self.at += 1;
            self.skip_blank();
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), TypeError> {
        self.skip_blank();
        if self.peek() != Some(byte) {
            return self.fail(&format!("'{}'", char::from(byte)));
        }
        self.at += 1;
        Ok(())
    }

    /// Consumes `byte` if it is next.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_blank();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn identifier(&mut self) -> Result<&'a str, TypeError> {
        self.skip_blank();
        let start = self.at;
        while matches!(self.peek(), Some(byte) if byte.is_ascii_alphanumeric() || b"-+._&".contains(&byte)) {
            self.at += 1;
        }
        if start == self.at {
            return self.fail("a name");
        }
        Ok(&self.text[start..self.at])
    }

    fn type_at(&mut self, depth: usize) -> Result<CqlType, TypeError> {
        if depth >= MAX_DEPTH {
            return type_err!(
                "Error setting type {}: it nests more than {MAX_DEPTH} levels, at byte {}",
                excerpt(self.text),
                self.at
            );
        }
        let full_name = self.identifier()?;
        let class = full_name.strip_prefix(PACKAGE).unwrap_or(full_name);
        if let Some((_, simple)) = SIMPLE.iter().find(|(name, _)| *name == class) {
            return self.legacy_parameters(simple.clone());
        }
        match class {
            "ListType" => Ok(CqlType::list(self.one(class, depth)?)),
            "SetType" => Ok(CqlType::set(self.one(class, depth)?)),
            "FrozenType" => Ok(self.one(class, depth)?.freeze()),
            "ReversedType" => Ok(CqlType::reversed(self.one(class, depth)?)),
            "MapType" => {
                let parameters = self.parameters(class, depth)?;
                match <[CqlType; 2]>::try_from(parameters) {
                    Ok([key, value]) => Ok(CqlType::map(key, value)),
                    Err(other) => self.wrong_count(class, 2, other.len()),
                }
            }
            "TupleType" => Ok(CqlType::tuple(self.parameters(class, depth)?)),
            "CompositeType" => {
                let components = self.parameters(class, depth)?;
                if components.is_empty() {
                    return self.wrong_count(class, 1, 0);
                }
                Ok(CqlType::composite(components))
            }
            "UserType" => self.user_type(depth),
            "VectorType" => {
                self.expect(b'(')?;
                let element = self.type_at(depth + 1)?;
                self.expect(b',')?;
                let digits = self.identifier()?;
                let Ok(dimension) = digits.parse() else {
                    return type_err!(
                        "Error setting type {}: '{digits}' is not a dimension",
                        excerpt(self.text)
                    );
                };
                self.expect(b')')?;
                CqlType::vector(element, dimension)
            }
            _ => type_err!(
                "Error setting type {}: Unable to find abstract-type class '{}{}'",
                excerpt(self.text),
                if full_name.contains('.') { "" } else { PACKAGE },
                excerpt(full_name)
            ),
        }
    }

    fn wrong_count<T>(&self, class: &str, expected: usize, found: usize) -> Result<T, TypeError> {
        type_err!(
            "Error setting type {}: {class} takes {expected} type parameters, found {found}",
            excerpt(self.text)
        )
    }

    fn one(&mut self, class: &str, depth: usize) -> Result<CqlType, TypeError> {
        let parameters = self.parameters(class, depth)?;
        match <[CqlType; 1]>::try_from(parameters) {
            Ok([only]) => Ok(only),
            Err(other) => self.wrong_count(class, 1, other.len()),
        }
    }

    fn parameters(&mut self, class: &str, depth: usize) -> Result<Vec<CqlType>, TypeError> {
        if !self.take(b'(') {
            return self.fail(&format!("'(' after {class}"));
        }
        let mut types = vec![];
        loop {
            self.skip_separator();
            if self.take(b')') {
                return Ok(types);
            }
            types.push(self.type_at(depth + 1)?);
            self.skip_blank();
            if !matches!(self.peek(), Some(b',' | b')')) {
                return self.fail("',' or ')'");
            }
        }
    }

    /// Parses parameters like `Int32Type(reversed=true)`, which Cassandra 0.8 wrote for a descending order.
    fn legacy_parameters(&mut self, base: CqlType) -> Result<CqlType, TypeError> {
        if !self.take(b'(') {
            return Ok(base);
        }
        let mut reversed = false;
        loop {
            self.skip_separator();
            if self.take(b')') {
                return Ok(if reversed { CqlType::reversed(base) } else { base });
            }
            let key = self.identifier()?;
            let value = if self.take(b'=') { self.identifier()? } else { "" };
            reversed |= key == "reversed" && matches!(value, "" | "true");
            self.skip_blank();
            if !matches!(self.peek(), Some(b',' | b')')) {
                return self.fail("',' or ')'");
            }
        }
    }

    fn hex_name(&mut self) -> Result<String, TypeError> {
        let at = self.at;
        let hex = self.identifier()?;
        match parse_hex(hex).and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(name) => Ok(name),
            None => type_err!(
                "Error setting type {}: '{}' at byte {at} is not a UTF-8 name in hexadecimal",
                excerpt(self.text),
                excerpt(hex)
            ),
        }
    }

    fn user_type(&mut self, depth: usize) -> Result<CqlType, TypeError> {
        self.expect(b'(')?;
        let keyspace = self.identifier()?.to_owned();
        self.skip_separator();
        let name = self.hex_name()?;
        let mut fields = vec![];
        loop {
            self.skip_separator();
            if self.take(b')') {
                return Ok(CqlType::udt(UserType { keyspace, name, fields }));
            }
            let name = self.hex_name()?;
            self.expect(b':')?;
            fields.push(UdtField { name, field_type: self.type_at(depth + 1)? });
            self.skip_blank();
            if !matches!(self.peek(), Some(b',' | b')')) {
                return self.fail("',' or ')'");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(short: &str) -> String {
        // The package is added to every word that ends in "Type".
        let mut out = String::new();
        for token in short.split_inclusive(['(', ',', ')', ':', ' ']) {
            if token.trim_end_matches(['(', ',', ')', ':', ' ']).ends_with("Type") {
                out.push_str(PACKAGE);
            }
            out.push_str(token);
        }
        out
    }

    #[test]
    fn names_print_as_they_were_read() {
        for short in [
            "Int32Type",
            "ListType(Int32Type)",
            "FrozenType(ListType(Int32Type))",
            "MapType(UTF8Type,FrozenType(SetType(UUIDType)))",
            "FrozenType(MapType(UTF8Type,SetType(UUIDType)))",
            "ReversedType(TimestampType)",
            "ReversedType(FrozenType(ListType(Int32Type)))",
            "CompositeType(Int32Type,UTF8Type,FrozenType(ListType(Int32Type)))",
            "TupleType(Int32Type,ListType(Int32Type),UserType(ks,61,62:Int32Type))",
            "FrozenType(UserType(ks,61,62:ListType(Int32Type)))",
            "UserType(ks,61646472,737472:UTF8Type,70:FrozenType(ListType(Int32Type)))",
            "VectorType(FloatType , 3)",
            "VectorType(FrozenType(ListType(Int32Type)) , 2)",
            "FrozenType(ListType(VectorType(ListType(Int32Type) , 2)))",
            "ListType(ListType(Int32Type))",
        ] {
            let name = full(short);
            let parsed = CqlType::from_java_name(&name).unwrap();
            assert_eq!(parsed.to_java_name(), name);
            assert_eq!(CqlType::from_java_name(short).unwrap(), parsed, "without packages");
        }
        for (name, cql_type) in SIMPLE {
            let parsed = CqlType::from_java_name(name).unwrap();
            assert_eq!(&parsed, cql_type);
            assert_eq!(CqlType::from_java_name(&parsed.to_java_name()).unwrap(), parsed);
        }
    }

    #[test]
    fn older_spellings_are_read() {
        let read = |name: &str| CqlType::from_java_name(name).unwrap();
        assert_eq!(read("Int32Type(reversed=true)"), CqlType::reversed(CqlType::Int));
        assert_eq!(read("Int32Type(reversed=false)"), CqlType::Int);
        assert_eq!(read("LegacyTimeUUIDType"), CqlType::TimeUuid);
        assert_eq!(read(" MapType ( Int32Type , UTF8Type ) "), CqlType::map(CqlType::Int, CqlType::Text));
        assert_eq!(
            read("TupleType(FrozenType(ListType(Int32Type)))"),
            read("TupleType(ListType(Int32Type))")
        );
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let error = |name: &str| CqlType::from_java_name(name).unwrap_err().to_string();
        assert!(
            error("com.example.PointType")
                .contains("Unable to find abstract-type class 'com.example.PointType'")
        );
        assert!(error("DynamicCompositeType(a=>Int32Type)").contains(".DynamicCompositeType'"));
        assert!(error("Int32Type)").contains("expected the end of the type at byte 9, found ')'"));
        assert!(error("ListType(Int32Type").contains("expected ',' or ')' at byte 18, found the end"));
        assert!(error("ListType").contains("expected '(' after ListType"));
        assert!(error("MapType(Int32Type)").contains("takes 2 type parameters, found 1"));
        assert!(error("UserType(ks,6g,61:Int32Type)").contains("'6g' at byte 12"));
        assert!(error("UserType(ks,ff)").contains("'ff'"), "not UTF-8");
        assert!(error("VectorType(Int32Type,x)").contains("'x' is not a dimension"));
        assert!(error("").contains("expected a name at byte 0, found the end"));
        assert!(error("ListType(é)").contains("found 'é'"));
    }

    #[test]
    fn depth_is_limited() {
        let nested =
            |levels: usize| format!("{}Int32Type{}", "FrozenType(".repeat(levels), ")".repeat(levels));
        assert!(CqlType::from_java_name(&nested(MAX_DEPTH - 1)).is_ok());
        let error = CqlType::from_java_name(&nested(MAX_DEPTH)).unwrap_err().to_string();
        assert!(error.contains("more than 100 levels"), "{error}");
        assert!(CqlType::from_java_name(&"ListType(".repeat(1_000_000)).is_err());
    }
}
