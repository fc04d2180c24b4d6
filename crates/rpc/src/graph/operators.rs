//! What operators do.

use millstream_graph::{
    AggregateColumn, AggregateFunction, Emit, Fault, FileSink, Inject, NamedExpr, OperatorCall,
    OperatorKind, ParquetCompression, SinkFormat,
};

use super::{columns_from_wire, columns_to_wire, schema, sources};
use crate::error::{DecodeError, EncodeError, invalid, missing, unknown};
use crate::pb::{self, operator_node::Kind};
use crate::scalar::{duration_from_wire, duration_to_wire};

pub(super) fn to_wire(kind: &OperatorKind) -> Result<Kind, EncodeError> {
    Ok(match kind {
        OperatorKind::FileEnumerator(source) => {
            Kind::FileEnumerator(sources::file_to_wire(source)?)
        }
        OperatorKind::FileSource(source) => Kind::FileSource(sources::file_to_wire(source)?),
        OperatorKind::Generator(generator) => {
            Kind::Generator(sources::generator_to_wire(generator))
        }
        OperatorKind::Select { columns } => {
            let column = |column: &NamedExpr| pb::NamedExpr {
                name: column.name.clone(),
                expr: column.expr.clone(),
            };
            Kind::Select(pb::Select {
                columns: columns.iter().map(column).collect(),
            })
        }
        OperatorKind::Filter { predicate } => Kind::Filter(pb::Filter {
            predicate: predicate.clone(),
        }),
        OperatorKind::FlatMap { expr, name, keep } => {
            let (expr, name) = (expr.clone(), name.clone());
            Kind::FlatMap(pb::FlatMap {
                expr,
                name,
                keep: *keep,
            })
        }
        OperatorKind::Union => Kind::Union(pb::Union {}),
        OperatorKind::Aggregate {
            keys,
            aggregates,
            emit,
        } => {
            let aggregates: Result<_, _> = aggregates.iter().map(aggregate_to_wire).collect();
            Kind::Aggregate(pb::Aggregate {
                keys: columns_to_wire(keys),
                aggregates: aggregates?,
                emit: Some(emit_to_wire(*emit)),
            })
        }
        OperatorKind::Inject(inject) => Kind::Inject(inject_to_wire(inject)),
        OperatorKind::Print { label } => Kind::Print(pb::PrintSink {
            label: label.clone(),
        }),
        OperatorKind::Blackhole => Kind::Blackhole(pb::BlackholeSink {}),
        OperatorKind::FileSink(sink) => Kind::FileSink(sink_to_wire(sink)),
    })
}

pub(super) fn from_wire(kind: Kind) -> Result<OperatorKind, DecodeError> {
    Ok(match kind {
        Kind::FileEnumerator(source) => {
            OperatorKind::FileEnumerator(sources::file_from_wire(source)?)
        }
        Kind::FileSource(source) => OperatorKind::FileSource(sources::file_from_wire(source)?),
        Kind::Generator(generator) => {
            OperatorKind::Generator(sources::generator_from_wire(generator)?)
        }
        Kind::Select(select) => {
            let column = |column: pb::NamedExpr| NamedExpr {
                name: column.name,
                expr: column.expr,
            };
            OperatorKind::Select {
                columns: select.columns.into_iter().map(column).collect(),
            }
        }
        Kind::Filter(filter) => OperatorKind::Filter {
            predicate: filter.predicate,
        },
        Kind::FlatMap(step) => OperatorKind::FlatMap {
            expr: step.expr,
            name: step.name,
            keep: step.keep,
        },
        Kind::Union(_) => OperatorKind::Union,
        Kind::Aggregate(step) => {
            let aggregates: Result<_, _> = step
                .aggregates
                .into_iter()
                .map(aggregate_from_wire)
                .collect();
            OperatorKind::Aggregate {
                keys: columns_from_wire(&step.keys),
                aggregates: aggregates?,
                emit: emit_from_wire(step.emit.ok_or(missing("Aggregate", "emit"))?)?,
            }
        }
        Kind::Inject(inject) => OperatorKind::Inject(inject_from_wire(inject)?),
        Kind::Print(print) => OperatorKind::Print { label: print.label },
        Kind::Blackhole(_) => OperatorKind::Blackhole,
        Kind::FileSink(sink) => OperatorKind::FileSink(sink_from_wire(sink)?),
    })
}

