//! Splits text into tokens, one at a time, without copying.
//!
//! The lexer is total: any text is a sequence of tokens. Text that is not CQL becomes a token of a kind that
//! no grammar rule accepts ([`TokenKind::Unknown`], [`TokenKind::Unterminated`]). It is linear: each byte is
//! read a bounded number of times. A number has no sign here; the parser combines a `-` and a number. Source:
//! Cassandra 4.1 and 5.0 `Lexer.g`.

use super::ast::Span;
use super::keyword::Keyword;

/// A token: a word, number, string or sign, with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

impl Token {
    /// The token's part of `text`, the text from which the token was read.
    pub fn text(self, text: &str) -> &str {
        &text[self.span.start as usize..self.span.end as usize]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A word that is not a keyword.
    Word,
    Keyword(Keyword),
    /// `"Name"`
    QuotedName,
    /// `'text'`
    String,
    /// `$$text$$`
    DollarString,
    Integer,
    Float,
    Boolean,
    Uuid,
    Blob,
    Duration,
    Comma,
    Semicolon,
    Colon,
    Question,
    Dot,
    DotDot,
    ParenOpen,
    ParenClose,
    BracketOpen,
    BracketClose,
    BraceOpen,
    BraceClose,
    Eq,
    NotEq,
    Less,
    LessEq,
    Greater,
    GreaterEq,
    Plus,
    PlusEq,
    Minus,
    MinusEq,
    Star,
    Slash,
    Percent,
    /// `-- …`, `// …`, `/* … */`
    Comment,
    /// A string, quoted name or comment without its closing delimiter.
    Unterminated,
    /// A character that starts no token.
    Unknown,
    /// The end of the text. All further tokens are of this kind.
    End,
}

impl TokenKind {
    /// The token's name in an error message about an expected token.
    pub fn name(self) -> &'static str {
        match self {
            Self::Word => "a name",
            Self::Keyword(keyword) => keyword.text(),
            Self::QuotedName => "a quoted name",
            Self::String | Self::DollarString => "a string",
            Self::Integer => "an integer",
            Self::Float => "a number",
            Self::Boolean => "true or false",
            Self::Uuid => "a UUID",
            Self::Blob => "a blob",
            Self::Duration => "a duration",
            Self::Comma => "','",
            Self::Semicolon => "';'",
            Self::Colon => "':'",
            Self::Question => "'?'",
            Self::Dot => "'.'",
            Self::DotDot => "'..'",
            Self::ParenOpen => "'('",
            Self::ParenClose => "')'",
            Self::BracketOpen => "'['",
            Self::BracketClose => "']'",
            Self::BraceOpen => "'{'",
            Self::BraceClose => "'}'",
            Self::Eq => "'='",
            Self::NotEq => "'!='",
            Self::Less => "'<'",
            Self::LessEq => "'<='",
            Self::Greater => "'>'",
            Self::GreaterEq => "'>='",
            Self::Plus => "'+'",
            Self::PlusEq => "'+='",
            Self::Minus => "'-'",
            Self::MinusEq => "'-='",
            Self::Star => "'*'",
            Self::Slash => "'/'",
            Self::Percent => "'%'",
            Self::Comment => "a comment",
            Self::Unterminated | Self::Unknown => "nothing",
            Self::End => "end of statement",
        }
    }
}

/// All tokens of a text including its comments, without [`TokenKind::End`]. For prompts and splitters.
pub fn tokens(text: &str) -> impl Iterator<Item = Token> + '_ {
    let mut lexer = Lexer::new(text);
    std::iter::from_fn(move || Some(lexer.next_with_comments()).filter(|token| token.kind != TokenKind::End))
}

/// Reads tokens from a position in the text. A copy is used to look ahead.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Starts at the beginning of the text. The text must be smaller than 4 GiB, the range of spans.
    pub fn new(text: &'a str) -> Self {
        Lexer { text, at: 0 }
    }

    /// The next token that is not a comment.
    pub fn next(&mut self) -> Token {
        loop {
            let token = self.next_with_comments();
            if token.kind != TokenKind::Comment {
                return token;
            }
        }
    }

    pub fn next_with_comments(&mut self) -> Token {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let rest = &bytes[self.at..];
        let (kind, len) = scan(rest);
        let start = self.at;
        self.at += len;
        if kind == TokenKind::Unknown {
            // Take a whole character, so that spans end at character boundaries.
            while !self.text.is_char_boundary(self.at) {
                self.at += 1;
            }
        }
        Token { kind, span: Span { start: start as u32, end: self.at as u32 } }
    }
}

