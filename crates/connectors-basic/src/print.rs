//! Sinks for people: lines, or nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::Array;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use millstream_batch::{Batch, RowKind};
use millstream_operator::{
    Context, ErrorKind, Operator, OperatorError, Progress, RestoredState, RowOutput,
};

/// Writes each row as one line: its values joined by `, `, NULL as `null`, control characters
/// escaped. In front stand the label and, of more than one subtask, the subtask's number from 1:
/// `2> `, `label> `, `label:2> `. A row that changes an earlier one shows how: `-U `, `+U `, `-D `.
pub struct PrintOperator {
    label: Option<String>,
    prefix: String,
    output: Arc<dyn RowOutput>,
}

impl PrintOperator {
    /// Prints to `output`.
    pub fn new(label: Option<String>, output: Arc<dyn RowOutput>) -> Self {
        Self {
            label,
            prefix: String::new(),
            output,
        }
    }

    fn lines(&self, batch: &Batch) -> Result<Vec<String>, OperatorError> {
        let unprintable = |error| {
            OperatorError::new(ErrorKind::Internal, "a row cannot be printed").with_source(error)
        };
        let options = FormatOptions::new().with_null("null");
        let columns = batch.records().columns().iter();
        let columns = columns
            .map(|column| ArrayFormatter::try_new(column as &dyn Array, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(unprintable)?;
        let mut lines = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let mut line = Escaped(format!("{}{}", self.prefix, mark(batch.kind(row))));
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    line.0.push_str(", ");
                }
                let value = column.value(row);
                write!(line, "{value}").map_err(|_| {
                    let what = format!("column {} of a row cannot be printed", index + 1);
                    OperatorError::new(ErrorKind::Internal, what)
                })?;
            }
            lines.push(line.0);
        }
        Ok(lines)
    }
}

impl Operator for PrintOperator {
    fn open(
        &mut self,
        _restored: RestoredState,
        ctx: &mut Context<'_>,
    ) -> Result<(), OperatorError> {
        let subtask = (ctx.info.parallelism > 1).then(|| ctx.info.subtask_index + 1);
        self.prefix = match (&self.label, subtask) {
            (None, None) => String::new(),
            (None, Some(subtask)) => format!("{subtask}> "),
            (Some(label), None) => format!("{label}> "),
            (Some(label), Some(subtask)) => format!("{label}:{subtask}> "),
        };
        Ok(())
    }

    fn process(
        &mut self,
        _input: u32,
        batch: Batch,
        _ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        self.output.lines(self.lines(&batch)?);
        Ok(Progress::Done)
    }
}

fn mark(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Insert => "",
        RowKind::UpdateBefore => "-U ",
        RowKind::UpdateAfter => "+U ",
        RowKind::Delete => "-D ",
    }
}

/// Text without what a terminal obeys: line breaks would make two rows of one, escape sequences
/// and changes of direction would show something else than was written.
struct Escaped(String);

impl std::fmt::Write for Escaped {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            let turns_text = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            if c.is_control() || turns_text {
                self.0.extend(c.escape_default());
            } else {
                self.0.push(c);
            }
        }
        Ok(())
    }
}

/// Forgets rows; the runtime counts them.
#[derive(Clone, Copy, Default, Debug)]
pub struct BlackholeOperator;

impl Operator for BlackholeOperator {
    fn process(
        &mut self,
        _input: u32,
        _batch: Batch,
        _ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        Ok(Progress::Done)
    }
}

#[cfg(test)]
mod tests;
