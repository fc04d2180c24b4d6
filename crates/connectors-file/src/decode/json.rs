//! JSON objects (RFC 8259), one a record, straight into columns.
//!
//! Our own reader, because a row needs what others give up: numbers by their digits and not
//! through a double, the exact place of a mistake, nothing for what is not declared. Of keys that
//! come twice the last one counts; a key that is missing is NULL,
//! or makes the record a bad one.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::datatypes::SchemaRef;

use super::Flaw;
use super::rows::{Rows, Slot};
use super::types::ColumnType;

/// How deep objects and lists may be nested.
const DEPTH_MAX: usize = 64;
/// So many digits always fit into a BIGINT.
const SHORT_DIGITS: usize = 18;

/// Columns by name.
pub(super) struct Names {
    columns: BTreeMap<String, usize>,
    /// In order of the columns, with quotes: records tend to have their keys in that order and form.
    /// Empty for a name that is written with escapes.
    in_order: Vec<String>,
    /// Whether each must be there.
    required: bool,
}

impl Names {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let names = || schema.fields().iter().map(|field| field.name());
        let quoted = |name: &String| match plain_bytes(name.as_bytes()) == name.len() {
            true => format!("\"{name}\""),
            false => String::new(),
        };
        Self {
            columns: names().cloned().zip(0..).collect(),
            in_order: names().map(quoted).collect(),
            required: false,
        }
    }

    /// Whether a record without one of them is bad.
    pub(super) fn are_required(&mut self, required: bool) {
        self.required = required;
    }

    /// The bytes of the key of this column, quotes included, if the text starts with it.
    fn guess(&self, text: &str, column: usize) -> Option<usize> {
        let quoted = self.in_order.get(column)?;
        (!quoted.is_empty() && text.starts_with(quoted)).then_some(quoted.len())
    }
}

/// Sets the values of a record.
pub(super) fn record(text: &str, names: &Names, rows: &mut Rows) -> Result<(), Flaw> {
    let mut cursor = Cursor { text, at: 0 };
    cursor.skip_space();
    if cursor.peek() != Some(b'{') {
        let found = cursor.kind_here();
        return cursor.flaw(format!("a JSON object is expected, not {found}"));
    }
    cursor.at += 1;
    let mut guess = 0;
    let mut is_first = true;
    while cursor.next_element(b'}', &mut is_first)? {
        let at = cursor.at;
        if cursor.peek() != Some(b'"') {
            return cursor.flaw("a key in quotes is expected here");
        }
        let column = match names.guess(&text[at..], guess) {
            Some(length) => {
                cursor.at += length;
                Some(guess)
            }
            None => {
                let kept = rows.scratch.len();
                let piece = cursor.string(&mut rows.scratch)?;
                let name = piece.text(text, &rows.scratch);
                let column = names.columns.get(name).copied();
                rows.scratch.truncate(kept);
                column
            }
        };
        cursor.skip_space();
        if cursor.peek() != Some(b':') {
            let key = &text[at..cursor.at];
            return cursor.flaw(format!(
                "a colon is expected after the key {}",
                key.trim_end()
            ));
        }
        cursor.at += 1;
        cursor.skip_space();
        match column {
            Some(column) => {
                let slot = cursor.value(rows.types()[column], &mut rows.scratch)?;
                rows.set(column, slot);
                guess = column + 1;
            }
            None => cursor.skip_value(1, &mut rows.scratch)?,
        }
    }
    let end = cursor.at - 1;
    cursor.skip_space();
    if cursor.peek().is_some() {
        return cursor.flaw("something follows the object; a line holds one");
    }
    match rows.first_missing().filter(|_| names.required) {
        Some(name) => {
            let what = format!("the object ends without the field {name:?}");
            Err(Flaw { at: end, what })
        }
        None => Ok(()),
    }
}

/// Where a text is.
enum Piece {
    Record(Range<usize>),
    Scratch(Range<usize>),
}

impl Piece {
    fn text<'a>(&self, record: &'a str, scratch: &'a str) -> &'a str {
        match self {
            Self::Record(range) => &record[range.clone()],
            Self::Scratch(range) => &scratch[range.clone()],
        }
    }

    fn slot(self) -> Slot {
        match self {
            Self::Record(range) => Slot::Record(range),
            Self::Scratch(range) => Slot::Scratch(range),
        }
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn flaw<T>(&self, what: impl Into<String>) -> Result<T, Flaw> {
        Err(Flaw {
            at: self.at,
            what: what.into(),
        })
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// What a value that starts here would be.
    fn kind_here(&self) -> &'static str {
        match self.peek() {
            None => "the end of the record",
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b'"') => "a text",
            Some(b'-' | b'0'..=b'9') => "a number",
            Some(b't' | b'f') => "true or false",
            Some(b'n') => "null",
            Some(_) => "something that is no JSON",
        }
    }

