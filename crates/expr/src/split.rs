//! `regexp_split(text, pattern)`: the pieces of a text between the matches of a pattern.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::scalar_doc_sections::DOC_SECTION_REGEX;
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use regex::Regex;

use crate::error::ErrorKind;
use crate::pattern;

const NAME: &str = "regexp_split";

/// The function as the catalog lists it, its pattern not yet compiled.
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(RegexpSplit::new(None)))
}

/// Compiles the pattern of a call, once for the life of the expression; other calls are returned as
/// they are.
pub(crate) fn bind(call: ScalarFunction) -> std::result::Result<ScalarFunction, ErrorKind> {
    if call.func.name() != NAME {
        return Ok(call);
    }
    let Some(Expr::Literal(ScalarValue::Utf8(Some(text)), _)) = call.args.get(1) else {
        return Err(pattern::not_a_literal());
    };
    let regex = pattern::compile(text)?;
    if regex.is_match("") {
        return Err(ErrorKind::Pattern {
            message: format!(
                "the pattern '{text}' matches the empty text, so it would split between all characters"
            ),
            remedy: "Match at least one character, for example with + in place of *.".into(),
        });
    }
    let func = Arc::new(ScalarUDF::new_from_impl(RegexpSplit::new(Some(
        Splitter::new(regex),
    ))));
    Ok(ScalarFunction::new_udf(func, call.args))
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    Documentation::builder(
        DOC_SECTION_REGEX,
        "Gives the pieces of a text between the matches of a regular expression, as an array. Empty pieces are kept \
         (a text that begins or ends with a match has an empty first or last piece, and the empty text is one empty \
         piece), so that nothing is lost silently: a filter step with word <> '' drops them. The pattern must be a \
         literal that does not match the empty text.",
        "regexp_split(text, pattern)",
    )
    .with_argument("text", "The text to split.")
    .with_argument("pattern", "The regular expression between the pieces, in single quotes.")
    .build()
});

#[derive(Debug)]
struct RegexpSplit {
    signature: Signature,
    splitter: Option<Splitter>,
}

impl RegexpSplit {
    fn new(splitter: Option<Splitter>) -> Self {
        Self {
            signature: Signature::string(2, Volatility::Immutable),
            splitter,
        }
    }

    fn pattern(&self) -> Option<&str> {
        self.splitter
            .as_ref()
            .map(|splitter| splitter.regex.as_str())
    }
}

impl PartialEq for RegexpSplit {
    fn eq(&self, other: &Self) -> bool {
        self.pattern() == other.pattern()
    }
}

impl Eq for RegexpSplit {}

impl Hash for RegexpSplit {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pattern().hash(state);
    }
}

impl ScalarUDFImpl for RegexpSplit {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(
            DataType::Utf8,
            true,
        ))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some(splitter), Some(texts)) = (&self.splitter, args.args.first()) else {
            return exec_err!("{NAME} was not bound to its pattern");
        };
        match texts {
            ColumnarValue::Array(texts) => Ok(ColumnarValue::Array(split(texts, splitter)?)),
            ColumnarValue::Scalar(text) => {
                let pieces = split(&text.to_array()?, splitter)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                    &pieces, 0,
                )?))
            }
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

fn split(texts: &ArrayRef, splitter: &Splitter) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    // Pieces have no more bytes than the texts, so the offsets of the result cannot overflow
    // either.
    let bytes = texts.value_data().len();
    let mut pieces = ListBuilder::with_capacity(
        StringBuilder::with_capacity(texts.len() * 8, bytes),
        texts.len(),
    );
    for row in 0..texts.len() {
        if texts.is_null(row) {
            pieces.append_null();
        } else {
            splitter.split(texts.value(row), |piece| {
                pieces.values().append_value(piece)
            });
            pieces.append(true);
        }
    }
    Ok(Arc::new(pieces.finish()))
}

/// A compiled pattern, and its fast form where it has one.
#[derive(Debug)]
struct Splitter {
    regex: Regex,
    /// Set when the pattern is one or more characters of a class, as word rules usually are.
    class: Option<Class>,
}

/// A set of characters: a table for ASCII, the class alone as a pattern for the others.
#[derive(Debug)]
struct Class {
    ascii: [bool; 128],
    one: Regex,
}

impl Splitter {
    fn new(regex: Regex) -> Self {
        let class = class_of_runs(regex.as_str()).and_then(|class| {
            let one = pattern::compile(class).ok()?;
            let ascii =
                std::array::from_fn(|byte| one.is_match(&char::from(byte as u8).to_string()));
            Some(Class { ascii, one })
        });
        Self { regex, class }
    }

    fn split<'t>(&self, text: &'t str, mut piece: impl FnMut(&'t str)) {
        let Some(class) = &self.class else {
            self.regex.split(text).for_each(piece);
            return;
        };
        let (mut start, mut at) = (0, 0);
        while at < text.len() {
            let (separates, width) = class.look(text, at);
            if !separates {
                at += width;
                continue;
            }
            piece(&text[start..at]);
            at += width;
            while at < text.len() {
                let (separates, width) = class.look(text, at);
                if !separates {
                    break;
                }
                at += width;
            }
            start = at;
        }
        piece(&text[start..]);
    }
}

impl Class {
    /// Whether the character at a byte index is of the class, and how many bytes it has.
    fn look(&self, text: &str, at: usize) -> (bool, usize) {
        let byte = text.as_bytes()[at];
        match self.ascii.get(usize::from(byte)) {
            Some(separates) => (*separates, 1),
            None => {
                let width = text[at..].chars().next().map_or(1, char::len_utf8);
                (self.one.is_match(&text[at..at + width]), width)
            }
        }
    }
}

/// The class of a pattern such as `[^a-z0-9]+` or `\s+`; other patterns have none.
fn class_of_runs(pattern: &str) -> Option<&str> {
    let class = pattern.strip_suffix('+')?;
    let is_escape = matches!(class, "\\W" | "\\w" | "\\S" | "\\s" | "\\D" | "\\d");
    let is_bracket = class
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|inner| !inner.contains(['[', ']']));
    (is_escape || is_bracket).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_form_splits_as_the_pattern_does() {
        let patterns = [
            "[^a-z0-9]+",
            "[^\\w]+",
            "[a&&b,]+",
            "\\s+",
            "\\W+",
            "[ -]+",
            "[^é]+",
            "[\\^x]+",
        ];
        let alphabet = [
            'a', 'b', 'Z', '7', ' ', '-', ',', '\t', 'é', 'ß', '\u{307}', '日', '^', 'x',
        ];
        let mut seed = 7u64;
        for pattern in patterns {
            let splitter = Splitter::new(pattern::compile(pattern).unwrap());
            assert!(splitter.class.is_some(), "{pattern}");
            for length in (0..40).cycle().take(2_000) {
                let text: String = (0..length)
                    .map(|_| {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        alphabet[(seed >> 33) as usize % alphabet.len()]
                    })
                    .collect();
                let mut pieces = Vec::new();
                splitter.split(&text, |piece| pieces.push(piece));
                assert_eq!(
                    pieces,
                    splitter.regex.split(&text).collect::<Vec<_>>(),
                    "{pattern}: {text:?}"
                );
            }
        }
    }

    #[test]
    fn other_patterns_have_no_fast_form() {
        for pattern in ["a+", "[a]b+", "[a][b]+", "[a]*", "(?i)[a]+", ", "] {
            assert_eq!(class_of_runs(pattern), None, "{pattern}");
        }
    }
}
