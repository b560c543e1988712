//! Reads the files of a COPY FROM, and cuts them into chunks of whole records.
//!
//! A list of files is separated by commas; each may be a pattern with `*`, `?` and `[…]`. A record ends at a
//! line outside quotes. Its ordinal, its position in all files together, is counted from 0 and includes
//! skipped records: it becomes part of the timestamp of its row.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::dialect::Dialect;
use super::options::{Format, Options};

const READ_BYTES: usize = 256 << 10;
/// A larger record is refused: most likely a quote is missing.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Where to go on reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Index of the file.
    pub source: usize,
    /// In bytes.
    pub offset: u64,
    /// The ordinal of the next record.
    pub ordinal: u64,
}

/// Records that are processed together.
#[derive(Debug)]
pub struct Chunk {
    /// From 0, without gaps.
    pub number: u64,
    pub bytes: Vec<u8>,
    /// Start and end of each record in `bytes`, and its ordinal.
    pub records: Vec<(usize, usize, u64)>,
    /// The position after the last record.
    pub end: Position,
    /// Records that are neither written nor refused.
    pub left: AtomicUsize,
}

impl Chunk {
    pub fn record(&self, index: usize) -> &[u8] {
        let (start, end, _) = self.records[index];
        &self.bytes[start..end]
    }
}

/// The files of a COPY FROM; none is standard input.
#[derive(Clone, Debug, Default)]
pub struct Sources(pub Vec<PathBuf>);

impl Sources {
    /// # Errors
    /// No file has such a name.
    pub fn find(list: &str, resolve: &dyn Fn(&str) -> PathBuf) -> Result<Self, String> {
        let mut found = vec![];
        for pattern in list.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()) {
            let path = resolve(pattern);
            if path.is_file() {
                found.push(path);
                continue;
            }
            let mut matching = vec![PathBuf::new()];
            for part in path.components() {
                matching = matching.iter().flat_map(|parent| step(parent, part.as_os_str())).collect();
            }
            matching.retain(|path| path.is_file());
            matching.sort();
            if matching.is_empty() {
                return Err(format!("Can't open '{pattern}' for reading: no matching file found"));
            }
            found.extend(matching);
        }
        match found.is_empty() {
            true => Err("COPY FROM needs the name of a file".to_string()),
            false => Ok(Self(found)),
        }
    }

    /// The size of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Bytes before a position.
    pub fn bytes_before(&self, position: Position) -> u64 {
        let before = self.0.iter().take(position.source);
        before.filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum::<u64>() + position.offset
    }
}

/// The paths in `parent` whose last component matches a pattern.
fn step(parent: &Path, pattern: &std::ffi::OsStr) -> Vec<PathBuf> {
    let Some(text) = pattern.to_str().filter(|text| text.contains(['*', '?', '['])) else {
        return vec![parent.join(pattern)];
    };
    let dir = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let pattern: Vec<char> = text.chars().collect();
    let is_wanted = |name: &std::ffi::OsString| {
        let name: Vec<char> = name.to_string_lossy().chars().collect();
        (name.first() != Some(&'.') || pattern.first() == Some(&'.')) && matches(&pattern, &name)
    };
    names.filter(is_wanted).map(|name| parent.join(name)).collect()
}

fn matches(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        ['?', rest @ ..] => !name.is_empty() && matches(rest, &name[1..]),
        ['[', rest @ ..] if rest.iter().skip(1).any(|c| *c == ']') => {
            let end = 1 + rest.iter().skip(1).position(|c| *c == ']').unwrap_or(0);
            let (set, is_negated) = match rest[0] {
                '!' => (&rest[1..end], true),
                _ => (&rest[..end], false),
            };
            let Some(first) = name.first() else { return false };
            let is_range = |i: usize| i + 2 < set.len() && set[i + 1] == '-';
            let is_member = (0..set.len())
                .any(|i| set[i] == *first || is_range(i) && (set[i]..=set[i + 2]).contains(first));
            is_member != is_negated && matches(&rest[end + 1..], &name[1..])
        }
        [c, rest @ ..] => name.first() == Some(c) && matches(rest, &name[1..]),
    }
}

/// Cuts the files into chunks.
pub struct Reader {
    sources: Sources,
    dialect: Dialect,
    format: Format,
    has_header: bool,
    rows_max: u64,
    skip_rows: u64,
    chunk_rows: usize,
    input: Option<Box<dyn Read + Send>>,
    /// A line `\.` or `.` ends standard input.
    is_stdin: bool,
    buffer: Vec<u8>,
    /// Offset of the first byte of `buffer` that belongs to no chunk.
    at: usize,
    is_all: bool,
    /// Of the byte at `at`.
    position: Position,
    number: u64,
}