/// Returns the kind and length of the first token of `rest`.
fn scan(rest: &[u8]) -> (TokenKind, usize) {
    let Some(&first) = rest.first() else { return (TokenKind::End, 0) };
    let second = rest.get(1).copied();
    match first {
        b'a'..=b'z' | b'A'..=b'Z' => scan_word(rest),
        b'0'..=b'9' => scan_number(rest),
        b'\'' => scan_quoted(rest, b'\'', TokenKind::String),
        b'"' => scan_quoted(rest, b'"', TokenKind::QuotedName),
        b'$' if second == Some(b'$') => scan_until(rest, b"$$", TokenKind::DollarString),
        b'-' if second == Some(b'-') => scan_line(rest),
        b'/' if second == Some(b'/') => scan_line(rest),
        b'/' if second == Some(b'*') => scan_until(rest, b"*/", TokenKind::Comment),
        b'-' if second == Some(b'=') => (TokenKind::MinusEq, 2),
        b'+' if second == Some(b'=') => (TokenKind::PlusEq, 2),
        b'.' if second == Some(b'.') => (TokenKind::DotDot, 2),
        b'<' if second == Some(b'=') => (TokenKind::LessEq, 2),
        b'>' if second == Some(b'=') => (TokenKind::GreaterEq, 2),
        b'!' if second == Some(b'=') => (TokenKind::NotEq, 2),
        b',' => (TokenKind::Comma, 1),
        b';' => (TokenKind::Semicolon, 1),
        b':' => (TokenKind::Colon, 1),
        b'?' => (TokenKind::Question, 1),
        b'.' => (TokenKind::Dot, 1),
        b'(' => (TokenKind::ParenOpen, 1),
        b')' => (TokenKind::ParenClose, 1),
        b'[' => (TokenKind::BracketOpen, 1),
        b']' => (TokenKind::BracketClose, 1),
        b'{' => (TokenKind::BraceOpen, 1),
        b'}' => (TokenKind::BraceClose, 1),
        b'=' => (TokenKind::Eq, 1),
        b'<' => (TokenKind::Less, 1),
        b'>' => (TokenKind::Greater, 1),
        b'+' => (TokenKind::Plus, 1),
        b'-' => (TokenKind::Minus, 1),
        b'*' => (TokenKind::Star, 1),
        b'/' => (TokenKind::Slash, 1),
        b'%' => (TokenKind::Percent, 1),
        _ => (TokenKind::Unknown, 1),
    }
}

fn scan_word(rest: &[u8]) -> (TokenKind, usize) {
    if is_uuid(rest) {
        return (TokenKind::Uuid, UUID_BYTES);
    }
    let len = count(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let word = &rest[..len];
    if word[0] == b'P' {
        if is_iso_calendar_duration(rest) {
            return (TokenKind::Duration, ISO_CALENDAR.len());
        }
        if is_iso_duration(word) {
            return (TokenKind::Duration, len);
        }
    }
    if word.eq_ignore_ascii_case(b"true") || word.eq_ignore_ascii_case(b"false") {
        return (TokenKind::Boolean, len);
    }
    // A word is ASCII and therefore valid UTF-8.
    let keyword = std::str::from_utf8(word).ok().and_then(Keyword::of);
    (keyword.map_or(TokenKind::Word, TokenKind::Keyword), len)
}

fn scan_number(rest: &[u8]) -> (TokenKind, usize) {
    if rest[0] == b'0' && matches!(rest.get(1), Some(b'x' | b'X')) {
        return (TokenKind::Blob, 2 + count(&rest[2..], |byte| byte.is_ascii_hexdigit()));
    }
    if is_uuid(rest) {
        return (TokenKind::Uuid, UUID_BYTES);
    }
    let digits = count(rest, |byte| byte.is_ascii_digit());
    let duration = unit_duration_len(rest, digits);
    if duration > 0 {
        return (TokenKind::Duration, duration);
    }
    let mut len = digits;
    // `1..2` is a range of integers; `1...2` is a range that begins with the number `1.`.
    let dots = count(&rest[len..], |byte| byte == b'.');
    if dots == 1 || dots >= 3 {
        len += 1;
        len += count(&rest[len..], |byte| byte.is_ascii_digit());
    }
    if matches!(rest.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(len + 1), Some(b'+' | b'-')));
        let exponent = count(&rest[len + 1 + sign..], |byte| byte.is_ascii_digit());
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    (if len == digits { TokenKind::Integer } else { TokenKind::Float }, len)
}

