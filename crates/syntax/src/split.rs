//! Splits a script into statements.
//!
//! A `;` ends a statement unless it is in a string, a quoted name or a comment, or between BEGIN BATCH and
//! APPLY BATCH. The splitter does not check whether a statement is valid CQL.

use super::keyword::Keyword;
use super::lexer::{Token, TokenKind, tokens};

/// One statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementText<'a> {
    /// From the first token to the last, including comments, without the `;`.
    pub text: &'a str,
    /// Offset of the statement in the script, in bytes.
    pub start: usize,
    /// Whether a `;` follows. If not, this is the last statement, and it may be incomplete.
    pub is_terminated: bool,
}

/// The statements of a script, in order. Empty statements (only comments) are left out.
pub fn split_statements(script: &str) -> Vec<StatementText<'_>> {
    statements(script).collect()
}

/// Like [`split_statements`], but lazy: text after a statement's `;` is not read until the next statement is
/// requested.
pub fn statements(script: &str) -> impl Iterator<Item = StatementText<'_>> {
    let mut tokens = tokens(script);
    let mut scan = Scan::default();
    std::iter::from_fn(move || {
        for token in &mut tokens {
            match token.kind {
                TokenKind::Comment => (),
                TokenKind::Semicolon if !scan.in_batch() => {
                    let found = scan.finish(script, true);
                    if found.is_some() {
                        return found;
                    }
                }
                _ => scan.take(token),
            }
        }
        scan.finish(script, false)
    })
}

/// State of the statement that is being scanned.
#[derive(Default)]
struct Scan {
    bounds: Option<(usize, usize)>,
    batch: Batch,
    /// The previous token, if it was a keyword.
    previous: Option<Keyword>,
    tokens: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Batch {
    #[default]
    No,
    /// The first word was BEGIN.
    Begun,
    Inside,
    Applied,
}

impl Scan {
    fn in_batch(&self) -> bool {
        self.batch == Batch::Inside
    }

    fn take(&mut self, token: Token) {
        let (start, end) = (token.span.start as usize, token.span.end as usize);
        self.bounds = Some((self.bounds.map_or(start, |(start, _)| start), end));
        let keyword = match token.kind {
            TokenKind::Keyword(keyword) => Some(keyword),
            _ => None,
        };
        self.batch = match (self.batch, self.previous, keyword) {
            (Batch::No, _, Some(Keyword::Begin)) if self.tokens == 0 => Batch::Begun,
            (Batch::Begun, _, Some(Keyword::Batch)) => Batch::Inside,
            (Batch::Begun, _, Some(Keyword::Unlogged | Keyword::Counter | Keyword::Logged)) => Batch::Begun,
            (Batch::Begun, ..) => Batch::No,
            (Batch::Inside, Some(Keyword::Apply), Some(Keyword::Batch)) => Batch::Applied,
            (batch, ..) => batch,
        };
        self.previous = keyword;
        self.tokens += 1;
    }

    fn finish<'a>(&mut self, script: &'a str, is_terminated: bool) -> Option<StatementText<'a>> {
        let (start, end) = std::mem::take(self).bounds?;
        Some(StatementText { text: &script[start..end], start, is_terminated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the statements, each in brackets and followed by its `;` if it has one.
    #[track_caller]
    fn check(script: &str, expect: &str) {
        let found: String = split_statements(script)
            .iter()
            .map(|part| {
                assert!(script[part.start..].starts_with(part.text));
                format!("[{}]{}", part.text, if part.is_terminated { ";" } else { "" })
            })
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_semicolon_ends_a_statement() {
        check("", "");
        check(" ;; \n", "");
        check("a b ; c", "[a b];[c]");
        check("a;", "[a];");
    }

    #[test]
    fn not_in_strings_names_and_comments() {
        check("a ';' b; c", "[a ';' b];[c]");
        check("a 'it'';' b", "[a 'it'';' b]");
        check("\";\";", "[\";\"];");
        check("$$ ; $$; /* ; */ -- ;\n x", "[$$ ; $$];[x]");
        check("a -- ;\n b;", "[a -- ;\n b];");
        check("a; 'open ; ", "[a];['open ; ]");
        check("-- only; this", "");
    }

    #[test]
    fn not_within_a_batch() {
        check("begin batch a; b; apply batch; c", "[begin batch a; b; apply batch];[c]");
        check(
            "BEGIN UNLOGGED BATCH USING TIMESTAMP 1 a; APPLY BATCH;",
            "[BEGIN UNLOGGED BATCH USING TIMESTAMP 1 a; APPLY BATCH];",
        );
        check("begin batch a; b;", "[begin batch a; b;]");
        check("select begin; batch; a", "[select begin];[batch];[a]");
        check("begin; batch a; b", "[begin];[batch a];[b]");
    }
}
