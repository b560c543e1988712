//! The command line of cassandra-stress: a command with `name=value` words, then groups such as `-rate
//! threads=64`.
//!
//! `cassandra-stress write n=1M cl=ONE -pop seq=1..1M -rate threads=64 throttle=5000/s -node 10.0.0.1` means
//! the same here. What has no meaning here is refused with its name; nothing is ignored.

use std::path::PathBuf;
use std::time::Duration;

use base::suggest::nearest;
use protocol::Consistency;

use crate::distribution::{Distribution, parse_number};
use crate::population::Population;
use crate::profile::{Columns, column_count};
use crate::schedule::Amount;

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Inserts into `standard1`.
    Write,
    /// Reads of `standard1`.
    Read,
    /// Operations of `standard1` by their shares.
    Mixed(Vec<(String, f64)>),
    /// Updates of `counter1`.
    CounterWrite,
    /// Reads of `counter1`.
    CounterRead,
    /// Operations of a profile by their shares.
    User {
        /// A file, or the name of a shipped profile.
        profile: String,
        /// Operations and their shares.
        operations: Vec<(String, f64)>,
    },
}

/// How many operations are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// This many.
    Fixed(usize),
    /// From this many on, half more each time, until a run brings less than 5 % more, or up to the second
    /// number.
    Auto(usize, usize),
}

/// When the table is truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncate {
    /// Not.
    Never,
    /// Before the first run.
    Once,
    /// Before each run of `-rate auto`.
    Always,
}

/// The whole command line.
#[derive(Clone, Debug)]
pub struct Settings {
    pub command: Command,
    pub amount: Amount,
    pub consistency: Consistency,
    pub serial_consistency: Consistency,
    pub truncate: Truncate,
    /// Operations before the measured ones: a quarter of them, 50,000 at most.
    pub has_warm_up: bool,
    /// `None`: 1 to the number of operations, in order for writes, Gaussian for reads.
    pub population: Option<Population>,
    pub columns: Columns,
    pub threads: Threads,
    pub rate: Option<f64>,
    pub keyspace: Option<String>,
    /// `CREATE KEYSPACE`'s replication.
    pub replication: String,
    /// ` WITH …` of the table; may be empty.
    pub table_options: String,
    pub nodes: Vec<String>,
    pub port: u16,
    pub user: Option<String>,
    pub password: Option<String>,
    pub connections: usize,
    pub is_encrypted: bool,
    pub ssl_ca: Option<PathBuf>,
    pub attempts: u32,
    pub ignores_errors: bool,
    pub has_checks: bool,
    pub timeout: Duration,
    pub interval: Duration,
    pub has_lines: bool,
    /// Where the figures are appended as a line of JSON.
    pub json: Option<PathBuf>,
}

impl Settings {
    fn new(command: Command) -> Self {
        Self {
            command,
            amount: Amount::Operations(0),
            consistency: Consistency::LocalOne,
            serial_consistency: Consistency::Serial,
            truncate: Truncate::Never,
            has_warm_up: true,
            population: None,
            columns: Columns::default(),
            threads: Threads::Fixed(64),
            rate: None,
            keyspace: None,
            replication: "{'class': 'SimpleStrategy', 'replication_factor': 1}".to_string(),
            table_options: String::new(),
            nodes: vec!["127.0.0.1".to_string()],
            port: 9042,
            user: None,
            password: None,
            connections: 4,
            is_encrypted: false,
            ssl_ca: None,
            attempts: 10,
            ignores_errors: false,
            has_checks: true,
            timeout: Duration::from_secs(12),
            interval: Duration::from_secs(1),
            has_lines: true,
            json: None,
        }
    }
}

const COMMANDS: [&str; 6] = ["write", "read", "mixed", "counter_write", "counter_read", "user"];
const GROUPS: [&str; 11] = [
    "-pop",
    "-col",
    "-rate",
    "-schema",
    "-node",
    "-port",
    "-mode",
    "-errors",
    "-log",
    "-transport",
    "-insert",
];

