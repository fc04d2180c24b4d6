//! The examples of the documentation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use millstream_config::Resolved;
use millstream_graph::{Emit, GeneratorValue, JobGraph, OperatorKind, Plan, SinkFormat};

use super::operator;
use crate::parse;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples")
}

fn example(name: &str) -> JobGraph {
    let path = folder().join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let base = Path::new("/repo/docs/examples").join(name);
    let job = parse(name, &text, base.parent(), &Resolved::new([]));
    let job = job.unwrap_or_else(|errors| panic!("{}", errors.render()));
    assert_eq!(job.warnings, [], "{name}");
    job.graph
}

/// All job files below `folder`, by their names relative to it.
fn names(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            names(&entry.path(), &format!("{name}/"), found);
        } else if name.ends_with(".yaml") {
            found.push(name);
        }
    }
}

#[test]
fn every_example_is_accepted_without_a_warning_and_planned() {
    let mut found = Vec::new();
    names(&folder(), "", &mut found);
    assert!(found.len() >= 5, "{found:?}");
    for name in found {
        let graph = example(&name);
        let plan = Plan::new(&graph, true);
        assert!(plan.slots_needed() >= 1, "{name}");
        let made_up = graph.operators.iter().find(|node| node.uid_generated);
        assert_eq!(made_up, None, "{name}");
    }
}

#[test]
fn the_word_count_reads_the_documentation_of_the_repository() {
    let graph = example("word-count.yaml");
    let OperatorKind::FileSource(source) = &operator(&graph, "lines").kind else {
        panic!("a file source")
    };
    assert_eq!(source.path, "/repo/docs/**/*.md");
}

#[test]
fn the_exactly_once_job_is_as_large_as_it_claims() {
    let graph = example("exactly-once.yaml");
    let OperatorKind::Generator(numbers) = &operator(&graph, "numbers").kind else {
        panic!("a generator")
    };
    let (rows, rate) = (numbers.rows.unwrap(), numbers.rate.unwrap());
    assert!(rate >= 50_000.0 && rows as f64 / rate >= 120.0);
    assert_eq!(
        numbers.columns[1].value,
        GeneratorValue::RoundRobinSequence { keys: 1_000 }
    );
    assert_eq!(rows % 1_000, 0, "every key has as many numbers");
    let OperatorKind::Aggregate { emit, .. } = operator(&graph, "sums").kind else {
        panic!("an aggregate")
    };
    assert_eq!(emit, Emit::Each);
    let out = operator(&graph, "out");
    let names: Vec<&str> = out
        .schema
        .fields()
        .iter()
        .map(|f| f.name().as_str())
        .collect();
    assert_eq!(names, ["key", "n", "sum"]);
    let OperatorKind::FileSink(sink) = &out.kind else {
        panic!("a file sink")
    };
    assert_eq!(sink.format, SinkFormat::JsonLines);
    assert_eq!(graph.setting("checkpointing.interval"), Some("2s"));
    assert_eq!(graph.setting("state.backend.type"), Some("rocksdb"));
}

// The demonstration stands on a failure that a clever planner could compute away.
#[test]
fn the_fragile_jobs_fail_at_the_fifth_row_and_not_before() {
    for name in ["wordcount/1-fragile.yaml", "wordcount/2-restarting.yaml"] {
        let graph = example(name);
        let OperatorKind::Select { columns } = &operator(&graph, "divide").kind else {
            panic!("a select")
        };
        let input = operator(&graph, "numbers").schema.clone();
        let n = millstream_expr::compile(&columns[1].expr, &input).unwrap();
        let rows = |numbers: Vec<i64>| {
            let words: ArrayRef = Arc::new(StringArray::from(vec!["key1"; numbers.len()]));
            let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
            RecordBatch::try_new(input.clone(), vec![words, numbers]).unwrap()
        };
        let values = n.evaluate(&rows(vec![1, 2, 3, 4])).unwrap();
        assert_eq!(values.as_primitive::<Int64Type>().values(), &[1, 2, 3, 4]);
        let error = n.evaluate(&rows(vec![5])).unwrap_err();
        assert!(error.to_string().starts_with("division by zero"), "{error}");
    }
}

#[test]
fn the_stateful_job_fails_by_an_inject_step_that_gives_up() {
    let graph = example("wordcount/3-stateful.yaml");
    let OperatorKind::Inject(inject) = &operator(&graph, "trouble").kind else {
        panic!("an inject")
    };
    assert_eq!((inject.at_row, inject.times), (5, Some(2)));
    let OperatorKind::Aggregate { emit, .. } = operator(&graph, "sums").kind else {
        panic!("an aggregate")
    };
    assert_eq!(emit, Emit::Each);
}
