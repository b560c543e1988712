//! Laws: every statement prints as itself, and no text makes the parser panic.

use proptest::prelude::*;

use super::{corpus, parsed};
use crate::ast::{
    ArithmeticOp, Ident, InsertValues, Literal, LiteralKind, NativeType, QualifiedName, SelectItem,
    Selection, Selector, Span, Statement, Term, TypeName, TypeNode,
};
use crate::{Keyword, TokenKind, parse, split_statements, tokens};

#[test]
fn the_corpus_prints_as_itself() {
    for text in corpus() {
        let first = parsed(text);
        let printed = first.statement.to_string();
        if matches!(first.statement, Statement::Unsupported(_)) || printed.contains('…') {
            continue;
        }
        assert_eq!(parsed(&printed), first, "{text}\n{printed}");
    }
}

#[test]
fn every_beginning_of_the_corpus_is_an_error_or_a_statement() {
    for text in corpus() {
        for (end, _) in text.char_indices() {
            check_any(&text[..end]);
        }
    }
}

#[test]
fn the_corpus_as_one_script() {
    let statements: Vec<&str> = corpus().collect();
    let script = statements.join("\n;\n");
    let parts = split_statements(&script);
    let trimmed: Vec<&str> = statements.iter().map(|text| text.trim_end_matches([';', ' '])).collect();
    let found: Vec<&str> = parts.iter().map(|part| part.text).collect();
    let without_remark =
        |text: &str| text.split(" -- ").next().unwrap().split(" // ").next().unwrap().to_string();
    assert_eq!(found, trimmed.iter().map(|text| without_remark(text)).collect::<Vec<_>>());
}

/// Checks that, for any text, the tokens cover it in order, and that a parse error contains a position.
fn check_any(text: &str) {
    let mut end = 0;
    for token in tokens(text) {
        let (start, token_end) = (token.span.start as usize, token.span.end as usize);
        assert!(text[end..start].chars().all(|c| " \t\r\n".contains(c)), "{text:?}");
        assert!(start < token_end && token.kind != TokenKind::End, "{text:?}");
        end = token_end;
    }
    assert!(text[end..].trim_matches([' ', '\t', '\r', '\n']).is_empty());
    for part in split_statements(text) {
        assert!(text[part.start..].starts_with(part.text));
    }
    match parse(text) {
        Err(error) => {
            // Rules that Cassandra checks after parsing have texts without a position.
            let rules = [
                "Only expressions of",
                "Invalid (reserved)",
                "Multiple definition",
                "frozen<> is",
                "vectors may",
            ];
            let error = error.to_string();
            let is_rule = rules.iter().any(|rule| error.starts_with(rule));
            assert!(is_rule || error.starts_with("line "), "{text:?}: {error}");
        }
        Ok(parsed) => {
            let printed = parsed.statement.to_string();
            let skipped = matches!(parsed.statement, Statement::Unsupported(_)) || printed.contains('…');
            assert!(
                skipped || parse(&printed).as_ref() == Ok(&parsed),
                "{text:?}\n{printed:?}\n{:?}",
                parse(&printed)
            );
        }
    }
}

fn word() -> impl Strategy<Value = String> + Clone {
    let keyword = (0..Keyword::ALL.len()).prop_map(|i| Keyword::ALL[i].text().to_string());
    let sign = proptest::sample::select(
        "( ) [ ] { } < > <= >= = != , ; : :: ? . .. + - += -= * / % 1 -1 1.5 'a' '' \"B\" $$c$$ 1h P1D 0xff a b ks t \
         -- // /* */ ' \" $ 550e8400-e29b-41d4-a716-446655440000 int list<int> é"
            .split(' ')
            .map(str::to_string)
            .collect::<Vec<_>>(),
    );
    prop_oneof![2 => keyword, 3 => sign]
}

fn ident() -> impl Strategy<Value = Ident> + Clone {
    proptest::sample::select(vec![
        "a", "b2", "key", "B", "select", "x y", "q\"q", "ttl", "true", "text", "token", "p1d",
    ])
    .prop_map(|text| Ident { text: text.to_string(), span: Span::default() })
}

fn qualified() -> impl Strategy<Value = QualifiedName> + Clone {
    (proptest::option::of(ident()), ident()).prop_map(|(keyspace, name)| QualifiedName { keyspace, name })
}

