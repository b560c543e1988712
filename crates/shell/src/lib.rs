//! `messina shell`: an interactive prompt for CQL, and a way to run statements from scripts.
//!
//! | question | file |
//! |---|---|
//! | how are statements sent and answers received | `connection.rs`, `tls.rs`, `session.rs` |
//! | where does a statement end, what is a command | `input.rs`, `command.rs` |
//! | how are they executed | `interpreter.rs`, `describe.rs`, `trace.rs`, `help.rs` |
//! | how are values, tables and errors formatted | `value.rs`, `table.rs`, `page.rs`, `export.rs`, `place.rs`, `style.rs` |
//! | how are tables loaded from files and written to them | `copy/` |
//! | what helps while typing | `names.rs`, `complete.rs`, `highlight.rs` |
//! | how are terminal, input and output handled | `prompt.rs`, `terminal.rs`, `output.rs` |
//!
//! A failed statement ends a script with exit code 2; without a connection the exit code is 1. The shell is
//! an ordinary client: it uses the protocol and CQL's keywords, and no code of the server.

mod command;
mod complete;
mod complete_compaction;
mod connection;
mod copy;
mod describe;
mod export;
mod failure;
mod help;
mod highlight;
mod hint;
mod input;
mod interpreter;
mod names;
mod output;
mod page;
mod place;
mod prompt;
mod server;
mod session;
mod style;
mod table;
mod terminal;
mod tls;
mod trace;
mod value;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use model::types::push_identifier;

use input::InputBuffer;
use interpreter::Interpreter;
use output::{Expand, Output};
use session::Session;

pub use connection::{Connection, Credentials, Target};
pub use failure::Failure;
pub use output::Format;
pub use page::push_page;
pub use style::Style;
pub use table::{Cell, write_table};
pub use tls::TlsClient;

const EXIT_NO_CONNECTION: u8 = 1;
const EXIT_STATEMENT_FAILED: u8 = 2;
/// Rows per page in scripts: tables are aligned within this number of rows.
const SCRIPT_PAGE_ROWS: i32 = 5_000;
const STDIN_CHUNK_BYTES: usize = 64 << 10;

/// Opens a CQL prompt, or runs statements from -e, -f or a pipe.
#[derive(Args)]
pub struct ShellCommand {
    /// Name or address of the server, optionally with a port: HOST:PORT. Default: the environment variable
    /// MESSINA_HOST or CQLSH_HOST, else 127.0.0.1.
    host: Option<String>,
    /// Default: the environment variable MESSINA_PORT or CQLSH_PORT, else 9042.
    port: Option<u16>,
    /// Run these statements and exit.
    #[arg(short, long, value_name = "CQL", conflicts_with = "file")]
    execute: Option<String>,
    /// Run the statements of this file and exit.
    #[arg(short, long)]
    file: Option<PathBuf>,
    /// Keyspace to use at the start.
    #[arg(short, long)]
    keyspace: Option<String>,
    #[arg(short, long, value_name = "USER")]
    username: Option<String>,
    /// Without this option, the shell asks for the password if a user is given and there is a terminal.
    #[arg(short, long, requires = "username")]
    password: Option<String>,
    /// Format of the results.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Encrypt the connection.
    #[arg(long)]
    ssl: bool,
    /// PEM file with the server's certificate or with its certificate authorities; without it any certificate
    /// is accepted.
    #[arg(long, value_name = "FILE", requires = "ssl")]
    ssl_ca: Option<PathBuf>,
    /// Time to wait for an answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    request_timeout: f64,
    /// Time to wait for a connection, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    connect_timeout: f64,
    /// No colours, even on a terminal. The environment variable NO_COLOR has the same effect.
    #[arg(long)]
    no_color: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err("a number of seconds above 0, such as 2.5".to_string()),
    }
}

impl ShellCommand {
    /// Runs until the input ends. Exit code: 0, 1 without a connection, 2 if a statement of a script failed.
    pub fn run(self) -> ExitCode {
        match self.run_shell() {
            Ok(()) => ExitCode::SUCCESS,
            // The reader of the output closed it, as `| head` does.
            Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(Failure::InScript(text)) => {
                eprintln!("{text}");
                ExitCode::from(EXIT_STATEMENT_FAILED)
            }
            Err(failure) => {
                eprintln!("messina shell: {failure}");
                ExitCode::from(EXIT_NO_CONNECTION)
            }
        }
    }

