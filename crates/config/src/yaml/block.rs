//! Block style: mappings and lists by indentation.

use std::collections::BTreeMap;

use super::error::YamlError;
use super::node::{Entry, Node, Position, Style, Value};
use super::reader::{Reader, starts_blank};
use super::{MAX_DEPTH, MAX_KEY_BYTES, flow};

impl Reader<'_> {
    /// A node that starts at the cursor, on a line of its own or behind `- `.
    ///
    /// `parent` is the column of the enclosing mapping or list; lines that continue a scalar are
    /// indented deeper than that.
    pub(super) fn block_node(
        &mut self,
        parent: Option<usize>,
        depth: usize,
    ) -> Result<Node, YamlError> {
        if depth > MAX_DEPTH {
            return Err(YamlError::TooDeep {
                at: self.position(),
                limit: MAX_DEPTH,
            });
        }
        self.check_start()?;
        let column = self.column();
        if self.at_dash() {
            return self.block_sequence(column, depth);
        }
        if self.at_key()? {
            return self.block_mapping(column, depth);
        }
        self.inline_node(parent, depth)
    }

    /// A scalar, block scalar or flow collection; a block collection cannot start here.
    pub(super) fn inline_node(
        &mut self,
        parent: Option<usize>,
        depth: usize,
    ) -> Result<Node, YamlError> {
        self.check_start()?;
        let at = self.position();
        let value = match self.peek() {
            Some('{' | '[') => {
                let node = self.flow_node(depth + 1)?;
                self.expect_line_end()?;
                return Ok(node);
            }
            Some('|' | '>') => Value::Scalar {
                text: self.block_scalar(parent)?,
                style: Style::Block,
            },
            Some('"' | '\'') => {
                let text = self.quoted()?;
                self.expect_line_end()?;
                Value::Scalar {
                    text,
                    style: Style::Quoted,
                }
            }
            _ => Value::Scalar {
                text: self.plain_block(parent)?,
                style: Style::Plain,
            },
        };
        Ok(Node { at, value })
    }

    fn expect_line_end(&mut self) -> Result<(), YamlError> {
        if self.line_is_done() {
            return Ok(());
        }
        if self.peek() == Some(':') {
            return Err(self.syntax("a ':' is not allowed here"));
        }
        Err(self.syntax("only a comment (with a space before '#') may follow the value"))
    }

    fn at_dash(&self) -> bool {
        self.rest().strip_prefix('-').is_some_and(starts_blank)
    }

    /// Whether a `key:` starts at the cursor.
    fn at_key(&mut self) -> Result<bool, YamlError> {
        let from = self.at;
        let found = match self.peek() {
            Some('"' | '\'') => {
                let line = self.position().line;
                // An unclosed quote is reported when the value is read.
                let quoted = self.quoted().is_ok() && self.position().line == line;
                self.skip_spaces();
                quoted && self.rest().strip_prefix(':').is_some_and(starts_blank)
            }
            Some('{' | '[' | '|' | '>') => false,
            _ => flow::plain_end(self.rest_of_line(), false)
                .is_some_and(|end| self.rest()[end..].starts_with(':')),
        };
        self.at = from;
        Ok(found)
    }

    /// Reads `key:`; the cursor is behind the colon.
    fn key(&mut self) -> Result<String, YamlError> {
        self.check_start()?;
        let key = match self.peek() {
            Some('"' | '\'') => self.quoted()?,
            _ => {
                let line = self.rest_of_line();
                let end = flow::plain_end(line, false).unwrap_or(line.len());
                if end == 0 {
                    return Err(self.syntax("a key is missing before the ':'"));
                }
                self.at += end;
                line[..end].trim_end().to_owned()
            }
        };
        self.skip_spaces();
        if self.peek() != Some(':') {
            return Err(self.syntax("a key needs a ':' with a space behind it"));
        }
        self.at += 1;
        Ok(key)
    }

    fn block_mapping(&mut self, column: usize, depth: usize) -> Result<Node, YamlError> {
        let start = self.position();
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = Seen::default();
        loop {
            if !self.at_key()? {
                self.check_start()?;
                return Err(self.syntax("expected 'key: value'"));
            }
            let at = self.position();
            let key = self.key()?;
            seen.check(&key, at)?;
            let node = self.block_value(column, depth)?;
            entries.push(Entry { key, at, node });
            if !self.next_item(column)? {
                return Ok(Node {
                    at: start,
                    value: Value::Mapping(entries),
                });
            }
        }
    }

    /// What stands behind `key:`, on the same line or below.
    fn block_value(&mut self, column: usize, depth: usize) -> Result<Node, YamlError> {
        let behind_colon = self.position();
        if !self.line_is_done() {
            if self.at_dash() {
                return Err(self.syntax("a list starts on a line of its own"));
            }
            return self.inline_node(Some(column), depth);
        }
        self.skip_blank()?;
        let below = !self.at_end() && self.document_marker().is_none();
        if below && (self.column() > column || (self.column() == column && self.at_dash())) {
            // A list may stand at the column of its key; its items are then no keys of ours.
            return self.block_node(Some(column), depth + 1);
        }
        Ok(Node::empty(behind_colon))
    }

    fn block_sequence(&mut self, column: usize, depth: usize) -> Result<Node, YamlError> {
        let start = self.position();
        let mut items = Vec::new();
        loop {
            self.at += 1;
            let behind_dash = self.position();
            if self.line_is_done() {
                self.skip_blank()?;
                let below = !self.at_end() && self.document_marker().is_none();
                if below && self.column() > column {
                    items.push(self.block_node(Some(column), depth + 1)?);
                } else {
                    items.push(Node::empty(behind_dash));
                }
            } else {
                items.push(self.block_node(Some(column), depth + 1)?);
            }
            if !self.next_item(column)? || !self.at_dash() {
                return Ok(Node {
                    at: start,
                    value: Value::Sequence(items),
                });
            }
        }
    }

    /// Moves to the next item of a collection at `column`; false where the collection ends.
    fn next_item(&mut self, column: usize) -> Result<bool, YamlError> {
        self.skip_blank()?;
        if self.at_end() || self.document_marker().is_some() || self.column() < column {
            return Ok(false);
        }
        if self.column() > column {
            return Err(self.syntax("indented deeper than the line above allows"));
        }
        Ok(true)
    }
}

/// The keys of one mapping so far.
#[derive(Default)]
pub(super) struct Seen(BTreeMap<String, Position>);

impl Seen {
    /// Refuses a key that the mapping has already, and one that no message could show.
    pub(super) fn check(&mut self, key: &str, at: Position) -> Result<(), YamlError> {
        if key.len() > MAX_KEY_BYTES {
            return Err(YamlError::Refused {
                at,
                what: "a key of more than 512 bytes",
            });
        }
        match self.0.insert(key.to_owned(), at) {
            None => Ok(()),
            Some(first) => Err(YamlError::DuplicateKey {
                key: key.to_owned(),
                first,
                second: at,
            }),
        }
    }
}
