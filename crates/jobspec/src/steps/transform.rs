//! select, filter, flat-map, union.

use arrow::datatypes::{DataType, Field, SchemaRef};
use millstream_config::ValueFault;
use millstream_config::yaml::Node;
use millstream_expr::sql_name;
use millstream_graph::{NamedExpr, OperatorKind};

use super::named::{self, check_distinct};
use super::{Built, schema};
use crate::fault::FaultKind;
use crate::fields::Fields;
use crate::inputs::Input;
use crate::report::Report;

pub(crate) fn select(fields: &Fields<'_>, input: &Input, report: &mut Report<'_>) -> Option<Built> {
    let node = fields.node("columns")?;
    let path = fields.path_of("columns");
    let columns = match node.as_sequence() {
        Some(items) => {
            named::check_count(node, items.len(), &path, report)?;
            let mut columns = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                columns.extend(select_item(item, &path, input, report));
            }
            columns
        }
        None => {
            let entries = named::read(fields, "columns", "columns with expressions", report)?;
            let column = |named: &named::Named<'_>| {
                select_column(
                    &named.entry.key,
                    &named.entry.node,
                    &named.path,
                    input,
                    report,
                )
            };
            entries.iter().map(column).collect()
        }
    };
    // All columns are looked at before one of them is found to be wrong.
    let columns: Vec<(NamedExpr, Field)> = columns.into_iter().collect::<Option<_>>()?;
    let (columns, types): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let names = columns.iter().map(|column| (column.name.as_str(), node));
    check_distinct(names, &path, report);
    Some(Built {
        kind: OperatorKind::Select { columns },
        schema: schema(types),
    })
}

type Column = Option<(NamedExpr, Field)>;

fn select_column(
    name: &str,
    node: &Node,
    path: &str,
    input: &Input,
    report: &mut Report<'_>,
) -> Column {
    let compiled = named::expression(node, path, input, report)?;
    let expr = NamedExpr {
        name: name.to_owned(),
        expr: compiled.text().to_owned(),
    };
    let field = Field::new(name, compiled.data_type().clone(), true);
    Some((expr, field))
}

/// One item of a list of columns: a column that is kept, or `name: expression`.
fn select_item(item: &Node, path: &str, input: &Input, report: &mut Report<'_>) -> Vec<Column> {
    if let Some(entries) = item.as_mapping() {
        if named::check_count(item, entries.len(), path, report).is_none() {
            return vec![None];
        }
        let column = |entry: &millstream_config::yaml::Entry| {
            let path = format!("{path}.{}", entry.key);
            named::check_name(entry, &path, report)
                .then(|| select_column(&entry.key, &entry.node, &path, input, report))?
        };
        return entries.iter().map(column).collect();
    }
    let Some(columns) = &input.schema else {
        return vec![None];
    };
    let kept = named::column(item, path, columns, report).map(|index| {
        let field = columns.field(index).clone();
        let expr = NamedExpr {
            name: field.name().clone(),
            expr: named::quoted(field.name()),
        };
        (expr, field)
    });
    vec![kept]
}

pub(crate) fn filter(fields: &Fields<'_>, input: &Input, report: &mut Report<'_>) -> Option<Built> {
    let node = fields.node("where")?;
    let path = fields.path_of("where");
    let text = named::text(node, &path, "a condition", report)?;
    let schema = input.schema.as_ref()?;
    // A wrong condition leaves the columns as they are: the steps behind it are checked all the same.
    if let Err(error) = millstream_expr::compile_predicate(text, schema) {
        report.expression(node, &path, error);
    }
    Some(Built {
        kind: OperatorKind::Filter {
            predicate: text.to_owned(),
        },
        schema: SchemaRef::clone(schema),
    })
}

pub(crate) fn flat_map(
    fields: &Fields<'_>,
    input: &Input,
    report: &mut Report<'_>,
) -> Option<Built> {
    let node = fields.node("expr")?;
    let path = fields.path_of("expr");
    let compiled = named::expression(node, &path, input, report)?;
    let DataType::List(element) = compiled.data_type() else {
        let kind = FaultKind::structure(
            format!(
                "flat-map needs a list, this is {}",
                sql_name(compiled.data_type())
            ),
            "use an expression that gives a list, such as regexp_split(line, '[^a-z]+'), or select",
        );
        report.value(node, &path, kind);
        return None;
    };
    let name = fields.text("as")?.to_owned();
    let keep = fields.bool("keep")?;
    let columns = input.schema.as_ref()?;
    let mut kept: Vec<Field> = Vec::new();
    if keep {
        kept.extend(columns.fields().iter().map(|field| field.as_ref().clone()));
        if let (Ok(_), Some(node)) = (columns.index_of(&name), fields.node("as")) {
            let fault = ValueFault::Refused {
                found: name.clone(),
                why: "the input has a column of this name, which is kept".to_owned(),
            };
            let key = "as".to_owned();
            report.value(node, &fields.path_of("as"), FaultKind::Value { key, fault });
        }
    }
    kept.push(Field::new(&name, element.data_type().clone(), true));
    Some(Built {
        kind: OperatorKind::FlatMap {
            expr: compiled.text().to_owned(),
            name,
            keep,
        },
        schema: schema(kept),
    })
}

pub(crate) fn union(
    fields: &Fields<'_>,
    inputs: &[Input],
    report: &mut Report<'_>,
) -> Option<Built> {
    let (first, others) = inputs.split_first()?;
    let expected = first.schema.as_ref()?;
    let names = fields.names("from")?;
    for (index, other) in others.iter().enumerate() {
        let Some(found) = &other.schema else { continue };
        if found.fields() != expected.fields() {
            let kind = FaultKind::structure(
                format!(
                    "{:?} has the columns {}, and {:?} has {}",
                    other.uid,
                    columns_of(found),
                    first.uid,
                    columns_of(expected)
                ),
                "make them equal, in order too, with a select step",
            );
            report.value(names[index + 1], &fields.path_of("from"), kind);
        }
    }
    Some(Built {
        kind: OperatorKind::Union,
        schema: SchemaRef::clone(expected),
    })
}

/// `id BIGINT, name VARCHAR`, the first few.
fn columns_of(schema: &SchemaRef) -> String {
    const SHOWN: usize = 12;
    let shown = schema.fields().iter().take(SHOWN);
    let mut columns: Vec<String> = shown
        .map(|field| format!("{} {}", field.name(), sql_name(field.data_type())))
        .collect();
    if schema.fields().len() > SHOWN {
        columns.push("…".to_owned());
    }
    columns.join(", ")
}
