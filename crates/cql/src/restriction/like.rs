//! LIKE: whether the whole of a text matches a pattern.
//!
//! `%` stands for any characters, also none, `_` for one; behind `\` each character stands for itself, and so does a `\`
//! at the end. Source: ScyllaDB's documentation of filtering with LIKE.
//!
//! What stands in front of the first `%` and behind the last is compared with both ends of the text. Each segment between two
//! `%` is searched behind the one before it, and the first place found is the best: it leaves most to the others. A segment
//! without `_` is found in steps that the text's length bounds. With `_` all places where it may have begun are followed
//! together, a bit each ("shift-and"): steps are the text's length times the segment's over 64, and the segment is bounded.

use base::HashMap;

use crate::CqlError;
use crate::error::invalid;

/// Characters of a segment between two `%` that has `_` in it.
const SEARCHED_CHARACTERS_MAX: usize = 4096;

/// One character of a pattern that is no `%`; `None`: `_`.
type Step = Option<char>;

/// A pattern, made ready for many texts.
#[derive(Clone, Debug)]
pub struct LikePattern {
    /// In front of the first `%`.
    head: Vec<Step>,
    /// Between two `%`, those of no characters left out.
    middle: Vec<Segment>,
    /// Behind the last `%`; `None`: there is none.
    tail: Option<Vec<Step>>,
    /// The pattern is no UTF-8, and matches nothing.
    is_damaged: bool,
}

#[derive(Clone, Debug)]
enum Segment {
    Literal(String),
    WithAny(Places),
}

/// For each character, in which places of the segment it may stand: bit `n` of the words is place `n`.
#[derive(Clone, Debug)]
struct Places {
    of: HashMap<char, Vec<u64>>,
    /// Of characters that are not in the segment: the places of `_`.
    of_others: Vec<u64>,
    len: usize,
}

impl LikePattern {
    /// # Errors
    /// A segment between two `%` is long and has `_` in it.
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

    /// What is no UTF-8 does not match.
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

    /// The byte behind the first place where it stands.
    fn find_end(&self, text: &str) -> Option<usize> {
        match self {
            Self::Literal(literal) => text.find(literal.as_str()).map(|at| at + literal.len()),
            Self::WithAny(places) => places.find_end(text),
        }
    }
}

impl Places {
    fn find_end(&self, text: &str) -> Option<usize> {
        // Bit `n`: the segment up to and with place `n` ends at the character just seen.
        let mut reached = vec![0u64; self.of_others.len()];
        let last = self.len - 1;
        for (at, character) in text.char_indices() {
            let fitting = self.of.get(&character).unwrap_or(&self.of_others);
            // It may begin at each character.
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

    /// By trying each length for each `%`.
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
        // Tried place by place these would be 6 * 10^9 steps.
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
        // Both ends are compared in one place only.
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
