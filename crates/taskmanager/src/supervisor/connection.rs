//! The connection to the jobmanager: found, registered, watched, found again.

use std::time::Duration;

use millstream_coordination::liveness::{self, Liveness, LivenessConfig, LostCause};
use millstream_coordination::protocol::Registered;
use millstream_types::{Incarnation, MonoTime, rounded};

use super::messages::{Action, Notice};

/// First pause before a lost connection is tried again; it doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Longest pause: a jobmanager that comes back is found within it.
const RETRY_MAX: Duration = Duration::from_secs(3);
/// Time for a jobmanager to answer a registration.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    Down { retry_at: MonoTime },
    Connecting,
    Registering { until: MonoTime },
    Registered,
}

/// The jobmanager that was last registered with, until it is lost.
#[derive(Clone, Debug)]
struct Watched {
    incarnation: Incarnation,
    timeout: Duration,
    liveness: Liveness<()>,
}

/// What the connection asks of the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// A heartbeat is due.
    SendHeartbeat,
    /// The jobmanager is lost.
    Lost(LostCause),
}

/// State of the connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    link: Link,
    retry: Duration,
    watched: Option<Watched>,
    /// Since when no jobmanager has taken us in.
    alone_since: Option<MonoTime>,
    last_reason: String,
}

impl Connection {
    pub(super) fn new(now: MonoTime) -> Self {
        Self {
            link: Link::Down { retry_at: now },
            retry: RETRY_MIN,
            watched: None,
            alone_since: Some(now),
            last_reason: "no jobmanager was found yet".to_owned(),
        }
    }

    pub(super) fn is_registered(&self) -> bool {
        self.link == Link::Registered
    }

    pub(super) fn deadline(&self, may_connect: bool) -> MonoTime {
        let link = match self.link {
            Link::Down { retry_at } if may_connect => retry_at,
            Link::Registering { until } => until,
            Link::Down { .. } | Link::Connecting | Link::Registered => MonoTime::NEVER,
        };
        let watched = self
            .watched
            .as_ref()
            .map(|watched| watched.liveness.deadline());
        link.min(watched.unwrap_or(MonoTime::NEVER))
    }

    /// Since when nobody has taken us in, and why not.
    pub(super) fn alone(&self) -> Option<(MonoTime, &str)> {
        self.alone_since
            .map(|since| (since, self.last_reason.as_str()))
    }

    pub(super) fn on_connected(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        if self.link == Link::Connecting {
            self.link = Link::Registering {
                until: now + ANSWER_TIMEOUT,
            };
            actions.push(Action::Register);
        }
    }

    pub(super) fn on_registered(
        &mut self,
        now: MonoTime,
        registered: &Registered,
        actions: &mut Vec<Action>,
    ) -> Vec<Outcome> {
        if !matches!(self.link, Link::Registering { .. }) {
            return Vec::new();
        }
        self.link = Link::Registered;
        self.retry = RETRY_MIN;
        self.alone_since = None;
        let timeout = registered.heartbeat_timeout;
        let config = LivenessConfig {
            interval: registered.heartbeat_interval,
            timeout,
            // Without a connection tasks go on as long as without a heartbeat (DESIGN 1).
            reconnect_grace: timeout,
        };
        self.watched = Some(Watched {
            incarnation: registered.jobmanager,
            timeout,
            liveness: Liveness::new(config),
        });
        actions.push(Action::Note(Notice::Registered));
        self.step_liveness(now, actions, |incarnation| liveness::Event::Connected {
            peer: (),
            incarnation,
        })
    }

    /// Anything came over the connection.
    pub(super) fn on_heard(&mut self, now: MonoTime, actions: &mut Vec<Action>) -> Vec<Outcome> {
        if !self.is_registered() {
            return Vec::new();
        }
        self.step_liveness(now, actions, |incarnation| liveness::Event::Heard {
            peer: (),
            incarnation,
        })
    }

