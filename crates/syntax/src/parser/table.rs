//! CREATE TABLE and ALTER TABLE.

use super::schema::Properties;
use super::{Parser, Result};
use crate::ast::{
    AlterTable, AlterTableOp, ClusteringOrder, ColumnDef, CreateTable, Ident, Mask, PrimaryKeyDef,
    QualifiedName, TableProperties,
};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Parses the rest of CREATE TABLE, from the name on.
    pub fn create_table(&mut self) -> Result<CreateTable> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified_name()?;
        let mut table = CreateTable {
            if_not_exists,
            name,
            columns: Vec::new(),
            primary_keys: Vec::new(),
            with: TableProperties::default(),
        };
        self.expect(TokenKind::ParenOpen)?;
        self.column_or_key(&mut table)?;
        while self.eat(TokenKind::Comma) {
            // The list may end with a comma.
            if !self.at(TokenKind::ParenClose) {
                self.column_or_key(&mut table)?;
            }
        }
        self.expect(TokenKind::ParenClose)?;
        if self.eat_keyword(Keyword::With) {
            let mut properties = Properties::default();
            self.table_property(&mut table.with, &mut properties)?;
            while self.eat_keyword(Keyword::And) {
                self.table_property(&mut table.with, &mut properties)?;
            }
            table.with.properties = properties.list;
        }
        Ok(table)
    }

    fn column_or_key(&mut self, table: &mut CreateTable) -> Result<()> {
        let start = self.start();
        if self.eat_keyword(Keyword::Primary) {
            self.expect_keyword(Keyword::Key)?;
            table.primary_keys.push(self.primary_key(start)?);
            return Ok(());
        }
        let column = self.column_def()?;
        let key_start = self.start();
        if self.eat_keyword(Keyword::Primary) {
            self.expect_keyword(Keyword::Key)?;
            let partition = vec![column.name.clone()];
            let span = self.span_from(key_start);
            table.primary_keys.push(PrimaryKeyDef { partition, clustering: Vec::new(), span });
        }
        table.columns.push(column);
        Ok(())
    }

    pub fn primary_key(&mut self, start: u32) -> Result<PrimaryKeyDef> {
        self.expect(TokenKind::ParenOpen)?;
        let partition = if self.eat(TokenKind::ParenOpen) {
            let columns = self.comma_separated(Self::ident)?;
            self.expect(TokenKind::ParenClose)?;
            columns
        } else {
            vec![self.ident()?]
        };
        let clustering =
            if self.eat(TokenKind::Comma) { self.comma_separated(Self::ident)? } else { Vec::new() };
        self.expect(TokenKind::ParenClose)?;
        Ok(PrimaryKeyDef { partition, clustering, span: self.span_from(start) })
    }

    fn column_def(&mut self) -> Result<ColumnDef> {
        let name = self.ident()?;
        let ty = self.type_name()?;
        let is_static = self.eat_keyword(Keyword::Static);
        let mask = if self.at_keyword(Keyword::Masked) { Some(self.mask()?) } else { None };
        Ok(ColumnDef { name, ty, is_static, mask })
    }

    /// `MASKED WITH DEFAULT` or `MASKED WITH function(…)`
    fn mask(&mut self) -> Result<Mask> {
        self.expect_keyword(Keyword::Masked)?;
        self.expect_keyword(Keyword::With)?;
        let start = self.start();
        if self.eat_keyword(Keyword::Default) {
            let name = Ident { text: "mask_default".to_string(), span: self.span_from(start) };
            return Ok(Mask { function: QualifiedName { keyspace: None, name }, arguments: vec![] });
        }
        let function = self.function_name()?;
        let markers = self.markers.len();
        let arguments = self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, Self::term)?;
        if self.markers.len() > markers {
            return self.error_at(self.span_from(start), "Bind variables cannot be used in column masks");
        }
        Ok(Mask { function, arguments })
    }

    pub fn table_property(&mut self, with: &mut TableProperties, properties: &mut Properties) -> Result<()> {
        let start = self.start();
        if self.eat_keywords(Keyword::Compact, Keyword::Storage) {
            with.compact_storage = Some(self.span_from(start));
            return Ok(());
        }
        if self.eat_keywords(Keyword::Clustering, Keyword::Order) {
            self.expect_keyword(Keyword::By)?;
            self.expect(TokenKind::ParenOpen)?;
            with.clustering_order.extend(self.comma_separated(Self::clustering_order)?);
            self.expect(TokenKind::ParenClose)?;
            return Ok(());
        }
        properties.add(self)
    }

    fn clustering_order(&mut self) -> Result<ClusteringOrder> {
        let column = self.ident()?;
        match self.ordering() {
            Some(ordering) => Ok(ClusteringOrder { column, ordering }),
            None => self.none_of("ASC or DESC"),
        }
    }

    /// Parses the rest of ALTER TABLE, from the name on.
    pub fn alter_table(&mut self) -> Result<AlterTable> {
        let if_exists = self.if_exists()?;
        let name = self.qualified_name()?;
        let op = match self.current.kind {
            TokenKind::Keyword(Keyword::Add) => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                AlterTableOp::Add { if_not_exists, columns: self.one_or_more(Self::column_def)? }
            }
            TokenKind::Keyword(Keyword::Drop) => {
                self.advance();
                self.drop_columns()?
            }
            TokenKind::Keyword(Keyword::Rename) => {
                self.advance();
                AlterTableOp::Rename { if_exists: self.if_exists()?, columns: self.renames()? }
            }
            TokenKind::Keyword(Keyword::Alter) => {
                self.advance();
                self.alter_column()?
            }
            TokenKind::Keyword(Keyword::With) => {
                self.advance();
                AlterTableOp::With(self.properties()?)
            }
            _ => return self.none_of("ADD, ALTER, DROP, RENAME or WITH"),
        };
        Ok(AlterTable { if_exists, name, op })
    }

    /// `item` or `(item, item)`
    fn one_or_more<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if !self.eat(TokenKind::ParenOpen) {
            return Ok(vec![item(self)?]);
        }
        let items = self.comma_separated(item)?;
        self.expect(TokenKind::ParenClose)?;
        Ok(items)
    }

    fn drop_columns(&mut self) -> Result<AlterTableOp> {
        if self.eat_keywords(Keyword::Compact, Keyword::Storage) {
            return Ok(AlterTableOp::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let columns: Vec<Ident> = self.one_or_more(Self::ident)?;
        let mut timestamp = None;
        if self.eat_keyword(Keyword::Using) {
            self.expect_keyword(Keyword::Timestamp)?;
            let is_integer =
                self.at(TokenKind::Integer) || self.at(TokenKind::Minus) && self.ahead_is(TokenKind::Integer);
            timestamp = if is_integer { self.literal() } else { None };
            if timestamp.is_none() {
                return self.none_of("an integer");
            }
        }
        Ok(AlterTableOp::Drop { if_exists, columns, timestamp })
    }

    fn alter_column(&mut self) -> Result<AlterTableOp> {
        let if_exists = self.if_exists()?;
        let column = self.ident()?;
        match self.current.kind {
            TokenKind::Keyword(Keyword::Masked) => {
                let mask = Some(self.mask()?);
                Ok(AlterTableOp::Mask { if_exists, column, mask })
            }
            TokenKind::Keyword(Keyword::Drop) => {
                self.advance();
                self.expect_keyword(Keyword::Masked)?;
                Ok(AlterTableOp::Mask { if_exists, column, mask: None })
            }
            TokenKind::Keyword(Keyword::Type) => {
                self.advance();
                Ok(AlterTableOp::AlterType { column, ty: self.type_name()? })
            }
            _ => self.none_of("TYPE, MASKED WITH or DROP MASKED"),
        }
    }
}
