use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use millstream_graph::{
    AggregateColumn, AggregateFunction, BadRecordPolicy, Compression, Emit, Fault, FileFormat,
    FileSink, FileSource, GeneratorColumn, GeneratorSource, GeneratorValue, Inject, NamedExpr,
    OperatorCall, OperatorKind, ParquetCompression, SinkFormat,
};
use proptest::prelude::*;

use super::*;

fn schema(types: impl IntoIterator<Item = DataType>) -> Arc<Schema> {
    let field = |(i, t): (usize, DataType)| Field::new(format!("c{i}"), t, i % 2 == 0);
    let fields: Vec<Field> = types.into_iter().enumerate().map(field).collect();
    Arc::new(Schema::new(fields))
}

fn nested_types() -> Vec<DataType> {
    let text = Arc::new(Field::new("element", DataType::Utf8, true));
    let entry = vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Decimal128(38, 10), true),
    ];
    let entries = Arc::new(Field::new("entries", DataType::Struct(entry.into()), false));
    vec![
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Microsecond, Some("+01:00".into())),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, -3),
        DataType::Decimal256(76, 76),
        DataType::FixedSizeBinary(16),
        DataType::List(text.clone()),
        DataType::LargeList(text.clone()),
        DataType::FixedSizeList(text, 3),
        DataType::Map(entries, true),
        DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8)),
    ]
}

fn file(format: FileFormat, on_error: BadRecordPolicy) -> FileSource {
    FileSource {
        path: "/data/**/*.md".into(),
        fail_on_missing_field: format == FileFormat::JsonLines,
        format,
        schema: schema([DataType::Utf8]),
        split_bytes: 64 << 20,
        on_error,
        max_line_bytes: 1 << 20,
        compression: Compression::Auto,
    }
}

fn generator() -> GeneratorSource {
    let values = [
        GeneratorValue::Sequence { start: -5 },
        GeneratorValue::RoundRobinKey { keys: 7 },
        GeneratorValue::RoundRobinSequence { keys: 7 },
        GeneratorValue::RandomInt {
            min: i64::MIN,
            max: i64::MAX,
        },
        GeneratorValue::RandomDouble {
            min: -0.5,
            max: 0.5,
        },
        GeneratorValue::RandomText { length: 12 },
        GeneratorValue::OneOf {
            values: vec!["a".into(), "ü".into()],
        },
        GeneratorValue::Constant {
            value: String::new(),
        },
    ];
    let column = |(i, value)| GeneratorColumn {
        name: format!("g{i}"),
        value,
    };
    let columns = values.into_iter().enumerate().map(column).collect();
    GeneratorSource {
        rows: Some(0),
        rate: Some(50_000.0),
        seed: u64::MAX,
        columns,
    }
}

fn aggregates() -> Vec<AggregateColumn> {
    use AggregateFunction as F;
    let functions = [F::Count, F::Sum, F::Min, F::Max, F::Avg, F::LastValue].into_iter();
    let column = |function: F| AggregateColumn {
        name: format!("{function:?}"),
        function,
        argument: (function != F::Count).then(|| "n + 1".to_owned()),
        input_type: (function != F::Count).then_some(DataType::Int32),
        output_type: DataType::Int64,
    };
    functions.map(column).collect()
}

fn faults() -> [Fault; 8] {
    let message = || "on purpose".to_owned();
    let blocked = |during| Fault::BlockInSocketRead { during };
    [
        Fault::Fail { message: message() },
        Fault::Panic { message: message() },
        blocked(OperatorCall::Open),
        blocked(OperatorCall::Process),
        blocked(OperatorCall::Snapshot),
        blocked(OperatorCall::Close),
        Fault::Delay {
            per_row: Duration::from_nanos(1_500_000_001),
        },
        Fault::RefuseSnapshot { message: message() },
    ]
}

/// File sources of every compression and sinks of every format.
fn files() -> impl Iterator<Item = OperatorKind> {
    let packed = [Compression::None, Compression::Gzip, Compression::Zstd];
    let sources = packed.map(|compression| {
        OperatorKind::FileSource(FileSource {
            compression,
            ..file(FileFormat::Text, BadRecordPolicy::Fail)
        })
    });
    let parquet = |compression| SinkFormat::Parquet { compression };
    let formats = [
        SinkFormat::JsonLines,
        SinkFormat::Csv { delimiter: b'\t' },
        parquet(ParquetCompression::Zstd),
        parquet(ParquetCompression::Snappy),
        parquet(ParquetCompression::None),
    ];
    let sinks = formats.map(|format| {
        OperatorKind::FileSink(FileSink {
            path: "out".into(),
            format,
            roll_bytes: 1,
        })
    });
    sources.into_iter().chain(sinks)
}

