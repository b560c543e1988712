//! Parses statements on roles, users and service levels; `permission.rs` parses those on permissions.
//!
//! Source: Cassandra 4.1 `Parser.g` for roles; ScyllaDB's documentation for service levels.

use super::{Parser, Problem, Result};
use crate::ast::{AccessStatement, Ident, LevelProperty, LiteralKind, Password, RoleOptions, Statement};
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};

impl Parser<'_> {
    /// Parses the rest of CREATE if its object is a role, a user or a service level.
    pub fn create_access(&mut self) -> Result<Option<Statement>> {
        let keyword = self.current.kind;
        let created = match keyword {
            TokenKind::Keyword(Keyword::Role) => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                let name = self.role_name()?;
                AccessStatement::CreateRole { if_not_exists, name, options: self.role_options()? }
            }
            TokenKind::Keyword(Keyword::User) => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                let name = self.user_name()?;
                let mut options = self.user_options()?;
                options.login = Some(true);
                options.superuser.get_or_insert(false);
                AccessStatement::CreateRole { if_not_exists, name, options }
            }
            _ if self.eat_service_level() => {
                let if_not_exists = self.if_not_exists()?;
                let name = self.level_name()?;
                let has_properties = self.eat_keyword(Keyword::With);
                let properties = if has_properties { self.level_properties()? } else { vec![] };
                AccessStatement::CreateLevel { if_not_exists, name, properties }
            }
            _ => return Ok(None),
        };
        Ok(Some(Statement::Access(Box::new(created))))
    }

    /// Parses the rest of ALTER if its object is a role, a user or a service level.
    pub fn alter_access(&mut self) -> Result<Option<Statement>> {
        let keyword = self.current.kind;
        let altered = match keyword {
            TokenKind::Keyword(Keyword::Role) => {
                self.advance();
                let if_exists = self.if_exists()?;
                let name = self.role_name()?;
                AccessStatement::AlterRole { if_exists, name, options: self.role_options()? }
            }
            TokenKind::Keyword(Keyword::User) => {
                self.advance();
                let if_exists = self.if_exists()?;
                let name = self.user_name()?;
                AccessStatement::AlterRole { if_exists, name, options: self.user_options()? }
            }
            _ if self.eat_service_level() => {
                let name = self.level_name()?;
                self.expect_keyword(Keyword::With)?;
                AccessStatement::AlterLevel { name, properties: self.level_properties()? }
            }
            _ => return Ok(None),
        };
        Ok(Some(Statement::Access(Box::new(altered))))
    }

    /// Parses the rest of DROP if its object is a role, a user or a service level.
    pub fn drop_access(&mut self) -> Result<Option<Statement>> {
        let keyword = self.current.kind;
        let dropped = match keyword {
            TokenKind::Keyword(Keyword::Role) => {
                self.advance();
                AccessStatement::DropRole { if_exists: self.if_exists()?, name: self.role_name()? }
            }
            TokenKind::Keyword(Keyword::User) => {
                self.advance();
                AccessStatement::DropRole { if_exists: self.if_exists()?, name: self.user_name()? }
            }
            _ if self.eat_service_level() => {
                AccessStatement::DropLevel { if_exists: self.if_exists()?, name: self.level_name()? }
            }
            _ => return Ok(None),
        };
        Ok(Some(Statement::Access(Box::new(dropped))))
    }

    /// GRANT, REVOKE, LIST, ATTACH, DETACH. Returns `None` and takes no token if the statement is another
    /// one.
    pub fn access(&mut self) -> Result<Option<Statement>> {
        let TokenKind::Keyword(keyword) = self.current.kind else { return Ok(None) };
        let statement = match keyword {
            Keyword::Grant if self.is_about_roles(Keyword::To) => {
                self.advance();
                let role = self.role_name()?;
                self.expect_keyword(Keyword::To)?;
                AccessStatement::GrantRole { role, to: self.role_name()? }
            }
            Keyword::Revoke if self.is_about_roles(Keyword::From) => {
                self.advance();
                let role = self.role_name()?;
                self.expect_keyword(Keyword::From)?;
                AccessStatement::RevokeRole { role, from: self.role_name()? }
            }
            Keyword::Grant => self.grant()?,
            Keyword::Revoke => self.revoke()?,
            Keyword::Attach => {
                self.advance();
                self.expect_service_level()?;
                let level = self.level_name()?;
                self.expect_keyword(Keyword::To)?;
                AccessStatement::AttachLevel { level, role: self.role_name()? }
            }
            Keyword::Detach => {
                self.advance();
                self.expect_service_level()?;
                self.expect_keyword(Keyword::From)?;
                AccessStatement::DetachLevel { role: self.role_name()? }
            }
            Keyword::List => match self.list()? {
                Some(list) => list,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(Statement::Access(Box::new(statement))))
    }

    fn list(&mut self) -> Result<Option<AccessStatement>> {
        let TokenKind::Keyword(what) = self.ahead.kind else { return Ok(None) };
        Ok(Some(match what {
            Keyword::Roles => {
                self.advance();
                self.advance();
                let of = if self.eat_keyword(Keyword::Of) { Some(self.role_name()?) } else { None };
                AccessStatement::ListRoles { of, is_recursive: !self.eat_keyword(Keyword::NoRecursive) }
            }
            Keyword::Users => {
                self.advance();
                self.advance();
                AccessStatement::ListUsers
            }
            Keyword::ServiceLevels => {
                self.advance();
                self.advance();
                AccessStatement::ListLevels
            }
            Keyword::Service if matches!(self.third().kind, TokenKind::Keyword(Keyword::Levels)) => {
                self.advance();
                self.advance();
                self.advance();
                AccessStatement::ListLevels
            }
            Keyword::Service | Keyword::ServiceLevel => {
                self.advance();
                self.expect_service_level()?;
                AccessStatement::ListLevel(self.level_name()?)
            }
            Keyword::Attached => {
                self.advance();
                self.advance();
                self.expect_service_level()?;
                self.expect_keyword(Keyword::Of)?;
                AccessStatement::ListAttached(Some(self.role_name()?))
            }
            Keyword::Effective => {
                self.advance();
                self.advance();
                self.expect_service_level()?;
                self.expect_keyword(Keyword::Of)?;
                AccessStatement::ListEffective(self.role_name()?)
            }
            Keyword::All
                if matches!(
                    self.third().kind,
                    TokenKind::Keyword(Keyword::Service | Keyword::ServiceLevels | Keyword::Attached)
                ) =>
            {
                self.advance();
                self.advance();
                let is_attached = self.eat_keyword(Keyword::Attached);
                if !self.eat_keyword(Keyword::ServiceLevels) {
                    self.expect_keyword(Keyword::Service)?;
                    self.expect_keyword(Keyword::Levels)?;
                }
                if is_attached { AccessStatement::ListAttached(None) } else { AccessStatement::ListLevels }
            }
            Keyword::All => self.list_permissions()?,
            _ if self.is_permission_ahead() => self.list_permissions()?,
            _ => return Ok(None),
        }))
    }

    /// Whether the next tokens are a name and `word`. A statement on permissions has ON after the permission
    /// instead.
    fn is_about_roles(&self, word: Keyword) -> bool {
        let is_name = Self::is_name(self.ahead) || self.ahead_is(TokenKind::String);
        is_name && self.third().kind == TokenKind::Keyword(word)
    }

    pub fn eat_service_level(&mut self) -> bool {
        self.eat_keyword(Keyword::ServiceLevel) || self.eat_keywords(Keyword::Service, Keyword::Level)
    }

    fn expect_service_level(&mut self) -> Result<()> {
        if self.eat_service_level() { Ok(()) } else { self.none_of("SERVICE LEVEL") }
    }

    /// A name or a string.
    pub fn role_name(&mut self) -> Result<Ident> {
        if self.at_marker() {
            return self.error_at(self.current.span, "Bind variables cannot be used for role names");
        }
        self.name_or_string()
    }

    /// A name or a string.
    pub fn level_name(&mut self) -> Result<Ident> {
        if self.at_marker() {
            let message = "Bind variables cannot be used for service levels or role names";
            return self.error_at(self.current.span, message);
        }
        self.name_or_string()
    }

    fn name_or_string(&mut self) -> Result<Ident> {
        if self.at(TokenKind::String) || self.at(TokenKind::DollarString) {
            let span = self.current.span;
            return Ok(Ident { text: self.string()?, span });
        }
        self.column_ident()
    }

    /// The user name as written: statements on USER keep the case of names.
    fn user_name(&mut self) -> Result<Ident> {
        let token: Token = self.current;
        if token.kind == TokenKind::QuotedName {
            let message =
                "Quoted strings are not supported for user names and USER is deprecated, please use ROLE";
            return self.error_at(token.span, message);
        }
        let mut name = self.role_name()?;
        if token.kind != TokenKind::String && token.kind != TokenKind::DollarString {
            name.text = token.text(self.text).to_string();
        }
        Ok(name)
    }

    fn role_options(&mut self) -> Result<RoleOptions> {
        let mut options = RoleOptions::default();
        if !self.eat_keyword(Keyword::With) {
            return Ok(options);
        }
        loop {
            let token = self.current;
            let is_new = match token.kind {
                TokenKind::Keyword(Keyword::Hashed) => {
                    self.advance();
                    self.expect_keyword(Keyword::Password)?;
                    self.expect(TokenKind::Eq)?;
                    options.password.replace(Password::Hashed(self.password()?)).is_none()
                }
                TokenKind::Keyword(Keyword::Password) => {
                    self.advance();
                    self.expect(TokenKind::Eq)?;
                    options.password.replace(Password::Plain(self.password()?)).is_none()
                }
                TokenKind::Keyword(Keyword::Superuser) => options.superuser.replace(self.flag()?).is_none(),
                TokenKind::Keyword(Keyword::Login) => options.login.replace(self.flag()?).is_none(),
                TokenKind::Keyword(Keyword::Options) => {
                    return self.error_at(token.span, "OPTIONS of roles are not supported");
                }
                TokenKind::Keyword(Keyword::Access) => {
                    let message = "ACCESS of roles is not supported: there is one data center";
                    return self.error_at(token.span, message);
                }
                _ => return self.none_of("PASSWORD, HASHED PASSWORD, SUPERUSER or LOGIN"),
            };
            if !is_new {
                let name = token.text(self.text).to_ascii_uppercase();
                let message = format!("Multiple definition for property '{name}'");
                return self.refuse(&message);
            }
            if !self.eat_keyword(Keyword::And) {
                return Ok(options);
            }
        }
    }

    /// `[WITH [HASHED] PASSWORD 'p'] [SUPERUSER | NOSUPERUSER]`
    fn user_options(&mut self) -> Result<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.eat_keyword(Keyword::With) {
            let is_hashed = self.eat_keyword(Keyword::Hashed);
            self.expect_keyword(Keyword::Password)?;
            let text = self.password()?;
            options.password = Some(if is_hashed { Password::Hashed(text) } else { Password::Plain(text) });
        }
        if self.eat_keyword(Keyword::Superuser) {
            options.superuser = Some(true);
        } else if self.eat_keyword(Keyword::NoSuperuser) {
            options.superuser = Some(false);
        }
        Ok(options)
    }

    fn password(&mut self) -> Result<String> {
        if self.at_marker() {
            return self.error_at(self.current.span, "Bind variables cannot be used for passwords");
        }
        self.string()
    }

    /// `option = true`, starting at the option's name.
    fn flag(&mut self) -> Result<bool> {
        self.advance();
        self.expect(TokenKind::Eq)?;
        match self.literal() {
            Some(literal) if literal.kind == LiteralKind::Boolean => {
                Ok(literal.text.eq_ignore_ascii_case("true"))
            }
            _ => Err(self.unexpected(Problem::Expecting(TokenKind::Boolean.name()))),
        }
    }

    fn level_properties(&mut self) -> Result<Vec<LevelProperty>> {
        let mut properties: Vec<LevelProperty> = vec![];
        loop {
            let name = self.ident()?;
            if properties.iter().any(|known| known.name == name) {
                let message = format!("Multiple definition for property '{}'", name.text);
                return self.error_at(name.span, &message);
            }
            self.expect(TokenKind::Eq)?;
            let value = match self.literal() {
                Some(literal) => Some(literal),
                None if self.eat_keyword(Keyword::Null) => None,
                None => return self.none_of("a constant or null"),
            };
            properties.push(LevelProperty { name, value });
            if !self.eat_keyword(Keyword::And) {
                return Ok(properties);
            }
        }
    }
}
