//! Permissions, and the resources on which they are granted.
//!
//! A resource has at most one parent, and a permission on a resource holds for everything below it:
//!
//! ```text
//! data               all keyspaces      functions         all functions      roles      all roles
//! data/ks            keyspace           functions/ks      of a keyspace      roles/r    role
//! data/ks/*          tables of one      functions/ks/f[…] function
//! data/ks/t          table
//! ```
//!
//! Names, texts and the permissions that a resource can have are Cassandra's (source: 5.0
//! `auth/{DataResource,FunctionResource,RoleResource,Permission}.java`). System tables store the names.

use std::fmt;

/// An action that a role may be allowed to do on a resource. The order is Cassandra's; lists of permissions
/// are sorted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    Unmask,
    SelectMasked,
}

impl Permission {
    pub const ALL: [Self; 10] = [
        Self::Create,
        Self::Alter,
        Self::Drop,
        Self::Select,
        Self::Modify,
        Self::Authorize,
        Self::Describe,
        Self::Execute,
        Self::Unmask,
        Self::SelectMasked,
    ];

    /// The keyword of CQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Alter => "ALTER",
            Self::Drop => "DROP",
            Self::Select => "SELECT",
            Self::Modify => "MODIFY",
            Self::Authorize => "AUTHORIZE",
            Self::Describe => "DESCRIBE",
            Self::Execute => "EXECUTE",
            Self::Unmask => "UNMASK",
            Self::SelectMasked => "SELECT_MASKED",
        }
    }

    /// The permission of this name, in capitals.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.name() == name)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of permissions: one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions(u16);

impl Permissions {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self((1 << Permission::ALL.len()) - 1);

    #[inline]
    #[must_use]
    pub const fn with(self, permission: Permission) -> Self {
        Self(self.0 | 1 << permission as u8)
    }

    #[inline]
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u8) != 0
    }

    #[inline]
    pub const fn has_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    #[must_use]
    pub const fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The permissions in their order.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |permission| self.has(*permission))
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        permissions.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Permissions {
    /// The names, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, permission) in self.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            f.write_str(permission.name())?;
        }
        Ok(())
    }
}

/// An object, or a group of objects, on which permissions are granted; see the head of this file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    AllKeyspaces,
    Keyspace(String),
    /// All tables of a keyspace, but not the keyspace itself.
    AllTables(String),
    Table {
        keyspace: String,
        name: String,
    },
    AllRoles,
    Role(String),
    AllFunctions,
    /// All functions of a keyspace.
    Functions(String),
    Function {
        keyspace: String,
        name: String,
        /// The types of its arguments as CQL.
        arguments: Vec<String>,
    },
}

impl Resource {
    pub fn table(keyspace: &str, name: &str) -> Self {
        Self::Table { keyspace: keyspace.to_string(), name: name.to_string() }
    }

    /// The name under which system tables store the resource.
    pub fn name(&self) -> String {
        match self {
            Self::AllKeyspaces => "data".to_string(),
            Self::Keyspace(keyspace) => format!("data/{keyspace}"),
            Self::AllTables(keyspace) => format!("data/{keyspace}/*"),
            Self::Table { keyspace, name } => format!("data/{keyspace}/{name}"),
            Self::AllRoles => "roles".to_string(),
            Self::Role(role) => format!("roles/{role}"),
            Self::AllFunctions => "functions".to_string(),
            Self::Functions(keyspace) => format!("functions/{keyspace}"),
            Self::Function { keyspace, name, arguments } => {
                format!("functions/{keyspace}/{name}[{}]", arguments.join("^"))
            }
        }
    }

    /// The resource with this [`Self::name`].
    pub fn from_name(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('/').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let inner = rest.and_then(|rest| rest.split_once('/'));
        Some(match (kind, rest, inner) {
            ("data", None, _) => Self::AllKeyspaces,
            ("data", Some(_), Some((keyspace, "*"))) => Self::AllTables(keyspace.to_string()),
            ("data", Some(_), Some((keyspace, name))) => Self::table(keyspace, name),
            ("data", Some(keyspace), None) => Self::Keyspace(keyspace.to_string()),
            ("roles", None, _) => Self::AllRoles,
            ("roles", Some(role), _) => Self::Role(role.to_string()),
            ("functions", None, _) => Self::AllFunctions,
            ("functions", Some(_), Some((keyspace, signature))) => {
                let (name, arguments) = signature.strip_suffix(']')?.split_once('[')?;
                let arguments = arguments.split('^').filter(|argument| !argument.is_empty());
                Self::Function {
                    keyspace: keyspace.to_string(),
                    name: name.to_string(),
                    arguments: arguments.map(str::to_string).collect(),
                }
            }
            ("functions", Some(keyspace), None) => Self::Functions(keyspace.to_string()),
            _ => return None,
        })
    }

    /// The group that the resource belongs to.
    pub fn parent(&self) -> Option<Self> {
        match self {
            Self::AllKeyspaces | Self::AllRoles | Self::AllFunctions => None,
            Self::Keyspace(_) => Some(Self::AllKeyspaces),
            Self::AllTables(keyspace) => Some(Self::Keyspace(keyspace.clone())),
            Self::Table { keyspace, .. } => Some(Self::AllTables(keyspace.clone())),
            Self::Role(_) => Some(Self::AllRoles),
            Self::Functions(_) => Some(Self::AllFunctions),
            Self::Function { keyspace, .. } => Some(Self::Functions(keyspace.clone())),
        }
    }

