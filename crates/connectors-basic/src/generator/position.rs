//! Where a split of a generator stands.

use bytes::{BufMut, Bytes, BytesMut};
use millstream_operator::{ErrorKind, OperatorError, Split};

const VERSION: u8 = 1;

/// The split that subtask `index` of `parallelism` starts with in a fresh job.
pub fn generator_split(index: u32, parallelism: u32) -> Split {
    Position {
        modulus: u64::from(parallelism.max(1)),
        residue: u64::from(index),
        next: u64::from(index),
    }
    .encode()
}

/// The rows whose number is `residue` modulo `modulus`, from `next` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    pub(super) modulus: u64,
    pub(super) residue: u64,
    pub(super) next: u64,
}

impl Position {
    pub(super) fn id(&self) -> String {
        format!("rows {} of {}", self.residue, self.modulus)
    }

    /// Rows left below row number `end`.
    pub(super) fn rows_before(&self, end: u64) -> u64 {
        end.saturating_sub(self.next).div_ceil(self.modulus)
    }

    /// The next row's number after `count` more rows.
    pub(super) fn after(&self, count: u64) -> u64 {
        self.next.saturating_add(count.saturating_mul(self.modulus))
    }

    pub(super) fn encode(&self) -> Split {
        let mut state = BytesMut::with_capacity(25);
        state.put_u8(VERSION);
        state.put_u64(self.modulus);
        state.put_u64(self.residue);
        state.put_u64(self.next);
        Split {
            id: self.id(),
            state: state.freeze(),
        }
    }

    pub(super) fn decode(split: &Split) -> Result<Self, OperatorError> {
        let damaged = |why: String| {
            let what = format!("state of generator split {:?}: {why}", split.id);
            OperatorError::new(ErrorKind::State, what)
        };
        match split.state.first() {
            Some(&VERSION) => {}
            Some(version) => {
                let why = format!("format version {version}, this program knows {VERSION}");
                let remedy = "restore with the release that wrote the checkpoint, or a newer one";
                return Err(damaged(why).with_remedy(remedy));
            }
            None => return Err(damaged("it is empty".to_owned())),
        }
        let words = words(&split.state.slice(1..));
        let [modulus, residue, next] = words[..] else {
            return Err(damaged(format!("{} bytes, not 25", split.state.len())));
        };
        if modulus == 0 || residue >= modulus || next % modulus != residue {
            return Err(damaged(format!(
                "row {next} is not in rows {residue} of {modulus}"
            )));
        }
        Ok(Self {
            modulus,
            residue,
            next,
        })
    }
}

/// The bytes as big-endian words; none if they do not come out even.
fn words(bytes: &Bytes) -> Vec<u64> {
    let (words, rest) = bytes.as_chunks::<8>();
    match rest {
        [] => words.iter().copied().map(u64::from_be_bytes).collect(),
        _ => Vec::new(),
    }
}
