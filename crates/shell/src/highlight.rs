//! Syntax highlighting of CQL while it is typed.

use syntax::{Keyword, Token, TokenKind, tokens};

use super::command;
use super::style::{Style, paint};

/// `line` in colours. `before` contains the earlier lines of the same statement; they determine whether the
/// line begins inside a string.
pub fn highlight(before: &str, line: &str) -> String {
    let whole = format!("{before}{line}");
    let shown_from = before.len();
    let mut out = String::new();
    let mut at = shown_from;
    let mut previous = None;
    for (i, token) in tokens(&whole).enumerate() {
        let style = style_of(token, &whole, previous, i == 0);
        previous = Some(token);
        let (start, end) = (token.span.start as usize, token.span.end as usize);
        if end <= shown_from {
            continue;
        }
        let start = start.max(shown_from);
        out.push_str(&whole[at..start]);
        paint(&mut out, &whole[start..end], style, true);
        at = end;
    }
    out.push_str(&whole[at..]);
    out
}

fn style_of(token: Token, text: &str, previous: Option<Token>, is_first: bool) -> Style {
    match token.kind {
        TokenKind::Keyword(keyword) if is_shown(keyword, token.text(text)) => Style::Keyword,
        TokenKind::Word if is_first && command::parse(token.text(text)) != Ok(None) => Style::Keyword,
        TokenKind::Word | TokenKind::Keyword(_) if follows_colon(token, previous) => Style::Marker,
        TokenKind::String | TokenKind::DollarString | TokenKind::QuotedName => Style::Quoted,
        TokenKind::Unterminated if text[token.span.start as usize..].starts_with("/*") => Style::Comment,
        TokenKind::Unterminated => Style::Quoted,
        TokenKind::Integer
        | TokenKind::Float
        | TokenKind::Boolean
        | TokenKind::Uuid
        | TokenKind::Blob
        | TokenKind::Duration => Style::Number,
        TokenKind::Question => Style::Marker,
        TokenKind::Comment => Style::Comment,
        TokenKind::Unknown => Style::Error,
        _ => Style::Plain,
    }
}

/// Whether the token is the name in `:name`, as opposed to a map's value in `: value`.
fn follows_colon(token: Token, previous: Option<Token>) -> bool {
    previous
        .is_some_and(|previous| previous.kind == TokenKind::Colon && previous.span.end == token.span.start)
}

/// Whether to highlight a keyword. Keywords that can be names are treated as names, unless they are types or
/// in capitals.
fn is_shown(keyword: Keyword, text: &str) -> bool {
    let is_type = keyword.names_function() && !keyword.names_type();
    keyword.is_reserved() || is_type || text == keyword.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the colours, written as letters with brackets around the coloured text.
    #[track_caller]
    fn check(before: &str, line: &str, expect: &str) {
        let shown = highlight(before, line);
        let marked = [("1;34", "k"), ("32", "s"), ("36", "n"), ("35", "m"), ("2", "c"), ("1;31", "e")]
            .iter()
            .fold(shown, |text, (code, letter)| text.replace(&format!("\x1b[{code}m"), &format!("{letter}<")))
            .replace("\x1b[0m", ">");
        assert_eq!(marked, expect);
    }

    #[test]
    fn words_strings_numbers_markers() {
        check("", "SELECT a FROM t WHERE k = 'x;'", "k<SELECT> a k<FROM> t k<WHERE> k = s<'x;'>");
        check("", "limit 10 -- ten", "k<limit> n<10> c<-- ten>");
        check("", "a = ? and b = :name", "a = m<?> k<and> b = :m<name>");
        check("", "user TTL int #", "user k<TTL> k<int> e<#>");
        check("", "EXPAND on", "k<EXPAND> k<on>");
    }

    #[test]
    fn lines_above_decide() {
        check("insert 'a\n", "b' from", "s<b'> k<from>");
        check("/* a\n", "b", "c<b>");
        check("select\n", "1", "n<1>");
    }
}
