//! Bounds that hold before any recursive code sees the text (docs/spec/bad-input.md, row "SQL /
//! expressions").
//!
//! The parser and the planner of the SQL library recurse, and so does dropping their trees. A stack
//! overflow kills the process, so depth is bounded on the token stream first, by a loop, and what
//! is deep but allowed is compiled on a stack made for it.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{ErrorKind, ExprError};
use crate::excerpt::Span;
use crate::parse;

/// Longest text of an expression.
pub const MAX_LENGTH_BYTES: usize = 256 * 1024;

/// Deepest nesting: parentheses, brackets, CASE, and the operators of a chain (`a + b + c` is two
/// deep).
pub const MAX_DEPTH: usize = 128;

/// Up to this depth the caller's stack, of 2 MiB or more, suffices by a wide margin.
const SHALLOW_DEPTH: usize = 24;

/// Stack for what is deeper: about 250 KiB a level, ten times what was measured in an unoptimised
/// build.
const DEEP_STACK_BYTES: usize = 32 * 1024 * 1024;

/// Runs `compile` on the tokens of `text` if they are within bounds; a panic inside becomes an
/// error.
pub(crate) fn guarded<T, F>(text: &str, compile: F) -> Result<T, ExprError>
where
    T: Send,
    F: FnOnce(parse::Tokens) -> Result<T, ExprError> + Send,
{
    if text.len() > MAX_LENGTH_BYTES {
        let kind = ErrorKind::TooLong {
            length_bytes: text.len(),
            max_bytes: MAX_LENGTH_BYTES,
        };
        return Err(ExprError::new(kind, Span::START, ""));
    }
    let tokens = parse::tokens(text)?;
    let depth = depth(&tokens)
        .map_err(|span| ExprError::new(ErrorKind::TooDeep { max: MAX_DEPTH }, span, text))?;
    let tokens = parse::Tokens { tokens, depth };
    let outcome = if depth <= SHALLOW_DEPTH {
        // Nothing of ours is shared with the closure, so nothing can be seen half-changed.
        panic::catch_unwind(AssertUnwindSafe(|| compile(tokens)))
    } else {
        on_deep_stack(|| compile(tokens))
    };
    outcome.unwrap_or_else(|payload| {
        let kind = ErrorKind::Internal {
            message: panic_message(payload.as_ref()),
        };
        Err(ExprError::new(kind, Span::START, text))
    })
}

/// Runs `work` on a thread with a large stack and waits for it: the caller sees a plain call.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> thread::Result<T> {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("compile-expression".into())
            .stack_size(DEEP_STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|error| {
                Box::new(format!("no thread for a deep expression: {error}")) as Box<dyn Any + Send>
            })?
            .join()
    })
}

/// The words of a panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let words = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(payload.downcast_ref::<&str>().copied());
    crate::error::shortened(words.unwrap_or("no message"), 200)
}

/// An upper bound of the depth of the tree the parser will build, or the place where it becomes too
/// deep.
fn depth(tokens: &[TokenWithSpan]) -> Result<usize, Span> {
    let mut meter = Meter::new();
    let mut deepest = 0;
    for token in tokens {
        meter.read(&token.token);
        deepest = deepest.max(meter.depth);
        if deepest > MAX_DEPTH {
            return Err(parse::span_of(token.span));
        }
    }
    Ok(deepest)
}

/// Follows the nesting of a token stream.
///
/// Each open bracket or CASE is a level, and each operator since the last separator of its level
/// is one more, because a chain of binary operators becomes a tree as deep as the chain is long.
/// Text made to deceive (`a + then + then`, with words of CASE as names) must only ever count more.
struct Meter {
    levels: Vec<Level>,
    /// All levels but the outermost, and the operators of all.
    depth: usize,
    /// Whether an operand is expected next, so that a word is a name whatever it says.
    before_operand: bool,
}

#[derive(Default)]
struct Level {
    is_case: bool,
    operators: usize,
}

impl Meter {
    fn new() -> Self {
        Self {
            levels: vec![Level::default()],
            depth: 0,
            before_operand: true,
        }
    }

