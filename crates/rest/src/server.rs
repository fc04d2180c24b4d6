//! Connections: how many, how long, how much of each.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use millstream_env::net::{Conn, Listener};
use millstream_env::{Clock, StopSignal};
use tracing::debug;

use crate::error::ServeError;
use crate::routes::router;
use crate::view::ClusterView;

/// Connections at a time; more wait in the listener's queue.
const CONNECTIONS_MAX: usize = 128;
/// After this, a connection answers the request it is at and closes: nobody holds one by being slow.
const CONNECTION_OPEN_MAX: Duration = Duration::from_secs(30);
/// How long that last answer may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// Request line and headers; more is answered with 431.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers of a request; more is answered with 431.
const HEADERS_MAX: usize = 64;

/// Serves the view at this listener until told to stop; then answers what was asked, and ends.
/// All connections are part of this future: dropping it closes them.
///
/// # Errors
/// The listener takes no more connections.
pub async fn serve(
    mut listener: Listener,
    view: Arc<dyn ClusterView>,
    clock: Clock,
    stop: StopSignal,
) -> Result<(), ServeError> {
    let router = router(view, clock.clone());
    let addr = listener.local_addr();
    let mut connections = FuturesUnordered::new();
    let outcome = loop {
        tokio::select! {
            () = stop.cancelled() => break Ok(()),
            Some(()) = connections.next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok(conn) => {
                    connections.push(serve_connection(conn, router.clone(), &clock, &stop));
                }
                Err(source) => break Err(ServeError::Accept { addr, source }),
            },
        }
    };
    drop(listener);
    if outcome.is_ok() {
        while connections.next().await.is_some() {}
    }
    outcome
}

/// Ends when the client closes, when its time is over, or soon after `stop`.
async fn serve_connection(conn: Conn, router: Router, clock: &Clock, stop: &StopSignal) {
    let peer = conn.peer_addr();
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(conn), service));
    let until_stop = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = clock.sleep(CONNECTION_OPEN_MAX) => {}
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = until_stop => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            let closing = clock.timeout(CLOSE_WITHIN, connection).await;
            closing.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        // What clients do to their connections is theirs: no one here has to act.
        debug!(%peer, error = &*error, "connection ended");
    }
}
