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
    let func = Arc::new(ScalarUDF::new_from_impl(RegexpSplit::new(Some(regex))));
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
    regex: Option<Regex>,
}

impl RegexpSplit {
    fn new(regex: Option<Regex>) -> Self {
        Self {
            signature: Signature::string(2, Volatility::Immutable),
            regex,
        }
    }

    fn pattern(&self) -> Option<&str> {
        self.regex.as_ref().map(Regex::as_str)
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
        let (Some(regex), Some(texts)) = (&self.regex, args.args.first()) else {
            return exec_err!("{NAME} was not bound to its pattern");
        };
        match texts {
            ColumnarValue::Array(texts) => Ok(ColumnarValue::Array(split(texts, regex)?)),
            ColumnarValue::Scalar(text) => {
                let pieces = split(&text.to_array()?, regex)?;
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

fn split(texts: &ArrayRef, regex: &Regex) -> Result<ArrayRef> {
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
            regex
                .split(texts.value(row))
                .for_each(|piece| pieces.values().append_value(piece));
            pieces.append(true);
        }
    }
    Ok(Arc::new(pieces.finish()))
}
