//! `messina nodetool`: looks after a running node, with the commands and the layouts that people know.
//!
//! A thin client of the admin API: [`http`] asks, [`text`] lays out; `--format json` prints the answer as it came.

mod compaction_text;
pub mod http;
mod io_model_text;
pub mod text;

use std::cell::Cell;
use std::fmt;
use std::io::Write;

use clap::{Args, ValueEnum};
use serde::de::DeserializeOwned;

use crate::admin::answers::{
    AutoCompaction, Compactions, ConcurrentCompactors, Done, EndedCompaction, Info, IoModel, Loaded, Memory,
    SSTables, Scrubbed, Snapshot, TableStats, Throughput, Verified, Version,
};
use crate::suggest::nearest;
use http::{Client, query};

#[derive(Args, Debug)]
pub struct NodetoolArguments {
    /// Where the node's admin API is.
    #[arg(short = 'h', long, default_value = "127.0.0.1")]
    host: String,
    #[arg(short = 'p', long, default_value_t = 10_000)]
    port: u16,
    /// A name of the node's api_password_file.
    #[arg(short = 'u', long)]
    username: Option<String>,
    /// Its password; also -pw.
    #[arg(long, requires = "username")]
    password: Option<String>,
    /// A file with a line `name password` or `name:password` for each name; also -pwf.
    #[arg(long, requires = "username", conflicts_with = "password")]
    password_file: Option<std::path::PathBuf>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// A command and its arguments; `help` names them all.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug)]
pub struct NodetoolError(String);

impl fmt::Display for NodetoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nodetool: {}", self.0)
    }
}

impl std::error::Error for NodetoolError {}

impl From<String> for NodetoolError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Names, arguments, what it does.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("cfstats", "[KEYSPACE[.TABLE]]", "the same as tablestats"),
    ("clearsnapshot", "(-t TAG | --all) [KEYSPACE]", "removes snapshots"),
    ("cleanup", "[KEYSPACE [TABLE ...]]", "rewrites SSTables that hold partitions of other shards"),
    ("compact", "[-s] [KEYSPACE [TABLE ...]] | --user-defined FILE ...", "merges SSTables"),
    ("compactionhistory", "", "compactions that ended"),
    ("compactionstats", "[-H]", "compactions that run, and about how many are to be done"),
    ("disableautocompaction", "[KEYSPACE [TABLE ...]]", "tables are compacted only when asked to"),
    ("drain", "", "stops serving and flushes; only a restart ends it"),
    ("enableautocompaction", "[KEYSPACE [TABLE ...]]", "tables are compacted by themselves"),
    ("flush", "[KEYSPACE [TABLE ...]]", "writes memtables to SSTables"),
    (
        "garbagecollect",
        "[-g ROW|CELL] [KEYSPACE [TABLE ...]]",
        "rewrites SSTables without what others delete",
    ),
    ("getcompactionthroughput", "", "how fast compactions may read"),
    ("getconcurrentcompactors", "", "how many compactions a shard may run"),
    ("getsstables", "KEYSPACE TABLE KEY", "the SSTables that have a partition"),
    ("help", "", "this list"),
    ("import", "KEYSPACE TABLE DIRECTORY", "takes copies of SSTables on the node's machine into a table"),
    ("info", "", "the node: memory, load, uptime"),
    ("iomodel", "[--svg FILE]", "what the disk can do, configured and learned; --svg: draws p95 of reads"),
    ("listsnapshots", "", "the snapshots there are"),
    ("memory", "", "where memory is, by what it is for and by shard"),
    ("reads", "", "what reads run and wait on each shard, and what they hold"),
    ("refresh", "KEYSPACE TABLE", "takes the SSTables in the table's upload directory into it"),
    (
        "scrub",
        "[-s] [-n] [-ns] [-j JOBS] [KEYSPACE [TABLE ...]]",
        "rewrites SSTables with what can be read of them",
    ),
    ("setcompactionthroughput", "MB_PER_S", "how fast compactions may read; 0: no limit"),
    ("setconcurrentcompactors", "JOBS", "how many compactions a shard may run; 0: one of each size class"),
    ("snapshot", "[-t TAG] [KEYSPACE [TABLE]]", "keeps the SSTables as they are now"),
    ("status", "", "the node in its ring"),
    ("statusautocompaction", "[KEYSPACE [TABLE ...]]", "which tables are compacted by themselves"),
    ("stop", "[COMPACTION|CLEANUP|UPGRADE_SSTABLES|...]", "ends running compactions"),
    ("tablestats", "[KEYSPACE[.TABLE]]", "statistics of tables"),
    ("upgradesstables", "[-a] [KEYSPACE [TABLE ...]]", "rewrites SSTables of older versions"),
    ("verify", "[-e] [KEYSPACE [TABLE ...]]", "reads SSTables and says which are damaged; -e: every row"),
    ("version", "", "the version of the node"),
];

