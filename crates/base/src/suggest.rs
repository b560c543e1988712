//! The known name that is nearest to a misspelled one, by edit distance.

use strsim::osa_distance;

/// Longer names are cut: no known name is nearly as long, and the cost of a comparison stays bounded.
const CHARS_MAX: usize = 200;

/// The known name with the fewest edits to `name`, if they are few for its length.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (name.chars().count() / 3).clamp(1, 5);
    let name: String = name.chars().take(CHARS_MAX).collect();
    let with_distance = known.into_iter().map(|candidate| (osa_distance(&name, candidate), candidate));
    let (edits, candidate) = with_distance.min_by_key(|(edits, _)| *edits)?;
    (edits <= allowed).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = ["flush", "status", "tablestats"];
        assert_eq!(nearest("flsh", known), Some("flush"));
        assert_eq!(nearest("flsuh", known), Some("flush"));
        assert_eq!(nearest("tabelstats", known), Some("tablestats"));
        assert_eq!(nearest("decommission", known), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(nearest(&"flush".repeat(100_000), known), None);
    }
}
