//! Statements that are recognized by their first words and not parsed further.

use super::{Parser, Problem, Result};
use crate::ast::Unsupported;
use crate::keyword::Keyword as K;
use crate::lexer::TokenKind;

/// First words, and the statement's name. A longer beginning must precede its own prefixes.
const BEGINNINGS: &[(&[K], &str)] = &[
    (&[K::Create, K::Trigger], "CREATE TRIGGER"),
    (&[K::Drop, K::Trigger], "DROP TRIGGER"),
    (&[K::Drop, K::Identity], "DROP IDENTITY"),
    (&[K::Add, K::Identity], "ADD IDENTITY"),
    (&[K::List, K::Superusers], "LIST SUPERUSERS"),
    (&[K::Prune, K::Materialized, K::View], "PRUNE MATERIALIZED VIEW"),
];

impl Parser<'_> {
    /// If the statement begins with one of [`BEGINNINGS`], takes it up to its end.
    ///
    /// Errors: invalid tokens.
    pub fn unsupported(&mut self) -> Result<Option<Unsupported>> {
        let mut lexer = self.lexer;
        let words: [TokenKind; 3] = [self.current.kind, self.ahead.kind, lexer.next().kind];
        let begins = |beginning: &[K]| {
            beginning.iter().zip(words).all(|(&word, kind)| kind == TokenKind::Keyword(word))
        };
        let Some((_, what)) = BEGINNINGS.iter().find(|(beginning, _)| begins(beginning)) else {
            return Ok(None);
        };
        let start = self.start();
        let is_drop = self.at_keyword(K::Drop);
        let mut if_exists = false;
        while !matches!(self.current.kind, TokenKind::Semicolon | TokenKind::End) {
            if matches!(self.current.kind, TokenKind::Unknown | TokenKind::Unterminated) {
                return Err(self.unexpected(Problem::NoneOf("CQL")));
            }
            if_exists |= is_drop && self.at_keyword(K::If) && self.ahead_is(TokenKind::Keyword(K::Exists));
            self.advance();
        }
        Ok(Some(Unsupported { what, if_exists, span: self.span_from(start) }))
    }
}
