//! "Did you mean …?": the nearest of known names.

/// The known name with the fewest edits to `name`, if they are few for its length.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (name.chars().count() / 3).clamp(1, 5);
    let with_distance = known.into_iter().map(|candidate| (distance(name, candidate), candidate));
    let (edits, candidate) = with_distance.min_by_key(|(edits, _)| *edits)?;
    (edits <= allowed).then_some(candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one into the other.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(200).collect();
    let b: Vec<char> = b.chars().take(200).collect();
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits() {
        let check = |a: &str, b: &str, edits: usize| assert_eq!(distance(a, b), edits, "{a} {b}");
        check("", "", 0);
        check("flush", "flush", 0);
        check("flsuh", "flush", 1);
        check("flus", "flush", 1);
        check("", "abc", 3);
        check("kitten", "sitting", 3);
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = ["flush", "status", "tablestats"];
        assert_eq!(nearest("flsh", known), Some("flush"));
        assert_eq!(nearest("tabelstats", known), Some("tablestats"));
        assert_eq!(nearest("decommission", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
