//! INSERT, UPDATE, DELETE, TRUNCATE.

use super::{Parser, Result};
use crate::ast::{
    Assignment, AssignmentOp, Delete, DeleteTarget, Ident, Insert, InsertValues, Term, Truncate, Update,
};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

const TIMES: &[Keyword] = &[Keyword::Ttl, Keyword::Timestamp, Keyword::Timeout];

impl Parser<'_> {
    pub fn insert(&mut self) -> Result<Insert> {
        self.expect_keyword(Keyword::Insert)?;
        self.expect_keyword(Keyword::Into)?;
        let table = self.qualified_name()?;
        let values =
            if self.eat_keyword(Keyword::Json) { self.json_values()? } else { self.column_values()? };
        let if_not_exists = self.if_not_exists()?;
        let using = self.using(TIMES)?;
        Ok(Insert { table, values, if_not_exists, using })
    }

    fn column_values(&mut self) -> Result<InsertValues> {
        self.expect(TokenKind::ParenOpen)?;
        let columns = self.comma_separated(Self::column_ident)?;
        self.expect(TokenKind::ParenClose)?;
        self.expect_keyword(Keyword::Values)?;
        self.expect(TokenKind::ParenOpen)?;
        let values = self.comma_separated(Self::term)?;
        self.expect(TokenKind::ParenClose)?;
        Ok(InsertValues::Columns { columns, values })
    }

    fn json_values(&mut self) -> Result<InsertValues> {
        let value = match self.current.kind {
            TokenKind::Question | TokenKind::Colon => Term::Marker(self.marker()?),
            TokenKind::String | TokenKind::DollarString => self.term()?,
            _ => return self.none_of("a string or a bind marker"),
        };
        let mut default_unset = false;
        if self.eat_keyword(Keyword::Default) {
            default_unset = self.eat_keyword(Keyword::Unset);
            if !default_unset {
                self.expect_keyword(Keyword::Null)?;
            }
        }
        Ok(InsertValues::Json { value, default_unset })
    }

    pub fn update(&mut self) -> Result<Update> {
        self.expect_keyword(Keyword::Update)?;
        let table = self.qualified_name()?;
        let using = self.using(TIMES)?;
        self.expect_keyword(Keyword::Set)?;
        let assignments = self.comma_separated(Self::assignment)?;
        self.expect_keyword(Keyword::Where)?;
        let relations = self.relations()?;
        let conditions = self.conditions()?;
        Ok(Update { table, using, assignments, relations, conditions })
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let start = self.start();
        let column = self.column_ident()?;
        let op = match self.current.kind {
            TokenKind::Eq => {
                self.advance();
                self.assigned_value(&column)?
            }
            TokenKind::PlusEq => {
                self.advance();
                AssignmentOp::Add(self.term()?)
            }
            TokenKind::MinusEq => {
                self.advance();
                AssignmentOp::Subtract(self.term()?)
            }
            TokenKind::BracketOpen => {
                self.advance();
                let key = self.term()?;
                self.expect(TokenKind::BracketClose)?;
                self.expect(TokenKind::Eq)?;
                AssignmentOp::SetElement { key, value: self.term()? }
            }
            TokenKind::Dot => {
                self.advance();
                let field = self.ident()?;
                self.expect(TokenKind::Eq)?;
                AssignmentOp::SetField { field, value: self.term()? }
            }
            _ => return self.none_of("=, +=, -=, [ or ."),
        };
        Ok(Assignment { column, op, span: self.span_from(start) })
    }

    /// Parses the value after `column =`.
    fn assigned_value(&mut self, column: &Ident) -> Result<AssignmentOp> {
        let is_column = Self::is_name(self.current)
            && !self.at_call()
            && !(self.at_keyword(Keyword::Cast) && self.ahead_is(TokenKind::ParenOpen));
        if is_column {
            let sign = match self.ahead.kind {
                TokenKind::Plus => '+',
                TokenKind::Minus => '-',
                _ => return self.none_of("a value"),
            };
            let same = self.column_ident()?;
            self.same_column(column, &same, &format!("X = X {sign}<value>"))?;
            self.advance();
            let value = self.term()?;
            return Ok(if sign == '+' { AssignmentOp::Add(value) } else { AssignmentOp::Subtract(value) });
        }
        self.in_assignment = true;
        let value = self.term();
        self.in_assignment = false;
        let value = value?;
        if !self.eat(TokenKind::Plus) {
            return Ok(AssignmentOp::Set(value));
        }
        let same = self.column_ident()?;
        self.same_column(column, &same, "X = <value> + X")?;
        Ok(AssignmentOp::Prepend(value))
    }

    fn same_column(&self, column: &Ident, found: &Ident, form: &str) -> Result<()> {
        if column == found {
            return Ok(());
        }
        self.refuse(&format!("Only expressions of the form {form} are supported."))
    }

    pub fn delete(&mut self) -> Result<Delete> {
        self.expect_keyword(Keyword::Delete)?;
        let targets = if self.at_keyword(Keyword::From) {
            Vec::new()
        } else {
            self.comma_separated(Self::delete_target)?
        };
        self.expect_keyword(Keyword::From)?;
        let table = self.qualified_name()?;
        let using = self.using(&[Keyword::Timestamp, Keyword::Timeout])?;
        self.expect_keyword(Keyword::Where)?;
        let relations = self.relations()?;
        let conditions = self.conditions()?;
        Ok(Delete { targets, table, using, relations, conditions })
    }

    fn delete_target(&mut self) -> Result<DeleteTarget> {
        let column = self.column_ident()?;
        if self.eat(TokenKind::BracketOpen) {
            let key = self.term()?;
            self.expect(TokenKind::BracketClose)?;
            return Ok(DeleteTarget::Element { column, key });
        }
        if self.eat(TokenKind::Dot) {
            return Ok(DeleteTarget::Field { column, field: self.ident()? });
        }
        Ok(DeleteTarget::Column(column))
    }

    pub fn truncate(&mut self) -> Result<Truncate> {
        self.expect_keyword(Keyword::Truncate)?;
        if !self.eat_keyword(Keyword::Table) {
            self.eat_keyword(Keyword::ColumnFamily);
        }
        let table = self.qualified_name()?;
        let using = self.using(&[Keyword::Timeout])?;
        Ok(Truncate { table, using })
    }

    /// `IF NOT EXISTS`, or nothing.
    pub fn if_not_exists(&mut self) -> Result<bool> {
        if !self.eat_keyword(Keyword::If) {
            return Ok(false);
        }
        self.expect_keyword(Keyword::Not)?;
        self.expect_keyword(Keyword::Exists)?;
        Ok(true)
    }

    /// `IF EXISTS`, or nothing.
    pub fn if_exists(&mut self) -> Result<bool> {
        if !self.eat_keyword(Keyword::If) {
            return Ok(false);
        }
        self.expect_keyword(Keyword::Exists)?;
        Ok(true)
    }
}
