//! Flow style: `{a: 1}` and `[a, b]`, and where a plain text ends.

use super::MAX_DEPTH;
use super::block::Seen;
use super::error::YamlError;
use super::node::{Entry, Node, Style, Value};
use super::reader::{Reader, starts_blank};

impl Reader<'_> {
    /// A node inside `{}` or `[]`, or one of them itself.
    pub(super) fn flow_node(&mut self, depth: usize) -> Result<Node, YamlError> {
        if depth > MAX_DEPTH {
            return Err(YamlError::TooDeep {
                at: self.position(),
                limit: MAX_DEPTH,
            });
        }
        self.check_start()?;
        let at = self.position();
        let value = match self.peek() {
            Some('{') => self.flow_mapping(depth)?,
            Some('[') => self.flow_sequence(depth)?,
            Some('"' | '\'') => Value::Scalar {
                text: self.quoted()?,
                style: Style::Quoted,
            },
            _ => Value::Scalar {
                text: self.flow_plain()?,
                style: Style::Plain,
            },
        };
        Ok(Node { at, value })
    }

    fn flow_mapping(&mut self, depth: usize) -> Result<Value, YamlError> {
        self.at += 1;
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = Seen::default();
        loop {
            self.skip_blank()?;
            if self.take('}') {
                return Ok(Value::Mapping(entries));
            }
            let at = self.position();
            let (key, quoted) = self.flow_key()?;
            seen.check(&key, at)?;
            self.skip_blank()?;
            // Behind a quoted key the colon may touch the value, as in JSON.
            let colon = self.rest().strip_prefix(':').is_some_and(|rest| {
                quoted || starts_blank(rest) || rest.starts_with([',', '}', '[', '{'])
            });
            if !colon {
                return Err(self.syntax("a key needs a ':' with a space behind it"));
            }
            self.at += 1;
            let behind_colon = self.position();
            self.skip_blank()?;
            let node = match self.peek() {
                Some(',' | '}') => Node::empty(behind_colon),
                _ => self.flow_node(depth + 1)?,
            };
            entries.push(Entry { key, at, node });
            self.flow_separator('}')?;
        }
    }

    fn flow_key(&mut self) -> Result<(String, bool), YamlError> {
        self.check_start()?;
        match self.peek() {
            Some('"' | '\'') => Ok((self.quoted()?, true)),
            _ => Ok((self.flow_plain()?, false)),
        }
    }

    fn flow_sequence(&mut self, depth: usize) -> Result<Value, YamlError> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_blank()?;
            if self.take(']') {
                return Ok(Value::Sequence(items));
            }
            items.push(self.flow_node(depth + 1)?);
            self.flow_separator(']')?;
        }
    }

    /// A comma, or the closing bracket left for the caller.
    fn flow_separator(&mut self, close: char) -> Result<(), YamlError> {
        self.skip_blank()?;
        if self.take(',') || self.peek() == Some(close) {
            return Ok(());
        }
        if self.at_end() {
            return Err(self.syntax(&format!("'{close}' is missing")));
        }
        Err(self.syntax(&format!("expected ',' or '{close}'")))
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn flow_plain(&mut self) -> Result<String, YamlError> {
        let line = self.rest_of_line();
        let end = plain_end(line, true).unwrap_or(line.len());
        let text = line[..end].trim_end();
        if text.is_empty() {
            return Err(self.syntax("a value is missing"));
        }
        self.at += text.len();
        Ok(text.to_owned())
    }
}

/// Where a plain text that starts `line` ends before the end of the line: at a colon with a blank
/// behind it, at a comment, in flow style also at `,`, brackets and braces.
pub(super) fn plain_end(line: &str, in_flow: bool) -> Option<usize> {
    let mut before_is_blank = false;
    for (index, c) in line.char_indices() {
        let behind = &line[index + c.len_utf8()..];
        let ends = match c {
            ':' => {
                starts_blank(behind) || (in_flow && behind.starts_with([',', '[', ']', '{', '}']))
            }
            '#' => before_is_blank,
            ',' | '[' | ']' | '{' | '}' => in_flow,
            _ => false,
        };
        if ends {
            return Some(index);
        }
        before_is_blank = c == ' ' || c == '\t';
    }
    None
}
