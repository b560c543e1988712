//! Statements on roles, permissions and service levels. A user is a role that can log in; statements on users
//! are parsed as statements on roles.

use super::{Ident, Literal, QualifiedName, TypeName};
use crate::keyword::Keyword;

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
    Grant {
        /// The keywords of permissions; `None`: all that the resource can have.
        permissions: Option<Vec<Keyword>>,
        on: ResourceName,
        to: Ident,
    },
    Revoke {
        permissions: Option<Vec<Keyword>>,
        on: ResourceName,
        from: Ident,
    },
    ListPermissions {
        permissions: Option<Vec<Keyword>>,
        on: Option<ResourceName>,
        of: Option<Ident>,
        /// Whether permissions on the groups that contain `on` are listed too.
        is_recursive: bool,
    },
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
    /// `None`: the service levels attached to all roles.
    ListAttached(Option<Ident>),
    ListEffective(Ident),
}

/// A resource as statements name it.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceName {
    AllKeyspaces,
    Keyspace(Ident),
    /// `ALL TABLES IN KEYSPACE`
    AllTables(Ident),
    Table(QualifiedName),
    AllRoles,
    Role(Ident),
    AllFunctions,
    /// `ALL FUNCTIONS IN KEYSPACE`
    Functions(Ident),
    Function {
        name: QualifiedName,
        arguments: Vec<TypeName>,
    },
    /// `MBEAN` or `MBEANS` with a name or pattern; `None`: all.
    Mbeans(Option<String>),
}

/// The options of a role; each is given at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    pub password: Option<Password>,
    pub superuser: Option<bool>,
    pub login: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    Plain(String),
    /// `HASHED PASSWORD`: a bcrypt hash as text.
    Hashed(String),
}

/// `name = value`; each name occurs once in a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelProperty {
    pub name: Ident,
    /// `None` is `null`.
    pub value: Option<Literal>,
}
