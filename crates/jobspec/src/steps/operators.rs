//! What all operators have, and the operators of the graph.

use millstream_config::yaml::Position;
use millstream_graph::{Edge, OperatorId, OperatorKind, OperatorNode, OutputPort, Partitioning};
use millstream_types::{MaxParallelism, OperatorUid};

use super::Built;
use crate::fault::FaultKind;
use crate::fields::{Fields, last_part};
use crate::graph_faults::Places;
use crate::report::Report;

/// The keys that all operators have.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    /// `filter`.
    pub(crate) step: &'static str,
    pub(crate) uid: String,
    pub(crate) uid_generated: bool,
    pub(crate) name: String,
    /// `filter "non-empty"`.
    pub(crate) label: String,
    pub(crate) parallelism: u32,
    group: String,
    chain: bool,
}

impl Common {
    /// `fixed` is the parallelism of an operator that can have no other.
    pub(crate) fn read(
        step: &'static str,
        fields: &Fields<'_>,
        generated: &str,
        fixed: Option<u32>,
        default_parallelism: u32,
        report: &mut Report<'_>,
    ) -> Self {
        let given = fields.text("uid");
        let uid = given.unwrap_or(generated).to_owned();
        let name = fields.text("name").unwrap_or(&uid).to_owned();
        let wanted = fields
            .int("parallelism")
            .map(|wanted| u32::try_from(wanted).expect("bounded by the table"));
        if let (Some(fixed), Some(wanted), Some(node)) = (fixed, wanted, fields.node("parallelism"))
            && wanted != fixed
        {
            let kind = FaultKind::structure(
                format!("an aggregate without key-by has one group, and parallelism is {wanted}"),
                "put a key-by in front of it, or remove parallelism",
            );
            report.value(node, &fields.path_of("parallelism"), kind);
        }
        let has_chain = fields.form.key("chain").is_some();
        Self {
            step,
            label: format!("{step} {name:?}"),
            uid,
            uid_generated: given.is_none(),
            name,
            parallelism: fixed.or(wanted).unwrap_or(default_parallelism),
            group: fields
                .text("slot-sharing-group")
                .unwrap_or("default")
                .to_owned(),
            chain: !has_chain || fields.bool("chain").unwrap_or(true),
        }
    }

    /// An operator that belongs to this one, such as a source's enumerator.
    pub(crate) fn helper(&self, role: &str) -> Self {
        Self {
            uid: format!("{}.{role}", self.uid),
            name: format!("{} {role}", self.name),
            label: format!("{} of {}", role, self.label),
            chain: true,
            ..self.clone()
        }
    }
}

/// The operators of the graph.
pub(crate) struct Operators {
    pub(crate) nodes: Vec<OperatorNode>,
    /// Where each was written.
    pub(crate) places: Places,
    max_parallelism: Option<u32>,
}

impl Operators {
    pub(crate) fn new(max_parallelism: Option<u32>) -> Self {
        Self {
            nodes: Vec::new(),
            places: Places::new(),
            max_parallelism,
        }
    }

    /// Takes the uid, which must be free, and checks the parallelism.
    pub(crate) fn register(
        &mut self,
        common: &Common,
        fields: &Fields<'_>,
        report: &mut Report<'_>,
    ) {
        let shown = |at: Position, path: &str| {
            let step = path.split('.').nth(1).unwrap_or(path);
            format!("{step} in line {}", at.line)
        };
        if let Some((at, path)) = self.places.get(&common.uid) {
            let kind = FaultKind::DuplicateUid {
                uid: common.uid.clone(),
                first: shown(*at, path),
                second: shown(fields.at, &fields.path),
            };
            let node = fields.form.key("uid").and_then(|_| fields.node("uid"));
            match node {
                Some(node) => report.value(node, &fields.path_of("uid"), kind),
                None => report.key(fields.at, &last_part(&fields.path), &fields.path, kind),
            }
        } else {
            let place = (fields.at, fields.path.clone());
            self.places.insert(common.uid.clone(), place);
        }
        let max = self.max_of(common.parallelism);
        if let Err(error) = max.check(common.parallelism) {
            let remedy = "lower the parallelism, or raise pipeline.max-parallelism";
            let kind = FaultKind::structure(error.to_string(), remedy);
            let node = fields
                .form
                .key("parallelism")
                .and_then(|_| fields.node("parallelism"));
            match node {
                Some(node) => report.value(node, &fields.path_of("parallelism"), kind),
                None => report.key(fields.at, &last_part(&fields.path), &fields.path, kind),
            }
        }
    }

    fn max_of(&self, parallelism: u32) -> MaxParallelism {
        let explicit = self.max_parallelism.map(|max| {
            MaxParallelism::new(max).expect("the configuration has the bounds of the type")
        });
        explicit.unwrap_or_else(|| MaxParallelism::derived(parallelism))
    }

    /// Adds the operator; in front of a file source its enumerator too.
    pub(crate) fn push(
        &mut self,
        common: &Common,
        built: Built,
        edges: &mut Vec<Edge>,
        report: &mut Report<'_>,
    ) -> OperatorId {
        let OperatorKind::FileSource(source) = &built.kind else {
            return self.push_one(common, built);
        };
        let enumerator = Common {
            parallelism: 1,
            ..common.helper("enumerator")
        };
        if let Some((at, path)) = self.places.get(&enumerator.uid).cloned() {
            let kind = FaultKind::DuplicateUid {
                uid: enumerator.uid.clone(),
                first: enumerator.label.clone(),
                second: format!("line {}", at.line),
            };
            report.key(at, &last_part(&path), &path, kind);
        } else if let Some(place) = self.places.get(&common.uid).cloned() {
            self.places.insert(enumerator.uid.clone(), place);
        }
        let kind = OperatorKind::FileEnumerator(source.clone());
        let schema = built.schema.clone();
        let from = self.push_one(&enumerator, Built { kind, schema });
        let to = self.push_one(common, built);
        edges.push(Edge {
            from,
            port: OutputPort::Main,
            to,
            input: 0,
            partitioning: Partitioning::Assign,
        });
        to
    }

    fn push_one(&mut self, common: &Common, built: Built) -> OperatorId {
        let id = u32::try_from(self.nodes.len()).expect("the number of steps is bounded");
        self.nodes.push(OperatorNode {
            uid: OperatorUid::new(&common.uid).expect("uids were checked when they were read"),
            uid_generated: common.uid_generated,
            name: common.name.clone(),
            kind: built.kind,
            parallelism: common.parallelism,
            max_parallelism: self.max_of(common.parallelism),
            max_parallelism_explicit: self.max_parallelism.is_some(),
            slot_sharing_group: common.group.clone(),
            chain_with_input: common.chain,
            schema: built.schema,
        });
        OperatorId(id)
    }
}