    /// Goes to the next element of an object or list; false at its end.
    fn next_element(&mut self, close: u8, is_first: &mut bool) -> Result<bool, Flaw> {
        self.skip_space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::take(is_first) {
            if self.peek() != Some(b',') {
                let close = char::from(close);
                return match self.peek() {
                    None => self.flaw(format!("the record ends before its {close:?}")),
                    Some(_) => self.flaw(format!("a comma or {close:?} is expected here")),
                };
            }
            let comma = self.at;
            self.at += 1;
            self.skip_space();
            if self.peek() == Some(close) {
                self.at = comma;
                return self.flaw(format!(
                    "nothing follows this comma but {:?}",
                    char::from(close)
                ));
            }
        }
        Ok(true)
    }

    /// A value of a declared column.
    fn value(&mut self, of: ColumnType, scratch: &mut String) -> Result<Slot, Flaw> {
        if of == ColumnType::BigInt
            && let Some(value) = self.short_integer()
        {
            return Ok(Slot::Int(value));
        }
        let at = self.at;
        let found = self.kind_here();
        let parsed = match (self.peek(), of) {
            (Some(b'n'), _) => {
                self.literal("null")?;
                return Ok(Slot::Null);
            }
            (Some(b't'), ColumnType::Boolean) => self.literal("true").map(|()| Slot::Bool(true))?,
            (Some(b'f'), ColumnType::Boolean) => {
                self.literal("false").map(|()| Slot::Bool(false))?
            }
            (
                Some(b'-' | b'0'..=b'9'),
                ColumnType::BigInt
                | ColumnType::Int
                | ColumnType::SmallInt
                | ColumnType::TinyInt
                | ColumnType::Double
                | ColumnType::Float
                | ColumnType::Decimal { .. },
            ) => {
                let number = self.number()?;
                return of.parse(number).map_err(|what| Flaw { at, what });
            }
            (Some(b'"'), ColumnType::Varchar) => self.string(scratch)?.slot(),
            (Some(b'"'), ColumnType::Timestamp | ColumnType::Date | ColumnType::Decimal { .. }) => {
                let piece = self.string(scratch)?;
                let text = piece.text(self.text, scratch);
                return of.parse(text).map_err(|what| Flaw { at, what });
            }
            _ => {
                // A mistake of form comes before one of type.
                self.skip_value(1, scratch)?;
                let what = format!("{found} where {} is declared", of.name());
                return Err(Flaw { at, what });
            }
        };
        Ok(parsed)
    }

    /// Passes over a value of any kind, and checks its form. `depth` counts what it is in.
    fn skip_value(&mut self, depth: usize, scratch: &mut String) -> Result<(), Flaw> {
        match self.peek() {
            Some(b'"') => {
                let kept = scratch.len();
                self.string(scratch)?;
                scratch.truncate(kept);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'{' | b'[') if depth >= DEPTH_MAX => {
                self.flaw(format!("nested deeper than {DEPTH_MAX} levels"))
            }
            Some(b'[') => {
                self.at += 1;
                let mut is_first = true;
                while self.next_element(b']', &mut is_first)? {
                    self.skip_value(depth + 1, scratch)?;
                }
                Ok(())
            }
            Some(b'{') => self.skip_object(depth, scratch),
            Some(_) | None => {
                let found = self.kind_here();
                self.flaw(format!("a value is expected, not {found}"))
            }
        }
    }

