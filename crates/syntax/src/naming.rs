//! Names of result columns without an alias.
//!
//! Names are written without quotes, whatever characters they contain. Functions are written with their
//! keyspace, or `system` if the text has no keyspace; markers are written as `?`. Source: Cassandra 4.1
//! `cql3/selection/Selectable.java` and the `toString` of its parts.

use std::fmt::{self, Write};

use super::ast::{Literal, LiteralKind, NativeType, QualifiedName, Selector, Term, TypeName, TypeNode};

impl Selector {
    /// The name of the result's column, such as `writetime(v)`, `system.token(k)`, `count`.
    pub fn column_name(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = selector(&mut out, self);
        out
    }
}

fn selector(out: &mut String, item: &Selector) -> fmt::Result {
    match item {
        Selector::Column(column) => out.write_str(&column.text),
        Selector::Literal(value) => literal(out, value),
        Selector::Null(_) => out.write_str("NULL"),
        Selector::Marker(_) => out.write_str("?"),
        Selector::CountRows(_) => out.write_str("count"),
        Selector::CellTime { what, of, .. } => {
            write!(out, "{}(", what.name())?;
            selector(out, of)?;
            out.write_str(")")
        }
        Selector::Call { name, args, .. } => {
            out.write_str(name.keyspace.as_ref().map_or("system", |keyspace| &keyspace.text))?;
            write!(out, ".{}", name.name.text)?;
            list(out, ("(", ")"), args, selector)
        }
        Selector::Cast { of, ty, .. } => {
            out.write_str("cast(")?;
            selector(out, of)?;
            match ty.node {
                TypeNode::Native(NativeType::Varchar) => out.write_str(" as text)"),
                _ => write!(out, " as {ty})"),
            }
        }
        Selector::Hint { ty, of, .. } => {
            hint(out, ty)?;
            selector(out, of)
        }
        Selector::Field { of, field } => {
            selector(out, of)?;
            write!(out, ".{}", field.text)
        }
        Selector::Element { of, key, .. } => {
            selector(out, of)?;
            out.write_str("[")?;
            term(out, key)?;
            out.write_str("]")
        }
        Selector::Slice { of, from, to, .. } => {
            selector(out, of)?;
            out.write_str("[")?;
            from.iter().try_for_each(|from| term(out, from))?;
            out.write_str("..")?;
            to.iter().try_for_each(|to| term(out, to))?;
            out.write_str("]")
        }
        Selector::Tuple { elements, .. } => list(out, ("(", ")"), elements, selector),
        Selector::List { elements, .. } => list(out, ("[", "]"), elements, selector),
        Selector::Set { elements, .. } => list(out, ("{", "}"), elements, selector),
        Selector::MapOrUdt { entries, .. } => list(out, ("{", "}"), entries, |out, (key, value)| {
            selector(out, key)?;
            out.write_str(": ")?;
            selector(out, value)
        }),
        Selector::Arithmetic { op, left, right } => {
            selector(out, left)?;
            write!(out, " {} ", op.symbol())?;
            selector(out, right)
        }
        Selector::Negate { of, .. } => {
            out.write_str("-")?;
            selector(out, of)
        }
    }
}

fn term(out: &mut String, item: &Term) -> fmt::Result {
    match item {
        Term::Literal(value) => literal(out, value),
        Term::Null(_) => out.write_str("NULL"),
        Term::Marker(_) => out.write_str("?"),
        Term::List { elements, .. } => list(out, ("[", "]"), elements, term),
        Term::Set { elements, .. } => list(out, ("{", "}"), elements, term),
        Term::Tuple { elements, .. } => list(out, ("(", ")"), elements, term),
        Term::Map { entries, .. } => list(out, ("{", "}"), entries, |out, (key, value)| {
            term(out, key)?;
            out.write_str(": ")?;
            term(out, value)
        }),
        Term::Udt { fields, .. } => list(out, ("{", "}"), fields, |out, (field, value)| {
            write!(out, "{}: ", field.text)?;
            term(out, value)
        }),
        Term::Call { name, args, .. } => {
            function(out, name)?;
            list(out, ("(", ")"), args, term)
        }
        Term::Hint { ty, term: of, .. } => {
            hint(out, ty)?;
            term(out, of)
        }
        Term::Cast { term: of, ty, .. } => {
            out.write_str("cast(")?;
            term(out, of)?;
            write!(out, " as {ty})")
        }
        Term::Arithmetic { op, left, right } => {
            term(out, left)?;
            write!(out, " {} ", op.symbol())?;
            term(out, right)
        }
        Term::Negate { term: of, .. } => {
            out.write_str("-")?;
            term(out, of)
        }
    }
}

