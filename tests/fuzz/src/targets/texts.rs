//! What people write: job files, configuration, values, expressions.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::Schema;
use millstream_config::{
    Host, Layer, PortRange, Resolved, StorageLocation, ValueFault, parse_bytes, parse_duration,
};
use millstream_rpc::{decode_graph, encode_graph};

pub(super) fn job_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let read = || millstream_jobspec::parse("job.yaml", text, None, &Resolved::new([]));
    match read() {
        Ok(job) => {
            assert_eq!(read().as_ref(), Ok(&job), "a file has one meaning");
            job.graph.validate().expect("an accepted graph is valid");
            let bytes = encode_graph(&job.graph).expect("an accepted graph can be sent");
            assert_eq!(
                decode_graph(&bytes).expect("it was just written"),
                job.graph
            );
        }
        Err(errors) => {
            assert!(!errors.faults().is_empty(), "refused without a reason");
            assert!(!errors.render().is_empty());
        }
    }
}

pub(super) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Layer::file("config.yaml", text) {
        Ok(layer) => {
            let printed = Resolved::new([layer]).print_config();
            let again = Layer::file("printed.yaml", &printed);
            let again = again.unwrap_or_else(|e| panic!("what was printed is refused: {e}"));
            let values = |text: &str| -> Vec<String> {
                let line = |line: &str| line.split("  # ").next().unwrap_or_default().to_owned();
                text.lines().map(line).collect()
            };
            let printed_again = Resolved::new([again]).print_config();
            assert_eq!(values(&printed), values(&printed_again));
        }
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}

pub(super) fn values(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(duration) = parse_duration(text) {
        let printed = millstream_config::human_duration(duration);
        assert_eq!(parse_duration(&printed), Ok(duration), "{printed}");
    }
    if let Ok(bytes) = parse_bytes(text) {
        let printed = millstream_config::human_bytes(bytes);
        assert_eq!(parse_bytes(&printed), Ok(bytes), "{printed}");
    }
    same_again(text, StorageLocation::parse);
    same_again(text, Host::parse);
    same_again(text, PortRange::parse);
}

/// What a value prints is read as the same value.
fn same_again<T: Display + Debug + PartialEq>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, ValueFault>,
) {
    match parse(text) {
        Ok(value) => {
            let printed = value.to_string();
            match parse(&printed) {
                Ok(again) => assert_eq!(again, value, "{printed}"),
                Err(error) => {
                    panic!("{text:?} is printed as {printed:?}, which is refused: {error:?}")
                }
            }
        }
        Err(fault) => assert!(!fault.message("key").is_empty()),
    }
}

/// Rows with the values that break things, in columns of each kind.
fn rows() -> RecordBatch {
    let columns: [(&str, ArrayRef); 6] = [
        (
            "i",
            Arc::new(Int64Array::from(vec![
                Some(0),
                None,
                Some(i64::MAX),
                Some(i64::MIN),
                Some(-1),
            ])),
        ),
        (
            "j",
            Arc::new(Int64Array::from(vec![
                Some(1),
                Some(0),
                Some(-1),
                Some(2),
                None,
            ])),
        ),
        (
            "x",
            Arc::new(Float64Array::from(vec![
                Some(f64::NAN),
                Some(-0.0),
                None,
                Some(f64::INFINITY),
                Some(1e-310),
            ])),
        ),
        (
            "s",
            Arc::new(StringArray::from(vec![
                Some(""),
                Some("a,b"),
                None,
                Some("größer\0\u{10ffff}"),
                Some("12"),
            ])),
        ),
        (
            "b",
            Arc::new(BooleanArray::from(vec![
                Some(true),
                Some(false),
                None,
                Some(true),
                None,
            ])),
        ),
        (
            "t",
            Arc::new(TimestampMicrosecondArray::from(vec![
                Some(0),
                None,
                Some(i64::MAX),
                Some(i64::MIN),
                Some(1),
            ])),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("columns of five rows")
}

pub(super) fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let rows = rows();
    let schema: Arc<Schema> = rows.schema();
    match millstream_expr::compile(text, &schema) {
        Ok(compiled) => match (compiled.evaluate(&rows), compiled.evaluate(&rows)) {
            (Ok(values), Ok(again)) => {
                assert_eq!(values.len(), rows.num_rows(), "one value a row");
                assert_eq!(values.data_type(), compiled.data_type());
                assert_eq!(values.to_data(), again.to_data(), "the same each time");
            }
            (Err(error), Err(_)) => assert!(!error.to_string().is_empty()),
            (one, other) => panic!("{text:?} gives {one:?}, then {other:?}"),
        },
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    // Where a condition or an aggregate stands, other rules hold.
    let _ = millstream_expr::compile_predicate(text, &schema).map(|kept| kept.select(&rows));
    let _ = millstream_expr::parse_aggregate(text, &schema);
}
