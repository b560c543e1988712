//! Executes statements and commands one after another and prints their results.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use model::types::push_identifier;
use protocol::CqlError;
use protocol::client::ResponseMessage;
use protocol::{ColumnSpec, Response, Rows};

use super::command::{self, Capture, Command, Paging, Show};
use super::connection::Credentials;
use super::describe::write_description;
use super::failure::Failure;
use super::input::{InputBuffer, Piece};
use super::names::Names;
use super::output::{Expand, Format, Output};
use super::page::push_page;
use super::session::Session;
use super::style::Style;
use super::table::{Cell, table_width, write_expanded, write_table};
use super::{connection, copy, help, hint, page, place, terminal, trace, value};

/// Maximum depth of files that SOURCE other files. It stops circular references.
const SOURCE_DEPTH_MAX: usize = 16;
const PAGE_ROWS_DEFAULT: i32 = 100;

/// The path that a user's name of a file means; `~/` is in the home directory.
fn path_of(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => Path::new(path).to_path_buf(),
    }
}

/// How to continue after a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Exit,
}

/// Executes the pieces of a session's input; see the head of this file.
pub struct Interpreter {
    pub session: Session,
    pub output: Output,
    /// For the colours of columns and for completion.
    pub names: Rc<Names>,
    /// The directory that `~` stands for in file names.
    home: Option<PathBuf>,
    source_depth: usize,
    /// Whether statements come from standard input, which is then no source of data.
    pub stdin_is_script: bool,
}

impl Interpreter {
    pub fn new(session: Session, output: Output, home: Option<PathBuf>) -> Self {
        Self { session, output, names: Rc::default(), home, source_depth: 0, stdin_is_script: false }
    }

    /// Reloads the names if the schema may have changed. If loading fails, the list is empty: names serve
    /// only completion and colours.
    pub fn refresh_names(&mut self) {
        if self.session.take_schema_changed() {
            self.names = Rc::new(Names::load(&mut self.session).unwrap_or_default());
        }
    }

    /// # Errors
    /// Why there is no complete result. Output that was already written is kept.
    pub fn run(&mut self, piece: &Piece) -> Result<Flow, Failure> {
        match command::parse(&piece.text).map_err(Failure::Command)? {
            Some(command) => self.command(command, &piece.text),
            None => self.statement(&piece.text).map(|()| Flow::Continue),
        }
    }

    /// Runs a script up to its first failure. The failure's text contains the position as `name:line`.
    ///
    /// # Errors
    /// [`Failure::InScript`], or [`Failure::Output`] if the output cannot be written.
    pub fn run_script(&mut self, name: &str, text: &str) -> Result<Flow, Failure> {
        let mut input = InputBuffer::default();
        input.push(text);
        self.run_buffer(name, &mut input, true)
    }

    /// Runs the complete pieces of the buffer; with `is_all`, also the incomplete last one.
    ///
    /// # Errors
    /// The same as [`Self::run_script`].
    pub fn run_buffer(&mut self, name: &str, input: &mut InputBuffer, is_all: bool) -> Result<Flow, Failure> {
        while let Some(piece) = if is_all { input.finish() } else { input.next() } {
            match self.run(&piece) {
                Ok(Flow::Continue) => {}
                Ok(Flow::Exit) => return Ok(Flow::Exit),
                Err(failure @ (Failure::InScript(_) | Failure::Output(_))) => return Err(failure),
                Err(failure) => return Err(Failure::InScript(in_script(name, &piece, &failure))),
            }
        }
        Ok(Flow::Continue)
    }