fn list<T>(
    out: &mut String,
    (open, close): (&str, &str),
    items: &[T],
    each: impl Fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    out.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.write_str(", ")?;
        }
        each(out, item)?;
    }
    out.write_str(close)
}

fn function(out: &mut String, name: &QualifiedName) -> fmt::Result {
    if let Some(keyspace) = &name.keyspace {
        write!(out, "{}.", keyspace.text)?;
    }
    out.write_str(&name.name.text)
}

fn hint(out: &mut String, ty: &TypeName) -> fmt::Result {
    write!(out, "({ty})")
}

fn literal(out: &mut String, value: &Literal) -> fmt::Result {
    match value.kind {
        LiteralKind::String => write!(out, "'{}'", value.text),
        _ => out.write_str(&value.text),
    }
}

#[cfg(test)]
mod tests {
    use crate::ast::{Selection, Statement};
    use crate::parse;

    /// Checks the column names of `SELECT … FROM t`, separated by ` | `.
    #[track_caller]
    fn check(selection: &str, expect: &str) {
        let parsed = parse(&format!("SELECT {selection} FROM t")).unwrap();
        let Statement::Select(select) = parsed.statement else { panic!("{selection}") };
        let Selection::Items(items) = select.selection else { panic!("{selection}") };
        let names: Vec<String> = items.iter().map(|item| item.column_name()).collect();
        assert_eq!(names.join(" | "), expect);
    }

    #[test]
    fn columns_and_aliases() {
        check("a, B, \"C d\", json, distinct", "a | b | C d | json | distinct");
        check("a AS x, a AS \"X\", count(*) AS n", "x | X | n");
    }

    #[test]
    fn functions_have_their_keyspace() {
        check("COUNT(*), count(1), count(v)", "count | count | system.count(v)");
        check("token(k), TOKEN(a, b)", "system.token(k) | system.token(a, b)");
        check("writetime(v), TTL(V), maxwritetime(m)", "writetime(v) | ttl(v) | maxwritetime(m)");
        check("writetime(m['k']), ttl(u.f)", "writetime(m['k']) | ttl(u.f)");
        check("max(blobAsInt(v)), ks.F(a, 1)", "system.max(system.blobasint(v)) | ks.f(a, 1)");
        check("now()", "system.now()");
    }

    #[test]
    fn casts_and_hints() {
        check("CAST(a AS INT), cast(a as varchar)", "cast(a as int) | cast(a as text)");
        check(
            "(int)?, (map<text, int>){'a': 1}, (frozen<list<int>>)[]",
            "(int)? | (map<text, int>){'a': 1} | (frozen<list<int>>)[]",
        );
    }

    #[test]
    fn parts_of_values() {
        check(
            "u.F, u.a.b, m['k'], s[1..3], s[..?], s[now()..]",
            "u.f | u.a.b | m['k'] | s[1..3] | s[..?] | s[now()..]",
        );
        check(
            "(a, 1), [a, b], {a, b}, {}, {a: 1, b: c}, (a)",
            "(a, 1) | [a, b] | {a, b} | {} | {a: 1, b: c} | (a)",
        );
    }

    #[test]
    fn operations_and_constants() {
        check("a+b*-c, a%2, -a, - 1", "a + b * -c | a % 2 | -a | -1");
        check("'it''s', 1.5, 0xAb, null, TRUE, :n, NaN", "'it's' | 1.5 | 0xAb | NULL | TRUE | ? | NaN");
    }
}
