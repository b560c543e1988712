//! The dialect of CSV that cqlsh reads and writes: that of Python's `csv` module.
//!
//! A field that contains a delimiter or the end of a line is quoted. Quotes and escape characters within a
//! field have an escape character before them, also in fields that are not quoted; if the quote is its own
//! escape character, it is doubled. Lines end with CR LF; LF and CR end a record too. Reading is lenient as
//! in Python: a quote inside an unquoted field is part of the field.
//!
//! [`Dialect::record_end`] finds the end of a record, [`Dialect::split`] its fields. Both run the same
//! states.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub delimiter: u8,
    pub quote: u8,
    /// `None`: quotes are doubled.
    pub escape: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    InField,
    Escaped,
    Quoted,
    EscapedInQuotes,
    /// After a quote in quotes, which may be the first of two.
    QuoteInQuotes,
}

/// What a byte does.
enum Step {
    Skip,
    Add,
    EndField,
    EndRecord,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { delimiter: b',', quote: b'"', escape: Some(b'\\') }
    }
}

/// The fields of a record. Reused from record to record.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

impl Dialect {
    fn step(&self, state: &mut State, byte: u8) -> Step {
        let is_end = byte == b'\n' || byte == b'\r';
        match *state {
            State::FieldStart | State::InField => {
                if is_end {
                    return Step::EndRecord;
                }
                if byte == self.delimiter {
                    *state = State::FieldStart;
                    return Step::EndField;
                }
                if Some(byte) == self.escape {
                    *state = State::Escaped;
                    return Step::Skip;
                }
                if byte == self.quote && *state == State::FieldStart {
                    *state = State::Quoted;
                    return Step::Skip;
                }
                *state = State::InField;
                Step::Add
            }
            State::Escaped => {
                *state = State::InField;
                Step::Add
            }
            State::Quoted => {
                if Some(byte) == self.escape {
                    *state = State::EscapedInQuotes;
                    return Step::Skip;
                }
                if byte == self.quote {
                    *state = if self.escape.is_none() { State::QuoteInQuotes } else { State::InField };
                    return Step::Skip;
                }
                Step::Add
            }
            State::EscapedInQuotes => {
                *state = State::Quoted;
                Step::Add
            }
            State::QuoteInQuotes if byte == self.quote => {
                *state = State::Quoted;
                Step::Add
            }
            State::QuoteInQuotes => {
                *state = State::InField;
                self.step(state, byte)
            }
        }
    }

    /// The length of the first record without the end of its line, and the offset of the next record. `None`:
    /// the record is not complete. With `is_all` the end of `bytes` ends a record; there is none in no bytes.
    pub fn record_end(&self, bytes: &[u8], is_all: bool) -> Option<(usize, usize)> {
        let mut state = State::FieldStart;
        for (at, &byte) in bytes.iter().enumerate() {
            if let Step::EndRecord = self.step(&mut state, byte) {
                return match (byte, bytes.get(at + 1)) {
                    (b'\r', Some(b'\n')) => Some((at, at + 2)),
                    (b'\r', None) if !is_all => None,
                    _ => Some((at, at + 1)),
                };
            }
        }
        (is_all && !bytes.is_empty()).then_some((bytes.len(), bytes.len()))
    }

    /// Splits a record, given without the end of its line. An empty line has no fields.
    pub fn split(&self, record: &[u8], fields: &mut Fields) {
        fields.bytes.clear();
        fields.ends.clear();
        if record.is_empty() {
            return;
        }
        let mut state = State::FieldStart;
        for &byte in record {
            match self.step(&mut state, byte) {
                Step::Skip => {}
                Step::Add => fields.bytes.push(byte),
                Step::EndField | Step::EndRecord => fields.ends.push(fields.bytes.len()),
            }
        }
        fields.ends.push(fields.bytes.len());
    }

    /// Appends a field to the line that began at `line_start` of `out`.
    pub fn write_field(&self, out: &mut Vec<u8>, field: &str, is_first: bool) {
        if !is_first {
            out.push(self.delimiter);
        }
        let start = out.len();
        let mut is_quoted = false;
        for byte in field.bytes() {
            if byte == self.quote {
                out.push(self.escape.unwrap_or(self.quote));
                is_quoted |= self.escape.is_none();
            } else if Some(byte) == self.escape {
                out.push(byte);
            } else if byte == self.delimiter || byte == b'\n' || byte == b'\r' {
                is_quoted = true;
            }
            out.push(byte);
        }
        if is_quoted {
            out.insert(start, self.quote);
            out.push(self.quote);
        }
    }

