//! Random graphs with random delays: in exactly-once mode every snapshot is a consistent cut.
//!
//! Vertices stand in layers; every subtask of a layer has a channel to every subtask of the next.
//! Sources number their rows and are triggered at random moments; a random scheduler lets one
//! channel deliver one element at a time. A subtask's state is the number of rows it took from each
//! channel, and it hands every row on.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use millstream_types::{CheckpointId, Epoch, MonoTime};
use proptest::prelude::*;

use super::super::*;
use crate::element::BarrierKind;

#[derive(Clone, Copy, Debug)]
enum Item {
    Row,
    Barrier(Barrier),
    End,
}

/// Rows taken per input channel; rows sent, the same to every output channel.
#[derive(Clone, Debug, PartialEq)]
struct State {
    taken: Vec<u64>,
    sent: u64,
}

struct Subtask {
    machine: Alignment,
    state: State,
    blocked: BTreeSet<ChannelIndex>,
    ended: usize,
    /// One line for each upstream subtask.
    inputs: Vec<VecDeque<Item>>,
}

struct Graph {
    layers: Vec<Vec<Subtask>>,
    snapshots: BTreeMap<CheckpointId, BTreeMap<(usize, usize), State>>,
}

impl Graph {
    fn new(widths: &[usize], mode: AlignMode) -> Self {
        let subtask = |inputs: usize| Subtask {
            machine: Alignment::new(mode, inputs as u32, true),
            state: State {
                taken: vec![0; inputs],
                sent: 0,
            },
            blocked: BTreeSet::new(),
            ended: 0,
            inputs: vec![VecDeque::new(); inputs],
        };
        let layer = |depth: usize| {
            let inputs = depth.checked_sub(1).map_or(0, |above| widths[above]);
            (0..widths[depth]).map(|_| subtask(inputs)).collect()
        };
        Self {
            layers: (0..widths.len()).map(layer).collect(),
            snapshots: BTreeMap::new(),
        }
    }

    fn send(&mut self, layer: usize, index: usize, item: Item) {
        if let Item::Row = item {
            self.layers[layer][index].state.sent += 1;
        }
        if let Some(below) = self.layers.get_mut(layer + 1) {
            below
                .iter_mut()
                .for_each(|subtask| subtask.inputs[index].push_back(item));
        }
    }

    fn step(&mut self, layer: usize, index: usize, event: AlignEvent) {
        let mut actions = Vec::new();
        self.layers[layer][index]
            .machine
            .step(MonoTime::ZERO, event, &mut actions);
        for action in actions {
            let subtask = &mut self.layers[layer][index];
            match action {
                AlignAction::Block(channel) => {
                    subtask.blocked.insert(channel);
                }
                AlignAction::Unblock(channels) => {
                    subtask
                        .blocked
                        .retain(|channel| !channels.contains(channel));
                }
                AlignAction::Snapshot { barrier, .. } => {
                    let state = subtask.state.clone();
                    self.snapshots
                        .entry(barrier.id)
                        .or_default()
                        .insert((layer, index), state);
                    self.send(layer, index, Item::Barrier(barrier));
                }
                AlignAction::ForwardCancel { id } => {
                    for below in 0..self.layers.get(layer + 1).map_or(0, Vec::len) {
                        let channel = ChannelIndex(index as u32);
                        self.step(layer + 1, below, AlignEvent::Cancel { channel, id });
                    }
                }
                AlignAction::Decline { .. } | AlignAction::Log(_) => {}
            }
        }
    }

    /// The channels that can deliver now.
    fn ready(&self) -> Vec<(usize, usize, ChannelIndex)> {
        let mut ready = Vec::new();
        for (layer, subtasks) in self.layers.iter().enumerate() {
            for (index, subtask) in subtasks.iter().enumerate() {
                for (channel, line) in (0..).map(ChannelIndex).zip(&subtask.inputs) {
                    if !line.is_empty() && !subtask.blocked.contains(&channel) {
                        ready.push((layer, index, channel));
                    }
                }
            }
        }
        ready
    }

    fn deliver(&mut self, (layer, index, channel): (usize, usize, ChannelIndex)) {
        let subtask = &mut self.layers[layer][index];
        match subtask.inputs[channel.0 as usize].pop_front() {
            None => {}
            Some(Item::Row) => {
                subtask.state.taken[channel.0 as usize] += 1;
                self.send(layer, index, Item::Row);
            }
            Some(Item::Barrier(barrier)) => {
                self.step(layer, index, AlignEvent::Barrier { channel, barrier });
            }
            Some(Item::End) => {
                subtask.ended += 1;
                let was_last = subtask.ended == subtask.inputs.len();
                self.step(layer, index, AlignEvent::EndOfPartition { channel });
                if was_last {
                    self.send(layer, index, Item::End);
                }
            }
        }
    }

    /// Complete checkpoints in which a consumer took another number of rows than its producer sent.
    fn inconsistent(&self) -> Vec<CheckpointId> {
        let subtasks: usize = self.layers.iter().map(Vec::len).sum();
        let complete = self
            .snapshots
            .iter()
            .filter(|(_, of_subtask)| of_subtask.len() == subtasks);
        let is_torn = |of_subtask: &BTreeMap<(usize, usize), State>| {
            of_subtask.iter().any(|((layer, _), state)| {
                state
                    .taken
                    .iter()
                    .enumerate()
                    .any(|(producer, taken)| of_subtask[&(layer - 1, producer)].sent != *taken)
            })
        };
        complete
            .filter(|(_, of_subtask)| is_torn(of_subtask))
            .map(|(id, _)| *id)
            .collect()
    }
}

