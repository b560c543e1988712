//! A script as the statements in it.
//!
//! A `;` ends a statement unless it stands in a string, a quoted name, a comment, or between BEGIN BATCH and APPLY
//! BATCH. Whether what it ends is CQL is not asked.

use super::keyword::Keyword;
use super::lexer::{Token, TokenKind, tokens};

/// One statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementText<'a> {
    /// From its first token to its last, comments included, without the `;`.
    pub text: &'a str,
    /// Where it begins in the script, in bytes.
    pub start: usize,
    /// Whether a `;` follows. If not, it is the last one, and more may be to come.
    pub is_terminated: bool,
}

/// The statements of a script, in order. Empty ones (nothing but comments) are left out.
pub fn split_statements(script: &str) -> Vec<StatementText<'_>> {
    statements(script).collect()
}

/// As [`split_statements`], one at a time: of what follows a statement's `;` nothing is read until the next is
/// asked for.
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

/// What is known of the statement that is being read.
#[derive(Default)]
struct Scan {
    bounds: Option<(usize, usize)>,
    batch: Batch,
    /// The token before, if it was a keyword.
    previous: Option<Keyword>,
    tokens: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Batch {
    #[default]
    No,
    /// BEGIN was the first word.
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

    /// Statements in brackets, with `;` behind those that have one.
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
