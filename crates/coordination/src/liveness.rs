//! Who is alive (SEMANTICS B15): heartbeats, lost connections, and one's own pauses.
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

use millstream_types::{Incarnation, MonoTime};

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
                write!(f, "no heartbeat for {silent_for:?}")
            }
            Self::ConnectionLost { grace } => {
                write!(f, "connection dropped and not restored within {grace:?}")
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Incarnation = Incarnation(1);

    struct Script(Liveness<&'static str>);

    impl Script {
        fn watching(peers: &[&'static str]) -> Self {
            let mut script = Self(Liveness::new(LivenessConfig::default()));
            for peer in peers {
                let connected = Event::Connected {
                    peer: *peer,
                    incarnation: LIFE,
                };
                assert_eq!(
                    script.at(0, connected),
                    [Action::SendHeartbeat { peer: *peer }]
                );
            }
            script
        }

        fn at(&mut self, millis: u64, event: Event<&'static str>) -> Vec<Action<&'static str>> {
            let mut actions = Vec::new();
            let now = MonoTime::from_millis(millis);
            self.0.step(now, event, &mut actions);
            assert!(self.0.deadline() > now);
            actions
        }

        /// Ticks when asked to, up to this time; what was lost, and when.
        fn run_until(&mut self, millis: u64) -> Vec<(u64, LostCause)> {
            let mut lost = Vec::new();
            while self.0.deadline() <= MonoTime::from_millis(millis) {
                let due = self.0.deadline().as_millis();
                for action in self.at(due, Event::Tick) {
                    if let Action::Lost { cause, .. } = action {
                        lost.push((due, cause));
                    }
                }
            }
            lost
        }
    }

    fn heard(peer: &'static str) -> Event<&'static str> {
        Event::Heard {
            peer,
            incarnation: LIFE,
        }
    }

    fn disconnected(peer: &'static str) -> Event<&'static str> {
        Event::Disconnected {
            peer,
            incarnation: LIFE,
        }
    }

    #[test]
    fn a_silent_peer_is_lost_after_the_timeout_and_a_talking_one_is_not() {
        let mut script = Script::watching(&["a", "b"]);
        script.run_until(5_000);
        script.at(5_000, heard("a"));
        let lost = script.run_until(14_999);
        let cause = LostCause::HeartbeatTimeout {
            silent_for: Duration::from_secs(10),
        };
        assert_eq!(lost, [(10_000, cause)]);
        assert_eq!(script.run_until(15_000), [(15_000, cause)]);
    }

    #[test]
    fn a_heartbeat_is_sent_every_interval() {
        let mut script = Script::watching(&["a"]);
        let sent = |actions: Vec<_>| actions == [Action::SendHeartbeat { peer: "a" }];
        assert!(!sent(script.at(1_999, Event::Tick)));
        assert!(sent(script.at(2_000, Event::Tick)));
        assert!(sent(script.at(4_000, Event::Tick)));
    }

    // Proves F155.
    #[test]
    fn a_dropped_connection_counts_after_the_grace_not_after_the_timeout() {
        let mut script = Script::watching(&["a"]);
        script.at(1_500, disconnected("a"));
        let cause = LostCause::ConnectionLost {
            grace: Duration::from_secs(1),
        };
        assert_eq!(script.run_until(60_000), [(2_500, cause)]);
    }

    #[test]
    fn a_connection_that_comes_back_within_the_grace_is_no_loss() {
        let mut script = Script::watching(&["a"]);
        script.at(1_500, disconnected("a"));
        let again = Event::Connected {
            peer: "a",
            incarnation: LIFE,
        };
        script.at(2_400, again);
        assert_eq!(script.run_until(12_399), []);
    }

    #[test]
    fn a_peer_is_not_blamed_for_our_own_pause() {
        let mut script = Script::watching(&["a"]);
        let actions = script.at(302_000, Event::Tick);
        assert_eq!(
            actions,
            [
                Action::Paused {
                    lasted: Duration::from_secs(300)
                },
                Action::SendHeartbeat { peer: "a" }
            ]
        );
        // Two seconds of silence were spent before the pause.
        assert_eq!(script.run_until(309_999), []);
        assert_eq!(script.run_until(310_000).len(), 1);
    }

    #[test]
    fn messages_about_another_life_or_an_unknown_peer_change_nothing() {
        let mut script = Script::watching(&["a"]);
        let old = Incarnation(7);
        for event in [
            Event::Heard {
                peer: "a",
                incarnation: old,
            },
            Event::Disconnected {
                peer: "a",
                incarnation: old,
            },
            Event::Forget {
                peer: "a",
                incarnation: old,
            },
            disconnected("b"),
            heard("b"),
        ] {
            assert_eq!(script.at(1_000, event), []);
        }
        assert_eq!(script.run_until(10_000).len(), 1);
    }

    #[test]
    fn a_peer_is_lost_only_once() {
        let mut script = Script::watching(&["a"]);
        script.at(0, disconnected("a"));
        assert_eq!(script.run_until(100_000).len(), 1);
        assert_eq!(script.0.deadline(), MonoTime::NEVER);
    }
}