/// # Errors
/// The wrong word, and the expected ones.
pub fn parse(words: &[String]) -> Result<Settings, String> {
    let words = joined(words)?;
    let mut groups = words.chunk_by(|_, next| !next.starts_with('-'));
    let command = groups.next().ok_or_else(|| format!("a command is missing: {}", COMMANDS.join(", ")))?;
    let mut settings = Settings::new(command_of(command)?);
    let mut has_amount = false;
    for word in &command[1..] {
        match named(word) {
            ("n", Some(value)) => {
                settings.amount = Amount::Operations(positive(value)?);
                has_amount = true;
            }
            ("duration", Some(value)) => {
                settings.amount = Amount::Time(time(value)?);
                has_amount = true;
            }
            ("cl", Some(value)) => settings.consistency = consistency(value)?,
            ("serial-cl", Some(value)) => settings.serial_consistency = consistency(value)?,
            ("no-warmup", None) => settings.has_warm_up = false,
            ("truncate", Some("never")) => settings.truncate = Truncate::Never,
            ("truncate", Some("once")) => settings.truncate = Truncate::Once,
            ("truncate", Some("always")) => settings.truncate = Truncate::Always,
            // Taken apart by `command_of`.
            _ if word.starts_with("ratio(") || word.starts_with("ops(") || word.starts_with("profile=") => {}
            _ if word.starts_with("err<") || word.starts_with("n<") || word.starts_with("n>") => {
                return Err(format!(
                    "{word}: a run ends after n=OPERATIONS or duration=TIME, not by an error bound"
                ));
            }
            _ => {
                return Err(unknown(
                    word,
                    &["n=", "duration=", "cl=", "serial-cl=", "no-warmup", "truncate=", "ratio("],
                ));
            }
        }
    }
    if !has_amount {
        return Err("say how much: n=100000, or duration=60s".to_string());
    }
    for group in groups {
        let words = &group[1..];
        match group[0].as_str() {
            "-pop" => population(&mut settings, words)?,
            "-col" => columns(&mut settings, words)?,
            "-rate" => rate(&mut settings, words)?,
            "-schema" => schema(&mut settings, words)?,
            "-node" => nodes(&mut settings, words)?,
            "-port" => port(&mut settings, words)?,
            "-mode" => mode(&mut settings, words)?,
            "-errors" => errors(&mut settings, words)?,
            "-log" => log(&mut settings, words)?,
            "-transport" => transport(&mut settings, words)?,
            "-insert" => {
                return Err(
                    "-insert: a profile's `insert` says how many rows an operation writes".to_string()
                );
            }
            other => return Err(unknown(other, &GROUPS)),
        }
    }
    Ok(settings)
}

/// Joins words that belong to one pair of brackets: shells split `ratio(write=1, read=3)`.
fn joined(words: &[String]) -> Result<Vec<String>, String> {
    let mut out: Vec<String> = vec![];
    let mut depth = 0i32;
    for word in words {
        match out.last_mut().filter(|_| depth > 0) {
            Some(last) => last.push_str(word),
            None => out.push(word.clone()),
        }
        depth += word.matches('(').count() as i32 - word.matches(')').count() as i32;
    }
    match depth {
        0 => Ok(out),
        _ => {
            Err(format!("a bracket is not closed, or not opened: {}", out.last().map_or("", String::as_str)))
        }
    }
}

fn unknown(word: &str, known: &[&str]) -> String {
    let name = word.split(['=', '(']).next().unwrap_or(word);
    let names = known.iter().map(|known| known.trim_end_matches(['=', '(']));
    let hint = nearest(name, names).map_or(String::new(), |near| format!("; did you mean {near}?"));
    format!("{word} is not known here{hint} (known: {})", known.join(" "))
}

/// `name=value` or `name`.
fn named(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    }
}

/// The content of `name(content)`.
fn within<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    word.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')
}

fn positive(text: &str) -> Result<u64, String> {
    match parse_number(text)? {
        number @ 1.. => Ok(number as u64),
        number => Err(format!("{number} is not above 0")),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let unit = units.iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?.parse::<u64>().ok()?, ms)));
    match unit.and_then(|(number, ms)| number.checked_mul(*ms)) {
        Some(ms @ 1..) => Ok(Duration::from_millis(ms)),
        _ => Err(format!("{text:?} is not a time such as 500ms, 30s, 10m, 2h or 1d")),
    }
}

fn consistency(text: &str) -> Result<Consistency, String> {
    Consistency::from_name(&text.to_ascii_uppercase())
        .ok_or_else(|| format!("{text:?} is not a consistency level"))
}

