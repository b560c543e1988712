//! CREATE INDEX and DROP INDEX.

use super::{Parser, Result};
use crate::ast::{CreateIndex, DropIndex, IndexTarget, QualifiedName, TargetPart};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Whether `INDEX` or `CUSTOM INDEX` is next, after CREATE.
    pub fn at_index(&self) -> bool {
        self.at_keyword(Keyword::Index)
            || self.at_keyword(Keyword::Custom) && self.ahead_is_keyword(Keyword::Index)
    }

    /// Parses the rest of CREATE INDEX, from `CUSTOM` or `INDEX` on.
    pub fn create_index(&mut self) -> Result<CreateIndex> {
        let is_custom = self.eat_keyword(Keyword::Custom);
        self.expect_keyword(Keyword::Index)?;
        let if_not_exists = self.if_not_exists()?;
        let name = if self.at_keyword(Keyword::On) { None } else { Some(self.index_name()?) };
        self.expect_keyword(Keyword::On)?;
        let table = self.qualified_name()?;
        let targets = self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, Self::index_target)?;
        let class = if self.eat_keyword(Keyword::Using) { Some(self.string()?) } else { None };
        let properties = if self.eat_keyword(Keyword::With) { self.properties()? } else { Vec::new() };
        Ok(CreateIndex { is_custom, if_not_exists, name, table, targets, class, properties })
    }

    fn index_name(&mut self) -> Result<QualifiedName> {
        if self.at(TokenKind::Question) {
            return self.error_at(self.current.span, "Bind variables cannot be used for index names");
        }
        self.qualified_name()
    }

    /// `column`, `part(column)`, or `(column, column)`
    fn index_target(&mut self) -> Result<IndexTarget> {
        if self.at(TokenKind::ParenOpen) {
            let start = self.start();
            self.expect(TokenKind::ParenOpen)?;
            let columns = self.comma_separated(Self::column_ident)?;
            self.expect(TokenKind::ParenClose)?;
            return Ok(IndexTarget::PartitionKey { columns, span: self.span_from(start) });
        }
        let part = match self.current.kind {
            TokenKind::Keyword(Keyword::Values) => TargetPart::Values,
            TokenKind::Keyword(Keyword::Keys) => TargetPart::Keys,
            TokenKind::Keyword(Keyword::Entries) => TargetPart::Entries,
            TokenKind::Keyword(Keyword::Full) => TargetPart::Full,
            _ => TargetPart::Simple,
        };
        // The words can also be names of columns.
        if part == TargetPart::Simple || !self.ahead_is(TokenKind::ParenOpen) {
            return Ok(IndexTarget::Column { part: TargetPart::Simple, column: self.column_ident()? });
        }
        self.advance();
        self.expect(TokenKind::ParenOpen)?;
        let column = self.column_ident()?;
        self.expect(TokenKind::ParenClose)?;
        Ok(IndexTarget::Column { part, column })
    }

    /// Parses the rest of DROP INDEX, from the name on.
    pub fn drop_index(&mut self) -> Result<DropIndex> {
        Ok(DropIndex { if_exists: self.if_exists()?, name: self.index_name()? })
    }
}
