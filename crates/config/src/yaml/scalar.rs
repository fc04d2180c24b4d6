//! Scalars: plain texts over several lines, quoted texts with escapes, `|` and `>` blocks.

use super::error::YamlError;
use super::flow::plain_end;
use super::reader::Reader;

impl Reader<'_> {
    /// A plain text in block style; deeper indented lines below continue it.
    pub(super) fn plain_block(&mut self, parent: Option<usize>) -> Result<String, YamlError> {
        let mut text = String::new();
        loop {
            let line = self.rest_of_line();
            let end = plain_end(line, false).unwrap_or(line.len());
            if line[end..].starts_with(':') {
                self.at += end;
                return Err(
                    self.syntax("a ':' with a space behind it is not allowed in a plain text")
                );
            }
            text.push_str(line[..end].trim_end());
            self.at += line.len();
            if end < line.len() {
                return Ok(text); // A comment ends the text.
            }
            match self.continuation(parent)? {
                None => return Ok(text),
                Some(0) => text.push(' '),
                Some(blank_lines) => text.push_str(&"\n".repeat(blank_lines)),
            }
        }
    }

    /// Moves to a line below that continues a plain text; gives the number of blank lines between.
    fn continuation(&mut self, parent: Option<usize>) -> Result<Option<usize>, YamlError> {
        let mut at = self.at;
        let mut blank_lines = 0_usize;
        while let Some(below) = self.text.get(at + 1..).filter(|_| at < self.text.len()) {
            let line = below.split_once('\n').map_or(below, |(line, _)| line);
            let content = line.trim_start_matches([' ', '\t']);
            let indent = line.len() - content.len();
            if content.is_empty() {
                blank_lines += 1;
                at += 1 + line.len();
                continue;
            }
            let deeper = parent.is_none_or(|parent| indent > parent);
            let marker = self.looking_at(at + 1, |there| there.document_marker().is_some());
            if !deeper || content.starts_with('#') || marker {
                return Ok(None);
            }
            if line[..indent].contains('\t') {
                return Err(YamlError::TabIndentation {
                    at: self.position_of(at + 1),
                });
            }
            self.at = at + 1 + indent;
            return Ok(Some(blank_lines));
        }
        Ok(None)
    }

    /// A text in quotes; the cursor is on the opening one.
    pub(super) fn quoted(&mut self) -> Result<String, YamlError> {
        let opening = self.at;
        let double = self.peek() == Some('"');
        self.at += 1;
        let mut text = String::new();
        // Length up to which blanks are content even before a line end: they were escaped.
        let mut kept = 0;
        loop {
            let Some(c) = self.peek() else {
                self.at = opening;
                return Err(self.syntax("the quote is not closed"));
            };
            self.at += c.len_utf8();
            match c {
                '"' if double => return Ok(text),
                '\'' if !double && self.peek() == Some('\'') => {
                    self.at += 1;
                    text.push('\'');
                }
                '\'' if !double => return Ok(text),
                '\\' if double => {
                    self.escape(&mut text)?;
                    kept = text.len();
                }
                '\n' => {
                    let trimmed = text[kept..].trim_end_matches([' ', '\t']).len();
                    text.truncate(kept + trimmed);
                    self.fold(&mut text);
                    kept = text.len();
                }
                _ => text.push(c),
            }
        }
    }

    /// A line end inside quotes: one becomes a space, n more become n line ends.
    fn fold(&mut self, text: &mut String) {
        let mut blank_lines = 0;
        loop {
            let line = self.rest_of_line();
            let content = line.trim_start_matches([' ', '\t']);
            self.at += line.len() - content.len();
            if !content.is_empty() || self.at_end() {
                break;
            }
            self.at += 1;
            blank_lines += 1;
        }
        match blank_lines {
            0 => text.push(' '),
            n => text.push_str(&"\n".repeat(n)),
        }
    }

    /// What follows a backslash in double quotes.
    fn escape(&mut self, text: &mut String) -> Result<(), YamlError> {
        let Some(c) = self.peek() else { return Ok(()) };
        let plain = match c {
            'n' => '\n',
            't' | '\t' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'N' => '\u{85}',
            '_' => '\u{a0}',
            '"' | '\\' | '/' | ' ' => c,
            '\n' => {
                // An escaped line end joins the lines without a space.
                self.at += 1;
                let line = self.rest();
                self.at += line.len() - line.trim_start_matches([' ', '\t']).len();
                return Ok(());
            }
            'x' => return self.escape_code(2, text),
            'u' => return self.escape_code(4, text),
            'U' => return self.escape_code(8, text),
            _ => return Err(self.syntax("unknown escape in double quotes; '\\\\' is a backslash")),
        };
        self.at += c.len_utf8();
        text.push(plain);
        Ok(())
    }

    fn escape_code(&mut self, digits: usize, text: &mut String) -> Result<(), YamlError> {
        let code = self
            .rest()
            .get(1..=digits)
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .and_then(char::from_u32)
            .filter(|c| *c != '\0');
        let Some(c) = code else {
            return Err(self.syntax("the escape names no character"));
        };
        self.at += 1 + digits;
        text.push(c);
        Ok(())
    }

    /// A `|` or `>` block; the cursor is on that sign.
    pub(super) fn block_scalar(&mut self, parent: Option<usize>) -> Result<String, YamlError> {
        let folded = self.peek() == Some('>');
        self.at += 1;
        let chomp = self.peek().filter(|c| "+-".contains(*c));
        self.at += usize::from(chomp.is_some());
        if !self.line_is_done() {
            return Err(self.syntax("only '|', '|-', '|+', '>', '>-' and '>+' start a text block"));
        }
        self.at += self.rest_of_line().len();
        let lines = self.block_lines(parent)?;
        let content = lines
            .iter()
            .rposition(|line| !line.is_empty())
            .map_or(0, |last| last + 1);
        let mut text = if folded {
            fold_lines(&lines[..content])
        } else {
            lines[..content].join("\n")
        };
        match chomp {
            Some('-') => {}
            Some(_) => {
                text.push_str(&"\n".repeat(lines.len() - content + usize::from(content > 0)))
            }
            None if content > 0 => text.push('\n'),
            None => {}
        }
        Ok(text)
    }

    /// The lines of a text block without their indentation; the cursor ends on the last one's end.
    fn block_lines(&mut self, parent: Option<usize>) -> Result<Vec<String>, YamlError> {
        let mut indent = None;
        let mut lines = Vec::new();
        while !self.at_end() && self.at + 1 < self.text.len() {
            let start = self.at + 1;
            let line = self.looking_at(start, |there| there.rest_of_line());
            let spaces = line.len() - line.trim_start_matches(' ').len();
            let content = &line[spaces..];
            if !content.is_empty() {
                let wanted = indent.unwrap_or(spaces);
                let deeper = parent.is_none_or(|parent| wanted > parent);
                let marker = self.looking_at(start, |there| there.document_marker().is_some());
                if !deeper || spaces < wanted || marker {
                    break;
                }
                if indent.is_none() && content.starts_with('\t') {
                    return Err(YamlError::TabIndentation {
                        at: self.position_of(start),
                    });
                }
                indent = Some(wanted);
            }
            lines.push(
                line.get(indent.unwrap_or(spaces)..)
                    .unwrap_or_default()
                    .to_owned(),
            );
            self.at += 1 + line.len();
        }
        Ok(lines)
    }
}

/// Joins the lines of a `>` block: neighbours with a space, except around blank and deeper ones.
fn fold_lines(lines: &[String]) -> String {
    let mut text = String::new();
    let is_more = |line: &String| line.starts_with([' ', '\t']);
    let mut previous: Option<&String> = None;
    let mut blank_lines = 0;
    for line in lines {
        if line.is_empty() {
            blank_lines += 1;
            continue;
        }
        match previous {
            None => text.push_str(&"\n".repeat(blank_lines)),
            Some(before) if is_more(before) || is_more(line) => {
                text.push_str(&"\n".repeat(blank_lines + 1));
            }
            Some(_) if blank_lines > 0 => text.push_str(&"\n".repeat(blank_lines)),
            Some(_) => text.push(' '),
        }
        text.push_str(line);
        previous = Some(line);
        blank_lines = 0;
    }
    text
}