fn shares(text: &str) -> Result<Vec<(String, f64)>, String> {
    let share = |part: &str| {
        let (name, share) =
            part.split_once('=').ok_or_else(|| format!("{part:?}: expected OPERATION=SHARE"))?;
        let number = share.parse().map_err(|_| format!("{share:?} is not a number"))?;
        Ok((name.trim().to_string(), number))
    };
    text.split(',').map(|part| share(part.trim())).collect()
}

fn command_of(words: &[String]) -> Result<Command, String> {
    let value_of = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let inside = |name: &str| words.iter().find_map(|word| within(word, name));
    Ok(match words[0].as_str() {
        "write" => Command::Write,
        "read" => Command::Read,
        "counter_write" => Command::CounterWrite,
        "counter_read" => Command::CounterRead,
        "mixed" => {
            let text = inside("ratio").unwrap_or("write=1,read=1");
            let named = shares(text)?.into_iter().map(|(name, share)| match name.as_str() {
                "write" => Ok(("insert".to_string(), share)),
                "read" | "delete" => Ok((name, share)),
                _ => Err(format!("ratio(…): {name} is not write, read or delete")),
            });
            Command::Mixed(named.collect::<Result<_, String>>()?)
        }
        "user" => Command::User {
            profile: value_of("profile")
                .ok_or("user: say which profile: profile=FILE or profile=NAME")?
                .to_string(),
            operations: shares(inside("ops").ok_or("user: say which operations: ops(insert=1,read=3)")?)?,
        },
        other => return Err(unknown(other, &COMMANDS)),
    })
}

fn population(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    for word in words {
        settings.population = Some(match named(word) {
            ("seq", Some(range)) => {
                let (first, last) =
                    range.split_once("..").ok_or_else(|| format!("{word}: expected seq=1..1000000"))?;
                let (first, last) = (parse_number(first)?, parse_number(last)?);
                if first < 0 || last < first {
                    return Err(format!("{word}: the bounds must rise, from 0 or more"));
                }
                Population::sequence(first as u64, last as u64)
            }
            ("dist", Some(notation)) => Population::Random(Distribution::parse(notation)?),
            _ => return Err(unknown(word, &["seq=", "dist="])),
        });
    }
    Ok(())
}

fn columns(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    let (mut names, mut count) = (None, None);
    for word in words {
        match named(word) {
            ("size", Some(notation)) => {
                Distribution::parse(notation)?;
                settings.columns.size = notation.to_string();
            }
            ("n", Some(notation)) => count = Some(column_count(notation)?),
            ("names", Some(list)) => names = Some(list.split(',').map(str::to_string).collect::<Vec<_>>()),
            _ => return Err(unknown(word, &["size=", "n=", "names="])),
        }
    }
    match (names, count) {
        (Some(names), None) => settings.columns.names = names,
        (None, Some(count)) => settings.columns.names = Columns::counted(count, "").names,
        (None, None) => {}
        (Some(_), Some(_)) => return Err("-col: names= and n= exclude each other".to_string()),
    }
    Ok(())
}

fn rate(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    let a_second = |value: &str| -> Result<f64, String> {
        Ok(positive(
            value.strip_suffix("/s").ok_or_else(|| format!("{value:?}: expected a rate such as 5000/s"))?,
        )? as f64)
    };
    let (mut fixed, mut low, mut high, mut is_auto) = (None, 4, 1_000, false);
    for word in words {
        let thread_count = |text: &str| positive(text).map(|count| count as usize);
        match word.as_str() {
            "auto" => is_auto = true,
            word if word.starts_with("threads>=") => {
                (low, is_auto) = (thread_count(&word["threads>=".len()..])?, true);
            }
            word if word.starts_with("threads<=") => {
                (high, is_auto) = (thread_count(&word["threads<=".len()..])?, true);
            }
            word => match named(word) {
                ("threads", Some(value)) => fixed = Some(thread_count(value)?),
                ("throttle" | "fixed", Some(value)) => settings.rate = Some(a_second(value)?),
                _ => {
                    return Err(unknown(
                        word,
                        &["threads=", "throttle=", "fixed=", "auto", "threads>=", "threads<="],
                    ));
                }
            },
        }
    }
    settings.threads = match (fixed, is_auto) {
        (Some(_), true) => return Err("-rate: threads= and auto exclude each other".to_string()),
        (Some(count), false) => Threads::Fixed(count),
        (None, true) if low <= high => Threads::Auto(low, high),
        (None, true) => return Err(format!("-rate: threads>={low} is above threads<={high}")),
        (None, false) => settings.threads,
    };
    Ok(())
}

