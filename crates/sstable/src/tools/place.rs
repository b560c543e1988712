//! Which SSTables a path names: a directory all that are in it, a file the one it belongs to.

use std::fmt;
use std::path::{Path, PathBuf};

use runtime::{FileError, Files};

use crate::name::{Component, NameError, SstableName};

/// One SSTable: its files are in `dir`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub dir: PathBuf,
    pub name: SstableName,
}

impl Place {
    pub fn path(&self, component: &Component) -> PathBuf {
        self.dir.join(self.name.file_name(component))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dir.join(self.name.to_string()).display())
    }
}

/// Why a path names no SSTable.
#[derive(Debug)]
pub enum PlaceError {
    /// There is nothing.
    Missing {
        path: PathBuf,
    },
    /// A directory without a single SSTable.
    Empty {
        dir: PathBuf,
    },
    /// The file's name is not that of a component.
    Name {
        path: PathBuf,
        error: NameError,
    },
    /// The files have no TOC.txt.
    Unfinished {
        place: Place,
    },
    File(FileError),
}

impl fmt::Display for PlaceError {
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
                "{} is missing, so these files are no finished SSTable: it was deleted meanwhile, or a crash left them",
                place.path(&Component::Toc).display()
            ),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PlaceError {}

impl From<FileError> for PlaceError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// The SSTables of `path`, sorted by name. Of a directory those that have a TOC.txt; not those in directories below.
///
/// # Errors
/// There is none.
pub async fn find(files: &Files, path: &Path) -> Result<Vec<Place>, PlaceError> {
    find_by(files, path, &Component::Toc).await
}

/// As [`find`], also of SSTables that have lost their TOC.txt: they have a Data.db, and are not known as unfinished.
///
/// # Errors
/// There is none.
pub async fn find_damaged(files: &Files, path: &Path) -> Result<Vec<Place>, PlaceError> {
    find_by(files, path, &Component::Data).await
}

async fn find_by(files: &Files, path: &Path, by: &Component) -> Result<Vec<Place>, PlaceError> {
    match files.read_dir(path).await {
        Ok(entries) => {
            let files = entries.iter().filter(|entry| !entry.is_dir);
            let parsed = files.filter_map(|entry| SstableName::parse_file_name(&entry.name).ok());
            let (unfinished, others): (Vec<_>, Vec<_>) =
                parsed.partition(|(_, component)| *component == Component::TocTemporary);
            let is_finished = |name: &SstableName| unfinished.iter().all(|(other, _)| other != name);
            let found = others.into_iter().filter(|(name, component)| component == by && is_finished(name));
            let mut places: Vec<Place> =
                found.map(|(name, _)| Place { dir: path.to_owned(), name }).collect();
            places.sort();
            match places.is_empty() {
                true => Err(PlaceError::Empty { dir: path.to_owned() }),
                false => Ok(places),
            }
        }
        Err(error) if error.is_not_found() => Err(PlaceError::Missing { path: path.to_owned() }),
        // Not a directory, then.
        Err(_) => {
            let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let parsed = SstableName::parse_file_name(&file_name.unwrap_or_default());
            let (name, _) = parsed.map_err(|error| PlaceError::Name { path: path.to_owned(), error })?;
            let dir = match path.parent() {
                Some(parent) if parent != Path::new("") => parent.to_owned(),
                _ => PathBuf::from("."),
            };
            let place = Place { dir, name };
            match files.exists(&place.path(by)).await? {
                true => Ok(vec![place]),
                false => Err(PlaceError::Unfinished { place }),
            }
        }
    }
}
