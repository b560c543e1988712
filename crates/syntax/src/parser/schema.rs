//! Parses statements on keyspaces and user-defined types, and the properties after WITH.

use super::{Parser, Result};
use crate::ast::{
    AlterKeyspace, AlterType, AlterTypeOp, CreateKeyspace, CreateType, DropKeyspace, DropTable, DropType,
    Ident, Literal, Property, PropertyValue,
};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Parses the rest of CREATE KEYSPACE. Like all functions here it starts after the statement's keywords.
    pub fn create_keyspace(&mut self) -> Result<CreateKeyspace> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.keyspace_name()?;
        self.expect_keyword(Keyword::With)?;
        Ok(CreateKeyspace { if_not_exists, name, properties: self.properties()? })
    }

    pub fn alter_keyspace(&mut self) -> Result<AlterKeyspace> {
        let if_exists = self.if_exists()?;
        let name = self.keyspace_name()?;
        self.expect_keyword(Keyword::With)?;
        Ok(AlterKeyspace { if_exists, name, properties: self.properties()? })
    }

    pub fn drop_keyspace(&mut self) -> Result<DropKeyspace> {
        Ok(DropKeyspace { if_exists: self.if_exists()?, name: self.keyspace_name()? })
    }

    pub fn drop_table(&mut self) -> Result<DropTable> {
        Ok(DropTable { if_exists: self.if_exists()?, name: self.qualified_name()? })
    }

    pub fn keyspace_name(&mut self) -> Result<Ident> {
        if self.at(TokenKind::Question) {
            return self.error_at(self.current.span, "Bind variables cannot be used for keyspace names");
        }
        self.ident()
    }

    pub fn create_type(&mut self) -> Result<CreateType> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_type_name()?;
        self.expect(TokenKind::ParenOpen)?;
        let mut fields = vec![(self.ident()?, self.type_name()?)];
        while self.eat(TokenKind::Comma) {
            // The list may end with a comma.
            if !self.at(TokenKind::ParenClose) {
                fields.push((self.ident()?, self.type_name()?));
            }
        }
        self.expect(TokenKind::ParenClose)?;
        Ok(CreateType { if_not_exists, name, fields })
    }

    pub fn alter_type(&mut self) -> Result<AlterType> {
        let if_exists = self.if_exists()?;
        let name = self.user_type_name()?;
        let op = match self.current.kind {
            TokenKind::Keyword(Keyword::Add) => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                AlterTypeOp::Add { if_not_exists, field: self.ident()?, ty: self.type_name()? }
            }
            TokenKind::Keyword(Keyword::Alter) => {
                self.advance();
                let field = self.ident()?;
                self.expect_keyword(Keyword::Type)?;
                AlterTypeOp::AlterField { field, ty: self.type_name()? }
            }
            TokenKind::Keyword(Keyword::Rename) => {
                self.advance();
                AlterTypeOp::Rename { if_exists: self.if_exists()?, fields: self.renames()? }
            }
            _ => return self.none_of("ADD, ALTER or RENAME"),
        };
        Ok(AlterType { if_exists, name, op })
    }

    pub fn drop_type(&mut self) -> Result<DropType> {
        Ok(DropType { if_exists: self.if_exists()?, name: self.user_type_name()? })
    }

    /// `a TO b (AND c TO d)*`
    pub fn renames(&mut self) -> Result<Vec<(Ident, Ident)>> {
        let mut renames = Vec::new();
        loop {
            let from = self.ident()?;
            self.expect_keyword(Keyword::To)?;
            renames.push((from, self.ident()?));
            if !self.eat_keyword(Keyword::And) {
                return Ok(renames);
            }
        }
    }

    /// `name = value (AND name = value)*`
    pub fn properties(&mut self) -> Result<Vec<Property>> {
        let mut properties = Properties::default();
        properties.add(self)?;
        while self.eat_keyword(Keyword::And) {
            properties.add(self)?;
        }
        Ok(properties.list)
    }

    fn property(&mut self) -> Result<Property> {
        let name = self.ident()?;
        self.expect(TokenKind::Eq)?;
        Ok(Property { name, value: self.property_value()? })
    }

    fn property_value(&mut self) -> Result<PropertyValue> {
        if let Some(literal) = self.literal() {
            return Ok(PropertyValue::Literal(literal));
        }
        if self.at(TokenKind::BraceOpen) {
            return self.property_map();
        }
        if self.at_name() && !self.at(TokenKind::QuotedName) {
            return Ok(PropertyValue::Word(self.ident()?));
        }
        self.none_of("a constant, a word or a map of constants")
    }

    fn property_map(&mut self) -> Result<PropertyValue> {
        let start = self.start();
        let mut keys = base::HashSet::default();
        let entry = |parser: &mut Self| {
            let key = parser.constant("Invalid property name")?;
            if !keys.insert(key.text.clone()) {
                return parser.error_at(key.span, &format!("Multiple definition for property {}", key.text));
            }
            parser.expect(TokenKind::Colon)?;
            Ok((key, parser.constant("Invalid property value")?))
        };
        let entries = self.enclosed(TokenKind::BraceOpen, TokenKind::BraceClose, entry)?;
        Ok(PropertyValue::Map { entries, span: self.span_from(start) })
    }

    fn constant(&mut self, problem: &str) -> Result<Literal> {
        if self.at_marker() {
            let message = format!("{problem}: (bind variables are not supported in DDL queries)");
            return self.error_at(self.current.span, &message);
        }
        match self.literal() {
            Some(literal) => Ok(literal),
            None => self.none_of("a constant"),
        }
    }
}

/// A list of properties without duplicates.
#[derive(Default)]
pub(super) struct Properties {
    pub list: Vec<Property>,
    names: base::HashSet<String>,
}

impl Properties {
    /// Parses one property and adds it to the list.
    pub fn add(&mut self, parser: &mut Parser<'_>) -> Result<()> {
        let property = parser.property()?;
        if !self.names.insert(property.name.text.clone()) {
            let message = format!("Multiple definitions for property '{}'", property.name.text);
            return parser.refuse(&message);
        }
        self.list.push(property);
        Ok(())
    }
}
