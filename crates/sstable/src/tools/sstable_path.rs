//! Finds the SSTables at a path: all in a directory, or the one to which a file belongs.

use std::fmt;
use std::path::{Path, PathBuf};

use runtime::{FileError, Files};

use crate::name::{Component, NameError, SSTableName};

/// An SSTable whose files are in `dir`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SSTablePath {
    pub dir: PathBuf,
    pub name: SSTableName,
}

impl SSTablePath {
    /// The path of the SSTable's file `component`.
    pub fn path(&self, component: &Component) -> PathBuf {
        self.dir.join(self.name.file_name(component))
    }
}

impl fmt::Display for SSTablePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dir.join(self.name.to_string()).display())
    }
}

/// Why there is no SSTable at a path.
#[derive(Debug)]
pub enum SSTablePathError {
    /// The path does not exist.
    Missing {
        path: PathBuf,
    },
    /// The directory contains no SSTable.
    Empty {
        dir: PathBuf,
    },
    /// The file's name is not the name of a component.
    Name {
        path: PathBuf,
        error: NameError,
    },
    /// The SSTable has no TOC.txt.
    Unfinished {
        place: SSTablePath,
    },
    File(FileError),
}

impl fmt::Display for SSTablePathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { path } => write!(f, "{}: there is no such file or directory", path.display()),
            Self::Empty { dir } => write!(
                f,
                "{}: no SSTable in this directory (a table's directory has files such as nb-1-big-TOC.txt)",
                dir.display()
            ),
            Self::Name { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Unfinished { place } => write!(
                f,
                "{} is missing, so these files are not a finished SSTable: it was deleted meanwhile, or a crash left them",
                place.path(&Component::Toc).display()
            ),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SSTablePathError {}

impl From<FileError> for SSTablePathError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// The SSTables at `path`, sorted by name. In a directory, the SSTables with a TOC.txt, without those in
/// subdirectories.
///
/// # Errors
/// There is no SSTable.
pub async fn find(files: &Files, path: &Path) -> Result<Vec<SSTablePath>, SSTablePathError> {
    find_by(files, path, &Component::Toc).await
}

/// As [`find`], but includes SSTables that have lost their TOC.txt: they have a Data.db and are not marked as
/// unfinished.
///
/// # Errors
/// There is no SSTable.
pub async fn find_damaged(files: &Files, path: &Path) -> Result<Vec<SSTablePath>, SSTablePathError> {
    find_by(files, path, &Component::Data).await
}

async fn find_by(files: &Files, path: &Path, by: &Component) -> Result<Vec<SSTablePath>, SSTablePathError> {
    match files.read_dir(path).await {
        Ok(entries) => {
            // A directory with the name of a component is included here; opening the SSTable then reports the
            // error.
            let parsed = entries.iter().filter_map(|entry| SSTableName::parse_file_name(&entry.name).ok());
            let (unfinished, others): (Vec<_>, Vec<_>) =
                parsed.partition(|(_, component)| *component == Component::TocTemporary);
            let is_finished = |name: &SSTableName| unfinished.iter().all(|(other, _)| other != name);
            let found = others.into_iter().filter(|(name, component)| component == by && is_finished(name));
            let mut places: Vec<SSTablePath> =
                found.map(|(name, _)| SSTablePath { dir: path.to_owned(), name }).collect();
            places.sort();
            match places.is_empty() {
                true => Err(SSTablePathError::Empty { dir: path.to_owned() }),
                false => Ok(places),
            }
        }
        Err(error) if error.is_not_found() => Err(SSTablePathError::Missing { path: path.to_owned() }),
        // The path is not a directory.
        Err(_) => {
            let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let parsed = SSTableName::parse_file_name(&file_name.unwrap_or_default());
            let (name, _) =
                parsed.map_err(|error| SSTablePathError::Name { path: path.to_owned(), error })?;
            let dir = match path.parent() {
                Some(parent) if parent != Path::new("") => parent.to_owned(),
                _ => PathBuf::from("."),
            };
            let place = SSTablePath { dir, name };
            match files.exists(&place.path(by)).await? {
                true => Ok(vec![place]),
                false => Err(SSTablePathError::Unfinished { place }),
            }
        }
    }
}
