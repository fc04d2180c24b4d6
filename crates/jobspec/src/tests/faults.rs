//! What a pipeline is refused for, where, and with which remedy.

use super::{faults, read, try_read};
use crate::JobFileErrors;

const IN: &str = "  - source: {uid: in, connector: generator, rows: 9, columns: {n: {sequence: }, t: {random-text: 3}}}\n";
const OUT: &str = "  - sink: {uid: out, connector: print}\n";

/// Faults of `steps` between a source of (n BIGINT, t VARCHAR) in line 2 and a sink.
fn between(steps: &str) -> String {
    faults(&format!("pipeline:\n{IN}{steps}{OUT}"))
}

#[track_caller]
fn check(steps: &str, expected: &str) {
    let shown = between(steps);
    assert!(
        shown.contains(expected),
        "expected {expected}\nfound {shown}\nof {steps}"
    );
}

#[test]
fn a_fault_is_shown_with_its_line_a_caret_and_a_remedy() {
    let text = "name: x\npipeline:\n  - source: { uid: in, connector: file, path: a.txt }\n  \
                - filter: { uid: f, where: \"upper(lne) <> ''\" }\n  - sink: { uid: out, connector: print }\n";
    assert_eq!(
        try_read(text).unwrap_err().render(),
        "error[EXPR-0002]: unknown column \"lne\", did you mean \"line\"?\n  \
           --> job.yaml:4:37 (pipeline[1].filter.where)\n  \
           |\n\
         4 |   - filter: { uid: f, where: \"upper(lne) <> ''\" }\n  \
           |                                     ^^^\n  \
           help: The columns are line; text is written in single quotes."
    );
}

#[test]
fn what_is_misspelt_is_named_with_what_was_meant() {
    check(
        "  - fliter: {where: n > 1}\n",
        "job.yaml:3:5: pipeline[1]: there is no step \"fliter\" (did you mean filter?)",
    );
    check(
        "  - filter: {wehre: n > 1}\n",
        "filter has no key \"wehre\" (did you mean where?)",
    );
    check("  - flat_map: {}\n", "(did you mean flat-map?)");
    check(
        "  - key-by: [nn]\n  - aggregate: {uid: a, select: {c: count(*)}}\n",
        "the input has no column \"nn\" (the columns are n, t)",
    );
    check(
        "  - filter: {uid: f, where: n > 1, from: inn}\n",
        "no step above has the uid \"inn\" (the uids above are in)",
    );
    check(
        "  - select: {uid: s, columns: [tt]}\n",
        "pipeline[1].select.columns[0]: the input has no column \"tt\"",
    );
    check("  - aggregate: {uid: a, select: {c: cuont(*)}}\n", "cuont");
    check(
        "  - sink: {uid: s, connector: prnt}\n",
        "did you mean print?",
    );
    check(
        "  - aggregate: {uid: a, select: {c: count(*)}, emit: ech}\n",
        "did you mean each?",
    );
}

#[test]
fn steps_that_cannot_follow_one_another_are_refused() {
    check(
        "  - key-by: [n]\n  - filter: {uid: f, where: n > 1}\n",
        "a key-by is followed by an aggregate",
    );
    check("  - key-by: [n]\n", "a key-by is followed by an aggregate");
    check(
        "  - key-by: [n]\n  - aggregate: {uid: a, select: {c: count(*)}, from: in}\n",
        "a key-by is followed by an aggregate",
    );
    check(
        "  - key-by: [n, n]\n  - aggregate: {uid: a, select: {c: count(*)}}\n",
        "a key column is named twice",
    );
    check(
        "  - key-by: []\n  - aggregate: {uid: a, select: {c: count(*)}}\n",
        "a list of columns, such as [word]",
    );
    check(
        "  - sink: {uid: one, connector: print}\n",
        "sink follows sink \"one\", which has no output (add from:",
    );
    check(
        "  - sink: {uid: one, connector: print}\n  - filter: {uid: f, where: n > 1, from: one}\n",
        "sink \"one\" has no output",
    );
    check("  - union: {uid: u, from: [in]}\n", "a union of one step");
    check("  - union: {uid: u}\n", "union needs from");
    check(
        "  - filter: {uid: f, where: n > 1, from: [in, in]}\n",
        "this step reads one step (merge",
    );
    check(
        "  - sink: {uid: bad, connector: print, from: in.dead-letter}\n",
        "source \"in\" has no dead letters",
    );
    assert!(faults(&format!("pipeline:\n{OUT}")).contains("sink has nothing to read from (begin"));
    assert!(faults("pipeline: []\n").contains("the pipeline has no steps"));
    assert!(faults("name: x\n").contains("the job needs pipeline"));
    assert!(faults("pipeline: {source: x}\n").contains("expected a list of steps"));
}

