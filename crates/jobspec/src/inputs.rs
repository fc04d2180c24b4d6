//! The steps read so far, and what a step reads from.

use arrow::datatypes::SchemaRef;
use millstream_config::suggest;
use millstream_config::yaml::{Node, Position};
use millstream_graph::{OperatorId, OutputPort, dead_letter_schema};

use crate::fault::FaultKind;
use crate::report::Report;

const DEAD_LETTER: &str = ".dead-letter";

/// A step that was read. One with a fault stays, so that steps below it are checked as far as that
/// makes sense.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) uid: String,
    /// `filter "non-empty"`.
    pub(crate) label: String,
    pub(crate) at: Position,
    pub(crate) path: String,
    /// The operator that gives the result; none after a fault.
    pub(crate) operator: Option<OperatorId>,
    /// Columns of the result; unknown after a fault.
    pub(crate) schema: Option<SchemaRef>,
    pub(crate) parallelism: u32,
    /// Whether it ends by itself.
    pub(crate) bounded: bool,
    pub(crate) is_sink: bool,
    pub(crate) is_read: bool,
    pub(crate) dead_letter: Option<DeadLetter>,
}

/// The side output of a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeadLetter {
    pub(crate) operator: Option<OperatorId>,
    pub(crate) is_read: bool,
}

/// One stream that a step reads.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) from: Option<OperatorId>,
    pub(crate) port: OutputPort,
    pub(crate) parallelism: u32,
    pub(crate) schema: Option<SchemaRef>,
    pub(crate) bounded: bool,
    /// For messages.
    pub(crate) uid: String,
}

impl Input {
    /// What a step reads that does not say, or says wrong, what it reads.
    pub(crate) fn unknown() -> Self {
        Self {
            from: None,
            port: OutputPort::Main,
            parallelism: 1,
            schema: None,
            bounded: true,
            uid: String::new(),
        }
    }
}

/// All steps above the current one.
#[derive(Debug, Default)]
pub(crate) struct Stages(pub(crate) Vec<Stage>);

impl Stages {
    /// The result of the step before the one at `at`.
    pub(crate) fn previous(
        &mut self,
        at: Position,
        step: &str,
        path: &str,
        report: &mut Report<'_>,
    ) -> Input {
        let kind = match self.0.last_mut() {
            Some(stage) if !stage.is_sink => {
                stage.is_read = true;
                return main_output(stage);
            }
            Some(stage) => FaultKind::structure(
                format!("{step} follows {}, which has no output", stage.label),
                "add from: [uid] with the uid of the step to read from",
            ),
            None => FaultKind::structure(
                format!("{step} has nothing to read from"),
                "begin the pipeline with a source",
            ),
        };
        report.key(at, step, path, kind);
        Input::unknown()
    }

    /// The step or side output that `node` names.
    pub(crate) fn named(&mut self, node: &Node, path: &str, report: &mut Report<'_>) -> Input {
        let name = node.as_text().unwrap_or_default();
        if let Some(stage) = self.0.iter_mut().find(|stage| stage.uid == name) {
            if stage.is_sink {
                let message = format!("{} has no output", stage.label);
                let kind = FaultKind::structure(message, "read from the step in front of it");
                report.value(node, path, kind);
                return Input::unknown();
            }
            stage.is_read = true;
            return main_output(stage);
        }
        let source = name
            .strip_suffix(DEAD_LETTER)
            .and_then(|uid| self.0.iter_mut().find(|stage| stage.uid == uid));
        match source {
            Some(stage) => dead_letters(stage).unwrap_or_else(|kind| {
                report.value(node, path, kind);
                Input::unknown()
            }),
            None => {
                let uids = self.0.iter().map(|stage| &stage.uid);
                let known: Vec<String> = uids.filter(|uid| !uid.is_empty()).cloned().collect();
                let suggestion = suggest(name, known.iter().map(String::as_str));
                let kind = FaultKind::UnknownUid {
                    uid: name.chars().take(80).collect(),
                    suggestion: suggestion.map(str::to_owned),
                    known,
                };
                report.value(node, path, kind);
                Input::unknown()
            }
        }
    }

    /// What nobody reads is a mistake: the rows would be computed and dropped.
    pub(crate) fn check_all_read(&self, report: &mut Report<'_>) {
        for stage in &self.0 {
            if !stage.is_sink && !stage.is_read && stage.operator.is_some() {
                let message = format!("nobody reads the result of {}", stage.label);
                let kind = FaultKind::structure(message, "add a sink, or remove the step");
                report.key(stage.at, &last_word(&stage.path), &stage.path, kind);
            }
            if stage.dead_letter.is_some_and(|output| !output.is_read) {
                let message = format!("nobody reads the dead letters of {}", stage.label);
                let remedy = format!(
                    "add a sink with from: {}{DEAD_LETTER}, or set on-error to skip",
                    stage.uid
                );
                let kind = FaultKind::structure(message, remedy);
                report.key(stage.at, &last_word(&stage.path), &stage.path, kind);
            }
        }
    }
}

fn last_word(path: &str) -> String {
    crate::fields::last_part(path)
}

fn main_output(stage: &Stage) -> Input {
    Input {
        from: stage.operator,
        port: OutputPort::Main,
        parallelism: stage.parallelism,
        schema: stage.schema.clone(),
        bounded: stage.bounded,
        uid: stage.uid.clone(),
    }
}

fn dead_letters(stage: &mut Stage) -> Result<Input, FaultKind> {
    let Some(output) = &mut stage.dead_letter else {
        return Err(FaultKind::structure(
            format!("{} has no dead letters", stage.label),
            "set on-error: dead-letter at a file source",
        ));
    };
    output.is_read = true;
    Ok(Input {
        from: output.operator,
        port: OutputPort::DeadLetter,
        parallelism: stage.parallelism,
        schema: Some(dead_letter_schema()),
        bounded: stage.bounded,
        uid: format!("{}{DEAD_LETTER}", stage.uid),
    })
}
