//! Whatever comes in whatever order, the invariants hold, and an end is reached.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Claim(usize),
    Slots {
        is_given: bool,
        is_old: bool,
    },
    Confirm {
        is_old: bool,
    },
    Task {
        vertex: u32,
        index: u32,
        state: usize,
        is_old: bool,
    },
    Lose {
        index: u32,
        is_leaving: bool,
    },
    Fail {
        is_final: bool,
    },
    Report {
        index: u32,
    },
    Cancel,
    Terminal {
        is_written: bool,
    },
    OwnershipLost,
}

fn steps() -> impl Strategy<Value = Step> {
    let rarely = || prop::bool::weighted(0.1);
    prop_oneof![
        6 => (0..40_000u64).prop_map(Step::Wait),
        8 => (0..8usize).prop_map(Step::Claim),
        8 => (prop::bool::weighted(0.9), rarely())
            .prop_map(|(is_given, is_old)| Step::Slots { is_given, is_old }),
        4 => rarely().prop_map(|is_old| Step::Confirm { is_old }),
        20 => (0..2u32, 0..2u32, 0..6usize, rarely()).prop_map(
            |(vertex, index, state, is_old)| Step::Task { vertex, index, state, is_old }
        ),
        2 => (0..2u32, any::<bool>())
            .prop_map(|(index, is_leaving)| Step::Lose { index, is_leaving }),
        1 => rarely().prop_map(|is_final| Step::Fail { is_final }),
        1 => (0..2u32).prop_map(|index| Step::Report { index }),
        1 => Just(Step::Cancel),
        2 => any::<bool>().prop_map(|is_written| Step::Terminal { is_written }),
        1 => rarely().prop_map(|_| Step::OwnershipLost),
    ]
}

