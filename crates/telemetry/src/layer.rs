//! Makes a [`Line`] of each event with the spans around it.

use std::error::Error;
use std::fmt::Debug;
use std::io::Write;

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::setup::Output;
use crate::{Line, fields, passed};

/// Writes events to an [`Output`].
pub(crate) struct LineLayer {
    pub output: Output,
}

impl<S> Layer<S> for LineLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut collected = Collected::default();
            attributes.record(&mut collected);
            span.extensions_mut().insert(collected);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(collected) = span.extensions_mut().get_mut::<Collected>() {
            values.record(collected);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut around = Collected::default();
        for (name, value) in self.output.context() {
            around.set(name, value.clone());
        }
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(collected) = span.extensions().get::<Collected>() {
                collected
                    .fields
                    .iter()
                    .for_each(|(name, value)| around.set(name, value.clone()));
            }
        }
        let mut own = Collected::default();
        event.record(&mut own);
        if event.metadata().target() == passed::TARGET {
            let record = own.take(passed::FIELD).unwrap_or_default();
            if self.output.pass_on(&record) {
                return;
            }
            // Not of the form it should have: then it is the text of a line of this process.
            own.message = record;
        }
        around
            .fields
            .retain(|(name, _)| !own.fields.iter().any(|(own, _)| own == name));
        self.output.write(&line(event, around, own, &self.output));
    }
}

fn line(event: &Event<'_>, mut around: Collected, mut own: Collected, output: &Output) -> Line {
    let thread = own
        .take(fields::THREAD_NAME)
        .or_else(|| around.take(fields::THREAD_NAME));
    let metadata = event.metadata();
    let file = metadata
        .file()
        .and_then(|path| path.rsplit('/').next())
        .unwrap_or_default();
    Line {
        at: output.now(),
        level: level(*metadata.level()),
        logger: metadata.target().to_owned(),
        module: metadata.module_path().unwrap_or_default().to_owned(),
        file: file.to_owned(),
        line: metadata.line().unwrap_or_default(),
        thread: thread.unwrap_or_else(os_thread),
        message: own.message,
        context: around.fields,
        fields: own.fields,
        error_chain: own.error_chain,
    }
}

const fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

fn os_thread() -> String {
    std::thread::current()
        .name()
        .unwrap_or("unnamed")
        .to_owned()
}

/// Fields of a span or an event; a name occurs once.
#[derive(Default)]
struct Collected {
    message: String,
    fields: Vec<(String, Value)>,
    error_chain: Vec<String>,
}

impl Collected {
    fn set(&mut self, name: &str, value: Value) {
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.fields.push((name.to_owned(), value)),
        }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let index = self.fields.iter().position(|(known, _)| known == name)?;
        match self.fields.remove(index).1 {
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    }

    fn text(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            fields::ERROR => self.error_chain = vec![text],
            name => self.set(name, json!(text)),
        }
    }
}

impl Visit for Collected {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no NaN and no infinity.
        let value = if value.is_finite() {
            json!(value)
        } else {
            json!(value.to_string())
        };
        self.set(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), json!(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let chain = crate::causes(value);
        if field.name() == fields::ERROR {
            self.error_chain = chain;
        } else {
            self.set(field.name(), json!(chain.join(": ")));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, format!("{value:?}"));
    }
}

/// Writes whole lines to standard error.
pub(crate) fn write_to_stderr(line: &str) {
    let mut whole = String::with_capacity(line.len() + 1);
    whole.push_str(line);
    whole.push('\n');
    // One call, so that lines of several threads do not mix. Where standard error is gone, nobody
    // could be told.
    let _ = std::io::stderr().write_all(whole.as_bytes());
}
