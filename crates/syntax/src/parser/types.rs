//! Parses types.

use super::{Parser, Result};
use crate::ast::{Ident, NativeType, QualifiedName, TypeName, TypeNode};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// Names that user-defined types must not have, because they are reserved for future types.
pub const KEPT_TYPE_NAMES: &[&str] = &["byte", "complex", "enum", "date", "interval", "macaddr", "bitstring"];

impl Parser<'_> {
    pub fn type_name(&mut self) -> Result<TypeName> {
        self.nested(|parser| {
            let start = parser.start();
            let node = parser.type_node()?;
            Ok(TypeName { node, span: parser.span_from(start) })
        })
    }

    fn type_node(&mut self) -> Result<TypeNode> {
        if self.at(TokenKind::String) {
            return Ok(TypeNode::Custom(self.string()?));
        }
        if let TokenKind::Keyword(keyword) = self.current.kind {
            if let Some(native) = native_type(keyword)
                && !self.ahead_is(TokenKind::Dot)
            {
                self.advance();
                return Ok(TypeNode::Native(native));
            }
            if self.ahead_is(TokenKind::Less) {
                return self.parametrized_type(keyword);
            }
        }
        if !self.at_name() {
            return self.none_of("a type");
        }
        Ok(TypeNode::User(self.user_type_name()?))
    }

    fn parametrized_type(&mut self, keyword: Keyword) -> Result<TypeNode> {
        let boxed = |parser: &mut Self| parser.type_name().map(Box::new);
        if !matches!(
            keyword,
            Keyword::Frozen | Keyword::List | Keyword::Set | Keyword::Map | Keyword::Tuple | Keyword::Vector
        ) {
            return self.none_of("a type");
        }
        self.advance();
        self.expect(TokenKind::Less)?;
        let node = match keyword {
            Keyword::Frozen => {
                let inner = boxed(self)?;
                if let TypeNode::Native(_) = inner.node {
                    let text = format!(
                        "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
                    );
                    return self.refuse(&text);
                }
                TypeNode::Frozen(inner)
            }
            Keyword::List => TypeNode::List(boxed(self)?),
            Keyword::Set => TypeNode::Set(boxed(self)?),
            Keyword::Map => {
                let key = boxed(self)?;
                self.expect(TokenKind::Comma)?;
                TypeNode::Map(key, boxed(self)?)
            }
            Keyword::Tuple => TypeNode::Tuple(self.comma_separated(Self::type_name)?),
            _ => {
                let element = boxed(self)?;
                self.expect(TokenKind::Comma)?;
                TypeNode::Vector(element, self.dimension()?)
            }
        };
        self.expect(TokenKind::Greater)?;
        Ok(node)
    }

    fn dimension(&mut self) -> Result<u32> {
        if self.eat(TokenKind::Minus) {
            let token = self.expect(TokenKind::Integer)?;
            let text = token.text(self.text);
            let message = format!("vectors may only have positive dimensions; given -{text}");
            return Err(self.error(|_| protocol::CqlError::Invalid(message)));
        }
        let token = self.expect(TokenKind::Integer)?;
        match token.text(self.text).parse() {
            Ok(dimension) => Ok(dimension),
            Err(_) => self.error_at(token.span, "a vector's dimension must be less than 4294967296"),
        }
    }

    /// `(keyspace '.')? name`, where the name is not that of a built-in type.
    pub fn user_type_name(&mut self) -> Result<QualifiedName> {
        self.qualified(Self::user_type_ident)
    }

    fn user_type_ident(&mut self) -> Result<Ident> {
        let token = self.current;
        if let TokenKind::Keyword(keyword) = token.kind
            && !keyword.names_type()
        {
            return self.none_of("a user-defined type's name");
        }
        let name = self.ident()?;
        if token.kind == TokenKind::Word && KEPT_TYPE_NAMES.contains(&name.as_str()) {
            return self.refuse(&format!("Invalid (reserved) user type name {}", name.text));
        }
        Ok(name)
    }
}

fn native_type(keyword: Keyword) -> Option<NativeType> {
    Some(match keyword {
        Keyword::Ascii => NativeType::Ascii,
        Keyword::BigInt => NativeType::BigInt,
        Keyword::Blob => NativeType::Blob,
        Keyword::Boolean => NativeType::Boolean,
        Keyword::Counter => NativeType::Counter,
        Keyword::Date => NativeType::Date,
        Keyword::Decimal => NativeType::Decimal,
        Keyword::Double => NativeType::Double,
        Keyword::Duration => NativeType::Duration,
        Keyword::Float => NativeType::Float,
        Keyword::Inet => NativeType::Inet,
        Keyword::Int => NativeType::Int,
        Keyword::SmallInt => NativeType::SmallInt,
        Keyword::Text => NativeType::Text,
        Keyword::Time => NativeType::Time,
        Keyword::Timestamp => NativeType::Timestamp,
        Keyword::TimeUuid => NativeType::TimeUuid,
        Keyword::TinyInt => NativeType::TinyInt,
        Keyword::Uuid => NativeType::Uuid,
        Keyword::Varchar => NativeType::Varchar,
        Keyword::Varint => NativeType::Varint,
        _ => return None,
    })
}
