//! CQL text: lexer, syntax tree, parser.
