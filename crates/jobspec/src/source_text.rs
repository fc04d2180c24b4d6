//! The text of the job file as its reader sees it: lines for excerpts, and where inside a line a
//! character of an expression stands.

use millstream_config::yaml::{Node, Style, Value};
use millstream_expr::Span;

use crate::fault::Place;

/// Longer lines are cut around the marked place.
const WIDTH: usize = 100;
/// How much of a cut line is kept before the mark.
const LEAD: usize = 40;

/// The lines of a file.
pub(crate) struct SourceText<'t> {
    lines: Vec<&'t str>,
}

/// A place and how many characters from there on are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) place: Place,
    pub(crate) width: usize,
}

impl<'t> SourceText<'t> {
    /// Lines as the YAML reader counts them: without the byte order mark, either line end.
    pub(crate) fn new(text: &'t str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let trim = |line: &'t str| line.strip_suffix('\r').unwrap_or(line);
        Self {
            lines: text.split('\n').map(trim).collect(),
        }
    }

    fn line(&self, number: u32) -> &'t str {
        let index = (number as usize).saturating_sub(1);
        self.lines.get(index).copied().unwrap_or_default()
    }

    /// The marked line with carets under the mark.
    pub(crate) fn excerpt(&self, mark: Mark) -> String {
        // A tab would put the caret below in another column than the character above it.
        let chars: Vec<char> = self
            .line(mark.place.line)
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let start = (mark.place.column as usize - 1).min(chars.len());
        let first = if chars.len() > WIDTH {
            start.saturating_sub(LEAD)
        } else {
            0
        };
        let last = chars.len().min(first + WIDTH);
        let head = if first > 0 { "..." } else { "" };
        let tail = if last < chars.len() { "..." } else { "" };
        let shown: String = chars[first..last].iter().collect();
        let carets = mark.width.clamp(1, last.saturating_sub(start).max(1));
        let number = mark.place.line.to_string();
        let margin = " ".repeat(number.len());
        let indent = " ".repeat(head.len() + start - first);
        let marks = "^".repeat(carets);
        format!("{margin} |\n{number} | {head}{shown}{tail}\n{margin} | {indent}{marks}")
    }

    /// A value: its first line is marked.
    pub(crate) fn mark_of(&self, node: &Node) -> Mark {
        let width = match &node.value {
            Value::Scalar { text, style } => {
                let quotes = if *style == Style::Quoted { 2 } else { 0 };
                let first_line = text.lines().next().unwrap_or_default();
                first_line.chars().count() + quotes
            }
            Value::Sequence(_) | Value::Mapping(_) => 1,
        };
        Mark {
            place: place_of(node),
            width,
        }
    }

    /// The part `span` of the text of the scalar `node`. Where the text was folded over lines its
    /// characters stand in no simple place; then the whole value is marked.
    pub(crate) fn mark_in(&self, node: &Node, span: Span) -> Mark {
        let place = self.place_in(node, span);
        let width = if span.end.line == span.start.line {
            span.end.column.saturating_sub(span.start.column).max(1)
        } else {
            1
        };
        place.map_or_else(|| self.mark_of(node), |place| Mark { place, width })
    }

    fn place_in(&self, node: &Node, span: Span) -> Option<Place> {
        let Value::Scalar { text, style } = &node.value else {
            return None;
        };
        let index = span.start.column.checked_sub(1)?;
        let raw = self.line(node.at.line);
        let rest: String = raw.chars().skip(node.at.column as usize - 1).collect();
        match style {
            Style::Plain | Style::Quoted if text.contains('\n') => None,
            Style::Plain => {
                // A text that goes on in the next line is folded there.
                let here = rest.starts_with(text.as_str()) && span.start.line == 1;
                here.then(|| column_after(node, index))
            }
            Style::Quoted => {
                let offset = quoted_offset(&rest, text, index)?;
                Some(column_after(node, offset))
            }
            Style::Block => {
                let literal = rest.starts_with('|');
                let number = node.at.line + u32::try_from(span.start.line).ok()?;
                let first = self.line(node.at.line + 1);
                let indent = first.len() - first.trim_start_matches(' ').len();
                let wanted = text.lines().nth(span.start.line - 1)?;
                let found = self.line(number).get(indent..)?;
                (literal && found == wanted).then(|| Place {
                    line: number,
                    column: u32::try_from(indent + index + 1).unwrap_or(u32::MAX),
                })
            }
        }
    }
}

