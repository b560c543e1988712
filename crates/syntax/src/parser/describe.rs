//! DESCRIBE.

use super::{Parser, Result};
use crate::ast::{Describe, DescribeTarget};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub fn describe(&mut self) -> Result<Describe> {
        self.advance();
        let target = self.describe_target()?;
        let with_internals = self.eat_keyword(Keyword::With);
        let mut with_passwords = false;
        if with_internals {
            self.expect_keyword(Keyword::Internals)?;
            with_passwords = self.eat_keyword(Keyword::And);
            if with_passwords {
                self.expect_keyword(Keyword::Passwords)?;
            }
        }
        Ok(Describe { target, with_internals, with_passwords })
    }

    fn describe_target(&mut self) -> Result<DescribeTarget> {
        let TokenKind::Keyword(keyword) = self.current.kind else {
            return Ok(DescribeTarget::Any(self.described_name()?));
        };
        // Most of these words can also be names. A word without a following name is a complete target or a
        // keyspace's name.
        if self.ahead_is(TokenKind::Dot) {
            return Ok(DescribeTarget::Any(self.described_name()?));
        }
        let named = Self::is_name(self.ahead);
        let target = match keyword {
            Keyword::Cluster => DescribeTarget::Cluster,
            Keyword::Schema => DescribeTarget::Schema { full: false },
            Keyword::Full => {
                self.advance();
                if !self.at_keyword(Keyword::Schema) {
                    return self.none_of("SCHEMA");
                }
                DescribeTarget::Schema { full: true }
            }
            Keyword::Keyspaces => DescribeTarget::Keyspaces,
            Keyword::Tables | Keyword::ColumnFamilies => DescribeTarget::Tables,
            Keyword::Types => DescribeTarget::Types,
            Keyword::Functions => DescribeTarget::Functions,
            Keyword::Aggregates => DescribeTarget::Aggregates,
            Keyword::Keyspace => {
                self.advance();
                return self.described_keyspace(false);
            }
            Keyword::Only if self.ahead_is_keyword(Keyword::Keyspace) => {
                self.advance();
                self.advance();
                return self.described_keyspace(true);
            }
            Keyword::Table | Keyword::ColumnFamily => {
                self.advance();
                return Ok(DescribeTarget::Table(self.qualified_name()?));
            }
            Keyword::Index => {
                self.advance();
                return Ok(DescribeTarget::Index(self.qualified_name()?));
            }
            Keyword::Materialized => {
                self.advance();
                self.expect_keyword(Keyword::View)?;
                return Ok(DescribeTarget::MaterializedView(self.qualified_name()?));
            }
            Keyword::Type if named => {
                self.advance();
                return Ok(DescribeTarget::Type(self.user_type_name()?));
            }
            Keyword::Function if named => {
                self.advance();
                return Ok(DescribeTarget::Function(self.function_name()?));
            }
            Keyword::Aggregate if named => {
                self.advance();
                return Ok(DescribeTarget::Aggregate(self.function_name()?));
            }
            _ => return Ok(DescribeTarget::Any(self.described_name()?)),
        };
        self.advance();
        Ok(target)
    }

    fn described_name(&mut self) -> Result<crate::ast::QualifiedName> {
        if !self.at_name() {
            return self
                .none_of("CLUSTER, SCHEMA, KEYSPACES, KEYSPACE, TABLES, TABLE, TYPES, TYPE or a name");
        }
        self.qualified_name()
    }

    fn described_keyspace(&mut self, only: bool) -> Result<DescribeTarget> {
        let name = if self.at_name() { Some(self.ident()?) } else { None };
        Ok(DescribeTarget::Keyspace { name, only })
    }
}
