//! CREATE, ALTER and DROP MATERIALIZED VIEW.

use super::schema::Properties;
use super::{Parser, Result};
use crate::ast::{AlterView, CreateView, DropView, TableProperties};
use crate::keyword::Keyword;

impl Parser<'_> {
    /// Takes MATERIALIZED VIEW, if it is next.
    pub fn eat_view(&mut self) -> bool {
        self.eat_keywords(Keyword::Materialized, Keyword::View)
    }

    /// Parses the rest of CREATE MATERIALIZED VIEW, from the name on.
    pub fn create_view(&mut self) -> Result<CreateView> {
        let markers = self.markers.len();
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified_name()?;
        self.expect_keyword(Keyword::As)?;
        self.expect_keyword(Keyword::Select)?;
        let selection = self.selection()?;
        self.expect_keyword(Keyword::From)?;
        let base = self.qualified_name()?;
        let relations = if self.eat_keyword(Keyword::Where) { self.relations()? } else { Vec::new() };
        let start = self.start();
        self.expect_keyword(Keyword::Primary)?;
        self.expect_keyword(Keyword::Key)?;
        let primary_key = self.primary_key(start)?;
        let mut with = TableProperties::default();
        if self.eat_keyword(Keyword::With) {
            let mut properties = Properties::default();
            self.table_property(&mut with, &mut properties)?;
            while self.eat_keyword(Keyword::And) {
                self.table_property(&mut with, &mut properties)?;
            }
            with.properties = properties.list;
        }
        Ok(CreateView {
            if_not_exists,
            name,
            selection,
            base,
            relations,
            has_markers: self.markers.len() > markers,
            primary_key,
            properties: with.properties,
            clustering_order: with.clustering_order,
            compact_storage: with.compact_storage,
        })
    }

    /// Parses the rest of ALTER MATERIALIZED VIEW, from the name on.
    pub fn alter_view(&mut self) -> Result<AlterView> {
        let if_exists = self.if_exists()?;
        let name = self.qualified_name()?;
        self.expect_keyword(Keyword::With)?;
        Ok(AlterView { if_exists, name, properties: self.properties()? })
    }

    /// Parses the rest of DROP MATERIALIZED VIEW, from the name on.
    pub fn drop_view(&mut self) -> Result<DropView> {
        Ok(DropView { if_exists: self.if_exists()?, name: self.qualified_name()? })
    }
}
