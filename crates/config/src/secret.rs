//! Secrets: in the configuration only where they are to be found; their values never printed.

use std::fmt;
use std::path::{Path, PathBuf};

use millstream_types::errors::{self, ErrorCode};

use crate::value::{ValueFault, quoted_if_needed};
use crate::yaml::Node;

/// Where a secret is to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// In a file; one line end at its end does not belong to it.
    File(PathBuf),
    /// In an environment variable of the daemon.
    Env(String),
}

/// A secret. It has neither `Debug` nor `Display`, and its memory is overwritten when it is dropped.
pub struct Secret(String);

impl Secret {
    /// Takes a secret over.
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// The secret itself, for the one library call that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0).into_bytes();
        bytes.fill(0);
        // Keeps the compiler from leaving the writes out.
        std::hint::black_box(&bytes);
    }
}

/// What is needed to look a secret up; this crate reads neither files nor the environment.
pub trait SecretReader {
    /// The text of a file.
    ///
    /// # Errors
    /// As the file system says.
    fn file(&self, path: &Path) -> std::io::Result<String>;

    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;
}

/// A secret that could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("{key}: secret file {path} cannot be read")]
    File {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The variable is not set.
    #[error("{key}: environment variable {name} is not set")]
    Variable {
        /// The key.
        key: &'static str,
        /// The variable.
        name: String,
    },
    /// There is nothing in it.
    #[error("{key}: the secret at {reference} is empty")]
    Empty {
        /// The key.
        key: &'static str,
        /// Where it was looked up.
        reference: SecretRef,
    },
}

impl SecretError {
    /// Its code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::File { .. } | Self::Variable { .. } | Self::Empty { .. } => errors::CONF_SECRET,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::File { path, .. } => {
                format!(
                    "make {} readable for the user of the daemon",
                    path.display()
                )
            }
            Self::Variable { name, .. } => format!("set {name} in the daemon's environment"),
            Self::Empty { reference, .. } => format!("put the secret into {reference}"),
        }
    }
}

impl SecretRef {
    /// Reads `{ file: /path }` or `{ env: NAME }`. Anything else is taken for a secret that was
    /// written out, and is not repeated.
    pub(crate) fn read(node: &Node) -> Result<Self, ValueFault> {
        let entries = node.as_mapping().ok_or(ValueFault::LiteralSecret)?;
        let [entry] = entries else {
            return Err(ValueFault::LiteralSecret);
        };
        match (entry.key.as_str(), entry.node.as_text()) {
            ("file", Some(path)) => Ok(Self::File(PathBuf::from(path))),
            ("env", Some(name)) if is_variable(name) => Ok(Self::Env(name.to_owned())),
            _ => Err(ValueFault::LiteralSecret),
        }
    }

    /// Looks the secret up.
    ///
    /// # Errors
    /// [`SecretError`], which names the key and the place, never the secret.
    pub fn resolve(
        &self,
        key: &'static str,
        reader: &dyn SecretReader,
    ) -> Result<Secret, SecretError> {
        let value = match self {
            Self::File(path) => reader.file(path).map_err(|source| SecretError::File {
                key,
                path: path.clone(),
                source,
            })?,
            Self::Env(name) => reader.variable(name).ok_or_else(|| SecretError::Variable {
                key,
                name: name.clone(),
            })?,
        };
        let secret = Secret::new(value);
        let line = secret.expose();
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            return Err(SecretError::Empty {
                key,
                reference: self.clone(),
            });
        }
        Ok(Secret::new(line.to_owned()))
    }
}

fn is_variable(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => {
                write!(
                    f,
                    "{{ file: {} }}",
                    quoted_if_needed(&path.to_string_lossy())
                )
            }
            Self::Env(name) => write!(f, "{{ env: {name} }}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OneSecret;

    impl SecretReader for OneSecret {
        fn file(&self, path: &Path) -> std::io::Result<String> {
            match path.to_str() {
                Some("/run/key") => Ok("db@1#2\n".to_owned()),
                Some("/run/empty") => Ok("\n".to_owned()),
                _ => Err(std::io::ErrorKind::NotFound.into()),
            }
        }

        fn variable(&self, name: &str) -> Option<String> {
            (name == "KEY").then(|| "canary".to_owned())
        }
    }

    fn look_up(reference: SecretRef) -> Result<String, String> {
        reference
            .resolve("s3.secret-key", &OneSecret)
            .map(|secret| secret.expose().to_owned())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_secret_comes_from_a_file_or_a_variable() {
        assert_eq!(
            look_up(SecretRef::File("/run/key".into())),
            Ok("db@1#2".to_owned())
        );
        assert_eq!(
            look_up(SecretRef::Env("KEY".to_owned())),
            Ok("canary".to_owned())
        );
    }

    #[test]
    fn a_missing_secret_names_key_and_place() {
        let file = look_up(SecretRef::File("/run/other".into())).expect_err("no file");
        assert_eq!(file, "s3.secret-key: secret file /run/other cannot be read");
        let variable = look_up(SecretRef::Env("OTHER".to_owned())).expect_err("no variable");
        assert_eq!(
            variable,
            "s3.secret-key: environment variable OTHER is not set"
        );
        let empty = look_up(SecretRef::File("/run/empty".into())).expect_err("empty");
        assert_eq!(
            empty,
            "s3.secret-key: the secret at { file: /run/empty } is empty"
        );
    }
}