fn aggregate_to_wire(column: &AggregateColumn) -> Result<pb::AggregateColumn, EncodeError> {
    let function = match column.function {
        AggregateFunction::Count => pb::AggregateFunction::Count,
        AggregateFunction::Sum => pb::AggregateFunction::Sum,
        AggregateFunction::Min => pb::AggregateFunction::Min,
        AggregateFunction::Max => pb::AggregateFunction::Max,
        AggregateFunction::Avg => pb::AggregateFunction::Avg,
        AggregateFunction::LastValue => pb::AggregateFunction::LastValue,
    };
    let wire_type = |data_type| schema::type_to_wire(&column.name, data_type, 0);
    Ok(pb::AggregateColumn {
        name: column.name.clone(),
        function: function.into(),
        argument: column.argument.clone(),
        input_type: column.input_type.as_ref().map(wire_type).transpose()?,
        output_type: Some(wire_type(&column.output_type)?),
    })
}

fn aggregate_from_wire(message: pb::AggregateColumn) -> Result<AggregateColumn, DecodeError> {
    const AGGREGATE: &str = "AggregateColumn";
    let function = match pb::AggregateFunction::try_from(message.function) {
        Ok(pb::AggregateFunction::Count) => AggregateFunction::Count,
        Ok(pb::AggregateFunction::Sum) => AggregateFunction::Sum,
        Ok(pb::AggregateFunction::Min) => AggregateFunction::Min,
        Ok(pb::AggregateFunction::Max) => AggregateFunction::Max,
        Ok(pb::AggregateFunction::Avg) => AggregateFunction::Avg,
        Ok(pb::AggregateFunction::LastValue) => AggregateFunction::LastValue,
        Ok(pb::AggregateFunction::Unspecified) | Err(_) => {
            return Err(unknown(AGGREGATE, "function", message.function));
        }
    };
    if message.argument.is_some() != message.input_type.is_some() {
        return Err(invalid(
            AGGREGATE,
            "input_type",
            "is not there exactly with an argument",
        ));
    }
    let input_type = message
        .input_type
        .map(|t| schema::type_from_wire(t, 0))
        .transpose()?;
    let output_type = message
        .output_type
        .ok_or(missing(AGGREGATE, "output_type"))?;
    Ok(AggregateColumn {
        name: message.name,
        function,
        argument: message.argument,
        input_type,
        output_type: schema::type_from_wire(output_type, 0)?,
    })
}

fn emit_to_wire(emit: Emit) -> pb::Emit {
    let (mode, interval) = match emit {
        Emit::Each => (pb::EmitMode::Each, None),
        Emit::Batch => (pb::EmitMode::Batch, None),
        Emit::Interval(interval) => (pb::EmitMode::Interval, Some(duration_to_wire(interval))),
        Emit::End => (pb::EmitMode::End, None),
    };
    pb::Emit {
        mode: mode.into(),
        interval,
    }
}

fn emit_from_wire(message: pb::Emit) -> Result<Emit, DecodeError> {
    Ok(match pb::EmitMode::try_from(message.mode) {
        Ok(pb::EmitMode::Each) => Emit::Each,
        Ok(pb::EmitMode::Batch) => Emit::Batch,
        Ok(pb::EmitMode::Interval) => {
            Emit::Interval(duration_from_wire("Emit", "interval", message.interval)?)
        }
        Ok(pb::EmitMode::End) => Emit::End,
        Ok(pb::EmitMode::Unspecified) | Err(_) => {
            return Err(unknown("Emit", "mode", message.mode));
        }
    })
}

fn sink_to_wire(sink: &FileSink) -> pb::FileSink {
    let (mut delimiter, mut compression) = (0, pb::ParquetCompression::Unspecified);
    let format = match sink.format {
        SinkFormat::JsonLines => pb::FileFormat::JsonLines,
        SinkFormat::Csv { delimiter: byte } => {
            delimiter = byte.into();
            pb::FileFormat::Csv
        }
        SinkFormat::Parquet { compression: codec } => {
            compression = match codec {
                ParquetCompression::Zstd => pb::ParquetCompression::Zstd,
                ParquetCompression::Snappy => pb::ParquetCompression::Snappy,
                ParquetCompression::None => pb::ParquetCompression::None,
            };
            pb::FileFormat::Parquet
        }
    };
    pb::FileSink {
        path: sink.path.clone(),
        format: format.into(),
        csv_delimiter: delimiter,
        roll_bytes: sink.roll_bytes,
        parquet_compression: compression.into(),
    }
}

