//! Shows the position of an error: for `line 1:7 …`, the line of the statement with the token underlined.
//!
//! ```text
//! SELECT * FORM t
//!          ^^^^
//! ```

use syntax::tokens;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maximum length of a shown line, in characters. Longer lines are cut around the error.
const SHOWN_CHARS: usize = 100;

/// Line (from 1) and column (from 0, in characters) from the beginning of an error's message.
pub fn place_of(message: &str) -> Option<(usize, usize)> {
    let (line, rest) = message.strip_prefix("line ")?.split_once(':')?;
    let column = rest.split(' ').next()?;
    Some((line.parse().ok().filter(|line| *line > 0)?, column.parse().ok()?))
}

/// The line of the statement with the position underlined; `None` if the statement has no such position.
pub fn underlined(statement: &str, (line, column): (usize, usize)) -> Option<String> {
    let text = statement.split('\n').nth(line - 1)?;
    let text = text.strip_suffix('\r').unwrap_or(text);
    let line_start: usize = statement.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let offset = match text.char_indices().nth(column) {
        Some((offset, _)) => offset,
        None if text.chars().count() == column => text.len(),
        None => return None,
    };
    let at = line_start + offset;
    let token = tokens(statement).find(|token| token.span.start as usize == at);
    let marked = token.map_or("", |token| token.text(statement));
    let marked = marked.lines().next().unwrap_or("");
    let marks = marked.width().clamp(1, SHOWN_CHARS / 2);

    let skipped = (column + SHOWN_CHARS / 2).saturating_sub(SHOWN_CHARS);
    let skipped = if text.chars().count() > SHOWN_CHARS { skipped } else { 0 };
    let shown: String = text.chars().skip(skipped).take(SHOWN_CHARS).collect();
    let (before, after) = (
        if skipped > 0 { "..." } else { "" },
        if text.chars().count() > skipped + SHOWN_CHARS { "..." } else { "" },
    );
    let mut indent: String = before.chars().map(|_| ' ').collect();
    for c in text.chars().take(column).skip(skipped) {
        match c {
            '\t' => indent.push('\t'),
            c => indent.extend(std::iter::repeat_n(' ', c.width().unwrap_or(0))),
        }
    }
    Some(format!("{before}{shown}{after}\n{indent}{}", "^".repeat(marks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_from_messages() {
        assert_eq!(place_of("line 1:7 no viable alternative"), Some((1, 7)));
        assert_eq!(place_of("line 12:0 x"), Some((12, 0)));
        for text in ["", "line", "line 0:3 x", "line a:3 x", "line 1:b x", "unconfigured table line 1:2"] {
            assert_eq!(place_of(text), None, "{text}");
        }
    }

    #[track_caller]
    fn check(statement: &str, place: (usize, usize), expect: &str) {
        assert_eq!(underlined(statement, place).as_deref(), Some(expect));
    }

    #[test]
    fn the_token_is_underlined() {
        check("SELECT * FORM t", (1, 9), "SELECT * FORM t\n         ^^^^");
        check("SELECT *\nFROM t\nWERE k = 1", (3, 0), "WERE k = 1\n^^^^");
        check("SELECT 'a", (1, 7), "SELECT 'a\n       ^^");
    }

    #[test]
    fn the_end_and_odd_characters() {
        check("SELECT *", (1, 8), "SELECT *\n        ^");
        check("'日本' x", (1, 5), "'日本' x\n       ^");
        check("\tx y", (1, 3), "\tx y\n\t  ^");
        assert_eq!(underlined("a", (2, 0)), None);
        assert_eq!(underlined("a", (1, 5)), None);
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let statement = format!("{}wrong {}", "a ".repeat(200), "b ".repeat(200));
        let shown = underlined(&statement, (1, 400)).unwrap();
        let (line, marks) = shown.split_once('\n').unwrap();
        assert!(line.starts_with("...") && line.ends_with("...") && line.len() <= SHOWN_CHARS + 6);
        assert_eq!(line.find("wrong"), marks.find("^^^^^"));
    }
}
