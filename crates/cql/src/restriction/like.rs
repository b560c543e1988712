//! LIKE: matches a whole text against a pattern.
//!
//! `%` matches any number of characters, including none, and `_` matches one character. A character after `\`
//! matches itself, and so does a `\` at the end. Source: ScyllaDB's documentation of filtering with LIKE.
//!
//! The parts before the first `%` and after the last are compared with the two ends of the text. Each segment
//! between two `%` is searched after the match of the previous segment. The first match is the best one,
//! because it leaves the most text for the following segments. A segment without `_` is found in a number of
//! steps bounded by the length of the text. A segment with `_` is searched with the shift-and algorithm
//! (Bitap), which keeps one bit for each position of the segment. It takes the text's length times the
//! segment's length over 64 steps, and the length of such a segment is limited.

use base::HashMap;
use protocol::CqlError;

use crate::error::invalid;

/// Largest length of a segment that contains `_`, in characters.
const SEARCHED_CHARACTERS_MAX: usize = 4096;

/// A character of a pattern other than `%`; `None` for `_`.
type Step = Option<char>;

/// A compiled pattern, for matching many texts.
#[derive(Clone, Debug)]
pub struct LikePattern {
    /// Characters before the first `%`, or the whole pattern if it has none.
    head: Vec<Step>,
    /// Segments between two `%`, without the empty ones.
    middle: Vec<Segment>,
    /// Characters after the last `%`; `None` if the pattern has no `%`.
    tail: Option<Vec<Step>>,
    /// The pattern is not valid UTF-8 and matches no text.
    is_damaged: bool,
}

#[derive(Clone, Debug)]
enum Segment {
    Literal(String),
    WithAny(Places),
}

/// For each character, the positions of the segment that it matches. Bit `n` of the words is position `n`.
#[derive(Clone, Debug)]
struct Places {
    of: HashMap<char, Vec<u64>>,
    /// The positions that match a character outside the segment: those of `_`.
    of_others: Vec<u64>,
    len: usize,
}

impl LikePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// A segment between two `%` has `_` and more than 4096 characters.
    pub fn new(pattern: &[u8]) -> Result<Self, CqlError> {
        let Ok(pattern) = std::str::from_utf8(pattern) else {
            return Ok(Self { head: vec![], middle: vec![], tail: None, is_damaged: true });
        };
        let mut segments: Vec<Vec<Step>> = vec![];
        let mut current = vec![];
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' => segments.push(std::mem::take(&mut current)),
                '_' => current.push(None),
                '\\' => current.push(Some(characters.next().unwrap_or('\\'))),
                other => current.push(Some(other)),
            }
        }
        if segments.is_empty() {
            return Ok(Self { head: current, middle: vec![], tail: None, is_damaged: false });
        }
        let mut segments = segments.into_iter();
        let head = segments.next().unwrap_or_default();
        let middle = segments.filter(|steps| !steps.is_empty()).map(|steps| Segment::new(&steps));
        let middle = middle.collect::<Result<_, _>>()?;
        Ok(Self { head, middle, tail: Some(current), is_damaged: false })
    }

    /// Whether the pattern matches the text. A text that is not valid UTF-8 does not match.
    pub fn matches(&self, text: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(text) else { return false };
        if self.is_damaged {
            return false;
        }
        let mut behind = text.chars();
        if !self.head.iter().all(|step| behind.next().is_some_and(|found| fits(*step, found))) {
            return false;
        }
        let Some(tail) = &self.tail else { return behind.as_str().is_empty() };
        if !tail.iter().rev().all(|step| behind.next_back().is_some_and(|found| fits(*step, found))) {
            return false;
        }
        let mut rest = behind.as_str();
        self.middle.iter().all(|segment| match segment.find_end(rest) {
            Some(end) => {
                rest = &rest[end..];
                true
            }
            None => false,
        })
    }
}

fn fits(step: Step, found: char) -> bool {
    step.is_none_or(|wanted| wanted == found)
}

