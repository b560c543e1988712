//! Terms and relations as Cassandra shows them in errors: operators as calls, markers without names, null in
//! capitals. Source: `getText` of Cassandra 5.0's terms.

use syntax::{ArithmeticOp, InValues, LiteralKind, Relation, Term};

/// The text of a term.
pub fn of_term(term: &Term) -> String {
    match term {
        Term::Null(_) => "NULL".to_string(),
        Term::Marker(_) => "?".to_string(),
        Term::List { elements, .. } => format!("[{}]", of_terms(elements)),
        Term::Set { elements, .. } => format!("{{{}}}", of_terms(elements)),
        Term::Tuple { elements, .. } => format!("({})", of_terms(elements)),
        Term::Map { entries, .. } => {
            let each = entries.iter().map(|(key, value)| format!("{}: {}", of_term(key), of_term(value)));
            format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
        }
        Term::Udt { fields, .. } => {
            let each = fields.iter().map(|(field, value)| format!("{field}: {}", of_term(value)));
            format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
        }
        // A keyword, but here no name that needs quotes.
        Term::Call { name, args, .. } if name.keyspace.is_none() && name.name.text == "token" => {
            format!("token({})", of_terms(args))
        }
        Term::Call { name, args, .. } => format!("{name}({})", of_terms(args)),
        Term::Cast { term, ty, .. } => format!("system.cast_as_{ty}({})", of_term(term)),
        Term::Hint { ty, term, .. } => format!("({ty}){}", of_term(term)),
        Term::Arithmetic { op, left, right } => {
            let name = match op {
                ArithmeticOp::Add => "_add",
                ArithmeticOp::Subtract => "_substract",
                ArithmeticOp::Multiply => "_multiply",
                ArithmeticOp::Divide => "_divide",
                ArithmeticOp::Remainder => "_modulo",
            };
            format!("system.\"{name}\"({}, {})", of_term(left), of_term(right))
        }
        Term::Negate { term, .. } => format!("system.\"_negate\"({})", of_term(term)),
        // Without the second of two quotes.
        Term::Literal(literal) if literal.kind == LiteralKind::String => format!("'{}'", literal.text),
        Term::Literal(literal) => literal.to_string(),
    }
}

fn of_terms(terms: &[Term]) -> String {
    terms.iter().map(of_term).collect::<Vec<_>>().join(", ")
}

/// The text of a relation.
pub fn of_relation(relation: &Relation) -> String {
    match relation {
        Relation::Compare { target, op, value, .. } => format!("{target} {op} {}", of_term(value)),
        Relation::In { target, values: InValues::List(terms), .. } => {
            format!("{target} IN ({})", of_terms(terms))
        }
        Relation::In { target, values: InValues::Marker(_), .. } => format!("{target} IN ?"),
        other => other.to_string(),
    }
}
