//! The interactive prompt: a line editor with history, colours and completion.

use std::borrow::Cow;
use std::path::PathBuf;
use std::rc::Rc;

use rustyline::completion::{Completer, Pair};
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{ColorMode, CompletionType, Config, Context, Editor, Helper};

use super::complete::{Typed, complete};
use super::failure::Failure;
use super::highlight::highlight;
use super::input::InputBuffer;
use super::interpreter::{Flow, Interpreter};
use super::names::Names;
use super::style::{Style, painted};
use super::terminal;

const HISTORY_ENTRIES: usize = 2_000;

/// Reads and executes input until the user exits.
///
/// # Errors
/// The terminal does not work, or the output cannot be written.
pub fn run(shell: &mut Interpreter, history: Option<PathBuf>, color: bool) -> Result<(), Failure> {
    let config = Config::builder()
        .max_history_size(HISTORY_ENTRIES)
        .map_err(|error| broken(&error))?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .color_mode(if color { ColorMode::Enabled } else { ColorMode::Disabled })
        .auto_add_history(false)
        .build();
    let mut editor: Editor<LineHelper, DefaultHistory> =
        Editor::with_config(config).map_err(|error| broken(&error))?;
    editor.set_helper(Some(LineHelper::default()));
    editor.set_max_history_size(HISTORY_ENTRIES).map_err(|error| broken(&error))?;
    if let Some(path) = &history {
        // On the first start there is no history file.
        let _ = editor.load_history(path);
    }
    let mut input = InputBuffer::default();
    // Lines since the last complete statement.
    let mut entry = String::new();
    loop {
        shell.refresh_names();
        let keyspace = shell.session.keyspace.clone();
        if let Some(helper) = editor.helper_mut() {
            *helper = LineHelper {
                names: Rc::clone(&shell.names),
                keyspace: keyspace.clone(),
                above: input.pending().to_string(),
            };
        }
        let prompt = prompt_text(keyspace.as_deref(), !input.pending().is_empty());
        let styled = painted(&prompt, Style::Keyword, color);
        match editor.readline(&(prompt, styled)) {
            Ok(line) => {
                entry.push_str(&line);
                entry.push('\n');
                input.push(&format!("{line}\n"));
            }
            Err(ReadlineError::Interrupted) => {
                input.clear();
                entry.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(broken(&error)),
        }
        let flow = run_complete(shell, &mut input)?;
        if input.pending().is_empty() {
            remember(&mut editor, entry.trim(), history.as_ref());
            entry.clear();
        }
        if flow == Flow::Exit {
            break;
        }
    }
    Ok(())
}

/// Runs the complete pieces and prints their failures. A failure does not stop the following pieces.
fn run_complete(shell: &mut Interpreter, input: &mut InputBuffer) -> Result<Flow, Failure> {
    while let Some(piece) = input.next() {
        // Discard a Ctrl-C that was pressed while nothing ran.
        terminal::take_interrupted();
        match shell.run(&piece) {
            Ok(Flow::Continue) => {}
            Ok(Flow::Exit) => return Ok(Flow::Exit),
            Err(failure @ Failure::Output(_)) => return Err(failure),
            Err(failure) => {
                if matches!(failure, Failure::Interrupted) {
                    // Ends the line on which the terminal shows ^C.
                    shell.output.message("\n")?;
                    input.clear();
                }
                shell.output.error(&shell.explained(&failure, &piece.text));
            }
        }
    }
    Ok(Flow::Continue)
}

fn remember(editor: &mut Editor<LineHelper, DefaultHistory>, entry: &str, history: Option<&PathBuf>) {
    let lower = entry.to_ascii_lowercase();
    if entry.is_empty() || lower.contains("password") || lower.starts_with("login") {
        return;
    }
    // The shell continues if the history cannot be written.
    let _ = editor.add_history_entry(entry);
    if let Some(path) = history {
        let _ = editor.append_history(path);
    }
}

fn broken(error: &ReadlineError) -> Failure {
    Failure::Command(format!("cannot read from the terminal: {error}"))
}

/// The prompt `messina:ks> `. For a continuation line, dots of the same width.
fn prompt_text(keyspace: Option<&str>, goes_on: bool) -> String {
    let prompt = match keyspace {
        Some(keyspace) => format!("messina:{keyspace}> "),
        None => "messina> ".to_string(),
    };
    match goes_on {
        true => format!("{:>width$}> ", "...", width = prompt.chars().count() - 2),
        false => prompt,
    }
}

#[derive(Default)]
struct LineHelper {
    names: Rc<Names>,
    keyspace: Option<String>,
    /// Earlier lines of the current statement.
    above: String,
}

impl Helper for LineHelper {}
impl Validator for LineHelper {}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Highlighter for LineHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned(highlight(&self.above, line))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl Completer for LineHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = Typed { above: &self.above, before: &line[..at], after: &line[at..] };
        let (start, found) = complete(&self.names, self.keyspace.as_deref(), typed);
        let pair = |candidate: super::complete::Candidate| Pair {
            display: candidate.shown,
            replacement: candidate.text,
        };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_a_statement_have_one_width() {
        assert_eq!(prompt_text(None, false), "messina> ");
        assert_eq!(prompt_text(None, true), "    ...> ");
        assert_eq!(prompt_text(Some("ks"), false), "messina:ks> ");
        assert_eq!(prompt_text(Some("ks"), true), "       ...> ");
    }
}
