//! Text to syntax tree, and the parser's complaints in our words.

use datafusion_sql::sqlparser::ast::{Expr, Spanned};
use datafusion_sql::sqlparser::dialect::GenericDialect;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{self, Token, TokenWithSpan, Tokenizer};

use crate::error::{ErrorKind, ExprError};
use crate::excerpt::{Position, Span};
use crate::limits::MAX_DEPTH;

/// The syntax tree of an expression.
pub(crate) type Ast = Expr;

/// The tokens of a text and a bound of how deep they nest.
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<TokenWithSpan>,
    pub(crate) depth: usize,
}

/// How deep the parser may recurse: a second fence, should the bound on the tokens miss something.
/// One level of nesting costs the parser up to three of its own.
fn recursion_limit(depth: usize) -> usize {
    16 + 4 * depth
}

/// The tokens of a text, with their places.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, ExprError> {
    Tokenizer::new(&GenericDialect {}, text)
        .tokenize_with_location()
        .map_err(|error| {
            let span = Span::at(
                error.location.line.max(1) as usize,
                error.location.column.max(1) as usize,
            );
            syntax(sentence(&error.message), span, text)
        })
}

/// Parses one whole expression.
pub(crate) fn expression(tokens: Tokens, text: &str) -> Result<Ast, ExprError> {
    let dialect = GenericDialect {};
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(recursion_limit(tokens.depth))
        .with_tokens_with_locations(tokens.tokens);
    let ast = parser
        .parse_expr()
        .map_err(|error| parser_error(&error, text))?;
    let next = parser.peek_token();
    match &next.token {
        Token::EOF => Ok(ast),
        Token::Word(word) if word.value.eq_ignore_ascii_case("as") => {
            let message = "an expression has no AS, its name is given beside it".to_owned();
            Err(syntax(message, span_of(next.span), text))
        }
        found => {
            let message =
                format!("expected an operator or the end of the expression, found {found}");
            Err(syntax(message, span_of(next.span), text))
        }
    }
}

/// The stretch of text a syntax tree was made from, as far as the parser kept it.
pub(crate) fn span(ast: &Ast) -> Span {
    span_of(ast.span())
}

/// A span of the parser's in ours; the parser's empty span becomes the start of the text.
pub(crate) fn span_of(span: tokenizer::Span) -> Span {
    let position = |at: tokenizer::Location| Position {
        line: at.line as usize,
        column: at.column as usize,
    };
    if span.start.line == 0 {
        Span::START
    } else {
        Span {
            start: position(span.start),
            end: position(span.end),
        }
    }
}

fn parser_error(error: &ParserError, text: &str) -> ExprError {
    match error {
        ParserError::RecursionLimitExceeded => {
            ExprError::new(ErrorKind::TooDeep { max: MAX_DEPTH }, Span::START, text)
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            let (message, span) = split_location(message);
            let span = span.unwrap_or_else(|| end_of(text));
            // The parser names this token by its variant.
            let message = if message.starts_with("No infix parser for token") {
                format!("there is no operator {}", character_at(text, span.start))
            } else {
                sentence(message)
            };
            syntax(message, span, text)
        }
    }
}

fn syntax(message: String, span: Span, text: &str) -> ExprError {
    ExprError::new(ErrorKind::Syntax { message }, span, text)
}

/// The parser writes the place into its message, and none when it met the end of the text.
fn split_location(message: &str) -> (&str, Option<Span>) {
    let Some((head, place)) = message.rsplit_once(" at Line: ") else {
        return (message, None);
    };
    let Some((line, column)) = place.split_once(", Column: ") else {
        return (message, None);
    };
    match (line.parse(), column.parse()) {
        (Ok(line), Ok(column)) => (head, Some(Span::at(line, column))),
        _ => (message, None),
    }
}

/// "Expected: an expression, found: EOF" in the form of our messages.
fn sentence(message: &str) -> String {
    let message = message
        .trim()
        .trim_end_matches('.')
        .replace("Expected: ", "expected ")
        .replace("found: ", "found ");
    let message = match message.strip_suffix("found EOF") {
        Some(head) => format!("{head}found the end of the expression"),
        None => message,
    };
    let mut chars = message.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => "not an expression".into(),
    }
}

fn character_at(text: &str, at: Position) -> char {
    let line = text.split('\n').nth(at.line - 1).unwrap_or_default();
    line.chars().nth(at.column - 1).unwrap_or(' ')
}

/// Just after the last character.
fn end_of(text: &str) -> Span {
    let line = text.split('\n').count();
    let column = text
        .rsplit('\n')
        .next()
        .map_or(0, |last| last.chars().count())
        + 1;
    Span::at(line, column)
}
