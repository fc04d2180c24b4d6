use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use millstream_batch::Batch;
use millstream_coordination::protocol::TaskAddress;
use millstream_env::net::TcpNet;
use millstream_env::{Clock, EnvParts, Exit, Rng, Spawner, fs};
use millstream_exchange::queue::{ChannelQueue, Popped};
use millstream_exchange::{Barrier, BarrierKind, Control, Element, Feedback};
use millstream_graph::{ChannelId, EdgeId};
use millstream_rpc::data::{
    DataMessage, DataStreamError, Hello, OpenChannel, RefusalKind, connect_data, exchange_data,
};
use millstream_types::{Attempt, CheckpointId, Incarnation, MonoTime, TaskmanagerId, VertexId};
use tokio::sync::Notify;

use super::*;

const WINDOW: u64 = 256 << 10;
const JOB: JobId = JobId::from_bytes([3; 16]);
const EPOCH: Epoch = Epoch(2);
const TOKEN: ChannelToken = ChannelToken(0x5ec2e7);
/// The patience of a test, not a measure: a machine under load takes its time.
const PATIENCE: Duration = Duration::from_secs(30);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(
        "bytes",
        DataType::Binary,
        false,
    )]))
}

fn rows(bytes: usize) -> Element {
    let column = BinaryArray::from_vec(vec![&vec![7; bytes]]);
    let records = RecordBatch::try_new(schema(), vec![Arc::new(column)]).unwrap();
    Element::Batch(Batch::new(records))
}

fn barrier(id: u64) -> Element {
    Element::Barrier(Barrier {
        id: CheckpointId(id),
        epoch: EPOCH,
        kind: BarrierKind::Checkpoint,
        age: Duration::ZERO,
        learnt_at: MonoTime::ZERO,
        completed: None,
    })
}

/// The line between a task and the data plane, seen from both.
#[derive(Clone)]
struct Line {
    queue: Arc<Mutex<ChannelQueue>>,
    feedback: Arc<Mutex<Option<Feedback>>>,
    changed: Arc<Notify>,
    is_dropped: Arc<AtomicU64>,
}

impl Line {
    fn new() -> Self {
        Self {
            queue: Arc::new(Mutex::new(ChannelQueue::new(WINDOW))),
            feedback: Arc::default(),
            changed: Arc::default(),
            is_dropped: Arc::default(),
        }
    }

    /// The next element that is not control.
    async fn next(&self) -> (Element, u64) {
        let waiting = async {
            loop {
                let notified = self.changed.notified();
                match self.queue.lock().pop() {
                    Some(Popped::Element { element, cost }) => return (element, cost),
                    Some(Popped::Control(_)) => continue,
                    None => {}
                }
                notified.await;
            }
        };
        Clock::real()
            .timeout(PATIENCE, waiting)
            .await
            .expect("an element")
    }

    async fn until(&self, what: impl Fn(&Line) -> bool) {
        let waiting = async {
            while !what(self) {
                Clock::real().sleep(Duration::from_millis(2)).await;
            }
        };
        Clock::real()
            .timeout(PATIENCE, waiting)
            .await
            .expect("it happens");
    }
}

struct End(Line);

