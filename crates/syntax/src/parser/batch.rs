//! BATCH.

use super::{Parser, Result};
use crate::ast::{Batch, BatchKind, Modification};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub fn batch(&mut self) -> Result<Batch> {
        self.expect_keyword(Keyword::Begin)?;
        let kind = match self.current.kind {
            TokenKind::Keyword(Keyword::Unlogged) => BatchKind::Unlogged,
            TokenKind::Keyword(Keyword::Counter) => BatchKind::Counter,
            _ => BatchKind::Logged,
        };
        if kind != BatchKind::Logged {
            self.advance();
        }
        self.expect_keyword(Keyword::Batch)?;
        let using = self.using(&[Keyword::Timestamp, Keyword::Ttl, Keyword::Timeout])?;
        let mut modifications = Vec::new();
        while !self.at_keyword(Keyword::Apply) {
            modifications.push(self.modification()?);
            self.eat(TokenKind::Semicolon);
        }
        self.expect_keyword(Keyword::Apply)?;
        self.expect_keyword(Keyword::Batch)?;
        Ok(Batch { kind, using, modifications })
    }

    fn modification(&mut self) -> Result<Modification> {
        Ok(match self.current.kind {
            TokenKind::Keyword(Keyword::Insert) => Modification::Insert(self.insert()?),
            TokenKind::Keyword(Keyword::Update) => Modification::Update(self.update()?),
            TokenKind::Keyword(Keyword::Delete) => Modification::Delete(self.delete()?),
            _ => return self.none_of("INSERT, UPDATE, DELETE or APPLY BATCH"),
        })
    }
}
