//! A connection from another process, checked and then drained for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use millstream_exchange::Element;
use millstream_exchange::frame::{Arrived, ChannelId as FrameChannel, Frame, FrameReceiver};
use millstream_graph::ChannelId;
use millstream_rpc::data::{
    DataMessage, DataReceiver, DataRefusal, DataReply, Hello, OpenChannel, ReaderFeedback,
    RefusalKind,
};
use millstream_types::sabotage::Rule;
use millstream_types::{Epoch, MonoTime, SubtaskId, rounded};
use tokio::sync::mpsc;

use crate::channel::Inlet;
use crate::credit::Credit;
use crate::failure::{End, LinkError};
use crate::peer::{Inputs, Peer};
use crate::plane::Shared;

/// Channels of one connection: as many as a job may have subtasks on both sides.
const CHANNELS_MAX: usize = 100_000;

/// Answers a call until it ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    caller: SocketAddr,
    mut incoming: DataReceiver,
    outgoing: mpsc::Sender<DataReply>,
) {
    let hello = match greet(&shared, &mut incoming).await {
        Ok(hello) => hello,
        Err(refusal) => {
            let _ = outgoing.send(Err(refusal)).await;
            return;
        }
    };
    let peer = shared.peer(&hello.from);
    let was_connected = std::mem::replace(&mut peer.inputs.lock().is_connected, true);
    if was_connected {
        let message = format!(
            "taskmanager {} is connected already",
            hello.from.taskmanager
        );
        let _ = outgoing
            .send(Err(DataRefusal {
                kind: RefusalKind::Stale,
                message,
            }))
            .await;
        return;
    }
    let mut connection = Incoming {
        epoch: hello.epoch,
        shared,
        peer,
        live: BTreeMap::new(),
        waiting: BTreeMap::new(),
        closed: BTreeSet::new(),
        replies: VecDeque::from([DataMessage::Welcome]),
    };
    let stop = connection.shared.stop.clone();
    let end = tokio::select! {
        () = stop.cancelled() => return,
        end = connection.run(&mut incoming, &outgoing) => end,
    };
    if let Some(refusal) = end.as_refusal() {
        let _ = outgoing.try_send(Err(refusal));
    }
    connection.end(caller, &end);
}

/// The caller's first message, if it may call (fence F8).
async fn greet(shared: &Shared, incoming: &mut DataReceiver) -> Result<Hello, DataRefusal> {
    let refuse = |kind, message: String| Err(DataRefusal { kind, message });
    let limit = shared.settings.limits.handshake_timeout;
    let hello = match shared.env.clock().timeout(limit, incoming.next()).await {
        Ok(Ok(Some(DataMessage::Hello(hello)))) => hello,
        Ok(Ok(_)) => {
            return refuse(
                RefusalKind::Malformed,
                "the first message is no hello".into(),
            );
        }
        Ok(Err(error)) => return refuse(RefusalKind::Malformed, error.to_string()),
        Err(elapsed) => {
            let text = format!("no hello came within {}", rounded(elapsed.limit));
            return refuse(RefusalKind::Malformed, text);
        }
    };
    let own = &shared.identity;
    if shared.env.sabotage().removed(Rule::TalkToAnyEpoch) {
        return Ok(hello);
    }
    if hello.job != own.job {
        return refuse(
            RefusalKind::Stale,
            format!("this process is of job {}", own.job),
        );
    }
    if hello.epoch != own.epoch {
        let text = format!(
            "this process is of epoch {}, the caller of {}",
            own.epoch, hello.epoch
        );
        return refuse(RefusalKind::Stale, text);
    }
    if hello.to != own.own {
        let text = format!(
            "this process is of taskmanager {} in another life than, or not of, the one that was \
             called",
            own.own.taskmanager
        );
        return refuse(RefusalKind::Stale, text);
    }
    match shared.token().await {
        Some(token) if token == hello.token => Ok(hello),
        Some(_) => refuse(
            RefusalKind::Stranger,
            "the token is not that of this epoch".into(),
        ),
        None => {
            let text = "no task of this epoch was deployed here in time".into();
            refuse(RefusalKind::Stale, text)
        }
    }
}

struct Live {
    own: SubtaskId,
    receiver: FrameReceiver,
    elements: Box<dyn Inlet>,
    credit: Credit,
    is_ended: bool,
}

struct Incoming {
    /// The caller's, which is ours.
    epoch: Epoch,
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    live: BTreeMap<u32, Live>,
    /// Opened by the sender; the receiving task is not there yet.
    waiting: BTreeMap<ChannelId, u32>,
    /// What still arrives for these is nobody's.
    closed: BTreeSet<u32>,
    /// To be sent: bounded, since grants are sent only for what was received.
    replies: VecDeque<DataMessage>,
}

impl Incoming {
    async fn run(
        &mut self,
        incoming: &mut DataReceiver,
        outgoing: &mpsc::Sender<DataReply>,
    ) -> LinkError {
        loop {
            tokio::select! {
                message = incoming.next() => {
                    let now = self.shared.env.clock().monotonic();
                    let received = match message {
                        Ok(Some(message)) => self.receive(now, message),
                        Ok(None) => Err(LinkError::Ended),
                        Err(error) => Err(error.into()),
                    };
                    if let Err(error) = received {
                        return error;
                    }
                }
                () = self.peer.wake_incoming.notified() => self.look(),
                permit = outgoing.reserve(), if !self.replies.is_empty() => {
                    let Ok(permit) = permit else { return LinkError::Ended };
                    if let Some(reply) = self.replies.pop_front() {
                        permit.send(Ok(reply));
                    }
                }
            }
        }
    }