fn literal() -> impl Strategy<Value = Literal> + Clone {
    use LiteralKind::*;
    proptest::sample::select(vec![
        (String, "it's"),
        (String, ""),
        (String, "$$é;"),
        (Integer, "1"),
        (Integer, "-12345678901234567890"),
        (Float, "1."),
        (Float, "-1.5e-7"),
        (Float, "NaN"),
        (Float, "-Infinity"),
        (Boolean, "True"),
        (Uuid, "deadbeef-e29b-41d4-a716-446655440000"),
        (Blob, "0x"),
        (Blob, "0XaB"),
        (Duration, "-1y2mo"),
        (Duration, "P1DT5S"),
        (Duration, "P0001-02-03T04:05:06"),
    ])
    .prop_map(|(kind, text)| Literal { kind, text: text.to_string(), span: Span::default() })
}

fn native_type_name() -> impl Strategy<Value = TypeName> + Clone {
    let native = proptest::sample::select(NativeType::ALL.to_vec());
    native.prop_map(|native| TypeName { node: TypeNode::Native(native), span: Span::default() })
}

fn type_name() -> impl Strategy<Value = TypeName> + Clone {
    let named = |node| TypeName { node, span: Span::default() };
    let leaf = prop_oneof![
        proptest::sample::select(NativeType::ALL.to_vec()).prop_map(TypeNode::Native),
        qualified().prop_map(TypeNode::User),
        proptest::sample::select(vec!["org.x", "it's"]).prop_map(|class| TypeNode::Custom(class.to_string())),
    ]
    .prop_map(named);
    leaf.prop_recursive(4, 12, 3, move |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed.clone().prop_map(TypeNode::List),
            boxed.clone().prop_map(TypeNode::Set),
            // A native type cannot be frozen.
            boxed.clone().prop_map(|inner| match inner.node {
                TypeNode::Native(_) => TypeNode::List(inner),
                _ => TypeNode::Frozen(inner),
            }),
            (boxed.clone(), boxed.clone()).prop_map(|(key, value)| TypeNode::Map(key, value)),
            (boxed.clone(), 0..u32::MAX)
                .prop_map(|(element, dimension)| TypeNode::Vector(element, dimension)),
            proptest::collection::vec(inner, 1..4).prop_map(TypeNode::Tuple),
        ]
        .prop_map(named)
    })
}

fn op() -> impl Strategy<Value = ArithmeticOp> + Clone {
    use ArithmeticOp::*;
    proptest::sample::select(vec![Add, Subtract, Multiply, Divide, Remainder])
}

/// Encloses a term in parentheses where it is an operand and binds less tightly.
fn operand(term: Term) -> Term {
    match term {
        Term::Arithmetic { .. } => Term::Tuple { elements: vec![term], span: Span::default() },
        term => term,
    }
}

fn term() -> impl Strategy<Value = Term> + Clone {
    let span = Span::default();
    let leaf = prop_oneof![literal().prop_map(Term::Literal), Just(Term::Null(span))];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        let list = |from: usize| proptest::collection::vec(inner.clone(), from..4);
        let pairs = proptest::collection::vec((inner.clone(), inner.clone()), 1..4);
        let boxed = inner.clone().prop_map(|term| Box::new(operand(term)));
        prop_oneof![
            list(0).prop_map(move |elements| Term::List { elements, span }),
            list(0).prop_map(move |elements| Term::Set { elements, span }),
            list(1).prop_map(move |elements| Term::Tuple { elements, span }),
            pairs.prop_map(move |entries| Term::Map { entries, span }),
            proptest::collection::vec((ident(), inner.clone()), 1..4)
                .prop_map(move |fields| Term::Udt { fields, span }),
            (qualified(), list(0)).prop_map(move |(name, args)| Term::Call { name, args, span }),
            (boxed.clone(), type_name()).prop_map(move |(term, ty)| Term::Cast { term, ty, span }),
            // A sign belongs to the term or precedes the type.
            (boxed.clone(), type_name())
                .prop_filter("sign", |(term, _)| !matches!(**term, Term::Negate { .. }))
                .prop_map(move |(term, ty)| Term::Hint { term, ty, span }),
            (op(), boxed.clone(), boxed.clone()).prop_map(|(op, left, right)| Term::Arithmetic {
                op,
                left,
                right
            }),
            boxed
                .prop_filter("a literal", |term| !matches!(**term, Term::Literal(_)))
                .prop_map(move |term| Term::Negate { term, span }),
        ]
    })
}

