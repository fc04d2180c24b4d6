//! What a store answered, in words for people.

use std::error::Error;
use std::fmt;

/// A store's error with its causes, in one text: the library says the same thing several times.
#[derive(Debug)]
pub struct Answer(object_store::Error);

impl Answer {
    /// The answer that this error is.
    pub(crate) fn boxed(error: object_store::Error) -> Box<Self> {
        Box::new(Self(error))
    }

    /// The library's error.
    pub(crate) fn error(&self) -> &object_store::Error {
        &self.0
    }
}

/// Beginnings that only say that something failed.
const NOISE: [&str; 4] = [
    "Error performing ",
    "HTTP error: ",
    "error sending request: ",
    "client error (Connect): ",
];

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let said = error.to_string();
            if !text.contains(&said) {
                text = format!("{text}: {said}");
            }
            cause = error.source();
        }
        let mut text = without_beginning(&text).to_owned();
        for noise in NOISE {
            text = text.replace(noise, "");
        }
        f.write_str(&without_markup(without_time(&text)))
    }
}

// Its causes are in the text.
impl Error for Answer {}

/// The text without the library's name for the error, which repeats what was asked for.
fn without_beginning(text: &str) -> &str {
    for (beginning, end) in [
        ("Generic ", " error: "),
        ("Object at location ", " not found: "),
        ("The operation lacked the necessary privileges", ": "),
    ] {
        if text.starts_with(beginning)
            && let Some((_, rest)) = text.split_once(end)
        {
            return rest;
        }
    }
    text
}

/// `404 Not Found: <?xml …>` with code and message of the document in its place.
fn without_markup(text: String) -> String {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    let (Some((before, _)), Some(code)) = (text.split_once('<'), element("Code")) else {
        return text;
    };
    match element("Message") {
        Some(message) => format!("{before}{code}: {message}"),
        None => format!("{before}{code}"),
    }
}

/// `PUT http://host/name in 183.8µs - why`: the error around it says how long it took.
fn without_time(text: &str) -> String {
    let Some((before, reason)) = text.split_once(" - ") else {
        return text.to_owned();
    };
    match before.rsplit_once(" in ") {
        Some((what, time)) if time.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{what}: {reason}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let error = object_store::Error::Generic {
            store: "S3",
            source: text.into(),
        };
        Answer(error).to_string()
    }

    #[test]
    fn what_happened_is_said_once_and_without_the_library_s_names() {
        assert_eq!(
            said(
                "Error performing PUT http://host:9/a in 183.8µs - HTTP error: error sending \
                 request: client error (Connect): tcp connect error: Connection refused"
            ),
            "PUT http://host:9/a: tcp connect error: Connection refused"
        );
        assert_eq!(said("no time - no cut"), "no time - no cut");
        assert_eq!(
            said(
                "Error performing PUT http://host:9/a in 2ms - Server returned non-2xx status \
                 code: 404 Not Found: <?xml version=\"1.0\"?>\n<Error><Code>NoSuchBucket</Code>\
                 <Message>no such bucket</Message></Error>"
            ),
            "PUT http://host:9/a: Server returned non-2xx status code: 404 Not Found: \
             NoSuchBucket: no such bucket"
        );
        assert_eq!(said("404: <html>gone</html>"), "404: <html>gone</html>");
        let inner = std::io::Error::other("no room");
        let error = object_store::Error::Generic {
            store: "directory",
            source: Box::new(inner),
        };
        assert_eq!(Answer(error).to_string(), "no room");
        let inner = std::io::Error::other("it is read-only");
        let error = object_store::Error::PermissionDenied {
            path: "/a".to_owned(),
            source: Box::new(inner),
        };
        assert_eq!(Answer(error).to_string(), "it is read-only");
    }
}
