//! Completion at the cursor: keywords, commands, and names from the schema.
//!
//! The input is not parsed: the first word of the statement and the words before the cursor decide. A word is
//! completed in the case of its typed beginning, and a name is quoted if necessary.

use model::types::push_identifier;
use protocol::Consistency;
use syntax::{Keyword, Token, TokenKind, tokens};

use super::names::{KeyspaceNames, Names};
use super::{command, complete_compaction, help};

/// A text that can replace the word at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub text: String,
    /// The text shown in the list of candidates.
    pub shown: String,
}

/// The typed text: the earlier lines of the statement, the cursor's line up to the cursor, and the rest of
/// that line.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'a> {
    pub above: &'a str,
    pub before: &'a str,
    pub after: &'a str,
}

const STATEMENTS: &[&str] = &[
    "ALTER",
    "APPLY BATCH",
    "BEGIN",
    "CREATE",
    "DELETE",
    "DROP",
    "INSERT INTO",
    "SELECT",
    "TRUNCATE",
    "UPDATE",
    "USE",
];

/// Words that can follow a word in any statement.
const FOLLOWERS: &[(&str, &[&str])] = &[
    ("ALLOW", &["FILTERING"]),
    ("APPLY", &["BATCH"]),
    ("BEGIN", &["BATCH", "COUNTER BATCH", "UNLOGGED BATCH"]),
    ("BYPASS", &["CACHE"]),
    ("CAPTURE", &["OFF"]),
    ("CLUSTERING", &["ORDER BY"]),
    ("CREATE", &["CUSTOM INDEX", "INDEX", "KEYSPACE", "TABLE", "TYPE"]),
    ("CUSTOM", &["INDEX"]),
    ("ALTER", &["KEYSPACE", "TABLE", "TYPE"]),
    ("DROP", &["INDEX", "KEYSPACE", "TABLE", "TYPE"]),
    ("EXPAND", &["ON", "OFF", "AUTO"]),
    ("FULL", &["SCHEMA"]),
    ("GROUP", &["BY"]),
    ("INSERT", &["INTO"]),
    ("NOT", &["EXISTS", "NULL"]),
    ("ORDER", &["BY"]),
    ("PAGING", &["ON", "OFF"]),
    ("PARTITION", &["LIMIT"]),
    ("PER", &["PARTITION LIMIT"]),
    ("PRIMARY", &["KEY"]),
    ("SERIAL", &["CONSISTENCY"]),
    ("SHOW", &["HOST", "SESSION", "VERSION"]),
    ("TRACING", &["ON", "OFF"]),
    ("UNLOGGED", &["BATCH"]),
    ("USING", &["TIMEOUT", "TIMESTAMP", "TTL"]),
];

const DESCRIBABLE: &[&str] = &[
    "CLUSTER",
    "FULL SCHEMA",
    "INDEX",
    "KEYSPACE",
    "KEYSPACES",
    "SCHEMA",
    "TABLE",
    "TABLES",
    "TYPE",
    "TYPES",
];

const SELECT: &[&str] = &[
    "ALLOW FILTERING",
    "AND",
    "AS",
    "ASC",
    "BYPASS CACHE",
    "CAST",
    "CONTAINS",
    "CONTAINS KEY",
    "DESC",
    "DISTINCT",
    "FROM",
    "GROUP BY",
    "IN",
    "LIMIT",
    "ORDER BY",
    "PER PARTITION LIMIT",
    "USING TIMEOUT",
    "WHERE",
];
const INSERT: &[&str] = &["AND", "IF NOT EXISTS", "USING", "VALUES"];
const UPDATE: &[&str] = &["AND", "IF", "IF EXISTS", "IN", "SET", "USING", "WHERE"];
const DELETE: &[&str] = &["AND", "FROM", "IF", "IF EXISTS", "IN", "USING TIMESTAMP", "WHERE"];
const CREATE_TABLE: &[&str] =
    &["AND", "ASC", "CLUSTERING ORDER BY", "DESC", "FROZEN", "PRIMARY KEY", "STATIC", "WITH"];
