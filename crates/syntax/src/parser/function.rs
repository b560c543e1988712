//! CREATE and DROP of user-defined functions and aggregates.

use super::{Parser, Result};
use crate::ast::{CreateAggregate, CreateFunction, DropFunction, Ident, Statement, TypeName};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Whether FUNCTION or AGGREGATE is next, after CREATE, with or without OR REPLACE.
    pub fn at_function(&self) -> bool {
        let mut lexer = self.lexer;
        let is_function = |kind| matches!(kind, TokenKind::Keyword(Keyword::Function | Keyword::Aggregate));
        if !self.at_keyword(Keyword::Or) {
            return is_function(self.current.kind);
        }
        self.ahead_is_keyword(Keyword::Replace) && is_function(lexer.next().kind)
    }

    /// Parses the rest of CREATE FUNCTION or CREATE AGGREGATE, from OR REPLACE on.
    pub fn create_function_or_aggregate(&mut self) -> Result<Statement> {
        let or_replace = self.eat_keyword(Keyword::Or);
        if or_replace {
            self.expect_keyword(Keyword::Replace)?;
        }
        if self.eat_keyword(Keyword::Aggregate) {
            return Ok(Statement::CreateAggregate(Box::new(self.create_aggregate(or_replace)?)));
        }
        self.expect_keyword(Keyword::Function)?;
        Ok(Statement::CreateFunction(Box::new(self.create_function(or_replace)?)))
    }

    fn create_function(&mut self, or_replace: bool) -> Result<CreateFunction> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        let argument = |parser: &mut Self| Ok((parser.ident()?, parser.type_name()?));
        let arguments = self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, argument)?;
        let called_on_null = self.eat_keyword(Keyword::Called);
        if !called_on_null {
            if !self.eat_keyword(Keyword::Returns) {
                return self.none_of("CALLED ON NULL INPUT or RETURNS NULL ON NULL INPUT");
            }
            self.expect_keyword(Keyword::Null)?;
        }
        for word in [Keyword::On, Keyword::Null, Keyword::Input, Keyword::Returns] {
            self.expect_keyword(word)?;
        }
        let returns = self.type_name()?;
        self.expect_keyword(Keyword::Language)?;
        let language = self.ident()?;
        self.expect_keyword(Keyword::As)?;
        let body = self.string()?;
        Ok(CreateFunction {
            or_replace,
            if_not_exists,
            name,
            arguments,
            called_on_null,
            returns,
            language,
            body,
        })
    }

    fn create_aggregate(&mut self, or_replace: bool) -> Result<CreateAggregate> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        let arguments = self.argument_types()?;
        self.expect_keyword(Keyword::SFunc)?;
        let state_function = self.own_function_name()?;
        self.expect_keyword(Keyword::SType)?;
        let state_type = self.type_name()?;
        let final_function =
            if self.eat_keyword(Keyword::FinalFunc) { Some(self.own_function_name()?) } else { None };
        let initial = if self.eat_keyword(Keyword::InitCond) {
            let (start, markers) = (self.current.span, self.markers.len());
            let term = self.term()?;
            if self.markers.len() > markers {
                return self.error_at(start, "Bind variables are not allowed in INITCOND");
            }
            Some(term)
        } else {
            None
        };
        Ok(CreateAggregate {
            or_replace,
            if_not_exists,
            name,
            arguments,
            state_function,
            state_type,
            final_function,
            initial,
        })
    }

    /// A function of the statement's own keyspace: its name cannot have another.
    fn own_function_name(&mut self) -> Result<Ident> {
        let name = self.function_name()?;
        match name.keyspace {
            None => Ok(name.name),
            Some(keyspace) => self.error_at(
                keyspace.span,
                "the functions of an aggregate belong to its keyspace and are named without it",
            ),
        }
    }

    fn argument_types(&mut self) -> Result<Vec<TypeName>> {
        self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, Self::type_name)
    }

    /// Parses the rest of DROP FUNCTION or DROP AGGREGATE, from IF EXISTS on.
    pub fn drop_function(&mut self) -> Result<DropFunction> {
        let if_exists = self.if_exists()?;
        let name = self.function_name()?;
        let arguments = if self.at(TokenKind::ParenOpen) { Some(self.argument_types()?) } else { None };
        Ok(DropFunction { if_exists, name, arguments })
    }
}
