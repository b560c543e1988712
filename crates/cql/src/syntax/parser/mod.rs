//! Text to syntax tree: recursive descent by hand, one function for each rule of the grammar.
//!
//! 1. Two tokens are known at any time: the current one and the one behind it; rarely a third is looked up.
//! 2. What is nested is counted: nothing is deeper than [`MAX_DEPTH`], and no tree is higher.
//! 3. Nothing is read twice but a type in parentheses, which ends where another could begin, so that time is
//!    linear in the text.
//!
//! Guarantees: any text gives a tree or an error that says where; no panic, no deep recursion.
//! Source: Cassandra 4.1 and 5.0 `Parser.g`; ScyllaDB's documentation for what it adds.

mod access;
mod batch;
mod describe;
mod names;
mod relation;
mod schema;
mod select;
mod selector;
mod statement;
mod table;
mod term;
mod types;
mod unsupported;
mod write;

pub(super) use types::KEPT_TYPE_NAMES;

use super::ast::{Marker, Parsed, Span};
use super::keyword::Keyword;
use super::lexer::{Lexer, Token, TokenKind};
use super::syntax_error::{self, Problem};
use crate::CqlError;

/// Parentheses, collections, types, operations: so many may stand in each other.
pub const MAX_DEPTH: usize = 100;

/// Reads one statement, with or without `;` behind it.
///
/// Errors: [`CqlError::Syntax`], which begins with `line L:C` (from 1, from 0 in characters) and shows the place.
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
    /// Behind `ahead`.
    lexer: Lexer<'a>,
    current: Token,
    ahead: Token,
    /// Where the token before the current one ends.
    previous_end: u32,
    markers: Vec<Marker>,
    /// How many constructs the current token is in.
    depth: usize,
    /// Of the highest tree that was finished in the construct that the current token is in.
    height: usize,
    /// In the value of an assignment, where a column may follow a `+`.
    in_assignment: bool,
    /// What is read may be given up: errors need no text.
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

    /// The token after the next.
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

    /// Both words, or none of them.
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

    /// None of `what` stands here.
    #[cold]
    fn none_of<T>(&self, what: &str) -> Result<T> {
        Err(self.unexpected(Problem::NoneOf(what)))
    }

    /// `message` about a place in the text.
    #[cold]
    pub(super) fn error_at<T>(&self, span: Span, message: &str) -> Result<T> {
        Err(self.error(|text| syntax_error::at_span(text, span, message)))
    }

    /// Errors are costly to make: where and between what takes a look at the whole text.
    fn error(&self, make: impl FnOnce(&str) -> CqlError) -> CqlError {
        if self.is_trying { CqlError::Syntax(String::new()) } else { make(self.text) }
    }

    /// What `read` reads, or nothing, and then nothing is taken.
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

    /// From a token's beginning to the end of what was read last.
    fn span_from(&self, start: u32) -> Span {
        Span { start, end: self.previous_end }
    }

    fn start(&self) -> u32 {
        self.current.span.start
    }

    /// What `read` reads stands one level deeper.
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

    /// `item (operator item)*`, from the left. `operator` takes the operator, if there is one, and says which.
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
