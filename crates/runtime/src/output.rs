//! The outputs of a task: rows partitioned, gathered per destination and put in line.

use arrow::datatypes::Schema;
use millstream_batch::{Batch, KeyCodec};
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_exchange::coalesce::{CoalesceLimits, Coalescer};
use millstream_exchange::partition::Partitioner;
use millstream_exchange::{
    CancelMarker, ChannelStatus, Control, DestinationIndex, Element, Feedback,
};
use millstream_graph::{OutputPort, Partitioning, Plan, VertexEdge};
use millstream_types::{CheckpointId, EventTime, MonoTime};

use crate::channel::SenderEnd;
use crate::failure;

/// One output edge of a task.
pub(crate) struct OutputEdge {
    /// Position in the chain of the operator whose rows it carries.
    operator: usize,
    dead_letter: bool,
    partitioner: Partitioner,
    coalescer: Coalescer,
    senders: Vec<SenderEnd>,
}

impl OutputEdge {
    /// `operator` is the producing operator's position in the chain.
    pub(crate) fn new(
        edge: &VertexEdge,
        plan: &Plan,
        operator: usize,
        subtask_index: u32,
        limits: CoalesceLimits,
        senders: Vec<SenderEnd>,
    ) -> Result<Self, FailureInfo> {
        let destinations = senders.len() as u32;
        let consumer = plan
            .vertex(edge.to)
            .expect("edges of a plan join its vertices");
        let partitioner = match &edge.partitioning {
            Partitioning::Forward => Partitioner::Forward,
            Partitioning::Rebalance => {
                Partitioner::rebalance(destinations, subtask_index % destinations.max(1))
            }
            Partitioning::Assign | Partitioning::Broadcast => {
                Partitioner::Broadcast { destinations }
            }
            Partitioning::Hash { columns } => {
                let schema: &Schema = &edge.schema;
                let codec = KeyCodec::new(schema, columns)
                    .map_err(|error| failure::of_error(FailureKind::Deployment, &error))?;
                Partitioner::hash(codec, consumer.max_parallelism, consumer.parallelism)
            }
        };
        Ok(Self {
            operator,
            dead_letter: edge.port == OutputPort::DeadLetter,
            partitioner,
            coalescer: Coalescer::new(destinations, limits),
            senders,
        })
    }
}

/// All outputs of a task.
pub(crate) struct Outputs {
    edges: Vec<OutputEdge>,
    parts: Vec<(DestinationIndex, Batch)>,
    due: Vec<(DestinationIndex, Element)>,
}

fn internal(error: &(dyn std::error::Error + 'static)) -> FailureInfo {
    failure::of_error(FailureKind::Internal, error)
}

impl Outputs {
    pub(crate) fn new(edges: Vec<OutputEdge>) -> Self {
        Self {
            edges,
            parts: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Whether every channel takes another element.
    pub(crate) fn has_room(&self) -> bool {
        self.edges
            .iter()
            .all(|edge| edge.senders.iter().all(SenderEnd::has_room))
    }

    /// Whether everything that was sent has been taken.
    pub(crate) fn are_taken(&self) -> bool {
        self.edges
            .iter()
            .all(|edge| edge.senders.iter().all(SenderEnd::is_taken))
    }

    /// Sends rows of the operator at this position of the chain.
    pub(crate) fn emit(
        &mut self,
        now: MonoTime,
        operator: usize,
        dead_letter: bool,
        batch: &Batch,
    ) -> Result<(), FailureInfo> {
        for edge in &mut self.edges {
            if edge.operator != operator || edge.dead_letter != dead_letter {
                continue;
            }
            edge.partitioner
                .partition(batch, &mut self.parts)
                .map_err(|e| internal(&e))?;
            for (to, part) in self.parts.drain(..) {
                edge.coalescer
                    .push_batch(now, to, part, &mut self.due)
                    .map_err(|e| internal(&e))?;
            }
            send(&edge.senders, &mut self.due);
        }
        Ok(())
    }

    /// Puts a watermark in line everywhere.
    pub(crate) fn watermark(&mut self, now: MonoTime, watermark: EventTime) {
        for edge in &mut self.edges {
            edge.coalescer.push_watermark(now, watermark);
        }
    }

    /// Says whether this task takes part in the watermark.
    pub(crate) fn status(&mut self, status: ChannelStatus) -> Result<(), FailureInfo> {
        for edge in &mut self.edges {
            edge.coalescer
                .push_status(status, &mut self.due)
                .map_err(|e| internal(&e))?;
            send(&edge.senders, &mut self.due);
        }
        Ok(())
    }

    /// Puts a barrier or an end mark in line everywhere, behind all rows.
    pub(crate) fn mark(&mut self, mark: &Element) -> Result<(), FailureInfo> {
        for edge in &mut self.edges {
            edge.coalescer
                .push_mark(mark, &mut self.due)
                .map_err(|e| internal(&e))?;
            send(&edge.senders, &mut self.due);
        }
        Ok(())
    }

    /// Tells all consumers not to wait for this checkpoint; overtakes.
    pub(crate) fn cancel(&self, id: CheckpointId) {
        for sender in self.edges.iter().flat_map(|edge| &edge.senders) {
            sender.push_control(Control::Cancel(CancelMarker { id }));
        }
    }

    /// Sends what has waited long enough.
    pub(crate) fn on_time(&mut self, now: MonoTime) -> Result<(), FailureInfo> {
        for edge in &mut self.edges {
            edge.coalescer
                .on_time(now, &mut self.due)
                .map_err(|e| internal(&e))?;
            send(&edge.senders, &mut self.due);
        }
        Ok(())
    }

    /// When [`Outputs::on_time`] is due.
    pub(crate) fn deadline(&self) -> MonoTime {
        let deadlines = self.edges.iter().map(|edge| edge.coalescer.deadline());
        deadlines.min().unwrap_or(MonoTime::NEVER)
    }

    /// Sends splits to one reader, in line.
    pub(crate) fn send_splits(&self, reader: u32, splits: bytes::Bytes) {
        if let Some(sender) = self
            .edges
            .first()
            .and_then(|edge| edge.senders.get(reader as usize))
        {
            sender.push(Element::Splits(splits));
        }
    }

    /// What readers said since the last call, by their index.
    pub(crate) fn take_feedback(&self) -> Vec<(u32, Feedback)> {
        let senders = self
            .edges
            .iter()
            .flat_map(|edge| edge.senders.iter().enumerate());
        senders
            .filter_map(|(reader, sender)| Some((reader as u32, sender.take_feedback()?)))
            .collect()
    }
}

fn send(senders: &[SenderEnd], due: &mut Vec<(DestinationIndex, Element)>) {
    for (to, element) in due.drain(..) {
        senders[to.0 as usize].push(element);
    }
}
