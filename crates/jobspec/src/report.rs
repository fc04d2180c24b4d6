//! Collects faults and warnings while a file is read.

use millstream_config::yaml::{Node, Position};
use millstream_expr::ExprError;

use crate::fault::{Fault, FaultKind, JobFileErrors, Place, Warning};
use crate::source_text::{Mark, SourceText, place};

/// What was found so far in one file.
pub(crate) struct Report<'t> {
    file: &'t str,
    source: SourceText<'t>,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
}

impl<'t> Report<'t> {
    pub(crate) fn new(file: &'t str, text: &'t str) -> Self {
        Self {
            file,
            source: SourceText::new(text),
            faults: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Whether no more faults are collected: reading on costs time and tells nobody anything.
    pub(crate) fn is_full(&self) -> bool {
        self.faults.len() >= JobFileErrors::LIMIT
    }

    pub(crate) fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// A fault of the value `node`.
    pub(crate) fn value(&mut self, node: &Node, path: &str, kind: FaultKind) {
        let mark = self.source.mark_of(node);
        self.push(Some(mark), path, kind);
    }

    /// A fault of the key `name` that starts at `at`.
    pub(crate) fn key(&mut self, at: Position, name: &str, path: &str, kind: FaultKind) {
        let width = name.chars().count();
        let place = place(at);
        self.push(Some(Mark { place, width }), path, kind);
    }

    /// A fault of the expression that `node` holds.
    pub(crate) fn expression(&mut self, node: &Node, path: &str, error: ExprError) {
        let mark = self.source.mark_in(node, error.span());
        self.push(Some(mark), path, FaultKind::Expression(error));
    }

    /// A fault at a place known only by its numbers, or nowhere.
    pub(crate) fn at(&mut self, at: Option<Place>, path: &str, kind: FaultKind) {
        self.push(at.map(|place| Mark { place, width: 1 }), path, kind);
    }

    fn push(&mut self, mark: Option<Mark>, path: &str, kind: FaultKind) {
        if self.is_full() {
            return;
        }
        self.faults.push(Fault {
            file: self.file.to_owned(),
            place: mark.map(|mark| mark.place),
            path: path.to_owned(),
            kind,
            excerpt: mark
                .map(|mark| self.source.excerpt(mark))
                .unwrap_or_default(),
        });
    }

    pub(crate) fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// `file:line:column` for warnings.
    pub(crate) fn location(&self, at: Position) -> String {
        format!("{}:{}:{}", self.file, at.line, at.column)
    }

    /// The warnings, if no fault was found.
    pub(crate) fn finish(self) -> Result<Vec<Warning>, JobFileErrors> {
        if self.faults.is_empty() {
            Ok(self.warnings)
        } else {
            Err(JobFileErrors::new(self.faults))
        }
    }
}