/// Where a node starts.
pub(crate) fn place_of(node: &Node) -> Place {
    place(node.at)
}

pub(crate) fn place(at: millstream_config::yaml::Position) -> Place {
    Place {
        line: at.line,
        column: at.column,
    }
}

fn column_after(node: &Node, chars: usize) -> Place {
    Place {
        line: node.at.line,
        column: node
            .at
            .column
            .saturating_add(u32::try_from(chars).unwrap_or(u32::MAX)),
    }
}

/// How many characters of the raw text, its opening quote included, stand before the character
/// `index` of the unquoted text; `None` if the text does not end in this line.
fn quoted_offset(raw: &str, text: &str, index: usize) -> Option<usize> {
    let chars: Vec<char> = raw.chars().collect();
    let quote = *chars.first()?;
    let (mut at, mut read, mut offset) = (1, 0, None);
    loop {
        if read == index && offset.is_none() {
            offset = Some(at);
        }
        let width = match (*chars.get(at)?, chars.get(at + 1)) {
            ('\'', Some('\'')) if quote == '\'' => 2,
            (c, _) if c == quote => break,
            ('\\', Some(escape)) if quote == '"' => match escape {
                'x' => 4,
                'u' => 6,
                'U' => 10,
                _ => 2,
            },
            _ => 1,
        };
        at += width;
        read += 1;
    }
    // One past the end is the place of what is missing there.
    let complete = read == text.chars().count();
    offset.filter(|_| complete)
}

#[cfg(test)]
mod tests {
    use millstream_config::yaml;
    use millstream_expr::Position;

    use super::*;

    /// The character of the file that the column `column` of line `line` of the value of `a` is.
    fn found(text: &str, line: usize, column: usize) -> Option<char> {
        let tree = yaml::parse(text).unwrap();
        let source = SourceText::new(text);
        let span = Span {
            start: Position { line, column },
            end: Position {
                line,
                column: column + 1,
            },
        };
        let place = source.place_in(tree.get("a").unwrap(), span)?;
        let line = text.lines().nth(place.line as usize - 1)?;
        line.chars().nth(place.column as usize - 1)
    }

    #[test]
    fn a_character_is_found_behind_quotes_and_escapes() {
        assert_eq!(found("a: x + y\n", 1, 5), Some('y'));
        assert_eq!(found("a: 'it''s y'\n", 1, 6), Some('y'));
        assert_eq!(found("a: \"\\u00e9\\t\\\"y\"\n", 1, 4), Some('y'));
        assert_eq!(found("{b: 1, a: \"é || y\"}\n", 1, 6), Some('y'));
    }

    #[test]
    fn a_literal_block_keeps_its_lines_and_folded_texts_are_not_guessed_at() {
        assert_eq!(found("a: |\n  x +\n   y\n", 2, 2), Some('y'));
        assert_eq!(found("a: >\n  x +\n  y\n", 1, 5), None);
        assert_eq!(found("a: x +\n  y\n", 1, 5), None);
        assert_eq!(found("a: \"x +\n  y\"\n", 1, 5), None);
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let text = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let place = Place {
            line: 1,
            column: 501,
        };
        let shown = SourceText::new(&text).excerpt(Mark { place, width: 1 });
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].len() < 120);
        let caret = lines[2].find('^').unwrap();
        assert_eq!(lines[1].chars().nth(caret), Some('!'));
    }
}
