//! The destination of results and messages: the terminal, a pipe, or a file given by CAPTURE.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::style::{Style, painted};

/// Format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// An aligned table with a header and the number of rows.
    Table,
    /// One JSON object per row, each on a line.
    Json,
    /// A line of names, followed by one line per row.
    Csv,
}

/// Whether rows are shown as a list of their columns instead of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expand {
    Off,
    On,
    /// If a table would be wider than the terminal.
    Auto,
}

/// Writes results and messages; see the head of this file.
pub struct Output {
    /// Results and messages of commands.
    out: Box<dyn Write>,
    /// Errors, warnings and notices.
    errors: Box<dyn Write>,
    capture: Option<(String, File)>,
    /// Whether a user at a terminal can be asked to continue between pages.
    pub is_interactive: bool,
    color: bool,
    pub width: usize,
    pub format: Format,
    pub expand: Expand,
}

impl Output {
    pub fn new(out: Box<dyn Write>, errors: Box<dyn Write>, format: Format) -> Self {
        Self {
            out,
            errors,
            capture: None,
            is_interactive: false,
            color: false,
            width: 80,
            format,
            expand: Expand::Off,
        }
    }

    pub fn set_color(&mut self, color: bool) {
        self.color = color;
    }

    /// Whether results are coloured. They never are in a file.
    pub fn results_color(&self) -> bool {
        self.color && self.capture.is_none()
    }

    /// Writes rows or a description.
    ///
    /// # Errors
    /// The text cannot be written.
    pub fn result(&mut self, text: &str) -> io::Result<()> {
        match &mut self.capture {
            Some((_, file)) => file.write_all(text.as_bytes()),
            None => self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()),
        }
    }

    /// Writes the message of a command. Messages are not captured.
    ///
    /// # Errors
    /// The text cannot be written.
    pub fn message(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush())
    }

    /// Writes a line in red.
    pub fn error(&mut self, text: &str) {
        self.diagnostic(text, Style::Error);
    }

    /// Writes a line in yellow.
    pub fn warning(&mut self, text: &str) {
        self.diagnostic(text, Style::Warning);
    }

    fn diagnostic(&mut self, text: &str, style: Style) {
        // An error in writing a diagnostic cannot be reported anywhere.
        let _ = writeln!(self.errors, "{}", painted(text, style, self.color));
    }

    pub fn capture_path(&self) -> Option<&str> {
        self.capture.as_ref().map(|(path, _)| path.as_str())
    }

    /// Sets the file to which results are appended from now on; `None` ends the capture.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn set_capture(&mut self, path: Option<&Path>) -> io::Result<()> {
        self.capture = match path {
            None => None,
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path)?;
                Some((path.display().to_string(), file))
            }
        };
        Ok(())
    }
}
