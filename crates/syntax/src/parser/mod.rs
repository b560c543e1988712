//! Recursive descent parser, written by hand: text to syntax tree, with one function for each rule of the
//! grammar.
//!
//! 1. The parser keeps two tokens, the current one and the next one. Rarely, it looks a third token ahead.
//! 2. Nesting is counted: constructs are not nested deeper than [`MAX_DEPTH`], and no tree is higher.
//! 3. No text is parsed twice except a type in parentheses. Such a type ends before another one could begin,
//!    so parsing takes time linear in the text.
//!
//! Guarantees: any text gives a tree or an error with a position; no panic, no deep recursion. Source:
//! Cassandra 4.1 and 5.0 `Parser.g`; ScyllaDB's documentation for its additions.

mod access;
mod batch;
mod describe;
mod function;
mod index;
mod names;
mod permission;
mod relation;
mod schema;
mod select;
mod selector;
mod statement;
mod table;
mod term;
mod types;
mod unsupported;
mod view;
mod write;

pub(super) use types::KEPT_TYPE_NAMES;

use super::ast::{Marker, Parsed, Span};
use super::keyword::Keyword;
use super::lexer::{Lexer, Token, TokenKind};
use super::syntax_error::{self, Problem};
use protocol::CqlError;

/// Maximum nesting depth of parentheses, collections, types and operations.
pub const MAX_DEPTH: usize = 100;

/// Parses one statement, with or without a final `;`.
///
/// Errors: [`CqlError::Syntax`]. Its message begins with `line L:C` (lines from 1, columns from 0 in
/// characters) and quotes the text around this position; a few messages are Cassandra's, which have no
/// position.
pub fn parse(text: &str) -> Result<Parsed, CqlError> {
    if u32::try_from(text.len()).is_err() {
        let message = format!("line 1:0 a statement of {} bytes; 4 GiB is the limit", text.len());
        return Err(CqlError::Syntax(message));
    }
    let mut parser = Parser::new(text);
    let statement = parser.statement()?;
    while parser.eat(TokenKind::Semicolon) {}
    parser.expect(TokenKind::End)?;
    Ok(Parsed { statement, markers: parser.markers })
}

type Result<T, E = CqlError> = std::result::Result<T, E>;