const ALTER_TABLE: &[&str] = &["ADD", "AND", "DROP", "RENAME", "STATIC", "TO", "WITH"];
const TYPE: &[&str] = &["ADD", "AND", "FROZEN", "RENAME", "TO"];
const KEYSPACE: &[&str] = &["AND", "WITH"];
const CREATE_INDEX: &[&str] = &["ON", "USING", "WITH OPTIONS ="];
const INDEX_TARGETS: &[&str] = &["entries(", "full(", "keys(", "values("];

const NATIVE_TYPES: &[&str] = &[
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "list<",
    "map<",
    "set<",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "tuple<",
    "uuid",
    "varint",
    "vector<",
];
const TABLE_OPTIONS: &[&str] = &[
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "gc_grace_seconds",
    "max_index_interval",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "speculative_retry",
];
const FUNCTIONS: &[&str] = &[
    "avg(",
    "count(",
    "max(",
    "min(",
    "sum(",
    "currentDate()",
    "currentTimestamp()",
    "maxTimeuuid(",
    "minTimeuuid(",
    "now()",
    "toDate(",
    "toTimestamp(",
    "toUnixTimestamp(",
    "token(",
    "ttl(",
    "uuid()",
    "writetime(",
];

/// Returns the offset in `typed.before` where the word at the cursor begins, and its completions, names
/// first.
pub fn complete(names: &Names, keyspace: Option<&str>, typed: Typed<'_>) -> (usize, Vec<Candidate>) {
    let text = format!("{}{}", typed.above, typed.before);
    let nothing = (typed.before.len(), Vec::new());
    let mut words: Vec<Token> = tokens(&text).collect();
    let is_begun = words.last().is_some_and(|token| token.span.end as usize == text.len());
    let mut begun = "";
    if is_begun && let Some(last) = words.last().copied() {
        let word = last.text(&text);
        match last.kind {
            TokenKind::Word | TokenKind::Keyword(_) | TokenKind::Boolean => begun = word,
            TokenKind::Unterminated if word.starts_with(['"', '\'']) => begun = word,
            TokenKind::Comment
            | TokenKind::Unterminated
            | TokenKind::Integer
            | TokenKind::Float
            | TokenKind::Uuid
            | TokenKind::Duration
            | TokenKind::Blob
            | TokenKind::String
            | TokenKind::QuotedName => return nothing,
            _ => {}
        }
        if !begun.is_empty() {
            words.pop();
        }
    }
    let Some(start) = typed.before.len().checked_sub(begun.len()) else { return nothing };
    words.retain(|token| token.kind != TokenKind::Comment);
    let from = words.iter().rposition(|token| token.kind == TokenKind::Semicolon).map_or(0, |at| at + 1);
    let behind = format!("{} {}", &text[..text.len() - begun.len()], typed.after);
    let mut offers = Offers { names, keyspace, begun, found: Vec::new() };
    let words: Vec<&str> = words[from..].iter().map(|token| token.text(&text)).collect();
    match complete_compaction::candidates(&words) {
        Some(texts) => {
            let is_closed = begun.starts_with('\'') && typed.after.starts_with('\'');
            for text in texts {
                let text = if is_closed { text.trim_end_matches([' ', ':', '\'']) } else { text.as_str() };
                offers.as_they_are(&[text]);
            }
        }
        None if begun.starts_with('\'') => return nothing,
        None => offers.offer(&words, &behind),
    }
    (start, offers.found)
}

struct Offers<'a> {
    names: &'a Names,
    keyspace: Option<&'a str>,
    begun: &'a str,
    found: Vec<Candidate>,
}