    fn command(&mut self, command: Command, text: &str) -> Result<Flow, Failure> {
        match command {
            Command::Exit => return Ok(Flow::Exit),
            Command::Help(topic) => self.output.message(&help::help(topic.as_deref()))?,
            Command::Clear if self.output.is_interactive => self.output.message("\x1b[H\x1b[2J")?,
            Command::Clear => {}
            Command::Describe => self.describe(text)?,
            Command::Source(path) => return self.source(&path),
            Command::Capture(capture) => self.capture(&capture)?,
            Command::Consistency(level) => {
                let is_new = level.is_some();
                self.session.consistency = level.unwrap_or(self.session.consistency);
                self.say_level("Consistency level", is_new, self.session.consistency.name())?;
            }
            Command::SerialConsistency(level) => {
                let is_new = level.is_some();
                self.session.serial_consistency = level.unwrap_or(self.session.serial_consistency);
                self.say_level("Serial consistency level", is_new, self.session.serial_consistency.name())?;
            }
            Command::Tracing(on) => {
                self.session.tracing = on.unwrap_or(self.session.tracing);
                self.say_switch("Tracing", on.is_some(), self.session.tracing)?;
            }
            Command::Expand(expand) => {
                self.output.expand = expand.unwrap_or(self.output.expand);
                let verb = if expand.is_some() { "is now" } else { "is" };
                let how = match self.output.expand {
                    Expand::Off => "off",
                    Expand::On => "on",
                    Expand::Auto => "on for rows that are wider than the terminal",
                };
                self.say(&format!("Expanded output {verb} {how}."))?;
            }
            Command::Paging(paging) => self.paging(paging)?,
            Command::Show(what) => self.show(&what)?,
            Command::Login { user, password } => self.login(user, password)?,
            Command::Copy => self.copy(text)?,
        }
        Ok(Flow::Continue)
    }

    /// Continues as another user, on a new connection. After an error the session is the same as before.
    fn login(&mut self, user: String, password: Option<String>) -> Result<(), Failure> {
        let password = match password {
            Some(password) => password,
            None if self.output.is_interactive => {
                self.output.message("Password: ")?;
                let password = terminal::read_hidden_line()?;
                self.output.message("\n")?;
                password
            }
            None => {
                let text =
                    "LOGIN needs a password where there is no terminal to ask on: LOGIN user 'password'";
                return Err(Failure::Command(text.to_string()));
            }
        };
        let is_user = self.session.login(Credentials { user: user.clone(), password })?;
        if let Some(notice) = self.session.take_notice() {
            self.output.warning(&notice);
        }
        match is_user {
            true => self.say(&format!("Logged in as {user}.")),
            false => {
                self.say("The server asks nobody for a name (AllowAllAuthenticator): LOGIN changes nothing.")
            }
        }
    }

    fn copy(&mut self, text: &str) -> Result<(), Failure> {
        let home = self.home.clone();
        let resolve = |path: &str| path_of(path, home.as_deref());
        let mut place = copy::Place {
            session: &mut self.session,
            output: &mut self.output,
            resolve: &resolve,
            stdin_is_script: self.stdin_is_script,
        };
        copy::run(&mut place, text)
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.output.message(&format!("{text}\n"))?;
        Ok(())
    }

    fn say_level(&mut self, what: &str, is_new: bool, level: &str) -> Result<(), Failure> {
        let verb = if is_new { "set to" } else { "is" };
        self.say(&format!("{what} {verb} {level}."))
    }

    fn say_switch(&mut self, what: &str, is_new: bool, on: bool) -> Result<(), Failure> {
        let verb = if is_new { "is now" } else { "is" };
        self.say(&format!("{what} {verb} {}.", if on { "on" } else { "off" }))
    }

    fn paging(&mut self, paging: Option<Paging>) -> Result<(), Failure> {
        match paging {
            None => {}
            Some(Paging::Off) => self.session.page_rows = None,
            Some(Paging::Rows(rows)) => self.session.page_rows = Some(rows),
            Some(Paging::On) => {
                self.session.page_rows = self.session.page_rows.or(Some(PAGE_ROWS_DEFAULT));
            }
        }
        let verb = if paging.is_some() { "is now" } else { "is" };
        match self.session.page_rows {
            Some(rows) => self.say(&format!("Paging {verb} on, {rows} rows a page.")),
            None => self.say(&format!("Paging {verb} off.")),
        }
    }

    fn show(&mut self, what: &Show) -> Result<(), Failure> {
        match what {
            Show::Version => {
                let line = self.version_line()?;
                self.say(&line)
            }
            Show::Host => {
                let line = self.host_line()?;
                self.say(&line)
            }
            Show::Session(id) => self.show_trace(id),
        }
    }

    /// The line `Connected to Test Cluster at 127.0.0.1:9042`.
    ///
    /// # Errors
    /// The server's answer is missing.
    pub fn host_line(&mut self) -> Result<String, Failure> {
        let info = self.session.server_info()?;
        let target = self.session.target();
        let address = connection::address(&target.host, target.port);
        Ok(format!("Connected to {} at {address}", info.cluster_name))
    }

