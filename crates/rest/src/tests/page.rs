//! What the page says, and what it cannot be made to say.

use serde_json::json;

use super::fixture::{Fixture, RUNNING, after};
use super::get;
use crate::SlotWaitView;

async fn page(name: &str) -> String {
    let view = Fixture {
        name: name.to_owned(),
        ..Fixture::default()
    };
    let reply = get(view, "/").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.headers["content-type"], "text/html; charset=utf-8");
    reply.body
}

#[tokio::test]
async fn a_name_of_a_job_is_text_and_never_markup() {
    let html = page("<script>alert(1)</script>\"'><img src=x onerror=alert(2)>").await;
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(!html.contains("<script"));
    assert!(!html.contains("<img"));
}

#[tokio::test]
async fn the_page_has_no_script_and_no_style_of_its_own() {
    let html = page("word-count").await;
    for forbidden in [
        "<script",
        "style=\"",
        "<style",
        "javascript:",
        "http://",
        "https://",
    ] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert!(html.contains("<meta http-equiv=\"refresh\" content=\"5\">"));
    assert!(html.contains("<meta name=\"viewport\""));
    assert!(html.contains("href=\"/style.css\""));
    let css = get(Fixture::default(), "/style.css").await;
    assert_eq!(css.headers["content-type"], "text/css; charset=utf-8");
    assert!(css.body.contains("prefers-color-scheme: dark"));
}

/// Proves A0-1 for the page: FINISHED stays, with the counts it ended with.
#[tokio::test]
async fn a_finished_vertex_stays_with_its_counts() {
    let html = page("word-count").await;
    assert!(
        html.contains("<td>lines</td><td class=\"s-FINISHED\">FINISHED</td><td>1 FINISHED</td>")
    );
    assert!(html.contains("<td class=\"n\">1000</td>"));
    assert!(html.contains("<td>2 RUNNING / 1 FINISHED</td>"));
}

/// Proves A0-3: a size that there never was is n/a with the reason, not 0.
#[tokio::test]
async fn a_failed_checkpoint_has_no_size_but_a_reason() {
    let html = page("word-count").await;
    let cell = "<td>n/a: Checkpoint expired before completing. \
                1 of 2 subtasks did not acknowledge</td>";
    assert!(html.contains(cell), "{html}");
    assert!(html.contains("<td>2.9 KiB, of them 750 B new</td>"));
}

#[tokio::test]
async fn each_phase_of_each_subtask_has_its_column() {
    let html = page("word-count").await;
    let phases = [
        "Start delay",
        "Alignment",
        "Pre-barrier",
        "Synchronous",
        "Asynchronous",
    ];
    let header: String = phases.map(|phase| format!("<th>{phase}</th>")).concat();
    assert!(html.contains(&header));
    let times: String = [11, 22, 33, 44, 55]
        .map(|ms| format!("<td class=\"n\">{ms} ms</td>"))
        .concat();
    assert!(html.contains(&format!("<td>after 1.0 s</td>{times}")));
}

#[tokio::test]
async fn a_subtask_that_did_not_acknowledge_comes_first_with_what_it_did() {
    let html = page("word-count").await;
    let failed = html.split("Subtasks of checkpoint 6").nth(1).unwrap();
    let silent = failed
        .find("not acknowledged</strong>: in `sum` since 9 s")
        .unwrap();
    let acknowledged = failed.find("counts (1/2)").unwrap();
    assert!(silent < acknowledged);
}

#[tokio::test]
async fn the_last_failure_comes_with_the_first_of_its_kind() {
    let html = page("word-count").await;
    assert!(html.contains("division by zero in line 12"));
    assert!(html.contains("The same cause occurred 2 times in a row, first here:"));
    assert!(html.contains("division by zero in line 3"));
    assert!(html.contains("in counts (1/2) attempt 0 on tm-1"));
}

#[tokio::test]
async fn one_job_can_be_chosen() {
    let reply = get(Fixture::default(), &format!("/?job={RUNNING}")).await;
    assert_eq!(reply.status, 200);
    assert!(reply.body.contains("Subtasks of checkpoint 5"));
}

#[tokio::test]
async fn a_job_that_waits_for_slots_says_how_many_and_since_when() {
    let view = Fixture {
        slot_wait: Some(SlotWaitView {
            needed: 4,
            free: 1,
            since: after(40),
        }),
        ..Fixture::default()
    };
    let html = get(view.clone(), "/").await.body;
    let waits = "Waits for slots since 2023-11-14T22:14:00.000Z (1 min 0 s ago): 4 needed, 1 free.";
    assert!(html.contains(waits), "{html}");
    let job = get(view, &format!("/jobs/{RUNNING}")).await.json();
    let expected = json!({"needed": 4, "free": 1, "since": after(40).as_millis()});
    assert_eq!(job["slot-wait"], expected);
    assert!(!page("word-count").await.contains("Waits for slots"));
}
