//! Accepted files and the graphs they become.

use std::path::Path;
use std::time::Duration;

use arrow::datatypes::{DataType, Schema};
use millstream_config::Resolved;
use millstream_expr::sql_name;
use millstream_graph::*;

use super::{operator, read};
use crate::{Warning, parse};

const WORD_COUNT: &str = r#"
name: word-count
parallelism: 2
checkpointing: { interval: 5s, timeout: 1m, tolerable-failed-checkpoints: 3 }
state.backend.type: rocksdb
restart-strategy: { type: failure-rate, max-failures-per-interval: 3, failure-rate-interval: 5m, delay: 10s }
pipeline:
  - source:    { uid: lines, connector: file, path: "docs/**/*.md", format: text }
  - flat-map:  { uid: words, expr: "regexp_split(lower(line), '[^a-z0-9]+')", as: word }
  - filter:    { uid: non-empty, where: "word <> ''" }
  - key-by:    [word]
  - aggregate: { uid: counts, select: { count: "count(*)" }, emit: end }
  - sink:      { uid: out, connector: print }
"#;

fn columns(schema: &Schema) -> String {
    let columns = schema.fields().iter();
    let columns: Vec<String> = columns
        .map(|field| format!("{} {}", field.name(), sql_name(field.data_type())))
        .collect();
    columns.join(", ")
}

/// `from -> to: partitioning`, for every edge.
fn edges(graph: &JobGraph) -> Vec<String> {
    let uid = |id: OperatorId| graph.operator(id).unwrap().uid.to_string();
    let edge = |edge: &Edge| {
        let how = match &edge.partitioning {
            Partitioning::Forward => "forward".to_owned(),
            Partitioning::Rebalance => "rebalance".to_owned(),
            Partitioning::Assign => "assign".to_owned(),
            Partitioning::Hash { columns } => format!("hash {columns:?}"),
            Partitioning::Broadcast => "broadcast".to_owned(),
        };
        let port = match edge.port {
            OutputPort::Main => "",
            OutputPort::DeadLetter => ".dead-letter",
        };
        format!("{}{port} -> {}: {how}", uid(edge.from), uid(edge.to))
    };
    graph.edges.iter().map(edge).collect()
}

/// A pipeline over a bounded generator with the columns n BIGINT and t VARCHAR.
fn over_numbers(steps: &str) -> JobGraph {
    let source = "{uid: in, connector: generator, rows: 10, \
                  columns: {n: {sequence: {start: 1}}, t: {random-text: 3}}}";
    let text = format!(
        "pipeline:\n  - source: {source}\n{steps}  - sink: {{uid: out, connector: blackhole}}\n"
    );
    read(&text).graph
}

#[test]
fn the_job_of_the_design_becomes_the_graph_it_describes() {
    let job = read(WORD_COUNT);
    assert_eq!(job.warnings, []);
    assert_eq!(job.graph.name, "word-count");
    assert_eq!(
        edges(&job.graph),
        [
            "lines.enumerator -> lines: assign",
            "lines -> words: forward",
            "words -> non-empty: forward",
            "non-empty -> counts: hash [0]",
            "counts -> out: forward",
        ]
    );
    let counts = operator(&job.graph, "counts");
    assert_eq!(columns(&counts.schema), "word VARCHAR, count BIGINT");
    assert_eq!(counts.parallelism, 2);
    assert_eq!(operator(&job.graph, "lines.enumerator").parallelism, 1);
    let plan = Plan::new(&job.graph, true);
    let names: Vec<&str> = plan.vertices.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "Source: lines enumerator",
            "Source: lines -> words -> non-empty",
            "counts -> Sink: out"
        ]
    );
    assert_eq!(job.graph.setting("checkpointing.interval"), Some("5s"));
    assert_eq!(
        job.graph.setting("restart-strategy.failure-rate.delay"),
        Some("10s")
    );
}

