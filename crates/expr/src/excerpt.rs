//! Where in an expression's text something is, and how that place is shown.

use std::fmt;

/// A place in the text of an expression: line and column, both from 1, counted in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A stretch of text, from its first character to just after its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first character.
    pub start: Position,
    /// One after the last character.
    pub end: Position,
}

impl Span {
    /// The start of the text, for what concerns all of it.
    pub const START: Self = Self::at(1, 1);

    /// One character.
    pub const fn at(line: usize, column: usize) -> Self {
        let start = Position { line, column };
        let end = Position {
            line,
            column: column + 1,
        };
        Self { start, end }
    }
}

/// Longer lines are cut around the marked place: a generated expression may be one line of 200 KiB.
const WIDTH: usize = 100;
/// How much of a cut line is kept before the mark.
const LEAD: usize = 40;

/// The marked line with carets under it, as compilers print it.
pub(crate) fn render(text: &str, span: Span) -> String {
    let line = text
        .split('\n')
        .nth(span.start.line - 1)
        .unwrap_or_default();
    // A tab would put the caret below in another column than the character above it.
    let chars: Vec<char> = line
        .trim_end_matches('\r')
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let start = (span.start.column - 1).min(chars.len());
    let end = if span.end.line == span.start.line {
        span.end.column.saturating_sub(1)
    } else {
        chars.len()
    };
    let end = end.clamp(start + 1, chars.len().max(start + 1));

    let first = if chars.len() > WIDTH {
        start.saturating_sub(LEAD)
    } else {
        0
    };
    let last = chars.len().min(first + WIDTH);
    let head = if first > 0 { "..." } else { "" };
    let tail = if last < chars.len() { "..." } else { "" };
    let shown: String = chars[first..last].iter().collect();
    let carets = end.min(last.max(start + 1)) - start;

    let number = span.start.line.to_string();
    let margin = " ".repeat(number.len());
    let indent = " ".repeat(head.len() + start - first);
    let marks = "^".repeat(carets);
    format!("{margin} |\n{number} | {head}{shown}{tail}\n{margin} | {indent}{marks}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(line: usize, from: usize, to: usize) -> Span {
        Span {
            start: Position { line, column: from },
            end: Position { line, column: to },
        }
    }

    #[test]
    fn marks_characters_not_bytes_on_the_right_line() {
        let shown = render("lower(\n  'straße' || wrd)", span(2, 15, 18));
        assert_eq!(shown, "  |\n2 |   'straße' || wrd)\n  |               ^^^");
    }

    #[test]
    fn cuts_a_long_line_around_the_mark() {
        let text = format!("{}!{}", "a".repeat(5_000), "b".repeat(5_000));
        let shown = render(&text, span(1, 5_001, 5_002));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].len() < 120, "{}", lines[1].len());
        let caret = lines[2].find('^').unwrap();
        assert_eq!(lines[1].chars().nth(caret), Some('!'));
    }

    #[test]
    fn a_place_after_the_end_still_has_a_caret() {
        assert_eq!(render("a +", span(1, 4, 5)), "  |\n1 | a +\n  |    ^");
        assert_eq!(render("", Span::START), "  |\n1 | \n  | ^");
    }
}
