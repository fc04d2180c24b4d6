//! Splits Rust source into code and comments, line by line, so that a check of one is not misled by
//! the other or by text in quotes. It knows the lexical rules and no grammar.

/// One source line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceLine {
    /// The code, with the contents of strings and characters left out.
    pub code: String,
    /// The comment, without its slashes.
    pub comment: String,
}

/// A source file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RustSource {
    /// Its lines in order.
    pub lines: Vec<SourceLine>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment {
        depth: usize,
    },
    Text,
    /// A raw string ends at a quote followed by this many hashes.
    RawText {
        hashes: usize,
    },
}

impl RustSource {
    /// Splits the text.
    pub fn parse(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut lexer = Lexer {
            chars: &chars,
            at: 0,
            state: State::Code,
            lines: Vec::new(),
        };
        lexer.lines.push(SourceLine::default());
        while lexer.at < chars.len() {
            lexer.step();
        }
        if text.ends_with('\n') {
            lexer.lines.pop();
        }
        Self { lines: lexer.lines }
    }

    /// The first line, from 0, that belongs to tests: by convention they come last in a file. A module
    /// of tests that is only named here, and lies in a file of its own, begins nothing.
    pub fn tests_start(&self) -> usize {
        let begins_tests = |index: &usize| {
            let code = self.lines[*index].code.trim_start();
            let is_marked = code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test,");
            is_marked && self.opens_block(*index)
        };
        (0..self.lines.len())
            .find(begins_tests)
            .unwrap_or(self.lines.len())
    }

    /// Whether the item from this line on has a body.
    fn opens_block(&self, index: usize) -> bool {
        let code = self.lines[index..]
            .iter()
            .flat_map(|line| line.code.chars());
        let first = code.into_iter().find(|c| matches!(c, '{' | ';'));
        first == Some('{')
    }
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
    state: State,
    lines: Vec<SourceLine>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn line(&mut self) -> &mut SourceLine {
        self.lines
            .last_mut()
            .expect("there is a first line from the start")
    }

    fn step(&mut self) {
        let Some(c) = self.peek(0) else { return };
        if c == '\n' {
            self.at += 1;
            self.lines.push(SourceLine::default());
            if self.state == State::LineComment {
                self.state = State::Code;
            }
            return;
        }
        match self.state {
            State::Code => self.code(c),
            State::LineComment => {
                self.line().comment.push(c);
                self.at += 1;
            }
            State::BlockComment { depth } => self.block_comment(c, depth),
            State::Text => match c {
                // An escaped line end must still start a line.
                '\\' if self.peek(1) != Some('\n') => self.at += 2,
                '"' => self.leave_text(1),
                _ => self.at += 1,
            },
            State::RawText { hashes } => {
                let ends = c == '"' && (1..=hashes).all(|i| self.peek(i) == Some('#'));
                if ends {
                    self.leave_text(1 + hashes)
                } else {
                    self.at += 1
                }
            }
        }
    }

    fn code(&mut self, c: char) {
        match (c, self.peek(1)) {
            ('/', Some('/')) => {
                self.state = State::LineComment;
                self.at += 2;
                while matches!(self.peek(0), Some('/' | '!')) {
                    self.at += 1;
                }
            }
            ('/', Some('*')) => {
                self.state = State::BlockComment { depth: 1 };
                self.at += 2;
            }
            ('"', _) => self.enter_text(State::Text, 1),
            ('r', _) if !self.in_word() => match self.raw_hashes(1) {
                Some(hashes) => self.enter_text(State::RawText { hashes }, 2 + hashes),
                None => self.take(1),
            },
            ('\'', _) => self.quote(),
            _ => self.take(1),
        }
    }