    /// There is no connection any more, or there never was one.
    pub(super) fn on_down(
        &mut self,
        now: MonoTime,
        reason: String,
        actions: &mut Vec<Action>,
    ) -> Vec<Outcome> {
        if matches!(self.link, Link::Down { .. }) {
            return Vec::new();
        }
        let was_registered = self.is_registered();
        self.alone_since.get_or_insert(now);
        self.last_reason.clone_from(&reason);
        let retry_in = self.rest(now);
        actions.push(Action::Note(Notice::Unconnected { reason, retry_in }));
        if !was_registered {
            return Vec::new();
        }
        self.step_liveness(now, actions, |incarnation| liveness::Event::Disconnected {
            peer: (),
            incarnation,
        })
    }

    /// The jobmanager was found, and not its storage. That is waited for without an end: a
    /// jobmanager is there.
    pub(super) fn on_storage_unseen(
        &mut self,
        now: MonoTime,
        reason: String,
        actions: &mut Vec<Action>,
    ) {
        if self.link != Link::Connecting {
            return;
        }
        self.alone_since = Some(now);
        self.last_reason.clone_from(&reason);
        let retry_in = self.rest(now);
        actions.push(Action::Note(Notice::StorageUnseen { reason, retry_in }));
    }

    /// Tries again later, and each time later than before; says in how long.
    fn rest(&mut self, now: MonoTime) -> Duration {
        let retry_in = self.retry;
        self.link = Link::Down {
            retry_at: now + retry_in,
        };
        self.retry = (retry_in * 2).min(RETRY_MAX);
        retry_in
    }

    /// Ends the connection from this side.
    pub(super) fn give_up(
        &mut self,
        now: MonoTime,
        reason: String,
        actions: &mut Vec<Action>,
    ) -> Vec<Outcome> {
        if matches!(self.link, Link::Down { .. }) {
            return Vec::new();
        }
        actions.push(Action::Disconnect);
        self.on_down(now, reason, actions)
    }

    /// What time asks for. `may_connect` is false while old tasks must end before a registration.
    pub(super) fn proceed(
        &mut self,
        now: MonoTime,
        may_connect: bool,
        actions: &mut Vec<Action>,
    ) -> Vec<Outcome> {
        let mut outcomes = self.step_liveness(now, actions, |_| liveness::Event::Tick);
        match self.link {
            Link::Down { retry_at } if retry_at <= now && may_connect => {
                self.link = Link::Connecting;
                actions.push(Action::Connect);
            }
            Link::Registering { until } if until <= now => {
                let reason = format!(
                    "the jobmanager did not answer for {}",
                    rounded(ANSWER_TIMEOUT)
                );
                outcomes.extend(self.give_up(now, reason, actions));
            }
            Link::Down { .. } | Link::Connecting | Link::Registering { .. } | Link::Registered => {}
        }
        outcomes
    }

    fn step_liveness(
        &mut self,
        now: MonoTime,
        actions: &mut Vec<Action>,
        event: impl FnOnce(Incarnation) -> liveness::Event<()>,
    ) -> Vec<Outcome> {
        let Some(watched) = &mut self.watched else {
            return Vec::new();
        };
        let mut seen = Vec::new();
        watched
            .liveness
            .step(now, event(watched.incarnation), &mut seen);
        let half_timeout = watched.timeout / 2;
        let mut outcomes = Vec::new();
        for action in seen {
            match action {
                liveness::Action::SendHeartbeat { .. } => outcomes.push(Outcome::SendHeartbeat),
                liveness::Action::Lost { cause, .. } => outcomes.push(Outcome::Lost(cause)),
                liveness::Action::Paused { lasted } => {
                    actions.push(Action::Note(Notice::Paused { lasted }));
                    if lasted > half_timeout {
                        // The jobmanager may have replaced our tasks meanwhile: the answer to
                        // another registration says so (fence F20).
                        let reason = format!("this process stood still for {}", rounded(lasted));
                        outcomes.extend(self.give_up(now, reason, actions));
                        return outcomes;
                    }
                }
            }
        }
        if outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Lost(_)))
        {
            self.watched = None;
        }
        outcomes
    }
}
