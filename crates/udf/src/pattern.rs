//! Patterns of Lua strings, as §6.4.1 of its reference manual defines them.
//!
//! Lua matches by backtracking, which takes exponential time for some patterns, in C code that no hook
//! interrupts. This implementation also backtracks, and spends the budget of the call at every step.

use std::ops::Range;

use crate::budget::Budget;

/// Captures in a pattern.
const MAX_CAPTURES: usize = 32;
/// Depth of backtracking; the stack holds a small frame for each level.
const MAX_DEPTH: usize = 200;
/// Steps after which the budget is asked.
const SPEND_AT: u64 = 256;
/// Bytes of a replaced text, all matches together.
const EXPAND_BYTES_MAX: usize = 1 << 24;

/// What a search returns, and where it may begin.
#[derive(Clone, Copy)]
pub struct How {
    is_plain: bool,
    is_anchored: bool,
    /// The whole match counts as a capture if the pattern has none.
    whole: bool,
}

impl How {
    pub const PLAIN: Self = Self { is_plain: true, is_anchored: false, whole: false };
    pub const CAPTURES: Self = Self { is_plain: false, is_anchored: false, whole: false };
    pub const WHOLE: Self = Self { is_plain: false, is_anchored: false, whole: true };

    pub fn anchored(self) -> Self {
        Self { is_anchored: true, ..self }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capture {
    Text(Range<usize>),
    /// `()`: a position.
    Position(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub start: usize,
    pub end: usize,
    pub captures: Vec<Capture>,
}

fn malformed<T>(what: &str) -> mlua::Result<T> {
    Err(mlua::Error::runtime(what))
}

/// Finds the first match from position `from` on that does not end at `last`.
///
/// # Errors
/// The pattern is malformed, or the budget is exceeded.
pub fn find(
    subject: &[u8],
    pattern: &[u8],
    from: usize,
    last: Option<usize>,
    how: How,
    budget: &Budget,
) -> mlua::Result<Option<Found>> {
    let mut unspent = 0;
    for start in from..=subject.len() {
        if unspent >= SPEND_AT {
            budget.spend(std::mem::take(&mut unspent))?;
        }
        if how.is_plain {
            unspent += 1 + pattern.len() as u64 / 16;
            if subject[start..].starts_with(pattern) {
                return Ok(Some(Found { start, end: start + pattern.len(), captures: vec![] }));
            }
            continue;
        }
        let mut matcher = Matcher { subject, pattern, captures: vec![], depth: 0, budget, unspent };
        let end = matcher.run(start, 0)?;
        unspent = 1 + matcher.unspent;
        if let Some(end) = end.filter(|end| Some(*end) != last) {
            let mut captures = matcher.captures()?;
            if captures.is_empty() && how.whole {
                captures.push(Capture::Text(start..end));
            }
            return Ok(Some(Found { start, end, captures }));
        }
        if how.is_anchored {
            break;
        }
    }
    Ok(None)
}

/// Replaces `%0` to `%9` and `%%` in a replacement. `texts` has the whole match and then the captures.
///
/// # Errors
/// The replacement is malformed.
pub fn expand(replacement: &[u8], texts: &[&[u8]], budget: &Budget) -> mlua::Result<Vec<u8>> {
    let mut out = vec![];
    let mut bytes = replacement.iter();
    while let Some(&byte) = bytes.next() {
        budget.spend(1)?;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'%') => out.push(b'%'),
            Some(digit @ b'0'..=b'9') => match texts.get(usize::from(digit - b'0')) {
                Some(text) => out.extend_from_slice(text),
                None => {
                    let digit = char::from(*digit);
                    return malformed(&format!("invalid capture index %{digit} in replacement string"));
                }
            },
            _ => return malformed("invalid use of '%' in replacement string"),
        }
        if out.len() > EXPAND_BYTES_MAX {
            return malformed("the replaced text is too long");
        }
    }
    Ok(out)
}

struct Open {
    start: usize,
    /// `None` while the capture is open.
    end: Option<Capture>,
}

struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Open>,
    depth: usize,
    budget: &'a Budget,
    /// Steps that the budget does not know yet.
    unspent: u64,
}

