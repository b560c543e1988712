//! Dispatches on the first keywords of a statement.

use super::{Parser, Result};
use crate::ast::Statement;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub fn statement(&mut self) -> Result<Statement> {
        let TokenKind::Keyword(keyword) = self.current.kind else { return self.no_statement() };
        Ok(match keyword {
            Keyword::Select => Statement::Select(Box::new(self.select()?)),
            Keyword::Insert => Statement::Insert(Box::new(self.insert()?)),
            Keyword::Update => Statement::Update(Box::new(self.update()?)),
            Keyword::Delete => Statement::Delete(Box::new(self.delete()?)),
            Keyword::Begin => Statement::Batch(Box::new(self.batch()?)),
            Keyword::Truncate => Statement::Truncate(self.truncate()?),
            Keyword::Use => {
                self.advance();
                Statement::Use(self.keyspace_name()?)
            }
            Keyword::Create => self.create()?,
            Keyword::Alter => self.alter()?,
            Keyword::Drop => self.drop()?,
            Keyword::Describe | Keyword::Desc => Statement::Describe(self.describe()?),
            _ => match self.access()? {
                Some(statement) => statement,
                None => match self.unsupported()? {
                    Some(unsupported) => Statement::Unsupported(unsupported),
                    None => return self.no_statement(),
                },
            },
        })
    }

    fn create(&mut self) -> Result<Statement> {
        if let Some(unsupported) = self.unsupported()? {
            return Ok(Statement::Unsupported(unsupported));
        }
        self.advance();
        if let Some(statement) = self.create_access()? {
            return Ok(statement);
        }
        if self.eat_view() {
            return Ok(Statement::CreateView(Box::new(self.create_view()?)));
        }
        if self.at_function() {
            return self.create_function_or_aggregate();
        }
        if self.at_index() {
            return Ok(Statement::CreateIndex(Box::new(self.create_index()?)));
        }
        match self.schema_object() {
            Some(SchemaObject::Keyspace) => Ok(Statement::CreateKeyspace(self.create_keyspace()?)),
            Some(SchemaObject::Table) => Ok(Statement::CreateTable(Box::new(self.create_table()?))),
            Some(SchemaObject::Type) => Ok(Statement::CreateType(self.create_type()?)),
            None => {
                self.none_of("KEYSPACE, TABLE, TYPE, INDEX, MATERIALIZED VIEW, FUNCTION, AGGREGATE, ROLE …")
            }
        }
    }

    fn alter(&mut self) -> Result<Statement> {
        if let Some(unsupported) = self.unsupported()? {
            return Ok(Statement::Unsupported(unsupported));
        }
        self.advance();
        if let Some(statement) = self.alter_access()? {
            return Ok(statement);
        }
        if self.eat_view() {
            return Ok(Statement::AlterView(self.alter_view()?));
        }
        match self.schema_object() {
            Some(SchemaObject::Keyspace) => Ok(Statement::AlterKeyspace(self.alter_keyspace()?)),
            Some(SchemaObject::Table) => Ok(Statement::AlterTable(Box::new(self.alter_table()?))),
            Some(SchemaObject::Type) => Ok(Statement::AlterType(self.alter_type()?)),
            None => self.none_of("KEYSPACE, TABLE, TYPE, MATERIALIZED VIEW, ROLE …"),
        }
    }

    fn drop(&mut self) -> Result<Statement> {
        if let Some(unsupported) = self.unsupported()? {
            return Ok(Statement::Unsupported(unsupported));
        }
        self.advance();
        if let Some(statement) = self.drop_access()? {
            return Ok(statement);
        }
        if self.eat_view() {
            return Ok(Statement::DropView(self.drop_view()?));
        }
        if self.eat_keyword(Keyword::Index) {
            return Ok(Statement::DropIndex(self.drop_index()?));
        }
        if self.eat_keyword(Keyword::Function) {
            return Ok(Statement::DropFunction(self.drop_function()?));
        }
        if self.eat_keyword(Keyword::Aggregate) {
            return Ok(Statement::DropAggregate(self.drop_function()?));
        }
        match self.schema_object() {
            Some(SchemaObject::Keyspace) => Ok(Statement::DropKeyspace(self.drop_keyspace()?)),
            Some(SchemaObject::Table) => Ok(Statement::DropTable(self.drop_table()?)),
            Some(SchemaObject::Type) => Ok(Statement::DropType(self.drop_type()?)),
            None => {
                self.none_of("KEYSPACE, TABLE, TYPE, INDEX, MATERIALIZED VIEW, FUNCTION, AGGREGATE, ROLE …")
            }
        }
    }

    /// Takes KEYSPACE, TABLE, TYPE or a synonym of one of them.
    fn schema_object(&mut self) -> Option<SchemaObject> {
        let thing = match self.current.kind {
            TokenKind::Keyword(Keyword::Keyspace | Keyword::Schema) => SchemaObject::Keyspace,
            TokenKind::Keyword(Keyword::Table | Keyword::ColumnFamily) => SchemaObject::Table,
            TokenKind::Keyword(Keyword::Type) => SchemaObject::Type,
            _ => return None,
        };
        self.advance();
        Some(thing)
    }

    fn no_statement(&self) -> Result<Statement> {
        self.none_of("a statement: SELECT, INSERT, UPDATE, DELETE, BEGIN BATCH, CREATE, ALTER, DROP, USE …")
    }
}

enum SchemaObject {
    Keyspace,
    Table,
    Type,
}
