//! Statements on roles, permissions and service levels as CQL text.

use std::fmt::{self, Display, Formatter};

use super::ast::{AccessStatement, LevelProperty, Password, ResourceName, RoleOptions};
use super::keyword::Keyword;
use super::print::{Quoted, Separated};
use super::print_schema::{if_exists, if_not_exists};

impl Display for AccessStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateRole { if_not_exists: condition, name, options } => {
                write!(f, "CREATE ROLE {}{name}{options}", if_not_exists(*condition))
            }
            Self::AlterRole { if_exists: condition, name, options } => {
                write!(f, "ALTER ROLE {}{name}{options}", if_exists(*condition))
            }
            Self::DropRole { if_exists: condition, name } => {
                write!(f, "DROP ROLE {}{name}", if_exists(*condition))
            }
            Self::GrantRole { role, to } => write!(f, "GRANT {role} TO {to}"),
            Self::RevokeRole { role, from } => write!(f, "REVOKE {role} FROM {from}"),
            Self::ListRoles { of, is_recursive } => {
                f.write_str("LIST ROLES")?;
                of.iter().try_for_each(|role| write!(f, " OF {role}"))?;
                f.write_str(if *is_recursive { "" } else { " NORECURSIVE" })
            }
            Self::ListUsers => f.write_str("LIST USERS"),
            Self::Grant { permissions, on, to } => {
                write!(f, "GRANT {} ON {on} TO {to}", permission_names(permissions.as_deref()))
            }
            Self::Revoke { permissions, on, from } => {
                write!(f, "REVOKE {} ON {on} FROM {from}", permission_names(permissions.as_deref()))
            }
            Self::ListPermissions { permissions, on, of, is_recursive } => {
                write!(f, "LIST {}", permission_names(permissions.as_deref()))?;
                on.iter().try_for_each(|resource| write!(f, " ON {resource}"))?;
                of.iter().try_for_each(|role| write!(f, " OF {role}"))?;
                f.write_str(if *is_recursive { "" } else { " NORECURSIVE" })
            }
            Self::CreateLevel { if_not_exists: condition, name, properties } => {
                write!(f, "CREATE SERVICE LEVEL {}{name}", if_not_exists(*condition))?;
                with(f, properties)
            }
            Self::AlterLevel { name, properties } => {
                write!(f, "ALTER SERVICE LEVEL {name}")?;
                with(f, properties)
            }
            Self::DropLevel { if_exists: condition, name } => {
                write!(f, "DROP SERVICE LEVEL {}{name}", if_exists(*condition))
            }
            Self::AttachLevel { level, role } => write!(f, "ATTACH SERVICE LEVEL {level} TO {role}"),
            Self::DetachLevel { role } => write!(f, "DETACH SERVICE LEVEL FROM {role}"),
            Self::ListLevel(name) => write!(f, "LIST SERVICE LEVEL {name}"),
            Self::ListLevels => f.write_str("LIST ALL SERVICE LEVELS"),
            Self::ListAttached(Some(role)) => write!(f, "LIST ATTACHED SERVICE LEVEL OF {role}"),
            Self::ListAttached(None) => f.write_str("LIST ALL ATTACHED SERVICE LEVELS"),
            Self::ListEffective(role) => write!(f, "LIST EFFECTIVE SERVICE LEVEL OF {role}"),
        }
    }
}

fn permission_names(permissions: Option<&[Keyword]>) -> String {
    match permissions {
        None => "ALL PERMISSIONS".to_string(),
        Some(words) => words.iter().map(|word| word.text()).collect::<Vec<_>>().join(", "),
    }
}

impl Display for ResourceName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllKeyspaces => f.write_str("ALL KEYSPACES"),
            Self::Keyspace(keyspace) => write!(f, "KEYSPACE {keyspace}"),
            Self::AllTables(keyspace) => write!(f, "ALL TABLES IN KEYSPACE {keyspace}"),
            Self::Table(table) => write!(f, "TABLE {table}"),
            Self::AllRoles => f.write_str("ALL ROLES"),
            Self::Role(role) => write!(f, "ROLE {role}"),
            Self::AllFunctions => f.write_str("ALL FUNCTIONS"),
            Self::Functions(keyspace) => write!(f, "ALL FUNCTIONS IN KEYSPACE {keyspace}"),
            Self::Function { name, arguments } => {
                write!(f, "FUNCTION {name}({})", Separated(arguments, ", "))
            }
            Self::Mbeans(None) => f.write_str("ALL MBEANS"),
            Self::Mbeans(Some(name)) => write!(f, "MBEANS {}", Quoted(name)),
        }
    }
}

fn with(f: &mut Formatter<'_>, properties: &[LevelProperty]) -> fmt::Result {
    if properties.is_empty() {
        return Ok(());
    }
    write!(f, " WITH {}", Separated(properties, " AND "))
}

impl Display for LevelProperty {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{} = {value}", self.name),
            None => write!(f, "{} = null", self.name),
        }
    }
}

impl Display for RoleOptions {
    /// Prints the options with a leading space, or nothing.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut options: Vec<String> = vec![];
        options.extend(self.password.as_ref().map(|password| match password {
            Password::Plain(text) => format!("PASSWORD = {}", Quoted(text)),
            Password::Hashed(text) => format!("HASHED PASSWORD = {}", Quoted(text)),
        }));
        options.extend(self.superuser.map(|is_set| format!("SUPERUSER = {is_set}")));
        options.extend(self.login.map(|is_set| format!("LOGIN = {is_set}")));
        if options.is_empty() {
            return Ok(());
        }
        write!(f, " WITH {}", Separated(&options, " AND "))
    }
}