impl Reader {
    /// Begins at `from`. `stdin` is read if there are no files.
    ///
    /// # Errors
    /// The first file cannot be read.
    pub fn new(
        sources: Sources,
        options: &Options,
        from: Position,
        stdin: Option<Box<dyn Read + Send>>,
    ) -> Result<Self, String> {
        let is_stdin = stdin.is_some();
        let mut reader = Self {
            sources,
            dialect: options.dialect,
            format: options.format,
            has_header: options.has_header && options.format == Format::Csv,
            rows_max: options.rows_max.unwrap_or(u64::MAX),
            skip_rows: options.skip_rows,
            chunk_rows: options.chunk_rows,
            input: stdin,
            is_stdin,
            buffer: vec![],
            at: 0,
            is_all: false,
            position: from,
            number: 0,
        };
        match is_stdin {
            true => reader.skip_header()?,
            false => reader.open()?,
        }
        Ok(reader)
    }

    /// Opens the file of the current position, if there is one.
    fn open(&mut self) -> Result<(), String> {
        self.buffer.clear();
        self.at = 0;
        self.is_all = false;
        self.input = None;
        let Some(path) = self.sources.0.get(self.position.source) else { return Ok(()) };
        let fail = |error: io::Error| format!("cannot read {}: {error}", path.display());
        let mut file = File::open(path).map_err(fail)?;
        if self.position.offset > 0 {
            io::Seek::seek(&mut file, io::SeekFrom::Start(self.position.offset)).map_err(fail)?;
        }
        self.input = Some(Box::new(file));
        match self.position.offset {
            0 => self.skip_header(),
            _ => Ok(()),
        }
    }

    fn skip_header(&mut self) -> Result<(), String> {
        while self.buffer.len() < 3 && !self.is_all {
            self.fill()?;
        }
        if self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.advance(3);
        }
        if self.has_header {
            self.record()?;
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.position.offset += bytes as u64;
    }

    /// Reads more bytes and appends them to `buffer`.
    fn fill(&mut self) -> Result<(), String> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let len = self.buffer.len();
        if len > RECORD_BYTES_MAX {
            return Err(format!(
                "{}: the record at byte {} has more than {} MiB: is a quote missing?",
                self.name(),
                self.position.offset,
                RECORD_BYTES_MAX >> 20
            ));
        }
        let Some(input) = &mut self.input else {
            self.is_all = true;
            return Ok(());
        };
        self.buffer.resize(len + READ_BYTES.max(len), 0);
        let read = loop {
            match input.read(&mut self.buffer[len..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done,
            }
        };
        self.buffer.truncate(len + read.as_ref().map_or(0, |bytes| *bytes));
        match read {
            Ok(bytes) => {
                self.is_all = bytes == 0;
                Ok(())
            }
            Err(error) => Err(format!("cannot read {}: {error}", self.name())),
        }
    }

    fn name(&self) -> String {
        self.sources
            .0
            .get(self.position.source)
            .map_or("STDIN".to_string(), |path| path.display().to_string())
    }

