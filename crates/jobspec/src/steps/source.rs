//! File sources, and which sources end.

use std::path::Path;

use arrow::datatypes::{DataType, Field, SchemaRef};
use millstream_graph::{BadRecordPolicy, Compression, FileFormat, FileSource, OperatorKind};

use super::{Built, named, schema};
use crate::fault::FaultKind;
use crate::fields::Fields;
use crate::report::Report;
use crate::table::TEXT_COLUMN;
use crate::{paths, types};

pub(crate) fn build(
    fields: &Fields<'_>,
    base_dir: Option<&Path>,
    report: &mut Report<'_>,
) -> Option<Built> {
    let format = match fields.word("format")? {
        "json" => FileFormat::JsonLines,
        "csv" => FileFormat::Csv {
            delimiter: fields.byte("delimiter")?,
        },
        "parquet" => FileFormat::Parquet,
        _ => FileFormat::Text,
    };
    let schema = match format {
        FileFormat::Text => schema([Field::new(TEXT_COLUMN, DataType::Utf8, true)]),
        FileFormat::JsonLines | FileFormat::Csv { .. } | FileFormat::Parquet => {
            columns(fields, report)?
        }
    };
    let source = FileSource {
        path: paths::absolute(fields.text("path")?, base_dir),
        format,
        schema: SchemaRef::clone(&schema),
        split_bytes: fields.bytes("split-size")?,
        on_error: match fields.word("on-error")? {
            "skip" => BadRecordPolicy::Skip,
            "dead-letter" => BadRecordPolicy::DeadLetter,
            _ => BadRecordPolicy::Fail,
        },
        max_line_bytes: fields.bytes("max-line")?,
        compression: match fields.word("compression")? {
            "none" => Compression::None,
            "gzip" => Compression::Gzip,
            "zstd" => Compression::Zstd,
            _ => Compression::Auto,
        },
        fail_on_missing_field: fields.bool("fail-on-missing-field")?,
    };
    Some(Built {
        kind: OperatorKind::FileSource(source),
        schema,
    })
}

/// The declared columns of a JSON, CSV or Parquet source.
fn columns(fields: &Fields<'_>, report: &mut Report<'_>) -> Option<SchemaRef> {
    if fields.node("columns").is_none() {
        let format = fields.word("format").unwrap_or_default();
        if fields.complete {
            let kind = FaultKind::MissingKey {
                of: format!("a file source with format {format}"),
                key: "columns".to_owned(),
                means: "names and types, such as { id: BIGINT, name: VARCHAR }",
            };
            report.key(fields.at, "source", &fields.path, kind);
        }
        return None;
    }
    let entries = named::read(fields, "columns", "names with types", report)?;
    let mut columns = Vec::new();
    for column in &entries {
        let node = &column.entry.node;
        let text = named::text(node, &column.path, "a type such as BIGINT", report);
        columns.push(text.and_then(|text| match types::parse(text) {
            Ok(data_type) => Some(Field::new(&column.entry.key, data_type, true)),
            Err(kind) => {
                report.value(node, &column.path, kind);
                None
            }
        }));
    }
    let columns: Option<Vec<Field>> = columns.into_iter().collect();
    columns.map(schema)
}

/// Whether a source ends by itself; `None` for what is no source, or could not be read.
pub(crate) fn ends(built: Option<&Built>) -> Option<bool> {
    match &built?.kind {
        OperatorKind::FileEnumerator(_) | OperatorKind::FileSource(_) => Some(true),
        OperatorKind::Generator(generator) => Some(generator.rows.is_some()),
        OperatorKind::Select { .. }
        | OperatorKind::Filter { .. }
        | OperatorKind::FlatMap { .. }
        | OperatorKind::Union
        | OperatorKind::Aggregate { .. }
        | OperatorKind::Inject(_)
        | OperatorKind::Print { .. }
        | OperatorKind::Blackhole
        | OperatorKind::FileSink(_) => None,
    }
}