fn barrier(id: u64) -> Barrier {
    Barrier {
        id: CheckpointId(id),
        epoch: Epoch(1),
        kind: BarrierKind::Checkpoint,
        age: Duration::ZERO,
        learnt_at: MonoTime::ZERO,
        completed: None,
    }
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Source `.0` sends a row.
    Row(usize),
    /// The next checkpoint is triggered at all sources, the first `.0` of them now.
    Trigger(usize),
    /// The jobmanager aborts the newest checkpoint at one subtask.
    Abort(usize),
    /// Channel `.0` of those that can delivers.
    Deliver(usize),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => any::<usize>().prop_map(Turn::Row),
        1 => any::<usize>().prop_map(Turn::Trigger),
        1 => any::<usize>().prop_map(Turn::Abort),
        8 => any::<usize>().prop_map(Turn::Deliver),
    ]
}

/// Runs the script, then ends the sources and delivers everything that is left.
fn run(widths: &[usize], mode: AlignMode, aborts: bool, script: &[Turn]) -> Graph {
    let mut graph = Graph::new(widths, mode);
    let (mut checkpoint, mut pending): (u64, VecDeque<(usize, u64)>) = (0, VecDeque::new());
    for turn in script {
        match turn {
            Turn::Row(source) => graph.send(0, source % widths[0], Item::Row),
            Turn::Trigger(now) => {
                checkpoint += 1;
                pending.extend((0..widths[0]).map(|source| (source, checkpoint)));
                for _ in 0..=now % widths[0] {
                    let Some((source, id)) = pending.pop_front() else {
                        break;
                    };
                    graph.step(
                        0,
                        source,
                        AlignEvent::Trigger {
                            barrier: barrier(id),
                        },
                    );
                }
            }
            Turn::Abort(at) if aborts && checkpoint > 0 => {
                let layer = at % widths.len();
                let id = CheckpointId(checkpoint);
                let event = AlignEvent::AbortedByJobmanager { id };
                graph.step(layer, at / 7 % widths[layer], event);
            }
            Turn::Abort(_) => {}
            Turn::Deliver(which) => {
                let ready = graph.ready();
                if !ready.is_empty() {
                    graph.deliver(ready[which % ready.len()]);
                }
            }
        }
    }
    for (source, id) in pending {
        graph.step(
            0,
            source,
            AlignEvent::Trigger {
                barrier: barrier(id),
            },
        );
    }
    (0..widths[0]).for_each(|source| graph.send(0, source, Item::End));
    while let Some(channel) = graph.ready().first() {
        graph.deliver(*channel);
    }
    graph
}

proptest! {
    /// Proves F102.
    #[test]
    fn every_complete_checkpoint_is_a_consistent_cut(
        widths in prop::collection::vec(1usize..4, 1..4),
        script in prop::collection::vec(turn(), 0..250),
    ) {
        let graph = run(&widths, AlignMode::ExactlyOnce, true, &script);
        prop_assert_eq!(graph.inconsistent(), []);
        // Nothing stays blocked: every row sent was taken in the end.
        for (layer, subtasks) in graph.layers.iter().enumerate().skip(1) {
            for subtask in subtasks {
                prop_assert!(subtask.blocked.is_empty());
                for (producer, taken) in subtask.state.taken.iter().enumerate() {
                    prop_assert_eq!(*taken, graph.layers[layer - 1][producer].state.sent);
                }
            }
        }
    }

    /// Without aborts every checkpoint completes or is subsumed by one that does.
    #[test]
    fn the_last_checkpoint_always_completes(
        widths in prop::collection::vec(1usize..4, 1..4),
        script in prop::collection::vec(turn(), 0..250),
        at_least_once in any::<bool>(),
    ) {
        let mode = if at_least_once { AlignMode::AtLeastOnce } else { AlignMode::ExactlyOnce };
        let graph = run(&widths, mode, false, &script);
        let triggered = script.iter().filter(|turn| matches!(turn, Turn::Trigger(_))).count();
        if triggered > 0 {
            let last = &graph.snapshots[&CheckpointId(triggered as u64)];
            prop_assert_eq!(last.len(), widths.iter().sum::<usize>());
        }
    }
}

/// The test above can fail: without blocking, rows behind an early barrier are in the state.
#[test]
fn at_least_once_snapshots_are_no_consistent_cuts() {
    let mut graph = Graph::new(&[2, 1], AlignMode::AtLeastOnce);
    graph.step(
        0,
        0,
        AlignEvent::Trigger {
            barrier: barrier(1),
        },
    );
    graph.send(0, 0, Item::Row);
    graph.step(
        0,
        1,
        AlignEvent::Trigger {
            barrier: barrier(1),
        },
    );
    while let Some(channel) = graph.ready().first() {
        graph.deliver(*channel);
    }
    assert_eq!(graph.inconsistent(), [CheckpointId(1)]);
}
