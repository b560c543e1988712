//! Compares TOC.txt with the directory: an entry without a file, and a component without an entry, are
//! findings.
//!
//! Opening an SSTable fails if a known component that TOC.txt lists is absent. It accepts unknown entries,
//! because other writers have components of their own, so a damaged name in TOC.txt is found only here.

use runtime::{FileError, Files};
use sstable::name::{Component, SSTableName};
use sstable::tools::{Finding, SSTablePath};

/// The contradictions between `listed`, the entries of TOC.txt, and the files of the SSTable.
pub async fn contradictions(
    files: &Files,
    place: &SSTablePath,
    listed: &[Component],
) -> Result<Vec<Finding>, FileError> {
    let entries = files.read_dir(&place.dir).await?;
    let of_place = entries.iter().filter_map(|entry| {
        let (name, component) = SSTableName::parse_file_name(&entry.name).ok()?;
        (name == place.name).then_some(component)
    });
    Ok(compare(place, listed, of_place.collect()))
}

fn compare(place: &SSTablePath, listed: &[Component], mut there: Vec<Component>) -> Vec<Finding> {
    there.sort_by(|a, b| a.suffix().cmp(b.suffix()));
    let finding =
        |component: &Component, detail| Finding { file: place.path(component), offset_bytes: None, detail };
    let toc = place.path(&Component::Toc);
    let absent = listed.iter().filter(|component| !there.contains(component)).map(|component| {
        let (name, path) = (component.suffix(), place.path(component));
        let detail = format!(
            "it lists {name}, and {} does not exist; restore the file, or correct the line",
            path.display()
        );
        finding(&Component::Toc, detail)
    });
    // An unknown component may belong to another program.
    let may_be_unlisted = |component: &&Component| {
        matches!(component, Component::Toc | Component::TocTemporary | Component::Other(_))
    };
    let unlisted = there.iter().filter(|component| !may_be_unlisted(component));
    let unlisted = unlisted.filter(|component| !listed.contains(component)).map(|component| {
        finding(component, format!("{} does not list it; add the line {}", toc.display(), component.suffix()))
    });
    absent.chain(unlisted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(listed: &[&str], there: &[&str]) -> Vec<String> {
        let components =
            |names: &[&str]| names.iter().map(|name| Component::from_suffix(name)).collect::<Vec<_>>();
        let (name, _) = SSTableName::parse_file_name("nb-1-big-Data.db").unwrap();
        let place = SSTablePath { dir: "t".into(), name };
        compare(&place, &components(listed), components(there)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_damaged_name_is_two_findings_and_unknown_files_are_none() {
        let there = ["Data.db", "Index.db", "TOC.txt", "SAI.db"];
        assert_eq!(findings(&["Data.db", "Index.db"], &there), Vec::<String>::new());
        let found = findings(&["Data.db", "Indez.db"], &there);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("t/nb-1-big-TOC.txt: it lists Indez.db, and t/nb-1-big-Indez.db"));
        assert!(found[1].starts_with("t/nb-1-big-Index.db: t/nb-1-big-TOC.txt does not list it"));
    }
}
