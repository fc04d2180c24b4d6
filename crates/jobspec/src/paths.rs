//! Paths as written and as the job uses them.

use std::path::{Component, Path, PathBuf};

/// The path against the directory of the job file, without `.` and `..`; as written if there is no
/// such directory. The path may be a pattern: its signs are those of plain names.
pub(crate) fn absolute(path: &str, base_dir: Option<&Path>) -> String {
    let Some(base) = base_dir else {
        return path.to_owned();
    };
    let mut result = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::CurDir => {}
            // Above the root is the root.
            Component::ParentDir => {
                if result.file_name().is_some() {
                    result.pop();
                }
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => result.push(part),
        }
    }
    result.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::absolute;

    #[test]
    fn a_path_is_meant_from_the_job_file_on() {
        let base = Some(std::path::Path::new("/repo/docs/examples"));
        assert_eq!(absolute("../**/*.md", base), "/repo/docs/**/*.md");
        assert_eq!(absolute("./in.csv", base), "/repo/docs/examples/in.csv");
        assert_eq!(absolute("/data/in", base), "/data/in");
        assert_eq!(absolute("../../../../x", base), "/x");
        assert_eq!(absolute("../in", None), "../in");
    }
}