    /// The resource and all groups that it belongs to, beginning with the resource.
    pub fn chain(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// The permissions that can be granted on the resource.
    pub fn applicable(&self) -> Permissions {
        use Permission as P;
        let all: &[P] = match self {
            Self::AllKeyspaces | Self::Keyspace(_) | Self::AllTables(_) => &[
                P::Create,
                P::Alter,
                P::Drop,
                P::Select,
                P::Modify,
                P::Authorize,
                P::Unmask,
                P::SelectMasked,
            ],
            Self::Table { .. } => {
                &[P::Alter, P::Drop, P::Select, P::Modify, P::Authorize, P::Unmask, P::SelectMasked]
            }
            Self::AllRoles => &[P::Create, P::Alter, P::Drop, P::Authorize, P::Describe],
            Self::Role(_) => &[P::Alter, P::Drop, P::Authorize, P::Describe],
            Self::AllFunctions | Self::Functions(_) => {
                &[P::Create, P::Alter, P::Drop, P::Authorize, P::Execute]
            }
            Self::Function { .. } => &[P::Alter, P::Drop, P::Authorize, P::Execute],
        };
        all.iter().copied().collect()
    }

    /// The Java class of the resource in Cassandra, which error texts name.
    pub fn class(&self) -> &'static str {
        match self {
            Self::AllKeyspaces | Self::Keyspace(_) | Self::AllTables(_) | Self::Table { .. } => {
                "DataResource"
            }
            Self::AllRoles | Self::Role(_) => "RoleResource",
            Self::AllFunctions | Self::Functions(_) | Self::Function { .. } => "FunctionResource",
        }
    }

    /// The keyspace of a keyspace, table or function.
    pub fn keyspace(&self) -> Option<&str> {
        match self {
            Self::Keyspace(keyspace) | Self::AllTables(keyspace) | Self::Functions(keyspace) => {
                Some(keyspace)
            }
            Self::Table { keyspace, .. } | Self::Function { keyspace, .. } => Some(keyspace),
            Self::AllKeyspaces | Self::AllRoles | Self::Role(_) | Self::AllFunctions => None,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllKeyspaces => f.write_str("<all keyspaces>"),
            Self::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Self::AllTables(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Self::Table { keyspace, name } => write!(f, "<table {keyspace}.{name}>"),
            Self::AllRoles => f.write_str("<all roles>"),
            Self::Role(role) => write!(f, "<role {role}>"),
            Self::AllFunctions => f.write_str("<all functions>"),
            Self::Functions(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Self::Function { keyspace, name, arguments } => {
                write!(f, "<function {keyspace}.{name}({})>", arguments.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(resource: &Resource, name: &str, text: &str, chain: &str, applicable: &str) {
        assert_eq!(resource.name(), name);
        assert_eq!(Resource::from_name(name).as_ref(), Some(resource));
        assert_eq!(resource.to_string(), text);
        let names: Vec<_> = resource.chain().map(|resource| resource.name()).collect();
        assert_eq!(names.join(" "), chain);
        assert_eq!(resource.applicable().to_string(), applicable);
    }

    #[test]
    fn resources_have_names_texts_and_parents() {
        let data = "CREATE, ALTER, DROP, SELECT, MODIFY, AUTHORIZE, UNMASK, SELECT_MASKED";
        let ks = || "Ks 1".to_string();
        check(&Resource::AllKeyspaces, "data", "<all keyspaces>", "data", data);
        check(&Resource::Keyspace(ks()), "data/Ks 1", "<keyspace Ks 1>", "data/Ks 1 data", data);
        check(
            &Resource::AllTables(ks()),
            "data/Ks 1/*",
            "<all tables in Ks 1>",
            "data/Ks 1/* data/Ks 1 data",
            data,
        );
        check(
            &Resource::table("Ks 1", "t"),
            "data/Ks 1/t",
            "<table Ks 1.t>",
            "data/Ks 1/t data/Ks 1/* data/Ks 1 data",
            "ALTER, DROP, SELECT, MODIFY, AUTHORIZE, UNMASK, SELECT_MASKED",
        );
        let roles = "CREATE, ALTER, DROP, AUTHORIZE, DESCRIBE";
        check(&Resource::AllRoles, "roles", "<all roles>", "roles", roles);
        let role = Resource::Role("a/b".to_string());
        check(&role, "roles/a/b", "<role a/b>", "roles/a/b roles", "ALTER, DROP, AUTHORIZE, DESCRIBE");
        let functions = "CREATE, ALTER, DROP, AUTHORIZE, EXECUTE";
        check(&Resource::AllFunctions, "functions", "<all functions>", "functions", functions);
        check(
            &Resource::Functions(ks()),
            "functions/Ks 1",
            "<all functions in Ks 1>",
            "functions/Ks 1 functions",
            functions,
        );
        let function = |arguments: &[&str]| Resource::Function {
            keyspace: "k".to_string(),
            name: "f".to_string(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
        };
        check(
            &function(&["int", "list<text>"]),
            "functions/k/f[int^list<text>]",
            "<function k.f(int, list<text>)>",
            "functions/k/f[int^list<text>] functions/k functions",
            "ALTER, DROP, AUTHORIZE, EXECUTE",
        );
        assert_eq!(Resource::from_name("functions/k/f[]"), Some(function(&[])));
        for wrong in ["", "date", "functions/k/f", "functions/k/f]"] {
            assert_eq!(Resource::from_name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn permissions_are_a_set() {
        let some: Permissions = [Permission::Modify, Permission::Select].into_iter().collect();
        assert_eq!(some.to_string(), "SELECT, MODIFY");
        assert!(some.has(Permission::Select) && !some.has(Permission::Drop));
        assert!(Permissions::ALL.has_all(some) && !some.has_all(Permissions::ALL));
        assert_eq!(Permissions::ALL.iter().count(), 10);
        assert!(some.without(some).is_empty());
        for permission in Permission::ALL {
            assert_eq!(Permission::from_name(permission.name()), Some(permission));
        }
    }
}
