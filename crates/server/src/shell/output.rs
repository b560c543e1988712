//! Where results and messages go: the terminal, a pipe, or a file that CAPTURE names.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::style::{Style, painted};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned, with a header and the number of rows.
    Table,
    /// An object per row and line.
    Json,
    /// A line of names, then a line per row.
    Csv,
}

/// See the head of this file.
pub struct Output {
    /// Results and what commands say.
    out: Box<dyn Write>,
    /// Errors, warnings and notices.
    errors: Box<dyn Write>,
    capture: Option<(String, File)>,
    /// Someone sits at a terminal and can be asked between pages.
    pub is_interactive: bool,
    color: bool,
    pub width: usize,
    pub format: Format,
    pub is_expanded: bool,
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
            is_expanded: false,
        }
    }

    pub fn set_color(&mut self, color: bool) {
        self.color = color;
    }

    /// Whether results are coloured: never in a file.
    pub fn results_color(&self) -> bool {
        self.color && self.capture.is_none()
    }

    /// Rows and descriptions.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn result(&mut self, text: &str) -> io::Result<()> {
        match &mut self.capture {
            Some((_, file)) => file.write_all(text.as_bytes()),
            None => self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()),
        }
    }

    /// What a command has to say; only people want to know.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn message(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush())
    }

    /// A line in red.
    pub fn error(&mut self, text: &str) {
        self.diagnostic(text, Style::Error);
    }

    /// A line in yellow.
    pub fn warning(&mut self, text: &str) {
        self.diagnostic(text, Style::Warning);
    }

    fn diagnostic(&mut self, text: &str, style: Style) {
        // If nobody can be told, there is nobody to tell.
        let _ = writeln!(self.errors, "{}", painted(text, style, self.color));
    }

    pub fn capture_path(&self) -> Option<&str> {
        self.capture.as_ref().map(|(path, _)| path.as_str())
    }

    /// From here on results are appended to the file; `None`: no longer.
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
