//! The steps in order: each becomes an operator, joined to the steps it reads from.

use std::path::Path;

use millstream_config::yaml::{Node, Position};
use millstream_config::{JobConfig, ValueFault};
use millstream_graph::{Edge, OperatorId, OperatorKind, Partitioning};

use crate::fault::{FaultKind, Warning};
use crate::fields::{Fields, entries};
use crate::head::{Head, form, head};
use crate::inputs::{DeadLetter, Input, Stage, Stages};
use crate::report::Report;
use crate::steps::operators::{Common, Operators};
use crate::steps::{self, Built, Grouping};
use crate::table::{Connector, StepKind};

/// More steps are not looked at; the graph has the same limit for operators.
const STEPS_MAX: usize = 1_000;

/// Reads all steps. `None` if there are none to read.
pub(crate) fn read(
    steps: &[Node],
    config: &JobConfig,
    base_dir: Option<&Path>,
    report: &mut Report<'_>,
) -> Option<(Operators, Vec<Edge>)> {
    if steps.len() > STEPS_MAX {
        let kind = FaultKind::Limit {
            what: "steps in the pipeline",
            found: steps.len() as u64,
            limit: STEPS_MAX as u64,
        };
        report.value(&steps[STEPS_MAX], "pipeline", kind);
        return None;
    }
    let mut pipeline = Pipeline {
        config,
        base_dir,
        operators: Operators::new(config.max_parallelism),
        edges: Vec::new(),
        stages: Stages::default(),
        key_by: None,
    };
    for (index, node) in steps.iter().enumerate() {
        if report.is_full() {
            return None;
        }
        pipeline.step(index, node, report);
    }
    pipeline.finish(report);
    (!report.has_faults()).then_some((pipeline.operators, pipeline.edges))
}

struct Pipeline<'c> {
    config: &'c JobConfig,
    base_dir: Option<&'c Path>,
    operators: Operators,
    edges: Vec<Edge>,
    stages: Stages,
    /// A key-by whose aggregate has not come yet.
    key_by: Option<KeyBy>,
}

/// A key-by is a property of the edge into the aggregate behind it.
struct KeyBy {
    at: Position,
    path: String,
    input: Input,
    /// Positions of the key columns; none after a fault.
    columns: Option<Vec<usize>>,
}