impl Offers<'_> {
    fn offer(&mut self, words: &[&str], statement: &str) {
        let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
        let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
        let (Some(&first), Some(&last)) = (upper.first(), upper.last()) else {
            self.words(STATEMENTS);
            return self.words(command::FIRST_WORDS);
        };
        if last == "." {
            return self.within_keyspace(words, &upper);
        }
        if let [.., "CREATE" | "ALTER" | "DROP", what @ ("TABLE" | "TYPE" | "KEYSPACE" | "INDEX")]
        | [.., "CREATE", "CUSTOM", what @ "INDEX"] = upper[..]
        {
            if first == "CREATE" {
                self.words(&["IF NOT EXISTS"]);
                if what == "INDEX" {
                    self.words(&["ON"]);
                }
            } else {
                self.words(&["IF EXISTS"]);
                match what {
                    "TABLE" => self.tables(),
                    "TYPE" => self.types(),
                    "INDEX" => self.indexes(),
                    _ => self.keyspaces(""),
                }
            }
            return;
        }
        match (first, last) {
            ("DESC" | "DESCRIBE", "DESC" | "DESCRIBE") if words.len() == 1 => {
                self.tables();
                self.types();
                return self.words(DESCRIBABLE);
            }
            ("CONSISTENCY", _) | ("SERIAL", "CONSISTENCY") => {
                let levels = Consistency::ALL.iter().map(|level| level.name());
                return levels.filter(|level| first != "SERIAL" || level.contains("SERIAL")).for_each(
                    |level| {
                        self.word(level);
                    },
                );
            }
            ("HELP" | "?", _) => return help::topics().for_each(|topic| self.word(topic)),
            (_, "IF") => {
                return match first {
                    "INSERT" | "CREATE" => self.words(&["NOT EXISTS"]),
                    _ => {
                        self.columns(statement);
                        self.words(&["EXISTS"]);
                    }
                };
            }
            (_, "FROM" | "INTO" | "TRUNCATE") | ("UPDATE", "UPDATE") => return self.tables(),
            (_, "TABLE") => return self.tables(),
            (_, "KEYSPACE" | "USE") => return self.keyspaces(""),
            (_, "TYPE") => return self.types(),
            ("DESC" | "DESCRIBE", "INDEX") => return self.indexes(),
            ("CREATE", "ON") => return self.tables(),
            ("DROP", "EXISTS") => {
                return match upper[1] {
                    "TABLE" => self.tables(),
                    "TYPE" => self.types(),
                    "INDEX" => self.indexes(),
                    _ => self.keyspaces(""),
                };
            }
            _ => {}
        }
        if let Some((_, followers)) = FOLLOWERS.iter().find(|(word, _)| *word == last) {
            return self.words(followers);
        }
        self.within_statement(&upper, last, statement);
    }

    fn within_statement(&mut self, upper: &[&str], last: &str, statement: &str) {
        let has_with = upper.contains(&"WITH");
        match (upper[0], upper.get(1).copied()) {
            ("SELECT", _) => {
                self.columns(statement);
                self.words(SELECT);
                self.as_they_are(FUNCTIONS);
            }
            ("INSERT", _) => {
                self.columns(statement);
                self.words(INSERT);
            }
            ("UPDATE", _) => {
                self.columns(statement);
                self.words(UPDATE);
            }
            ("DELETE", _) => {
                self.columns(statement);
                self.words(DELETE);
            }
            ("CREATE" | "ALTER", Some("TABLE" | "COLUMNFAMILY")) if has_with => {
                if matches!(last, "WITH" | "AND") {
                    self.as_they_are(TABLE_OPTIONS);
                    self.words(&["CLUSTERING ORDER BY"]);
                } else {
                    self.words(&["AND", "ASC", "DESC"]);
                }
            }
            ("CREATE", Some("TABLE" | "COLUMNFAMILY")) => {
                self.as_they_are(NATIVE_TYPES);
                self.types();
                self.words(CREATE_TABLE);
            }
            ("ALTER", Some("TABLE" | "COLUMNFAMILY")) => {
                self.columns(statement);
                self.as_they_are(NATIVE_TYPES);
                self.types();
                self.words(ALTER_TABLE);
            }
            ("CREATE", Some("INDEX" | "CUSTOM")) => {
                if matches!(last, "(" | ",") {
                    self.columns(statement);
                    self.as_they_are(INDEX_TARGETS);
                } else {
                    self.words(CREATE_INDEX);
                }
            }
            ("CREATE" | "ALTER", Some("TYPE")) => {
                self.as_they_are(NATIVE_TYPES);
                self.types();
                self.words(TYPE);
            }
            ("CREATE" | "ALTER", Some("KEYSPACE")) => match last {
                "WITH" | "AND" => self.as_they_are(&[
                    "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                    "durable_writes = ",
                ]),
                _ => self.words(KEYSPACE),
            },
            ("BEGIN", _) => self.words(STATEMENTS),
            _ => {}
        }
    }

    /// Completes after `keyspace.`.
    fn within_keyspace(&mut self, words: &[&str], upper: &[&str]) {
        let Some(keyspace) = words.len().checked_sub(2).map(|at| unquoted(words[at])) else { return };
        let Some(inside) = self.names.keyspaces.get(&keyspace) else { return };
        let wants_type = upper.contains(&"TYPE");
        let wants_table = !wants_type || upper[0].starts_with("DESC");
        if wants_table {
            inside.tables.keys().for_each(|name| self.name(name, " "));
        }
        if wants_type || upper[0].starts_with("DESC") || upper[0] == "CREATE" {
            inside.types.iter().for_each(|name| self.name(name, " "));
        }
    }

    fn in_use(&self) -> Option<&KeyspaceNames> {
        self.names.keyspaces.get(self.keyspace?)
    }

    fn tables(&mut self) {
        let tables: Vec<String> =
            self.in_use().iter().flat_map(|inside| inside.tables.keys().cloned()).collect();
        tables.iter().for_each(|name| self.name(name, " "));
        self.keyspaces(".");
    }

    fn types(&mut self) {
        let types: Vec<String> = self.in_use().iter().flat_map(|inside| inside.types.clone()).collect();
        types.iter().for_each(|name| self.name(name, ""));
    }

    fn indexes(&mut self) {
        let indexes: Vec<String> = self.in_use().iter().flat_map(|inside| inside.indexes.clone()).collect();
        indexes.iter().for_each(|name| self.name(name, ""));
    }

    fn keyspaces(&mut self, behind: &str) {
        self.names.keyspaces.keys().for_each(|name| self.name(name, behind));
    }

    /// Adds the columns of the statement's table.
    fn columns(&mut self, statement: &str) {
        let Some((keyspace, table)) = table_of(statement) else { return };
        let Some(keyspace) = keyspace.or(self.keyspace.map(str::to_string)) else { return };
        let columns = self.names.keyspaces.get(&keyspace).and_then(|inside| inside.tables.get(&table));
        columns.iter().flat_map(|columns| columns.iter()).for_each(|column| self.name(&column.name, ""));
    }

    fn words(&mut self, words: &[&str]) {
        words.iter().for_each(|word| self.word(word));
    }

    /// Adds a keyword, followed by a space.
    fn word(&mut self, word: &str) {
        let is_lower = self.begun.starts_with(|c: char| c.is_ascii_lowercase());
        let word = if is_lower { word.to_ascii_lowercase() } else { word.to_string() };
        if starts_with(&word, self.begun) {
            self.add(format!("{word} "), word);
        }
    }

    fn as_they_are(&mut self, texts: &[&str]) {
        for text in texts.iter().filter(|text| starts_with(text, self.begun)) {
            self.add((*text).to_string(), (*text).to_string());
        }
    }

    fn name(&mut self, name: &str, behind: &str) {
        let mut shown = String::new();
        push_identifier(&mut shown, name);
        let fits = match self.begun.strip_prefix('"') {
            Some(begun) => shown.starts_with('"') && name.starts_with(begun),
            None => starts_with(name, self.begun),
        };
        if fits {
            self.add(format!("{shown}{behind}"), shown);
        }
    }

    fn add(&mut self, text: String, shown: String) {
        if !self.found.iter().any(|known| known.shown == shown) {
            self.found.push(Candidate { text, shown });
        }
    }
}