impl Drop for End {
    fn drop(&mut self) {
        self.0.is_dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Outlet for End {
    fn pop_control(&self) -> Option<Control> {
        self.0.queue.lock().pop_control()
    }

    fn pop(&self) -> Option<Popped> {
        self.0.queue.lock().pop()
    }

    fn send_feedback(&self, feedback: Feedback) {
        *self.0.feedback.lock() = Some(feedback);
        self.0.changed.notify_one();
    }
}

impl Inlet for End {
    fn push(&self, element: Element) {
        self.0.queue.lock().push(element);
        self.0.changed.notify_one();
    }

    fn push_control(&self, control: Control) {
        self.0.queue.lock().push_control(control);
        self.0.changed.notify_one();
    }

    fn take_feedback(&self) -> Option<Feedback> {
        self.0.feedback.lock().take()
    }
}

/// One process of the job.
struct Process {
    env: Env,
    plane: DataPlane,
    identity: ProcessIdentity,
    failures: Arc<Mutex<Vec<LinkFailed>>>,
}

fn env() -> Env {
    Env::from_parts(EnvParts {
        clock: Clock::real(),
        rng: Rng::from_seed(1),
        net: Arc::new(TcpNet::default()),
        fs: Arc::new(fs::MemoryFs::default()),
        spawner: Spawner::current("test", Default::default()),
        exit: Exit::recording().0,
    })
}

async fn process(name: &str, host: &str, settings: DataPlaneSettings) -> Process {
    let taskmanager = TaskmanagerId::new(name).unwrap();
    let identity = ProcessIdentity {
        taskmanager,
        incarnation: Incarnation(1),
    };
    let failures: Arc<Mutex<Vec<LinkFailed>>> = Arc::default();
    let address = ProcessAddress {
        job: JOB,
        epoch: EPOCH,
        own: identity.clone(),
        advertised_host: host.to_owned(),
    };
    let (env, seen) = (env(), Arc::clone(&failures));
    let on_failure = move |failed| seen.lock().push(failed);
    let plane = DataPlane::bind(
        &env,
        host.parse().unwrap(),
        0..=0,
        address,
        settings,
        on_failure,
    )
    .await;
    Process {
        env,
        plane: plane.unwrap(),
        identity,
        failures,
    }
}

async fn pair() -> (Process, Process) {
    let settings = DataPlaneSettings {
        window_bytes: WINDOW,
        ..Default::default()
    };
    (
        process("tm-1", "127.0.0.1", settings).await,
        process("tm-2", "127.0.0.1", settings).await,
    )
}

impl Process {
    fn endpoint(&self, channel: ChannelId, subtask: SubtaskId) -> ChannelEndpoint {
        let peer = ChannelPeer {
            task: TaskAddress {
                subtask,
                attempt: Attempt(0),
            },
            taskmanager: self.identity.taskmanager.clone(),
            incarnation: self.identity.incarnation,
            address: Some(self.plane.address()),
        };
        ChannelEndpoint {
            channel,
            peer,
            token: TOKEN,
        }
    }

    fn send(&self, to: &Process, index: u32) -> Line {
        let line = Line::new();
        let (channel, own, peer) = channel(index);
        let end = Box::new(End(line.clone()));
        self.plane
            .open_output(own, &to.endpoint(channel, peer), &schema(), end);
        line
    }

    fn receive(&self, from: &Process, index: u32) -> (Line, Credit) {
        let line = Line::new();
        let (channel, peer, own) = channel(index);
        let end = Box::new(End(line.clone()));
        let credit = self
            .plane
            .open_input(own, &from.endpoint(channel, peer), &schema(), end);
        (line, credit)
    }

    async fn failed(&self) -> LinkFailed {
        let waiting = async {
            loop {
                if let Some(failed) = self.failures.lock().first().cloned() {
                    return failed;
                }
                Clock::real().sleep(Duration::from_millis(2)).await;
            }
        };
        Clock::real()
            .timeout(PATIENCE, waiting)
            .await
            .expect("a failure")
    }
}

/// The n-th channel with its sending and its receiving task.
fn channel(index: u32) -> (ChannelId, SubtaskId, SubtaskId) {
    let channel = ChannelId {
        edge: EdgeId(0),
        from: index,
        to: index,
    };
    (
        channel,
        SubtaskId::new(VertexId(0), index),
        SubtaskId::new(VertexId(1), index),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elements_arrive_in_order_whoever_comes_first() {
    let (one, two) = pair().await;
    // The first channel is opened by its sender, the second by its receiver.
    let first = one.send(&two, 0);
    let (second_in, _credit) = two.receive(&one, 1);
    let sent = [
        rows(10),
        Element::Watermark(millstream_types::EventTime(5)),
        barrier(1),
    ];
    sent.iter()
        .for_each(|element| first.queue.lock().push(element.clone()));
    one.plane.wake(&two.identity);
    let (first_in, _credit) = two.receive(&one, 0);
    for expected in &sent[..2] {
        assert_eq!(first_in.next().await.0, *expected);
    }
    assert!(matches!(first_in.next().await.0, Element::Barrier(b) if b.id == CheckpointId(1)));
    let second = one.send(&two, 1);
    second.queue.lock().push(rows(20));
    one.plane.wake(&two.identity);
    assert_eq!(second_in.next().await.0, rows(20));
}

/// Proves F97.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_channel_with_ten_windows_of_data_does_not_stop_anothers_barrier() {
    let (one, two) = pair().await;
    let (blocked, free) = (one.send(&two, 0), one.send(&two, 1));
    let (blocked_in, blocked_credit) = two.receive(&one, 0);
    let (free_in, _credit) = two.receive(&one, 1);
    let piece = WINDOW as usize / 4;
    (0..40).for_each(|_| blocked.queue.lock().push(rows(piece)));
    one.plane.wake(&two.identity);
    // Its window is full: nobody takes from it.
    blocked_in.until(|line| line.queue.lock().len() >= 4).await;
    Clock::real().sleep(Duration::from_millis(200)).await;
    let in_line = blocked_in.queue.lock().len();
    assert!(
        in_line <= 5,
        "its window and one element, not {in_line} elements"
    );

    free.queue.lock().push(rows(piece));
    free.queue.lock().push(barrier(1));
    let clock = Clock::real();
    let pushed = clock.monotonic();
    one.plane.wake(&two.identity);
    assert_eq!(free_in.next().await.0, rows(piece));
    assert!(matches!(free_in.next().await.0, Element::Barrier(_)));
    let waited = clock.monotonic().saturating_since(pushed);
    assert!(waited < Duration::from_secs(1), "{waited:?}");

    // And it goes on when it is worked off.
    for _ in 0..40 {
        let (element, cost) = blocked_in.next().await;
        assert_eq!(element, rows(piece));
        blocked_credit.release(cost);
    }
}

/// Proves HND-073, first part: 10 MB and 40 MB through windows of 256 KiB, small rows around them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_ten_and_forty_megabytes_pass_a_window_of_256_kib() {
    let (one, two) = pair().await;
    let line = one.send(&two, 0);
    let (line_in, credit) = two.receive(&one, 0);
    let sizes = [100, 10_000_000, 100, 40_000_000, 100];
    sizes
        .iter()
        .for_each(|size| line.queue.lock().push(rows(*size)));
    one.plane.wake(&two.identity);
    for size in sizes {
        let (element, cost) = line_in.next().await;
        assert!(element == rows(size), "{size}");
        credit.release(cost);
    }
    assert!(one.failures.lock().is_empty() && two.failures.lock().is_empty());
}

/// HND-073: what is beyond the limit for one element fails its own task, with both sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_beyond_the_limit_fails_its_task_and_no_other() {
    let (one, two) = pair().await;
    let (large, small) = (one.send(&two, 0), one.send(&two, 1));
    let _large_in = two.receive(&one, 0);
    let (small_in, _credit) = two.receive(&one, 1);
    large.queue.lock().push(rows(70 << 20));
    one.plane.wake(&two.identity);
    let LinkFailed { tasks, failure } = one.failed().await;
    assert_eq!(tasks, [channel(0).1]);
    assert_eq!(failure.disposition, millstream_types::Disposition::FailJob);
    assert!(
        failure.causes[0].contains("above the limit of 67108864"),
        "{:?}",
        failure.causes
    );
    small.queue.lock().push(rows(10));
    one.plane.wake(&two.identity);
    assert_eq!(small_in.next().await.0, rows(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_speaks_to_its_enumerator_against_the_stream() {
    let (one, two) = pair().await;
    let line = one.send(&two, 0);
    let (line_in, _credit) = two.receive(&one, 0);
    let feedback = Feedback {
        opened: Some((Some(CheckpointId(4)), 2)),
        finished: 1,
    };
    *line_in.feedback.lock() = Some(feedback);
    two.plane.wake(&one.identity);
    line.until(|line| line.feedback.lock().is_some()).await;
    assert_eq!(line.feedback.lock().take(), Some(feedback));
    line.queue
        .lock()
        .push(Element::Splits(Bytes::from_static(b"splits")));
    one.plane.wake(&two.identity);
    assert_eq!(
        line_in.next().await.0,
        Element::Splits(Bytes::from_static(b"splits"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_process_fails_each_task_that_needed_it_once_and_names_both_ends() {
    let (one, two) = pair().await;
    let lines = [one.send(&two, 0), one.send(&two, 1)];
    let inputs = [two.receive(&one, 0), two.receive(&one, 1)];
    lines
        .iter()
        .for_each(|line| line.queue.lock().push(rows(10)));
    one.plane.wake(&two.identity);
    for (line, _) in &inputs {
        line.next().await;
    }
    let (one_address, two_address) = (one.plane.address(), two.plane.address());
    let Process {
        plane, failures, ..
    } = two;
    drop(plane);
    let LinkFailed { tasks, failure } = one.failed().await;
    assert_eq!(tasks, [channel(0).1, channel(1).1]);
    assert_eq!(failure.kind, FailureKind::Link);
    let expected = format!(
        "the data connection from taskmanager tm-1 ({one_address}) to taskmanager tm-2 \
         ({two_address}) broke"
    );
    assert_eq!(failure.message, expected);
    assert!(
        !failure.causes[0].contains("transport error"),
        "{:?}",
        failure.causes
    );
    Clock::real().sleep(Duration::from_millis(100)).await;
    assert_eq!(one.failures.lock().len(), 1, "once");
    assert!(
        failures.lock().is_empty(),
        "whoever ends a data plane is not told of it"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_sender_fails_the_tasks_that_wait_for_it_but_not_those_it_finished() {
    let (one, two) = pair().await;
    let (done, open) = (one.send(&two, 0), one.send(&two, 1));
    let (done_in, _credit) = two.receive(&one, 0);
    let (open_in, _credit) = two.receive(&one, 1);
    done.queue.lock().push(Element::EndOfPartition);
    open.queue.lock().push(rows(10));
    one.plane.wake(&two.identity);
    assert_eq!(done_in.next().await.0, Element::EndOfPartition);
    open_in.next().await;
    drop(one);
    let LinkFailed { tasks, failure } = two.failed().await;
    assert_eq!(tasks, [channel(1).2]);
    assert!(
        failure
            .message
            .contains("from taskmanager tm-1 (127.0.0.1:"),
        "{}",
        failure.message
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_finished_task_left_in_line_still_arrives() {
    let (one, two) = pair().await;
    let line = one.send(&two, 0);
    (0..20).for_each(|_| line.queue.lock().push(rows(WINDOW as usize / 2)));
    line.queue.lock().push(Element::EndOfPartition);
    one.plane.wake(&two.identity);
    one.plane.close(channel(0).1);
    let (line_in, credit) = two.receive(&one, 0);
    for _ in 0..20 {
        let (element, cost) = line_in.next().await;
        assert_eq!(element, rows(WINDOW as usize / 2));
        credit.release(cost);
    }
    assert_eq!(line_in.next().await.0, Element::EndOfPartition);
    line.until(|line| line.is_dropped.load(Ordering::Relaxed) == 1)
        .await;
    assert!(one.failures.lock().is_empty() && two.failures.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_whose_consumer_ended_is_let_go() {
    let (one, two) = pair().await;
    let line = one.send(&two, 0);
    let (line_in, _credit) = two.receive(&one, 0);
    line.queue.lock().push(rows(10));
    one.plane.wake(&two.identity);
    line_in.next().await;
    two.plane.close(channel(0).2);
    line.until(|line| line.is_dropped.load(Ordering::Relaxed) == 1)
        .await;
    assert_eq!(line_in.is_dropped.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_whose_consumer_ended_before_the_sender_came_is_let_go_too() {
    let (one, two) = pair().await;
    let _input = two.receive(&one, 0);
    let _other = two.receive(&one, 1);
    two.plane.close(channel(0).2);
    let line = one.send(&two, 0);
    line.until(|line| line.is_dropped.load(Ordering::Relaxed) == 1)
        .await;
    assert!(one.failures.lock().is_empty());
}

/// Proves HND-079, third part, as far as the data plane goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_cannot_be_reached_is_named_with_its_address() {
    let (one, two) = pair().await;
    let (channel, own, peer) = channel(0);
    let mut endpoint = two.endpoint(channel, peer);
    endpoint.peer.address = Some(DataAddress {
        host: "127.0.0.1".into(),
        port: 1,
    });
    let line = Line::new();
    one.plane
        .open_output(own, &endpoint, &schema(), Box::new(End(line.clone())));
    let LinkFailed { tasks, failure } = one.failed().await;
    assert_eq!(tasks, [own]);
    assert_eq!(
        failure.message,
        "taskmanager tm-1 cannot reach taskmanager tm-2 at 127.0.0.1:1"
    );
    let cause = "cannot reach 127.0.0.1:1: connection refused, nothing listens there";
    assert_eq!(failure.causes, [cause]);
    assert_eq!(
        line.is_dropped.load(Ordering::Relaxed),
        0,
        "its producer would take its rows for taken, and end"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_meet_over_ipv6() {
    let settings = DataPlaneSettings::default();
    let one = process("tm-1", "::1", settings).await;
    let two = process("tm-2", "::1", settings).await;
    assert!(two.plane.address().to_string().starts_with("[::1]:"));
    let line = one.send(&two, 0);
    let (line_in, _credit) = two.receive(&one, 0);
    line.queue.lock().push(rows(10));
    one.plane.wake(&two.identity);
    assert_eq!(line_in.next().await.0, rows(10));
}

/// What a caller of `callee` gets when it sends these.
async fn call(callee: &Process, messages: Vec<DataMessage>) -> (usize, DataStreamError) {
    let address = callee.plane.address();
    let connection = connect_data(&callee.env, &address, PATIENCE).await.unwrap();
    let (outgoing, to_send) = mpsc::channel(16);
    for message in messages {
        outgoing.send(message).await.unwrap();
    }
    let calling = async {
        let mut incoming = match exchange_data(&connection, to_send).await {
            Ok(incoming) => incoming,
            Err(error) => return (0, error),
        };
        for n in 0.. {
            match incoming.next().await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    return (
                        n,
                        DataStreamError::Lost {
                            cause: "ended".into(),
                        },
                    );
                }
                Err(error) => return (n, error),
            }
        }
        unreachable!("it ends")
    };
    Clock::real()
        .timeout(PATIENCE, calling)
        .await
        .expect("an answer")
}

/// Proves fence F8: who is of another job, epoch or life, or does not know the token, is refused
/// before anything it sends is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_does_not_belong_here_is_refused_with_a_reason() {
    let (one, two) = pair().await;
    let (line_in, _credit) = two.receive(&one, 0);
    let good = Hello {
        job: JOB,
        epoch: EPOCH,
        from: one.identity.clone(),
        to: two.identity.clone(),
        token: TOKEN,
    };
    let other_life = ProcessIdentity {
        incarnation: Incarnation(9),
        ..two.identity.clone()
    };
    let cases = [
        (
            Hello {
                job: JobId::from_bytes([4; 16]),
                ..good.clone()
            },
            RefusalKind::Stale,
        ),
        (
            Hello {
                epoch: Epoch(1),
                ..good.clone()
            },
            RefusalKind::Stale,
        ),
        (
            Hello {
                to: other_life,
                ..good.clone()
            },
            RefusalKind::Stale,
        ),
        (
            Hello {
                token: ChannelToken(1),
                ..good.clone()
            },
            RefusalKind::Stranger,
        ),
    ];
    for (hello, expected) in cases {
        let open = OpenChannel {
            number: 0,
            channel: channel(0).0,
        };
        let messages = vec![DataMessage::Hello(hello.clone()), DataMessage::Open(open)];
        let (answers, error) = call(&two, messages).await;
        let DataStreamError::Refused(refusal) = error else {
            panic!("{error:?} for {hello:?}")
        };
        assert_eq!(
            (answers, refusal.kind),
            (0, expected),
            "{}",
            refusal.message
        );
        assert!(!refusal.message.contains(&TOKEN.0.to_string()));
    }
    assert!(two.failures.lock().is_empty() && line_in.queue.lock().is_empty());
    // The right one is served as if nothing had been.
    let line = one.send(&two, 0);
    line.queue.lock().push(rows(10));
    one.plane.wake(&two.identity);
    assert_eq!(line_in.next().await.0, rows(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_bytes_end_the_connection_and_fail_its_tasks() {
    let hello = |one: &Process, two: &Process| {
        DataMessage::Hello(Hello {
            job: JOB,
            epoch: EPOCH,
            from: one.identity.clone(),
            to: two.identity.clone(),
            token: TOKEN,
        })
    };
    let open = DataMessage::Open(OpenChannel {
        number: 0,
        channel: channel(0).0,
    });
    let mut damaged = vec![0; 64];
    damaged[0] = 64;
    damaged[8] = 1;
    let hostile = [
        vec![open.clone(), DataMessage::Frame(Bytes::from(damaged))],
        vec![
            open.clone(),
            DataMessage::Frame(Bytes::from_static(b"short")),
        ],
        vec![open.clone(), open.clone()],
        vec![open.clone(), DataMessage::Welcome],
    ];
    for messages in hostile {
        let (one, two) = pair().await;
        let _input = two.receive(&one, 0);
        let all = [hello(&one, &two)].into_iter().chain(messages).collect();
        let (_, error) = call(&two, all).await;
        assert!(
            matches!(&error, DataStreamError::Refused(r) if r.kind == RefusalKind::Malformed),
            "{error:?}"
        );
        let LinkFailed { tasks, .. } = two.failed().await;
        assert_eq!(tasks, [channel(0).2]);
        assert_eq!(two.failures.lock().len(), 1);
    }
    let (one, two) = pair().await;
    let _input = two.receive(&one, 0);
    let (_, error) = call(&two, vec![DataMessage::Welcome]).await;
    assert!(matches!(error, DataStreamError::Refused(_)), "{error:?}");
    assert!(two.failures.lock().is_empty(), "a stranger fails nobody");
}