    fn receive(&mut self, now: MonoTime, message: DataMessage) -> Result<(), LinkError> {
        match message {
            DataMessage::Frame(bytes) => {
                let frame = Frame::parse(bytes).map_err(LinkError::Frame)?;
                self.accept(now, frame)
            }
            DataMessage::Open(open) => self.open(open),
            DataMessage::Close { number } => {
                self.live.remove(&number);
                self.waiting.retain(|_, waiting| *waiting != number);
                self.closed.insert(number);
                Ok(())
            }
            DataMessage::Hello(_) | DataMessage::Welcome | DataMessage::Feedback(_) => {
                let text = "a message that only a callee sends, or only once".to_owned();
                Err(LinkError::Protocol(text))
            }
        }
    }

    fn open(&mut self, open: OpenChannel) -> Result<(), LinkError> {
        let OpenChannel { number, channel } = open;
        let is_known = self.live.contains_key(&number) || self.closed.contains(&number);
        let n_channels = self.live.len() + self.waiting.len() + self.closed.len();
        let replaced = self.waiting.insert(channel, number);
        if is_known || replaced.is_some() || n_channels >= CHANNELS_MAX {
            return Err(LinkError::Protocol(format!(
                "channel {number} is opened twice, or too many"
            )));
        }
        self.bind();
        Ok(())
    }

    fn accept(&mut self, now: MonoTime, frame: Frame) -> Result<(), LinkError> {
        let number = frame.channel.0;
        let Some(live) = self.live.get_mut(&number) else {
            if self.closed.contains(&number) {
                return Ok(());
            }
            let text = format!("a frame of channel {number}, which was not granted anything");
            return Err(LinkError::Protocol(text));
        };
        match live.receiver.accept(now, frame).map_err(LinkError::Frame)? {
            Arrived::Element { element, cost } => {
                live.is_ended |= matches!(element, Element::EndOfPartition);
                live.credit.deliver(element.cost(), cost);
                live.elements.push(element);
            }
            Arrived::Control(control) => live.elements.push_control(control),
            Arrived::Part | Arrived::OtherEpoch(_) => {}
        }
        Ok(())
    }

    /// Looks at what tasks of this process want: they opened or ended, worked something off, or
    /// have something to say.
    fn look(&mut self) {
        let closing = std::mem::take(&mut self.peer.inputs.lock().closing);
        let ended: Vec<u32> = self
            .live
            .iter()
            .filter(|(_, live)| closing.contains(&live.own))
            .map(|(number, _)| *number)
            .collect();
        for number in ended {
            self.live.remove(&number);
            self.closed.insert(number);
            self.replies.push_back(DataMessage::Close { number });
        }
        self.bind();
        for (number, live) in &mut self.live {
            if let Some(grant) = live.receiver.consumed(live.credit.take_due()) {
                self.replies.push_back(DataMessage::Frame(grant));
            }
            if let Some(feedback) = live.elements.take_feedback() {
                let (opened, finished) = (feedback.opened, feedback.finished);
                let feedback = ReaderFeedback {
                    number: *number,
                    opened,
                    finished,
                };
                self.replies.push_back(DataMessage::Feedback(feedback));
            }
        }
    }

    /// Brings senders and receivers together, in whatever order they came.
    fn bind(&mut self) {
        let mut inputs = self.peer.inputs.lock();
        let Inputs { offered, gone, .. } = &mut *inputs;
        for (_, number) in self
            .waiting
            .extract_if(.., |channel, _| gone.contains(channel))
        {
            self.closed.insert(number);
            self.replies.push_back(DataMessage::Close { number });
        }
        let both: Vec<ChannelId> = self
            .waiting
            .keys()
            .filter(|channel| offered.contains_key(channel))
            .copied()
            .collect();
        let is_news = !both.is_empty();
        for channel in both {
            let (Some(number), Some(offer)) =
                (self.waiting.remove(&channel), offered.remove(&channel))
            else {
                continue;
            };
            let settings = &self.shared.settings;
            let mut receiver = FrameReceiver::new(
                FrameChannel(number),
                self.epoch,
                offer.codec,
                settings.window_bytes,
                settings.element_bytes_max,
            );
            self.replies.extend(receiver.open().map(DataMessage::Frame));
            let (own, elements, credit) = (offer.own, offer.elements, offer.credit);
            self.live.insert(
                number,
                Live {
                    own,
                    receiver,
                    elements,
                    credit,
                    is_ended: false,
                },
            );
        }
        drop(inputs);
        if is_news {
            // A reader may have spoken before its channel was bound.
            self.peer.wake_incoming.notify_one();
        }
    }

    /// Fails every task that still needed the connection.
    fn end(self, caller: SocketAddr, error: &LinkError) {
        let mut tasks: Vec<SubtaskId> = self
            .live
            .values()
            .filter(|live| !live.is_ended)
            .map(|live| live.own)
            .collect();
        let from = End::new(&self.peer.identity, caller);
        let to = End::new(&self.shared.identity.own, self.shared.identity.address());
        let failure = error.of_callee(&from, &to);
        let mut inputs = self.peer.inputs.lock();
        tasks.extend(inputs.offered.values().map(|offer| offer.own));
        tasks.retain(|task| !inputs.closing.contains(task));
        inputs.offered.clear();
        inputs.failure = Some(failure.clone());
        drop(inputs);
        tasks.sort_unstable();
        tasks.dedup();
        self.shared.fail(tasks, failure);
    }
}
