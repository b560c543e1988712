//! Positions in the text, and names.

/// Bytes `start..end` of the statement's text.
///
/// All spans compare as equal, so that trees are compared without their positions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// The span from the start of `self` to the end of `last`.
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

/// A name as in the catalog: lower case, unless it was quoted.
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

/// The name of a table, type, function, index or view, with its keyspace if the text contains one.
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