struct Parser<'a> {
    text: &'a str,
    /// Positioned after `ahead`.
    lexer: Lexer<'a>,
    current: Token,
    ahead: Token,
    /// End of the token before the current one.
    previous_end: u32,
    markers: Vec<Marker>,
    /// Number of constructs around the current token.
    depth: usize,
    /// Height of the highest finished tree in the innermost construct around the current token.
    height: usize,
    /// Inside the value of an assignment, where a column may follow a `+`.
    in_assignment: bool,
    /// Inside `Self::attempt`: errors are discarded and need no message.
    is_trying: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let mut lexer = Lexer::new(text);
        let current = lexer.next();
        let ahead = lexer.next();
        Parser {
            text,
            lexer,
            current,
            ahead,
            previous_end: 0,
            markers: Vec::new(),
            depth: 0,
            height: 0,
            in_assignment: false,
            is_trying: false,
        }
    }

    fn advance(&mut self) -> Token {
        let token = self.current;
        self.previous_end = token.span.end;
        self.current = self.ahead;
        self.ahead = self.lexer.next();
        token
    }

    /// The token after `ahead`.
    fn third(&self) -> Token {
        let mut lexer = self.lexer;
        lexer.next()
    }

    fn at(&self, kind: TokenKind) -> bool {
        self.current.kind == kind
    }

    fn at_keyword(&self, keyword: Keyword) -> bool {
        self.at(TokenKind::Keyword(keyword))
    }

    fn ahead_is(&self, kind: TokenKind) -> bool {
        self.ahead.kind == kind
    }

    fn ahead_is_keyword(&self, keyword: Keyword) -> bool {
        self.ahead_is(TokenKind::Keyword(keyword))
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.at(kind);
        if found {
            self.advance();
        }
        found
    }

    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        self.eat(TokenKind::Keyword(keyword))
    }

    /// Takes both keywords if they are next, or no token.
    fn eat_keywords(&mut self, first: Keyword, second: Keyword) -> bool {
        let found = self.at_keyword(first) && self.ahead_is_keyword(second);
        if found {
            self.advance();
            self.advance();
        }
        found
    }

    fn expect(&mut self, kind: TokenKind) -> Result<Token> {
        if self.at(kind) {
            return Ok(self.advance());
        }
        Err(self.unexpected(Problem::Expecting(kind.name())))
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Result<Token> {
        self.expect(TokenKind::Keyword(keyword))
    }

    #[cold]
    fn unexpected(&self, problem: Problem<'_>) -> CqlError {
        self.error(|text| syntax_error::unexpected(text, self.current, problem))
    }

    /// Returns the error that none of `what` was found at the current token.
    #[cold]
    fn none_of<T>(&self, what: &str) -> Result<T> {
        Err(self.unexpected(Problem::NoneOf(what)))
    }

    /// The error of a rule that Cassandra checks after it has parsed the statement: its text has no position.
    #[cold]
    pub(super) fn refuse<T>(&self, message: &str) -> Result<T> {
        Err(self.error(|_| syntax_error::without_position(message)))
    }

    /// Returns the error `message` for a position in the text.
    #[cold]
    pub(super) fn error_at<T>(&self, span: Span, message: &str) -> Result<T> {
        Err(self.error(|text| syntax_error::at_span(text, span, message)))
    }

    /// Makes an error, with a message only if the error can be returned: finding line and surroundings reads
    /// the whole text.
    fn error(&self, make: impl FnOnce(&str) -> CqlError) -> CqlError {
        if self.is_trying { CqlError::Syntax(String::new()) } else { make(self.text) }
    }

    /// Parses with `read`. If `read` returns `None`, restores the position before it.
    fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = (self.lexer, self.current, self.ahead, self.previous_end, self.depth, self.height);
        self.is_trying = true;
        let found = read(self);
        self.is_trying = false;
        if found.is_none() {
            (self.lexer, self.current, self.ahead, self.previous_end, self.depth, self.height) = before;
        }
        found
    }

    /// The span from `start`, the beginning of a token, to the end of the last token taken.
    fn span_from(&self, start: u32) -> Span {
        Span { start, end: self.previous_end }
    }

    fn start(&self) -> u32 {
        self.current.span.start
    }

    /// Runs `read` one nesting level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let beside = std::mem::take(&mut self.height);
        let found = read(self);
        self.depth -= 1;
        self.height = beside.max(self.height + 1);
        found
    }

    #[cold]
    fn too_deep(&self) -> CqlError {
        let message = format!("more than {MAX_DEPTH} levels of nesting or operations in one expression");
        self.error(|text| syntax_error::at_token(text, self.current, &message))
    }

    /// Parses `item (operator item)*`, left-associative. `operator` takes the next operator and returns it,
    /// if there is one.
    fn left_associative<T, O>(
        &mut self,
        item: impl Fn(&mut Self) -> Result<T>,
        operator: impl Fn(&mut Self) -> Option<O>,
        join: impl Fn(O, T, T) -> T,
    ) -> Result<T> {
        let beside = std::mem::take(&mut self.height);
        let mut left = item(self)?;
        let mut left_height = self.height;
        while let Some(found) = operator(self) {
            self.height = 0;
            let right = item(self)?;
            left_height = left_height.max(self.height) + 1;
            if self.depth + left_height > MAX_DEPTH {
                return Err(self.too_deep());
            }
            left = join(found, left, right);
        }
        self.height = beside.max(left_height);
        Ok(left)
    }

    /// `item (',' item)*`
    fn comma_separated<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `open (item (',' item)*)? close`
    fn enclosed<T>(
        &mut self,
        open: TokenKind,
        close: TokenKind,
        item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(open)?;
        if self.eat(close) {
            return Ok(Vec::new());
        }
        let items = self.comma_separated(item)?;
        self.expect(close)?;
        Ok(items)
    }
}
