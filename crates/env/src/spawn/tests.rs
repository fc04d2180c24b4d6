use super::*;
use crate::ManualClock;
use millstream_types::WallTime;
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(5);

fn limits(n: usize) -> SpawnLimits {
    SpawnLimits {
        tasks: n,
        blocking: n,
        threads: n,
    }
}

fn spawner() -> Spawner {
    Spawner::current("test", limits(10))
}

#[tokio::test]
async fn the_owner_gets_the_result_and_the_task_is_no_longer_counted() {
    let spawner = spawner();
    let task = spawner.spawn("adder", async { 1 + 2 });
    assert_eq!(spawner.running(), ["adder"]);
    assert_eq!(task.await, Ok(3));
    assert!(spawner.running().is_empty());
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_owner_and_of_nobody_else() {
    let spawner = spawner();
    let steady = spawner.spawn("steady", async { 1 });
    let broken = spawner.spawn("broken", async { panic!("slot {} is gone", 3) });
    let Err(TaskError::Panicked { name, message }) = broken.await.map(|(): ()| ()) else {
        panic!("a panic is reported")
    };
    assert_eq!(
        (name.as_str(), message.as_str()),
        ("broken", "slot 3 is gone")
    );
    assert_eq!(steady.await, Ok(1));
}

#[tokio::test]
async fn a_panic_in_blocking_work_and_in_a_thread_is_reported_too() {
    let spawner = spawner();
    for task in [
        spawner.blocking("compaction", || panic!("disk")),
        spawner.thread("host", || panic!("disk")),
    ] {
        let result: Result<(), TaskError> = task.await;
        assert!(
            matches!(result, Err(TaskError::Panicked { .. })),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn a_task_dropped_by_its_owner_stops() {
    let spawner = spawner();
    drop(spawner.spawn("orphan", std::future::pending::<()>()));
    spawner.until_empty().await;
}

#[tokio::test]
async fn more_than_the_limit_is_refused_by_name_and_room_comes_back() {
    let spawner = Spawner::current("tm", limits(1));
    let first = spawner.spawn("first", std::future::pending::<()>());
    let refused = spawner.spawn("second", async {}).await;
    let expected = TaskError::Refused {
        name: "second".into(),
        spawner: "tm".into(),
        limit: 1,
    };
    assert_eq!(refused, Err(expected));
    drop(first);
    spawner.until_empty().await;
    assert_eq!(spawner.spawn("third", async {}).await, Ok(()));
}

#[tokio::test]
async fn a_supervised_task_that_panics_is_kept_for_the_spawners_owner() {
    let spawner = spawner();
    spawner.supervise("quiet", async {});
    spawner.supervise("heartbeat", async { panic!("clock") });
    spawner.failed().await;
    let failures = spawner.take_failures();
    assert_eq!(
        failures,
        [TaskError::Panicked {
            name: "heartbeat".into(),
            message: "clock".into()
        }]
    );
    assert!(spawner.take_failures().is_empty());
}

#[tokio::test]
async fn a_supervised_task_that_is_refused_is_a_failure_too() {
    let spawner = Spawner::current("tm", limits(0));
    spawner.supervise("heartbeat", async {});
    assert!(matches!(
        &spawner.take_failures()[..],
        [TaskError::Refused { .. }]
    ));
}

#[tokio::test]
async fn shutdown_waits_for_tasks_that_listen() {
    let spawner = spawner();
    let stop = spawner.stop_signal();
    spawner.supervise("polite", async move { stop.cancelled().await });
    let report = spawner.shutdown(&Clock::real(), GRACE).await;
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test]
async fn shutdown_names_who_had_to_be_stopped_and_who_could_not() {
    let manual = ManualClock::new(WallTime(0));
    let clock = manual.clock();
    let spawner = spawner();
    let (release, held) = std::sync::mpsc::channel::<()>();
    spawner.supervise("deaf", std::future::pending());
    let blocked = spawner.thread("blocked", move || held.recv().is_ok());

    let mut shutdown = std::pin::pin!(spawner.shutdown(&clock, GRACE));
    assert!(futures::poll!(shutdown.as_mut()).is_pending());
    manual.advance(GRACE);
    assert!(futures::poll!(shutdown.as_mut()).is_pending());
    // The stopped task needs a turn to go.
    while spawner.running() != ["blocked"] {
        tokio::task::yield_now().await;
    }
    manual.advance(ABORT_TIMEOUT);
    let report = shutdown.await;
    assert_eq!(
        (report.aborted, report.stuck),
        (vec!["deaf".into()], vec!["blocked".into()])
    );

    drop(release);
    assert_eq!(blocked.await, Ok(false));
}

#[tokio::test]
async fn a_group_ends_alone_and_with_the_group_it_is_in() {
    let spawner = spawner();
    let (job_a, job_b) = (spawner.group("a"), spawner.group("b"));
    for group in [&job_a, &job_b] {
        let stop = group.stop_signal();
        group.supervise("loop", async move { stop.cancelled().await });
    }
    assert_eq!(job_a.name(), "test/a");
    assert!(job_a.shutdown(&Clock::real(), GRACE).await.is_clean());
    assert_eq!((job_a.running().len(), job_b.running().len()), (0, 1));
    assert!(spawner.shutdown(&Clock::real(), GRACE).await.is_clean());
    assert!(job_b.running().is_empty());
}

#[tokio::test]
async fn a_host_runs_a_future_that_cannot_leave_its_thread() {
    let spawner = spawner();
    let task = spawner.host("subtask", || async {
        let not_send = std::rc::Rc::new(5);
        tokio::task::yield_now().await;
        (*not_send, std::thread::current().name().map(str::to_owned))
    });
    assert_eq!(task.await, Ok((5, Some("subtask".into()))));
}

#[tokio::test]
async fn under_simulation_hosts_and_blocking_work_stay_on_the_one_thread() {
    let spawner = Spawner::on(Handle::current(), "sim", limits(10), Blocking::Inline);
    let here = std::thread::current().id();
    let local = tokio::task::LocalSet::new();
    let (hosted, blocking) = local
        .run_until(async {
            let hosted = spawner.host("subtask", || async { std::thread::current().id() });
            let blocking = spawner.blocking("upload", || std::thread::current().id());
            (hosted.await, blocking.await)
        })
        .await;
    assert_eq!((hosted, blocking), (Ok(here), Ok(here)));
}

#[tokio::test]
async fn a_host_without_threads_begins_within_its_local_set_whoever_asks() {
    let here = std::thread::current().id();
    let local = tokio::task::LocalSet::new();
    let hosted = local
        .run_until(async {
            let spawner = Spawner::inline("sim", limits(10));
            assert!(spawner.is_inline());
            // Asked for by a task of the runtime, which is in no `LocalSet`.
            let asking = spawner.clone();
            let asked = spawner.spawn("asks", async move {
                let not_send = || async {
                    let kept = std::rc::Rc::new(std::thread::current().id());
                    tokio::task::yield_now().await;
                    *kept
                };
                asking.host("subtask", not_send).await
            });
            asked.await
        })
        .await;
    assert_eq!(hosted, Ok(Ok(here)));
}
