//! Operator state: lists that belong to no key, and how they are spread over new subtasks.

use std::collections::BTreeMap;

use bytes::Bytes;

/// How a list is spread when an operator is restored (B11.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ListMode {
    /// Elements are dealt out evenly.
    EvenSplit,
    /// Every subtask gets all elements.
    Union,
    /// All subtasks have the same elements; each gets one old subtask's copy.
    Broadcast,
}

/// One list of one subtask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorState {
    /// Unique within the operator.
    pub name: String,
    /// How it is spread.
    pub mode: ListMode,
    /// The elements, in order.
    pub elements: Vec<Bytes>,
}

/// Why operator state cannot be spread.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RedistributeError {
    /// Two subtasks disagree about the mode of a state.
    #[error("operator state {name:?} is {one:?} in one subtask and {other:?} in another")]
    ModesDiffer {
        /// The state.
        name: String,
        /// The mode in one subtask.
        one: ListMode,
        /// The mode in another.
        other: ListMode,
    },
    /// A subtask has a state twice.
    #[error("operator state {name:?} is twice in subtask {subtask_index}")]
    Twice {
        /// The state.
        name: String,
        /// The old subtask.
        subtask_index: usize,
    },
}

/// The lists of each of `new_parallelism` subtasks, by name, from those of each old one
/// (B11.1, B11.2).
///
/// An even-split list is cut into runs of `total / new_parallelism` elements, in order; the first
/// `total mod new_parallelism` subtasks get one more. Which subtask is first rotates from state to
/// state, so that the extra elements of many lists do not all land on subtask 0. With the
/// parallelism unchanged each subtask gets its own list back.
///
/// # Panics
/// If `new_parallelism` is 0.
pub fn redistribute_operator_state(
    old: &[Vec<OperatorState>],
    new_parallelism: usize,
) -> Result<Vec<Vec<OperatorState>>, RedistributeError> {
    assert!(new_parallelism > 0, "checked at admission");
    let mut new = vec![Vec::new(); new_parallelism];
    let mut first = 0;
    for (name, (mode, copies)) in by_name(old)? {
        let unchanged = new_parallelism == old.len();
        let lists = match mode {
            ListMode::Union => vec![copies.concat(); new_parallelism],
            ListMode::EvenSplit if unchanged => copies,
            ListMode::EvenSplit => deal(copies.concat(), new_parallelism, &mut first),
            ListMode::Broadcast => (0..new_parallelism)
                .map(|index| copies[index % copies.len()].clone())
                .collect(),
        };
        for (subtask, elements) in new.iter_mut().zip(lists) {
            subtask.push(OperatorState {
                name: name.into(),
                mode,
                elements,
            });
        }
    }
    Ok(new)
}

/// Each state's mode and its list in every old subtask, empty where a subtask does not have it.
type Lists<'a> = BTreeMap<&'a str, (ListMode, Vec<Vec<Bytes>>)>;

fn by_name(old: &[Vec<OperatorState>]) -> Result<Lists<'_>, RedistributeError> {
    let mut lists: Lists<'_> = BTreeMap::new();
    for (subtask_index, states) in old.iter().enumerate() {
        let mut seen = BTreeMap::new();
        for state in states {
            if seen.insert(&state.name, ()).is_some() {
                return Err(RedistributeError::Twice {
                    name: state.name.clone(),
                    subtask_index,
                });
            }
            let (mode, copies) = lists
                .entry(&state.name)
                .or_insert_with(|| (state.mode, vec![Vec::new(); old.len()]));
            if *mode != state.mode {
                return Err(RedistributeError::ModesDiffer {
                    name: state.name.clone(),
                    one: *mode,
                    other: state.mode,
                });
            }
            copies[subtask_index].clone_from(&state.elements);
        }
    }
    Ok(lists)
}

