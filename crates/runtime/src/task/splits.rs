//! Splits and their assignment as bytes: in channels and in checkpoints.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use millstream_coordination::splits::{self as assignment, AssignmentState, SplitId, SplitTarget};
use millstream_operator::{ErrorKind, OperatorError, Split};

/// Format version of everything here.
const VERSION: u8 = 1;

fn corrupt(what: &str) -> OperatorError {
    OperatorError::new(ErrorKind::State, format!("{what} cannot be decoded"))
        .with_remedy("restore from another checkpoint, or with the version that wrote this one")
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Reads what [`put`] wrote.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn piece(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let (piece, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(piece)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.piece()?).ok()
    }
}

/// version | id | state
pub(crate) fn encode(split: &Split) -> Bytes {
    let mut out = vec![VERSION];
    put(&mut out, split.id.as_bytes());
    put(&mut out, &split.state);
    out.into()
}

/// Takes apart what [`encode`] made.
pub(crate) fn decode(bytes: &Bytes) -> Result<Split, OperatorError> {
    let mut input = Input(bytes);
    let split = (|| {
        let is_known = input.byte()? == VERSION;
        let (id, state) = (input.text()?, input.piece()?);
        (is_known && input.0.is_empty()).then(|| Split {
            id: id.to_owned(),
            state: Bytes::copy_from_slice(state),
        })
    })();
    split.ok_or_else(|| corrupt("a split"))
}

/// Several of them.
pub(crate) fn decode_all(bytes: &[Bytes]) -> Result<Vec<Split>, OperatorError> {
    bytes.iter().map(decode).collect()
}

/// A discovered split, for whichever reader has the least to do.
pub(crate) fn to_assign(split: &Split) -> assignment::Split {
    assignment::Split {
        id: SplitId(Arc::from(split.id.as_str())),
        payload: Arc::from(&*split.state),
        target: SplitTarget::Any,
        is_unbounded: false,
    }
}

/// An assigned split, for its reader.
pub(crate) fn from_assigned(split: &assignment::Split) -> Split {
    Split {
        id: split.id.0.to_string(),
        state: Bytes::copy_from_slice(&split.payload),
    }
}

/// version | discovery over | n, ids seen | n, each waiting: id, payload, target, unbounded
pub(crate) fn encode_assignment(state: &AssignmentState) -> Bytes {
    let mut out = vec![VERSION, u8::from(state.is_discovery_over)];
    out.extend_from_slice(&(state.seen.len() as u32).to_le_bytes());
    for id in &state.seen {
        put(&mut out, id.0.as_bytes());
    }
    out.extend_from_slice(&(state.waiting.len() as u32).to_le_bytes());
    for split in &state.waiting {
        put(&mut out, split.id.0.as_bytes());
        put(&mut out, &split.payload);
        let (kind, reader) = match split.target {
            SplitTarget::Any => (0, 0),
            SplitTarget::Reader(reader) => (1, reader),
        };
        out.extend_from_slice(&[kind, u8::from(split.is_unbounded)]);
        out.extend_from_slice(&reader.to_le_bytes());
    }
    out.into()
}

/// Takes apart what [`encode_assignment`] made.
pub(crate) fn decode_assignment(bytes: &Bytes) -> Result<AssignmentState, OperatorError> {
    let mut input = Input(bytes);
    let state = (|| {
        if input.byte()? != VERSION {
            return None;
        }
        let is_discovery_over = input.byte()? != 0;
        let mut seen = BTreeSet::new();
        for _ in 0..input.number()? {
            seen.insert(SplitId(Arc::from(input.text()?)));
        }
        let mut waiting = Vec::new();
        for _ in 0..input.number()? {
            let (id, payload) = (SplitId(Arc::from(input.text()?)), Arc::from(input.piece()?));
            let (kind, is_unbounded) = (input.byte()?, input.byte()? != 0);
            let reader = input.number()?;
            let target = match kind {
                0 => SplitTarget::Any,
                1 => SplitTarget::Reader(reader),
                _ => return None,
            };
            waiting.push(assignment::Split {
                id,
                payload,
                target,
                is_unbounded,
            });
        }
        let state = AssignmentState {
            seen,
            waiting,
            is_discovery_over,
        };
        input.0.is_empty().then_some(state)
    })();
    state.ok_or_else(|| corrupt("the assignment of splits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(id: &str) -> Split {
        Split {
            id: id.to_owned(),
            state: Bytes::from(format!("state of {id}")),
        }
    }

    #[test]
    fn a_split_comes_back_and_nothing_shorter_is_one() {
        let encoded = encode(&split("docs/a.md:0+10"));
        assert_eq!(decode(&encoded).unwrap(), split("docs/a.md:0+10"));
        for length in 0..encoded.len() {
            assert!(decode(&encoded.slice(..length)).is_err(), "{length}");
        }
    }

    #[test]
    fn an_assignment_comes_back_and_nothing_shorter_is_one() {
        let mut named = to_assign(&split("c"));
        named.target = SplitTarget::Reader(3);
        named.is_unbounded = true;
        let state = AssignmentState {
            seen: ["a", "b", "c"].map(|id| SplitId(Arc::from(id))).into(),
            waiting: vec![to_assign(&split("b")), named],
            is_discovery_over: true,
        };
        let encoded = encode_assignment(&state);
        assert_eq!(decode_assignment(&encoded).unwrap(), state);
        for length in 0..encoded.len() {
            assert!(
                decode_assignment(&encoded.slice(..length)).is_err(),
                "{length}"
            );
        }
    }
}
