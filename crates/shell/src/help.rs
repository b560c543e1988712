//! The texts of HELP.

const OVERVIEW: &str = "
A statement ends with ';' and may have several lines; a command ends with its line.

Statements (HELP and the first word shows how they are written):
  SELECT  INSERT  UPDATE  DELETE  BATCH  CREATE  ALTER  DROP  TRUNCATE  USE

Commands:
  DESCRIBE ...        list or show: KEYSPACES, TABLES, TYPES, KEYSPACE k, TABLE t, TYPE t, SCHEMA, CLUSTER, or a name
  CONSISTENCY [level] how many replicas must answer          SERIAL CONSISTENCY [level]  the same for IF
  EXPAND [ON|OFF|AUTO]  a line for each column of a row     PAGING [ON|OFF|rows]  stop after each page
  TRACING [ON|OFF]    the trace of each statement            SHOW VERSION | HOST | SESSION id
  SOURCE 'file'       run the statements of a file           CAPTURE ['file'|OFF]  write results to a file
  CLEAR               empty the screen                       LOGIN user ['password']  go on as another user
  EXIT, QUIT, Ctrl-D  leave

Keys: Tab completes words and names, Up and Down go through history, Ctrl-R searches it, Ctrl-C drops the input or
stops waiting for an answer.
";

const TOPICS: &[(&str, &str)] = &[
    (
        "SELECT",
        "SELECT [DISTINCT] * | column | function(...) [AS name], ... FROM [keyspace.]table
  [WHERE column = value AND column IN (...) AND (c1, c2) > (...) AND token(key) > n ...]
  [ORDER BY column [ASC | DESC]] [PER PARTITION LIMIT n] [LIMIT n] [ALLOW FILTERING] [USING TIMEOUT 500ms];

A SELECT is fast if WHERE names the whole partition key.
writetime(c) and ttl(c) return a cell's timestamp and TTL, count(*) counts rows.",
    ),
    (
        "INSERT",
        "INSERT INTO [keyspace.]table (column, ...) VALUES (value, ...)
  [IF NOT EXISTS] [USING TTL seconds AND TIMESTAMP microseconds];

An INSERT overwrites an existing row, unless it has IF NOT EXISTS.
Literals: 'text'  42  3.14  true  0xcafe  uuid()  '2026-11-21 22:00:00'  [1, 2]  {'a', 'b'}  {'k': 'v'}  null",
    ),
    (
        "UPDATE",
        "UPDATE [keyspace.]table [USING TTL seconds AND TIMESTAMP microseconds]
  SET column = value, counter = counter + 1, list = list + [x], map['k'] = v, set = set - {x}
  WHERE key = value [IF EXISTS | IF column = value AND ...];

An UPDATE of a row that does not exist creates it, unless an IF prevents it.",
    ),
    (
        "DELETE",
        "DELETE [column, map['k'], ...] FROM [keyspace.]table [USING TIMESTAMP microseconds]
  WHERE key = value [AND clustering >= a AND clustering < b] [IF EXISTS | IF column = value];",
    ),
    (
        "BATCH",
        "BEGIN [UNLOGGED | COUNTER] BATCH [USING TIMESTAMP microseconds]
  INSERT ...; UPDATE ...; DELETE ...;
APPLY BATCH;

All of it takes effect, or nothing. A batch is not faster than its single statements.",
    ),
    (
        "CREATE",
        "CREATE KEYSPACE [IF NOT EXISTS] name
  WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} [AND durable_writes = true];

CREATE TABLE [IF NOT EXISTS] [keyspace.]name (
  column type [STATIC], ...,
  PRIMARY KEY ((partition, key), clustering, ...)
) [WITH CLUSTERING ORDER BY (clustering DESC) AND option = value ...];

CREATE TYPE [IF NOT EXISTS] [keyspace.]name (field type, ...);

CREATE [CUSTOM] INDEX [IF NOT EXISTS] [name] ON [keyspace.]table (column | keys(map) | entries(map) | full(frozen))
  [USING 'sai'] [WITH OPTIONS = {'case_sensitive': 'false'}];

HELP TYPES lists the types; DESCRIBE TABLE shows a table's options.",
    ),
    (
        "ALTER",
        "ALTER TABLE [keyspace.]name ADD column type | DROP column | RENAME old TO new | WITH option = value ...;
ALTER KEYSPACE name WITH ...;
ALTER TYPE [keyspace.]name ADD field type | RENAME old TO new;",
    ),
    ("DROP", "DROP KEYSPACE | TABLE | TYPE | INDEX [IF EXISTS] [keyspace.]name;"),
    ("TRUNCATE", "TRUNCATE [TABLE] [keyspace.]table;\n\nRemoves all rows."),
    ("USE", "USE keyspace;\n\nTable names without a keyspace then refer to this keyspace."),
    (
        "TYPES",
        "ascii  bigint  blob  boolean  counter  date  decimal  double  duration  float  inet  int  smallint  text
time  timestamp  timeuuid  tinyint  uuid  varchar  varint
list<t>  set<t>  map<k, v>  tuple<a, b>  vector<t, n>  frozen<t>  and types made with CREATE TYPE",
    ),
    (
        "DESCRIBE",
        "DESCRIBE KEYSPACES | TABLES | TYPES | CLUSTER
DESCRIBE [FULL] SCHEMA | KEYSPACE [name] | TABLE [keyspace.]name | TYPE [keyspace.]name
         | INDEX [keyspace.]name | name

Prints names, or the statements that create the objects again.",
    ),
    ("CONSISTENCY", "CONSISTENCY [ANY | ONE | TWO | THREE | QUORUM | ALL | LOCAL_QUORUM | EACH_QUORUM | LOCAL_ONE | SERIAL]"),
    ("SERIAL", "SERIAL CONSISTENCY [SERIAL | LOCAL_SERIAL]"),
    (
        "EXPAND",
        "EXPAND [ON | OFF | AUTO]\n\nON shows each row as lines of column and value; AUTO, the default at a \
         terminal, does so if a table would be wider than the terminal.",
    ),
    ("PAGING", "PAGING [ON | OFF | rows]\n\nNumber of rows fetched at a time; between pages the shell waits for a key: q ends \
                the output."),
    ("TRACING", "TRACING [ON | OFF]\n\nShows after each statement its trace, if the server stores traces."),
    ("SHOW", "SHOW VERSION\nSHOW HOST\nSHOW SESSION <id of a trace>"),
    ("SOURCE", "SOURCE 'file'\n\nRuns the statements and commands of a file, up to the first that fails."),
    ("CAPTURE", "CAPTURE 'file'\nCAPTURE OFF\n\nAppends results to the file instead of showing them."),
    ("COPY", COPY),
    ("CLEAR", "CLEAR\n\nEmpties the screen."),
    ("EXIT", "EXIT"),
    ("QUIT", "QUIT"),
    ("LOGIN", "LOGIN user ['password']\n\nGoes on as another user; without a password, the shell asks for it. Settings and keyspace stay."),
    ("HELP", "HELP [topic]"),
];