/// Cuts a list into runs. `first` is the subtask that gets the first run, and becomes the first
/// one that got no extra element.
fn deal(elements: Vec<Bytes>, parallelism: usize, first: &mut usize) -> Vec<Vec<Bytes>> {
    let (base, extra) = (elements.len() / parallelism, elements.len() % parallelism);
    let mut lists = vec![Vec::new(); parallelism];
    let mut rest = elements.into_iter();
    for turn in 0..parallelism {
        let length = base + usize::from(turn < extra);
        lists[(*first + turn) % parallelism] = rest.by_ref().take(length).collect();
    }
    *first = (*first + extra) % parallelism;
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str, mode: ListMode, elements: &[u8]) -> OperatorState {
        OperatorState {
            name: name.into(),
            mode,
            elements: elements
                .iter()
                .map(|e| Bytes::copy_from_slice(&[*e]))
                .collect(),
        }
    }

    /// The elements of the named state in every new subtask.
    fn check(old: &[Vec<OperatorState>], parallelism: usize, name: &str) -> Vec<Vec<u8>> {
        let new = redistribute_operator_state(old, parallelism).unwrap();
        let list = |states: Vec<OperatorState>| {
            let found = states.into_iter().find(|state| state.name == name).unwrap();
            found.elements.concat()
        };
        new.into_iter().map(list).collect()
    }

    // Proves F138 of this function; a restore deals out whole handles so far.
    #[test]
    fn ten_elements_over_four_subtasks_go_by_mode() {
        let old = |mode| {
            vec![
                vec![state("s", mode, &[0, 1, 2, 3, 4, 5])],
                vec![state("s", mode, &[6, 7, 8, 9])],
            ]
        };
        let even = check(&old(ListMode::EvenSplit), 4, "s");
        assert_eq!(even, [&[0, 1, 2][..], &[3, 4, 5], &[6, 7], &[8, 9]]);
        let union = check(&old(ListMode::Union), 4, "s");
        assert_eq!(union, vec![(0..10).collect::<Vec<u8>>(); 4]);
        let broadcast = check(&old(ListMode::Broadcast), 4, "s");
        let (a, b) = (vec![0, 1, 2, 3, 4, 5], vec![6, 7, 8, 9]);
        assert_eq!(broadcast, [a.clone(), b.clone(), a, b]);
    }

    // Proves F139 of this function.
    #[test]
    fn with_the_same_parallelism_every_subtask_gets_its_own_list_back() {
        let old = vec![
            vec![state("s", ListMode::EvenSplit, &[1, 2, 3])],
            vec![state("s", ListMode::EvenSplit, &[])],
        ];
        assert_eq!(redistribute_operator_state(&old, 2).unwrap(), old);
    }

    #[test]
    fn the_subtask_that_starts_rotates_from_state_to_state() {
        let old = vec![vec![
            state("a", ListMode::EvenSplit, &[1]),
            state("b", ListMode::EvenSplit, &[2]),
            state("c", ListMode::EvenSplit, &[3]),
        ]];
        let sizes = |name| -> Vec<usize> { check(&old, 3, name).iter().map(Vec::len).collect() };
        assert_eq!(sizes("a"), [1, 0, 0]);
        assert_eq!(sizes("b"), [0, 1, 0]);
        assert_eq!(sizes("c"), [0, 0, 1]);
    }

    #[test]
    fn no_element_is_lost_or_doubled_whatever_the_two_parallelisms() {
        for from in 1..6usize {
            for to in 1..6usize {
                let lists = |i: usize| [i as u8 * 10, i as u8 * 10 + 1][..i % 3].to_vec();
                let old: Vec<_> = (0..from)
                    .map(|i| vec![state("s", ListMode::EvenSplit, &lists(i % 3))])
                    .collect();
                let before: Vec<u8> = (0..from).flat_map(|i| lists(i % 3)).collect();
                assert_eq!(check(&old, to, "s").concat(), before, "{from} to {to}");
            }
        }
    }

    #[test]
    fn subtasks_that_disagree_are_refused() {
        let old = [
            vec![state("s", ListMode::Union, &[1])],
            vec![state("s", ListMode::Broadcast, &[1])],
        ];
        let error = redistribute_operator_state(&old, 1).unwrap_err();
        assert!(matches!(error, RedistributeError::ModesDiffer { .. }));
        let twice = [vec![
            state("s", ListMode::Union, &[1]),
            state("s", ListMode::Union, &[1]),
        ]];
        let error = redistribute_operator_state(&twice, 1).unwrap_err();
        assert!(matches!(error, RedistributeError::Twice { .. }));
    }
}
