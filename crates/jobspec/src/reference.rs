//! The reference of job files, generated from the tables that drive the reader.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::table::{EMIT_INTERVAL, Form, Forms, GENERATED, Key, Presence, STEPS, Shape, Step};
use crate::types;

const INTRODUCTION: &str = "\
# Job file reference

This page is generated from the tables that drive the reader; do not edit it.

A job file is YAML: settings of the job, and under `pipeline:` the list of its steps. A step takes
the step before as its input unless `from: uid` names another one above it. A source that puts bad
records aside has the second output `uid.dead-letter`. Settings, with their nested or dotted
names, are listed in the configuration reference. A file has at most 1 MiB, 1,000 steps and
10,000 subtasks, a step at most 1,000 columns. Whatever is unknown or has no effect is an error.

Give every step that keeps state a `uid`: its state is found by it after a restart, also when steps
were added around it. Without one, the step's kind and position are used, which is a warning, and an
error with `pipeline.require-uids: true`.

Relative paths are meant from the job file on with `millstream local`, and from the working
directory of the taskmanager on a cluster.
";

const EXPRESSIONS: &str = "
## Expressions

Expressions are SQL, as between `SELECT` and `FROM`, over the columns of the input. Put them in
double quotes. Column names are matched as written, function names in any case. Overflow, integer
division by zero and casts that do not fit fail the job; `TRY_CAST` gives NULL instead. What
depends on the clock or on chance, such as `now()` and `random()`, is refused: after a failure it
would give something else.

NULL is a key like any other: rows whose key is NULL form one group. -0.0 and 0.0 are one key, and
so are all NaNs.
";

/// The reference in Markdown; each of its YAML blocks is a whole job file.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut nested: Vec<&'static Form> = Vec::new();
    for step in STEPS {
        write_step(&mut page, step, &mut nested);
    }
    page.push_str("\n## Values\n");
    nested.push(&EMIT_INTERVAL);
    nested.push(&GENERATED);
    let mut seen = BTreeSet::new();
    while !nested.is_empty() {
        for form in std::mem::take(&mut nested) {
            if seen.insert(form.name) {
                let _ = write!(page, "\n### {}\n\n{}\n", form.name, form.means);
                write_keys(&mut page, form, &mut nested);
            }
        }
    }
    write_types(&mut page);
    page.push_str(EXPRESSIONS);
    write_functions(&mut page);
    page
}

fn write_step(page: &mut String, step: &Step, nested: &mut Vec<&'static Form>) {
    let _ = write!(page, "\n## `{}`\n", step.name);
    if !step.aliases.is_empty() {
        let _ = write!(page, "\nAlso written {}.\n", quoted(step.aliases));
    }
    match &step.forms {
        Forms::One(form) => {
            let _ = write!(page, "\n{}\n", form.means);
            write_keys(page, form, nested);
        }
        Forms::Connector(connectors) => {
            for (connector, form) in *connectors {
                let word = connector.word();
                let _ = write!(page, "\n### `connector: {word}`\n\n{}\n", form.means);
                write_keys(page, form, nested);
            }
        }
    }
    for example in step.examples {
        let _ = write!(page, "\n```yaml\n{example}```\n");
    }
}

fn write_keys(page: &mut String, form: &Form, nested: &mut Vec<&'static Form>) {
    if !form.one_of.is_empty() {
        let _ = write!(page, "\nExactly one of {}.\n", quoted(form.one_of));
    }
    page.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
    for key in form.keys() {
        if let Shape::Form(inner) = key.shape {
            nested.push(inner);
        }
        write_key(page, key);
    }
}

fn write_key(page: &mut String, key: &Key) {
    let default = match key.presence {
        Presence::Required => "required".to_owned(),
        Presence::Optional => String::new(),
        Presence::Default(text) => format!("`{text}`"),
    };
    let only = key.only_with.map_or(String::new(), |(other, values)| {
        format!(" Only with `{other}` {}.", quoted_or(values))
    });
    let later = key.not_built.map_or(String::new(), |what| {
        format!(" Known, not built yet and refused: {what}.")
    });
    let _ = writeln!(
        page,
        "| `{}` | {} | {default} | {}{only}{later} |",
        key.name,
        cell(&key.shape.describe()),
        cell(key.means),
    );
}

fn write_types(page: &mut String) {
    page.push_str("\n## Types\n\nIn any case. Columns may always be NULL.\n\n");
    page.push_str("| type | also | holds |\n|---|---|---|\n");
    for known in &types::TYPES {
        let also = quoted(known.aliases);
        let _ = writeln!(page, "| `{}` | {also} | {} |", known.name, known.means);
    }
}

fn write_functions(page: &mut String) {
    page.push_str("\n### Functions\n\n| function | gives |\n|---|---|\n");
    for function in millstream_expr::functions() {
        let also = match function.aliases.as_slice() {
            [] => String::new(),
            aliases => format!(" Also {}.", quoted(aliases)),
        };
        let _ = writeln!(
            page,
            "| `{}` | {}{} |",
            cell(&function.syntax),
            cell(&function.description),
            cell(&also)
        );
    }
}

/// Text for one cell of a table.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|")
}

fn quoted(words: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("`{}`", word.as_ref()))
        .collect();
    quoted.join(", ")
}

fn quoted_or(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The YAML blocks of the page.
    fn blocks(page: &str) -> Vec<&str> {
        let parts = page.split("```yaml\n").skip(1);
        parts
            .map(|part| part.split("```").next().unwrap())
            .collect()
    }

    #[test]
    fn every_example_of_the_reference_is_a_job_that_plans() {
        let page = reference_markdown();
        let blocks = blocks(&page);
        assert!(blocks.len() > 8, "{} examples", blocks.len());
        for text in blocks {
            let job = crate::tests::read(text);
            millstream_graph::Plan::new(&job.graph, true);
            assert_eq!(job.warnings, [], "{text}");
        }
    }

    #[test]
    fn every_step_has_an_example_and_every_key_a_row() {
        let page = reference_markdown();
        let examples = blocks(&page).join("\n");
        for step in STEPS {
            assert!(page.contains(&format!("\n## `{}`\n", step.name)));
            assert!(
                examples.contains(&format!("- {}:", step.name)),
                "{}",
                step.name
            );
        }
        let forms = STEPS.iter().flat_map(|step| match &step.forms {
            Forms::One(form) => vec![*form],
            Forms::Connector(forms) => forms.iter().map(|(_, form)| *form).collect(),
        });
        for key in forms.flat_map(Form::keys) {
            let row = format!("| `{}` |", key.name);
            assert!(page.contains(&row), "{}", key.name);
        }
    }

    #[test]
    fn a_function_is_listed_with_how_it_is_called() {
        assert!(reference_markdown().contains("| `lower("));
    }
}
