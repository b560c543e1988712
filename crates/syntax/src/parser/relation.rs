//! Parses the relations of WHERE and the conditions of IF.

use super::{Parser, Result};
use crate::ast::{CompareOp, Condition, ConditionTest, Conditions, InValues, Relation, RelationTarget, Term};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

const EXPECTED_OPERATOR: &str = "=, <, <=, >, >=, !=, IN, CONTAINS, LIKE or IS NOT NULL";

impl Parser<'_> {
    /// `relation (AND relation)*`
    pub fn relations(&mut self) -> Result<Vec<Relation>> {
        let mut relations = vec![self.relation()?];
        while self.eat_keyword(Keyword::And) {
            relations.push(self.relation()?);
        }
        Ok(relations)
    }

    fn relation(&mut self) -> Result<Relation> {
        let start = self.start();
        if self.at(TokenKind::ParenOpen) {
            let is_tuple = Self::is_name(self.ahead)
                && matches!(self.third().kind, TokenKind::Comma | TokenKind::ParenClose);
            return if is_tuple { self.tuple_relation() } else { self.nested(Self::relation_in_parens) };
        }
        if self.eat_keyword(Keyword::Token) {
            let columns = self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, Self::column_ident)?;
            let target = RelationTarget::Token { columns, span: self.span_from(start) };
            let op = self.comparison()?;
            return self.compare(target, op, start);
        }
        if self.at(TokenKind::Word)
            && self.ahead_is(TokenKind::ParenOpen)
            && self.current.text(self.text).eq_ignore_ascii_case("expr")
        {
            return self.index_expression();
        }
        let column = self.column_ident()?;
        if self.eat_keyword(Keyword::Is) {
            self.expect_keyword(Keyword::Not)?;
            self.expect_keyword(Keyword::Null)?;
            return Ok(Relation::IsNotNull { column, span: self.span_from(start) });
        }
        if self.eat(TokenKind::BracketOpen) {
            let key = Box::new(self.term()?);
            self.expect(TokenKind::BracketClose)?;
            let op = self.comparison()?;
            return self.compare(RelationTarget::Element { column, key }, op, start);
        }
        let target = RelationTarget::Column(column);
        if self.eat_keyword(Keyword::In) {
            let values = self.in_values(Self::term)?;
            return Ok(Relation::In { target, values, span: self.span_from(start) });
        }
        let op = self.operator()?;
        self.compare(target, op, start)
    }

    fn compare(&mut self, target: RelationTarget, op: CompareOp, start: u32) -> Result<Relation> {
        let value = self.term()?;
        Ok(Relation::Compare { target, op, value, span: self.span_from(start) })
    }

    fn relation_in_parens(&mut self) -> Result<Relation> {
        self.expect(TokenKind::ParenOpen)?;
        let relation = self.relation()?;
        self.expect(TokenKind::ParenClose)?;
        Ok(relation)
    }

    fn tuple_relation(&mut self) -> Result<Relation> {
        let start = self.start();
        let columns = self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, Self::column_ident)?;
        let target = RelationTarget::Tuple { columns, span: self.span_from(start) };
        if self.eat_keyword(Keyword::In) {
            let values = self.in_values(Self::tuple_or_marker)?;
            return Ok(Relation::In { target, values, span: self.span_from(start) });
        }
        let op = self.comparison()?;
        let value = self.tuple_or_marker()?;
        Ok(Relation::Compare { target, op, value, span: self.span_from(start) })
    }

    fn tuple_or_marker(&mut self) -> Result<Term> {
        match self.current.kind {
            TokenKind::Question | TokenKind::Colon => Ok(Term::Marker(self.marker()?)),
            TokenKind::ParenOpen => self.nested(Self::tuple_term),
            _ => self.none_of("a tuple or a bind marker"),
        }
    }

    /// `expr(index, value)`
    fn index_expression(&mut self) -> Result<Relation> {
        let start = self.start();
        self.advance();
        self.expect(TokenKind::ParenOpen)?;
        let index = self.ident()?;
        self.expect(TokenKind::Comma)?;
        let value = self.term()?;
        self.expect(TokenKind::ParenClose)?;
        Ok(Relation::IndexExpression { index, value, span: self.span_from(start) })
    }

    /// Parses the values after IN.
    fn in_values(&mut self, item: impl FnMut(&mut Self) -> Result<Term>) -> Result<InValues> {
        if self.at_marker() {
            return Ok(InValues::Marker(self.marker()?));
        }
        Ok(InValues::List(self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, item)?))
    }

    /// Parses `=`, `<`, `<=`, `>`, `>=` or `!=`.
    fn comparison(&mut self) -> Result<CompareOp> {
        match self.eat_comparison() {
            Some(op) => Ok(op),
            None => self.none_of("=, <, <=, >, >= or !="),
        }
    }

    fn eat_comparison(&mut self) -> Option<CompareOp> {
        let op = match self.current.kind {
            TokenKind::Eq => CompareOp::Eq,
            TokenKind::NotEq => CompareOp::NotEq,
            TokenKind::Less => CompareOp::Less,
            TokenKind::LessEq => CompareOp::LessEq,
            TokenKind::Greater => CompareOp::Greater,
            TokenKind::GreaterEq => CompareOp::GreaterEq,
            _ => return None,
        };
        self.advance();
        Some(op)
    }

    /// Parses the operator between a column and a value.
    fn operator(&mut self) -> Result<CompareOp> {
        if let Some(op) = self.eat_comparison() {
            return Ok(op);
        }
        if self.eat_keyword(Keyword::Like) {
            return Ok(CompareOp::Like);
        }
        if self.eat_keyword(Keyword::Contains) {
            return Ok(if self.eat_keyword(Keyword::Key) {
                CompareOp::ContainsKey
            } else {
                CompareOp::Contains
            });
        }
        self.none_of(EXPECTED_OPERATOR)
    }

    /// `IF EXISTS`, `IF condition (AND condition)*`, or neither.
    pub fn conditions(&mut self) -> Result<Option<Conditions>> {
        if !self.eat_keyword(Keyword::If) {
            return Ok(None);
        }
        // EXISTS may also be the name of a column.
        let is_column = matches!(
            self.ahead.kind,
            TokenKind::Eq
                | TokenKind::NotEq
                | TokenKind::Less
                | TokenKind::LessEq
                | TokenKind::Greater
                | TokenKind::GreaterEq
                | TokenKind::BracketOpen
                | TokenKind::Dot
                | TokenKind::Keyword(Keyword::In | Keyword::Contains | Keyword::Like)
        );
        if self.at_keyword(Keyword::Exists) && !is_column {
            self.advance();
            return Ok(Some(Conditions::Exists));
        }
        let mut conditions = vec![self.condition()?];
        while self.eat_keyword(Keyword::And) {
            conditions.push(self.condition()?);
        }
        Ok(Some(Conditions::All(conditions)))
    }

    fn condition(&mut self) -> Result<Condition> {
        let start = self.start();
        let column = self.column_ident()?;
        let target = match self.current.kind {
            TokenKind::BracketOpen => {
                self.advance();
                let key = Box::new(self.term()?);
                self.expect(TokenKind::BracketClose)?;
                RelationTarget::Element { column, key }
            }
            TokenKind::Dot => {
                self.advance();
                RelationTarget::Field { column, field: self.ident()? }
            }
            _ => RelationTarget::Column(column),
        };
        let test = if self.eat_keyword(Keyword::In) {
            ConditionTest::In(self.in_values(Self::term)?)
        } else {
            let op = self.operator()?;
            ConditionTest::Compare(op, self.term()?)
        };
        Ok(Condition { target, test, span: self.span_from(start) })
    }
}
