//! Commands of the shell: input that is not sent to the server as a statement.

use protocol::Consistency;
use syntax::{TokenKind, tokens};

use super::output::Expand;

/// A command of the shell. `None` in a setting: show the current value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Help(Option<String>),
    Exit,
    Clear,
    /// Executed by the server.
    Describe,
    Source(String),
    Capture(Capture),
    Consistency(Option<Consistency>),
    SerialConsistency(Option<Consistency>),
    Tracing(Option<bool>),
    Expand(Option<Expand>),
    Paging(Option<Paging>),
    Show(Show),
    /// Without a password, the shell asks for it.
    Login {
        user: String,
        password: Option<String>,
    },
    Copy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capture {
    Say,
    Off,
    To(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging {
    On,
    Off,
    Rows(i32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Show {
    Version,
    Host,
    /// The trace with this id.
    Session(String),
}

/// First words of commands, for completion.
pub const FIRST_WORDS: &[&str] = &[
    "CAPTURE",
    "CLEAR",
    "CONSISTENCY",
    "COPY",
    "DESCRIBE",
    "EXIT",
    "EXPAND",
    "HELP",
    "LOGIN",
    "PAGING",
    "QUIT",
    "SERIAL CONSISTENCY",
    "SHOW",
    "SOURCE",
    "TRACING",
];

/// Whether input that begins with this word is a command, which ends at the end of its line.
pub fn ends_with_line(word: &str) -> bool {
    const WORDS: [&str; 17] = [
        "?",
        "CAPTURE",
        "CLEAR",
        "CLS",
        "CONSISTENCY",
        "DESC",
        "DESCRIBE",
        "EXIT",
        "EXPAND",
        "HELP",
        "LOGIN",
        "PAGING",
        "QUIT",
        "SERIAL",
        "SHOW",
        "SOURCE",
        "TRACING",
    ];
    WORDS.iter().any(|known| known.eq_ignore_ascii_case(word)) || belongs_elsewhere(word)
}

/// Whether a line that begins with this word is meant for another program. No statement begins with such a
/// word, so the shell would wait for a `;` that never comes.
fn belongs_elsewhere(word: &str) -> bool {
    word.starts_with('\\') || ["NODETOOL", "MESSINA", "CQLSH"].iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// The hint for such a line.
fn elsewhere(word: &str, text: &str) -> String {
    let line = text.trim();
    match word {
        "NODETOOL" => format!("type this in a terminal, not at the prompt: messina {line}"),
        "MESSINA" | "CQLSH" => format!("{line}: type this in a terminal, not at the prompt (EXIT leaves it)"),
        _ => format!(
            "{line} is not a command. DESCRIBE TABLES lists tables, DESCRIBE TABLE t shows one, DESCRIBE KEYSPACES lists \
             keyspaces; EXIT ends the shell, HELP lists all commands"
        ),
    }
}

/// Parses a command. Returns `None` for a statement.
///
/// # Errors
/// The usage of the command, if the command is used wrongly.
pub fn parse(text: &str) -> Result<Option<Command>, String> {
    let mut words = tokens(text).filter(|token| token.kind != TokenKind::Comment);
    let Some(first) = words.next() else { return Ok(None) };
    let rest = text[first.span.end as usize..].trim();
    let word = first.text(text).to_ascii_uppercase();
    let argument = (!rest.is_empty()).then_some(rest);
    if belongs_elsewhere(&word) {
        return Err(elsewhere(&word, text));
    }
    Ok(Some(match word.as_str() {
        "HELP" | "?" => Command::Help(argument.map(str::to_string)),
        "EXIT" | "QUIT" => Command::Exit,
        "CLEAR" | "CLS" => Command::Clear,
        "DESCRIBE" | "DESC" => Command::Describe,
        "LOGIN" => login(rest)?,
        "COPY" => Command::Copy,
        "SOURCE" => match argument {
            Some(path) => Command::Source(unquoted(path)),
            None => return usage("SOURCE 'file'"),
        },
        "CAPTURE" => Command::Capture(match argument {
            None => Capture::Say,
            Some(off) if off.eq_ignore_ascii_case("off") => Capture::Off,
            Some(path) => Capture::To(unquoted(path)),
        }),
        "CONSISTENCY" => Command::Consistency(level(argument)?),
        "SERIAL" => {
            let mut words = rest.splitn(2, char::is_whitespace);
            if !words.next().is_some_and(|word| word.eq_ignore_ascii_case("consistency")) {
                return usage("SERIAL CONSISTENCY [SERIAL | LOCAL_SERIAL]");
            }
            let level = level(words.next().map(str::trim).filter(|word| !word.is_empty()))?;
            if level.is_some_and(|level| !level.is_serial()) {
                return usage("SERIAL CONSISTENCY [SERIAL | LOCAL_SERIAL]");
            }
            Command::SerialConsistency(level)
        }
        "TRACING" => Command::Tracing(switch(argument, "TRACING [ON | OFF]")?),
        "EXPAND" => Command::Expand(expand(argument)?),
        "PAGING" => Command::Paging(paging(argument)?),
        "SHOW" => Command::Show(show(rest)?),
        _ => return Ok(None),
    }))
}

fn login(rest: &str) -> Result<Command, String> {
    let words: Vec<&str> = tokens(rest).map(|token| token.text(rest)).collect();
    // A password without quotes may have any characters, which are several tokens.
    let written = words.first().map(|user| (unquoted(user), rest[user.len()..].trim()));
    match written {
        None => usage("LOGIN user ['password']"),
        Some((user, "")) => Ok(Command::Login { user, password: None }),
        Some((user, password)) => Ok(Command::Login { user, password: Some(unquoted(password)) }),
    }
}

fn usage<T>(text: &str) -> Result<T, String> {
    Err(format!("write it as: {text}"))
}

fn switch(argument: Option<&str>, how: &str) -> Result<Option<bool>, String> {
    match argument {
        None => Ok(None),
        Some(word) if word.eq_ignore_ascii_case("on") => Ok(Some(true)),
        Some(word) if word.eq_ignore_ascii_case("off") => Ok(Some(false)),
        Some(_) => usage(how),
    }
}

fn expand(argument: Option<&str>) -> Result<Option<Expand>, String> {
    if argument.is_some_and(|word| word.eq_ignore_ascii_case("auto")) {
        return Ok(Some(Expand::Auto));
    }
    let on = switch(argument, "EXPAND [ON | OFF | AUTO]")?;
    Ok(on.map(|on| if on { Expand::On } else { Expand::Off }))
}

fn paging(argument: Option<&str>) -> Result<Option<Paging>, String> {
    let Some(word) = argument else { return Ok(None) };
    match word.parse::<i32>() {
        Ok(rows) if rows > 0 => Ok(Some(Paging::Rows(rows))),
        Ok(_) => usage("PAGING [ON | OFF | rows]"),
        Err(_) => {
            let on = switch(argument, "PAGING [ON | OFF | rows]")?;
            Ok(on.map(|on| if on { Paging::On } else { Paging::Off }))
        }
    }
}

fn level(argument: Option<&str>) -> Result<Option<Consistency>, String> {
    let Some(word) = argument else { return Ok(None) };
    match Consistency::from_name(word) {
        Some(level) => Ok(Some(level)),
        None => {
            let names: Vec<&str> = Consistency::ALL.iter().map(|level| level.name()).collect();
            Err(format!("there is no consistency level {word:?}; there are {}", names.join(", ")))
        }
    }
}

fn show(rest: &str) -> Result<Show, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words.as_slice() {
        [what] if what.eq_ignore_ascii_case("version") => Ok(Show::Version),
        [what] if what.eq_ignore_ascii_case("host") => Ok(Show::Host),
        [what, id] if what.eq_ignore_ascii_case("session") => Ok(Show::Session((*id).to_string())),
        _ => usage("SHOW VERSION, SHOW HOST, or SHOW SESSION <id of a trace>"),
    }
}

/// A file name, with optional quotes removed.
fn unquoted(path: &str) -> String {
    let within = |quote: char| path.strip_prefix(quote).and_then(|path| path.strip_suffix(quote));
    match within('\'') {
        Some(inner) => inner.replace("''", "'"),
        None => within('"').unwrap_or(path).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Command) {
        assert_eq!(parse(text), Ok(Some(expect)));
    }

    #[test]
    fn statements_are_no_commands() {
        for text in
            ["", "SELECT * FROM help", "INSERT INTO t (k) VALUES (1)", "-- help", "selects", "\"HELP\""]
        {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn words_in_any_case() {
        check("exit", Command::Exit);
        check("Quit", Command::Exit);
        check("help", Command::Help(None));
        check("? select", Command::Help(Some("select".to_string())));
        check("DESC tables", Command::Describe);
        check("copy t TO 'x'", Command::Copy);
        check("CLS", Command::Clear);
        let login = |user: &str, password: Option<&str>| Command::Login {
            user: user.to_string(),
            password: password.map(str::to_string),
        };
        check("login alice", login("alice", None));
        check("LOGIN Alice 'it''s'", login("Alice", Some("it's")));
        check("LOGIN 'a b' p@ss-w0rd!", login("a b", Some("p@ss-w0rd!")));
        assert!(parse("LOGIN").is_err());
    }

    #[test]
    fn files() {
        check("SOURCE 'a b.cql'", Command::Source("a b.cql".to_string()));
        check("source it.cql", Command::Source("it.cql".to_string()));
        check("source 'it''s'", Command::Source("it's".to_string()));
        check("CAPTURE", Command::Capture(Capture::Say));
        check("capture off", Command::Capture(Capture::Off));
        check("CAPTURE \"out.txt\"", Command::Capture(Capture::To("out.txt".to_string())));
        assert!(parse("SOURCE").is_err());
    }

    #[test]
    fn settings() {
        check("CONSISTENCY", Command::Consistency(None));
        check("consistency local_quorum", Command::Consistency(Some(Consistency::LocalQuorum)));
        check("SERIAL CONSISTENCY", Command::SerialConsistency(None));
        check("serial  consistency local_serial", Command::SerialConsistency(Some(Consistency::LocalSerial)));
        check("TRACING on", Command::Tracing(Some(true)));
        check("EXPAND OFF", Command::Expand(Some(Expand::Off)));
        check("expand auto", Command::Expand(Some(Expand::Auto)));
        assert_eq!(parse("EXPAND 3").unwrap_err(), "write it as: EXPAND [ON | OFF | AUTO]");
        check("PAGING", Command::Paging(None));
        check("PAGING on", Command::Paging(Some(Paging::On)));
        check("PAGING 50", Command::Paging(Some(Paging::Rows(50))));
        check("SHOW version", Command::Show(Show::Version));
        check("SHOW session 1-2", Command::Show(Show::Session("1-2".to_string())));
    }

    #[test]
    fn wrong_use_says_how() {
        for text in ["CONSISTENCY most", "SERIAL", "SERIAL CONSISTENCY one", "TRACING maybe", "PAGING 0"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("there are ANY") || error.contains("write it as"), "{error}");
        }
        assert!(parse("SHOW me").is_err());
    }

    #[test]
    fn what_ends_with_its_line_is_a_command() {
        for word in FIRST_WORDS {
            let first = word.split(' ').next().unwrap();
            assert_eq!(ends_with_line(&first.to_lowercase()), first != "COPY", "{word}");
        }
    }
}
