//! Sinks.

use std::path::Path;

use arrow::datatypes::{DataType, SchemaRef};
use millstream_expr::sql_name;
use millstream_graph::{FileSink, OperatorKind, ParquetCompression, SinkFormat};

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
    if let OperatorKind::FileSink(FileSink { format, .. }) = &kind {
        match format {
            SinkFormat::JsonLines => {}
            SinkFormat::Csv { .. } => check(fields, schema, "a CSV", is_nested, report),
            SinkFormat::Parquet { .. } => check(fields, schema, "a Parquet", is_span, report),
        }
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
            "parquet" => SinkFormat::Parquet {
                compression: match fields.word("compression")? {
                    "snappy" => ParquetCompression::Snappy,
                    "none" => ParquetCompression::None,
                    _ => ParquetCompression::Zstd,
                },
            },
            _ => SinkFormat::JsonLines,
        },
        roll_bytes: fields.bytes("roll-size")?,
    })
}

/// Not every value has a form in every format.
fn check(
    fields: &Fields<'_>,
    schema: &SchemaRef,
    format: &str,
    has_no_form: fn(&DataType) -> bool,
    report: &mut Report<'_>,
) {
    let mut columns = schema.fields().iter();
    let found = columns.find(|field| has_no_form(field.data_type()));
    let Some(field) = found else { return };
    let message = format!(
        "column {:?} is {}, which {format} file cannot hold",
        field.name(),
        sql_name(field.data_type())
    );
    let kind = FaultKind::structure(message, "set format to json, or cast it in a select step");
    match fields.node("format") {
        Some(node) => report.value(node, &fields.path_of("format"), kind),
        None => report.key(fields.at, &last_part(&fields.path), &fields.path, kind),
    }
}

/// A span of time, which Parquet has no type for that all readers know.
fn is_span(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// A field of a CSV file is one value.
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
