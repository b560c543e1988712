//! Parses GRANT, REVOKE and LIST of permissions.
//!
//! Source: Cassandra 5.0 `Parser.g`.

use super::{Parser, Result};
use crate::ast::{AccessStatement, ResourceName};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// The keywords of permissions.
const PERMISSIONS: [Keyword; 10] = [
    Keyword::Create,
    Keyword::Alter,
    Keyword::Drop,
    Keyword::Select,
    Keyword::Modify,
    Keyword::Authorize,
    Keyword::Describe,
    Keyword::Execute,
    Keyword::Unmask,
    Keyword::SelectMasked,
];

impl Parser<'_> {
    /// GRANT of permissions, starting at GRANT.
    pub fn grant(&mut self) -> Result<AccessStatement> {
        self.advance();
        let (permissions, on) = self.permissions_on()?;
        self.expect_keyword(Keyword::To)?;
        Ok(AccessStatement::Grant { permissions, on, to: self.role_name()? })
    }

    /// REVOKE of permissions, starting at REVOKE.
    pub fn revoke(&mut self) -> Result<AccessStatement> {
        self.advance();
        let (permissions, on) = self.permissions_on()?;
        self.expect_keyword(Keyword::From)?;
        Ok(AccessStatement::Revoke { permissions, on, from: self.role_name()? })
    }

    /// LIST of permissions, starting at LIST.
    pub fn list_permissions(&mut self) -> Result<AccessStatement> {
        self.advance();
        let permissions = self.permissions()?;
        let on = if self.eat_keyword(Keyword::On) { Some(self.resource()?) } else { None };
        let of = if self.eat_keyword(Keyword::Of) { Some(self.role_name()?) } else { None };
        let is_recursive = !self.eat_keyword(Keyword::NoRecursive);
        Ok(AccessStatement::ListPermissions { permissions, on, of, is_recursive })
    }

    /// Whether the token after the current one names a permission.
    pub fn is_permission_ahead(&self) -> bool {
        PERMISSIONS.iter().any(|word| self.ahead_is(TokenKind::Keyword(*word)))
    }

    fn permissions_on(&mut self) -> Result<(Option<Vec<Keyword>>, ResourceName)> {
        let permissions = self.permissions()?;
        self.expect_keyword(Keyword::On)?;
        Ok((permissions, self.resource()?))
    }

    /// `ALL [PERMISSIONS]`, which is `None`, or permissions separated by commas.
    fn permissions(&mut self) -> Result<Option<Vec<Keyword>>> {
        if self.eat_keyword(Keyword::All) {
            self.eat_keyword(Keyword::Permissions);
            return Ok(None);
        }
        Ok(Some(self.comma_separated(|parser| {
            match PERMISSIONS.into_iter().find(|word| parser.eat_keyword(*word)) {
                Some(permission) => {
                    parser.eat_keyword(Keyword::Permission);
                    Ok(permission)
                }
                None => parser.none_of("a permission: CREATE, ALTER, DROP, SELECT, MODIFY, AUTHORIZE …"),
            }
        })?))
    }

    fn resource(&mut self) -> Result<ResourceName> {
        let TokenKind::Keyword(keyword) = self.current.kind else {
            return Ok(ResourceName::Table(self.qualified_name()?));
        };
        // Words that are not reserved may also be the name of a table.
        let is_name_ahead = Self::is_name(self.ahead)
            || self.ahead_is(TokenKind::String)
            || self.ahead_is(TokenKind::DollarString);
        match keyword {
            Keyword::All => self.resources(),
            Keyword::Keyspace => {
                self.advance();
                Ok(ResourceName::Keyspace(self.ident()?))
            }
            Keyword::Table | Keyword::ColumnFamily => {
                self.advance();
                Ok(ResourceName::Table(self.qualified_name()?))
            }
            Keyword::Role if is_name_ahead => {
                self.advance();
                Ok(ResourceName::Role(self.role_name()?))
            }
            Keyword::Function if is_name_ahead => {
                self.advance();
                self.function_resource()
            }
            Keyword::Mbean | Keyword::Mbeans if is_name_ahead => {
                self.advance();
                Ok(ResourceName::Mbeans(Some(self.string()?)))
            }
            _ => Ok(ResourceName::Table(self.qualified_name()?)),
        }
    }

    /// A group of resources after ALL, or a table named `all`.
    fn resources(&mut self) -> Result<ResourceName> {
        let TokenKind::Keyword(what) = self.ahead.kind else {
            return Ok(ResourceName::Table(self.qualified_name()?));
        };
        let simple = match what {
            Keyword::Keyspaces => ResourceName::AllKeyspaces,
            Keyword::Roles => ResourceName::AllRoles,
            Keyword::Mbeans => ResourceName::Mbeans(None),
            Keyword::Functions => ResourceName::AllFunctions,
            Keyword::Tables => {
                self.advance();
                self.advance();
                self.expect_keyword(Keyword::In)?;
                self.expect_keyword(Keyword::Keyspace)?;
                return Ok(ResourceName::AllTables(self.ident()?));
            }
            _ => return Ok(ResourceName::Table(self.qualified_name()?)),
        };
        self.advance();
        self.advance();
        if what == Keyword::Functions && self.eat_keyword(Keyword::In) {
            self.expect_keyword(Keyword::Keyspace)?;
            return Ok(ResourceName::Functions(self.ident()?));
        }
        Ok(simple)
    }

    /// `name(types)`
    fn function_resource(&mut self) -> Result<ResourceName> {
        let name = self.function_name()?;
        let arguments = self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, Self::type_name)?;
        Ok(ResourceName::Function { name, arguments })
    }
}
