//! The findings of a verification, one line each: file, offset, error.

use std::fmt;
use std::path::PathBuf;

use base::HashSet;
use reader::ReadError;

use crate::read::error::needed_by;
use crate::read::{CheckWatcher, SSTableError};

/// A contradiction between components, or bytes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: PathBuf,
    /// Offset in the file. In compressed data it is the position before compression, if the text states that.
    pub offset_bytes: Option<u64>,
    /// The error, as text for users.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset_bytes {
            Some(offset) => write!(f, "{} at byte {offset}: {}", self.file.display(), self.detail),
            None => write!(f, "{}: {}", self.file.display(), self.detail),
        }
    }
}

impl From<&ReadError> for Finding {
    fn from(error: &ReadError) -> Self {
        match error {
            ReadError::Corrupt { file, offset_bytes, detail } => {
                Self { file: file.clone(), offset_bytes: Some(*offset_bytes), detail: detail.clone() }
            }
            ReadError::Io { file, offset_bytes, source } => Self {
                file: file.clone(),
                offset_bytes: Some(*offset_bytes),
                detail: format!("cannot be read: {source}"),
            },
            ReadError::Refused(_) | ReadError::Limit(_) | ReadError::ShuttingDown => {
                Self { file: PathBuf::new(), offset_bytes: None, detail: error.to_string() }
            }
        }
    }
}

impl From<&SSTableError> for Finding {
    fn from(error: &SSTableError) -> Self {
        let whole = |file: &PathBuf, detail: String| Self { file: file.clone(), offset_bytes: None, detail };
        match error {
            SSTableError::Missing { file } => {
                whole(file, format!("the file is missing ({})", needed_by(file)))
            }
            SSTableError::Format { file, error } => Self {
                file: file.clone(),
                offset_bytes: Some(error.offset_bytes),
                detail: format!("{}: expected {}, found {}", error.what, error.expected, error.found),
            },
            SSTableError::Inconsistent { file, detail } | SSTableError::Unsupported { file, detail } => {
                whole(file, detail.clone())
            }
            SSTableError::File(error) => Self {
                file: error.path.clone(),
                offset_bytes: error.offset_bytes,
                detail: error.source.to_string(),
            },
            SSTableError::Read(error) => error.into(),
        }
    }
}

/// Maximum number of findings that are remembered for deduplication.
const KNOWN_MAX: usize = 10_000;

/// Passes each finding on once. Watches a [`crate::read::SSTable::verify`].
pub struct Findings<F, P> {
    each: F,
    progress: P,
    known: HashSet<(PathBuf, Option<u64>)>,
    /// Number of findings passed on.
    pub count: u64,
}

impl<F: FnMut(&Finding), P: FnMut(u64, u64)> Findings<F, P> {
    /// `each` receives the findings, `progress` the number of bytes read and of all bytes.
    pub fn new(each: F, progress: P) -> Self {
        Self { each, progress, known: HashSet::default(), count: 0 }
    }

    /// Passes a finding on, unless one at the same offset of the same file was passed on before.
    pub fn push(&mut self, finding: &Finding) {
        // Every read of a corrupt chunk reports it. Findings about a whole file can differ, so they are not
        // deduplicated.
        if finding.offset_bytes.is_some() && self.known.len() < KNOWN_MAX {
            let place = (finding.file.clone(), finding.offset_bytes);
            if !self.known.insert(place) {
                return;
            }
        }
        self.count += 1;
        (self.each)(finding);
    }
}

impl<F: FnMut(&Finding), P: FnMut(u64, u64)> CheckWatcher for Findings<F, P> {
    fn found(&mut self, error: SSTableError) -> Result<(), SSTableError> {
        self.push(&Finding::from(&error));
        Ok(())
    }

    fn progress(&mut self, done: u64, total: u64) {
        (self.progress)(done, total);
    }
}
