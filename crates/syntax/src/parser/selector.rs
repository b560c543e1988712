//! Parses selectors: terms that may contain columns.

use super::{Parser, Result};
use crate::ast::{ArithmeticOp, CellTime, Selector, TypeNode};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub fn selector(&mut self) -> Result<Selector> {
        self.left_associative(Self::selector_product, Self::additive_operator, join)
    }

    fn selector_product(&mut self) -> Result<Selector> {
        self.left_associative(Self::signed_selector, Self::times_or_by, join)
    }

    fn signed_selector(&mut self) -> Result<Selector> {
        let start = self.start();
        if let Some(literal) = self.literal() {
            return Ok(Selector::Literal(literal));
        }
        if self.at(TokenKind::Minus) {
            return self.nested(|parser| {
                parser.advance();
                let of = Box::new(parser.signed_selector()?);
                Ok(Selector::Negate { of, span: parser.span_from(start) })
            });
        }
        let operand = self.nested(Self::selector_operand)?;
        self.selector_path(operand, start)
    }

    /// Parses any number of `.field`, `[key]` and `[from..to]`.
    fn selector_path(&mut self, mut of: Selector, start: u32) -> Result<Selector> {
        let mut height = self.height;
        loop {
            of = match self.current.kind {
                TokenKind::Dot => {
                    self.advance();
                    Selector::Field { of: Box::new(of), field: self.ident()? }
                }
                TokenKind::BracketOpen => self.nested(|parser| parser.subscript(of, start))?,
                _ => break,
            };
            height = height.max(self.height) + 1;
            self.height = height;
            if self.depth + height > super::MAX_DEPTH {
                return Err(self.too_deep());
            }
        }
        Ok(of)
    }

    fn subscript(&mut self, of: Selector, start: u32) -> Result<Selector> {
        let of = Box::new(of);
        self.expect(TokenKind::BracketOpen)?;
        let from = if self.at(TokenKind::DotDot) { None } else { Some(self.term()?) };
        if !self.eat(TokenKind::DotDot) {
            self.expect(TokenKind::BracketClose)?;
            let span = self.span_from(start);
            return Ok(match from {
                Some(key) => Selector::Element { of, key, span },
                None => Selector::Slice { of, from: None, to: None, span },
            });
        }
        let to = if from.is_some() && self.at(TokenKind::BracketClose) { None } else { Some(self.term()?) };
        self.expect(TokenKind::BracketClose)?;
        Ok(Selector::Slice { of, from, to, span: self.span_from(start) })
    }

    /// Parses an operand: a selector without sign, operators, fields or subscripts.
    fn selector_operand(&mut self) -> Result<Selector> {
        let start = self.start();
        match self.current.kind {
            TokenKind::Question | TokenKind::Colon => Ok(Selector::Marker(self.marker()?)),
            TokenKind::Keyword(Keyword::Null) => Ok(Selector::Null(self.advance().span)),
            TokenKind::BracketOpen => {
                let elements =
                    self.enclosed(TokenKind::BracketOpen, TokenKind::BracketClose, Self::selector)?;
                Ok(Selector::List { elements, span: self.span_from(start) })
            }
            TokenKind::BraceOpen => self.selector_braces(),
            TokenKind::ParenOpen => match self.type_in_parens()? {
                Some(ty) => {
                    let of = match self.literal() {
                        Some(literal) => Selector::Literal(literal),
                        None => self.nested(Self::selector_operand)?,
                    };
                    Ok(Selector::Hint { ty, of: Box::new(of), span: self.span_from(start) })
                }
                None => {
                    self.expect(TokenKind::ParenOpen)?;
                    let elements = self.comma_separated(Self::selector)?;
                    self.expect(TokenKind::ParenClose)?;
                    Ok(Selector::Tuple { elements, span: self.span_from(start) })
                }
            },
            TokenKind::Keyword(keyword) if self.ahead_is(TokenKind::ParenOpen) => match keyword {
                Keyword::Cast => self.cast_selector(),
                Keyword::WriteTime => self.cell_time(CellTime::WriteTime),
                Keyword::MaxWriteTime => self.cell_time(CellTime::MaxWriteTime),
                Keyword::Ttl => self.cell_time(CellTime::Ttl),
                Keyword::Count => self.count(),
                _ => self.call_or_column(),
            },
            _ => self.call_or_column(),
        }
    }

    fn call_or_column(&mut self) -> Result<Selector> {
        if !self.at_call() {
            return if self.at_name() {
                Ok(Selector::Column(self.column_ident()?))
            } else {
                self.none_of("a column, function or value")
            };
        }
        let start = self.start();
        let name = self.function_name()?;
        let args = self.enclosed(TokenKind::ParenOpen, TokenKind::ParenClose, Self::selector)?;
        Ok(Selector::Call { name, args, span: self.span_from(start) })
    }

    fn cast_selector(&mut self) -> Result<Selector> {
        let start = self.start();
        self.expect_keyword(Keyword::Cast)?;
        self.expect(TokenKind::ParenOpen)?;
        let of = Box::new(self.selector()?);
        self.expect_keyword(Keyword::As)?;
        let ty = self.type_name()?;
        if !matches!(ty.node, TypeNode::Native(_)) {
            return self.error_at(ty.span, "CAST converts to a native type");
        }
        self.expect(TokenKind::ParenClose)?;
        Ok(Selector::Cast { of, ty, span: self.span_from(start) })
    }

    fn cell_time(&mut self, what: CellTime) -> Result<Selector> {
        let start = self.start();
        self.advance();
        self.expect(TokenKind::ParenOpen)?;
        let column_start = self.start();
        let column = Selector::Column(self.column_ident()?);
        let of = Box::new(self.selector_path(column, column_start)?);
        self.expect(TokenKind::ParenClose)?;
        Ok(Selector::CellTime { what, of, span: self.span_from(start) })
    }

    /// `COUNT(*)`, `COUNT(1)`, `COUNT(v)`
    fn count(&mut self) -> Result<Selector> {
        let start = self.start();
        if self.third().kind != TokenKind::Star {
            return Ok(match self.call_or_column()? {
                Selector::Call { args, span, .. } if matches!(args[..], [Selector::Literal(_)]) => {
                    Selector::CountRows(span)
                }
                call => call,
            });
        }
        self.expect_keyword(Keyword::Count)?;
        self.expect(TokenKind::ParenOpen)?;
        self.expect(TokenKind::Star)?;
        self.expect(TokenKind::ParenClose)?;
        Ok(Selector::CountRows(self.span_from(start)))
    }

    /// Parses a set, a map or a UDT.
    fn selector_braces(&mut self) -> Result<Selector> {
        let start = self.start();
        self.expect(TokenKind::BraceOpen)?;
        if self.eat(TokenKind::BraceClose) {
            return Ok(Selector::Set { elements: Vec::new(), span: self.span_from(start) });
        }
        let first = self.selector()?;
        if !self.at(TokenKind::Colon) {
            let mut elements = vec![first];
            while self.eat(TokenKind::Comma) {
                elements.push(self.selector()?);
            }
            self.expect(TokenKind::BraceClose)?;
            return Ok(Selector::Set { elements, span: self.span_from(start) });
        }
        self.expect(TokenKind::Colon)?;
        let mut entries = vec![(first, self.selector()?)];
        while self.eat(TokenKind::Comma) {
            let key = self.selector()?;
            self.expect(TokenKind::Colon)?;
            entries.push((key, self.selector()?));
        }
        self.expect(TokenKind::BraceClose)?;
        Ok(Selector::MapOrUdt { entries, span: self.span_from(start) })
    }
}

fn join(op: ArithmeticOp, left: Selector, right: Selector) -> Selector {
    Selector::Arithmetic { op, left: Box::new(left), right: Box::new(right) }
}
