//! The white space of a dump: which values share a line.
//!
//! `sstabledump` switches the line breaks of objects and of arrays off and on while it prints, so a line may
//! break in the middle of an object: the two switches are kept here as it keeps them.
//! Source: Cassandra 4.1 `tools/JsonTransformer.java` and the pretty printer of Jackson that it configures.

use model::types::push_json_string;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Object,
    Array,
}

/// JSON text under construction, indented by two spaces a level.
pub(super) struct Layout {
    text: String,
    /// The open objects and arrays, each with whether it has an entry already.
    open: Vec<(Scope, bool)>,
    /// Entries of objects follow on the same line.
    pub(super) compact_objects: bool,
    /// Elements of arrays follow on the same line.
    pub(super) compact_arrays: bool,
}

impl Layout {
    pub(super) fn new() -> Self {
        Self { text: String::new(), open: vec![], compact_objects: false, compact_arrays: false }
    }

    /// What was printed since the last call.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    pub(super) fn begin_object(&mut self) {
        self.before_value();
        self.text.push('{');
        self.open.push((Scope::Object, false));
    }

    pub(super) fn end_object(&mut self) {
        self.end(Scope::Object, '}');
    }

    pub(super) fn begin_array(&mut self) {
        self.before_value();
        self.text.push('[');
        self.open.push((Scope::Array, false));
    }

    pub(super) fn end_array(&mut self) {
        self.end(Scope::Array, ']');
    }

    /// The name of an entry, whose value follows.
    pub(super) fn name(&mut self, name: &str) {
        self.begin_entry(Scope::Object);
        push_json_string(&mut self.text, name);
        self.text.push_str(" : ");
    }

    pub(super) fn string(&mut self, text: &str) {
        self.before_value();
        push_json_string(&mut self.text, text);
    }

    /// A value that is JSON already.
    pub(super) fn raw(&mut self, json: &str) {
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
        } else {
            self.text.push(' ');
        }
        self.text.push(bracket);
    }

    fn break_line(&mut self, scope: Scope) {
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