    /// The line `[messina shell 0.1.0 | server 4.1.0 | CQL 3.4.7 | protocol v5]`.
    ///
    /// # Errors
    /// The server's answer is missing.
    pub fn version_line(&mut self) -> Result<String, Failure> {
        let info = self.session.server_info()?;
        Ok(format!(
            "[messina shell {} | server {} | CQL {} | protocol v{}]",
            env!("CARGO_PKG_VERSION"),
            info.release_version,
            info.cql_version,
            self.session.protocol_version()
        ))
    }

    fn source(&mut self, path: &str) -> Result<Flow, Failure> {
        if self.source_depth == SOURCE_DEPTH_MAX {
            let text = format!("{path}: {SOURCE_DEPTH_MAX} files within files; does one name itself?");
            return Err(Failure::Command(text));
        }
        let text = std::fs::read_to_string(self.file(path));
        let text = text.map_err(|error| Failure::Command(format!("cannot read {path}: {error}")))?;
        self.source_depth += 1;
        let flow = self.run_script(path, &text);
        self.source_depth -= 1;
        flow
    }

    fn capture(&mut self, capture: &Capture) -> Result<(), Failure> {
        match capture {
            Capture::Say => match self.output.capture_path().map(str::to_string) {
                Some(path) => self.say(&format!("Results go to '{path}'.")),
                None => self.say("Results are shown here."),
            },
            Capture::Off => {
                self.output.set_capture(None)?;
                self.say("Results are shown here again.")
            }
            Capture::To(path) => {
                let file = self.file(path);
                let opened = self.output.set_capture(Some(&file));
                opened.map_err(|error| Failure::Command(format!("cannot write {path}: {error}")))?;
                self.say(&format!("From here on results go to '{path}'; CAPTURE OFF ends it."))
            }
        }
    }

    fn file(&self, path: &str) -> PathBuf {
        path_of(path, self.home.as_deref())
    }

    fn describe(&mut self, text: &str) -> Result<(), Failure> {
        let message = self.session.query(text, None)?;
        self.notices(&message);
        if let Response::Rows(rows) = &message.response {
            let mut out = String::new();
            write_description(&mut out, rows, self.session.keyspace.is_some(), self.output.width);
            self.output.result(&out)?;
        }
        Ok(())
    }

    fn statement(&mut self, text: &str) -> Result<(), Failure> {
        let message = self.session.query(text, None)?;
        self.notices(&message);
        let tracing_id = message.extras.tracing_id;
        if let Response::Rows(rows) = message.response {
            self.pages(text, rows)?;
        }
        match tracing_id {
            Some(id) => self.show_trace(&uuid::Uuid::from_bytes(id).to_string()),
            None if self.session.tracing => self.say("The server has stored no trace of this statement."),
            None => Ok(()),
        }
    }

    /// Prints the session's notice and the server's warnings about an answer.
    fn notices(&mut self, message: &ResponseMessage) {
        if let Some(notice) = self.session.take_notice() {
            self.output.warning(&notice);
        }
        for warning in &message.extras.warnings {
            self.output.warning(&format!("Warning: {warning}"));
        }
    }

    fn pages(&mut self, text: &str, mut rows: Rows) -> Result<(), Failure> {
        let columns = rows.metadata.columns.take().unwrap_or_default();
        let is_table = self.output.format == Format::Table;
        let pauses = self.output.is_interactive && self.output.capture_path().is_none() && is_table;
        if is_table {
            self.output.result("\n")?;
        }
        // One form for all pages of a result.
        let is_expanded = is_table && self.expands(&columns, &rows.rows);
        let mut count = 0;
        let mut is_first = true;
        loop {
            if is_first || !rows.rows.is_empty() {
                self.page(&columns, &rows.rows, count, is_first || pauses, is_expanded)?;
            }
            count += rows.rows.len();
            is_first = false;
            let Some(state) = rows.metadata.paging_state.take() else { break };
            if pauses && !self.wants_more()? {
                break;
            }
            let message = self.session.query(text, Some(&state))?;
            self.notices(&message);
            match message.response {
                Response::Rows(next) => rows = next,
                _ => break,
            }
        }
        if is_table {
            let gap = if is_expanded && count > 0 { "" } else { "\n" };
            self.output.result(&format!("{gap}({count} row{})\n", if count == 1 { "" } else { "s" }))?;
        }
        if self.output.is_interactive && is_table {
            self.output.result("\n")?;
        }
        Ok(())
    }

