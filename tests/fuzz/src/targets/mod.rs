//! The targets, one a decoder.

mod keys;
mod records;
mod stored;
mod texts;
mod wire;

/// A decoder under attack.
#[derive(Debug)]
pub struct Target {
    /// Also the folder of its corpus.
    pub name: &'static str,
    /// What comes in, for people.
    pub about: &'static str,
    /// Panics if something is wrong.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 14] = [
    Target {
        name: "job-file",
        about: "a job file: its faults are told, or its graph survives the wire",
        run: texts::job_file,
    },
    Target {
        name: "config",
        about: "a daemon's configuration file: refused, or printed and read as the same",
        run: texts::config,
    },
    Target {
        name: "values",
        about: "durations, sizes, ports, storage locations: what is printed is read as the same",
        run: texts::values,
    },
    Target {
        name: "expression",
        about: "an SQL expression: refused, or one value a row, the same each time",
        run: texts::expression,
    },
    Target {
        name: "graph",
        about: "a job graph from the wire: refused, or written in bytes that give it again",
        run: wire::graph,
    },
    Target {
        name: "frame",
        about: "frames of a channel, with right lengths and checksums",
        run: wire::frames,
    },
    Target {
        name: "damaged-frame",
        about: "frames of real elements with bytes changed on the way: refused or unchanged",
        run: wire::damaged_frames,
    },
    Target {
        name: "chain-entry",
        about: "an entry of the claim chain, with a right checksum: it has one spelling",
        run: stored::chain_entry,
    },
    Target {
        name: "metadata",
        about: "metadata of a checkpoint, with a right envelope",
        run: stored::metadata,
    },
    Target {
        name: "state-file",
        about: "a file of keyed state with bytes changed: refused, or the entries as written",
        run: stored::state_file,
    },
    Target {
        name: "key",
        about: "rows to keys and back; and keys that nobody wrote",
        run: keys::keys,
    },
    Target {
        name: "json",
        about: "JSON lines: the same rows however the file is split",
        run: records::json,
    },
    Target {
        name: "csv",
        about: "CSV with a header: the same rows however the file is split",
        run: records::csv,
    },
    Target {
        name: "text",
        about: "lines of text: the same lines however the file is split",
        run: records::text,
    },
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
