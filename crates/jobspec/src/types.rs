//! The column types of job files and their usual SQL names.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, TimeUnit};
use millstream_config::suggest;

use crate::fault::FaultKind;

/// One type for the reference and the reader.
pub(crate) struct ColumnType {
    /// Its name.
    pub(crate) name: &'static str,
    /// Other names, as SQL databases have them.
    pub(crate) aliases: &'static [&'static str],
    /// What it holds.
    pub(crate) means: &'static str,
    arrow: Arrow,
}

enum Arrow {
    Plain(DataType),
    Decimal,
}

/// All column types: those that the readers of files decode. Bytes come as text, for `decode`.
pub(crate) static TYPES: [ColumnType; 11] = [
    plain(
        "BIGINT",
        &["INT8", "LONG", "INT64"],
        "64-bit integer",
        DataType::Int64,
    ),
    plain(
        "INT",
        &["INTEGER", "INT4", "INT32"],
        "32-bit integer",
        DataType::Int32,
    ),
    plain(
        "SMALLINT",
        &["INT2", "INT16"],
        "16-bit integer",
        DataType::Int16,
    ),
    plain("TINYINT", &[], "8-bit integer", DataType::Int8),
    plain(
        "DOUBLE",
        &["DOUBLE PRECISION", "FLOAT8", "FLOAT64"],
        "64-bit floating point number",
        DataType::Float64,
    ),
    plain(
        "FLOAT",
        &["REAL", "FLOAT4", "FLOAT32"],
        "32-bit floating point number",
        DataType::Float32,
    ),
    plain("BOOLEAN", &["BOOL"], "`true` or `false`", DataType::Boolean),
    plain(
        "VARCHAR",
        &["STRING", "TEXT"],
        "text of any length",
        DataType::Utf8,
    ),
    plain(
        "TIMESTAMP",
        &["DATETIME"],
        "point in time without time zone, in microseconds",
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ),
    plain("DATE", &[], "day", DataType::Date32),
    ColumnType {
        name: "DECIMAL(p, s)",
        aliases: &["NUMERIC(p, s)", "DEC(p, s)"],
        means: "exact number of p digits, at most 38, of which s are behind the point",
        arrow: Arrow::Decimal,
    },
];

const fn plain(
    name: &'static str,
    aliases: &'static [&'static str],
    means: &'static str,
    data_type: DataType,
) -> ColumnType {
    ColumnType {
        name,
        aliases,
        means,
        arrow: Arrow::Plain(data_type),
    }
}

/// The names of all types, without aliases.
pub(crate) fn names() -> Vec<&'static str> {
    TYPES.iter().map(|column_type| column_type.name).collect()
}

/// Reads a type, in any case and with any blanks.
pub(crate) fn parse(text: &str) -> Result<DataType, FaultKind> {
    let upper = text.to_ascii_uppercase();
    let (base, arguments) = match upper.split_once('(') {
        Some((base, rest)) => match rest.trim_end().strip_suffix(')') {
            Some(arguments) => (base, Some(arguments)),
            None => return Err(fault(text, Some("the ')' is missing"), None)),
        },
        None => (upper.as_str(), None),
    };
    let base = base.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = |name: &str| name.split('(').next().unwrap_or(name) == base;
    let found = TYPES
        .iter()
        .find(|known| named(known.name) || known.aliases.iter().any(|alias| named(alias)));
    let Some(found) = found else {
        let aliases = TYPES.iter().flat_map(|known| known.aliases);
        let all = names().into_iter().chain(aliases.copied());
        let suggestion = suggest(&base, all).map(str::to_owned);
        return Err(fault(text, None, suggestion));
    };
    match (&found.arrow, arguments) {
        (Arrow::Plain(data_type), None) => Ok(data_type.clone()),
        (Arrow::Plain(_), Some(_)) => {
            let why = "it takes no length or precision";
            Err(fault(text, Some(why), Some(found.name.to_owned())))
        }
        (Arrow::Decimal, None) => {
            let why = "it needs a precision";
            Err(fault(text, Some(why), Some("DECIMAL(18, 2)".to_owned())))
        }
        (Arrow::Decimal, Some(arguments)) => decimal(text, arguments),
    }
}

fn decimal(text: &str, arguments: &str) -> Result<DataType, FaultKind> {
    let refused = |why| Err(fault(text, Some(why), None));
    let mut numbers = arguments.split(',').map(|part| part.trim().parse::<u8>());
    let (precision, scale) = match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(precision)), None, None) => (precision, 0),
        (Some(Ok(precision)), Some(Ok(scale)), None) => (precision, scale),
        _ => return refused("write DECIMAL(digits, digits behind the point)"),
    };
    if precision == 0 || precision > DECIMAL128_MAX_PRECISION {
        return refused("a DECIMAL has 1 to 38 digits");
    }
    if scale > precision {
        return refused("more digits behind the point than digits");
    }
    let scale = i8::try_from(scale).expect("at most 38");
    Ok(DataType::Decimal128(precision, scale))
}

fn fault(text: &str, why: Option<&'static str>, suggestion: Option<String>) -> FaultKind {
    let found = text.chars().take(80).collect();
    FaultKind::Type {
        found,
        why,
        suggestion,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_names_are_read_in_any_case() {
        let cases = [
            ("BIGINT", DataType::Int64),
            ("integer", DataType::Int32),
            ("double  precision", DataType::Float64),
            ("real", DataType::Float32),
            ("String", DataType::Utf8),
            ("decimal( 12 , 2 )", DataType::Decimal128(12, 2)),
            ("NUMERIC(5)", DataType::Decimal128(5, 0)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn every_type_is_read_by_all_its_names() {
        for known in &TYPES {
            for name in std::iter::once(&known.name).chain(known.aliases) {
                let written = name.replace("(p, s)", "(10, 2)");
                assert!(parse(&written).is_ok(), "{written}");
            }
        }
    }

    #[test]
    fn what_is_no_type_is_refused_with_the_type_that_was_meant() {
        let cases = [
            ("BIGNIT", "did you mean BIGINT?"),
            ("varchar(20)", "did you mean VARCHAR?"),
            ("DECIMAL", "did you mean DECIMAL(18, 2)?"),
            ("money", "the types are BIGINT, INT"),
            ("DECIMAL(39, 2)", "the types are"),
        ];
        for (text, remedy) in cases {
            let fault = parse(text).unwrap_err();
            assert!(
                fault.remedy().contains(remedy),
                "{text}: {}",
                fault.remedy()
            );
        }
        for (text, message) in [
            ("DECIMAL(39, 2)", "1 to 38 digits"),
            ("DECIMAL(3, 4)", "more digits behind the point"),
            ("DECIMAL(3, x)", "write DECIMAL"),
            ("DECIMAL(3", "')' is missing"),
        ] {
            let shown = parse(text).unwrap_err().to_string();
            assert!(shown.contains(message), "{shown}");
        }
    }
}