fn starts_with(text: &str, begun: &str) -> bool {
    text.get(..begun.len()).is_some_and(|head| head.eq_ignore_ascii_case(begun))
}

/// The name as in the catalog.
fn unquoted(word: &str) -> String {
    match word.strip_prefix('"').and_then(|word| word.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => word.to_ascii_lowercase(),
    }
}

/// Keyspace and name of the table after FROM, INTO, UPDATE, ALTER TABLE or CREATE INDEX ON.
pub fn table_of(statement: &str) -> Option<(Option<String>, String)> {
    let words: Vec<Token> = tokens(statement).filter(|token| token.kind != TokenKind::Comment).collect();
    let at = words.iter().rposition(|token| {
        matches!(
            token.kind,
            TokenKind::Keyword(
                Keyword::From | Keyword::Into | Keyword::Update | Keyword::Table | Keyword::On
            )
        )
    })?;
    let name = |at: usize| {
        let token = words.get(at)?;
        let is_name = matches!(token.kind, TokenKind::Word | TokenKind::Keyword(_) | TokenKind::QuotedName);
        is_name.then(|| unquoted(token.text(statement)))
    };
    let first = name(at + 1)?;
    match words.get(at + 2).map(|token| token.kind) {
        Some(TokenKind::Dot) => Some((Some(first), name(at + 3)?)),
        _ => Some((None, first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        for (column, kind) in [("id", "partition_key"), ("name", "regular"), ("Mixed", "regular")] {
            names.add_column("shop", "users", column, kind);
        }
        names.add_column("shop", "orders", "order_id", "partition_key");
        names.add_column("system", "local", "key", "partition_key");
        names.keyspaces.get_mut("shop").unwrap().types.push("address".to_string());
        names.keyspaces.get_mut("shop").unwrap().indexes.push("users_name_idx".to_string());
        names
    }

    /// The candidates as they are listed; `|` marks the cursor.
    #[track_caller]
    fn shown(typed: &str) -> Vec<String> {
        let (above, line) = match typed.rfind('\n') {
            Some(at) => typed.split_at(at + 1),
            None => ("", typed),
        };
        let (before, after) = line.split_once('|').unwrap();
        let (start, found) = complete(&names(), Some("shop"), Typed { above, before, after });
        assert!(before.is_char_boundary(start));
        found.into_iter().map(|candidate| candidate.shown).collect()
    }

    #[track_caller]
    fn check(typed: &str, expect: &[&str]) {
        assert_eq!(shown(typed), expect, "{typed}");
    }

    #[track_caller]
    fn check_has(typed: &str, expect: &[&str]) {
        let shown = shown(typed);
        for word in expect {
            assert!(shown.iter().any(|known| known == word), "{typed}: {word} is not in {shown:?}");
        }
    }

    #[test]
    fn first_words_in_the_case_they_were_begun_in() {
        check("sel|", &["select"]);
        check("SEL|", &["SELECT"]);
        check("ex|", &["exit", "expand"]);
        check("SER|", &["SERIAL CONSISTENCY"]);
        check_has("|", &["SELECT", "INSERT INTO", "DESCRIBE"]);
        check("select 1; upd|", &["update"]);
    }

    #[test]
    fn tables_and_what_is_in_a_keyspace() {
        check("SELECT * FROM |", &["orders", "users", "shop", "system"]);
        check("SELECT * FROM u|", &["users"]);
        check("SELECT * FROM system.|", &["local"]);
        check("SELECT * FROM system.lo|", &["local"]);
        check("SELECT * FROM \"shop\".us|", &["users"]);
        check("INSERT INTO us|", &["users"]);
        check("UPDATE or|", &["orders"]);
        check("TRUNCATE us|", &["users"]);
        check("USE s|", &["shop", "system"]);
        check("DROP TABLE us|", &["users"]);
        check("DROP TABLE IF EXISTS us|", &["users"]);
        check("DROP TYPE a|", &["address"]);
        check("CREATE TABLE i|", &["if not exists"]);
    }

    #[test]
    fn columns_of_the_table_that_is_named() {
        check("SELECT n| FROM users", &["name", "now()"]);
        check("SELECT * FROM users WHERE i|", &["id", "in"]);
        check("SELECT * FROM users\nWHERE na|", &["name"]);
        check("SELECT \"M|", &[]);
        check("SELECT \"M| FROM users", &["\"Mixed\""]);
        check("SELECT mi| FROM shop.users", &["\"Mixed\"", "min(", "minTimeuuid("]);
        check("INSERT INTO orders (or|", &["order_id"]);
        check("UPDATE users SET na|", &["name"]);
        check("UPDATE users SET name = 'x' WHERE id = 1 IF e|", &["exists"]);
        check("DELETE na| FROM users", &["name"]);
    }

    #[test]
    fn words_that_follow() {
        check("SELECT * FROM users ORDER |", &["BY"]);
        check("SELECT * FROM users al|", &["allow filtering"]);
        check("CREATE |", &["CUSTOM INDEX", "INDEX", "KEYSPACE", "TABLE", "TYPE"]);
        check("BEGIN |", &["BATCH", "COUNTER BATCH", "UNLOGGED BATCH"]);
        check("INSERT INTO users (id) VALUES (1) IF |", &["NOT EXISTS"]);
        check("INSERT INTO users (id) VALUES (1) USING T|", &["TIMEOUT", "TIMESTAMP", "TTL"]);
        check("CREATE TABLE t (k b|", &["bigint", "blob", "boolean"]);
        check("CREATE TABLE t (k frozen<ad|", &["address"]);
        check("CREATE TABLE t (k int PRIMARY KEY) WITH compa|", &["compaction"]);
        check_has(
            "CREATE KEYSPACE k WITH repl|",
            &["replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"],
        );
    }

    #[test]
    fn compaction_options_within_and_without_quotes() {
        let begun = "CREATE TABLE t (k int PRIMARY KEY) WITH compaction = {'class': 'Lev|";
        check(begun, &["'LeveledCompactionStrategy'"]);
        check("ALTER TABLE t WITH compaction = {|", &["'class': "]);
        check(
            "ALTER TABLE t WITH compaction = {'class': 'TimeWindowCompactionStrategy', 'max_th|",
            &["'max_threshold': "],
        );
    }

    #[test]
    fn indexes_by_name_and_by_column() {
        check("CREATE INDEX |", &["IF NOT EXISTS", "ON"]);
        check("CREATE CUSTOM INDEX |", &["IF NOT EXISTS", "ON"]);
        check("CREATE INDEX ON us|", &["users"]);
        check("CREATE INDEX i ON users (na|", &["name"]);
        check("CREATE INDEX i ON users (k|", &["keys("]);
        check("CREATE INDEX i ON users (name) us|", &["using"]);
        check("DROP INDEX |", &["IF EXISTS", "users_name_idx"]);
        check("DROP INDEX IF EXISTS u|", &["users_name_idx"]);
        check("DESCRIBE INDEX u|", &["users_name_idx"]);
    }

    #[test]
    fn arguments_of_commands() {
        check("CONSISTENCY LOCAL_|", &["LOCAL_QUORUM", "LOCAL_SERIAL", "LOCAL_ONE"]);
        check("serial consistency |", &["SERIAL", "LOCAL_SERIAL"]);
        check("tracing o|", &["on", "off"]);
        check("DESC u|", &["users"]);
        check_has("DESCRIBE |", &["users", "shop", "TABLES"]);
        check("DESCRIBE TABLE us|", &["users"]);
        check("help sel|", &["select"]);
        check("SHOW V|", &["VERSION"]);
    }

    #[test]
    fn nothing_within_strings_comments_and_numbers() {
        for typed in
            ["SELECT 'a|", "SELECT 1|", "-- sel|", "INSERT INTO t VALUES (0xca|", "/* sel|", "x 'a'|"]
        {
            check(typed, &[]);
        }
    }
}