/// Scans `'…'` or `"…"`, where a doubled quote stands for one quote.
fn scan_quoted(rest: &[u8], quote: u8, kind: TokenKind) -> (TokenKind, usize) {
    let mut at = 1;
    loop {
        at += count(&rest[at..], |byte| byte != quote);
        match (rest.get(at), rest.get(at + 1)) {
            (None, _) => return (TokenKind::Unterminated, at),
            (Some(_), Some(&next)) if next == quote => at += 2,
            (Some(_), _) => return (kind, at + 1),
        }
    }
}

/// Scans a token with a two-byte opening delimiter, up to the two-byte delimiter `end`.
fn scan_until(rest: &[u8], end: &[u8; 2], kind: TokenKind) -> (TokenKind, usize) {
    let mut at = 2;
    loop {
        at += count(&rest[at..], |byte| byte != end[0]);
        match rest.get(at..at + 2) {
            Some(found) if found == end => return (kind, at + 2),
            Some(_) => at += 1,
            None => return (TokenKind::Unterminated, rest.len()),
        }
    }
}

fn scan_line(rest: &[u8]) -> (TokenKind, usize) {
    (TokenKind::Comment, count(rest, |byte| byte != b'\n' && byte != b'\r'))
}

fn count(bytes: &[u8], of: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| !of(byte)).unwrap_or(bytes.len())
}

const UUID_BYTES: usize = 36;

