//! Aggregate calls of the aggregate step: which function, over what, giving which type.
//!
//! Accumulators are the operators' own, because they keep state and check for overflow; this module
//! only reads the call. The input is brought to few types, so that few accumulators are needed:
//!
//! | call | input after the cast | result |
//! |---|---|---|
//! | `count(*)`, `count(x)` | any | BIGINT, never NULL |
//! | `sum` of an integer | BIGINT | BIGINT, overflow is an error |
//! | `sum` of FLOAT, DOUBLE | DOUBLE | DOUBLE |
//! | `sum` of DECIMAL(p, s) | DECIMAL(p, s) | DECIMAL(38, s), overflow is an error |
//! | `avg` of an integer | BIGINT | DOUBLE |
//! | `avg` of FLOAT, DOUBLE | DOUBLE | DOUBLE |
//! | `avg` of DECIMAL(p, s) | DECIMAL(p, s) | DECIMAL(38, max(s, 6)) |
//! | `min`, `max`, `last_value` of numbers, text, binary, booleans, dates and times | as it is | as the input |
//!
//! BIGINT UNSIGNED is summed and averaged as DECIMAL(20, 0). Of no rows, or of NULLs only, all but
//! `count` are NULL.

use std::fmt;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, SchemaRef};
use datafusion_sql::sqlparser::ast::{
    Function, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned,
};

use crate::catalog::{self, AGGREGATES};
use crate::check;
use crate::compiled::Compiled;
use crate::error::{ErrorKind, ExprError};
use crate::excerpt::Span;
use crate::parse::{self, Ast};
use crate::types::{Class, sql_name};

/// The aggregates there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AggregateFunction {
    /// Rows whose input is not NULL.
    Count,
    /// All rows.
    CountStar,
    /// The sum of what is not NULL.
    Sum,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// The mean of what is not NULL.
    Avg,
    /// The last value that is not NULL, in the order of arrival.
    LastValue,
}

impl AggregateFunction {
    /// Those that are called by different names.
    const NAMED: [Self; 6] = [
        Self::Count,
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Avg,
        Self::LastValue,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Count | Self::CountStar => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::LastValue => "last_value",
        }
    }

    fn by_name(name: &str) -> Option<Self> {
        let mut named = Self::NAMED.into_iter();
        named.find(|function| function.name() == name)
    }
}

impl fmt::Display for AggregateFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One checked aggregate call.
#[derive(Debug, Clone)]
pub struct AggregateCall {
    /// The function.
    pub function: AggregateFunction,
    /// What is aggregated, already cast as the module's table says; absent for `count(*)`.
    pub input: Option<Compiled>,
    /// The type of the result.
    pub output: DataType,
    /// Whether the result may be NULL: all but counts may, if every input was.
    pub nullable: bool,
}

const THERE_ARE: &str =
    "The aggregates are count(*), count(x), sum(x), min(x), max(x), avg(x) and last_value(x).";

/// Reads a parsed text as an aggregate call.
pub(crate) fn call(ast: &Ast, text: &str, schema: &SchemaRef) -> Result<AggregateCall, ExprError> {
    let function = match ast {
        Ast::Nested(inner) => return call(inner, text, schema),
        Ast::Function(function) => function,
        _ => {
            let kind = ErrorKind::Type {
                message: "an aggregate step selects aggregate calls, this is none".into(),
                remedy: format!(
                    "{THERE_ARE} Arithmetic on results goes into a select step after it."
                ),
            };
            return Err(ExprError::new(kind, parse::span(ast), text));
        }
    };
    let at_name = parse::span_of(function.name.span());
    let fail = |kind| ExprError::new(kind, at_name, text);
    let name = function.name.to_string().to_lowercase();
    let aggregate = AggregateFunction::by_name(&name).ok_or_else(|| fail(no_such(&name)))?;
    check::plain_call(function).map_err(fail)?;
    match argument(function) {
        Some(FunctionArgExpr::Wildcard) if aggregate == AggregateFunction::Count => {
            Ok(count_star())
        }
        Some(FunctionArgExpr::Expr(input)) => {
            let input = crate::compile_ast(input, text, schema)?;
            over(aggregate, input, parse::span(ast), text)
        }
        _ => Err(fail(ErrorKind::Type {
            message: format!("{name} takes one argument"),
            remedy: THERE_ARE.into(),
        })),
    }
}

fn no_such(name: &str) -> ErrorKind {
    let what = if AGGREGATES.contains(&name) {
        format!("the aggregate {name}() does not exist here")
    } else if matches!(catalog::lookup(name), catalog::Lookup::Unknown) {
        format!("unknown aggregate {name:?}")
    } else {
        format!("{name}() is no aggregate")
    };
    ErrorKind::Type {
        message: what,
        remedy: THERE_ARE.into(),
    }
}

/// The one unnamed argument of a call.
fn argument(function: &Function) -> Option<&FunctionArgExpr> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(arg)] => Some(arg),
        _ => None,
    }
}

fn count_star() -> AggregateCall {
    AggregateCall {
        function: AggregateFunction::CountStar,
        input: None,
        output: DataType::Int64,
        nullable: false,
    }
}

fn over(
    function: AggregateFunction,
    input: Compiled,
    span: Span,
    text: &str,
) -> Result<AggregateCall, ExprError> {
    let types = match function {
        AggregateFunction::Count if !input.nullable() => return Ok(count_star()),
        AggregateFunction::Count | AggregateFunction::CountStar => {
            return Ok(AggregateCall {
                function,
                input: Some(input),
                output: DataType::Int64,
                nullable: false,
            });
        }
        AggregateFunction::Sum | AggregateFunction::Avg => summed(function, input.data_type()),
        AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::LastValue => {
            comparable(input.data_type())
                .then(|| (input.data_type().clone(), input.data_type().clone()))
        }
    };
    let Some((as_input, output)) = types else {
        let message = format!("{function} does not take {}", sql_name(input.data_type()));
        let remedy =
            "Cast it, for example CAST(... AS BIGINT) or CAST(... AS DECIMAL(38, 6)).".to_owned();
        return Err(ExprError::new(
            ErrorKind::Type { message, remedy },
            span,
            text,
        ));
    };
    let input = if *input.data_type() == as_input {
        input
    } else {
        input.cast_to(&as_input)?
    };
    Ok(AggregateCall {
        function,
        input: Some(input),
        output,
        nullable: true,
    })
}

/// What a sum or a mean is computed from, and its type.
fn summed(function: AggregateFunction, input: &DataType) -> Option<(DataType, DataType)> {
    let is_sum = function == AggregateFunction::Sum;
    let decimal = |precision: u8, scale: i8| {
        let output_scale = if is_sum { scale } else { scale.max(6) };
        let output = DataType::Decimal128(DECIMAL128_MAX_PRECISION, output_scale);
        Some((DataType::Decimal128(precision, scale), output))
    };
    match input {
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32 => Some((
            DataType::Int64,
            if is_sum {
                DataType::Int64
            } else {
                DataType::Float64
            },
        )),
        DataType::UInt64 => decimal(20, 0),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            Some((DataType::Float64, DataType::Float64))
        }
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => {
            decimal(*p, *s)
        }
        _ => None,
    }
}

fn comparable(input: &DataType) -> bool {
    matches!(
        Class::of(input),
        Class::Boolean | Class::Number | Class::Text | Class::Binary | Class::Temporal
    )
}
