//! Statements on roles and service levels. Users are roles that can log in, and have no statements of their own here.

use super::{Ident, Literal};

#[derive(Clone, Debug, PartialEq)]
pub enum AccessStatement {
    CreateRole {
        if_not_exists: bool,
        name: Ident,
        options: RoleOptions,
    },
    AlterRole {
        if_exists: bool,
        name: Ident,
        options: RoleOptions,
    },
    DropRole {
        if_exists: bool,
        name: Ident,
    },
    GrantRole {
        role: Ident,
        to: Ident,
    },
    RevokeRole {
        role: Ident,
        from: Ident,
    },
    ListRoles {
        of: Option<Ident>,
        is_recursive: bool,
    },
    ListUsers,
    CreateLevel {
        if_not_exists: bool,
        name: Ident,
        properties: Vec<LevelProperty>,
    },
    AlterLevel {
        name: Ident,
        /// At least one.
        properties: Vec<LevelProperty>,
    },
    DropLevel {
        if_exists: bool,
        name: Ident,
    },
    AttachLevel {
        level: Ident,
        role: Ident,
    },
    DetachLevel {
        role: Ident,
    },
    ListLevel(Ident),
    ListLevels,
    /// `None`: of all roles.
    ListAttached(Option<Ident>),
    ListEffective(Ident),
}

/// What is said of a role; each at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    pub password: Option<Password>,
    pub superuser: Option<bool>,
    pub login: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    Plain(String),
    /// `HASHED PASSWORD`: bcrypt's text.
    Hashed(String),
}

/// `name = value`; each name once in a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelProperty {
    pub name: Ident,
    /// `None` is `null`.
    pub value: Option<Literal>,
}