    fn skip_object(&mut self, depth: usize, scratch: &mut String) -> Result<(), Flaw> {
        self.at += 1;
        let mut is_first = true;
        while self.next_element(b'}', &mut is_first)? {
            if self.peek() != Some(b'"') {
                return self.flaw("a key in quotes is expected here");
            }
            self.skip_value(depth, scratch)?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return self.flaw("a colon is expected after the key");
            }
            self.at += 1;
            self.skip_space();
            self.skip_value(depth + 1, scratch)?;
        }
        Ok(())
    }

    fn literal(&mut self, word: &'static str) -> Result<(), Flaw> {
        if !self.text[self.at..].starts_with(word) {
            return self.flaw(format!("{word} is expected here"));
        }
        self.at += word.len();
        Ok(())
    }

    /// An integer that surely fits and is followed by what ends a value: the common case. Anything
    /// else is left where it is.
    fn short_integer(&mut self) -> Option<i64> {
        let rest = &self.text.as_bytes()[self.at..];
        let (is_negative, digits) = match rest.split_first()? {
            (b'-', digits) => (true, digits),
            _ => (false, rest),
        };
        let mut value = 0_i64;
        let mut n_digits = 0;
        while let Some(digit @ b'0'..=b'9') = digits.get(n_digits) {
            // More digits overflow, or will be seen not to.
            if n_digits == SHORT_DIGITS {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
            n_digits += 1;
        }
        let is_plain = matches!(digits.get(n_digits), Some(b',' | b'}' | b' '));
        let is_padded = n_digits > 1 && digits[0] == b'0';
        if n_digits == 0 || is_padded || !is_plain {
            return None;
        }
        self.at += usize::from(is_negative) + n_digits;
        Some(if is_negative { -value } else { value })
    }

    /// The digits of a number, in the form that JSON allows.
    fn number(&mut self) -> Result<&'a str, Flaw> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.flaw("a number does not start with 0");
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<(), Flaw> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.flaw("a digit is expected here");
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    /// A text, which is copied only if it holds escapes.
    fn string(&mut self, scratch: &mut String) -> Result<Piece, Flaw> {
        self.at += 1;
        let start = self.at;
        if self.plain()? == b'"' {
            let end = self.at;
            self.at += 1;
            return Ok(Piece::Record(start..end));
        }
        let kept = scratch.len();
        scratch.push_str(&self.text[start..self.at]);
        loop {
            // At a backslash.
            self.escape(scratch)?;
            let from = self.at;
            let stop = self.plain()?;
            scratch.push_str(&self.text[from..self.at]);
            if stop == b'"' {
                self.at += 1;
                return Ok(Piece::Scratch(kept..scratch.len()));
            }
        }
    }

    /// Goes to the next quote or backslash, and returns which it is.
    fn plain(&mut self) -> Result<u8, Flaw> {
        self.at += plain_bytes(&self.text.as_bytes()[self.at..]);
        match self.peek() {
            Some(byte @ (b'"' | b'\\')) => Ok(byte),
            Some(byte) => self.flaw(format!("control character {byte:#04x} within a text")),
            None => self.flaw("a text is not closed"),
        }
    }

    fn escape(&mut self, scratch: &mut String) -> Result<(), Flaw> {
        let start = self.at;
        self.at += 1;
        let escaped = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let Some(c) = self.code_point() else {
                    self.at = start;
                    return self.flaw("this escape is no character");
                };
                scratch.push(c);
                return Ok(());
            }
            Some(_) | None => {
                self.at = start;
                return self.flaw("this escape is none of JSON's");
            }
        };
        self.at += 1;
        scratch.push(escaped);
        Ok(())
    }

    /// The character after `\u`; one beyond 16 bits is written as two halves.
    fn code_point(&mut self) -> Option<char> {
        let first = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        self.text.get(self.at..)?.strip_prefix("\\u")?;
        self.at += 2;
        let second = self.four_digits()?;
        if !(0xdc00..0xe000).contains(&second) {
            return None;
        }
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}

/// How many bytes come before the first quote, backslash or control character.
fn plain_bytes(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let stops = stops_in(u64::from_le_bytes(*word));
        if stops != 0 {
            return n * 8 + stops.trailing_zeros() as usize / 8;
        }
    }
    let is_stop = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    let in_rest = rest.iter().position(is_stop);
    words.len() * 8 + in_rest.unwrap_or(rest.len())
}

/// The high bit of the first of eight bytes that ends plain text is set, and no bit below it.
/// Subtracting from a byte that is too small borrows, which shows in its high bit; what the borrow
/// does to the bytes above does not matter.
fn stops_in(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_ends_at_the_same_byte_whether_looked_at_by_eight_or_one_by_one() {
        let is_stop = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
        for byte in 0..=255_u8 {
            for around in [b'a', 0x7f, 0x80, 0xff, b' ', b'#', b'[', b'!'] {
                for length in 0..20 {
                    for at in 0..length {
                        let mut text = vec![around; length];
                        text[at] = byte;
                        let expected = text.iter().position(is_stop).unwrap_or(length);
                        assert_eq!(plain_bytes(&text), expected, "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_of_several_stops_counts() {
        let mut text = *b"ab\"\\\x01\"cdefghijkl";
        assert_eq!(plain_bytes(&text), 2);
        text[2] = b'c';
        assert_eq!(plain_bytes(&text), 3);
    }

    #[test]
    fn an_integer_in_the_common_form_is_read_and_anything_else_is_left_alone() {
        let read = |text: &str| {
            let mut cursor = Cursor { text, at: 0 };
            let value = cursor.short_integer();
            (value, cursor.at)
        };
        assert_eq!(read("12,"), (Some(12), 2));
        assert_eq!(read("-7}"), (Some(-7), 2));
        assert_eq!(read("0 "), (Some(0), 1));
        assert_eq!(read("-0,"), (Some(0), 2));
        assert_eq!(
            read("999999999999999999,"),
            (Some(999_999_999_999_999_999), 18)
        );
        for text in [
            "1234567890123456789,",
            "01,",
            "-",
            "-,",
            "1.5,",
            "1e3,",
            "12",
            "",
            "null",
            "\"1\",",
        ] {
            assert_eq!(read(text), (None, 0), "{text}");
        }
    }
}
