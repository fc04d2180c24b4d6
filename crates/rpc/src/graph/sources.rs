//! Configuration of sources.

use millstream_graph::{
    BadRecordPolicy, Compression, FileFormat, FileSource, GeneratorColumn, GeneratorSource,
    GeneratorValue,
};

use super::schema;
use crate::error::{DecodeError, EncodeError, invalid, missing, unknown};
use crate::pb;

pub(super) fn file_to_wire(source: &FileSource) -> Result<pb::FileSource, EncodeError> {
    let (format, delimiter) = match source.format {
        FileFormat::Text => (pb::FileFormat::Text, 0),
        FileFormat::JsonLines => (pb::FileFormat::JsonLines, 0),
        FileFormat::Csv { delimiter } => (pb::FileFormat::Csv, delimiter),
        FileFormat::Parquet => (pb::FileFormat::Parquet, 0),
    };
    let compression = match source.compression {
        Compression::Auto => pb::FileCompression::Auto,
        Compression::None => pb::FileCompression::None,
        Compression::Gzip => pb::FileCompression::Gzip,
        Compression::Zstd => pb::FileCompression::Zstd,
    };
    let on_error = match source.on_error {
        BadRecordPolicy::Fail => pb::BadRecordPolicy::Fail,
        BadRecordPolicy::Skip => pb::BadRecordPolicy::Skip,
        BadRecordPolicy::DeadLetter => pb::BadRecordPolicy::DeadLetter,
    };
    Ok(pb::FileSource {
        path: source.path.clone(),
        format: format.into(),
        csv_delimiter: delimiter.into(),
        schema: Some(schema::to_wire(&source.schema)?),
        split_bytes: source.split_bytes,
        on_error: on_error.into(),
        max_line_bytes: source.max_line_bytes,
        compression: compression.into(),
        fail_on_missing_field: source.fail_on_missing_field,
    })
}

pub(super) fn file_from_wire(message: pb::FileSource) -> Result<FileSource, DecodeError> {
    const SOURCE: &str = "FileSource";
    let format = match pb::FileFormat::try_from(message.format) {
        Ok(pb::FileFormat::Text) => FileFormat::Text,
        Ok(pb::FileFormat::JsonLines) => FileFormat::JsonLines,
        Ok(pb::FileFormat::Csv) => FileFormat::Csv {
            delimiter: delimiter_from_wire(SOURCE, message.csv_delimiter)?,
        },
        Ok(pb::FileFormat::Parquet) => FileFormat::Parquet,
        Ok(pb::FileFormat::Unspecified) | Err(_) => {
            return Err(unknown(SOURCE, "format", message.format));
        }
    };
    let on_error = match pb::BadRecordPolicy::try_from(message.on_error) {
        Ok(pb::BadRecordPolicy::Fail) => BadRecordPolicy::Fail,
        Ok(pb::BadRecordPolicy::Skip) => BadRecordPolicy::Skip,
        Ok(pb::BadRecordPolicy::DeadLetter) => BadRecordPolicy::DeadLetter,
        Ok(pb::BadRecordPolicy::Unspecified) | Err(_) => {
            return Err(unknown(SOURCE, "on_error", message.on_error));
        }
    };
    let compression = match pb::FileCompression::try_from(message.compression) {
        Ok(pb::FileCompression::Unspecified | pb::FileCompression::Auto) => Compression::Auto,
        Ok(pb::FileCompression::None) => Compression::None,
        Ok(pb::FileCompression::Gzip) => Compression::Gzip,
        Ok(pb::FileCompression::Zstd) => Compression::Zstd,
        Err(_) => return Err(unknown(SOURCE, "compression", message.compression)),
    };
    let schema = message.schema.ok_or(missing(SOURCE, "schema"))?;
    Ok(FileSource {
        path: message.path,
        format,
        schema: schema::from_wire(schema)?,
        split_bytes: message.split_bytes,
        on_error,
        max_line_bytes: message.max_line_bytes,
        compression,
        fail_on_missing_field: message.fail_on_missing_field,
    })
}