/// Runs one command and prints what it gives.
///
/// # Errors
/// There is no such command, no node, or the node's own error.
pub fn run(arguments: &NodetoolArguments) -> Result<(), NodetoolError> {
    let words: Vec<&str> = arguments.command.iter().map(String::as_str).collect();
    let (command, rest) = match &words[..] {
        [] | ["help" | "--help", ..] => {
            print(&help());
            return Ok(());
        }
        [command, rest @ ..] => (*command, rest),
    };
    if !COMMANDS.iter().any(|(name, ..)| *name == command) {
        return Err(unknown(command).into());
    }
    let call = Call {
        client: Client { host: arguments.host.clone(), port: arguments.port, login: login(arguments)? },
        format: arguments.format,
        command,
    };
    let output = call.run(rest)?;
    print(&output);
    Ok(())
}

/// `name:password`, if somebody is named.
fn login(arguments: &NodetoolArguments) -> Result<Option<String>, NodetoolError> {
    let Some(name) = &arguments.username else { return Ok(None) };
    if let Some(password) = &arguments.password {
        return Ok(Some(format!("{name}:{password}")));
    }
    let Some(path) = &arguments.password_file else {
        return Err("-u needs a password: -pw PASSWORD, or -pwf FILE".to_string().into());
    };
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let of_line = |line: &str| {
        let rest = line.trim().strip_prefix(name.as_str())?;
        Some(rest.strip_prefix([' ', '\t', ':'])?.trim().to_string())
    };
    match text.lines().find_map(of_line) {
        Some(password) => Ok(Some(format!("{name}:{password}"))),
        None => Err(format!("{} has no line for {name}", path.display()).into()),
    }
}

/// Whoever reads may stop before the end (`| head`).
fn print(text: &str) {
    drop(std::io::stdout().write_all(text.as_bytes()));
}

fn unknown(command: &str) -> String {
    let names = COMMANDS.iter().map(|(name, ..)| *name);
    let meant = nearest(command, names).map_or(String::new(), |name| format!("; did you mean {name}?"));
    format!("there is no command {command}{meant} (`messina nodetool help` names them all)")
}

fn help() -> String {
    let mut text = String::from(
        "Usage: messina nodetool [-h HOST] [-p PORT] [--format text|json] COMMAND\n\nCommands:\n",
    );
    for (name, arguments, what) in COMMANDS {
        text.push_str(&format!("  {:<44}{what}\n", format!("{name} {arguments}")));
    }
    text
}

struct Call<'a> {
    client: Client,
    format: Format,
    command: &'a str,
}

