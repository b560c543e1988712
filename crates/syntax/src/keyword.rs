//! The keywords of CQL, and which of them must be quoted to be used as names.
//!
//! A word is looked up by its lower-case bytes, packed into one integer. Source: Cassandra 4.1 and 5.0
//! `Lexer.g`, `Parser.g`, `reserved_keywords.txt`. ScyllaDB's documentation for BYPASS CACHE, TIMEOUT,
//! SERVICE LEVEL and its other additions, none of which is reserved.

use std::fmt;

/// Length of the longest possible keyword.
const PACKED_BYTES: usize = 15;

const fn pack(word: &[u8]) -> u128 {
    assert!(word.len() <= PACKED_BYTES);
    // A leading 1, so that the packed value also encodes the length.
    let mut packed = 1;
    let mut i = 0;
    while i < word.len() {
        packed = packed << 8 | word[i].to_ascii_lowercase() as u128;
        i += 1;
    }
    packed
}

macro_rules! keywords {
    ($($kind:ident { $($name:ident $text:literal)* })*) => {
        /// A keyword: a word with a special meaning at some places of the grammar.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Keyword { $($($name,)*)* }

        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Kind { $($kind,)* }

        impl Keyword {
            /// All keywords, in no particular order.
            pub const ALL: &'static [Keyword] = &[$($(Self::$name,)*)*];

            /// In capitals.
            pub fn text(self) -> &'static str {
                match self { $($(Self::$name => $text,)*)* }
            }

            fn kind(self) -> Kind {
                match self { $($(Self::$name => Kind::$kind,)*)* }
            }

            fn lookup(packed: u128) -> Option<Keyword> {
                #[allow(non_upper_case_globals)]
                mod packed_words { $($(pub const $name: u128 = super::pack($text.as_bytes());)*)* }
                match packed {
                    $($(packed_words::$name => Some(Self::$name),)*)*
                    _ => None,
                }
            }
        }
    };
}