#[test]
fn rows_that_nobody_reads_are_a_fault() {
    assert!(
        faults(&format!("pipeline:\n{IN}"))
            .contains("nobody reads the result of source \"in\" (add a sink")
    );
    let source = "  - source: {uid: in, connector: file, path: x, on-error: dead-letter}\n";
    assert!(faults(&format!("pipeline:\n{source}{OUT}")).contains(
        "nobody reads the dead letters of source \"in\" (add a sink with from: in.dead-letter"
    ));
}

// Proves F7 (duplicate uids).
#[test]
fn a_uid_given_twice_names_both_steps() {
    check(
        "  - filter: {uid: x, where: n > 1}\n  - select: {uid: x, columns: [n]}\n",
        "job.yaml:4:19: pipeline[2].select.uid: uid \"x\" is used by filter in line 3 and select in line 4",
    );
    let source = "  - source: {uid: in, connector: file, path: x}\n";
    let steps = "  - filter: {uid: in.enumerator, where: line > ''}\n";
    assert!(
        faults(&format!("pipeline:\n{source}{steps}{OUT}"))
            .contains("\"in.enumerator\" is used by")
    );
    check(
        "  - filter: {uid: a b, where: n > 1}\n",
        "a uid is 1 to 244 letters",
    );
}

// Proves F7 (missing uids where the job asks for them).
#[test]
fn a_missing_uid_is_a_fault_where_the_job_asks_for_uids() {
    let text = format!(
        "pipeline.require-uids: true\npipeline:\n{IN}  - filter: {{where: n > 1}}\n  - aggregate: {{select: {{c: count(*)}}}}\n{OUT}"
    );
    assert_eq!(
        faults(&text),
        "job.yaml:5:5: pipeline[2].aggregate: aggregate keeps state and has no uid \
         (add uid: a name that stays the same, its state is found by it)"
    );
}

#[test]
fn parquet_files_take_only_what_has_its_effect() {
    let of = |source: &str| faults(&format!("pipeline:\n  - source: {source}\n{OUT}"));
    let parquet = "{uid: in, connector: file, path: x, format: parquet";
    assert!(
        of(&format!("{parquet}}}")).contains("a file source with format parquet needs columns")
    );
    for key in [
        "on-error: skip",
        "max-line: 1 MiB",
        "compression: gzip",
        "delimiter: ;",
        "fail-on-missing-field: true",
    ] {
        let found = of(&format!("{parquet}, columns: {{a: INT}}, {key}}}"));
        let name = key.split(':').next().unwrap();
        let expected = format!("{name} has no effect with format \"parquet\"");
        assert!(found.contains(&expected), "{found}");
    }
    check(
        "  - select: {uid: s, columns: {a: \"INTERVAL '1 day'\"}}\n  - sink: {uid: c, connector: file, path: x, format: parquet}\n",
        "which a Parquet file cannot hold",
    );
    check(
        "  - sink: {uid: c, connector: file, path: x, format: json, compression: none}\n",
        "compression has no effect with format \"json\" (remove compression, or set format to parquet)",
    );
}

