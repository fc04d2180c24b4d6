//! How a job ends: tasks first, then TERMINAL on the chain, then the announcement.

use super::machine::{Claim, Ending, Job, Phase, Terminal};
use super::messages::{Action, JobEnd};
use super::state::JobStatus;
use crate::chain::TerminalState;
use crate::moment::Moment;

impl Job {
    pub(super) fn on_cancel(&mut self, at: Moment, actions: &mut Vec<Action>) {
        match &self.phase {
            // Too late only where TERMINAL says otherwise already, or may do so any moment.
            Phase::Ending(ending) if ending.end.state() != TerminalState::Failed => return,
            Phase::Ending(ending) if ending.terminal != Terminal::NotWritten => return,
            Phase::Ended | Phase::Suspended => return,
            Phase::Executing => actions.push(Action::SuspendCheckpointing),
            Phase::Created
            | Phase::Starting
            | Phase::AwaitingSlots { .. }
            | Phase::Restarting(_)
            | Phase::Ending(_) => {}
        }
        self.set_status(JobStatus::Cancelling, actions);
        self.end(at, JobEnd::Canceled, actions);
    }

    pub(super) fn end(&mut self, at: Moment, end: JobEnd, actions: &mut Vec<Action>) {
        self.phase = Phase::Ending(Ending {
            end,
            abandon_at: at.now + self.config.cancellation_interval,
            terminal: Terminal::NotWritten,
        });
        self.cancel_live(actions);
    }

    pub(super) fn proceed_to_terminal(&mut self, at: Moment, actions: &mut Vec<Action>) {
        if self.any_live() {
            return;
        }
        let Phase::Ending(ending) = &mut self.phase else {
            return;
        };
        match ending.terminal {
            Terminal::Writing => return,
            Terminal::RetryAt(due) if due > at.now => return,
            Terminal::RetryAt(_) | Terminal::NotWritten => {}
        }
        match self.claim {
            Claim::Held(epoch) => {
                ending.terminal = Terminal::Writing;
                let state = ending.end.state();
                actions.push(Action::WriteTerminal { epoch, state });
            }
            // Only an owner may write the end.
            Claim::None => self.request_claim(at.now, actions),
            Claim::Requested(_) | Claim::RetryAt(_) => {}
        }
    }

    pub(super) fn on_terminal_written(&mut self, actions: &mut Vec<Action>) {
        let Phase::Ending(ending) = &self.phase else {
            return;
        };
        if ending.terminal != Terminal::Writing {
            return;
        }
        let end = ending.end.clone();
        self.phase = Phase::Ended;
        actions.push(Action::SuspendCheckpointing);
        if let Some(epoch) = self.epoch() {
            actions.push(Action::ReleaseSlots { epoch });
        }
        self.claim = Claim::None;
        self.set_status(status_of(end.state()), actions);
        actions.push(Action::Announce(end));
    }
}

pub(super) fn status_of(state: TerminalState) -> JobStatus {
    match state {
        TerminalState::Finished => JobStatus::Finished,
        TerminalState::Canceled => JobStatus::Canceled,
        TerminalState::Failed => JobStatus::Failed,
    }
}
