//! Paths, and what holds for every answer.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use millstream_coordination::checkpoint::CheckpointRecord;
use millstream_env::Clock;
use millstream_types::{CheckpointId, JobId, TaskmanagerId};

use crate::error::ApiError;
use crate::json::{
    CheckpointJson, CheckpointsJson, JobDetailsJson, JobsJson, JobsOverviewJson, OverviewJson,
    SubtasksJson, TaskmanagerDetailsJson, TaskmanagersJson, details,
};
use crate::page;
use crate::view::{CheckpointsView, ClusterView, JobView, TaskmanagerView};

/// No request of ours has a body; this much is read past before one is refused.
const BODY_BYTES_MAX: u64 = 1 << 20;
/// A jobmanager that is busy for longer than this has no answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const STYLE: &str = include_str!("page/style.css");

/// On every answer, errors too. The page has no script, no frame, no form and no cookie.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'self'; script-src 'none'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

#[derive(Clone)]
struct Api {
    view: Arc<dyn ClusterView>,
    clock: Clock,
}

type Answer<T> = Result<Json<T>, ApiError>;
type IdText = Result<Path<String>, PathRejection>;

/// All paths over this view.
pub fn router(view: Arc<dyn ClusterView>, clock: Clock) -> Router {
    let api = Api { view, clock };
    Router::new()
        .route("/", get(index))
        .route("/style.css", get(style))
        .route("/overview", get(overview))
        .route("/jobs", get(jobs))
        .route("/jobs/overview", get(jobs_overview))
        .route("/jobs/{id}", get(job))
        .route("/jobs/{id}/checkpoints", get(checkpoints))
        .route(
            "/jobs/{id}/checkpoints/details/{checkpoint}",
            get(checkpoint),
        )
        .route(
            "/jobs/{id}/checkpoints/details/{checkpoint}/subtasks/{vertex}",
            get(checkpoint_subtasks),
        )
        .route("/taskmanagers", get(taskmanagers))
        .route("/taskmanagers/{id}", get(taskmanager))
        .fallback(|| async { ApiError::UnknownPath })
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed })
        .layer(from_fn_with_state(api.clone(), guard))
        .with_state(api)
}

/// Bounds every request, and marks every answer.
async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    let mut response = if content_length(request.headers()) > BODY_BYTES_MAX {
        let max_bytes = BODY_BYTES_MAX;
        ApiError::BodyTooLong { max_bytes }.into_response()
    } else {
        let answer = api.clock.timeout(ANSWER_WITHIN, next.run(request)).await;
        answer.unwrap_or_else(|_| ApiError::TooSlow(ANSWER_WITHIN).into_response())
    };
    response.headers_mut().extend(SECURITY_HEADERS);
    response
}

/// What the request says of its body; a body without a length is never read at all.
fn content_length(headers: &HeaderMap) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH);
    let digits = length.and_then(|value| value.to_str().ok());
    digits.and_then(|text| text.parse().ok()).unwrap_or(0)
}

async fn overview(State(api): State<Api>) -> Answer<OverviewJson> {
    Ok(Json(OverviewJson::new(&api.view.overview().await?)))
}

async fn jobs(State(api): State<Api>) -> Answer<JobsJson> {
    Ok(Json(JobsJson::new(&api.view.jobs().await?)))
}

async fn jobs_overview(State(api): State<Api>) -> Answer<JobsOverviewJson> {
    let jobs = api.view.jobs().await?;
    Ok(Json(JobsOverviewJson::new(&jobs, api.clock.wall())))
}

async fn job(State(api): State<Api>, id: IdText) -> Answer<JobDetailsJson> {
    let job = find_job(&api, job_id(id)?).await?;
    Ok(Json(JobDetailsJson::new(&job, api.clock.wall())))
}

async fn checkpoints(State(api): State<Api>, id: IdText) -> Answer<CheckpointsJson> {
    let id = job_id(id)?;
    let found = api.view.checkpoints(id).await?;
    let checkpoints = found.ok_or(ApiError::UnknownJob(id))?;
    Ok(Json(CheckpointsJson::new(&checkpoints)))
}