    /// Ends the line that began at `line_start`. A line of one empty field would be an empty line, and gets
    /// quotes.
    pub fn end_line(&self, out: &mut Vec<u8>, line_start: usize) {
        if out.len() == line_start {
            out.extend([self.quote, self.quote]);
        }
        out.extend(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBLING: Dialect = Dialect { delimiter: b'|', quote: b'"', escape: None };

    fn fields(dialect: &Dialect, record: &str) -> Vec<String> {
        let mut fields = Fields::default();
        dialect.split(record.as_bytes(), &mut fields);
        (0..fields.len()).map(|i| String::from_utf8(fields.get(i).to_vec()).unwrap()).collect()
    }

    fn line(dialect: &Dialect, fields: &[&str]) -> String {
        let mut out = vec![];
        for (i, field) in fields.iter().enumerate() {
            dialect.write_field(&mut out, field, i == 0);
        }
        dialect.end_line(&mut out, 0);
        String::from_utf8(out).unwrap()
    }

    /// The expected texts are those of `csv.writer` and `csv.reader` of Python 3.11.
    #[test]
    fn lines_are_those_of_python() {
        let cqlsh = Dialect::default();
        assert_eq!(line(&cqlsh, &["a", "b c", ""]), "a,b c,\r\n");
        assert_eq!(line(&cqlsh, &["a,b", "say \"hi\"", "c:\\d"]), "\"a,b\",say \\\"hi\\\",c:\\\\d\r\n");
        assert_eq!(line(&cqlsh, &["a\nb", "\"x,\""]), "\"a\nb\",\"\\\"x,\\\"\"\r\n");
        assert_eq!(line(&cqlsh, &[""]), "\"\"\r\n");
        assert_eq!(line(&DOUBLING, &["a|b", "say \"hi\"", "c:\\d"]), "\"a|b\"|\"say \"\"hi\"\"\"|c:\\d\r\n");
        assert_eq!(fields(&cqlsh, "a,\"b,c\",d\\,e,f\"g\",\"h\"i"), ["a", "b,c", "d,e", "f\"g\"", "hi"]);
        assert_eq!(fields(&cqlsh, "\"a\\\"b\",\"\",,"), ["a\"b", "", "", ""]);
        assert_eq!(fields(&DOUBLING, "\"a\"\"|b\"|\"c\"d|\\"), ["a\"|b", "cd", "\\"]);
        assert_eq!(fields(&cqlsh, ""), Vec::<String>::new());
    }

    #[test]
    fn what_is_written_is_read() {
        let odd = ["", "a", "\"", "\\", "\r\n", ",|", "\\\"", "ä,ö", "\"\"", "\\n", " x "];
        for dialect in [Dialect::default(), DOUBLING] {
            for first in odd {
                for second in odd {
                    let text = line(&dialect, &[first, second, first]);
                    let (end, next) = dialect.record_end(text.as_bytes(), false).unwrap();
                    assert_eq!(next, text.len());
                    assert_eq!(fields(&dialect, &text[..end]), [first, second, first], "{text:?}");
                }
            }
        }
    }

    #[test]
    fn records_end_at_lines_outside_quotes() {
        let dialect = Dialect::default();
        assert_eq!(dialect.record_end(b"a,b\nc", false), Some((3, 4)));
        assert_eq!(dialect.record_end(b"a,b\r\nc", false), Some((3, 5)));
        assert_eq!(dialect.record_end(b"a\rb", false), Some((1, 2)));
        assert_eq!(dialect.record_end(b"a\r", false), None, "an LF may follow");
        assert_eq!(dialect.record_end(b"\"a\nb\"\n", false), Some((5, 6)));
        assert_eq!(dialect.record_end(b"a\\\nb\n", false), Some((4, 5)));
        assert_eq!(dialect.record_end(b"abc", false), None);
        assert_eq!(dialect.record_end(b"abc", true), Some((3, 3)));
        assert_eq!(dialect.record_end(b"", true), None);
        assert_eq!(dialect.record_end(b"\n", true), Some((0, 1)));
    }
}
