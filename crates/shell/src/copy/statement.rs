//! The syntax of COPY: a table, columns in parentheses, FROM or TO, a file or a stream, and WITH options.
//!
//! Names follow CQL: lower case unless they are quoted. The value of an option is a string, or the text up to
//! the next AND.

use syntax::{Token, TokenKind, tokens};

const USAGE: &str =
    "COPY table [(column, …)] FROM 'file' | STDIN [WITH option = value AND …];  or: TO 'file' | STDOUT";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    From,
    To,
}

/// A COPY statement as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyStatement {
    pub keyspace: Option<String>,
    pub table: String,
    /// `None`: all columns.
    pub columns: Option<Vec<String>>,
    pub direction: Direction,
    /// `None`: standard input or output.
    pub file: Option<String>,
    /// Names in lower case.
    pub options: Vec<(String, String)>,
}

struct Words<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
}

impl<'t> Words<'t> {
    fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<(Token, &'t str)> {
        let token = self.peek()?;
        self.at += 1;
        Some((token, token.text(self.text)))
    }

    fn takes(&mut self, kind: TokenKind) -> bool {
        let found = self.peek().is_some_and(|token| token.kind == kind);
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.text(self.text).eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> Result<String, String> {
        match self.next() {
            Some((Token { kind: TokenKind::QuotedName, .. }, text)) => {
                Ok(text[1..text.len() - 1].replace("\"\"", "\""))
            }
            Some((Token { kind: TokenKind::Word | TokenKind::Keyword(_), .. }, text)) => {
                Ok(text.to_ascii_lowercase())
            }
            found => Err(self.wrong(found, "a name")),
        }
    }

    fn wrong(&self, found: Option<(Token, &str)>, expected: &str) -> String {
        let found = found.map_or("the end", |(_, text)| text);
        format!("COPY: expected {expected}, found {found}. Write it as: {USAGE}")
    }
}

/// Parses the statement, without its `;`.
///
/// # Errors
/// What was expected instead.
pub fn parse(text: &str) -> Result<CopyStatement, String> {
    let tokens = tokens(text).filter(|token| token.kind != TokenKind::Comment).collect();
    let mut words = Words { text, tokens, at: 0 };
    if !words.takes_word("COPY") {
        return Err(words.wrong(None, "COPY"));
    }
    let first = words.name()?;
    let (keyspace, table) = match words.takes(TokenKind::Dot) {
        true => (Some(first), words.name()?),
        false => (None, first),
    };
    let columns = match words.takes(TokenKind::ParenOpen) {
        true => Some(columns(&mut words)?),
        false => None,
    };
    let direction = match (words.takes_word("FROM"), words.takes_word("TO")) {
        (true, false) => Direction::From,
        (false, true) => Direction::To,
        _ => {
            let found = words.next();
            return Err(words.wrong(found, "FROM or TO"));
        }
    };
    let stream = if direction == Direction::From { "STDIN" } else { "STDOUT" };
    let file = match words.next() {
        Some((token, text)) if token.kind == TokenKind::String => Some(unquoted(text)),
        Some((_, text)) if text.eq_ignore_ascii_case(stream) => None,
        found => return Err(words.wrong(found, &format!("a file in quotes, or {stream}"))),
    };
    let mut options = vec![];
    if words.takes_word("WITH") {
        loop {
            options.push(option(&mut words)?);
            if !words.takes_word("AND") {
                break;
            }
        }
    }
    words.takes(TokenKind::Semicolon);
    match words.next() {
        None => Ok(CopyStatement { keyspace, table, columns, direction, file, options }),
        found => Err(words.wrong(found, "WITH, AND or the end")),
    }
}

fn columns(words: &mut Words<'_>) -> Result<Vec<String>, String> {
    let mut names = vec![words.name()?];
    while words.takes(TokenKind::Comma) {
        names.push(words.name()?);
    }
    match words.takes(TokenKind::ParenClose) {
        true => Ok(names),
        false => {
            let found = words.next();
            Err(words.wrong(found, "')'"))
        }
    }
}

fn option(words: &mut Words<'_>) -> Result<(String, String), String> {
    let name = words.name()?;
    if !words.takes(TokenKind::Eq) {
        let found = words.next();
        return Err(words.wrong(found, &format!("= after {}", name.to_ascii_uppercase())));
    }
    let Some((first, text)) = words.next() else {
        return Err(words.wrong(None, &format!("a value of {}", name.to_ascii_uppercase())));
    };
    if first.kind == TokenKind::String {
        return Ok((name, unquoted(text)));
    }
    let mut end = first.span.end;
    while let Some(token) = words.peek() {
        if token.kind == TokenKind::Semicolon || token.text(words.text).eq_ignore_ascii_case("AND") {
            break;
        }
        end = token.span.end;
        words.at += 1;
    }
    Ok((name, words.text[first.span.start as usize..end as usize].to_string()))
}

fn unquoted(text: &str) -> String {
    text[1..text.len() - 1].replace("''", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let found = parse("copy Ks.\"Tab\" (a, \"B b\") from 'it''s.csv' WITH header = TRUE AND Delimiter='|' and maxrows=-1").unwrap();
        let options = [("header", "TRUE"), ("delimiter", "|"), ("maxrows", "-1")];
        let expect = CopyStatement {
            keyspace: Some("ks".to_string()),
            table: "Tab".to_string(),
            columns: Some(vec!["a".to_string(), "B b".to_string()]),
            direction: Direction::From,
            file: Some("it's.csv".to_string()),
            options: options.map(|(name, value)| (name.to_string(), value.to_string())).to_vec(),
        };
        assert_eq!(found, expect);
        let found = parse("COPY t TO STDOUT;").unwrap();
        assert_eq!((found.direction, found.file, found.columns), (Direction::To, None, None));
        assert_eq!(parse("COPY t FROM stdin").unwrap().direction, Direction::From);
    }

    #[test]
    fn errors_name_what_was_expected() {
        let check = |text: &str, expect: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("COPY", "expected a name, found the end");
        check("COPY t INTO 'x'", "expected FROM or TO, found INTO");
        check("COPY t FROM STDOUT", "a file in quotes, or STDIN, found STDOUT");
        check("COPY t TO x", "a file in quotes, or STDOUT, found x");
        check("COPY t (a TO 'x'", "expected ')', found TO");
        check("COPY t TO 'x' WITH header", "expected = after HEADER, found the end");
        check("COPY t TO 'x' WITH header = ", "expected a value of HEADER");
        check("COPY t TO 'x' header = true", "expected WITH, AND or the end, found header");
    }
}