#[test]
fn the_same_file_gives_the_same_graph() {
    let without_uids = WORD_COUNT
        .replace("uid: words,", "")
        .replace("uid: out,", "");
    assert_eq!(read(&without_uids), read(&without_uids));
}

#[test]
fn select_keeps_computes_and_names_columns_in_order() {
    let graph = over_numbers(
        "  - select: {uid: s, columns: [t, {double: n * 2}, {big: n > 5}]}\n  \
           - map: {uid: m, columns: {\"odd name\": t, double: double}}\n  \
           - select: {uid: q, columns: [odd name]}\n",
    );
    assert_eq!(
        columns(&operator(&graph, "s").schema),
        "t VARCHAR, double BIGINT, big BOOLEAN"
    );
    let OperatorKind::Select { columns: kept } = &operator(&graph, "q").kind else {
        panic!("a select")
    };
    assert_eq!(kept[0].expr, "\"odd name\"");
}

#[test]
fn flat_map_keeps_the_other_columns_only_when_told() {
    let graph = over_numbers(
        "  - flat-map: {uid: a, expr: \"regexp_split(t, 'x')\", as: part, keep: true}\n  \
           - flat-map: {uid: b, expr: \"regexp_split(part, 'y')\", as: piece}\n",
    );
    assert_eq!(
        columns(&operator(&graph, "a").schema),
        "n BIGINT, t VARCHAR, part VARCHAR"
    );
    assert_eq!(columns(&operator(&graph, "b").schema), "piece VARCHAR");
}

// Proves HND-026 (the types sums are made in; the overflow itself is the operator's).
#[test]
fn an_aggregate_carries_arguments_that_compile_to_the_type_that_is_summed() {
    let text = "pipeline:\n  \
        - source: {uid: in, connector: file, path: x, format: csv, columns: {k: TEXT, i: INT, f: FLOAT, d: 'DECIMAL(5, 2)'}}\n  \
        - key-by: [k]\n  \
        - aggregate: {uid: agg, select: {a: sum(i), b: \"( SUM (i + (i)) )\", c: avg(d), d: max(k), n: count(f), all: count(*), \
          e: \"count(CASE WHEN k = ')' THEN 1 END)\"}}\n  \
        - sink: {uid: out, connector: print}\n";
    let graph = read(text).graph;
    let input = operator(&graph, "in").schema.clone();
    let node = operator(&graph, "agg");
    let OperatorKind::Aggregate { aggregates, .. } = &node.kind else {
        panic!("an aggregate")
    };
    let arguments: Vec<Option<&str>> = aggregates.iter().map(|a| a.argument.as_deref()).collect();
    assert_eq!(
        arguments,
        [
            Some("CAST(i AS BIGINT)"),
            Some("CAST(i + (i) AS BIGINT)"),
            Some("d"),
            Some("k"),
            Some("f"),
            None,
            Some("CASE WHEN k = ')' THEN 1 END"),
        ]
    );
    for aggregate in aggregates.iter().filter(|a| a.argument.is_some()) {
        let compiled = millstream_expr::compile(aggregate.argument.as_ref().unwrap(), &input);
        assert_eq!(
            Some(compiled.unwrap().data_type()),
            aggregate.input_type.as_ref()
        );
    }
    assert_eq!(
        columns(&node.schema),
        "k VARCHAR, a BIGINT, b BIGINT, c DECIMAL(38, 6), d VARCHAR, n BIGINT, all BIGINT, e BIGINT"
    );
}

