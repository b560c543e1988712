//! Colours: kinds of text, and the terminal's codes for them.

/// The kind of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    /// A string value.
    Text,
    /// Numbers, times, UUIDs, addresses, booleans.
    Scalar,
    Blob,
    Collection,
    Null,
    PartitionKey,
    ClusteringKey,
    StaticColumn,
    Column,
    Keyword,
    /// A string or quoted name of the input.
    Quoted,
    Number,
    Marker,
    Comment,
    Error,
    Warning,
}

impl Style {
    /// Parameters of the escape sequence that selects the style. Values and columns have the colours of
    /// cqlsh.
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Text => "33",
            Self::Scalar => "32",
            Self::Blob => "35",
            Self::Collection => "34",
            Self::Null | Self::Error => "1;31",
            Self::PartitionKey => "1;31",
            Self::ClusteringKey => "1;36",
            Self::StaticColumn => "1;37",
            Self::Column => "1;35",
            Self::Keyword => "1;34",
            Self::Quoted => "32",
            Self::Number => "36",
            Self::Marker => "35",
            Self::Comment => "2",
            Self::Warning => "33",
        }
    }
}

/// Appends the text, in its colour if `color`.
pub fn paint(out: &mut String, text: &str, style: Style, color: bool) {
    if !color || style == Style::Plain || text.is_empty() {
        out.push_str(text);
        return;
    }
    out.push_str("\x1b[");
    out.push_str(style.code());
    out.push('m');
    out.push_str(text);
    out.push_str("\x1b[0m");
}

/// Like [`paint`], but returns the text as a new string.
pub fn painted(text: &str, style: Style, color: bool) -> String {
    let mut out = String::new();
    paint(&mut out, text, style, color);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_around_the_text_or_nowhere() {
        assert_eq!(painted("null", Style::Null, true), "\x1b[1;31mnull\x1b[0m");
        assert_eq!(painted("null", Style::Null, false), "null");
        assert_eq!(painted("x", Style::Plain, true), "x");
        assert_eq!(painted("", Style::Text, true), "");
    }
}