/// Every kind with every variant of its configuration.
fn kinds() -> Vec<OperatorKind> {
    let csv = FileFormat::Csv { delimiter: b';' };
    let mut kinds = vec![
        OperatorKind::FileEnumerator(file(FileFormat::Text, BadRecordPolicy::Fail)),
        OperatorKind::FileSource(file(FileFormat::JsonLines, BadRecordPolicy::Skip)),
        OperatorKind::FileSource(file(csv, BadRecordPolicy::DeadLetter)),
        OperatorKind::FileSource(file(FileFormat::Parquet, BadRecordPolicy::Fail)),
        OperatorKind::Generator(generator()),
        OperatorKind::Generator(GeneratorSource {
            rows: None,
            rate: None,
            ..generator()
        }),
        OperatorKind::Select {
            columns: vec![NamedExpr {
                name: "x".into(),
                expr: "a + 1".into(),
            }],
        },
        OperatorKind::Filter {
            predicate: "x > 1".into(),
        },
        OperatorKind::FlatMap {
            expr: "regexp_split(l, ' ')".into(),
            name: "w".into(),
            keep: true,
        },
        OperatorKind::Union,
        OperatorKind::Print { label: None },
        OperatorKind::Print {
            label: Some(String::new()),
        },
        OperatorKind::Blackhole,
    ];
    let emits = [
        Emit::Each,
        Emit::Batch,
        Emit::Interval(Duration::from_millis(250)),
        Emit::End,
    ];
    kinds.extend(emits.map(|emit| OperatorKind::Aggregate {
        keys: vec![0, 2],
        aggregates: aggregates(),
        emit,
    }));
    let inject = |fault| Inject {
        fault,
        at_row: 3,
        subtask: Some(0),
        times: None,
    };
    kinds.extend(faults().map(|fault| OperatorKind::Inject(inject(fault))));
    kinds.extend(files());
    kinds
}

/// A graph that has everything once. It need not be valid.
fn graph() -> JobGraph {
    let types: Vec<DataType> = schema::primitives().chain(nested_types()).collect();
    let metadata = HashMap::from([
        ("b".to_owned(), "2".to_owned()),
        ("a".to_owned(), "1".to_owned()),
    ]);
    let node = |(i, kind): (usize, OperatorKind)| OperatorNode {
        uid: OperatorUid::new(&format!("op-{i}")).unwrap(),
        uid_generated: i % 2 == 0,
        name: format!("Operator {i}"),
        kind,
        parallelism: i as u32,
        max_parallelism: MaxParallelism::new(32_768).unwrap(),
        max_parallelism_explicit: i % 3 == 0,
        slot_sharing_group: "default".to_owned(),
        chain_with_input: i % 2 == 1,
        schema: Arc::new(
            (*schema(types.clone()))
                .clone()
                .with_metadata(metadata.clone()),
        ),
    };
    let partitionings = [
        Partitioning::Forward,
        Partitioning::Rebalance,
        Partitioning::Assign,
        Partitioning::Hash {
            columns: vec![0, 70_000],
        },
        Partitioning::Broadcast,
    ];
    let edge = |(i, partitioning)| Edge {
        from: OperatorId(i),
        port: if i == 1 {
            OutputPort::DeadLetter
        } else {
            OutputPort::Main
        },
        to: OperatorId(i + 1),
        input: i,
        partitioning,
    };
    let setting = |key: &str| Setting {
        key: key.into(),
        value: "5s".into(),
        origin: "job".into(),
    };
    JobGraph {
        name: "word-count ü".into(),
        operators: kinds().into_iter().enumerate().map(node).collect(),
        edges: (0..).zip(partitionings).map(edge).collect(),
        settings: vec![setting("checkpointing.interval"), setting("parallelism")],
    }
}

#[test]
fn every_kind_type_and_edge_comes_back_as_it_was() {
    let graph = graph();
    let bytes = encode_graph(&graph).unwrap();
    assert_eq!(decode_graph(&bytes).unwrap(), graph);
    assert_eq!(
        encode_graph(&graph.clone()).unwrap(),
        bytes,
        "the same bytes each time"
    );
}

// HND-073, third part: an 8 MB definition is refused with both sizes, before it is sent.
#[test]
fn a_graph_above_four_mebibytes_is_refused_with_both_sizes() {
    let mut graph = graph();
    graph.operators[0].kind = OperatorKind::Filter {
        predicate: "x".repeat(8_000_000),
    };
    let error = encode_graph(&graph).unwrap_err().to_string();
    assert!(error.contains("\"word-count ü\" has 80"), "{error}");
    assert!(error.ends_with("above the limit of 4194304"), "{error}");
    let error = decode_graph(&vec![0; 5_000_000]).unwrap_err().to_string();
    assert_eq!(
        error,
        "the job graph has 5000000 bytes, above the limit of 4194304"
    );
}

// A million operators are two megabytes, and would be a gigabyte.
#[test]
fn a_million_operators_are_counted_before_they_are_read() {
    let refused = |bytes: [u8; 2]| {
        decode_graph(&bytes.repeat(1_000_000))
            .unwrap_err()
            .to_string()
    };
    let operators = "the job graph has 1000000 operators, above the limit of 1000";
    assert_eq!(refused([0x12, 0]), operators);
    let edges = "the job graph has 1000000 edges, above the limit of 10000";
    assert_eq!(refused([0x1a, 0]), edges);
    let settings = "the job graph has 1000000 settings, above the limit of 1000";
    assert_eq!(refused([0x22, 0]), settings);
}

