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
    assert_eq!(
        script.at(2_400, again),
        [Action::SendHeartbeat { peer: "a" }]
    );
    assert_eq!(script.run_until(12_399), []);
    assert_eq!(script.run_until(12_400).len(), 1);
}

#[test]
fn a_new_life_of_a_peer_ends_the_old_one() {
    let mut script = Script::watching(&["a"]);
    let reborn = Event::Connected {
        peer: "a",
        incarnation: Incarnation(2),
    };
    let lost = Action::Lost {
        peer: "a",
        incarnation: LIFE,
        cause: LostCause::ConnectionLost {
            grace: Duration::ZERO,
        },
    };
    let heartbeat = Action::SendHeartbeat { peer: "a" };
    assert_eq!(script.at(1_000, reborn), [lost, heartbeat]);
    // The old life says nothing more.
    script.at(2_000, heard("a"));
    assert_eq!(script.run_until(11_000).len(), 1);
}

#[test]
fn a_peer_that_was_forgotten_is_not_lost() {
    let mut script = Script::watching(&["a", "b"]);
    let forget = Event::Forget {
        peer: "a",
        incarnation: LIFE,
    };
    assert_eq!(script.at(1_000, forget), []);
    assert_eq!(script.run_until(20_000).len(), 1, "b");
}

#[test]
fn nothing_is_sent_over_a_dropped_connection_and_a_second_drop_changes_nothing() {
    let config = LivenessConfig {
        reconnect_grace: Duration::from_secs(5),
        ..LivenessConfig::default()
    };
    let mut script = Script(Liveness::new(config));
    let connected = Event::Connected {
        peer: "a",
        incarnation: LIFE,
    };
    script.at(0, connected);
    script.at(1_000, disconnected("a"));
    assert_eq!(script.at(2_000, Event::Tick), []);
    script.at(3_000, disconnected("a"));
    assert_eq!(script.run_until(5_999), []);
    assert_eq!(script.run_until(6_000).len(), 1);
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
fn a_pause_counts_from_one_interval_on_and_lengthens_the_grace_too() {
    // Late by an interval, as any machine may be.
    let mut script = Script::watching(&["a"]);
    assert_eq!(
        script.at(4_000, Event::Tick),
        [Action::SendHeartbeat { peer: "a" }]
    );
    let mut script = Script::watching(&["a"]);
    let lasted = Duration::from_millis(2_001);
    assert_eq!(script.at(4_001, Event::Tick)[0], Action::Paused { lasted });
    let mut script = Script::watching(&["a"]);
    script.at(1_500, disconnected("a"));
    let lasted = Duration::from_secs(60);
    assert_eq!(
        script.at(62_000, Event::Tick),
        [Action::Paused { lasted }],
        "half a second of the grace was used"
    );
    assert_eq!(script.run_until(62_499), []);
    assert_eq!(script.run_until(62_500).len(), 1);
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