pub(super) fn delimiter_from_wire(message: &'static str, found: u32) -> Result<u8, DecodeError> {
    u8::try_from(found).map_err(|_| {
        invalid(
            message,
            "csv_delimiter",
            format!("is {found}, not one byte"),
        )
    })
}

pub(super) fn generator_to_wire(source: &GeneratorSource) -> pb::GeneratorSource {
    pb::GeneratorSource {
        rows: source.rows,
        rate: source.rate,
        seed: source.seed,
        columns: source.columns.iter().map(column_to_wire).collect(),
    }
}

pub(super) fn generator_from_wire(
    message: pb::GeneratorSource,
) -> Result<GeneratorSource, DecodeError> {
    if let Some(rate) = message.rate
        && !(rate.is_finite() && rate > 0.0)
    {
        let what = format!("is {rate}, not a finite number above 0");
        return Err(invalid("GeneratorSource", "rate", what));
    }
    let columns: Result<_, _> = message.columns.into_iter().map(column_from_wire).collect();
    Ok(GeneratorSource {
        rows: message.rows,
        rate: message.rate,
        seed: message.seed,
        columns: columns?,
    })
}

fn column_to_wire(column: &GeneratorColumn) -> pb::GeneratorColumn {
    use pb::generator_column::Value as V;
    let value = match &column.value {
        GeneratorValue::Sequence { start } => V::SequenceFrom(*start),
        GeneratorValue::RoundRobinKey { keys } => V::RoundRobinKeys(*keys),
        GeneratorValue::RoundRobinSequence { keys } => V::RoundRobinSequenceKeys(*keys),
        GeneratorValue::RandomInt { min, max } => V::RandomInt(pb::RandomInt {
            min: *min,
            max: *max,
        }),
        GeneratorValue::RandomDouble { min, max } => V::RandomDouble(pb::RandomDouble {
            min: *min,
            max: *max,
        }),
        GeneratorValue::RandomText { length } => V::RandomTextLength(*length),
        GeneratorValue::OneOf { values } => V::OneOf(pb::OneOf {
            values: values.clone(),
        }),
        GeneratorValue::Constant { value } => V::Constant(value.clone()),
    };
    pb::GeneratorColumn {
        name: column.name.clone(),
        value: Some(value),
    }
}

fn column_from_wire(message: pb::GeneratorColumn) -> Result<GeneratorColumn, DecodeError> {
    use pb::generator_column::Value as V;
    const COLUMN: &str = "GeneratorColumn";
    let at_least_one = |field, keys: u64| match keys {
        0 => Err(invalid(COLUMN, field, "is 0, not at least 1")),
        keys => Ok(keys),
    };
    let value = match message.value.ok_or(missing(COLUMN, "value"))? {
        V::SequenceFrom(start) => GeneratorValue::Sequence { start },
        V::RoundRobinKeys(keys) => GeneratorValue::RoundRobinKey {
            keys: at_least_one("round_robin_keys", keys)?,
        },
        V::RoundRobinSequenceKeys(keys) => {
            let keys = at_least_one("round_robin_sequence_keys", keys)?;
            GeneratorValue::RoundRobinSequence { keys }
        }
        V::RandomInt(pb::RandomInt { min, max }) if min <= max => {
            GeneratorValue::RandomInt { min, max }
        }
        V::RandomInt(_) => return Err(invalid(COLUMN, "random_int", "has a min above its max")),
        V::RandomDouble(pb::RandomDouble { min, max })
            if min.is_finite() && max.is_finite() && min < max =>
        {
            GeneratorValue::RandomDouble { min, max }
        }
        V::RandomDouble(_) => {
            let what = "does not have finite bounds with min below max";
            return Err(invalid(COLUMN, "random_double", what));
        }
        V::RandomTextLength(length) => GeneratorValue::RandomText { length },
        V::OneOf(pb::OneOf { values }) if values.is_empty() => {
            return Err(invalid(COLUMN, "one_of", "has no values"));
        }
        V::OneOf(pb::OneOf { values }) => GeneratorValue::OneOf { values },
        V::Constant(value) => GeneratorValue::Constant { value },
    };
    Ok(GeneratorColumn {
        name: message.name,
        value,
    })
}
