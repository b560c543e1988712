//! Parses terms.

use super::{Parser, Result};
use crate::ast::{ArithmeticOp, Term, TypeName};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub fn term(&mut self) -> Result<Term> {
        self.left_associative(Self::product, Self::plus_or_minus, join)
    }

    fn product(&mut self) -> Result<Term> {
        self.left_associative(Self::signed_term, Self::times_or_by, join)
    }

    fn plus_or_minus(&mut self) -> Option<ArithmeticOp> {
        if self.in_assignment && self.at(TokenKind::Plus) && self.is_column_ahead() {
            return None;
        }
        self.additive_operator()
    }

    /// Whether the next token is a name and does not begin a function call.
    fn is_column_ahead(&self) -> bool {
        Self::is_name(self.ahead) && !matches!(self.third().kind, TokenKind::ParenOpen | TokenKind::Dot)
    }

    pub fn additive_operator(&mut self) -> Option<ArithmeticOp> {
        let op = match self.current.kind {
            TokenKind::Plus => ArithmeticOp::Add,
            TokenKind::Minus => ArithmeticOp::Subtract,
            _ => return None,
        };
        self.advance();
        Some(op)
    }

    pub fn times_or_by(&mut self) -> Option<ArithmeticOp> {
        let op = match self.current.kind {
            TokenKind::Star => ArithmeticOp::Multiply,
            TokenKind::Slash => ArithmeticOp::Divide,
            TokenKind::Percent => ArithmeticOp::Remainder,
            _ => return None,
        };
        self.advance();
        Some(op)
    }

    /// Parses a term with an optional sign and without operators.
    fn signed_term(&mut self) -> Result<Term> {
        if let Some(literal) = self.literal() {
            return Ok(Term::Literal(literal));
        }
        self.nested(|parser| {
            let start = parser.start();
            if parser.eat(TokenKind::Minus) {
                let term = Box::new(parser.signed_term()?);
                return Ok(Term::Negate { term, span: parser.span_from(start) });
            }
            parser.simple_term()
        })
    }

    fn simple_term(&mut self) -> Result<Term> {
        let start = self.start();
        match self.current.kind {
            TokenKind::Question | TokenKind::Colon => Ok(Term::Marker(self.marker()?)),
            TokenKind::Keyword(Keyword::Null) => Ok(Term::Null(self.advance().span)),
            TokenKind::BracketOpen => {
                let elements = self.enclosed(TokenKind::BracketOpen, TokenKind::BracketClose, Self::term)?;
                Ok(Term::List { elements, span: self.span_from(start) })
            }
            TokenKind::BraceOpen => self.braces(),
            TokenKind::ParenOpen => match self.type_in_parens()? {
                Some(ty) => {
                    let term = Box::new(self.signed_term()?);
                    Ok(Term::Hint { ty, term, span: self.span_from(start) })
                }
                None => self.tuple_term(),
            },
            TokenKind::Keyword(Keyword::Cast) if self.ahead_is(TokenKind::ParenOpen) => {
                self.advance();
                self.advance();
                let term = Box::new(self.term()?);
                self.expect_keyword(Keyword::As)?;
                let ty = self.type_name()?;
                self.expect(TokenKind::ParenClose)?;
                Ok(Term::Cast { term, ty, span: self.span_from(start) })
            }
            _ if self.at_call() => {
                let name = self.function_name()?;
                let args = self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, Self::term)?;
                Ok(Term::Call { name, args, span: self.span_from(start) })
            }
            _ => self.none_of("a value"),
        }
    }

    /// `(a, b)`, at least one element.
    pub fn tuple_term(&mut self) -> Result<Term> {
        let start = self.start();
        self.expect(TokenKind::ParenOpen)?;
        let elements = self.comma_separated(Self::term)?;
        self.expect(TokenKind::ParenClose)?;
        Ok(Term::Tuple { elements, span: self.span_from(start) })
    }

    /// Parses a set, a map or a UDT.
    fn braces(&mut self) -> Result<Term> {
        let start = self.start();
        if Self::is_name(self.ahead) && self.third().kind == TokenKind::Colon {
            let field = |parser: &mut Self| {
                let name = parser.ident()?;
                parser.expect(TokenKind::Colon)?;
                Ok((name, parser.term()?))
            };
            let fields = self.enclosed(TokenKind::BraceOpen, TokenKind::BraceClose, field)?;
            return Ok(Term::Udt { fields, span: self.span_from(start) });
        }
        self.expect(TokenKind::BraceOpen)?;
        if self.eat(TokenKind::BraceClose) {
            return Ok(Term::Set { elements: Vec::new(), span: self.span_from(start) });
        }
        let first = self.term()?;
        if !self.at(TokenKind::Colon) {
            let mut elements = vec![first];
            while self.eat(TokenKind::Comma) {
                elements.push(self.term()?);
            }
            self.expect(TokenKind::BraceClose)?;
            return Ok(Term::Set { elements, span: self.span_from(start) });
        }
        self.expect(TokenKind::Colon)?;
        let mut entries = vec![(first, self.term()?)];
        while self.eat(TokenKind::Comma) {
            let key = self.term()?;
            self.expect(TokenKind::Colon)?;
            entries.push((key, self.term()?));
        }
        self.expect(TokenKind::BraceClose)?;
        Ok(Term::Map { entries, span: self.span_from(start) })
    }

    /// Parses `'(' type ')'` before an operand that can have this type. Takes no token otherwise.
    ///
    /// Errors: `(name<` can only begin a type, so an invalid type after it is an error.
    pub fn type_in_parens(&mut self) -> Result<Option<TypeName>> {
        let may_be_type = match self.ahead.kind {
            TokenKind::String => self.third().kind == TokenKind::ParenClose,
            _ => Self::is_name(self.ahead) || self.ahead_is_keyword(Keyword::Set),
        };
        if !may_be_type {
            return Ok(None);
        }
        if self.third().kind == TokenKind::Less {
            self.advance();
            let ty = self.type_name()?;
            self.expect(TokenKind::ParenClose)?;
            return Ok(Some(ty));
        }
        Ok(self.attempt(|parser| {
            parser.advance();
            let ty = parser.type_name().ok()?;
            (parser.eat(TokenKind::ParenClose) && parser.at_operand()).then_some(ty)
        }))
    }

    /// Whether a clause of SELECT begins here whose first word may also be a name: after a relation such as
    /// `v = ('a')`. Not inlined, because terms are parsed recursively.
    #[inline(never)]
    fn at_clause(&self) -> bool {
        let clauses = [
            (Keyword::Per, Keyword::Partition),
            (Keyword::Group, Keyword::By),
            (Keyword::Bypass, Keyword::Cache),
        ];
        clauses.iter().any(|(first, second)| self.at_keyword(*first) && self.ahead_is_keyword(*second))
    }

    /// Whether an operand begins here, other than with a detached sign.
    fn at_operand(&self) -> bool {
        // `(a) AS b` is a selector with an alias.
        (self.at_name() && !self.at_keyword(Keyword::As) && !self.at_clause())
            || match self.current.kind {
                TokenKind::Keyword(keyword) => {
                    matches!(keyword, Keyword::Token | Keyword::Null | Keyword::Nan | Keyword::Infinity)
                }
                // A signed number is an operand only if the sign touches the number: `(a) - 1` is a
                // difference.
                TokenKind::Minus => {
                    matches!(
                        self.ahead.kind,
                        TokenKind::Integer
                            | TokenKind::Float
                            | TokenKind::Duration
                            | TokenKind::Keyword(Keyword::Nan | Keyword::Infinity)
                    ) && self.ahead.span.start == self.current.span.end
                }
                TokenKind::String
                | TokenKind::DollarString
                | TokenKind::Integer
                | TokenKind::Float
                | TokenKind::Boolean
                | TokenKind::Uuid
                | TokenKind::Blob
                | TokenKind::Duration
                | TokenKind::Question
                | TokenKind::BracketOpen
                | TokenKind::BraceOpen
                | TokenKind::ParenOpen => true,
                // `{(a): b}` is a map.
                TokenKind::Colon => {
                    Self::is_name(self.ahead) && self.ahead.span.start == self.current.span.end
                }
                _ => false,
            }
    }
}

fn join(op: ArithmeticOp, left: Term, right: Term) -> Term {
    Term::Arithmetic { op, left: Box::new(left), right: Box::new(right) }
}
