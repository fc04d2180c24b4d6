//! What a run is judged by: at each look, and at its end.

use std::time::Duration;

use millstream_coordination::chain::TerminalState;
use millstream_coordination::job::JobStatus;

use crate::chain::ChainWatch;
use crate::host::Control;
use crate::leftovers::left_over;
use crate::run::Simulation;

/// After the last fault: until the job runs, until a checkpoint completed, and until the output is
/// whole, beyond what its rows take.
const RUNNING_WITHIN: Duration = Duration::from_secs(60);
const CHECKPOINT_WITHIN: Duration = Duration::from_secs(90);
const DONE_WITHIN: Duration = Duration::from_secs(150);
/// After the end of the job, until nothing of its checkpoints is left: a jobmanager sweeps a minute
/// later once more, and one that starts in between looks half a minute later for what there is to do.
const CLEAN_WITHIN: Duration = Duration::from_secs(240);

impl Simulation {
    /// Whether the job is done; or what is wrong.
    pub(super) fn look(&mut self, now: Duration) -> Result<bool, Vec<String>> {
        let findings = self.output.look();
        if !findings.is_empty() {
            return Err(findings);
        }
        let seen = self.world.observed.get();
        if let (None, Some(job)) = (&self.chain, seen.job) {
            let parallelism = self.world.options.parallelism;
            self.chain = Some(ChainWatch::new(job, parallelism));
        }
        if let Some(chain) = &mut self.chain {
            let store = self.world.objects.inner();
            let judged = chain.look(store).and_then(|()| {
                let completions = self.journal.take_completions();
                let mut completions = completions.into_iter();
                completions.try_for_each(|id| chain.check_completion(id))?;
                let mut restores = self.journal.take_restores().into_iter();
                restores.try_for_each(|restored| chain.check_restore(restored))
            });
            judged.map_err(|violation| vec![violation])?;
        }
        self.check_promises()?;
        let accused = self.controls.values().find_map(Control::accused);
        let stale = self.journal.obeyed_stale();
        if let Some(violation) = seen.accused.or(stale).or(accused) {
            return Err(vec![violation]);
        }
        match seen.status {
            Some(JobStatus::Finished) => Ok(true),
            Some(JobStatus::Failed | JobStatus::Canceled) => {
                Err(vec![format!("the job ended: {:?}", seen.end)])
            }
            Some(_) | None => {
                let is_new = self.healed.is_some_and(|(at, _)| seen.at > at);
                self.has_run |= is_new && seen.status == Some(JobStatus::Running);
                self.check_liveness(now, seen.status).map(|()| false)
            }
        }
    }

    /// I5: no file is visible whose checkpoint, or a later one, is not durably complete.
    fn check_promises(&self) -> Result<(), Vec<String>> {
        let Some(chain) = &self.chain else {
            return Ok(());
        };
        let newest = chain.newest_completed();
        match self.output.promised_by().find(|(_, id)| Some(*id) > newest) {
            None => Ok(()),
            Some((name, _)) => Err(vec![format!(
                "I5: {name:?} is visible, and the newest completed checkpoint is {newest:?}"
            )]),
        }
    }

    /// I16: once the faults ended, the job runs, takes checkpoints and comes to its end.
    fn check_liveness(&self, now: Duration, status: Option<JobStatus>) -> Result<(), Vec<String>> {
        let Some((healed_at, completed_then)) = self.healed else {
            return Ok(());
        };
        let late = |what: &str, limit: Duration| {
            Err(vec![format!(
                "I16: {what} within {limit:?} after the last fault; the job is {status:?}"
            )])
        };
        let options = &self.world.options;
        let since = now.saturating_sub(healed_at);
        let completed = self.chain.as_ref().map_or(0, ChainWatch::n_completed);
        let rows_take = Duration::from_secs(options.rows / options.rate);
        if since > RUNNING_WITHIN && !self.has_run {
            return late("not RUNNING", RUNNING_WITHIN);
        }
        if since > CHECKPOINT_WITHIN && completed == completed_then {
            return late("no checkpoint", CHECKPOINT_WITHIN);
        }
        if since > rows_take + DONE_WITHIN {
            return late("not done", rows_take + DONE_WITHIN);
        }
        Ok(())
    }

    /// The job is done: all must be there, and nothing more.
    pub(super) fn conclude(&mut self) -> Vec<String> {
        let mut violations = self.output.conclude();
        let end = self.chain.as_ref().and_then(ChainWatch::end);
        if !matches!(end, Some(TerminalState::Finished)) {
            violations.push(format!("I18: the job is done and its chain says {end:?}"));
        }
        violations
    }

    /// F171: whether nothing is left of a job that ended so long ago.
    pub(super) fn is_clean(&self, since: Duration) -> Result<bool, Vec<String>> {
        let Some(job) = self.world.observed.get().job else {
            return Ok(true);
        };
        let names = left_over(self.world.objects.inner(), job);
        match names.first() {
            None => Ok(true),
            Some(_) if since <= CLEAN_WITHIN => Ok(false),
            Some(first) => Err(vec![format!(
                "F171: {first} and {} more are left {since:?} after the end of the job",
                names.len() - 1
            )]),
        }
    }
}
