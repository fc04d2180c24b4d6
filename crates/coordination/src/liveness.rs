//! Who is alive (B15): heartbeats, lost connections, and one's own pauses.
//!
//! The same machine watches taskmanagers on a jobmanager and the jobmanager on a taskmanager. It
//! gives liveness only: what it says wrongly costs a restart, never a row, since safety rests on
//! the claim chain alone.
//!
//! Invariants: a peer is lost once per life; a peer is not blamed for time in which we ourselves
//! did not run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use millstream_types::{Incarnation, MonoTime, rounded};

#[cfg(test)]
mod tests;

/// Intervals of heartbeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LivenessConfig {
    /// Time between two heartbeats to a peer (`heartbeat.interval`).
    pub interval: Duration,
    /// Silence after which a peer is lost (`heartbeat.timeout`).
    pub timeout: Duration,
    /// Time for a peer whose connection dropped to connect again.
    pub reconnect_grace: Duration,
}

impl Default for LivenessConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
            reconnect_grace: Duration::from_secs(1),
        }
    }
}

/// Something the machine is told, about one life of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event<P> {
    /// The peer registered, or its connection came back.
    Connected {
        /// Which.
        peer: P,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// Anything came from the peer.
    Heard {
        /// Which.
        peer: P,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The connection dropped.
    Disconnected {
        /// Which.
        peer: P,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The peer left on purpose, or was lost by other means.
    Forget {
        /// Which.
        peer: P,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The deadline is due.
    Tick,
}

/// Something the shell does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action<P> {
    /// Send a heartbeat.
    SendHeartbeat {
        /// To whom.
        peer: P,
    },
    /// The peer is lost; it is watched no longer.
    Lost {
        /// Which.
        peer: P,
        /// Which life of it.
        incarnation: Incarnation,
        /// How that was seen.
        cause: LostCause,
    },
    /// This process did not run for so long that peers may have given it up: check what it still
    /// owns before any effect outside (fence F20).
    Paused {
        /// For how long.
        lasted: Duration,
    },
}

/// How the loss of a peer was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostCause {
    /// Nothing came from it.
    HeartbeatTimeout {
        /// For so long.
        silent_for: Duration,
    },
    /// Its connection dropped and did not come back.
    ConnectionLost {
        /// Within this time.
        grace: Duration,
    },
}

impl fmt::Display for LostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeartbeatTimeout { silent_for } => {
                write!(f, "no heartbeat for {}", rounded(silent_for))
            }
            Self::ConnectionLost { grace } => {
                let grace = rounded(grace);
                write!(f, "connection dropped and not restored within {grace}")
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Peer {
    incarnation: Incarnation,
    heard_at: MonoTime,
    disconnected_at: Option<MonoTime>,
    send_at: MonoTime,
}

/// Watches peers named by `P`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Liveness<P> {
    config: LivenessConfig,
    peers: BTreeMap<P, Peer>,
}

impl<P: Ord + Clone> Liveness<P> {
    /// Watches nobody yet.
    pub fn new(config: LivenessConfig) -> Self {
        Self {
            config,
            peers: BTreeMap::new(),
        }
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> MonoTime {
        let due = self.peers.values().map(|peer| self.due(peer));
        due.min().unwrap_or(MonoTime::NEVER)
    }

    /// Takes an event; appends what is to be done.
    pub fn step(&mut self, now: MonoTime, event: Event<P>, actions: &mut Vec<Action<P>>) {
        self.notice_pause(now, actions);
        match event {
            Event::Connected { peer, incarnation } => {
                let state = Peer {
                    incarnation,
                    heard_at: now,
                    disconnected_at: None,
                    send_at: now,
                };
                // A new life of a peer follows the loss of the old one, which the registration
                // saw to; should it come without, the old one is as dead.
                if let Some(old) = self.peers.insert(peer.clone(), state)
                    && old.incarnation != incarnation
                {
                    actions.push(Action::Lost {
                        peer,
                        incarnation: old.incarnation,
                        cause: LostCause::ConnectionLost {
                            grace: Duration::ZERO,
                        },
                    });
                }
            }
            Event::Heard { peer, incarnation } => {
                if let Some(state) = self.current(&peer, incarnation) {
                    state.heard_at = now;
                }
            }
            Event::Disconnected { peer, incarnation } => {
                if let Some(state) = self.current(&peer, incarnation) {
                    state.disconnected_at.get_or_insert(now);
                }
            }
            Event::Forget { peer, incarnation } => {
                if self.current(&peer, incarnation).is_some() {
                    self.peers.remove(&peer);
                }
            }
            Event::Tick => {}
        }
        self.proceed(now, actions);
    }

    fn current(&mut self, peer: &P, incarnation: Incarnation) -> Option<&mut Peer> {
        let state = self.peers.get_mut(peer)?;
        (state.incarnation == incarnation).then_some(state)
    }

    /// If we run later than we asked to by more than an interval, it was us who stood still: what
    /// peers sent meanwhile may lie unread, so the time does not count against them.
    fn notice_pause(&mut self, now: MonoTime, actions: &mut Vec<Action<P>>) {
        let lasted = now - self.deadline();
        if lasted <= self.config.interval {
            return;
        }
        for peer in self.peers.values_mut() {
            peer.heard_at += lasted;
            if let Some(at) = &mut peer.disconnected_at {
                *at += lasted;
            }
        }
        actions.push(Action::Paused { lasted });
    }

    fn proceed(&mut self, now: MonoTime, actions: &mut Vec<Action<P>>) {
        let mut lost = Vec::new();
        for (id, peer) in &mut self.peers {
            if let Some(cause) = lost_cause(&self.config, peer, now) {
                lost.push((id.clone(), peer.incarnation, cause));
            } else if peer.send_at <= now {
                peer.send_at = now + self.config.interval;
                if peer.disconnected_at.is_none() {
                    actions.push(Action::SendHeartbeat { peer: id.clone() });
                }
            }
        }
        for (peer, incarnation, cause) in lost {
            self.peers.remove(&peer);
            actions.push(Action::Lost {
                peer,
                incarnation,
                cause,
            });
        }
    }

    fn due(&self, peer: &Peer) -> MonoTime {
        let reconnect = peer
            .disconnected_at
            .map(|at| at + self.config.reconnect_grace);
        let silence = peer.heard_at + self.config.timeout;
        silence
            .min(peer.send_at)
            .min(reconnect.unwrap_or(MonoTime::NEVER))
    }
}

fn lost_cause(config: &LivenessConfig, peer: &Peer, now: MonoTime) -> Option<LostCause> {
    let gone = peer
        .disconnected_at
        .is_some_and(|at| now - at >= config.reconnect_grace);
    let silent_for = now - peer.heard_at;
    if gone {
        Some(LostCause::ConnectionLost {
            grace: config.reconnect_grace,
        })
    } else if silent_for >= config.timeout {
        Some(LostCause::HeartbeatTimeout { silent_for })
    } else {
        None
    }
}
