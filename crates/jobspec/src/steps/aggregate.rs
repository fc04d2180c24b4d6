//! key-by and aggregate.

use arrow::datatypes::Field;
use millstream_batch::KeyCodec;
use millstream_config::yaml::Node;
use millstream_config::{Kind, Value};
use millstream_expr::{AggregateCall, AggregateFunction as Function, sql_name};
use millstream_graph::{AggregateColumn, AggregateFunction, Emit, OperatorKind};

use super::named::{self, check_distinct};
use super::{Built, Grouping, schema};
use crate::fault::FaultKind;
use crate::fields::{Fields, entries};
use crate::inputs::Input;
use crate::report::Report;
use crate::table::{EMIT_INTERVAL, EMITS};

/// Positions of the columns that a key-by names.
pub(crate) fn key_columns(
    names: &[&Node],
    input: &Input,
    path: &str,
    report: &mut Report<'_>,
) -> Option<Vec<usize>> {
    let schema = input.schema.as_ref()?;
    let found = names
        .iter()
        .map(|node| named::column(node, path, schema, report));
    let found: Vec<Option<usize>> = found.collect();
    let columns: Vec<usize> = found.into_iter().collect::<Option<_>>()?;
    if columns.is_empty() {
        return None;
    }
    for (index, (node, column)) in names.iter().zip(&columns).enumerate() {
        if columns[..index].contains(column) {
            let kind = FaultKind::structure("a key column is named twice", "name it once");
            report.value(node, path, kind);
            return None;
        }
        if KeyCodec::new(schema, &[*column]).is_err() {
            let field = schema.field(*column);
            let message = format!(
                "column {:?} is {}, which cannot be a key",
                field.name(),
                sql_name(field.data_type())
            );
            let remedy = "cast it to a number, text, date or timestamp in a select step before";
            report.value(node, path, FaultKind::structure(message, remedy));
            return None;
        }
    }
    Some(columns)
}

pub(crate) fn build(
    fields: &Fields<'_>,
    input: &Input,
    grouping: &Grouping,
    report: &mut Report<'_>,
) -> Option<Built> {
    let path = fields.path_of("select");
    let named = named::read(fields, "select", "names with aggregate calls", report);
    let mut aggregates = Vec::new();
    for column in named.iter().flatten() {
        let (name, node) = (&column.entry.key, &column.entry.node);
        aggregates.push(aggregate(name, node, &column.path, input, report));
    }
    let emit = emit(fields, input, report);
    let keys = match grouping {
        Grouping::None => Vec::new(),
        Grouping::By(columns) => columns.clone(),
        Grouping::Unknown => return None,
    };
    named.as_ref()?;
    let aggregates: Vec<AggregateColumn> = aggregates.into_iter().collect::<Option<_>>()?;
    let columns = input.schema.as_ref()?;
    let key_fields = keys.iter().map(|key| columns.field(*key).clone());
    let results = aggregates
        .iter()
        .map(|column| Field::new(&column.name, column.output_type.clone(), true));
    let result: Vec<Field> = key_fields.chain(results).collect();
    let node = fields.node("select")?;
    let names = result.iter().map(|field| (field.name().as_str(), node));
    check_distinct(names, &path, report);
    Some(Built {
        kind: OperatorKind::Aggregate {
            keys,
            aggregates,
            emit: emit?,
        },
        schema: schema(result),
    })
}

fn aggregate(
    name: &str,
    node: &Node,
    path: &str,
    input: &Input,
    report: &mut Report<'_>,
) -> Option<AggregateColumn> {
    let text = named::text(node, path, "an aggregate call such as count(*)", report)?;
    let schema = input.schema.as_ref()?;
    let call = match millstream_expr::parse_aggregate(text, schema) {
        Ok(call) => call,
        Err(error) => {
            report.expression(node, path, error);
            return None;
        }
    };
    let argument = match argument(text, &call, input) {
        Ok(argument) => argument,
        Err(kind) => {
            report.value(node, path, kind);
            return None;
        }
    };
    Some(AggregateColumn {
        name: name.to_owned(),
        function: match call.function {
            Function::Count | Function::CountStar => AggregateFunction::Count,
            Function::Sum => AggregateFunction::Sum,
            Function::Min => AggregateFunction::Min,
            Function::Max => AggregateFunction::Max,
            Function::Avg => AggregateFunction::Avg,
            Function::LastValue => AggregateFunction::LastValue,
        },
        input_type: call.input.as_ref().map(|input| input.data_type().clone()),
        argument,
        output_type: call.output,
    })
}

/// The text of the call's argument, with the cast that the call implies written out, so that
/// whoever compiles it gets the type that is aggregated.
fn argument(text: &str, call: &AggregateCall, input: &Input) -> Result<Option<String>, FaultKind> {
    let (Some(wanted), Some(schema)) = (&call.input, &input.schema) else {
        return Ok(None);
    };
    let inner = text
        .find(|c: char| c.is_ascii_alphabetic() || c == '"')
        .and_then(|name| Some((name + text[name..].find('(')? + 1, text.rfind(')')?)))
        .map(|(start, end)| {
            // A call in parentheses of its own ends with them too.
            let outer = text[..start].matches('(').count() - 1;
            let closing = text[..=end].char_indices().rev().filter(|(_, c)| *c == ')');
            let end = closing.map(|(at, _)| at).nth(outer).unwrap_or(end);
            text[start..end].trim()
        });
    let cast = |inner: &str| format!("CAST({inner} AS {})", sql_name(wanted.data_type()));
    let candidates = inner
        .map(|inner| [inner.to_owned(), cast(inner)])
        .into_iter()
        .flatten();
    let has_type = |text: &String| {
        millstream_expr::compile(text, schema)
            .is_ok_and(|compiled| compiled.data_type() == wanted.data_type())
    };
    let mut good = candidates.filter(has_type);
    let found = good.next().ok_or_else(|| {
        FaultKind::structure(
            "the argument of this call cannot be told apart from what stands around it",
            "write the call plainly, without comments, such as sum(price * amount)",
        )
    });
    found.map(Some)
}

/// When results leave: as told, else at the end of an input that has one.
fn emit(fields: &Fields<'_>, input: &Input, report: &mut Report<'_>) -> Option<Emit> {
    let path = fields.path_of("emit");
    let Some(node) = fields.node("emit") else {
        // A key with a fault was reported when it was read.
        return Some(if input.bounded { Emit::End } else { Emit::Each });
    };
    if node.as_mapping().is_some() {
        let entries = entries(node, &path, "{ interval: 5s }", report)?;
        let inner = Fields::read(&EMIT_INTERVAL, fields.at, &path, entries, report);
        return inner.duration("interval").map(Emit::Interval);
    }
    let emit = match Kind::Choice(EMITS).read_node(node) {
        Ok(Value::Choice("each")) => Emit::Each,
        Ok(Value::Choice("batch")) => Emit::Batch,
        Ok(_) => Emit::End,
        Err(fault) => {
            let key = "emit".to_owned();
            report.value(node, &path, FaultKind::Value { key, fault });
            return None;
        }
    };
    if emit == Emit::End && !input.bounded {
        let kind = FaultKind::structure(
            "the input never ends, so that nothing would ever be emitted",
            "set emit to each, batch or { interval: 5s }, or give the generator rows",
        );
        report.value(node, &path, kind);
        return None;
    }
    Some(emit)
}
