//! The SQL library's errors in our words: no type of Rust, no name of the library, one line.

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;

use crate::error::{EvalFault, shortened};

/// Values in messages are cut: a message must not carry a record of 10 MB.
const SHOWN_CHARS: usize = 200;

/// What a failed evaluation means.
pub(crate) fn fault(error: &DataFusionError) -> EvalFault {
    match error.find_root() {
        DataFusionError::ArrowError(arrow, _) => arrow_fault(arrow),
        other => by_words(plain(&other.message())),
    }
}

fn arrow_fault(error: &ArrowError) -> EvalFault {
    match error {
        ArrowError::DivideByZero => EvalFault::DivisionByZero,
        ArrowError::ArithmeticOverflow(detail) => {
            let detail = detail
                .strip_prefix("Overflow happened on: ")
                .unwrap_or(detail);
            EvalFault::Overflow {
                detail: plain(detail),
            }
        }
        ArrowError::CastError(detail) => EvalFault::InvalidValue {
            detail: cast(detail),
        },
        ArrowError::ParseError(detail) => EvalFault::InvalidValue {
            detail: plain(detail),
        },
        ArrowError::ComputeError(detail) | ArrowError::InvalidArgumentError(detail) => {
            by_words(plain(detail))
        }
        other => by_words(plain(&other.to_string())),
    }
}

/// Functions of the library report overflow and division by zero in prose.
fn by_words(detail: String) -> EvalFault {
    let lower = detail.to_lowercase();
    if lower.contains("divide by zero") || lower.contains("division by zero") {
        EvalFault::DivisionByZero
    } else if lower.contains("overflow") {
        EvalFault::Overflow { detail }
    } else if lower.contains("cannot cast") || lower.contains("error parsing") {
        EvalFault::InvalidValue {
            detail: cast(&detail),
        }
    } else {
        EvalFault::Other { detail }
    }
}

/// The two usual forms of a failed cast, in one form.
fn cast(detail: &str) -> String {
    let usual = || {
        if let Some(rest) = detail.strip_prefix("Cannot cast string ") {
            let (value, data_type) = rest.rsplit_once(" to value of ")?;
            return Some((value, data_type.strip_suffix(" type")?));
        }
        detail
            .strip_prefix("Can't cast value ")?
            .rsplit_once(" to type ")
    };
    match usual() {
        Some((value, data_type)) => {
            format!(
                "cannot cast {} to {}",
                shortened(value, SHOWN_CHARS),
                sql_words(data_type)
            )
        }
        None => plain(detail),
    }
}

/// A message of the library: first line, our type names, lower case, no full stop.
pub(crate) fn plain(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let mut line = line;
    // Wrapped errors stack their headings up.
    const HEADINGS: [&str; 9] = [
        "DataFusion error: ",
        "Error during planning: ",
        "Execution error: ",
        "Internal error: ",
        "This feature is not implemented: ",
        "Schema error: ",
        "Arrow error: ",
        "SQL error: ",
        "Optimizer rule 'simplify_expressions' failed: ",
    ];
    while let Some(rest) = HEADINGS
        .iter()
        .find_map(|heading| line.strip_prefix(heading))
    {
        line = rest;
    }
    let line = sql_words(shortened(line.trim().trim_end_matches('.'), SHOWN_CHARS).as_str());
    let mut chars = line.chars();
    match (chars.next(), chars.next()) {
        // "UTF-8" and "NULL" keep their capitals.
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(line.chars().skip(1)).collect()
        }
        _ => line,
    }
}

/// Replaces the columnar library's type names, where they stand as words, by SQL's.
fn sql_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
        } else {
            out.push_str(sql_word(&word));
            word.clear();
            out.push(c);
        }
    }
    out.pop();
    out
}

fn sql_word(word: &str) -> &str {
    match word {
        "Int8" => "TINYINT",
        "Int16" => "SMALLINT",
        "Int32" => "INT",
        "Int64" => "BIGINT",
        "UInt8" => "TINYINT UNSIGNED",
        "UInt16" => "SMALLINT UNSIGNED",
        "UInt32" => "INT UNSIGNED",
        "UInt64" => "BIGINT UNSIGNED",
        "Float16" | "Float32" => "FLOAT",
        "Float64" => "DOUBLE",
        "Utf8" | "LargeUtf8" | "Utf8View" => "VARCHAR",
        "Binary" | "LargeBinary" | "BinaryView" => "VARBINARY",
        "Boolean" => "BOOLEAN",
        "Date32" | "Date64" => "DATE",
        "Time32" | "Time64" => "TIME",
        "Timestamp" => "TIMESTAMP",
        "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => "DECIMAL",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_lose_headings_type_names_and_backtraces() {
        let message = "Error during planning: Cannot coerce Int64 to Utf8View.\n\nbacktrace:   0: std::backtrace";
        assert_eq!(plain(message), "cannot coerce BIGINT to VARCHAR");
    }

    #[test]
    fn failed_casts_have_one_form() {
        let of = |text: &str| arrow_fault(&ArrowError::CastError(text.into())).to_string();
        assert_eq!(
            of("Cannot cast string 'a to value of b' to value of Int64 type"),
            "cannot cast 'a to value of b' to BIGINT"
        );
        assert_eq!(
            of("Can't cast value 300 to type Int8"),
            "cannot cast 300 to TINYINT"
        );
    }
}