const COPY: &str = "COPY table [(column, ...)] FROM 'file, pattern, ...' | STDIN [WITH option = value AND ...]
COPY table [(column, ...)] TO 'file' | STDOUT [WITH option = value AND ...]

Loads a table from CSV files, or writes it to one, as cqlsh does; with FORMAT = json an object on each line.

  both   BOOLSTYLE CONFIGFILE DATETIMEFORMAT DECIMALSEP DELIMITER ENCODING ESCAPE FORMAT HEADER MAXATTEMPTS NULL
         NUMPROCESSES QUOTE RATEFILE REPORTFREQUENCY TEXTESCAPES THOUSANDSSEP
  FROM   CHECKPOINT CHUNKSIZE ERRFILE INGESTRATE MAXBATCHSIZE MAXINFLIGHTMESSAGES MAXINSERTERRORS MAXPARSEERRORS
         MAXROWS REQUESTTIMEOUT SKIPCOLS SKIPROWS TTL UNSETNULLS
  TO     BEGINTOKEN DOUBLEPRECISION ENDTOKEN FLOATPRECISION MAXOUTPUTSIZE PAGESIZE PAGETIMEOUT

With CHECKPOINT = 'file', a load that was interrupted goes on when the same command is given again.";

/// The topics of HELP, in no particular order.
pub fn topics() -> impl Iterator<Item = &'static str> {
    TOPICS.iter().map(|(topic, _)| *topic)
}

/// The help text for a topic, or the overview.
pub fn help(topic: Option<&str>) -> String {
    let Some(topic) = topic else { return OVERVIEW.trim_start_matches('\n').to_string() };
    let word = topic.split_whitespace().next().unwrap_or("").to_ascii_uppercase();
    let word = match word.as_str() {
        "DESC" => "DESCRIBE",
        "BEGIN" | "APPLY" => "BATCH",
        "TYPE" => "TYPES",
        "CLS" => "CLEAR",
        other => other,
    };
    match TOPICS.iter().find(|(known, _)| *known == word) {
        Some((_, text)) => format!("{text}\n"),
        None => {
            let mut all: Vec<&str> = topics().collect();
            all.sort_unstable();
            format!("There is no help on {topic}, but on {}.\n", all.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    #[test]
    fn every_command_has_help() {
        for words in command::FIRST_WORDS {
            let first = words.split(' ').next().unwrap();
            assert!(topics().any(|topic| topic == first), "{first}");
            assert!(!help(Some(first)).starts_with("There is no help"));
        }
    }

    #[test]
    fn topics_are_found_in_any_case_and_unknown_ones_are_listed() {
        assert!(help(Some("select")).starts_with("SELECT"));
        assert!(help(Some("desc tables")).starts_with("DESCRIBE"));
        assert!(help(Some("nonsense")).contains("ALTER, BATCH"));
        assert!(help(None).contains("EXPAND"));
    }
}
