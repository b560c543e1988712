//! LIKE: whether the whole of a text matches a pattern.
//!
//! `%` stands for any characters, also none, `_` for one; behind `\` each character stands for itself, and so does a `\`
//! at the end. Source: ScyllaDB's documentation of filtering with LIKE.

/// One step of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Anything,
    AnyOne,
    One(char),
}

fn step(pattern: &str) -> Option<(Step, &str)> {
    let mut characters = pattern.chars();
    let step = match characters.next()? {
        '%' => Step::Anything,
        '_' => Step::AnyOne,
        '\\' => Step::One(characters.next().unwrap_or('\\')),
        other => Step::One(other),
    };
    Some((step, characters.as_str()))
}

/// Takes at most as many steps as the product of both lengths. What is no UTF-8 matches nothing.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (Ok(mut pattern), Ok(mut text)) = (std::str::from_utf8(pattern), std::str::from_utf8(text)) else {
        return false;
    };
    // Where to go on if the last `%` has to stand for one character more.
    let mut again: Option<(&str, &str)> = None;
    loop {
        let first = text.chars().next();
        match (step(pattern), first) {
            (Some((Step::Anything, rest)), _) => {
                again = Some((rest, text));
                pattern = rest;
                continue;
            }
            (Some((Step::AnyOne, rest)), Some(first)) => {
                (pattern, text) = (rest, &text[first.len_utf8()..]);
                continue;
            }
            (Some((Step::One(wanted), rest)), Some(first)) if wanted == first => {
                (pattern, text) = (rest, &text[first.len_utf8()..]);
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((behind, from)) = again else { return false };
        let mut skipped = from.chars();
        if skipped.next().is_none() {
            return false;
        }
        again = Some((behind, skipped.as_str()));
        (pattern, text) = (behind, skipped.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, expect) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("%", "äbc", true),
            ("_", "ä", true),
            ("_", "", false),
            ("_", "ab", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("AB-%", "AB-1024-XL", true),
            ("AB-%", "XAB-1024", false),
            ("%024%", "CD-1024-AB", true),
            ("%-_", "AB-2048-S", true),
            ("%-_", "AB-1024-XL", false),
            ("a%b%c", "a-b-b-c", true),
            ("a%b%c", "a-c-b", false),
            ("%aab", "aaaab", true),
            ("%%_%%", "x", true),
            ("10\\%", "10%", true),
            ("10\\%", "100", false),
            ("a\\_b", "a_b", true),
            ("a\\_b", "axb", false),
            ("a\\\\", "a\\", true),
            ("a\\", "a\\", true),
            ("\\a", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expect, "{pattern} {text}");
        }
        assert!(!matches(b"%", b"\xff"));
        assert!(!matches("%a".repeat(50).as_bytes(), "a".repeat(49).as_bytes()));
        assert!(!matches(format!("{}b", "%a".repeat(200)).as_bytes(), "a".repeat(5_000).as_bytes()));
    }
}
