//! What the machine and the container give this process, read from the kernel's files.

use std::path::{Path, PathBuf};

use crate::fs::Fs;

/// The kernel's files are short; one that is not is not read.
const FILE_BYTES_MAX: u64 = 256 * 1024;
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// The first control group version says "no limit" by a number near the largest.
const UNLIMITED_FROM: u64 = 1 << 60;

/// Bytes of memory this process may use: the least of the machine's memory and the limits of its
/// control groups, of either version. `None` if none of them can be read.
pub fn memory_limit(fs: &dyn Fs) -> Option<u64> {
    let groups = read(fs, Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|path| {
        // "max" is no number and means none.
        let limit: u64 = read(fs, &path)?.trim().parse().ok()?;
        (limit < UNLIMITED_FROM).then_some(limit)
    });
    let machine = kibibytes(
        &read(fs, Path::new("/proc/meminfo")).unwrap_or_default(),
        "MemTotal:",
    );
    limits.chain(machine).min()
}

/// Bytes of memory that the process `pid` holds now; `None` if there is no such process.
pub fn resident_bytes(fs: &dyn Fs, pid: u32) -> Option<u64> {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    kibibytes(&read(fs, &path)?, "VmRSS:")
}

/// The files that may hold a limit. Limits of outer groups bind too; within a container the path
/// that the kernel names may not exist and the root is the container's own group.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next(), parts.next(), parts.next());
        let (root, file) = match controllers {
            Some("") => (CGROUP_ROOT.to_owned(), "memory.max"),
            Some(list) if list.split(',').any(|name| name == "memory") => {
                (format!("{CGROUP_ROOT}/memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let path = path.unwrap_or_default().trim_start_matches('/');
        // The empty path, the root of all, comes last.
        files.extend(
            Path::new(path)
                .ancestors()
                .map(|group| Path::new(&root).join(group).join(file)),
        );
    }
    files
}

/// The number behind `key` in a file of lines `key  number kB`, in bytes.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

fn read(fs: &dyn Fs, path: &Path) -> Option<String> {
    String::from_utf8(fs.read(path, FILE_BYTES_MAX).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{MemoryFs, RealFs};

    fn machine(files: &[(&str, &str)]) -> MemoryFs {
        let memory = MemoryFs::default();
        let fs: &dyn Fs = &memory;
        for (path, text) in files {
            let path = Path::new(path);
            fs.create_dir_all(path.parent().unwrap()).unwrap();
            fs.write_new(path, text.as_bytes()).unwrap();
        }
        memory
    }

    const MEMINFO: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal:       1000 kB\nMemFree:  10 kB\n",
    );

    #[test]
    fn without_a_limit_the_machine_is_the_limit() {
        let fs = machine(&[
            MEMINFO,
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "max\n"),
        ]);
        assert_eq!(memory_limit(&fs), Some(1_024_000));
        assert_eq!(memory_limit(&machine(&[])), None);
    }

    #[test]
    fn the_tightest_group_around_the_process_binds() {
        let fs = machine(&[
            MEMINFO,
            ("/proc/self/cgroup", "0::/outer/inner\n"),
            ("/sys/fs/cgroup/outer/memory.max", "500000\n"),
            ("/sys/fs/cgroup/outer/inner/memory.max", "max\n"),
        ]);
        assert_eq!(memory_limit(&fs), Some(500_000));
    }

    #[test]
    fn a_container_whose_named_group_is_not_visible_has_its_limit_at_the_root() {
        let fs = machine(&[
            MEMINFO,
            ("/proc/self/cgroup", "0::/docker/0123abcd\n"),
            ("/sys/fs/cgroup/memory.max", "600000\n"),
        ]);
        assert_eq!(memory_limit(&fs), Some(600_000));
    }

    #[test]
    fn the_first_version_is_understood() {
        let group = ("/proc/self/cgroup", "9:cpuset:/\n4:memory,hugetlb:/box\n");
        let path = "/sys/fs/cgroup/memory/box/memory.limit_in_bytes";
        assert_eq!(
            memory_limit(&machine(&[MEMINFO, group, (path, "700000\n")])),
            Some(700_000)
        );
        let unlimited = machine(&[MEMINFO, group, (path, "9223372036854771712\n")]);
        assert_eq!(memory_limit(&unlimited), Some(1_024_000));
    }

    #[test]
    fn this_machine_and_this_process_can_be_read() {
        let resident = resident_bytes(&RealFs, std::process::id()).unwrap();
        assert!(resident > 0 && memory_limit(&RealFs).unwrap() > resident);
        assert_eq!(resident_bytes(&RealFs, u32::MAX), None);
    }
}
