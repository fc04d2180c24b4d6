//! Sinks.

use std::path::Path;

use arrow::datatypes::{DataType, SchemaRef};
use millstream_expr::sql_name;
use millstream_graph::{FileSink, OperatorKind, SinkFormat};

use super::Built;
use crate::fault::FaultKind;
use crate::fields::{Fields, last_part};
use crate::inputs::Input;
use crate::paths;
use crate::report::Report;
use crate::table::Connector;

pub(crate) fn build(
    connector: Connector,
    fields: &Fields<'_>,
    input: &Input,
    base_dir: Option<&Path>,
    report: &mut Report<'_>,
) -> Option<Built> {
    let kind = match connector {
        Connector::Print => OperatorKind::Print {
            label: fields.text("label").map(str::to_owned),
        },
        Connector::Blackhole => OperatorKind::Blackhole,
        Connector::FileSink => OperatorKind::FileSink(file(fields, base_dir)?),
        Connector::FileSource | Connector::Generator => return None,
    };
    let schema = input.schema.as_ref()?;
    if let OperatorKind::FileSink(FileSink {
        format: SinkFormat::Csv { .. },
        ..
    }) = &kind
    {
        check_flat(fields, schema, report);
    }
    Some(Built {
        kind,
        schema: SchemaRef::clone(schema),
    })
}

fn file(fields: &Fields<'_>, base_dir: Option<&Path>) -> Option<FileSink> {
    Some(FileSink {
        path: paths::absolute(fields.text("path")?, base_dir),
        format: match fields.word("format")? {
            "csv" => SinkFormat::Csv {
                delimiter: fields.byte("delimiter")?,
            },
            _ => SinkFormat::JsonLines,
        },
        roll_bytes: fields.bytes("roll-size")?,
    })
}

/// A field of a CSV file is one value.
fn check_flat(fields: &Fields<'_>, schema: &SchemaRef, report: &mut Report<'_>) {
    let nested = schema
        .fields()
        .iter()
        .find(|field| is_nested(field.data_type()));
    let Some(field) = nested else { return };
    let message = format!(
        "column {:?} is {}, which a CSV file cannot hold",
        field.name(),
        sql_name(field.data_type())
    );
    let kind = FaultKind::structure(message, "set format to json, or cast it in a select step");
    match fields.node("format") {
        Some(node) => report.value(node, &fields.path_of("format"), kind),
        None => report.key(fields.at, &last_part(&fields.path), &fields.path, kind),
    }
}

fn is_nested(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_)
            | DataType::Map(..)
    )
}