impl Segment {
    fn new(steps: &[Step]) -> Result<Self, CqlError> {
        if let Some(literal) = steps.iter().copied().collect() {
            return Ok(Self::Literal(literal));
        }
        if steps.len() > SEARCHED_CHARACTERS_MAX {
            return invalid!(
                "LIKE pattern has {} characters between two '%', '_' among them; at most {SEARCHED_CHARACTERS_MAX} are possible",
                steps.len()
            );
        }
        let mut of_others = vec![0; steps.len().div_ceil(64)];
        let set = |words: &mut Vec<u64>, place: usize| words[place / 64] |= 1 << (place % 64);
        for (place, step) in steps.iter().enumerate() {
            if step.is_none() {
                set(&mut of_others, place);
            }
        }
        let mut of: HashMap<char, Vec<u64>> = HashMap::default();
        for (place, step) in steps.iter().enumerate() {
            if let Some(character) = step {
                set(of.entry(*character).or_insert_with(|| of_others.clone()), place);
            }
        }
        Ok(Self::WithAny(Places { of, of_others, len: steps.len() }))
    }

    /// Returns the index of the byte after the first match.
    fn find_end(&self, text: &str) -> Option<usize> {
        match self {
            Self::Literal(literal) => text.find(literal.as_str()).map(|at| at + literal.len()),
            Self::WithAny(places) => places.find_end(text),
        }
    }
}

impl Places {
    fn find_end(&self, text: &str) -> Option<usize> {
        // Bit `n` is set if the segment's positions up to and including `n` match the text that ends at the
        // current character.
        let mut reached = vec![0u64; self.of_others.len()];
        let last = self.len - 1;
        for (at, character) in text.char_indices() {
            let fitting = self.of.get(&character).unwrap_or(&self.of_others);
            // A match may start at each character.
            let mut carry = 1;
            for (word, fitting) in reached.iter_mut().zip(fitting) {
                let next = *word >> 63;
                *word = (*word << 1 | carry) & fitting;
                carry = next;
            }
            if reached[last / 64] >> (last % 64) & 1 == 1 {
                return Some(at + character.len_utf8());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        LikePattern::new(pattern).expect("a pattern").matches(text)
    }

    /// Reference matcher that tries every length for each `%`.
    fn matches_slowly(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('%', rest)) => (0..=text.len()).any(|skip| matches_slowly(rest, &text[skip..])),
            Some((wanted, rest)) => text.split_first().is_some_and(|(found, text)| {
                (*wanted == '_' || wanted == found) && matches_slowly(rest, text)
            }),
        }
    }

    #[test]
    fn random_patterns_match_as_by_trying_all() {
        let mut rng = base::rng::Rng::new(1);
        let mut seen = [0, 0];
        for _ in 0..20_000 {
            let mut some = |letters: &[char], most: u64| -> Vec<char> {
                (0..rng.below(most)).map(|_| *rng.pick(letters)).collect()
            };
            let (pattern, text) = (some(&['a', 'ä', '_', '%', '%'], 8), some(&['a', 'ä'], 10));
            let expect = matches_slowly(&pattern, &text);
            let [pattern, text] = [pattern, text].map(|letters| letters.into_iter().collect::<String>());
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expect, "{pattern} {text}");
            seen[usize::from(expect)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 2_000), "{seen:?}");
    }

    #[test]
    fn long_segments_are_found_in_long_texts() {
        // Trying each position would take 6 * 10^9 steps.
        let segment = format!("{}_b", "a".repeat(4_000));
        let text = "a".repeat(1_500_000);
        let pattern = format!("%{segment}%");
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
        assert!(matches(pattern.as_bytes(), format!("{text}bcd").as_bytes()));
        let pattern = format!("%{}%", "a".repeat(4_000) + "b" + &"a".repeat(4_000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
        for len in [63, 64, 65, 128, 129] {
            let pattern = format!("%{}_%", "a".repeat(len - 1));
            assert!(!matches(pattern.as_bytes(), "a".repeat(len - 1).as_bytes()), "{len}");
            assert!(matches(pattern.as_bytes(), format!("b{}", "a".repeat(len)).as_bytes()), "{len}");
        }
    }

    #[test]
    fn what_would_take_long_is_refused() {
        let steps = "_".repeat(SEARCHED_CHARACTERS_MAX + 1);
        let error = LikePattern::new(format!("%{steps}%").as_bytes()).expect_err("it is too long");
        assert!(error.to_string().contains("4097 characters between two '%'"), "{error}");
        // The two ends of a pattern are compared at one position only, so their length is not limited.
        assert!(matches(format!("{steps}%{steps}").as_bytes(), "x".repeat(9_000).as_bytes()));
    }

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
