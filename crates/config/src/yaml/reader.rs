//! The cursor over the text: places, blanks, comments, refusals. What it reads lives beside it.

use super::error::YamlError;
use super::node::{Node, Position};

pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    /// Byte offset of the next character.
    pub(super) at: usize,
    line_starts: Vec<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let line_starts = std::iter::once(0)
            .chain(
                text.bytes()
                    .enumerate()
                    .filter(|(_, b)| *b == b'\n')
                    .map(|(i, _)| i + 1),
            )
            .collect();
        Self {
            text,
            at: 0,
            line_starts,
        }
    }

    /// The whole text: one node, then nothing.
    pub(super) fn document(&mut self) -> Result<Node, YamlError> {
        self.skip_blank()?;
        if self.peek() == Some('%') && self.column() == 0 {
            return Err(self.refused("a directive"));
        }
        if self.document_marker() == Some("---") {
            self.at += 3;
            self.skip_blank()?;
        }
        let node = if self.at_end() || self.document_marker().is_some() {
            Node::empty(self.position())
        } else {
            self.block_node(None, 0)?
        };
        self.skip_blank()?;
        if self.document_marker().is_some() {
            return Err(YamlError::SeveralDocuments {
                at: self.position(),
            });
        }
        if !self.at_end() {
            return Err(self.syntax("the indentation fits nothing above"));
        }
        Ok(node)
    }

    pub(super) fn refuse_control_characters(&self) -> Result<(), YamlError> {
        let found = self
            .text
            .char_indices()
            .find(|(_, c)| c.is_control() && !"\n\t".contains(*c));
        match found {
            None => Ok(()),
            Some((offset, c)) => Err(YamlError::ControlCharacter {
                at: self.position_of(offset),
                code: c.into(),
            }),
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The rest of the current line, without its end.
    pub(super) fn rest_of_line(&self) -> &'a str {
        let rest = self.rest();
        rest.split_once('\n').map_or(rest, |(line, _)| line)
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Bytes before the cursor on its line. In indentation these are spaces only.
    pub(super) fn column(&self) -> usize {
        self.at - self.line_start(self.at)
    }

    pub(super) fn position(&self) -> Position {
        self.position_of(self.at)
    }

    pub(super) fn position_of(&self, offset: usize) -> Position {
        let start = self.line_start(offset);
        let line = self.line_starts.partition_point(|s| *s <= offset);
        let column = self.text[start..offset].chars().count() + 1;
        Position {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    fn line_start(&self, offset: usize) -> usize {
        let index = self.line_starts.partition_point(|s| *s <= offset);
        self.line_starts[index.saturating_sub(1)]
    }

    /// `---` or `...` at the start of a line.
    pub(super) fn document_marker(&self) -> Option<&'static str> {
        if self.at_end() || self.column() != 0 {
            return None;
        }
        ["---", "..."]
            .into_iter()
            .find(|marker| self.rest().strip_prefix(marker).is_some_and(starts_blank))
    }

    pub(super) fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(' ').len();
    }

    /// Skips blanks inside a line; true if the line then ends. A comment is skipped too.
    pub(super) fn line_is_done(&mut self) -> bool {
        let before = self.at;
        let rest = self.rest_of_line();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let line = self.rest_of_line();
        let comment = line.starts_with('#') && (self.at > before || self.column() == 0);
        self.at += if comment { line.len() } else { 0 };
        line.is_empty() || comment
    }

    /// Runs `look` with the cursor at `offset` and puts the cursor back.
    pub(super) fn looking_at<T>(&mut self, offset: usize, look: impl FnOnce(&mut Self) -> T) -> T {
        let at = std::mem::replace(&mut self.at, offset);
        let seen = look(self);
        self.at = at;
        seen
    }

    /// Skips blanks, comments and line ends up to the next content. No line may begin with a tab,
    /// not even an empty one.
    pub(super) fn skip_blank(&mut self) -> Result<(), YamlError> {
        loop {
            let (from, at_line_start) = (self.at, self.column() == 0);
            let line = self.rest_of_line();
            let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
            let done = self.line_is_done();
            let tab = line[..blanks].find('\t').filter(|_| at_line_start || !done);
            if let Some(tab) = tab {
                return Err(YamlError::TabIndentation {
                    at: self.position_of(from + tab),
                });
            }
            self.at += if done { self.rest_of_line().len() } else { 0 };
            if !done || self.at_end() {
                return Ok(());
            }
            self.at += 1;
        }
    }

    pub(super) fn syntax(&self, what: &str) -> YamlError {
        YamlError::Syntax {
            at: self.position(),
            what: what.to_owned(),
        }
    }

    pub(super) fn refused(&self, what: &'static str) -> YamlError {
        YamlError::Refused {
            at: self.position(),
            what,
        }
    }

    /// Refuses what no node may start with.
    pub(super) fn check_start(&self) -> Result<(), YamlError> {
        let rest = self.rest();
        match self.peek() {
            Some('&') => Err(self.refused("an anchor (&)")),
            Some('*') => Err(self.refused("an alias (*)")),
            Some('!') => Err(self.refused("a tag (!)")),
            Some('@' | '`' | '%') => Err(self.syntax("this character cannot start a value")),
            Some('?') if starts_blank(&rest[1..]) => Err(self.refused("a complex key (?)")),
            Some('<')
                if rest
                    .strip_prefix("<<")
                    .is_some_and(|r| r.trim_start().starts_with(':')) =>
            {
                Err(self.refused("a merge key (<<)"))
            }
            _ => Ok(()),
        }
    }
}

/// True if `rest` is empty or starts with white space.
pub(super) fn starts_blank(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t', '\n'])
}