fn selector() -> impl Strategy<Value = Selector> + Clone {
    let span = Span::default();
    let leaf = prop_oneof![
        ident().prop_map(Selector::Column),
        ident().prop_map(Selector::Column),
        literal().prop_map(Selector::Literal),
        Just(Selector::Null(span)),
        Just(Selector::CountRows(span)),
    ];
    leaf.prop_recursive(5, 30, 4, move |inner| {
        let list = |from: usize| proptest::collection::vec(inner.clone(), from..4);
        let boxed = inner.clone().prop_map(Box::new);
        let column = ident().prop_map(|column| Box::new(Selector::Column(column)));
        let tuple = list(2).prop_map(move |elements| Selector::Tuple { elements, span });
        let simple = prop_oneof![tuple, ident().prop_map(Selector::Column)].prop_map(Box::new);
        prop_oneof![
            list(0).prop_map(move |elements| Selector::List { elements, span }),
            list(0).prop_map(move |elements| Selector::Set { elements, span }),
            list(2).prop_map(move |elements| Selector::Tuple { elements, span }),
            proptest::collection::vec((inner.clone(), inner.clone()), 1..3)
                .prop_map(move |entries| Selector::MapOrUdt { entries, span }),
            // COUNT of a constant is a different node.
            (qualified(), list(2)).prop_map(move |(name, args)| Selector::Call { name, args, span }),
            (boxed, native_type_name()).prop_map(move |(of, ty)| Selector::Cast { of, ty, span }),
            (column.clone(), type_name()).prop_map(move |(of, ty)| Selector::Hint { of, ty, span }),
            (column.clone(), ident()).prop_map(|(of, field)| Selector::Field { of, field }),
            (column.clone(), term()).prop_map(move |(of, key)| Selector::Element { of, key, span }),
            (column.clone(), term(), proptest::option::of(term()))
                .prop_map(move |(of, from, to)| Selector::Slice { of, from: Some(from), to, span }),
            (op(), simple.clone(), simple).prop_map(|(op, left, right)| Selector::Arithmetic {
                op,
                left,
                right
            }),
            column.prop_map(move |of| Selector::Negate { of, span }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_words_are_an_error_or_a_statement(words in proptest::collection::vec(word(), 0..24), glue in 0..3) {
        check_any(&words.join(if glue == 0 { "" } else { " " }));
    }

    #[test]
    fn any_change_of_a_statement_is_an_error_or_a_statement(
        line in any::<proptest::sample::Index>(),
        at in any::<proptest::sample::Index>(),
        removed in 0..3_usize,
        word in word(),
    ) {
        let lines: Vec<&str> = corpus().collect();
        let pieces: Vec<&str> = line.get(&lines).split_inclusive([' ', '(', ')', ',']).collect();
        let at = at.index(pieces.len());
        let after = (at + removed).min(pieces.len());
        check_any(&format!("{}{word} {}", pieces[..at].concat(), pieces[after..].concat()));
    }

    #[test]
    fn any_characters_are_an_error_or_a_statement(text in "\\PC{0,40}") {
        check_any(&text);
    }

    #[test]
    fn a_term_prints_as_itself(term in term()) {
        let text = format!("INSERT INTO t (a) VALUES ({term})");
        let parsed = parse(&text).map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        let Statement::Insert(insert) = parsed.statement else { panic!() };
        let InsertValues::Columns { values, .. } = insert.values else { panic!() };
        prop_assert_eq!(&values[0], &term, "{}", text);
    }

    #[test]
    fn a_selector_prints_as_itself(selector in selector()) {
        let text = format!("SELECT x, {selector} AS a FROM t");
        let parsed = parse(&text).map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        let Statement::Select(select) = parsed.statement else { panic!() };
        let Selection::Items(items) = select.selection else { panic!() };
        let SelectItem { selector: found, .. } = &items[1];
        prop_assert_eq!(found, &selector, "{}", text);
        found.column_name();
    }

    #[test]
    fn a_type_prints_as_itself(ty in type_name()) {
        let text = format!("CREATE TYPE u (a {ty})");
        let parsed = parse(&text).map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        let Statement::CreateType(create) = parsed.statement else { panic!() };
        prop_assert_eq!(&create.fields[0].1, &ty, "{}", text);
    }
}