fn sink_from_wire(message: pb::FileSink) -> Result<FileSink, DecodeError> {
    let format = match pb::FileFormat::try_from(message.format) {
        Ok(pb::FileFormat::JsonLines) => SinkFormat::JsonLines,
        Ok(pb::FileFormat::Csv) => SinkFormat::Csv {
            delimiter: sources::delimiter_from_wire("FileSink", message.csv_delimiter)?,
        },
        Ok(pb::FileFormat::Parquet) => SinkFormat::Parquet {
            compression: parquet_from_wire(message.parquet_compression)?,
        },
        Ok(pb::FileFormat::Text) => {
            return Err(invalid(
                "FileSink",
                "format",
                "is text, which no sink writes",
            ));
        }
        Ok(pb::FileFormat::Unspecified) | Err(_) => {
            return Err(unknown("FileSink", "format", message.format));
        }
    };
    Ok(FileSink {
        path: message.path,
        format,
        roll_bytes: message.roll_bytes,
    })
}

fn parquet_from_wire(compression: i32) -> Result<ParquetCompression, DecodeError> {
    match pb::ParquetCompression::try_from(compression) {
        Ok(pb::ParquetCompression::Zstd) => Ok(ParquetCompression::Zstd),
        Ok(pb::ParquetCompression::Snappy) => Ok(ParquetCompression::Snappy),
        Ok(pb::ParquetCompression::None) => Ok(ParquetCompression::None),
        Ok(pb::ParquetCompression::Unspecified) | Err(_) => {
            Err(unknown("FileSink", "parquet_compression", compression))
        }
    }
}

fn inject_to_wire(inject: &Inject) -> pb::Inject {
    use pb::inject::Fault as F;
    let fault = match &inject.fault {
        Fault::Fail { message } => F::Fail(message.clone()),
        Fault::Panic { message } => F::Panic(message.clone()),
        Fault::BlockInSocketRead { during } => {
            let during = match during {
                OperatorCall::Open => pb::OperatorCall::Open,
                OperatorCall::Process => pb::OperatorCall::Process,
                OperatorCall::Snapshot => pb::OperatorCall::Snapshot,
                OperatorCall::Close => pb::OperatorCall::Close,
            };
            F::BlockInSocketRead(pb::BlockInSocketRead {
                during: during.into(),
            })
        }
        Fault::Delay { per_row } => F::DelayPerRow(duration_to_wire(*per_row)),
        Fault::RefuseSnapshot { message } => F::RefuseSnapshot(message.clone()),
    };
    pb::Inject {
        at_row: inject.at_row,
        subtask: inject.subtask,
        times: inject.times,
        fault: Some(fault),
    }
}

fn inject_from_wire(message: pb::Inject) -> Result<Inject, DecodeError> {
    use pb::inject::Fault as F;
    let fault = match message.fault.ok_or(missing("Inject", "fault"))? {
        F::Fail(message) => Fault::Fail { message },
        F::Panic(message) => Fault::Panic { message },
        F::BlockInSocketRead(block) => Fault::BlockInSocketRead {
            during: match pb::OperatorCall::try_from(block.during) {
                Ok(pb::OperatorCall::Unspecified | pb::OperatorCall::Process) => {
                    OperatorCall::Process
                }
                Ok(pb::OperatorCall::Open) => OperatorCall::Open,
                Ok(pb::OperatorCall::Snapshot) => OperatorCall::Snapshot,
                Ok(pb::OperatorCall::Close) => OperatorCall::Close,
                Err(_) => return Err(unknown("BlockInSocketRead", "during", block.during)),
            },
        },
        F::DelayPerRow(delay) => Fault::Delay {
            per_row: duration_from_wire("Inject", "delay_per_row", Some(delay))?,
        },
        F::RefuseSnapshot(message) => Fault::RefuseSnapshot { message },
    };
    Ok(Inject {
        fault,
        at_row: message.at_row,
        subtask: message.subtask,
        times: message.times,
    })
}