// Proves HND-039: mistakes that would show when the job runs are found before.
#[test]
fn what_cannot_work_is_found_before_anything_runs() {
    let csv = "{uid: in, connector: file, path: x, format: csv";
    let of = |source: &str| faults(&format!("pipeline:\n  - source: {source}\n{OUT}"));
    assert!(of(&format!("{csv}}}")).contains("a file source with format csv needs columns"));
    assert!(
        of(&format!("{csv}, columns: {{a: INTT}}}}"))
            .contains("\"INTT\" is not a column type (did you mean INT?)")
    );
    assert!(of("{uid: in, connector: file, path: x, columns: {a: INT}}").contains(
        "columns has no effect with format \"text\" (remove columns, or set format to json or csv or parquet)"
    ));
    assert!(
        of("{uid: in, connector: file, path: x, delimiter: ;}").contains("delimiter has no effect")
    );
    assert!(of("{uid: in, connector: file, path: 'a/[x'}").contains("not a pattern"));
    assert!(of("{uid: in, connector: file, path: s3://b/x}").contains("not built yet"));
    let split = "  - flat-map: {uid: w, expr: \"regexp_split(t, 'x')\", as: w}\n";
    assert!(
        read(&format!("pipeline:\n{IN}{split}{OUT}"))
            .warnings
            .is_empty()
    );
    check(
        "  - select: {uid: s, columns: {a: \"regexp_split(t, 'x')\"}}\n  - sink: {uid: c, connector: file, path: x, format: csv}\n",
        "column \"a\" is ARRAY<VARCHAR>, which a CSV file cannot hold",
    );
    check(
        "  - select: {uid: s, columns: {a: \"regexp_split(t, 'x')\"}}\n  - key-by: a\n  - aggregate: {uid: g, select: {c: count(*)}}\n",
        "column \"a\" is ARRAY<VARCHAR>, which cannot be a key",
    );
    check(
        "  - flat-map: {uid: w, expr: n + 1, as: w}\n",
        "flat-map needs a list, this is BIGINT",
    );
    check(
        "  - filter: {uid: f, where: n + 1}\n",
        "a condition must be BOOLEAN",
    );
    check("  - select: {uid: s, columns: {a: t + 1}}\n", "job.yaml:3:");
    check(
        "  - select: {uid: s, columns: {a: 'NULL'}}\n",
        "has no type (write its type",
    );
    check("  - select: {uid: s, columns: {a: random()}}\n", "random");
    check(
        "  - aggregate: {uid: a, select: {c: n + 1}}\n",
        "an aggregate step selects aggregate calls",
    );
    check(
        "  - aggregate: {uid: a, select: {c: count(*)}, parallelism: 3}\n",
        "an aggregate without key-by has one group",
    );
    check(
        "  - key-by: [n]\n  - aggregate: {uid: a, select: {n: count(*)}}\n",
        "two columns of the result are named \"n\"",
    );
    check(
        "  - select: {uid: s, columns: [n, n]}\n",
        "two columns of the result are named \"n\"",
    );
    check(
        "  - flat-map: {uid: w, expr: \"regexp_split(t, 'x')\", as: n, keep: true}\n",
        "the input has a column of this name",
    );
    check(
        "  - select: {uid: other, columns: [t]}\n  - union: {uid: u, from: [in, other]}\n",
        "\"other\" has the columns t VARCHAR, and \"in\" has n BIGINT, t VARCHAR",
    );
}

#[test]
fn an_aggregate_that_would_never_emit_is_refused() {
    let text = format!(
        "pipeline:\n{}  - aggregate: {{uid: a, select: {{c: count(*)}}, emit: end}}\n{OUT}",
        IN.replace("rows: 9, ", "")
    );
    assert!(faults(&text).contains("the input never ends, so that nothing would ever be emitted"));
}

#[test]
fn values_have_units_signs_and_bounds() {
    check(
        "  - aggregate: {uid: a, select: {c: count(*)}, emit: {interval: 5}}\n",
        "5s (= 5s) or 5ms (= 5ms)",
    );
    check(
        "  - filter: {uid: f, where: n > 1, parallelism: 0}\n",
        "parallelism is 0, allowed is 1 or more",
    );
    check(
        "  - filter: {uid: f, where: n > 1, chain: maybe}\n",
        "chain is \"maybe\"",
    );
    check("  - filter: {uid: f, where: }\n", "where has no value");
    check(
        "  - filter: {uid: f, where: [a]}\n",
        "where is a list, expected a single value",
    );
    check("  - filter: [a]\n", "filter is a list, expected a mapping");
    check("  - filter\n", "is a single value, expected one step");
    check(
        "  - filter: {uid: f, where: n > 1}\n    parallelism: 2\n",
        "a step has one key, this one has parallelism too (indent",
    );
    check("  - sink: {uid: s}\n", "sink needs connector");
    let of = |columns: &str| {
        faults(&format!(
            "pipeline:\n  - source: {{uid: in, connector: generator, {columns}}}\n{OUT}"
        ))
    };
    assert!(of("rows: 0, columns: {a: {key: 1}}").contains("rows is 0"));
    assert!(of("rate: 0, columns: {a: {key: 1}}").contains("expected rows a second"));
    assert!(
        of("columns: {a: {key: 1, constant: x}}").contains("generated value has key and constant")
    );
    assert!(of("columns: {a: {}}").contains("generated value needs one of sequence, key"));
    assert!(of("columns: {a: {random-int: [2, 1]}}").contains("the first number is the lower one"));
    assert!(of("columns: {a: {random-double: [1, 1]}}").contains("no number between the bounds"));
    assert!(of("columns: {a: {random-int: [1]}}").contains("expected [lowest, highest]"));
    assert!(of("columns: {}").contains("columns has no value"));
    assert!(of("rows: 3").contains("generator source needs columns"));
}

