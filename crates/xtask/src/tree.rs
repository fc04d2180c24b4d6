//! The files of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use walkdir::WalkDir;

use crate::report::Failure;
use crate::rust_source::RustSource;

/// What cargo says of the workspace's own packages.
pub fn cargo_metadata(root: &Path) -> Result<Value, Failure> {
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root)
        .output()
        .map_err(Failure::io("run cargo metadata"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Unexpected(format!(
            "cargo metadata failed: {said}"
        )));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::Unexpected(format!("cargo metadata: {error}")))
}

/// A text file with its path from the root.
pub struct TextFile {
    /// With `/` between folders.
    pub path: PathBuf,
    /// The whole text.
    pub text: String,
}

/// The files that checks look at.
pub struct Tree {
    /// Where they lie.
    pub root: PathBuf,
    /// Rust sources, split into code and comments.
    pub rust: Vec<(PathBuf, RustSource)>,
    /// Prose, schemas, configuration.
    pub texts: Vec<TextFile>,
}

/// Endings of text files whose citations are checked.
const TEXT_ENDINGS: [&str; 4] = ["md", "proto", "yaml", "toml"];

impl Tree {
    /// Reads the tree below `root`; build output and hidden folders are left out.
    pub fn read(root: &Path) -> Result<Self, Failure> {
        let mut tree = Self {
            root: root.to_owned(),
            rust: Vec::new(),
            texts: Vec::new(),
        };
        let visible = |entry: &walkdir::DirEntry| {
            let name = entry.file_name().to_string_lossy();
            entry.depth() == 0 || !(name.starts_with('.') || name == "target")
        };
        for entry in WalkDir::new(root)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(visible)
        {
            let entry = entry.map_err(|error| Failure::Unexpected(error.to_string()))?;
            let path = entry
                .path()
                .strip_prefix(root)
                .unwrap_or(entry.path())
                .to_owned();
            let ending = path
                .extension()
                .and_then(|ending| ending.to_str())
                .unwrap_or_default();
            if !entry.file_type().is_file() || (ending != "rs" && !TEXT_ENDINGS.contains(&ending)) {
                continue;
            }
            let text = std::fs::read_to_string(entry.path())
                .map_err(Failure::io(format!("read {}", path.display())))?;
            match ending {
                "rs" => tree.rust.push((path, RustSource::parse(&text))),
                _ => tree.texts.push(TextFile { path, text }),
            }
        }
        Ok(tree)
    }

    /// The text of any file, as it stands there.
    pub fn raw(&self, path: impl AsRef<Path>) -> Result<String, Failure> {
        let path = path.as_ref();
        std::fs::read_to_string(self.root.join(path))
            .map_err(Failure::io(format!("read {}", path.display())))
    }

    /// The text of a file that checks need.
    pub fn text(&self, path: &str) -> Result<&str, Failure> {
        let found = self.texts.iter().find(|file| file.path == Path::new(path));
        found
            .map(|file| file.text.as_str())
            .ok_or_else(|| Failure::Unexpected(format!("{path} is missing: restore it")))
    }
}