#[test]
fn a_type_that_processes_cannot_exchange_is_refused_by_its_column() {
    let mut graph = graph();
    let view = DataType::ListView(Arc::new(Field::new("e", DataType::Int8, true)));
    graph.operators[3].schema = schema([DataType::Utf8, view]);
    let error = encode_graph(&graph).unwrap_err().to_string();
    assert!(error.starts_with("column \"c1\" is ListView"), "{error}");
}

#[test]
fn types_nested_beyond_the_limit_are_refused_on_both_sides() {
    let nest = |n| {
        (0..n).fold(DataType::Int64, |inner, _| {
            DataType::List(Arc::new(Field::new("element", inner, true)))
        })
    };
    let mut graph = graph();
    graph.operators[0].schema = schema([nest(16)]);
    assert_eq!(decode_graph(&encode_graph(&graph).unwrap()).unwrap(), graph);
    graph.operators[0].schema = schema([nest(17)]);
    assert!(matches!(
        encode_graph(&graph),
        Err(EncodeError::ColumnType { .. })
    ));

    let mut message = graph_to_wire(&self::graph()).unwrap();
    let mut wire = schema::to_wire(&schema([nest(16)])).unwrap();
    let deep = wire.fields[0].clone();
    let list = pb::ListType {
        element: Some(Box::new(deep)),
        layout: pb::ListLayout::Variable.into(),
        fixed_size: 0,
    };
    let kind = pb::data_type::Kind::List(Box::new(list));
    wire.fields[0].r#type = Some(Box::new(pb::DataType { kind: Some(kind) }));
    message.operators[0].schema = Some(wire);
    let error = decode_graph(&message.encode_to_vec())
        .unwrap_err()
        .to_string();
    assert_eq!(error, "DataType.kind is nested more than 16 deep");
}

/// What comes out when this is done to the message of a good graph.
fn refused(change: impl FnOnce(&mut pb::JobGraph)) -> String {
    let mut message = graph_to_wire(&graph()).unwrap();
    change(&mut message);
    decode_graph(&message.encode_to_vec())
        .unwrap_err()
        .to_string()
}

#[test]
fn what_makes_no_sense_is_refused_by_message_and_field() {
    use pb::operator_node::Kind;
    type Change = fn(&mut pb::JobGraph);
    let cases: [(&str, Change); 9] = [
        ("OperatorNode.kind is missing", |g| {
            g.operators[0].kind = None
        }),
        ("OperatorNode.schema is missing", |g| {
            g.operators[0].schema = None
        }),
        ("OperatorNode.uid is refused: \"\" is not", |g| {
            g.operators[0].uid.clear()
        }),
        (
            "OperatorNode.max_parallelism is refused: max parallelism is 0",
            |g| {
                g.operators[0].max_parallelism = 0;
            },
        ),
        ("Edge.partitioning is missing", |g| {
            g.edges[0].partitioning = None
        }),
        ("Edge.port is 9, which is unknown", |g| g.edges[0].port = 9),
        ("Edge.port is 0, which is unknown", |g| g.edges[0].port = 0),
        (
            "GeneratorSource.rate is NaN, not a finite number above 0",
            |g| {
                let generator = pb::GeneratorSource {
                    rate: Some(f64::NAN),
                    ..Default::default()
                };
                g.operators[0].kind = Some(Kind::Generator(generator));
            },
        ),
        ("DecimalType.precision is 99, outside 1 to 38", |g| {
            let decimal = pb::DecimalType {
                bits: 128,
                precision: 99,
                scale: 0,
            };
            let kind = Some(pb::data_type::Kind::Decimal(decimal));
            let schema = g.operators[0].schema.as_mut().unwrap();
            schema.fields[0].r#type = Some(Box::new(pb::DataType { kind }));
        }),
    ];
    for (expected, change) in cases {
        let error = refused(change);
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(matches!(
        decode_graph(b"name: word-count"),
        Err(DecodeError::Malformed { .. })
    ));
}

/// Deep nesting must neither overflow the stack nor pass (docs/spec/bad-input.md, job submission).
#[test]
fn a_message_nested_a_hundred_thousand_deep_is_refused() {
    // A length-delimited field 2 inside itself: DataType.list.element.type and so on, by hand.
    let mut bytes = Vec::new();
    for _ in 0..50_000 {
        let mut outer = vec![0x12];
        prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
        if outer.len() + bytes.len() > GRAPH_BYTES_MAX {
            break;
        }
        outer.append(&mut bytes);
        bytes = outer;
    }
    assert!(decode_graph(&bytes).is_err());
}

proptest! {
    /// Whatever bytes are put into a graph: it is refused, or what was read can be written again.
    #[test]
    fn damaged_bytes_are_refused_or_read_consistently(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = encode_graph(&graph()).unwrap().to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(read) = decode_graph(&bytes) {
            let written = encode_graph(&read).unwrap();
            prop_assert_eq!(decode_graph(&written).unwrap(), read);
        }
    }
}