#[test]
fn results_leave_at_the_end_of_what_ends_and_at_each_row_of_what_does_not() {
    let emit = |source: &str, emit: &str| {
        let text = format!(
            "pipeline:\n  - source: {{uid: in, {source}}}\n  - aggregate: {{uid: agg, select: {{n: count(*)}}{emit}}}\n  \
               - sink: {{uid: out, connector: print}}\n"
        );
        let graph = read(&text).graph;
        match operator(&graph, "agg").kind {
            OperatorKind::Aggregate { emit, .. } => emit,
            _ => panic!("an aggregate"),
        }
    };
    let endless = "connector: generator, columns: {n: {key: 3}}";
    let finite = "connector: generator, rows: 9, columns: {n: {key: 3}}";
    assert_eq!(emit(endless, ""), Emit::Each);
    assert_eq!(emit(finite, ""), Emit::End);
    assert_eq!(emit("connector: file, path: x", ""), Emit::End);
    assert_eq!(emit(finite, ", emit: batch"), Emit::Batch);
    assert_eq!(
        emit(endless, ", emit: {interval: 1500ms}"),
        Emit::Interval(Duration::from_millis(1500))
    );
}

#[test]
fn steps_read_from_where_they_say_and_rows_are_spread_by_parallelism() {
    let text = "parallelism: 3\npipeline:\n  \
        - source: {uid: a, connector: file, path: a.json, format: json, columns: {x: BIGINT}, on-error: dead-letter, parallelism: 2}\n  \
        - source: {uid: b, connector: generator, rows: 5, columns: {x: {sequence: }}}\n  \
        - union: {uid: both, from: [a, b]}\n  \
        - key-by: {columns: [x], from: both}\n  \
        - aggregate: {uid: agg, select: {n: count(*)}, parallelism: 4}\n  \
        - sink: {uid: out, connector: blackhole}\n  \
        - sink: {uid: bad, connector: print, from: a.dead-letter, parallelism: 2}\n";
    let graph = read(text).graph;
    assert_eq!(
        edges(&graph),
        [
            "a.enumerator -> a: assign",
            "a -> both: rebalance",
            "b -> both: forward",
            "both -> agg: hash [0]",
            "agg -> out: rebalance",
            "a.dead-letter -> bad: forward",
        ]
    );
    assert_eq!(
        columns(&operator(&graph, "bad").schema),
        "source VARCHAR, file VARCHAR, line BIGINT, column BIGINT, error VARCHAR, record VARCHAR"
    );
}

#[test]
fn an_aggregate_without_keys_is_one_group_in_one_subtask() {
    let graph = read(
        "parallelism: 4\npipeline:\n  - source: {uid: in, connector: file, path: x}\n  \
         - aggregate: {uid: agg, select: {n: count(*)}}\n  - sink: {uid: out, connector: print}\n",
    )
    .graph;
    assert_eq!(operator(&graph, "agg").parallelism, 1);
    assert!(edges(&graph).contains(&"in -> agg: rebalance".to_owned()));
}

#[test]
fn a_source_with_inject_has_the_fault_right_behind_it() {
    let graph = read(
        "pipeline.allow-fault-injection: true\npipeline:\n  \
         - source: {uid: in, connector: generator, rows: 9, columns: {x: {key: 3}}, inject: {fail: {at: 4}, times: 1}}\n  \
         - inject: {uid: slow, delay: {per-row: 5ms}, subtask: 0}\n  \
         - sink: {uid: out, connector: print, label: \"> \"}\n",
    )
    .graph;
    assert_eq!(
        edges(&graph),
        [
            "in -> in.inject: forward",
            "in.inject -> slow: forward",
            "slow -> out: forward"
        ]
    );
    let OperatorKind::Inject(inject) = &operator(&graph, "in.inject").kind else {
        panic!("an inject")
    };
    assert_eq!(
        (inject.at_row, inject.times, inject.subtask),
        (4, Some(1), None)
    );
    assert_eq!(Plan::new(&graph, true).vertices.len(), 1);
}

