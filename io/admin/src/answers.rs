//! The answers to `/metrics`, `/health` and `/ready`.

use crate::page::{CONTENT_TYPE, Page};
use crate::roles::{Role, write_page};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use ramhold_runtime::{AskHandle, LoopSeen, now};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long the loop has to show itself. Less than a second, the default patience of probes; many times what a turn
/// takes on a machine with too much to do.
const PATIENCE: Duration = Duration::from_millis(800);

const NOT_FOUND: &str = "nothing is here: there are /metrics, /health and /ready\n";

/// Loop and machine as they were at one moment.
pub struct Snapshot<R> {
    pub of_loop: LoopSeen,
    pub role: R,
}

/// The way to the loop.
pub struct Asking<R> {
    pub ask: AskHandle,
    pub shown: watch::Receiver<Option<Arc<Snapshot<R>>>>,
}

impl<R> Clone for Asking<R> {
    fn clone(&self) -> Asking<R> {
        Asking { ask: self.ask.clone(), shown: self.shown.clone() }
    }
}

/// The loop's newest snapshot, and how long the loop has been stuck if it did not answer.
struct Look<R> {
    /// The last that was shown, if anything ever was.
    last: Option<Arc<Snapshot<R>>>,
    /// Since when the loop has not turned, if it did not answer.
    stuck: Option<Duration>,
}

impl<R: Role> Asking<R> {
    async fn look(mut self) -> Look<R> {
        self.shown.mark_unchanged();
        self.ask.ask();
        let is_shown = matches!(timeout(PATIENCE, self.shown.changed()).await, Ok(Ok(())));
        let stuck = if is_shown { None } else { Some(now().since(self.ask.last_turn())) };
        Look { last: self.shown.borrow().clone(), stuck }
    }
}

pub fn router<R: Role>(asking: Asking<R>) -> Router {
    Router::new()
        .route("/metrics", get(metrics::<R>))
        .route("/health", get(health::<R>))
        .route("/ready", get(ready::<R>))
        .fallback(|| async { (StatusCode::NOT_FOUND, NOT_FOUND) })
        .with_state(asking)
}

async fn metrics<R: Role>(State(asking): State<Asking<R>>) -> impl IntoResponse {
    let ask = asking.ask.clone();
    let look = asking.look().await;
    let mut page = Page::default();
    let last = look.last.as_deref().map(|snapshot| (&snapshot.of_loop, &snapshot.role));
    write_page(&mut page, now(), ask.last_turn(), last, look.stuck.is_some());
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page.into_text())
}

/// Whether the process lives: its loop turns. A supervisor that restarts processes asks this.
async fn health<R: Role>(State(asking): State<Asking<R>>) -> impl IntoResponse {
    let look = asking.look().await;
    let is_stuck = look.stuck.is_some();
    answer(&look, if is_stuck { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK })
}

/// Whether the process serves. Load balancers ask this.
async fn ready<R: Role>(State(asking): State<Asking<R>>) -> impl IntoResponse {
    let look = asking.look().await;
    let is_serving =
        look.stuck.is_none() && look.last.as_ref().is_some_and(|last| last.role.trouble().is_none());
    answer(&look, if is_serving { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE })
}

/// The same text for both: the first word is the state.
fn answer<R: Role>(look: &Look<R>, status: StatusCode) -> impl IntoResponse + use<R> {
    let text = match (&look.last, look.stuck) {
        (_, Some(age)) => format!("stuck: the loop has not turned for {:.1} s\n", age.as_secs_f64()),
        (Some(snapshot), None) => match snapshot.role.trouble() {
            None => {
                let degraded = snapshot.role.degraded().map(|reason| format!(", degraded: {reason}"));
                let notes: String =
                    snapshot.role.notes().into_iter().map(|note| note.replace('\n', " ") + "\n").collect();
                format!("serving{}\n{notes}", degraded.unwrap_or_default())
            }
            Some((phase, reason)) => format!("{phase}: {reason}\n"),
        },
        (None, None) => "starting: nothing is known yet\n".to_owned(),
    };
    (status, [(header::CACHE_CONTROL, "no-store")], text)
}