impl Matcher<'_> {
    fn step(&mut self) -> mlua::Result<()> {
        self.unspent += 1;
        if self.unspent >= SPEND_AT {
            self.budget.spend(std::mem::take(&mut self.unspent))?;
        }
        Ok(())
    }

    fn captures(&mut self) -> mlua::Result<Vec<Capture>> {
        let all = std::mem::take(&mut self.captures).into_iter().map(|capture| capture.end);
        match all.collect::<Option<Vec<_>>>() {
            Some(captures) => Ok(captures),
            None => malformed("unfinished capture"),
        }
    }

    /// Matches the pattern from `p` on at position `s`. Returns the end of the match.
    fn run(&mut self, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return malformed("pattern too complex");
        }
        let found = self.alternatives(s, p);
        self.depth -= 1;
        found
    }

    fn alternatives(&mut self, mut s: usize, mut p: usize) -> mlua::Result<Option<usize>> {
        loop {
            self.step()?;
            let Some(&first) = self.pattern.get(p) else { return Ok(Some(s)) };
            let next = self.pattern.get(p + 1).copied();
            match (first, next) {
                (b'(', Some(b')')) => return self.open(s, p + 2, true),
                (b'(', _) => return self.open(s, p + 1, false),
                (b')', _) => return self.close(s, p + 1),
                (b'$', None) => return Ok((s == self.subject.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => {
                        (s, p) = (end, p + 4);
                        continue;
                    }
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    let set = p + 2;
                    if self.pattern.get(set) != Some(&b'[') {
                        return malformed("missing '[' after '%f' in pattern");
                    }
                    let end = self.class_end(set)?;
                    let before = s.checked_sub(1).map_or(0, |at| self.subject[at]);
                    let here = self.subject.get(s).copied().unwrap_or(0);
                    if self.in_set(before, set, end) || !self.in_set(here, set, end) {
                        return Ok(None);
                    }
                    p = end;
                    continue;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.back_reference(s, digit)? {
                    Some(end) => {
                        (s, p) = (end, p + 2);
                        continue;
                    }
                    None => return Ok(None),
                },
                _ => {}
            }
            let end = self.class_end(p)?;
            match self.pattern.get(end) {
                Some(b'?') => {
                    if self.is_single(s, p, end)
                        && let Some(found) = self.run(s + 1, end + 1)?
                    {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                Some(b'*') => return self.longest(s, s, p, end),
                Some(b'+') if self.is_single(s, p, end) => return self.longest(s + 1, s + 1, p, end),
                Some(b'+') => return Ok(None),
                Some(b'-') => return self.shortest(s, p, end),
                _ if self.is_single(s, p, end) => (s, p) = (s + 1, end),
                _ => return Ok(None),
            }
        }
    }

    fn open(&mut self, s: usize, p: usize, is_position: bool) -> mlua::Result<Option<usize>> {
        if self.captures.len() >= MAX_CAPTURES {
            return malformed("too many captures");
        }
        let end = is_position.then_some(Capture::Position(s));
        self.captures.push(Open { start: s, end });
        let count = self.captures.len();
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures.truncate(count - 1);
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        let Some(at) = self.captures.iter().rposition(|capture| capture.end.is_none()) else {
            return malformed("invalid pattern capture");
        };
        self.captures[at].end = Some(Capture::Text(self.captures[at].start..s));
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures[at].end = None;
        }
        Ok(found)
    }

    fn longest(&mut self, least: usize, s: usize, p: usize, end: usize) -> mlua::Result<Option<usize>> {
        let mut most = s;
        while self.is_single(most, p, end) {
            self.step()?;
            most += 1;
        }
        for at in (least..=most).rev() {
            if let Some(found) = self.run(at, end + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> mlua::Result<Option<usize>> {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.is_single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// `%bxy`
    fn balanced(&mut self, s: usize, p: usize) -> mlua::Result<Option<usize>> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return malformed("missing arguments to '%b'");
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1usize;
        for at in s + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, s: usize, digit: u8) -> mlua::Result<Option<usize>> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let capture = index.and_then(|index| self.captures.get(index)).and_then(|open| open.end.clone());
        match capture {
            Some(Capture::Text(range)) => {
                self.unspent += range.len() as u64 / 16;
                let text = &self.subject[range];
                Ok(self.subject[s..].starts_with(text).then_some(s + text.len()))
            }
            // A position is no text, as in Lua.
            Some(Capture::Position(_)) => Ok(None),
            None => malformed(&format!("invalid capture index %{}", char::from(digit))),
        }
    }

    /// The end of the single character class that begins at `p`.
    fn class_end(&self, p: usize) -> mlua::Result<usize> {
        let at = |p: usize| self.pattern.get(p).copied();
        match at(p) {
            Some(b'%') if at(p + 1).is_none() => malformed("malformed pattern (ends with '%')"),
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let mut p = p + 1;
                if at(p) == Some(b'^') {
                    p += 1;
                }
                // The first `]` is an element.
                let mut is_first = true;
                loop {
                    match at(p) {
                        None => return malformed("malformed pattern (missing ']')"),
                        Some(b']') if !is_first => return Ok(p + 1),
                        Some(b'%') => p += 2,
                        Some(_) => p += 1,
                    }
                    is_first = false;
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the class from `p` to `end` has the byte at `s`.
    fn is_single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.subject.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end),
            literal => literal == byte,
        }
    }

    /// Whether the set `[…]` from `p` to `end` has the byte.
    fn in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let (mut p, last) = (p + 1, end - 1);
        let is_inverted = self.pattern[p] == b'^' && p < last;
        if is_inverted {
            p += 1;
        }
        while p < last {
            let first = self.pattern[p];
            if first == b'%' && p + 1 < last {
                if in_class(byte, self.pattern[p + 1]) {
                    return !is_inverted;
                }
                p += 2;
            } else if p + 2 < last && self.pattern[p + 1] == b'-' {
                if (first..=self.pattern[p + 2]).contains(&byte) {
                    return !is_inverted;
                }
                p += 3;
            } else {
                if first == byte {
                    return !is_inverted;
                }
                p += 1;
            }
        }
        is_inverted
    }
}

/// Whether a class such as `%a` has the byte. Upper case inverts; a character that is no letter stands for
/// itself.
fn in_class(byte: u8, class: u8) -> bool {
    let has = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return class == byte,
    };
    has != class.is_ascii_uppercase()
}