impl Pipeline<'_> {
    fn step(&mut self, index: usize, node: &Node, report: &mut Report<'_>) {
        let path = format!("pipeline[{index}]");
        let Some(head) = head(index, node, &path, report) else {
            return self.push_broken(node.at, &path);
        };
        let path = format!("{path}.{}", head.entry.key);
        if head.step.kind == StepKind::KeyBy {
            return self.key_by(head, &path, report);
        }
        let Some((form, connector)) = form(head, &path, report) else {
            self.key_by = None;
            return self.push_broken(head.entry.at, &path);
        };
        let wanted = "a mapping of keys and values";
        let Some(entries) = entries(&head.entry.node, &path, wanted, report) else {
            return self.push_broken(head.entry.at, &path);
        };
        let fields = Fields::read(form, head.entry.at, &path, entries, report);
        let (inputs, grouping) = self.inputs(head, &fields, report);
        let built = self.build(
            head.step.kind,
            connector,
            &fields,
            &inputs,
            &grouping,
            report,
        );
        self.add(head, &fields, &inputs, grouping, built, report);
    }

    /// What a step reads: the step before, those it names, or what the key-by in front reads.
    fn inputs(
        &mut self,
        head: Head<'_>,
        fields: &Fields<'_>,
        report: &mut Report<'_>,
    ) -> (Vec<Input>, Grouping) {
        let key_by = self.key_by.take();
        if head.step.kind == StepKind::Source {
            if let Some(key_by) = key_by {
                not_followed(&key_by, report);
            }
            return (Vec::new(), Grouping::None);
        }
        let from = fields.names("from");
        match (key_by, from) {
            (Some(key_by), None) if head.step.kind == StepKind::Aggregate => {
                let grouping = key_by.columns.map_or(Grouping::Unknown, Grouping::By);
                (vec![key_by.input], grouping)
            }
            (Some(key_by), _) => {
                not_followed(&key_by, report);
                (vec![key_by.input], Grouping::Unknown)
            }
            (None, Some(names)) => {
                let path = fields.path_of("from");
                let named = |node: &&Node| self.stages.named(node, &path, report);
                let inputs: Vec<Input> = names.iter().map(named).collect();
                check_number(head, fields, &inputs, report);
                (inputs, Grouping::None)
            }
            (None, None) if head.step.kind == StepKind::Union => (Vec::new(), Grouping::None),
            (None, None) => {
                let (at, key) = (head.entry.at, &head.entry.key);
                let input = self.stages.previous(at, key, &fields.path, report);
                (vec![input], Grouping::None)
            }
        }
    }

    fn key_by(&mut self, head: Head<'_>, path: &str, report: &mut Report<'_>) {
        let at = head.entry.at;
        if let Some(earlier) = self.key_by.take() {
            not_followed(&earlier, report);
        }
        let Some((form, _)) = form(head, path, report) else {
            return;
        };
        let node = &head.entry.node;
        let fields = node
            .as_mapping()
            .map(|entries| Fields::read(form, at, path, entries, report));
        let names: Vec<&Node> = match (&fields, node.as_sequence()) {
            (Some(fields), _) => fields.names("columns").unwrap_or_default().to_vec(),
            (None, Some(items)) => items.iter().collect(),
            (None, None) => node.as_text().map(|_| node).into_iter().collect(),
        };
        let input = match fields.as_ref().and_then(|fields| fields.names("from")) {
            Some([from, more @ ..]) => {
                if let Some(second) = more.first() {
                    let message = "a key-by reads one step";
                    let kind = FaultKind::structure(message, "merge the steps with a union first");
                    report.value(second, &format!("{path}.from"), kind);
                }
                self.stages.named(from, &format!("{path}.from"), report)
            }
            _ => self.stages.previous(at, &head.entry.key, path, report),
        };
        if names.is_empty() && fields.is_none_or(|fields| fields.complete) {
            let key = "key-by".to_owned();
            let fault = ValueFault::Shape {
                found: node.kind(),
                wanted: "a list of columns, such as [word]",
            };
            report.value(node, path, FaultKind::Value { key, fault });
        }
        let columns = steps::aggregate::key_columns(&names, &input, path, report);
        self.key_by = Some(KeyBy {
            at,
            path: path.to_owned(),
            input,
            columns,
        });
    }

    fn build(
        &self,
        kind: StepKind,
        connector: Option<Connector>,
        fields: &Fields<'_>,
        inputs: &[Input],
        grouping: &Grouping,
        report: &mut Report<'_>,
    ) -> Option<Built> {
        let first = inputs.first();
        let unknown = Input::unknown();
        let input = first.unwrap_or(&unknown);
        if kind == StepKind::Inject || (kind == StepKind::Source && fields.node("inject").is_some())
        {
            steps::inject::check_allowed(self.config.allow_fault_injection, fields, report);
        }
        match kind {
            StepKind::Source => match connector? {
                Connector::Generator => steps::generator::build(fields, report),
                Connector::FileSource => steps::source::build(fields, self.base_dir, report),
                Connector::FileSink | Connector::Print | Connector::Blackhole => None,
            },
            StepKind::Select => steps::transform::select(fields, input, report),
            StepKind::Filter => steps::transform::filter(fields, input, report),
            StepKind::FlatMap => steps::transform::flat_map(fields, input, report),
            StepKind::Union => steps::transform::union(fields, inputs, report),
            StepKind::Aggregate => steps::aggregate::build(fields, input, grouping, report),
            StepKind::Inject => steps::inject::build(fields, input),
            StepKind::Sink => steps::sink::build(connector?, fields, input, self.base_dir, report),
            StepKind::KeyBy => None,
        }
    }

    fn add(
        &mut self,
        head: Head<'_>,
        fields: &Fields<'_>,
        inputs: &[Input],
        grouping: Grouping,
        built: Option<Built>,
        report: &mut Report<'_>,
    ) {
        let kind = head.step.kind;
        let generated = format!("{}-{}", head.step.name, head.index + 1);
        let parallelism = match (kind, &grouping) {
            (StepKind::Aggregate, Grouping::None) => Some(1),
            _ => None,
        };
        let common = Common::read(
            head.step.name,
            fields,
            &generated,
            parallelism,
            self.config.parallelism,
            report,
        );
        self.operators.register(&common, fields, report);
        let bounded = inputs.iter().all(|input| input.bounded);
        let mut stage = Stage {
            uid: common.uid.clone(),
            label: common.label.clone(),
            at: fields.at,
            path: fields.path.clone(),
            operator: None,
            schema: built.as_ref().map(|built| built.schema.clone()),
            parallelism: common.parallelism,
            bounded: steps::source::ends(built.as_ref()).unwrap_or(bounded),
            is_sink: kind == StepKind::Sink,
            is_read: false,
            dead_letter: None,
        };
        if let Some(built) = built {
            self.warn(&common, &built, stage.bounded, fields, report);
            let operator = self.operators.push(&common, built, &mut self.edges, report);
            self.connect(inputs, operator, common.parallelism, grouping);
            stage.operator = Some(operator);
        }
        if fields.form.key("on-error").is_some() && fields.word("on-error") == Some("dead-letter") {
            stage.dead_letter = Some(DeadLetter {
                operator: stage.operator,
                is_read: false,
            });
        }
        if kind == StepKind::Source {
            self.inject_option(fields, &common, &mut stage, report);
        }
        self.stages.0.push(stage);
    }

    /// The inject step that a source's option stands for.
    fn inject_option(
        &mut self,
        fields: &Fields<'_>,
        common: &Common,
        stage: &mut Stage,
        report: &mut Report<'_>,
    ) {
        let Some(fault) = fields.fields("inject") else {
            return;
        };
        let (Some(source), Some(schema)) = (stage.operator, stage.schema.clone()) else {
            return;
        };
        let input = Input {
            schema: Some(schema),
            from: Some(source),
            parallelism: stage.parallelism,
            ..Input::unknown()
        };
        if let Some(built) = steps::inject::build(fault, &input) {
            let common = common.helper("inject");
            self.operators.register(&common, fault, report);
            let operator = self.operators.push(&common, built, &mut self.edges, report);
            self.connect(&[input], operator, common.parallelism, Grouping::None);
            stage.operator = Some(operator);
        }
    }

    fn connect(&mut self, inputs: &[Input], to: OperatorId, parallelism: u32, grouping: Grouping) {
        for (index, input) in inputs.iter().enumerate() {
            let Some(from) = input.from else { continue };
            let partitioning = match &grouping {
                Grouping::By(columns) => Partitioning::Hash {
                    columns: columns.clone(),
                },
                Grouping::None | Grouping::Unknown if input.parallelism == parallelism => {
                    Partitioning::Forward
                }
                Grouping::None | Grouping::Unknown => Partitioning::Rebalance,
            };
            self.edges.push(Edge {
                from,
                port: input.port,
                to,
                input: u32::try_from(index).expect("a step has few inputs"),
                partitioning,
            });
        }
    }

    fn warn(
        &self,
        common: &Common,
        built: &Built,
        bounded: bool,
        fields: &Fields<'_>,
        report: &mut Report<'_>,
    ) {
        if common.uid_generated && built.kind.is_stateful() {
            if self.config.require_uids {
                let step = common.step.to_owned();
                let name = crate::fields::last_part(&fields.path);
                report.key(
                    fields.at,
                    &name,
                    &fields.path,
                    FaultKind::MissingUid { step },
                );
            } else {
                report.warn(Warning::GeneratedUid {
                    at: report.location(fields.at),
                    step: common.step.to_owned(),
                    uid: common.uid.clone(),
                });
            }
        }
        let is_file_sink = matches!(built.kind, OperatorKind::FileSink(_));
        if is_file_sink && !bounded && self.config.checkpoints.interval.is_none() {
            report.warn(Warning::NothingCommitted {
                at: report.location(fields.at),
                step: common.label.clone(),
            });
        }
    }

    fn push_broken(&mut self, at: Position, path: &str) {
        self.stages.0.push(Stage {
            uid: String::new(),
            label: "a step with a fault".to_owned(),
            at,
            path: path.to_owned(),
            operator: None,
            schema: None,
            parallelism: self.config.parallelism,
            bounded: true,
            is_sink: false,
            is_read: true,
            dead_letter: None,
        });
    }

    fn finish(&mut self, report: &mut Report<'_>) {
        if let Some(key_by) = self.key_by.take() {
            not_followed(&key_by, report);
        }
        if self.stages.0.is_empty() && !report.has_faults() {
            let message = "the pipeline has no steps";
            let kind = FaultKind::structure(message, "add at least a source and a sink");
            report.at(None, "pipeline", kind);
        }
        if !report.has_faults() {
            debug_assert!(
                self.stages.0.iter().all(|stage| stage.operator.is_some()),
                "what gives no operator gives a fault"
            );
            self.stages.check_all_read(report);
        }
    }
}

fn not_followed(key_by: &KeyBy, report: &mut Report<'_>) {
    let kind = FaultKind::structure(
        "a key-by is followed by an aggregate that takes its input from it",
        "put key-by directly in front of an aggregate step without from",
    );
    report.key(key_by.at, "key-by", &key_by.path, kind);
}

fn check_number(head: Head<'_>, fields: &Fields<'_>, inputs: &[Input], report: &mut Report<'_>) {
    let Some(node) = fields.node("from") else {
        return;
    };
    let (message, remedy) = match (head.step.kind, inputs.len()) {
        (StepKind::Union, 1) => ("a union of one step", "name two or more steps"),
        (StepKind::Union, _) | (_, 1) => return,
        _ => (
            "this step reads one step",
            "merge the steps with a union first",
        ),
    };
    let kind = FaultKind::structure(message, remedy);
    report.value(node, &fields.path_of("from"), kind);
}
