//! JSON parser. Numbers keep their digits, because the type of the column determines their type.
//!
//! Source: RFC 8259. If an object has duplicate keys, the last value is kept, as in Cassandra's parser.

use std::fmt;

use super::TypeError;
use super::error::{excerpt, type_err};

/// The deepest nesting of objects and arrays; a deeper text is refused.
const DEPTH_MAX: usize = 100;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// The text of the number, unchanged.
    Number(String),
    /// A string, without its escapes.
    String(String),
    /// An array, in order.
    Array(Vec<Json>),
    /// Keys are unique, in the order of the text.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// # Errors
    /// The text is not a JSON value, or is nested too deeply; the error contains the byte offset.
    pub fn parse(text: &str) -> Result<Self, TypeError> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.skip_blank();
        match parser.rest().is_empty() {
            true => Ok(value),
            false => parser.expected("the end"),
        }
    }

    /// The kind of the value in Cassandra's errors: a Java class name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "Boolean",
            Self::String(_) => "String",
            Self::Array(_) => "ArrayList",
            Self::Object(_) => "LinkedHashMap",
            Self::Number(number) if number.contains(['.', 'e', 'E']) => "Double",
            Self::Number(number) if number.parse::<i32>().is_ok() => "Integer",
            Self::Number(number) if number.parse::<i64>().is_ok() => "Long",
            Self::Number(_) => "BigInteger",
        }
    }
}

/// The text that Java prints for the value, as in Cassandra's errors.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Number(text) | Self::String(text) => f.write_str(text),
            Self::Array(elements) => {
                f.write_str("[")?;
                for (number, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if number > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Object(fields) => {
                f.write_str("{")?;
                for (number, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}={value}", if number > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blank(&mut self) {
        let rest = self.rest().trim_start_matches([' ', '\t', '\n', '\r']);
        self.at = self.text.len() - rest.len();
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.rest().starts_with(token);
        self.at += if is_there { token.len() } else { 0 };
        is_there
    }

    fn expected<T>(&self, what: &str) -> Result<T, TypeError> {
        type_err!("expected {what} at byte {} of the JSON, found '{}'", self.at, excerpt(self.rest()))
    }

    fn value(&mut self, depth: usize) -> Result<Json, TypeError> {
        if depth > DEPTH_MAX {
            return type_err!("the JSON is nested more than {DEPTH_MAX} levels deep");
        }
        self.skip_blank();
        match self.rest().bytes().next() {
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'[') => {
                self.at += 1;
                let mut elements = vec![];
                self.skip_blank();
                if self.take("]") {
                    return Ok(Json::Array(elements));
                }
                loop {
                    elements.push(self.value(depth + 1)?);
                    self.skip_blank();
                    if self.take("]") {
                        return Ok(Json::Array(elements));
                    }
                    if !self.take(",") {
                        return self.expected("',' or ']'");
                    }
                }
            }
            Some(b'{') => {
                self.at += 1;
                self.object(depth)
            }
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ => self.expected("a value"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, TypeError> {
        let mut fields: Vec<(String, Json)> = vec![];
        self.skip_blank();
        if self.take("}") {
            return Ok(Json::Object(fields));
        }
        loop {
            self.skip_blank();
            if !self.rest().starts_with('"') {
                return self.expected("a key in double quotes");
            }
            let name = self.string()?;
            self.skip_blank();
            if !self.take(":") {
                return self.expected("':'");
            }
            fields.push((name, self.value(depth + 1)?));
            self.skip_blank();
            if self.take("}") {
                return Ok(Json::Object(last_of_each(fields)));
            }
            if !self.take(",") {
                return self.expected("',' or '}'");
            }
        }
    }

    fn number(&mut self) -> Result<Json, TypeError> {
        let start = self.at;
        self.take("-");
        let digits = |parser: &mut Self| {
            let rest = parser.rest();
            let count = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            parser.at += count;
            count
        };
        let has_zero = self.rest().starts_with('0');
        let count = digits(self);
        if count == 0 || (has_zero && count > 1) {
            return self.expected("a number without leading zeros");
        }
        if self.take(".") && digits(self) == 0 {
            return self.expected("a digit");
        }
        if self.take("e") || self.take("E") {
            let _ = self.take("+") || self.take("-");
            if digits(self) == 0 {
                return self.expected("a digit");
            }
        }
        Ok(Json::Number(self.text[start..self.at].to_string()))
    }

    fn string(&mut self) -> Result<String, TypeError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            out.push_str(&rest[..plain]);
            self.at += plain;
            if self.take("\"") {
                return Ok(out);
            }
            if !self.take("\\") {
                return self.expected("the end of a string");
            }
            let escape = self.rest().bytes().next();
            self.at += usize::from(escape.is_some_and(|byte| byte.is_ascii()));
            out.push(match escape {
                Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
                Some(b'b') => '\u{8}',
                Some(b'f') => '\u{c}',
                Some(b'n') => '\n',
                Some(b'r') => '\r',
                Some(b't') => '\t',
                Some(b'u') => self.unicode()?,
                _ => return self.expected("an escape"),
            });
        }
    }

    /// Parses the digits after `\u`: a character, possibly a surrogate pair.
    fn unicode(&mut self) -> Result<char, TypeError> {
        let first = self.four_digits()?;
        let code = match first {
            0xD800..=0xDBFF if self.take("\\u") => {
                let second = self.four_digits()?;
                0x10000 + ((first - 0xD800) << 10) + second.wrapping_sub(0xDC00) % 0x400
            }
            code => code,
        };
        // An unpaired surrogate becomes the replacement character.
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_digits(&mut self) -> Result<u32, TypeError> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.expected("four hexadecimal digits"),
        }
    }
}

/// Keeps each key once, with its last value.
fn last_of_each(fields: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let mut last: base::HashMap<String, usize> = base::HashMap::default();
    let mut out: Vec<(String, Json)> = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        match last.get(&name) {
            Some(at) => out[*at].1 = value,
            None => {
                last.insert(name.clone(), out.len());
                out.push((name, value));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_kinds() {
        let text = r#" {"a": [1, -2.5e3, true, null, "x\n\u00e9\ud83d\ude00\/"], "b": {}, "a": [] , "c": [{"d": 0}]} "#;
        let Json::Object(fields) = Json::parse(text).expect("JSON") else { panic!("an object") };
        assert_eq!(fields.len(), 3, "of equal keys the last stays");
        assert_eq!(fields[0], ("a".to_string(), Json::Array(vec![])));
        assert_eq!(fields[2].1.to_string(), "[{d=0}]");
        let array = Json::parse(r#"[1, -2.5e3, true, null, "x\n\u00e9\ud83d\ude00\/"]"#).expect("JSON");
        assert_eq!(array.to_string(), "[1, -2.5e3, true, null, x\né😀/]");
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\" 1}",
            "{a: 1}",
            "01",
            "1.",
            "1e",
            "-",
            "\"x",
            "\"\\q\"",
            "\"\\u12g4\"",
            "tru",
            "1 2",
            "\"\n\"",
            "\\",
            "\"\\é\"",
        ] {
            let error = Json::parse(text).expect_err(text);
            assert!(error.message().contains("byte"), "{text}: {error}");
        }
        let deep = "[".repeat(200);
        assert_eq!(
            Json::parse(&deep).expect_err("too deep").message(),
            "the JSON is nested more than 100 levels deep"
        );
    }
}