    fn block_comment(&mut self, c: char, depth: usize) {
        match (c, self.peek(1)) {
            ('*', Some('/')) => {
                self.state = match depth {
                    1 => State::Code,
                    _ => State::BlockComment { depth: depth - 1 },
                };
                self.at += 2;
            }
            ('/', Some('*')) => {
                self.state = State::BlockComment { depth: depth + 1 };
                self.at += 2;
            }
            _ => {
                self.line().comment.push(c);
                self.at += 1;
            }
        }
    }

    /// A character literal is left out; a lifetime is code.
    fn quote(&mut self) {
        let length = match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => (3..12).find(|i| self.peek(*i) == Some('\'')),
            (Some(_), Some('\'')) => Some(2),
            _ => None,
        };
        match length {
            Some(length) => {
                self.line().code.push_str("''");
                self.at += length + 1;
            }
            None => self.take(1),
        }
    }

    /// Whether the code before this place ends in a word, so that an `r` here is part of it. The
    /// `b` of a raw byte string is no such word.
    fn in_word(&self) -> bool {
        let before = |back: usize| self.at.checked_sub(back).and_then(|at| self.chars.get(at));
        let is_word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric() || *c == '_');
        is_word(before(1)) && (before(1) != Some(&'b') || is_word(before(2)))
    }

    /// The number of hashes, if from `ahead` on there are hashes and then a quote.
    fn raw_hashes(&self, ahead: usize) -> Option<usize> {
        let hashes = (ahead..).take_while(|i| self.peek(*i) == Some('#')).count();
        (self.peek(ahead + hashes) == Some('"')).then_some(hashes)
    }

    fn take(&mut self, n: usize) {
        for _ in 0..n {
            if let Some(c) = self.peek(0) {
                self.line().code.push(c);
                self.at += 1;
            }
        }
    }

    fn enter_text(&mut self, state: State, length: usize) {
        self.line().code.push('"');
        self.state = state;
        self.at += length;
    }

    fn leave_text(&mut self, length: usize) {
        self.line().code.push('"');
        self.state = State::Code;
        self.at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(String, String)> {
        let lines = RustSource::parse(text).lines;
        lines
            .into_iter()
            .map(|line| (line.code, line.comment))
            .collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected
            .iter()
            .map(|(code, comment)| ((*code).into(), (*comment).into()))
            .collect()
    }

    #[test]
    fn code_and_comments_are_told_apart() {
        let text = "let a = 1; // one\n/// doc\n//! inner\nb /* in */ c\n";
        let expected = [
            ("let a = 1; ", " one"),
            ("", " doc"),
            ("", " inner"),
            ("b  c", " in "),
        ];
        assert_eq!(split(text), pairs(&expected));
    }

    #[test]
    fn text_in_quotes_is_neither() {
        let text = r##"f("// no \" std::fs", r#"a " b"#, br"x", 'x', '\'', '"'); // yes"##;
        assert_eq!(
            split(text),
            pairs(&[(r#"f("", "", b"", '', '', ''); "#, " yes")])
        );
    }

    #[test]
    fn lifetimes_and_words_with_r_are_code() {
        let text = "fn f<'a>(var: &'a str) -> for<'b> X { r#type }";
        assert_eq!(split(text), pairs(&[(text, "")]));
    }

    #[test]
    fn strings_and_block_comments_go_over_lines() {
        let text = "a(\"one\n  // two\\\n three\"); // end\n/* x\n/* y */ z */ b";
        let expected = [
            ("a(\"", ""),
            ("", ""),
            ("\"); ", " end"),
            ("", " x"),
            (" b", " y  z "),
        ];
        assert_eq!(split(text), pairs(&expected));
    }

    #[test]
    fn tests_begin_at_their_attribute() {
        let source = RustSource::parse("fn a() {}\n// #[cfg(test)]\n#[cfg(test)]\nmod tests {}\n");
        assert_eq!(source.tests_start(), 2);
        let named = RustSource::parse("#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\nfn a() {}\n");
        assert_eq!(named.tests_start(), 4);
        assert_eq!(RustSource::parse("fn a() {}").tests_start(), 1);
    }
}