    fn run_shell(&self) -> Result<(), Failure> {
        let is_prompt = self.execute.is_none() && self.file.is_none() && io::stdin().is_terminal();
        let script = self.script()?;
        terminal::catch_interrupts();
        let mut session = Session::open(self.target(is_prompt)?)?;
        if let Some(keyspace) = &self.keyspace {
            let mut text = "USE ".to_string();
            push_identifier(&mut text, keyspace);
            session.query(&text, None)?;
        }
        let on_terminal = io::stdout().is_terminal();
        let color = on_terminal && !self.no_color && environment("NO_COLOR").is_none();
        let mut output = Output::new(Box::new(io::stdout()), Box::new(io::stderr()), self.format);
        output.set_color(color);
        if on_terminal {
            output.width = terminal::width_columns();
        }
        if is_prompt {
            output.is_interactive = on_terminal;
            if on_terminal {
                output.expand = Expand::Auto;
            }
        } else {
            session.page_rows = Some(SCRIPT_PAGE_ROWS);
        }
        let home = environment("HOME").map(PathBuf::from);
        let history = match environment("MESSINA_HISTORY") {
            Some(path) => Some(PathBuf::from(path)),
            None => home.as_ref().map(|home| home.join(".messina_history")),
        };
        let mut shell = Interpreter::new(session, output, home);
        match script {
            Some((name, text)) => shell.run_script(&name, &text).map(drop),
            None if is_prompt => {
                let greeting =
                    format!("{}\n{}\nUse HELP for help.\n", shell.host_line()?, shell.version_line()?);
                shell.output.message(&greeting)?;
                prompt::run(&mut shell, history, color)
            }
            None => {
                shell.stdin_is_script = true;
                run_stdin(&mut shell, io::stdin())
            }
        }
    }

    /// The name and the text of the script given by `-e` or `-f`.
    fn script(&self) -> Result<Option<(String, String)>, Failure> {
        match (&self.execute, &self.file) {
            (Some(text), _) => Ok(Some(("-e".to_string(), text.clone()))),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path);
                let text = text
                    .map_err(|error| Failure::Command(format!("cannot read {}: {error}", path.display())))?;
                Ok(Some((path.display().to_string(), text)))
            }
            (None, None) => Ok(None),
        }
    }

    fn target(&self, can_ask: bool) -> Result<Target, Failure> {
        let credentials = match (&self.username, &self.password) {
            (None, _) => None,
            (Some(user), Some(password)) => {
                Some(Credentials { user: user.clone(), password: password.clone() })
            }
            (Some(user), None) if can_ask => {
                eprint!("Password: ");
                io::stderr().flush()?;
                let password = terminal::read_hidden_line()?;
                eprintln!();
                Some(Credentials { user: user.clone(), password })
            }
            (Some(_), None) => {
                return Err(Failure::Command("-u needs -p if there is no terminal for a prompt".to_string()));
            }
        };
        let tls = match self.ssl {
            true => Some(TlsClient::new(self.ssl_ca.as_deref()).map_err(Failure::Command)?),
            false => None,
        };
        let first = |names: [&'static str; 2]| {
            let found = names.iter().find_map(|name| Some((*name, environment(name)?)));
            found.map(|(name, value)| (name, value.to_string_lossy().into_owned()))
        };
        let (host, port) = server::choose(
            self.host.as_deref(),
            self.port,
            first(["MESSINA_HOST", "CQLSH_HOST"]).map(|(_, host)| host).as_deref(),
            first(["MESSINA_PORT", "CQLSH_PORT"]),
        )
        .map_err(Failure::Command)?;
        Ok(Target {
            host,
            port,
            tls,
            credentials,
            connect_timeout: Duration::from_secs_f64(self.connect_timeout),
            request_timeout: Duration::from_secs_f64(self.request_timeout),
        })
    }
}

#[allow(clippy::disallowed_methods, reason = "the shell is a user's program; its settings come from there")]
fn environment(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Runs statements as they arrive, so that a program that writes into the pipe receives answers before it
/// closes the pipe.
fn run_stdin(shell: &mut Interpreter, mut stdin: impl Read) -> Result<(), Failure> {
    const NAME: &str = "<stdin>";
    let mut input = InputBuffer::default();
    let mut chunk = vec![0; STDIN_CHUNK_BYTES];
    let mut waiting: Vec<u8> = Vec::new();
    loop {
        let bytes = match stdin.read(&mut chunk) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => match terminal::take_interrupted() {
                true => return Err(Failure::InScript(format!("{NAME}: interrupted"))),
                false => continue,
            },
            Err(error) => return Err(Failure::InScript(format!("{NAME}: {error}"))),
        };
        waiting.extend_from_slice(&chunk[..bytes]);
        let is_end = bytes == 0;
        let whole_lines = match waiting.iter().rposition(|byte| *byte == b'\n') {
            _ if is_end => waiting.len(),
            Some(at) => at + 1,
            None => continue,
        };
        let lines: Vec<u8> = waiting.drain(..whole_lines).collect();
        let lines = String::from_utf8(lines)
            .map_err(|error| Failure::InScript(format!("{NAME}: not UTF-8: {}", error.utf8_error())))?;
        input.push(&lines);
        let flow = shell.run_buffer(NAME, &mut input, is_end)?;
        if is_end || flow == interpreter::Flow::Exit {
            return Ok(());
        }
    }
}
