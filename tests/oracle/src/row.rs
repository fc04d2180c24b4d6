//! One line of output to (key, n, sum), as a consumer with a JSON or CSV library reads it.

use serde_json::Value;

/// The form of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// CSV with a header line.
    Csv,
}

/// Names of the three columns; others may stand beside them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    /// The key.
    pub key: String,
    /// The row's number within its key.
    pub n: String,
    /// The running sum.
    pub sum: String,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            key: "key".to_owned(),
            n: "n".to_owned(),
            sum: "sum".to_owned(),
        }
    }
}

impl Columns {
    fn names(&self) -> [&str; 3] {
        [&self.key, &self.n, &self.sum]
    }
}

/// A row as it stands in the file: any integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The key.
    pub key: i128,
    /// The row's number within its key.
    pub n: i128,
    /// The running sum.
    pub sum: i128,
}

/// Reads the lines of one file.
pub struct RowParser<'a> {
    columns: &'a Columns,
    state: State,
}

enum State {
    Json,
    CsvHeader,
    Csv([usize; 3]),
    /// The header was no header: no row can be understood.
    CsvLost,
}

impl<'a> RowParser<'a> {
    /// For a file from its start.
    pub fn new(format: Format, columns: &'a Columns) -> Self {
        let state = match format {
            Format::Json => State::Json,
            Format::Csv => State::CsvHeader,
        };
        Self { columns, state }
    }

    /// The row in this line; none in a header, and none below a header that was reported. The error
    /// says what is wrong with the line.
    pub fn parse(&mut self, line: &[u8]) -> Result<Option<Row>, String> {
        match self.state {
            State::Json => json(line, self.columns).map(Some),
            State::CsvHeader => {
                self.state = State::CsvLost;
                self.state = State::Csv(positions(&fields(line)?, self.columns)?);
                Ok(None)
            }
            State::Csv(positions) => csv_row(line, positions, self.columns).map(Some),
            State::CsvLost => Ok(None),
        }
    }

    /// What the file lacks, once its last line was read.
    pub fn finish(&self) -> Result<(), String> {
        match self.state {
            State::CsvHeader => Err("an empty file, without a header".to_owned()),
            State::Json | State::Csv(_) | State::CsvLost => Ok(()),
        }
    }
}

fn row(mut value: impl FnMut(usize) -> Result<i128, String>) -> Result<Row, String> {
    Ok(Row {
        key: value(0)?,
        n: value(1)?,
        sum: value(2)?,
    })
}

fn json(line: &[u8], columns: &Columns) -> Result<Row, String> {
    let object = match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err("JSON, but no object".to_owned()),
        Err(error) => return Err(format!("no JSON: {error}")),
    };
    let names = columns.names();
    row(|column| {
        let name = names[column];
        let value = object.get(name).ok_or(format!("no column {name:?}"))?;
        let integer = value.as_i64().map(i128::from);
        integer
            .or_else(|| value.as_u64().map(i128::from))
            .ok_or_else(|| format!("{name} is {value}, no integer of 64 bits"))
    })
}

/// The fields of a CSV line. Integers need no quotes, so the library is asked only where there are some.
fn fields(line: &[u8]) -> Result<Vec<String>, String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = std::str::from_utf8(line).map_err(|error| format!("no UTF-8: {error}"))?;
    if !text.contains('"') {
        return Ok(text.split(',').map(str::to_owned).collect());
    }
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.has_headers(false).from_reader(line);
    match reader.records().next() {
        Some(Ok(record)) => Ok(record.iter().map(str::to_owned).collect()),
        Some(Err(error)) => Err(format!("no CSV: {error}")),
        None => Err("no CSV: no record".to_owned()),
    }
}

fn positions(header: &[String], columns: &Columns) -> Result<[usize; 3], String> {
    let mut positions = [0; 3];
    for (position, name) in positions.iter_mut().zip(columns.names()) {
        let found = header.iter().position(|field| field == name);
        *position = found.ok_or(format!("a header without column {name:?}"))?;
    }
    Ok(positions)
}

fn csv_row(line: &[u8], positions: [usize; 3], columns: &Columns) -> Result<Row, String> {
    let fields = fields(line)?;
    let names = columns.names();
    row(|column| {
        let name = names[column];
        let text = fields.get(positions[column]);
        let text = text.ok_or(format!("{} fields, none for {name}", fields.len()))?;
        let digits = text.strip_prefix('-').unwrap_or(text);
        // `parse` would accept a plus sign too.
        let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let integer = is_integer.then(|| text.parse().ok()).flatten();
        integer.ok_or_else(|| format!("{name} is {text:?}, no integer"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(format: Format, lines: &[&str]) -> Result<Vec<Row>, String> {
        let columns = Columns::default();
        let mut parser = RowParser::new(format, &columns);
        let rows = lines.iter().map(|line| parser.parse(line.as_bytes()));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        parser.finish()?;
        Ok(rows.into_iter().flatten().collect())
    }

    const ROW: Row = Row {
        key: 3,
        n: 2,
        sum: -7,
    };

    #[test]
    fn rows_are_read_whatever_stands_beside_the_columns_and_in_any_order() {
        let json = r#" { "sum": -7, "at": null, "n": 2, "key": 3 } "#;
        assert_eq!(parse(Format::Json, &[json]), Ok(vec![ROW]));
        let csv = ["sum,other,key,n\r", "-7,,3,2\r", "\"-7\",\"a,b\",3,2"];
        assert_eq!(parse(Format::Csv, &csv), Ok(vec![ROW, ROW]));
    }

    #[test]
    fn what_is_no_row_is_said_and_never_a_panic() {
        let json = |line| parse(Format::Json, &[line]).unwrap_err();
        assert!(json("").starts_with("no JSON: "));
        assert!(json("[[[[").starts_with("no JSON: "));
        assert_eq!(json("[1]"), "JSON, but no object");
        assert_eq!(json(r#"{"key":1,"sum":2}"#), "no column \"n\"");
        assert_eq!(
            json(r#"{"key":1,"n":2.0,"sum":2}"#),
            "n is 2.0, no integer of 64 bits"
        );
        let csv = |line| parse(Format::Csv, &["key,n,sum", line]).unwrap_err();
        assert_eq!(csv("1,2"), "2 fields, none for sum");
        assert_eq!(csv("1,+2,3"), "n is \"+2\", no integer");
        assert_eq!(csv("1,,3"), "n is \"\", no integer");
        assert_eq!(csv(""), "n is \"\", no integer".replace("n is", "key is"));
    }

    #[test]
    fn a_csv_file_without_header_is_said_once() {
        let columns = Columns::default();
        let mut parser = RowParser::new(Format::Csv, &columns);
        let error = parser.parse(b"1,2,3").unwrap_err();
        assert_eq!(error, "a header without column \"key\"");
        assert_eq!(parser.parse(b"1,3,6"), Ok(None));
        assert_eq!(
            parse(Format::Csv, &[]).unwrap_err(),
            "an empty file, without a header"
        );
    }
}
