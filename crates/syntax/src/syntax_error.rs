//! Syntax errors with the position of the wrong character.
//!
//! `line L:C problem (the surrounding words, with the [wrong] one in brackets); what to do`. Lines count from
//! 1, columns from 0 in characters, as in the messages of Cassandra's parser, which drivers and users know.
//! The message is short even for a long statement.

use protocol::CqlError;

use super::ast::Span;
use super::lexer::{Lexer, Token, TokenKind};

/// Number of tokens shown before the wrong one.
const TOKENS_BEFORE: usize = 10;
const TOKENS_AFTER: usize = 2;
/// Maximum length of an excerpt of the text, in characters.
const EXCERPT_CHARS: usize = 60;
/// Maximum length of a message without a position, in characters.
const MESSAGE_CHARS: usize = 200;

/// Returns the error `message` for a token, with its position and the surrounding words.
pub(super) fn at_token(text: &str, token: Token, message: &str) -> CqlError {
    CqlError::Syntax(located(text, token, message))
}

fn located(text: &str, token: Token, message: &str) -> String {
    let (line, column) = line_and_column(text, token.span.start as usize);
    format!("line {line}:{column} {message} ({})", snippet(text, token))
}

/// Returns the error `message` for a position in the text.
pub(super) fn at_span(text: &str, span: Span, message: &str) -> CqlError {
    let (line, column) = line_and_column(text, span.start as usize);
    CqlError::Syntax(format!("line {line}:{column} {message}"))
}

/// Returns the error `message`, which may contain a name of any length, without a position.
pub(super) fn without_position(message: &str) -> CqlError {
    let cut = message.char_indices().nth(MESSAGE_CHARS).map_or(message.len(), |(at, _)| at);
    CqlError::Syntax(match cut < message.len() {
        true => format!("{}...", &message[..cut]),
        false => message.to_string(),
    })
}

/// Returns the error for a token that is not accepted here.
pub(super) fn unexpected(text: &str, token: Token, problem: Problem<'_>) -> CqlError {
    let found = match token.kind {
        TokenKind::End => "<EOF>".to_string(),
        _ => head(token.text(text)),
    };
    let message = match (token.kind, problem) {
        (TokenKind::Unknown, _) => format!("no viable alternative at character '{found}'"),
        (TokenKind::Unterminated, _) => {
            format!("the text that begins here is not closed: {}", unclosed(token.text(text)))
        }
        (_, Problem::Expecting(what)) => format!("mismatched input '{found}' expecting {what}"),
        (_, Problem::NoneOf(what)) => {
            let message = located(text, token, &format!("no viable alternative at input '{found}'"));
            return CqlError::Syntax(format!("{message}; expected {what}"));
        }
    };
    at_token(text, token, &message)
}

/// The reason why a token is not accepted.
#[derive(Clone, Copy)]
pub(super) enum Problem<'a> {
    /// Only this token is accepted here.
    Expecting(&'a str),
    /// Several tokens are accepted here; the text names them.
    NoneOf(&'a str),
}

fn unclosed(token: &str) -> &'static str {
    match token.as_bytes().first() {
        Some(b'\'') => "a string needs a ' at its end (and '' for each ' within)",
        Some(b'"') => "a quoted name needs a \" at its end (and \"\" for each \" within)",
        Some(b'$') => "a string needs $$ at its end",
        _ => "a comment needs */ at its end",
    }
}

/// The line (from 1) and the column (from 0, in characters) of offset `at`. `at` may be past the end of the
/// text.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at.min(text.len())];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (1 + before.matches('\n').count(), before[line_start..].chars().count())
}

/// The text around the token, with the token in brackets and `...` where text is left out.
fn snippet(text: &str, token: Token) -> String {
    let (start, end) = (token.span.start as usize, token.span.end as usize);
    let mut lexer = Lexer::new(text);
    let mut starts = std::collections::VecDeque::with_capacity(TOKENS_BEFORE + 1);
    loop {
        let next = lexer.next();
        if next.kind == TokenKind::End || next.span.start >= token.span.start {
            break;
        }
        if starts.len() == TOKENS_BEFORE {
            starts.pop_front();
        }
        starts.push_back(next.span.start as usize);
    }
    let from = starts.front().copied().unwrap_or(start);
    let to = (0..TOKENS_AFTER).fold(end, |to, _| to.max(lexer.next().span.end as usize));
    let before = tail(&text[from..start]);
    let cut_before = !text[..from].trim().is_empty() || before.len() < text[from..start].len();
    let after = head(&text[end..to]);
    let cut_after = !text[to..].trim().is_empty();
    let mut out = String::new();
    if cut_before {
        out.push_str("...");
    }
    out.push_str(before);
    out.push('[');
    out.push_str(&head(&text[start..end]));
    out.push(']');
    out.push_str(&after);
    if cut_after && !after.ends_with("...") {
        out.push_str("...");
    }
    out.replace(['\n', '\r', '\t'], " ")
}

/// The first `EXCERPT_CHARS` characters, followed by `...` if the text is longer.
fn head(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text.to_string(),
    }
}

/// The last `EXCERPT_CHARS` characters.
fn tail(text: &str) -> &str {
    match text.char_indices().rev().nth(EXCERPT_CHARS) {
        Some((cut, before)) => &text[cut + before.len_utf8()..],
        None => text,
    }
}