impl Call<'_> {
    fn run(&self, words: &[&str]) -> Result<String, String> {
        match self.command {
            "version" => {
                self.none(words)?;
                self.get("/v1/version", |version: Version| text::version(&version))
            }
            "info" => {
                self.none(words)?;
                self.get("/v1/info", |info: Info| text::info(&info))
            }
            "status" => {
                self.none(words)?;
                self.get("/v1/info", |info: Info| text::status(&info))
            }
            "tablestats" | "cfstats" => {
                let (keyspace, table) = match words {
                    [] => (None, None),
                    [name] => match name.split_once('.') {
                        Some((keyspace, table)) => (Some(keyspace), Some(table)),
                        None => (Some(*name), None),
                    },
                    _ => return Err(self.usage()),
                };
                let path = query("/v1/tables", &[("keyspace", keyspace), ("table", table)]);
                self.get(&path, |tables: Vec<TableStats>| text::table_stats(&tables))
            }
            "flush" | "cleanup" => self.of_tables(self.command, words, &[]),
            "garbagecollect" => match words {
                ["-g" | "--granularity", granularity, names @ ..] => {
                    self.of_tables(self.command, names, &[("granularity", Some(*granularity))])
                }
                names => self.of_tables(self.command, names, &[]),
            },
            "compact" => match words {
                ["--user-defined", files @ ..] if !files.is_empty() => {
                    let files: Result<Vec<String>, String> =
                        files.iter().map(|file| whole_path(file)).collect();
                    let files = files?.join(",");
                    let path = query("/v1/compact", &[("files", Some(&files[..]))]);
                    self.ask("POST", &path, |_: Done| String::new())
                }
                ["-s" | "--split-output", names @ ..] => {
                    self.of_tables("compact", names, &[("split", Some("true"))])
                }
                names => self.of_tables("compact", names, &[]),
            },
            "verify" => {
                let (names, rows) = match words {
                    ["-e" | "--extended-verify", names @ ..] => (names, Some("true")),
                    names => (names, None),
                };
                let (keyspace, tables) = split_names(names);
                let asked = [("keyspace", keyspace), ("tables", tables.as_deref()), ("all", rows)];
                let is_sound = Cell::new(true);
                let text = self.ask("POST", &query("/v1/verify", &asked), |found: Verified| {
                    is_sound.set(found.damaged.is_empty());
                    let mut text =
                        format!("{} SSTables checked, {} damaged\n", found.sstables, found.damaged.len());
                    found.damaged.iter().for_each(|damaged| text.extend([damaged, "\n"]));
                    text
                })?;
                if is_sound.get() { Ok(text) } else { Err(text) }
            }
            "scrub" => self.scrub(words),
            "upgradesstables" => match words {
                ["-a" | "--include-all-sstables", names @ ..] => {
                    self.of_tables("upgradesstables", names, &[("all", Some("true"))])
                }
                names => self.of_tables("upgradesstables", names, &[]),
            },
            "compactionstats" => {
                let human = match words {
                    [] => false,
                    ["-H" | "--human-readable"] => true,
                    _ => return Err(self.usage()),
                };
                self.get("/v1/compactions", |all: Compactions| compaction_text::stats(&all, human))
            }
            "compactionhistory" => {
                self.none(words)?;
                self.get("/v1/compactions/history", |ended: Vec<EndedCompaction>| {
                    compaction_text::history(&ended)
                })
            }
            "stop" => {
                let kind = match words {
                    [] => None,
                    [kind] => match kind.to_ascii_uppercase().as_str() {
                        "COMPACTION" => Some("Compaction"),
                        "MAJOR_COMPACTION" => Some("Major compaction"),
                        "CLEANUP" => Some("Cleanup"),
                        "UPGRADE_SSTABLES" => Some("Upgrade sstables"),
                        "GARBAGE_COLLECT" => Some("Remove deleted data"),
                        "SCRUB" => Some("Scrub"),
                        "USER_DEFINED_COMPACTION" => Some("User defined compaction"),
                        _ => return Err(self.usage()),
                    },
                    _ => return Err(self.usage()),
                };
                let stopped = Cell::new(0);
                let path = query("/v1/compactions/stop", &[("kind", kind)]);
                let text = self.ask("POST", &path, |done: Done| {
                    stopped.set(done.count);
                    let jobs = if done.count == 1 { "compaction" } else { "compactions" };
                    format!("Stopping {} {jobs}\n", done.count)
                })?;
                match (stopped.get(), self.format) {
                    (0, Format::Text) => Err("nothing was stopped: no such compaction runs".to_string()),
                    _ => Ok(text),
                }
            }
            "getcompactionthroughput" => {
                self.none(words)?;
                self.get("/v1/compactions/throughput", |it: Throughput| {
                    format!("Current compaction throughput: {} MB/s\n", it.bytes_per_s >> 20)
                })
            }
            "setcompactionthroughput" => {
                let [rate] = words else { return Err(self.usage()) };
                let path = query("/v1/compactions/throughput", &[("mib_per_s", Some(*rate))]);
                self.ask("POST", &path, |_: Done| String::new())
            }
            "getconcurrentcompactors" => {
                self.none(words)?;
                self.get("/v1/compactions/concurrent", |it: ConcurrentCompactors| {
                    format!("Current concurrent compactors in the system is: \n{}\n", it.jobs)
                })
            }
            "setconcurrentcompactors" => {
                let [jobs] = words else { return Err(self.usage()) };
                let path = query("/v1/compactions/concurrent", &[("jobs", Some(*jobs))]);
                self.ask("POST", &path, |_: Done| String::new())
            }
            "enableautocompaction" | "disableautocompaction" => {
                let enabled = if self.command == "enableautocompaction" { "true" } else { "false" };
                let (keyspace, tables) = split_names(words);
                let asked =
                    [("keyspace", keyspace), ("tables", tables.as_deref()), ("enabled", Some(enabled))];
                let path = query("/v1/compactions/auto", &asked);
                self.ask("POST", &path, |_: Vec<AutoCompaction>| String::new())
            }
            "statusautocompaction" => {
                let (keyspace, tables) = split_names(words);
                let asked = [("keyspace", keyspace), ("tables", tables.as_deref())];
                self.get(&query("/v1/compactions/auto", &asked), |tables: Vec<AutoCompaction>| {
                    compaction_text::auto(&tables)
                })
            }
            "drain" => {
                self.none(words)?;
                self.ask("POST", "/v1/drain", |_: Done| String::new())
            }
            "getsstables" => {
                let [keyspace, table, key] = words else { return Err(self.usage()) };
                let asked = [("keyspace", Some(*keyspace)), ("table", Some(*table)), ("key", Some(*key))];
                self.get(&query("/v1/sstables", &asked), |found: SSTables| {
                    found.files.iter().map(|file| format!("{file}\n")).collect()
                })
            }
            "iomodel" => match words {
                [] => self.get("/v1/iomodel", |model: IoModel| io_model_text::text(&model)),
                ["--svg", file] => self.draw_io_model(file),
                _ => Err(self.usage()),
            },
            "memory" => {
                self.none(words)?;
                self.get("/v1/memory", |memory: Memory| text::memory(&memory))
            }
            "reads" => {
                self.none(words)?;
                // It comes as text.
                self.client.ask("GET", "/v1/reads")
            }
            "refresh" => {
                let [keyspace, table] = words else { return Err(self.usage()) };
                let asked = [("keyspace", Some(*keyspace)), ("table", Some(*table))];
                self.ask("POST", &query("/v1/refresh", &asked), |loaded: Loaded| text::loaded(&loaded))
            }
            "import" => {
                let [keyspace, table, dir] = words else { return Err(self.usage()) };
                // The node has another working directory.
                let dir = std::path::absolute(dir).map_err(|error| format!("{dir}: {error}"))?;
                let dir = dir.to_str().ok_or("the directory's name is not UTF-8")?;
                let asked = [("keyspace", Some(*keyspace)), ("table", Some(*table)), ("dir", Some(dir))];
                self.ask("POST", &query("/v1/import", &asked), |loaded: Loaded| text::loaded(&loaded))
            }
            "listsnapshots" => {
                self.none(words)?;
                self.get("/v1/snapshots", |snapshots: Vec<Snapshot>| text::snapshots(&snapshots))
            }
            "snapshot" => self.snapshot(words),
            "clearsnapshot" => self.clear_snapshots(words),
            _ => Err(self.usage()),
        }
    }

    /// A request for tables: all, those of a keyspace, or those named.
    fn of_tables(&self, what: &str, words: &[&str], more: &[(&str, Option<&str>)]) -> Result<String, String> {
        let (keyspace, tables) = split_names(words);
        let asked = [&[("keyspace", keyspace), ("tables", tables.as_deref())], more].concat();
        self.ask("POST", &query(&format!("/v1/{what}"), &asked), |_: Done| String::new())
    }

    fn scrub(&self, words: &[&str]) -> Result<String, String> {
        let (mut skip_corrupted, mut no_snapshot, mut no_validate, mut jobs) = (None, None, None, None);
        let mut names = words;
        while let [option, rest @ ..] = names
            && option.starts_with('-')
        {
            names = rest;
            match *option {
                "-s" | "--skip-corrupted" => skip_corrupted = Some("true"),
                "-ns" | "--no-snapshot" => no_snapshot = Some("true"),
                "-n" | "--no-validate" => no_validate = Some("true"),
                "-j" | "--jobs" => {
                    let [count, rest @ ..] = rest else { return Err(self.usage()) };
                    count.parse::<u32>().map_err(|_| self.usage())?;
                    (jobs, names) = (Some(*count), rest);
                }
                _ => return Err(self.usage()),
            }
        }
        let (keyspace, tables) = split_names(names);
        let asked = [
            ("keyspace", keyspace),
            ("tables", tables.as_deref()),
            ("skip_corrupted", skip_corrupted),
            ("no_snapshot", no_snapshot),
            ("no_validate", no_validate),
            ("jobs", jobs),
        ];
        self.ask("POST", &query("/v1/scrub", &asked), |done: Scrubbed| text::scrubbed(&done))
    }

    fn snapshot(&self, words: &[&str]) -> Result<String, String> {
        let (tag, names) = match words {
            ["-t" | "--tag", tag, names @ ..] => (tag.to_string(), names),
            [names @ .., "-t" | "--tag", tag] => (tag.to_string(), names),
            names => (now_ms().to_string(), names),
        };
        let (keyspace, table) = match names {
            [] => (None, None),
            [keyspace] => (Some(*keyspace), None),
            [keyspace, table] => (Some(*keyspace), Some(*table)),
            _ => return Err(self.usage()),
        };
        let asked = [("tag", Some(&tag[..])), ("keyspace", keyspace), ("table", table)];
        let what = keyspace.unwrap_or("all keyspaces");
        self.ask("POST", &query("/v1/snapshots", &asked), |_: Done| {
            format!(
                "Requested creating snapshot(s) for [{what}] with snapshot name [{tag}] and options {{skipFlush=false}}\n\
                 Snapshot directory: {tag}\n"
            )
        })
    }

    fn clear_snapshots(&self, words: &[&str]) -> Result<String, String> {
        let (tag, names) = match words {
            ["--all", names @ ..] => (None, names),
            ["-t" | "--tag", tag, names @ ..] => (Some(*tag), names),
            _ => return Err(format!("name a snapshot with -t, or say --all; {}", self.usage())),
        };
        let keyspace = match names {
            [] => None,
            [keyspace] => Some(*keyspace),
            _ => return Err(self.usage()),
        };
        let path = query("/v1/snapshots", &[("tag", tag), ("keyspace", keyspace)]);
        let what = keyspace.unwrap_or("all keyspaces");
        let which = tag.unwrap_or("all snapshots");
        self.ask("DELETE", &path, |_: Done| {
            format!("Requested clearing snapshot(s) for [{what}] with [{which}]\n")
        })
    }

    fn draw_io_model(&self, file: &str) -> Result<String, String> {
        let body = self.client.ask("GET", "/v1/iomodel")?;
        let model: IoModel =
            serde_json::from_str(&body).map_err(|error| format!("an answer of another version? {error}"))?;
        std::fs::write(file, io_model_text::heat_map(&model).svg())
            .map_err(|error| format!("{file}: {error}"))?;
        Ok(format!("drawn into {file}\n"))
    }

    fn get<T: DeserializeOwned>(&self, path: &str, show: impl Fn(T) -> String) -> Result<String, String> {
        self.ask("GET", path, show)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        show: impl Fn(T) -> String,
    ) -> Result<String, String> {
        let body = self.client.ask(method, path)?;
        if self.format == Format::Json {
            return Ok(body + "\n");
        }
        let answer = serde_json::from_str(&body);
        let wrong = |error| format!("an answer of another version? {error}: {}", body.escape_debug());
        Ok(show(answer.map_err(wrong)?))
    }

    fn none(&self, words: &[&str]) -> Result<(), String> {
        if words.is_empty() { Ok(()) } else { Err(self.usage()) }
    }

    fn usage(&self) -> String {
        let arguments = COMMANDS.iter().find(|(name, ..)| *name == self.command).map_or("", |found| found.1);
        format!("usage: messina nodetool {} {arguments}", self.command)
    }
}

/// `[KEYSPACE [TABLE ...]]`
fn split_names<'a>(words: &[&'a str]) -> (Option<&'a str>, Option<String>) {
    match words {
        [] => (None, None),
        [keyspace] => (Some(keyspace), None),
        [keyspace, tables @ ..] => (Some(keyspace), Some(tables.join(","))),
    }
}

/// The node knows files by the directories they are in.
fn whole_path(file: &str) -> Result<String, String> {
    let path = std::path::absolute(file).map_err(|error| format!("{file}: {error}"))?;
    Ok(path.display().to_string())
}

/// The name of a snapshot that was given none, as the peers make it.
#[allow(clippy::disallowed_methods, reason = "a name for a person's command")]
fn now_ms() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_command_names_the_nearest() {
        assert!(unknown("flsuh").starts_with("there is no command flsuh; did you mean flush? "));
        assert!(unknown("tablestat").contains("did you mean tablestats?"));
        assert!(!unknown("decommission").contains("did you mean"));
    }

    #[test]
    fn help_names_every_command() {
        let help = help();
        assert!(COMMANDS.iter().all(|(name, _, what)| help.contains(name) && help.contains(what)), "{help}");
    }
}
