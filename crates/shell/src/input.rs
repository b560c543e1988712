//! Splits text that arrives in lines or chunks into statements and commands.
//!
//! A statement ends at its `;`. A command of the shell ends at the end of its line, or at a `;` in the line.
//! Incomplete input is kept until more arrives; [`InputBuffer::finish`] returns it unchanged.

use syntax::{Token, TokenKind, statements, tokens};

use super::command;

/// A statement or a command, without its `;`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub text: String,
    /// Line of the piece's first character in the pushed text, from 1.
    pub line: usize,
    pub is_command: bool,
}

/// Buffers input until it is complete; see the head of this file.
#[derive(Debug)]
pub struct InputBuffer {
    text: String,
    /// Offset of the first byte that was not returned as part of a piece.
    at: usize,
    /// The line number at `at`.
    line: usize,
}

impl Default for InputBuffer {
    fn default() -> Self {
        Self { text: String::new(), at: 0, line: 1 }
    }
}

impl InputBuffer {
    /// Adds whole lines, each with its line feed. The last line of the input may lack it.
    pub fn push(&mut self, text: &str) {
        self.text.drain(..self.at);
        self.at = 0;
        self.text.push_str(text);
    }

    /// The incomplete input; empty if it contains only white space and comments.
    pub fn pending(&self) -> &str {
        &self.text[self.at..]
    }

    /// Discards the incomplete input.
    pub fn clear(&mut self) {
        self.advance_to(self.text.len());
    }

    /// The next complete piece.
    #[allow(clippy::should_implement_trait, reason = "after `None` there can be more")]
    pub fn next(&mut self) -> Option<Piece> {
        self.take(false)
    }

    /// The next piece, even if it is incomplete. For the end of the input.
    pub fn finish(&mut self) -> Option<Piece> {
        self.take(true)
    }

    fn take(&mut self, is_all: bool) -> Option<Piece> {
        let rest = &self.text[self.at..];
        let first =
            tokens(rest).find(|token| !matches!(token.kind, TokenKind::Comment | TokenKind::Semicolon));
        let Some(first) = first else {
            self.advance_to(self.text.len());
            return None;
        };
        if is_open_comment(first, rest) && !is_all {
            return None;
        }
        let (start, end, after, is_command) = match command::ends_with_line(first.text(rest)) {
            true => command_bounds(rest, first, is_all)?,
            false => statement_bounds(rest, is_all)?,
        };
        let (text, from) = (rest[start..end].to_string(), self.at + start);
        let after = self.at + after;
        self.advance_to(from);
        let line = self.line;
        self.advance_to(after);
        Some(Piece { text, line, is_command })
    }

    fn advance_to(&mut self, at: usize) {
        self.line += self.text[self.at..at].matches('\n').count();
        self.at = at;
    }
}

fn is_open_comment(token: Token, text: &str) -> bool {
    token.kind == TokenKind::Unterminated && token.text(text).starts_with("/*")
}

/// Start and end of a piece, the offset from which to search for the next piece, and whether the piece is a
/// command.
type PieceBounds = (usize, usize, usize, bool);

fn command_bounds(rest: &str, first: Token, is_all: bool) -> Option<PieceBounds> {
    let start = first.span.start as usize;
    let line = match rest[start..].find('\n') {
        Some(len) => &rest[start..start + len],
        None if is_all => &rest[start..],
        None => return None,
    };
    match tokens(line).find(|token| token.kind == TokenKind::Semicolon) {
        Some(end) => Some((start, start + end.span.start as usize, start + end.span.end as usize, true)),
        None => Some((start, start + line.trim_end().len(), start + line.len(), true)),
    }
}

fn statement_bounds(rest: &str, is_all: bool) -> Option<PieceBounds> {
    let statement = statements(rest).next()?;
    let (start, end) = (statement.start, statement.start + statement.text.len());
    if !statement.is_terminated {
        return is_all.then_some((start, end, rest.len(), false));
    }
    let semicolon = tokens(&rest[end..]).find(|token| token.kind == TokenKind::Semicolon);
    Some((start, end, end + semicolon.map_or(0, |token| token.span.end as usize), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(piece: &Piece) -> String {
        let (open, close) = if piece.is_command { ("<", ">") } else { ("[", "]") };
        format!("{}{open}{}{close}", piece.line, piece.text)
    }

    /// Checks the pieces after pushing the lines one by one; `|` marks a line after which no piece was
    /// complete.
    #[track_caller]
    fn check(lines: &str, expect: &str) {
        let mut input = InputBuffer::default();
        let mut found = String::new();
        for line in lines.split_inclusive('\n') {
            input.push(line);
            let before = found.len();
            while let Some(piece) = input.next() {
                found += &shown(&piece);
            }
            if found.len() == before {
                found.push('|');
            }
        }
        while let Some(piece) = input.finish() {
            found += &format!("~{}", shown(&piece));
        }
        assert_eq!(found, expect);
        assert_eq!(input.pending(), "");

        // Checks the same text pushed in one piece.
        let mut whole = InputBuffer::default();
        whole.push(lines);
        let mut at_once = String::new();
        while let Some(piece) = whole.next() {
            at_once += &shown(&piece);
        }
        while let Some(piece) = whole.finish() {
            at_once += &format!("~{}", shown(&piece));
        }
        assert_eq!(at_once, expect.replace('|', ""));
    }

    #[test]
    fn statements_end_at_semicolons() {
        check("select 1;\n", "1[select 1]");
        check("select\n1\n;\n", "||1[select\n1]");
        check("a; b; c\n;\n", "1[a]1[b]1[c]");
        check("insert ';\n';\n", "|1[insert ';\n']");
        check("\n\n  select 1;\n", "||3[select 1]");
        check("begin batch a;\nb;\napply batch;\n", "||1[begin batch a;\nb;\napply batch]");
    }

    #[test]
    fn commands_end_with_their_line() {
        check("help\n", "1<help>");
        check("HELP select;\n", "1<HELP select>");
        check("describe tables\nselect 1;\n", "1<describe tables>2[select 1]");
        check("expand on; select 1;\n", "1<expand on>1[select 1]");
        check("source 'a;b.cql'\n", "1<source 'a;b.cql'>");
        check("desc 'open\nselect 1;\n", "1<desc 'open>2[select 1]");
        check("?\n", "1<?>");
        check("select help\n;\n", "|1[select help]");
    }

    #[test]
    fn space_and_comments_are_nothing() {
        check("\n", "|");
        check("-- only this\n;\n", "||");
        check("/* a\n; b */\nselect 1;\n", "||3[select 1]");
        check("-- first\nhelp\n", "|2<help>");
    }

    #[test]
    fn the_end_gives_what_is_left() {
        check("select 1", "|~1[select 1]");
        check("help", "|~1<help>");
        check("a;\nselect\n 1\n", "1[a]||~2[select\n 1]");
        check("select 'open\n", "|~1[select 'open\n]");
        check("/* open", "|~1[/* open]");
    }

    #[test]
    fn ctrl_c_forgets() {
        let mut input = InputBuffer::default();
        input.push("select *\n");
        assert_eq!(input.next(), None);
        assert_eq!(input.pending(), "select *\n");
        input.clear();
        input.push("select 2;\n");
        assert_eq!(input.next().map(|piece| (piece.text, piece.line)), Some(("select 2".to_string(), 2)));
    }
}