// Proves F1 (a source's interval, as A0-4 has it). HND-045: watching a directory is refused, and not
// taken for reading it once.
#[test]
fn an_interval_without_unit_is_refused_before_it_is_said_that_it_is_not_built() {
    let of = |interval: &str| {
        faults(&format!(
            "pipeline:\n  - source: {{uid: in, connector: file, path: x, interval: {interval}}}\n{OUT}"
        ))
    };
    assert!(
        of("86400").contains("interval has no unit: write 86400s (= 1d) or 86400ms (= 1m 26.4s)")
    );
    assert!(of("1d").contains("interval is known, not built yet: watching a path"));
}

#[test]
fn faults_on_purpose_need_permission() {
    let inject = "  - inject: {uid: i, fail: {at: 3}}\n";
    check(
        inject,
        "inject makes the job fail on purpose, and is not allowed (remove it, or set pipeline.allow-fault-injection: true)",
    );
    let text =
        |steps: &str| format!("pipeline.allow-fault-injection: true\npipeline:\n{IN}{steps}{OUT}");
    assert!(read(&text(inject)).warnings.is_empty());
    assert!(faults(&text("  - inject: {uid: i}\n")).contains("inject needs one of fail, panic"));
    assert!(
        faults(&text(
            "  - inject: {uid: i, fail: {at: 1}, panic: {at: 2}}\n"
        ))
        .contains("inject has fail and panic")
    );
    assert!(faults(&text("  - inject: {uid: i, delay: {}}\n")).contains("delay needs per-row"));
}

#[test]
fn parallelism_is_bounded_by_key_groups_and_by_the_job() {
    let text = |head: &str, parallelism: u32| {
        format!(
            "{head}pipeline:\n{IN}  - filter: {{uid: f, where: n > 1, parallelism: {parallelism}}}\n{OUT}"
        )
    };
    let shown = faults(&text("pipeline.max-parallelism: 8\n", 9));
    assert!(
        shown.contains("pipeline[1].filter.parallelism: parallelism 9 is above"),
        "{shown}"
    );
    let shown = faults(&text("", 10_000));
    assert!(
        shown.contains("10002 subtasks, above the limit of 10000 (split the job)"),
        "{shown}"
    );
}

// Fence "YAML / config": size, number and depth are bounded and what is refused says so.
#[test]
fn a_hostile_file_is_refused_at_its_first_limit() {
    let large = format!("name: {}\n", "x".repeat(1 << 20));
    assert!(faults(&large).contains("1048576 allowed"));
    let many = format!(
        "pipeline:\n{IN}{}",
        "  - filter: {where: n > 1}\n".repeat(2_000)
    );
    assert!(faults(&many).contains("steps in the pipeline: 2001, above the limit of 1000"));
    let wide: String = (0..2_000).map(|n| format!("      c{n}: t\n")).collect();
    let wide = format!(
        "pipeline:\n{IN}  - select:\n      uid: w\n      columns:\n{}{OUT}",
        wide.replace("      c", "        c")
    );
    assert!(faults(&wide).contains("columns of one step: 2000, above the limit of 1000"));
    assert!(faults("a: &x [1]\nb: *x\n").contains("anchor"));
    assert!(faults("pipeline:\n\t- source: x\n").contains("job.yaml:2:1: a tab"));
    let bad = format!("pipeline:\n{}", "  - nonsense: {}\n".repeat(500));
    assert_eq!(
        try_read(&bad).unwrap_err().faults().len(),
        JobFileErrors::LIMIT
    );
}

#[test]
fn a_fault_does_not_hide_others_and_makes_none_up() {
    let text = format!(
        "pipeline:\n{IN}  - select: {{uid: s, columns: {{a: nn}}}}\n  - filter: {{uid: f, where: a > 1, colour: red}}\n  \
         - key-by: [a]\n  - aggregate: {{uid: g, select: {{c: sum(a)}}}}\n  - sink: {{uid: o, connector: file}}\n"
    );
    let shown = faults(&text);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert!(lines[0].contains("unknown column \"nn\""));
    assert!(lines[1].contains("filter has no key \"colour\""));
    assert!(lines[2].contains("file sink needs path"));
}

// Its columns are known whatever it asks for.
#[test]
fn a_wrong_condition_does_not_hide_what_is_wrong_behind_it() {
    let shown = between(
        "  - filter: {uid: f, where: n}\n  - select: {uid: s, columns: {a: nn, b: \"lower(n)\"}}\n",
    );
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert!(lines[0].contains("a condition must be BOOLEAN"), "{shown}");
    assert!(lines[1].contains("unknown column \"nn\""), "{shown}");
    assert!(lines[2].contains("lower"), "{shown}");
}

#[test]
fn what_is_planned_but_not_built_is_refused_as_such() {
    assert!(faults("sql: SELECT 1\n").contains("job.yaml:1:6: sql: sql is known, not built yet"));
}