fn schema(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    let mut options = vec![];
    for word in words {
        if let Some(inside) = within(word, "replication") {
            let mut strategy = "SimpleStrategy".to_string();
            let mut entries = String::new();
            let mut has_factor = false;
            for entry in inside.split(',').filter(|entry| !entry.is_empty()) {
                match named(entry.trim()) {
                    ("strategy", Some(name)) => strategy = name.to_string(),
                    ("factor" | "replication_factor", Some(factor)) => {
                        has_factor = true;
                        entries.push_str(&format!(", 'replication_factor': {}", positive(factor)?));
                    }
                    (data_centre, Some(factor)) => {
                        has_factor = true;
                        entries.push_str(&format!(", {}: {}", literal(data_centre), positive(factor)?));
                    }
                    _ => return Err(format!("{word}: expected replication(strategy=NAME,factor=1)")),
                }
            }
            if !has_factor {
                entries.push_str(", 'replication_factor': 1");
            }
            settings.replication = format!("{{'class': {}{entries}}}", literal(&strategy));
        } else if let Some(inside) = within(word, "compaction") {
            let mut entries = vec![];
            for entry in inside.split(',').filter(|entry| !entry.is_empty()) {
                match named(entry.trim()) {
                    ("strategy", Some(name)) => entries.insert(0, format!("'class': {}", literal(name))),
                    (name, Some(value)) => entries.push(format!("{}: {}", literal(name), literal(value))),
                    _ => return Err(format!("{word}: expected compaction(strategy=NAME,option=value)")),
                }
            }
            options.push(format!("compaction = {{{}}}", entries.join(", ")));
        } else {
            match named(word) {
                ("keyspace", Some(name)) => settings.keyspace = Some(name.to_string()),
                ("compression", Some(class)) => {
                    options.push(format!("compression = {{'class': {}}}", literal(class)))
                }
                _ => {
                    return Err(unknown(word, &["replication(", "compaction(", "compression=", "keyspace="]));
                }
            }
        }
    }
    if !options.is_empty() {
        settings.table_options = format!(" WITH {}", options.join(" AND "));
    }
    Ok(())
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn nodes(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    let mut nodes = vec![];
    for word in words {
        if word.starts_with("datacenter=") || word.starts_with("file=") || word == "whitelist" {
            return Err(format!("-node {word}: name the nodes to connect to: -node 10.0.0.1,10.0.0.2"));
        }
        nodes.extend(word.split(',').filter(|node| !node.is_empty()).map(str::to_string));
    }
    match nodes.is_empty() {
        true => Err("-node: name a node".to_string()),
        false => {
            settings.nodes = nodes;
            Ok(())
        }
    }
}

fn port(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    for word in words {
        match named(word) {
            ("native", Some(value)) => {
                settings.port = value.parse().map_err(|_| format!("{value:?} is not a port"))?;
            }
            _ => return Err(unknown(word, &["native="])),
        }
    }
    Ok(())
}

fn mode(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    for word in words {
        match named(word) {
            // The only ones that there are.
            ("native" | "cql3" | "prepared", None) => {}
            ("user", Some(user)) => settings.user = Some(user.to_string()),
            ("password", Some(password)) => settings.password = Some(password.to_string()),
            ("connectionsPerHost" | "connections", Some(count)) => {
                settings.connections = usize::try_from(positive(count)?).unwrap_or(usize::MAX).min(1024);
            }
            ("compression", Some("none")) => {}
            ("compression", Some(_)) => {
                return Err("-mode compression: frames are sent uncompressed".to_string());
            }
            ("unprepared", None) => {
                return Err("-mode unprepared: statements are always prepared".to_string());
            }
            _ => {
                return Err(unknown(
                    word,
                    &["native", "cql3", "prepared", "user=", "password=", "connectionsPerHost="],
                ));
            }
        }
    }
    Ok(())
}

fn errors(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    for word in words {
        match named(word) {
            // As in cassandra-stress, the first attempt counts.
            ("retries", Some(count)) => {
                settings.attempts = u32::try_from(parse_number(count)?.max(1)).unwrap_or(u32::MAX)
            }
            ("ignore", None) => settings.ignores_errors = true,
            ("skip-read-validation", None) => settings.has_checks = false,
            ("timeout", Some(value)) => settings.timeout = time(value)?,
            _ => return Err(unknown(word, &["retries=", "ignore", "skip-read-validation", "timeout="])),
        }
    }
    Ok(())
}

fn log(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    for word in words {
        match named(word) {
            ("interval", Some(value)) => settings.interval = time(value)?,
            ("level", Some("minimal")) => settings.has_lines = false,
            ("level", Some("normal")) => settings.has_lines = true,
            ("json", Some(path)) => settings.json = Some(PathBuf::from(path)),
            _ => return Err(unknown(word, &["interval=", "level=minimal", "level=normal", "json="])),
        }
    }
    Ok(())
}

fn transport(settings: &mut Settings, words: &[String]) -> Result<(), String> {
    for word in words {
        match named(word) {
            ("ssl", None) => settings.is_encrypted = true,
            ("ca", Some(path)) => {
                settings.is_encrypted = true;
                settings.ssl_ca = Some(PathBuf::from(path));
            }
            _ => {
                return Err(format!(
                    "-transport {word}: there are ssl, and ca=FILE with a PEM file of certificates"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    fn parsed(text: &str) -> Settings {
        parse(&words(text)).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_command_lines_of_the_documents_are_understood() {
        let settings = parsed(
            "write n=4M cl=ONE no-warmup -pop seq=1..4M -rate threads=200 throttle=10k/s -node 10.0.0.1,10.0.0.2 -schema \
             replication(strategy=SimpleStrategy,factor=1) keyspace=ks \
             compaction(strategy=LeveledCompactionStrategy,sstable_size_in_mb=10) compression=LZ4Compressor -col \
             size=fixed(300) n=fixed(1) -mode native cql3 user=u password=p -errors retries=3 ignore -log interval=5s",
        );
        assert_eq!(settings.command, Command::Write);
        assert_eq!(settings.amount, Amount::Operations(4_000_000));
        assert_eq!(settings.consistency, Consistency::One);
        assert!(matches!(settings.population, Some(Population::Sequence { first: 1, count: 4_000_000, .. })));
        assert_eq!((settings.threads, settings.rate), (Threads::Fixed(200), Some(10_000.0)));
        assert_eq!(settings.nodes, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(
            settings.table_options,
            " WITH compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '10'} AND compression = \
             {'class': 'LZ4Compressor'}"
        );
        assert_eq!(settings.columns.names, ["C0"]);
        assert_eq!((settings.attempts, settings.ignores_errors, settings.has_warm_up), (3, true, false));

        let settings =
            parsed("mixed ratio(write=4, delete=1) duration=30m -pop dist=UNIFORM(1..1000000) -rate auto");
        let shares = vec![("insert".to_string(), 4.0), ("delete".to_string(), 1.0)];
        assert_eq!(settings.command, Command::Mixed(shares));
        assert_eq!(settings.amount, Amount::Time(Duration::from_secs(1800)));
        assert_eq!(settings.threads, Threads::Auto(4, 1000));

        let settings = parsed("user profile=time_series ops(insert=1,latest=2) n=10");
        assert!(
            matches!(settings.command, Command::User { profile, operations } if profile == "time_series" && operations.len() == 2)
        );
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        for (text, expected) in [
            ("", "is not known here"),
            ("writ n=1", "did you mean write?"),
            ("write", "n=100000, or duration=60s"),
            ("write n=0", "not above 0"),
            ("write n=1 err<0.02", "not by an error bound"),
            ("write n=1 -pop seq=5..1", "must rise"),
            ("write n=1 -rate threads=4 auto", "exclude each other"),
            ("write n=1 -rate throttle=5", "5000/s"),
            ("write n=1 -mode compression=lz4", "uncompressed"),
            ("write n=1 -graph file=x", "-graph is not known here"),
            ("write n=1 -node whitelist", "name the nodes"),
            ("write n=1 -col n=uniform(1..5)", "same number of columns"),
            ("write n=1 -schema replication(factor=1", "bracket"),
            ("mixed ratio(write=1,range=2) n=1", "not write, read or delete"),
            ("user n=1", "profile=FILE"),
        ] {
            let error = parse(&words(text)).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
