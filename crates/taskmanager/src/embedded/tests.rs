use std::time::Duration;

use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::Registered;
use millstream_graph::Setting;
use millstream_types::{Epoch, Incarnation};
use parking_lot::Mutex;

use super::*;
use crate::testing::{JOB, deploy, graph, start, state};

/// The jobmanager's end of the newest connection.
type Peer = (mpsc::Sender<ToTaskmanager>, mpsc::Receiver<FromTaskmanager>);

struct Cluster {
    taskmanager: EmbeddedTaskmanager,
    peer: Peer,
    _dir: tempfile::TempDir,
}

async fn cluster() -> Cluster {
    let dir = tempfile::tempdir().unwrap();
    let settings = EmbeddedSettings {
        id: TaskmanagerId::new("tm-1").unwrap(),
        slots: 2,
        state_dir: dir.path().to_owned(),
        managed_bytes_per_slot: 16 << 20,
        channel_window_bytes: 256 << 10,
        checkpoints: None,
        storage: StorageAccess::default(),
    };
    let (peers, mut found) = mpsc::unbounded_channel();
    let env = Env::real("test");
    let taskmanager = EmbeddedTaskmanager::start(&env, settings, move || {
        let (to, incoming) = mpsc::channel(100);
        let (outgoing, from) = mpsc::channel(100);
        peers.send((to, from)).unwrap();
        (outgoing, incoming)
    });
    let mut peer: Peer = found.recv().await.unwrap();
    let registration = peer.1.recv().await.unwrap();
    assert!(matches!(registration, FromTaskmanager::Register(r) if r.slots == 2));
    let registered = Registered {
        jobmanager: Incarnation(1),
        heartbeat_interval: Duration::from_millis(500),
        heartbeat_timeout: Duration::from_secs(10),
    };
    peer.0
        .send(ToTaskmanager::Registered(registered))
        .await
        .unwrap();
    Cluster {
        taskmanager,
        peer,
        _dir: dir,
    }
}

impl Cluster {
    async fn tell(&self, message: ToTaskmanager) {
        self.peer.0.send(message).await.unwrap();
    }

    /// Reads until a message is such a one; says what came instead after half a minute.
    async fn until(&mut self, what: &str, is_it: impl Fn(&FromTaskmanager) -> bool) {
        let seen = Mutex::new(Vec::new());
        let wait = async {
            loop {
                let message = self.peer.1.recv().await.expect("the taskmanager is there");
                if is_it(&message) {
                    return;
                }
                seen.lock().push(message);
            }
        };
        let waited = Env::real("wait")
            .clock()
            .timeout(Duration::from_secs(30), wait)
            .await;
        assert!(waited.is_ok(), "no {what} after {:?}", seen.lock());
    }
}

fn is_state(epoch: u64, index: u32, wanted: ExecutionState) -> impl Fn(&FromTaskmanager) -> bool {
    move |message| *message == state(epoch, index, wanted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_job_runs_to_its_end_and_its_tasks_are_measured() {
    let mut cluster = cluster().await;
    cluster.tell(start(1, &graph(Some(1_000), 2))).await;
    let is_started = |m: &FromTaskmanager| {
        matches!(m, FromTaskmanager::JobProcessStarted { job, epoch, .. }
            if *job == JOB && *epoch == Epoch(1))
    };
    cluster.until("start", is_started).await;
    cluster.tell(deploy(1, 0)).await;
    cluster.tell(deploy(1, 1)).await;
    cluster
        .until("end", is_state(1, 0, ExecutionState::Finished))
        .await;
    let names_both = |message: &FromTaskmanager| match message {
        FromTaskmanager::Metrics(metrics) => metrics.len() == 2,
        _ => false,
    };
    cluster.until("metrics of both tasks", names_both).await;
    cluster.taskmanager.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_epoch_begins_after_the_tasks_of_the_last_one_ended() {
    let mut cluster = cluster().await;
    let graph = graph(None, 1);
    cluster.tell(start(1, &graph)).await;
    cluster.tell(deploy(1, 0)).await;
    cluster
        .until("run", is_state(1, 0, ExecutionState::Running))
        .await;
    // The old task still runs: it is ended first.
    cluster.tell(start(2, &graph)).await;
    cluster
        .until("end", is_state(1, 0, ExecutionState::Canceled))
        .await;
    let is_started = |m: &FromTaskmanager| matches!(m, FromTaskmanager::JobProcessStarted { epoch, .. } if *epoch == Epoch(2));
    cluster.until("start", is_started).await;
    cluster.tell(deploy(2, 0)).await;
    cluster
        .until("second run", is_state(2, 0, ExecutionState::Running))
        .await;
    // Going away takes them along.
    let Cluster {
        taskmanager,
        peer: (to, mut from),
        _dir,
    } = cluster;
    taskmanager.stop().await;
    let mut last = Vec::new();
    while let Some(message) = from.recv().await {
        last.push(message);
    }
    assert!(last.contains(&FromTaskmanager::Leaving), "{last:?}");
    assert!(
        last.contains(&state(2, 0, ExecutionState::Canceled)),
        "{last:?}"
    );
    drop(to);
}

// As on two machines whose directories have the same name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_directory_is_another_one_here_is_not_begun() {
    let mut cluster = cluster().await;
    let dir = tempfile::tempdir().unwrap();
    let mut graph = graph(None, 1);
    graph.settings.push(Setting {
        key: "checkpointing.dir".to_owned(),
        value: dir.path().display().to_string(),
        origin: "cluster".to_owned(),
    });
    cluster.tell(start(1, &graph)).await;
    let is_named = |message: &FromTaskmanager| match message {
        FromTaskmanager::JobProcessFailed { failure, .. } => {
            let object = format!("{}/{JOB}/job is not there", dir.path().display());
            assert!(failure.message.starts_with(&object), "{failure:?}");
            assert!(failure.remedy.is_some());
            true
        }
        _ => false,
    };
    cluster.until("the failure", is_named).await;
    std::fs::create_dir_all(dir.path().join(JOB.to_string())).unwrap();
    std::fs::write(dir.path().join(format!("{JOB}/job")), "job").unwrap();
    cluster.tell(start(2, &graph)).await;
    let is_started = |m: &FromTaskmanager| matches!(m, FromTaskmanager::JobProcessStarted { epoch, .. } if *epoch == Epoch(2));
    cluster.until("start", is_started).await;
    cluster.taskmanager.stop().await;
}