    fn wants_more(&mut self) -> Result<bool, Failure> {
        self.output.message("--More-- (q: no more)")?;
        let key = terminal::read_key();
        self.output.message("\r\x1b[K")?;
        Ok(key.is_some_and(|key| !matches!(key, b'q' | b'Q' | 0x1b)))
    }

    fn page(
        &mut self,
        columns: &[ColumnSpec],
        rows: &[Vec<Option<Vec<u8>>>],
        rows_before: usize,
        with_header: bool,
        is_expanded: bool,
    ) -> Result<(), Failure> {
        let mut out = String::new();
        match self.output.format {
            Format::Json | Format::Csv => {
                push_page(&mut out, self.output.format, columns, rows, with_header);
            }
            Format::Table => {
                let header: Vec<Cell> = columns.iter().map(|column| self.heading(column)).collect();
                let rows = page::shown(columns, rows);
                let color = self.output.results_color();
                if is_expanded && !rows.is_empty() {
                    write_expanded(&mut out, &header, &rows, rows_before + 1, color);
                } else {
                    write_table(&mut out, &header, &rows, with_header, color);
                }
            }
        }
        self.output.result(&out)?;
        Ok(())
    }

    /// Whether a result is shown as lists of columns, by its first page.
    fn expands(&self, columns: &[ColumnSpec], rows: &[Vec<Option<Vec<u8>>>]) -> bool {
        match self.output.expand {
            Expand::Off => false,
            Expand::On => true,
            Expand::Auto if self.output.capture_path().is_some() => false,
            Expand::Auto => {
                let header: Vec<Cell> = columns.iter().map(|column| self.heading(column)).collect();
                table_width(&header, &page::shown(columns, rows)) > self.output.width
            }
        }
    }

    fn heading(&self, column: &ColumnSpec) -> Cell {
        let mut text = String::new();
        value::escape(&mut text, &column.name, false);
        let style = self.names.column_style(&column.keyspace, &column.table, &column.name);
        Cell::new(text, style.unwrap_or(Style::Column))
    }

    fn show_trace(&mut self, id: &str) -> Result<(), Failure> {
        let shown = trace::show(&mut self.session, id, self.output.results_color())?;
        self.output.result(&shown)?;
        Ok(())
    }
}

impl Interpreter {
    /// The failure as [`with_place`] shows it, and the known name that is nearest to an unknown one.
    pub fn explained(&self, failure: &Failure, statement: &str) -> String {
        let mut text = with_place(failure, statement);
        if let Failure::Refused(CqlError::Invalid(error)) = failure {
            let keyspace = self.session.keyspace.as_deref();
            if let Some(name) = hint::suggestion(&self.names, keyspace, error, statement) {
                let mut hint = "; did you mean ".to_string();
                push_identifier(&mut hint, name);
                hint.push('?');
                text.insert_str(text.find('\n').unwrap_or(text.len()), &hint);
            }
        }
        text
    }
}

/// The failure, followed by the statement's line with the position underlined, if the failure contains a
/// position.
pub fn with_place(failure: &Failure, statement: &str) -> String {
    let place = match failure {
        Failure::Refused(CqlError::Syntax(text) | CqlError::Invalid(text)) => place::place_of(text),
        _ => None,
    };
    match place.and_then(|place| place::underlined(statement, place)) {
        Some(shown) => format!("{failure}\n  {}", shown.replace('\n', "\n  ")),
        None => failure.to_string(),
    }
}

/// `file:line: ` and the failure. The line is the wrong one if it is known, or else the statement's first
/// line.
fn in_script(name: &str, piece: &Piece, failure: &Failure) -> String {
    let line = match failure {
        Failure::Refused(error) => place::place_of(&error.to_string()).map_or(0, |(line, _)| line - 1),
        _ => 0,
    };
    format!("{name}:{}: {}", piece.line + line, with_place(failure, &piece.text))
}
