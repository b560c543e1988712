//! Places in the text, and names.

/// Bytes `start..end` of the statement's text.
///
/// All spans are equal to each other, so that trees compare by what they say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// From the beginning of one to the end of the other.
    pub fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end }
    }
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

/// A name as the catalog has it: lower case, unless it was quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    pub text: String,
    pub span: Span,
}

impl Ident {
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A table, type, function, index or view, with its keyspace if the text has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    pub keyspace: Option<Ident>,
    pub name: Ident,
}

impl QualifiedName {
    pub fn span(&self) -> Span {
        self.keyspace.as_ref().map_or(self.name.span, |keyspace| keyspace.span.to(self.name.span))
    }
}
