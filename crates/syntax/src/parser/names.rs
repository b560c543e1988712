//! Parses names, markers and constants.

use super::{Parser, Problem, Result};
use crate::ast::{Ident, Literal, LiteralKind, Marker, QualifiedName};
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};

impl Parser<'_> {
    /// Whether a token is a name: a quoted name, a word that is no keyword, or a keyword that is not
    /// reserved.
    pub fn is_name(token: Token) -> bool {
        match token.kind {
            TokenKind::Word | TokenKind::QuotedName => true,
            TokenKind::Keyword(keyword) => !keyword.is_reserved(),
            _ => false,
        }
    }

    pub fn at_name(&self) -> bool {
        Self::is_name(self.current)
    }

    /// Parses the name of anything except a column of an existing table.
    pub fn ident(&mut self) -> Result<Ident> {
        let token = self.current;
        let ident = self.column_ident()?;
        if ident.text.is_empty() {
            return self.error_at(token.span, "an empty name is no name");
        }
        Ok(ident)
    }

    /// Parses a column's name. It may be `""`, which some tables created by old versions have.
    pub fn column_ident(&mut self) -> Result<Ident> {
        if !self.at_name() {
            let reserved = matches!(self.current.kind, TokenKind::Keyword(_));
            let what = if reserved { "a name (reserved words need \"\" around them)" } else { "a name" };
            return self.none_of(what);
        }
        Ok(self.take_ident())
    }

    /// Takes the current token as a name, whatever its kind is.
    pub fn take_ident(&mut self) -> Ident {
        let token = self.advance();
        let written = token.text(self.text);
        let text = match token.kind {
            TokenKind::QuotedName => unquote(written, "\""),
            _ => written.to_ascii_lowercase(),
        };
        Ident { text, span: token.span }
    }

    /// `(keyspace '.')? name`
    pub fn qualified_name(&mut self) -> Result<QualifiedName> {
        self.qualified(Self::ident)
    }

    /// `(keyspace '.')? name`, where `last` reads the name.
    pub fn qualified(&mut self, last: impl Fn(&mut Self) -> Result<Ident>) -> Result<QualifiedName> {
        if self.at(TokenKind::Question) {
            return self
                .error_at(self.current.span, "Bind variables cannot be used for keyspace or table names");
        }
        if !self.ahead_is(TokenKind::Dot) {
            return Ok(QualifiedName { keyspace: None, name: last(self)? });
        }
        let keyspace = self.ident()?;
        self.expect(TokenKind::Dot)?;
        Ok(QualifiedName { keyspace: Some(keyspace), name: last(self)? })
    }

    /// Whether a function's name and a `(` are next.
    pub fn at_call(&self) -> bool {
        match self.ahead.kind {
            TokenKind::ParenOpen => Self::names_function(self.current),
            TokenKind::Dot => {
                let mut lexer = self.lexer;
                self.at_name()
                    && Self::names_function(lexer.next())
                    && lexer.next().kind == TokenKind::ParenOpen
            }
            _ => false,
        }
    }

    fn names_function(token: Token) -> bool {
        match token.kind {
            TokenKind::Word | TokenKind::QuotedName => true,
            TokenKind::Keyword(keyword) => keyword.names_function(),
            _ => false,
        }
    }

    pub fn function_name(&mut self) -> Result<QualifiedName> {
        self.qualified(|parser| {
            if Self::names_function(parser.current) {
                return Ok(parser.take_ident());
            }
            parser.none_of("a function's name")
        })
    }

    pub fn at_marker(&self) -> bool {
        matches!(self.current.kind, TokenKind::Question | TokenKind::Colon)
    }

    /// `?` or `:name`
    pub fn marker(&mut self) -> Result<Marker> {
        let start = self.start();
        let name = match self.current.kind {
            TokenKind::Question => {
                self.advance();
                None
            }
            _ => {
                self.expect(TokenKind::Colon)?;
                Some(self.ident()?.text)
            }
        };
        let marker = Marker { index: self.markers.len(), name, span: self.span_from(start) };
        self.markers.push(marker.clone());
        Ok(marker)
    }

    /// Parses a constant, including a `-` before a number, if one is next.
    pub fn literal(&mut self) -> Option<Literal> {
        if self.at(TokenKind::Minus) {
            let (kind, text) = self.literal_of(self.ahead)?;
            let signed = matches!(kind, LiteralKind::Integer | LiteralKind::Float | LiteralKind::Duration);
            if !signed {
                return None;
            }
            let text = if text == "NaN" { text } else { format!("-{text}") };
            let start = self.advance().span;
            let end = self.advance().span;
            return Some(Literal { kind, text, span: start.to(end) });
        }
        let (kind, text) = self.literal_of(self.current)?;
        let span = self.advance().span;
        Some(Literal { kind, text, span })
    }

    fn literal_of(&self, token: Token) -> Option<(LiteralKind, String)> {
        let kind = match token.kind {
            TokenKind::String => return Some((LiteralKind::String, unquote(token.text(self.text), "'"))),
            TokenKind::DollarString => {
                let written = token.text(self.text);
                return Some((LiteralKind::String, written[2..written.len() - 2].to_string()));
            }
            TokenKind::Keyword(Keyword::Nan) => return Some((LiteralKind::Float, "NaN".to_string())),
            TokenKind::Keyword(Keyword::Infinity) => {
                return Some((LiteralKind::Float, "Infinity".to_string()));
            }
            TokenKind::Integer => LiteralKind::Integer,
            TokenKind::Float => LiteralKind::Float,
            TokenKind::Boolean => LiteralKind::Boolean,
            TokenKind::Uuid => LiteralKind::Uuid,
            TokenKind::Blob => LiteralKind::Blob,
            TokenKind::Duration => LiteralKind::Duration,
            _ => return None,
        };
        Some((kind, token.text(self.text).to_string()))
    }

    pub fn string(&mut self) -> Result<String> {
        match self.current.kind {
            TokenKind::String | TokenKind::DollarString => {
                let literal = self.literal();
                Ok(literal.map(|literal| literal.text).unwrap_or_default())
            }
            _ => Err(self.unexpected(Problem::Expecting(TokenKind::String.name()))),
        }
    }
}

/// Removes the quotes and replaces each doubled quote by one.
fn unquote(written: &str, quote: &str) -> String {
    let inner = &written[1..written.len() - 1];
    if inner.contains(quote) { inner.replace(&quote.repeat(2), quote) } else { inner.to_string() }
}
