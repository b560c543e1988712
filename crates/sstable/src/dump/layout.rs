//! The white space of a dump: decides which values share a line.
//!
//! `sstabledump` switches the line breaks of objects and of arrays off and on while it prints, so a line can
//! break in the middle of an object. The two switches are reproduced here. Source: Cassandra 4.1
//! `tools/JsonTransformer.java` and the pretty printer of Jackson that it configures.

use model::types::push_json_string;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Object,
    Array,
}

/// JSON text under construction, indented by two spaces per level.
pub(crate) struct Layout {
    text: String,
    /// The open objects and arrays, each with a flag whether it has an entry.
    open: Vec<(Scope, bool)>,
    /// Whether entries of objects are printed on the same line.
    pub(crate) compact_objects: bool,
    /// Whether elements of arrays are printed on the same line.
    pub(crate) compact_arrays: bool,
    /// Whether line breaks and spaces are omitted everywhere.
    pub(crate) minimal: bool,
}

impl Layout {
    pub(crate) fn new() -> Self {
        Self {
            text: String::new(),
            open: vec![],
            compact_objects: false,
            compact_arrays: false,
            minimal: false,
        }
    }

    /// The text printed since the last call.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    pub(crate) fn begin_object(&mut self) {
        self.before_value();
        self.text.push('{');
        self.open.push((Scope::Object, false));
    }

    pub(crate) fn end_object(&mut self) {
        self.end(Scope::Object, '}');
    }

    pub(crate) fn begin_array(&mut self) {
        self.before_value();
        self.text.push('[');
        self.open.push((Scope::Array, false));
    }

    pub(crate) fn end_array(&mut self) {
        self.end(Scope::Array, ']');
    }

    /// Prints the name of an entry. Its value must follow.
    pub(crate) fn name(&mut self, name: &str) {
        self.begin_entry(Scope::Object);
        push_json_string(&mut self.text, name);
        self.text.push_str(if self.minimal { ":" } else { " : " });
    }

    pub(crate) fn string(&mut self, text: &str) {
        self.before_value();
        push_json_string(&mut self.text, text);
    }

    /// Prints an entry with a text as its value.
    pub(crate) fn text_field(&mut self, name: &str, text: &str) {
        self.name(name);
        self.string(text);
    }

    /// Prints an entry whose value is JSON.
    pub(crate) fn raw_field(&mut self, name: &str, json: impl std::fmt::Display) {
        self.name(name);
        self.raw(&json.to_string());
    }

    /// Ends a document with a line feed; several documents may follow one another.
    pub(crate) fn end_line(&mut self) {
        assert!(self.open.is_empty(), "a document has ended");
        self.text.push('\n');
    }

    /// Prints a value that is JSON.
    pub(crate) fn raw(&mut self, json: &str) {
        self.before_value();
        self.text.push_str(json);
    }

    fn before_value(&mut self) {
        if matches!(self.open.last(), Some((Scope::Array, _))) {
            self.begin_entry(Scope::Array);
        }
    }

    fn begin_entry(&mut self, scope: Scope) {
        let (found, has_entries) = self.open.last_mut().expect("an entry is inside something");
        assert!(*found == scope, "only entries of objects have names");
        let is_first = !std::mem::replace(has_entries, true);
        if !is_first {
            self.text.push(',');
        }
        self.break_line(scope);
    }

    fn end(&mut self, scope: Scope, bracket: char) {
        let (found, has_entries) = self.open.pop().expect("what ends has begun");
        assert!(found == scope, "objects and arrays nest");
        if has_entries {
            self.break_line(scope);
        } else if !self.minimal {
            self.text.push(' ');
        }
        self.text.push(bracket);
    }

    fn break_line(&mut self, scope: Scope) {
        if self.minimal {
            return;
        }
        let compact = match scope {
            Scope::Object => self.compact_objects,
            Scope::Array => self.compact_arrays,
        };
        if compact {
            self.text.push(' ');
            return;
        }
        self.text.push('\n');
        for _ in 0..self.open.len() {
            self.text.push_str("  ");
        }
    }
}