async fn checkpoint(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Answer<CheckpointJson> {
    let Path((id, checkpoint)) = path.map_err(|_| ApiError::MalformedPath)?;
    let (view, record) = find_checkpoint(&api, &id, &checkpoint).await?;
    let json = details(&record, &view.directory);
    json.map(Json).ok_or(ApiError::UnknownCheckpoint)
}

async fn checkpoint_subtasks(
    State(api): State<Api>,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Answer<SubtasksJson> {
    let Path((id, checkpoint, vertex)) = path.map_err(|_| ApiError::MalformedPath)?;
    let (_, record) = find_checkpoint(&api, &id, &checkpoint).await?;
    let json = SubtasksJson::new(&record, &vertex);
    json.map(Json).ok_or(ApiError::UnknownVertex)
}

async fn taskmanagers(State(api): State<Api>) -> Answer<TaskmanagersJson> {
    Ok(Json(TaskmanagersJson::new(&api.view.taskmanagers().await?)))
}

async fn taskmanager(State(api): State<Api>, id: IdText) -> Answer<TaskmanagerDetailsJson> {
    let Path(text) = id.map_err(|_| ApiError::MalformedPath)?;
    let id: TaskmanagerId = text.parse()?;
    let is_it = |taskmanager: &TaskmanagerView| taskmanager.id == id;
    let found = api.view.taskmanagers().await?.into_iter().find(is_it);
    let taskmanager = found.ok_or(ApiError::UnknownTaskmanager(id))?;
    Ok(Json(TaskmanagerDetailsJson::new(&taskmanager)))
}

async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

/// The page; `?job=<id>` opens one job, without it the newest that run are open.
async fn index(State(api): State<Api>, uri: Uri) -> Result<Response, ApiError> {
    let rows = api.view.jobs().await?;
    let chosen = match uri.query().and_then(|query| query.strip_prefix("job=")) {
        Some(text) => vec![text.parse::<JobId>()?],
        None => page::open_jobs(&rows),
    };
    let mut open = Vec::new();
    for &id in &chosen {
        let job = api.view.job(id).await?;
        let checkpoints = api.view.checkpoints(id).await?;
        match job.zip(checkpoints) {
            Some(job) => open.push(job),
            None if uri.query().is_some() => return Err(ApiError::UnknownJob(id)),
            // It went away between the two questions.
            None => {}
        }
    }
    let html = page::render(&page::Facts {
        now: api.clock.wall(),
        summary: api.view.overview().await?,
        rows,
        open,
        taskmanagers: api.view.taskmanagers().await?,
    });
    let html_type = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    Ok(([html_type], html.into_string()).into_response())
}

fn job_id(id: IdText) -> Result<JobId, ApiError> {
    let Path(text) = id.map_err(|_| ApiError::MalformedPath)?;
    Ok(text.parse()?)
}

/// A checkpoint of the history by its number.
async fn find_checkpoint(
    api: &Api,
    job: &str,
    checkpoint: &str,
) -> Result<(CheckpointsView, CheckpointRecord), ApiError> {
    let job: JobId = job.parse()?;
    let number = checkpoint.parse();
    let number = CheckpointId(number.map_err(|_| ApiError::MalformedCheckpoint)?);
    let found = api.view.checkpoints(job).await?;
    let mut view = found.ok_or(ApiError::UnknownJob(job))?;
    let is_it = |record: &CheckpointRecord| record.id == Some(number);
    // The latest ones are kept when the history has gone past them.
    let latest = [&view.latest_completed, &view.latest_failed];
    let in_latest = latest
        .into_iter()
        .flatten()
        .find(|record| is_it(record))
        .cloned();
    let at = view.records.iter().position(is_it);
    let record = at.map(|at| view.records.swap_remove(at)).or(in_latest);
    record
        .map(|record| (view, record))
        .ok_or(ApiError::UnknownCheckpoint)
}

async fn find_job(api: &Api, id: JobId) -> Result<JobView, ApiError> {
    let found = api.view.job(id).await?;
    found.ok_or(ApiError::UnknownJob(id))
}
