//! Generator sources.

use arrow::datatypes::{DataType, Field};
use millstream_config::{Value, ValueFault};
use millstream_graph::{GeneratorColumn, GeneratorSource, GeneratorValue, OperatorKind};

use super::{Built, named, schema};
use crate::fault::FaultKind;
use crate::fields::{Fields, entries};
use crate::report::Report;
use crate::shape::Read;
use crate::table::GENERATED;

pub(crate) fn build(fields: &Fields<'_>, report: &mut Report<'_>) -> Option<Built> {
    let named = named::read(fields, "columns", "names with generated values", report)?;
    let mut columns = Vec::new();
    for column in &named {
        columns.push(value(column, report).map(|value| GeneratorColumn {
            name: column.entry.key.clone(),
            value,
        }));
    }
    let columns: Vec<GeneratorColumn> = columns.into_iter().collect::<Option<_>>()?;
    let types = columns
        .iter()
        .map(|column| Field::new(&column.name, type_of(&column.value), true));
    let schema = schema(types);
    let source = GeneratorSource {
        rows: fields.int("rows"),
        rate: match fields.get("rate")?.value {
            Read::Rate(rate) => rate,
            _ => None,
        },
        seed: fields.int("seed")?,
        columns,
    };
    Some(Built {
        kind: OperatorKind::Generator(source),
        schema,
    })
}

fn value(column: &named::Named<'_>, report: &mut Report<'_>) -> Option<GeneratorValue> {
    let wanted = "a generated value, such as { sequence: { start: 1 } }";
    let (entry, path) = (column.entry, &column.path);
    let entries = entries(&entry.node, path, wanted, report)?;
    let fields = Fields::read(&GENERATED, entry.at, path, entries, report);
    if !fields.complete {
        return None;
    }
    let name = GENERATED
        .one_of
        .iter()
        .find(|name| fields.get(name).is_some())?;
    match (*name, &fields.get(name)?.value) {
        ("sequence", Read::Fields(inner)) => match inner.get("start")?.value {
            Read::Integer(start) => Some(GeneratorValue::Sequence { start }),
            _ => None,
        },
        ("key", Read::Scalar(Value::Int(keys))) => {
            Some(GeneratorValue::RoundRobinKey { keys: *keys })
        }
        ("sequence-per-key", Read::Scalar(Value::Int(keys))) => {
            Some(GeneratorValue::RoundRobinSequence { keys: *keys })
        }
        ("random-int", Read::Integers([min, max])) => Some(GeneratorValue::RandomInt {
            min: *min,
            max: *max,
        }),
        ("random-double", Read::Floats([min, max])) => not_empty(&fields, *min, *max, report)
            .then_some(GeneratorValue::RandomDouble {
                min: *min,
                max: *max,
            }),
        ("random-text", Read::Scalar(Value::Int(length))) => Some(GeneratorValue::RandomText {
            length: u32::try_from(*length).expect("bounded by the table"),
        }),
        ("one-of", Read::Scalar(Value::List(values))) => Some(GeneratorValue::OneOf {
            values: values.clone(),
        }),
        ("constant", Read::Text(value)) => Some(GeneratorValue::Constant {
            value: value.clone(),
        }),
        (name, read) => unreachable!("{name} was read as {read:?}"),
    }
}

/// The upper bound of a random double is not one of its values, so that equal bounds leave none.
fn not_empty(fields: &Fields<'_>, min: f64, max: f64, report: &mut Report<'_>) -> bool {
    let is_good = min < max && (max - min).is_finite();
    if let (false, Some(node)) = (is_good, fields.node("random-double")) {
        let fault = ValueFault::Refused {
            found: format!("[{min}, {max}]"),
            why: "there is no number between the bounds".to_owned(),
        };
        let key = "random-double".to_owned();
        let path = fields.path_of("random-double");
        report.value(node, &path, FaultKind::Value { key, fault });
    }
    is_good
}

fn type_of(value: &GeneratorValue) -> DataType {
    match value {
        GeneratorValue::Sequence { .. }
        | GeneratorValue::RoundRobinKey { .. }
        | GeneratorValue::RoundRobinSequence { .. }
        | GeneratorValue::RandomInt { .. } => DataType::Int64,
        GeneratorValue::RandomDouble { .. } => DataType::Float64,
        GeneratorValue::RandomText { .. }
        | GeneratorValue::OneOf { .. }
        | GeneratorValue::Constant { .. } => DataType::Utf8,
    }
}