keywords! {
    Reserved {
        Add "ADD" Allow "ALLOW" Alter "ALTER" And "AND" Apply "APPLY" Asc "ASC" Authorize "AUTHORIZE"
        Batch "BATCH" Begin "BEGIN" By "BY" ColumnFamily "COLUMNFAMILY" Create "CREATE" Delete "DELETE"
        Desc "DESC" Describe "DESCRIBE" Drop "DROP" Entries "ENTRIES" Execute "EXECUTE" From "FROM" Full "FULL"
        Grant "GRANT" If "IF" In "IN" Index "INDEX" Infinity "INFINITY" Insert "INSERT" Into "INTO" Is "IS"
        Keyspace "KEYSPACE" Limit "LIMIT" Materialized "MATERIALIZED" Modify "MODIFY" Nan "NAN"
        NoRecursive "NORECURSIVE" Not "NOT" Null "NULL" Of "OF" On "ON" Or "OR" Order "ORDER"
        Primary "PRIMARY" Rename "RENAME" Revoke "REVOKE" Schema "SCHEMA" Select "SELECT" Set "SET"
        Table "TABLE" To "TO" Token "TOKEN" Truncate "TRUNCATE" Unlogged "UNLOGGED" Update "UPDATE" Use "USE"
        Using "USING" View "VIEW" Where "WHERE" With "WITH"
    }
    // Allowed as names of columns, tables and functions, but not of types.
    NativeType {
        Ascii "ASCII" BigInt "BIGINT" Blob "BLOB" Boolean "BOOLEAN" Counter "COUNTER" Date "DATE"
        Decimal "DECIMAL" Double "DOUBLE" Duration "DURATION" Float "FLOAT" Inet "INET" Int "INT"
        SmallInt "SMALLINT" Text "TEXT" Time "TIME" Timestamp "TIMESTAMP" TimeUuid "TIMEUUID"
        TinyInt "TINYINT" Uuid "UUID" Varchar "VARCHAR" Varint "VARINT"
    }
    // Allowed as names of columns and tables, but not of functions or types.
    NoFunction {
        Cast "CAST" Count "COUNT" Distinct "DISTINCT" Json "JSON" Key "KEY" MaxWriteTime "MAXWRITETIME"
        Ttl "TTL" WriteTime "WRITETIME"
    }
    Free {
        Access "ACCESS" Aggregate "AGGREGATE" Aggregates "AGGREGATES" All "ALL" Ann "ANN" As "AS"
        Attach "ATTACH" Attached "ATTACHED" Bypass "BYPASS" Cache "CACHE" Called "CALLED" Cluster "CLUSTER"
        Clustering "CLUSTERING" ColumnFamilies "COLUMNFAMILIES" Compact "COMPACT" Contains "CONTAINS"
        Custom "CUSTOM" Datacenters "DATACENTERS" Default "DEFAULT" Detach "DETACH" Exists "EXISTS"
        Effective "EFFECTIVE" Filtering "FILTERING" FinalFunc "FINALFUNC" For "FOR" Frozen "FROZEN" Function "FUNCTION"
        Functions "FUNCTIONS" Group "GROUP" Hashed "HASHED" Identity "IDENTITY" InitCond "INITCOND"
        Input "INPUT" Internals "INTERNALS" Keys "KEYS" Keyspaces "KEYSPACES" Language "LANGUAGE"
        Level "LEVEL" Levels "LEVELS" Like "LIKE" List "LIST" Logged "LOGGED" Login "LOGIN" Map "MAP"
        Masked "MASKED" Mbean "MBEAN" Mbeans "MBEANS" NoLogin "NOLOGIN" NoSuperuser "NOSUPERUSER" Only "ONLY"
        Options "OPTIONS" Partition "PARTITION" Password "PASSWORD" Passwords "PASSWORDS" Per "PER"
        Permission "PERMISSION" Permissions "PERMISSIONS" Prune "PRUNE" Replace "REPLACE" Returns "RETURNS"
        Role "ROLE" Roles "ROLES" SelectMasked "SELECT_MASKED" Service "SERVICE"
        ServiceLevel "SERVICE_LEVEL" ServiceLevels "SERVICE_LEVELS" SFunc "SFUNC" SType "STYPE"
        Static "STATIC" Storage "STORAGE" Superuser "SUPERUSER" Superusers "SUPERUSERS" Tables "TABLES"
        Timeout "TIMEOUT" Trigger "TRIGGER" Tuple "TUPLE" Type "TYPE" Types "TYPES" Unmask "UNMASK"
        Unset "UNSET" User "USER" Users "USERS" Values "VALUES" Vector "VECTOR"
    }
}

impl Keyword {
    /// The keyword with this text, ignoring case; `None` if the word is no keyword.
    pub fn of(word: &str) -> Option<Keyword> {
        if word.len() > PACKED_BYTES {
            return None;
        }
        Self::lookup(pack(word.as_bytes()))
    }

    /// Whether the word must be quoted to be used as a name.
    pub fn is_reserved(self) -> bool {
        self.kind() == Kind::Reserved
    }

    /// Whether a function can have this name without quotes.
    pub fn names_function(self) -> bool {
        matches!(self.kind(), Kind::Free | Kind::NativeType) || matches!(self, Self::Token | Self::Count)
    }

    /// Whether a user-defined type can have this name without quotes.
    pub fn names_type(self) -> bool {
        self.kind() == Kind::Free || self == Self::Key
    }
}

/// Whether a name can be printed without quotes and is parsed as the same name.
pub(super) fn is_plain(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !matches!(name, "true" | "false")
        && !Keyword::of(name).is_some_and(Keyword::is_reserved)
}

impl fmt::Display for Keyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for &keyword in Keyword::ALL {
            assert_eq!(Keyword::of(keyword.text()), Some(keyword));
            assert_eq!(Keyword::of(&keyword.text().to_ascii_lowercase()), Some(keyword));
            assert_eq!(keyword.text(), keyword.text().to_ascii_uppercase());
        }
        for word in ["", "selec", "selects", "a_word_longer_than_any_keyword", "\0select"] {
            assert_eq!(Keyword::of(word), None, "{word:?}");
        }
    }

    #[test]
    fn reserved_are_the_names_that_the_model_quotes() {
        for &keyword in Keyword::ALL {
            let name = keyword.text().to_ascii_lowercase();
            let mut printed = String::new();
            model::types::push_identifier(&mut printed, &name);
            assert_eq!(keyword.is_reserved(), printed != name, "{name}");
        }
    }
}