fn is_uuid(rest: &[u8]) -> bool {
    rest.get(8) == Some(&b'-')
        && rest.len() >= UUID_BYTES
        && rest[..UUID_BYTES].iter().enumerate().all(|(i, byte)| match i {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Length of a duration `1y2mo3d…` at the start of `rest`, which begins with `digits` digits; 0 if there is
/// none.
fn unit_duration_len(rest: &[u8], mut digits: usize) -> usize {
    let mut len = 0;
    loop {
        let unit = duration_unit_len(&rest[len + digits..]);
        if digits == 0 || unit == 0 {
            return len;
        }
        len += digits + unit;
        digits = count(&rest[len..], |byte| byte.is_ascii_digit());
    }
}

fn duration_unit_len(rest: &[u8]) -> usize {
    let lower = |at: usize| rest.get(at).map(u8::to_ascii_lowercase);
    match (lower(0), lower(1)) {
        (Some(b'm'), Some(b'o' | b's')) | (Some(b'u' | b'n'), Some(b's')) => 2,
        (Some(b'y' | b'w' | b'd' | b'h' | b'm' | b's'), _) => 1,
        // µ in UTF-8
        (Some(0xC2), Some(0xB5)) if lower(2) == Some(b's') => 3,
        _ => 0,
    }
}

/// Whether the word is `P1Y2M3DT4H5M6S`, a part of it, or `P1W`.
fn is_iso_duration(word: &[u8]) -> bool {
    let (date, time) = match word.iter().position(|&byte| byte == b'T') {
        Some(at) => (&word[1..at], Some(&word[at + 1..])),
        None => (&word[1..], None),
    };
    match time {
        None => is_iso_part(date, b"YMD") || is_iso_part(date, b"W"),
        Some(time) => (date.is_empty() || is_iso_part(date, b"YMD")) && is_iso_part(time, b"HMS"),
    }
}

/// Whether `part` is one or more numbers with units, in the order of `units`, each unit at most once.
fn is_iso_part(mut part: &[u8], mut units: &[u8]) -> bool {
    if part.is_empty() {
        return false;
    }
    while !part.is_empty() {
        let digits = count(part, |byte| byte.is_ascii_digit());
        let Some(unit) = part.get(digits).and_then(|unit| units.iter().position(|known| known == unit))
        else {
            return false;
        };
        if digits == 0 {
            return false;
        }
        units = &units[unit + 1..];
        part = &part[digits + 1..];
    }
    true
}

/// ISO 8601's "alternative format"; `0` stands for any digit.
const ISO_CALENDAR: &[u8] = b"P0000-00-00T00:00:00";

fn is_iso_calendar_duration(rest: &[u8]) -> bool {
    rest.len() >= ISO_CALENDAR.len()
        && ISO_CALENDAR.iter().zip(rest).all(|(&shape, &byte)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == shape,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the kinds and texts of all tokens, formatted as `Kind text` and separated by ` | `.
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let found: Vec<String> =
            tokens(text).map(|token| format!("{:?} {}", token.kind, token.text(text))).collect();
        assert_eq!(found.join(" | "), expect, "{text}");
    }

    #[test]
    fn words_and_keywords() {
        check("SeLect a_1 \"Q\"\"x\"", "Keyword(Select) SeLect | Word a_1 | QuotedName \"Q\"\"x\"");
        check("TRUE nan", "Boolean TRUE | Keyword(Nan) nan");
        check("_a", "Unknown _ | Word a");
    }

    #[test]
    fn numbers() {
        check("1 12.5 1. 1e5 1.e-3", "Integer 1 | Float 12.5 | Float 1. | Float 1e5 | Float 1.e-3");
        check("1..3", "Integer 1 | DotDot .. | Integer 3");
        check("1...3", "Float 1. | DotDot .. | Integer 3");
        check("1.5..2", "Float 1.5 | DotDot .. | Integer 2");
        check("-1-2", "Minus - | Integer 1 | Minus - | Integer 2");
        check("1abc 1e", "Integer 1 | Word abc | Integer 1 | Word e");
        check("0x 0XaF0 0xg", "Blob 0x | Blob 0XaF0 | Blob 0x | Word g");
    }

    #[test]
    fn durations() {
        check("1y2mo3d4h5m6s7ms8us9ns 3µs", "Duration 1y2mo3d4h5m6s7ms8us9ns | Duration 3µs");
        check("10H2 5mo", "Duration 10H | Integer 2 | Duration 5mo");
        check(
            "P1Y2M3DT4H5M6S P3W PT5S P2M",
            "Duration P1Y2M3DT4H5M6S | Duration P3W | Duration PT5S | Duration P2M",
        );
        check("P0001-02-03T04:05:06", "Duration P0001-02-03T04:05:06");
        check("P PT P1 p1d P1D2Y P1DT", "Word P | Word PT | Word P1 | Word p1d | Word P1D2Y | Word P1DT");
    }

    #[test]
    fn uuids() {
        check("550e8400-e29b-41d4-a716-446655440000", "Uuid 550e8400-e29b-41d4-a716-446655440000");
        check(
            "deadbeef-e29b-41d4-a716-446655440000)",
            "Uuid deadbeef-e29b-41d4-a716-446655440000 | ParenClose )",
        );
        check("deadbeef-e29b", "Word deadbeef | Minus - | Word e29b");
    }

    #[test]
    fn strings_and_comments() {
        check("'it''s' ''''", "String 'it''s' | String ''''");
        check("$$a'$b$$ $$$$", "DollarString $$a'$b$$ | DollarString $$$$");
        check(
            "a--b\nc//d\r/*e\n*/f",
            "Word a | Comment --b | Word c | Comment //d | Comment /*e\n*/ | Word f",
        );
        check("'a", "Unterminated 'a");
        check("'a''", "Unterminated 'a''");
        check("/* a *", "Unterminated /* a *");
        check("$$a$", "Unterminated $$a$");
        check("'ü' é", "String 'ü' | Unknown é");
    }

    #[test]
    fn signs() {
        check("<=>=!=+=-=..", "LessEq <= | GreaterEq >= | NotEq != | PlusEq += | MinusEq -= | DotDot ..");
        check("a<b>", "Word a | Less < | Word b | Greater >");
        check("! $", "Unknown ! | Unknown $");
    }
}
