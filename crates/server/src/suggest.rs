//! "Did you mean …?": the known name nearest to a wrong one (optimal string alignment distance).

use strsim::osa_distance;

/// Characters of the wrong name that are compared. Known names are shorter; the bound limits the time for a
/// long input.
const CHARS_MAX: usize = 200;

/// The known name with the fewest edits from `name`; `None` if that is more than a third of its length (at
/// least 1, at most 5).
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