#[test]
fn relative_paths_are_meant_from_the_job_file_only_where_it_runs() {
    let text = "checkpointing.dir: chk\npipeline:\n  - source: {uid: in, connector: file, path: ../data/*.txt}\n  \
                - sink: {uid: out, connector: file, path: out}\n";
    let paths = |base: Option<&Path>| {
        let job = parse("j.yaml", text, base, &Resolved::new([])).unwrap();
        let graph = job.graph;
        let OperatorKind::FileSource(source) = operator(&graph, "in").kind.clone() else {
            panic!("a file source")
        };
        let OperatorKind::FileSink(sink) = operator(&graph, "out").kind.clone() else {
            panic!("a file sink")
        };
        let dir = graph.setting("checkpointing.dir").unwrap().to_owned();
        [source.path, sink.path, dir]
    };
    assert_eq!(paths(None), ["../data/*.txt", "out", "chk"]);
    assert_eq!(
        paths(Some(Path::new("/jobs/a"))),
        ["/jobs/data/*.txt", "/jobs/a/out", "/jobs/a/chk"]
    );
}

// Proves HND-023, HND-024: NULL is a group like any other, and the reference says so.
#[test]
fn columns_may_be_null_and_so_may_keys() {
    let graph = read(WORD_COUNT).graph;
    let counts = operator(&graph, "counts");
    assert!(
        counts
            .schema
            .fields()
            .iter()
            .all(|field| field.is_nullable())
    );
    let page = crate::reference_markdown();
    assert!(page.contains("rows whose key is NULL form one group"));
}

// Proves F7 (missing uids).
#[test]
fn a_missing_uid_is_made_up_from_kind_and_position_and_worth_a_warning_where_there_is_state() {
    let job = read(
        &WORD_COUNT
            .replace("uid: counts,", "")
            .replace("uid: words,", ""),
    );
    let made = operator(&job.graph, "aggregate-5");
    assert!(made.uid_generated);
    assert!(operator(&job.graph, "flat-map-2").uid_generated);
    let [Warning::GeneratedUid { uid, at, .. }] = &job.warnings[..] else {
        panic!("{:?}", job.warnings)
    };
    assert_eq!(
        (uid.as_str(), at.as_str()),
        ("aggregate-5", "job.yaml:12:5")
    );
}

#[test]
fn a_file_sink_behind_an_endless_source_wants_checkpoints() {
    let text = "pipeline:\n  - source: {uid: in, connector: generator, columns: {x: {key: 3}}}\n  \
                - sink: {uid: out, connector: file, path: out}\n";
    assert!(matches!(
        read(text).warnings[..],
        [Warning::NothingCommitted { .. }]
    ));
    assert_eq!(
        read(&format!("checkpointing.interval: 1s\n{text}")).warnings,
        []
    );
    assert_eq!(
        read(&text.replace("columns:", "rows: 5, columns:")).warnings,
        []
    );
}

#[test]
fn the_key_types_of_generated_columns_are_those_of_their_values() {
    let graph = read(
        "pipeline:\n  - source: {uid: in, connector: generator, rate: 0.5, seed: 7, columns: {a: {sequence: {start: -3}}, b: {key: 2}, \
         c: {sequence-per-key: 2}, d: {random-int: [-1, 1]}, e: {random-double: [0, 0.5]}, f: {one-of: [no, 08]}, g: {constant: ''}}}\n  \
         - sink: {uid: out, connector: print}\n",
    )
    .graph;
    let node = operator(&graph, "in");
    assert_eq!(
        columns(&node.schema),
        "a BIGINT, b BIGINT, c BIGINT, d BIGINT, e DOUBLE, f VARCHAR, g VARCHAR"
    );
    let OperatorKind::Generator(generator) = &node.kind else {
        panic!("a generator")
    };
    assert_eq!(
        (generator.rows, generator.rate, generator.seed),
        (None, Some(0.5), 7)
    );
    assert_eq!(
        generator.columns[0].value,
        GeneratorValue::Sequence { start: -3 }
    );
    let values = vec!["no".to_owned(), "08".to_owned()];
    assert_eq!(generator.columns[5].value, GeneratorValue::OneOf { values });
    assert_eq!(node.schema.field(0).data_type(), &DataType::Int64);
}