    fn read(&mut self, token: &Token) {
        match token {
            Token::Whitespace(_) => {}
            Token::LParen | Token::LBrace => self.open(false),
            // `a[1][1][1]` nests to the left although each bracket is closed again.
            Token::LBracket => {
                self.operator();
                self.open(false);
            }
            Token::RParen | Token::RBracket | Token::RBrace => self.close(false),
            Token::Comma => self.separate(),
            Token::Word(word) if word.quote_style.is_none() => self.keyword(word.keyword),
            token if is_operand(token) => self.before_operand = false,
            _ => self.operator(),
        }
    }

    fn keyword(&mut self, keyword: Keyword) {
        let ends_operand = self.top().is_case && !self.before_operand;
        match keyword {
            Keyword::CASE => self.open(true),
            Keyword::END if ends_operand => self.close(true),
            Keyword::WHEN | Keyword::THEN | Keyword::ELSE if self.top().is_case => {
                if ends_operand {
                    self.separate();
                }
            }
            keyword if is_operator(keyword) => self.operator(),
            _ => self.before_operand = false,
        }
    }

    fn top(&mut self) -> &mut Level {
        self.levels
            .last_mut()
            .expect("the outermost level is never closed")
    }

    fn open(&mut self, is_case: bool) {
        self.depth += 1;
        self.levels.push(Level {
            is_case,
            operators: 0,
        });
        self.before_operand = true;
    }

    fn close(&mut self, is_case: bool) {
        // Unbalanced text is the parser's to refuse.
        if self.levels.len() > 1 && self.top().is_case == is_case {
            let closed = self.levels.pop().unwrap_or_default();
            self.depth -= 1 + closed.operators;
        }
        self.before_operand = false;
    }

    fn operator(&mut self) {
        self.depth += 1;
        self.top().operators += 1;
        self.before_operand = true;
    }

    fn separate(&mut self) {
        let operators = std::mem::take(&mut self.top().operators);
        self.depth -= operators;
        self.before_operand = true;
    }
}

/// Literals and quoted names; whatever else is rare is taken for an operator, to be on the safe
/// side.
fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::EOF
            | Token::Word(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
            | Token::SemiColon
    )
}

/// Words that combine expressions.
fn is_operator(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::AND
            | Keyword::OR
            | Keyword::XOR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::NOTNULL
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::MATCH
            | Keyword::SIMILAR
            | Keyword::IN
            | Keyword::BETWEEN
            | Keyword::AT
            | Keyword::COLLATE
            | Keyword::INTERVAL
            | Keyword::PRIOR
            | Keyword::DIV
            | Keyword::OVERLAPS
            | Keyword::OPERATOR
            | Keyword::MEMBER
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth_of(text: &str) -> Result<usize, Span> {
        depth(&parse::tokens(text).unwrap())
    }

    #[test]
    fn brackets_case_and_chains_are_levels_and_separators_end_chains() {
        assert_eq!(depth_of("a"), Ok(0));
        assert_eq!(depth_of("((a))"), Ok(2));
        assert_eq!(depth_of("a + b + c"), Ok(2));
        assert_eq!(depth_of("f(a + b, c + d, e + f)"), Ok(2));
        assert_eq!(
            depth_of("case when a then b when c then d else e end"),
            Ok(1)
        );
        assert_eq!(depth_of("a in (1, 2, 3, 4, 5)"), Ok(2));
        assert_eq!(depth_of("not not not a"), Ok(3));
        assert_eq!(depth_of("a[1][2][3]"), Ok(4));
        // Words of CASE that stand where a name does neither end a chain nor close a bracket.
        assert_eq!(depth_of("a + then + then + end"), Ok(3));
        assert_eq!(
            depth_of("case when a + then + then + end then 1 end"),
            Ok(4)
        );
        assert_eq!(depth_of("end(end(end("), Ok(3));
        // A string that looks like brackets is one token.
        assert_eq!(depth_of("'((((' || \"((((\""), Ok(1));
        assert_eq!(depth_of(")))) a"), Ok(0));
    }

    #[test]
    fn the_place_of_the_first_level_too_many_is_named() {
        let text = format!("{}a", "(".repeat(MAX_DEPTH + 1));
        assert_eq!(depth_of(&text), Err(Span::at(1, MAX_DEPTH + 1)));
    }
}