    /// The next record of this file as a range of `buffer`.
    fn record(&mut self) -> Result<Option<(usize, usize)>, String> {
        loop {
            let rest = &self.buffer[self.at..];
            let found = match self.format {
                Format::Csv => self.dialect.record_end(rest, self.is_all),
                Format::Json => match rest.iter().position(|byte| *byte == b'\n') {
                    Some(end) => Some((end, end + 1)),
                    None => (self.is_all && !rest.is_empty()).then_some((rest.len(), rest.len())),
                },
            };
            if let Some((end, next)) = found {
                let range = (self.at, self.at + end);
                self.advance(next);
                return Ok(Some(range));
            }
            if self.is_all {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// The next chunk; `None` at the end of the last file.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn next_chunk(&mut self) -> Result<Option<Arc<Chunk>>, String> {
        let mut bytes = vec![];
        let mut records = vec![];
        while records.len() < self.chunk_rows && self.position.ordinal < self.rows_max {
            let Some((start, end)) = self.record()? else {
                if self.is_stdin || self.position.source + 1 >= self.sources.0.len() {
                    self.rows_max = 0;
                    break;
                }
                self.position = Position { source: self.position.source + 1, offset: 0, ..self.position };
                self.open()?;
                continue;
            };
            let record = &self.buffer[start..end];
            if self.is_stdin && (record == b"\\." || record == b".") {
                self.rows_max = 0;
                break;
            }
            // A stream of JSON may have empty lines; in CSV such a line is a record without fields.
            if self.format == Format::Json && record.trim_ascii().is_empty() {
                continue;
            }
            let ordinal = self.position.ordinal;
            self.position.ordinal += 1;
            if ordinal >= self.skip_rows {
                let begin = bytes.len();
                bytes.extend_from_slice(record);
                records.push((begin, bytes.len(), ordinal));
            }
        }
        if records.is_empty() {
            return Ok(None);
        }
        let left = AtomicUsize::new(records.len());
        let chunk = Chunk { number: self.number, bytes, records, end: self.position, left };
        self.number += 1;
        Ok(Some(Arc::new(chunk)))
    }

    /// The number of files that were opened, and of skipped records.
    pub fn counts(&self) -> (usize, u64) {
        let files = if self.is_stdin { 1 } else { self.position.source + 1 };
        (files, self.skip_rows.min(self.position.ordinal))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{options, statement};
    use super::*;

    fn read(text: &'static str, with: &str) -> Vec<Vec<(String, u64)>> {
        let statement = statement::parse(&format!("COPY t FROM STDIN {with}")).unwrap();
        let options = options::read(&statement, "ks", 1, &|name| name.into()).unwrap().0;
        let stdin: Box<dyn Read + Send> = Box::new(text.as_bytes());
        let mut reader = Reader::new(Sources::default(), &options, Position::default(), Some(stdin)).unwrap();
        let mut chunks = vec![];
        while let Some(chunk) = reader.next_chunk().unwrap() {
            let record =
                |i: usize| (String::from_utf8(chunk.record(i).to_vec()).unwrap(), chunk.records[i].2);
            chunks.push((0..chunk.records.len()).map(record).collect());
        }
        chunks
    }

    #[test]
    fn records_are_cut_into_chunks() {
        let record = |text: &str, ordinal| (text.to_string(), ordinal);
        assert_eq!(
            read("a\n\"b\nc\"\nd\n", "WITH CHUNKSIZE = 2"),
            [vec![record("a", 0), record("\"b\nc\"", 1)], vec![record("d", 2)]]
        );
        assert_eq!(
            read("\u{feff}h\na\nb\nc\nd", "WITH HEADER = true AND SKIPROWS = 1 AND MAXROWS = 3"),
            [[record("b", 1), record("c", 2)]]
        );
        assert_eq!(read("a\n\\.\nb\n", ""), [[record("a", 0)]]);
        assert_eq!(
            read("{}\n\n{\"a\":1}", "WITH FORMAT = json"),
            [[record("{}", 0), record("{\"a\":1}", 1)]]
        );
        assert!(read("", "").is_empty());
    }

    #[test]
    fn patterns() {
        let check = |pattern: &str, name: &str| {
            matches(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
        };
        assert!(check("*.csv", "a.csv") && check("a?c", "abc") && check("*", ""));
        assert!(check("[a-c]1", "b1") && !check("[!a-c]1", "b1") && check("[]x]", "]"));
        assert!(!check("*.csv", "a.txt") && !check("?", "") && !check("[a", "a"));
    }

    #[test]
    fn files_are_found_and_read_on_from_a_position() {
        #[allow(clippy::disallowed_methods, reason = "a test needs a directory of its own")]
        let dir = std::env::temp_dir().join(format!("messina-copy-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("a1.csv"), "h\n1\n2\n").unwrap();
        std::fs::write(dir.join("a2.csv"), "h\n3\n4\n").unwrap();
        let resolve = |name: &str| dir.join(name);
        let sources = Sources::find("a?.csv", &resolve).unwrap();
        assert_eq!(sources.0, [dir.join("a1.csv"), dir.join("a2.csv")]);
        assert!(Sources::find("b*", &resolve).unwrap_err().contains("no matching file found"));
        let statement = statement::parse("COPY t FROM 'x' WITH HEADER = true AND CHUNKSIZE = 3").unwrap();
        let options = options::read(&statement, "ks", 1, &|name| name.into()).unwrap().0;
        let mut reader = Reader::new(sources.clone(), &options, Position::default(), None).unwrap();
        let first = reader.next_chunk().unwrap().unwrap();
        assert_eq!(first.records.len(), 3);
        assert_eq!(first.end, Position { source: 1, offset: 4, ordinal: 3 });
        let mut reader = Reader::new(sources.clone(), &options, first.end, None).unwrap();
        let second = reader.next_chunk().unwrap().unwrap();
        assert_eq!((second.record(0), second.records[0].2), (&b"4"[..], 3));
        assert!(reader.next_chunk().unwrap().is_none());
        assert_eq!((sources.bytes(), sources.bytes_before(first.end)), (12, 10));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
