//! SELECT.

use super::{Parser, Result};
use crate::ast::{OrderBy, Ordering, Select, SelectItem, Selection, Term, Using};
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};

impl Parser<'_> {
    pub fn select(&mut self) -> Result<Select> {
        self.expect_keyword(Keyword::Select)?;
        let json = self.modifier(Keyword::Json);
        let distinct = self.modifier(Keyword::Distinct);
        let selection = self.selection()?;
        self.expect_keyword(Keyword::From)?;
        let table = self.qualified_name()?;
        let relations = if self.eat_keyword(Keyword::Where) { self.relations()? } else { Vec::new() };
        let group_by = if self.eat_keywords(Keyword::Group, Keyword::By) {
            self.comma_separated(Self::selector)?
        } else {
            Vec::new()
        };
        let order_by = if self.eat_keyword(Keyword::Order) {
            self.expect_keyword(Keyword::By)?;
            self.comma_separated(Self::order_by)?
        } else {
            Vec::new()
        };
        let per_partition_limit = if self.eat_keyword(Keyword::Per) {
            self.expect_keyword(Keyword::Partition)?;
            self.expect_keyword(Keyword::Limit)?;
            Some(self.integer_or_marker()?)
        } else {
            None
        };
        let limit = if self.eat_keyword(Keyword::Limit) { Some(self.integer_or_marker()?) } else { None };
        let allow_filtering = self.eat_keyword(Keyword::Allow);
        if allow_filtering {
            self.expect_keyword(Keyword::Filtering)?;
        }
        let bypass_cache = self.eat_keyword(Keyword::Bypass);
        if bypass_cache {
            self.expect_keyword(Keyword::Cache)?;
        }
        let using = self.using(&[Keyword::Timeout, Keyword::ServiceLevel])?;
        Ok(Select {
            json,
            distinct,
            selection,
            table,
            relations,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
            bypass_cache,
            using,
        })
    }

    /// Parses JSON or DISTINCT before a selection. Both can also be names of columns; the next token decides.
    /// If the next token can begin a selector, the word is a modifier, as in Cassandra: `JSON -v` negates
    /// `v`, and `JSON ['a']` is a list of one text. To subtract from or subscript a column of that name,
    /// quote the name.
    fn modifier(&mut self, keyword: Keyword) -> bool {
        if !self.at_keyword(keyword) {
            return false;
        }
        let modifies = match self.ahead.kind {
            TokenKind::Keyword(Keyword::From) => false,
            TokenKind::Keyword(Keyword::As) => self.ends_item(self.third()),
            TokenKind::Star => self.third().kind == TokenKind::Keyword(Keyword::From),
            TokenKind::Keyword(Keyword::Token | Keyword::Null | Keyword::Nan | Keyword::Infinity) => true,
            TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::Plus
            | TokenKind::Slash
            | TokenKind::Percent
            | TokenKind::Keyword(_)
                if !Self::is_name(self.ahead) =>
            {
                false
            }
            _ => true,
        };
        if modifies {
            self.advance();
        }
        modifies
    }

    fn ends_item(&self, token: Token) -> bool {
        matches!(token.kind, TokenKind::Comma | TokenKind::Keyword(Keyword::From))
    }

    pub fn selection(&mut self) -> Result<Selection> {
        if self.eat(TokenKind::Star) {
            return Ok(Selection::All);
        }
        Ok(Selection::Items(self.comma_separated(Self::select_item)?))
    }

    fn select_item(&mut self) -> Result<SelectItem> {
        let selector = self.selector()?;
        let alias = if self.eat_keyword(Keyword::As) { Some(self.ident()?) } else { None };
        Ok(SelectItem { selector, alias })
    }

    fn order_by(&mut self) -> Result<OrderBy> {
        let column = self.column_ident()?;
        let ann_of = if self.eat_keywords(Keyword::Ann, Keyword::Of) { Some(self.term()?) } else { None };
        let ordering = self.ordering().unwrap_or_default();
        Ok(OrderBy { column, ann_of, ordering })
    }

    /// Parses ASC or DESC, if one is next.
    pub fn ordering(&mut self) -> Option<Ordering> {
        if self.eat_keyword(Keyword::Asc) {
            return Some(Ordering::Ascending);
        }
        self.eat_keyword(Keyword::Desc).then_some(Ordering::Descending)
    }

    fn integer_or_marker(&mut self) -> Result<Term> {
        self.literal_or_marker(TokenKind::Integer)
    }

    /// Parses a literal of this kind, or a marker.
    fn literal_or_marker(&mut self, kind: TokenKind) -> Result<Term> {
        if self.at_marker() {
            return Ok(Term::Marker(self.marker()?));
        }
        let is_signed = self.at(TokenKind::Minus) && self.ahead_is(kind);
        match if is_signed || self.at(kind) { self.literal() } else { None } {
            Some(literal) => Ok(Term::Literal(literal)),
            None => self.none_of(&format!("{} or a bind marker", kind.name())),
        }
    }

    /// Parses `USING objective (AND objective)*`, or nothing. `allowed`: TIMESTAMP, TTL, TIMEOUT, SERVICE
    /// LEVEL. Statements that allow a TTL may repeat TTL and TIMESTAMP with literal values, as in Cassandra;
    /// the last one counts. Other objectives occur at most once.
    pub fn using(&mut self, allowed: &[Keyword]) -> Result<Using> {
        let mut using = Using::default();
        if !self.eat_keyword(Keyword::Using) {
            return Ok(using);
        }
        loop {
            let token = self.current;
            if allowed.contains(&Keyword::ServiceLevel) && self.eat_service_level() {
                if using.service_level.replace(self.level_name()?).is_some() {
                    return self.error_at(token.span, "SERVICE LEVEL is given twice");
                }
                if !self.eat_keyword(Keyword::And) {
                    return Ok(using);
                }
                continue;
            }
            let objective = match token.kind {
                TokenKind::Keyword(keyword) if allowed.contains(&keyword) => keyword,
                _ => {
                    let names: Vec<&str> = allowed.iter().map(|keyword| keyword.text()).collect();
                    return self.none_of(&names.join(" or "));
                }
            };
            self.advance();
            let (place, kind) = match objective {
                Keyword::Timestamp => (&mut using.timestamp, TokenKind::Integer),
                Keyword::Ttl => (&mut using.ttl, TokenKind::Integer),
                _ => (&mut using.timeout, TokenKind::Duration),
            };
            let value = self.literal_or_marker(kind)?;
            let repeats = allowed.contains(&Keyword::Ttl) && kind == TokenKind::Integer;
            if place.replace(value).is_some_and(|before| !repeats || matches!(before, Term::Marker(_))) {
                return self.error_at(token.span, &format!("{objective} is given twice"));
            }
            if !self.eat_keyword(Keyword::And) {
                return Ok(using);
            }
        }
    }
}
