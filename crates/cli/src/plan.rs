//! `millstream validate`: what would run.

use std::fmt::Write as _;
use std::io::Write;

use millstream_config::{JobConfig, Layer, Resolved};
use millstream_env::Env;
use millstream_graph::{JobGraph, OperatorKind, Partitioning, Plan, Vertex};
use millstream_taskmanager::TASKS_MAX;
use millstream_types::errors;
use serde_json::{Value, json};

use crate::args::ValidateArgs;
use crate::error::CliError;
use crate::job_file;

pub(crate) fn validate(
    env: &Env,
    args: &ValidateArgs,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let job = job_file::read(env, &args.file)?;
    let plan = Plan::new(&job.graph, chaining(&job.graph));
    let mut warnings: Vec<String> = job.warnings.iter().map(ToString::to_string).collect();
    warnings.extend(without_checkpoints(&job.graph));
    if let Some(what) = too_many_tasks(&plan) {
        warnings.push(format!("`millstream local` refuses this job: {what}"));
    }
    let text = match args.json {
        true => format!("{:#}\n", as_json(&job.graph, &plan, &warnings)),
        false => as_text(&job.graph, &plan, &warnings),
    };
    out.write_all(text.as_bytes())
        .map_err(|error| CliError::failed(errors::OUTPUT, "the plan cannot be printed", &error, ""))
}

/// Whether the job chains operators, by its own settings.
pub(crate) fn chaining(graph: &JobGraph) -> bool {
    own_config(graph).is_none_or(|config| config.chaining)
}

/// What the job's own settings say, without those of a cluster.
fn own_config(graph: &JobGraph) -> Option<JobConfig> {
    let settings = graph.settings.iter();
    let stored = settings.map(|s| (s.key.as_str(), s.value.as_str(), s.origin.as_str()));
    let layer = Layer::stored(stored).ok()?;
    JobConfig::new(&Resolved::new([layer]), &mut Vec::new()).ok()
}

/// Why one process cannot run the job, if it cannot.
pub(crate) fn too_many_tasks(plan: &Plan) -> Option<String> {
    let needed: usize = plan.vertices.iter().map(|v| v.parallelism as usize).sum();
    if needed <= TASKS_MAX {
        return None;
    }
    let widest = plan.vertices.iter().max_by_key(|v| v.parallelism)?;
    Some(format!(
        "it has {needed} tasks, each with a thread, and one process runs {TASKS_MAX} at most \
         (parallelism of {:?} is {})",
        widest.name, widest.parallelism
    ))
}

/// File sinks of a job without checkpoints: only a cluster that sets an interval takes it.
fn without_checkpoints(graph: &JobGraph) -> Vec<String> {
    if own_config(graph).is_none_or(|config| config.checkpoints.interval.is_some()) {
        return Vec::new();
    }
    let sinks = graph.operators.iter();
    sinks
        .filter(|node| matches!(node.kind, OperatorKind::FileSink(_)))
        .map(|node| {
            format!(
                "file sink {} shows its rows when a checkpoint completes, and the job sets no \
                 checkpointing.interval: it is refused unless the cluster's configuration does",
                node.uid
            )
        })
        .collect()
}

fn partitioning(partitioning: &Partitioning) -> String {
    partitioning.name().to_lowercase()
}

fn as_text(graph: &JobGraph, plan: &Plan, warnings: &[String]) -> String {
    let mut text = format!("{}: valid\n", graph.name);
    for vertex in &plan.vertices {
        let _ = writeln!(
            text,
            "  {} (parallelism {})",
            vertex.name, vertex.parallelism
        );
        for edge in plan.inputs_of(vertex.id) {
            let from = plan
                .vertex(edge.from)
                .map_or("?", |from| from.name.as_str());
            let _ = writeln!(
                text,
                "    from {from}, {}",
                partitioning(&edge.partitioning)
            );
        }
    }
    let _ = writeln!(text, "  slots needed: {}", plan.slots_needed());
    for warning in warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

fn as_json(graph: &JobGraph, plan: &Plan, warnings: &[String]) -> Value {
    let operators = |vertex: &Vertex| {
        let nodes = vertex.operators.iter().filter_map(|id| graph.operator(*id));
        let nodes = nodes.map(|node| {
            json!({
                "uid": node.uid.as_str(),
                "uid_generated": node.uid_generated,
                "name": node.name,
                "kind": node.kind.label(),
            })
        });
        nodes.collect::<Vec<_>>()
    };
    let vertices = plan.vertices.iter().map(|vertex| {
        let inputs = plan.inputs_of(vertex.id);
        let inputs = inputs.iter().map(
            |edge| json!({ "from": edge.from.0, "partitioning": partitioning(&edge.partitioning) }),
        );
        json!({
            "id": vertex.id.0,
            "name": vertex.name,
            "parallelism": vertex.parallelism,
            "max_parallelism": vertex.max_parallelism.get(),
            "slot_sharing_group": vertex.slot_sharing_group,
            "operators": operators(vertex),
            "inputs": inputs.collect::<Vec<_>>(),
        })
    });
    let settings = graph.settings.iter().map(
        |setting| json!({ "key": setting.key, "value": setting.value, "origin": setting.origin }),
    );
    json!({
        "name": graph.name,
        "vertices": vertices.collect::<Vec<_>>(),
        "slots_needed": plan.slots_needed(),
        "settings": settings.collect::<Vec<_>>(),
        "warnings": warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(settings: &str) -> Vec<String> {
        let text = format!(
            "{settings}pipeline:\n  - source: {{uid: in, connector: generator, rows: 1, columns: {{n: {{sequence: {{}}}}}}}}\n  \
             - sink: {{uid: out, connector: file, path: /out}}\n"
        );
        let job = millstream_jobspec::parse("job", &text, None, &Resolved::new([])).unwrap();
        without_checkpoints(&job.graph)
    }

    #[test]
    fn a_job_with_more_tasks_than_one_process_runs_is_refused_with_the_limit() {
        let check = |parallelism: u32| {
            let text = format!(
                "parallelism: {parallelism}\npipeline:\n  - source: {{uid: in, connector: generator, \
                 rows: 1, columns: {{n: {{sequence: {{}}}}}}}}\n  - key-by: [n]\n  - aggregate: \
                 {{uid: sums, select: {{s: \"sum(n)\"}}, emit: end}}\n  - sink: {{uid: out, \
                 connector: blackhole}}\n"
            );
            let job = millstream_jobspec::parse("job", &text, None, &Resolved::new([])).unwrap();
            too_many_tasks(&Plan::new(&job.graph, chaining(&job.graph)))
        };
        assert_eq!(check(500), None);
        let refused = check(2_000).unwrap();
        for part in [
            "it has 4000 tasks",
            "1000 at most",
            "parallelism of",
            "is 2000",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn a_file_sink_without_checkpoints_is_pointed_out_before_a_cluster_refuses_it() {
        let found = warnings("");
        assert!(found[0].contains("file sink out"), "{found:?}");
        assert!(found[0].contains("checkpointing.interval"), "{found:?}");
        assert_eq!(
            warnings("checkpointing.interval: 1s\n"),
            Vec::<String>::new()
        );
    }
}