/// What the shell was asked and has not answered, and what may no longer happen.
struct World {
    job: Job,
    now: u64,
    epoch: u64,
    is_claiming: bool,
    wants_slots: Option<Epoch>,
    wants_look: Option<Epoch>,
    is_writing: bool,
    is_end_durable: bool,
    was_cancelled: bool,
    announced: u32,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            job: Job::new(JobConfig::new(fixed(3, 5)), source_and_sink(2)),
            now: 0,
            epoch: 0,
            is_claiming: false,
            wants_slots: None,
            wants_look: None,
            is_writing: false,
            is_end_durable: false,
            was_cancelled: false,
            announced: 0,
        };
        world.tell(Event::Start);
        world
    }

    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.job.step(Moment::test(self.now), event, &mut actions);
        let now = MonoTime::from_millis(self.now);
        assert!(
            self.job.deadline() > now,
            "due at {:?}",
            self.job.deadline()
        );
        for action in actions {
            self.check(action);
        }
    }

    fn check(&mut self, action: Action) {
        match action {
            Action::Claim => {
                assert!(!self.is_claiming, "two claims at once");
                assert!(!self.is_end_durable, "fence F16: claimed after the end");
                self.is_claiming = true;
            }
            Action::RequestSlots { epoch, .. } => self.wants_slots = Some(epoch),
            Action::ConfirmClaim { epoch } => {
                assert_eq!(epoch, Epoch(self.epoch));
                self.wants_look = Some(epoch);
            }
            Action::Deploy { epoch, .. } => {
                assert_eq!(
                    epoch,
                    Epoch(self.epoch),
                    "fence F3: deployed without a claim"
                );
                assert!(!self.is_claiming && !self.was_cancelled && !self.is_end_durable);
            }
            Action::WriteTerminal { epoch, state } => {
                assert_eq!(epoch, Epoch(self.epoch));
                assert!(!self.is_writing && !self.is_end_durable);
                assert!(!self.was_cancelled || state == TerminalState::Canceled);
                let live = |e: &Execution| e.slot.is_some() && !e.state.is_terminal();
                assert!(!self.job.executions().values().any(live), "tasks still run");
                self.is_writing = true;
            }
            Action::Announce(_) => {
                assert!(self.is_end_durable, "announced before it is durable");
                self.announced += 1;
            }
            Action::StatusChanged { to, .. } => {
                self.was_cancelled |= to == JobStatus::Cancelling;
            }
            Action::ReleaseSlots { .. }
            | Action::StartCheckpointing { .. }
            | Action::SuspendCheckpointing
            | Action::CancelTask { .. }
            | Action::AbandonTask { .. }
            | Action::TaskChanged { .. }
            | Action::WillRestart { .. }
            | Action::RestartLoop { .. } => {}
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per kind of step")]
    fn step(&mut self, step: Step) {
        let event = match step {
            Step::Wait(millis) => return self.wait(millis),
            Step::Claim(_) if !self.is_claiming => return,
            Step::Claim(0) => {
                self.is_claiming = false;
                Event::ClaimNotWritten
            }
            Step::Claim(_) => return self.grant_claim(),
            Step::Slots { is_given, is_old } => {
                let Some(epoch) = self.wants_slots else {
                    return;
                };
                let epoch = Epoch(epoch.0 - u64::from(is_old));
                if is_given {
                    return self.give_slots(epoch);
                }
                let failure = FailureInfo::new(FailureKind::NoResourceAvailable, "no slots");
                Event::SlotsUnavailable { epoch, failure }
            }
            Step::Confirm { is_old } => {
                let Some(epoch) = self.wants_look else {
                    return;
                };
                let epoch = Epoch(epoch.0 - u64::from(is_old));
                Event::ClaimConfirmed { epoch }
            }
            Step::Task {
                vertex,
                index,
                state,
                is_old,
            } => {
                let state = [
                    ExecutionState::Initializing,
                    ExecutionState::Running,
                    ExecutionState::Running,
                    ExecutionState::Finished,
                    ExecutionState::Canceled,
                    ExecutionState::Failed,
                ][state];
                self.task(subtask(vertex, index), state, u64::from(is_old))
            }
            Step::Lose { index, is_leaving } => {
                let kind = if is_leaving {
                    FailureKind::TaskmanagerLeaving
                } else {
                    FailureKind::TaskmanagerLost
                };
                Event::TaskmanagerLost {
                    taskmanager: taskmanager(index),
                    failure: FailureInfo::new(kind, "gone"),
                }
            }
            Step::Fail { is_final } => {
                let mut failure = user_error();
                if is_final {
                    failure = failure.with_disposition(Disposition::FailJob);
                }
                Event::Failed {
                    failure,
                    attributed_to: None,
                }
            }
            Step::Report { index } => Event::Reported {
                taskmanager: taskmanager(index),
                tasks: Vec::new(),
            },
            Step::Cancel => Event::Cancel,
            Step::Terminal { is_written } => {
                if !std::mem::take(&mut self.is_writing) {
                    return;
                }
                self.is_end_durable = is_written;
                if is_written {
                    Event::TerminalWritten
                } else {
                    Event::TerminalNotWritten
                }
            }
            Step::OwnershipLost => {
                self.is_claiming = false;
                self.is_writing = false;
                Event::OwnershipLost
            }
        };
        self.tell(event);
    }

    fn wait(&mut self, millis: u64) {
        self.now += millis;
        self.tell(Event::Tick);
    }

    fn grant_claim(&mut self) {
        self.is_claiming = false;
        self.epoch += 1;
        let epoch = Epoch(self.epoch);
        let restore = None;
        self.tell(Event::Claimed { epoch, restore });
    }

    fn give_slots(&mut self, epoch: Epoch) {
        let subtasks = self.job.executions().keys();
        let slots = subtasks.map(|s| (*s, slot(s.index))).collect();
        self.tell(Event::SlotsAllocated { epoch, slots });
    }

    fn task(&self, subtask: SubtaskId, state: ExecutionState, age: u64) -> Event {
        let failure = (state == ExecutionState::Failed).then(user_error);
        Event::TaskState {
            epoch: Epoch(self.epoch.saturating_sub(age)),
            subtask,
            attempt: self.job.executions()[&subtask].attempt,
            state,
            failure,
        }
    }

    /// Everything is answered and nothing fails any more (I16).
    fn heal(&mut self) {
        for _ in 0..40 {
            self.wait(40_000);
            if self.is_claiming {
                self.grant_claim();
            }
            if let Some(epoch) = self.wants_slots.take() {
                self.give_slots(epoch);
            }
            if let Some(epoch) = self.wants_look.take() {
                self.tell(Event::ClaimConfirmed { epoch });
            }
            let subtasks: Vec<_> = self.job.executions().keys().copied().collect();
            for subtask in subtasks {
                let finished = self.task(subtask, ExecutionState::Finished, 0);
                self.tell(finished);
            }
            self.step(Step::Terminal { is_written: true });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// I18, fences F3 and F16: an end is reached once, is durable before it is told, and a cancel
    /// is never lost.
    #[test]
    fn every_job_ends_once_and_durably_whatever_happens_on_the_way(
        script in prop::collection::vec(steps(), 1..150)
    ) {
        let mut world = World::new();
        for step in script {
            world.step(step);
        }
        world.heal();
        let status = world.job.status();
        if status == JobStatus::Suspended {
            assert_eq!(world.announced, 0);
        } else {
            assert!(status.is_globally_terminal(), "{status}");
            assert_eq!(world.announced, 1);
            assert!(!world.was_cancelled || status == JobStatus::Canceled);
        }
    }
}
