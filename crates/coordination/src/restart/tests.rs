use super::testing::{exponential, rate};
use super::*;

const HALF: u64 = u64::MAX / 2;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Feeds failures at these milliseconds; the delays in milliseconds, `None` where it gave up.
fn run(config: RestartStrategyConfig, failures_ms: &[u64]) -> Vec<Option<u128>> {
    let mut strategy = RestartStrategy::new(config);
    failures_ms
        .iter()
        .map(|ms| delay_ms(strategy.on_failure(MonoTime::from_millis(*ms), HALF)))
        .collect()
}

fn delay_ms(decision: RestartDecision) -> Option<u128> {
    match decision {
        RestartDecision::Restart { delay, .. } => Some(delay.as_millis()),
        RestartDecision::GiveUp => None,
    }
}

fn fixed(attempts: u32) -> RestartStrategyConfig {
    testing::fixed(attempts, 2)
}

// Proves F16, as far as the strategy goes.
#[test]
fn without_a_strategy_the_first_failure_is_final() {
    let config = RestartStrategyConfig::None;
    assert_eq!(config.to_string(), "NoRestartBackoffTimeStrategy");
    assert_eq!(run(config, &[0]), [None]);
}

#[test]
fn exponential_delay_says_its_numbers_and_is_unlimited_by_default() {
    let config = RestartStrategyConfig::ExponentialDelay(exponential(0.1, None));
    assert_eq!(
        config.to_string(),
        "ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS=1000, maxBackoffMS=60000, \
         backoffMultiplier=1.5, resetBackoffThresholdMS=3600000, jitterFactor=0.1, \
         attemptsBeforeResetBackoff=unlimited)"
    );
}

// Proves F18, as far as the strategy goes; the executions are counted in the job's tests.
#[test]
fn fixed_delay_of_three_restarts_three_times_and_says_its_numbers() {
    assert_eq!(
        run(fixed(3), &[0, 3_000, 6_000, 9_000]),
        [Some(2_000), Some(2_000), Some(2_000), None]
    );
    assert_eq!(
        fixed(3).to_string(),
        "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts=3, backoffTimeMS=2000)"
    );
}

// Proves F19.
#[test]
fn fixed_delay_never_forgets_a_failure() {
    let ten_hours = 36_000_000;
    assert_eq!(
        run(fixed(3), &[0, 5_000, ten_hours, ten_hours + 5_000]),
        [Some(2_000), Some(2_000), Some(2_000), None]
    );
}

// Proves F20.
#[test]
fn failure_rate_gives_up_at_the_fourth_failure_in_a_row() {
    assert_eq!(
        run(rate(3, 300), &[0, 10_000, 20_000, 30_000]),
        [Some(10_000), Some(10_000), Some(10_000), None]
    );
}

// Proves F21 and F22.
#[test]
fn the_window_of_failure_rate_includes_its_boundary() {
    let at_boundary = run(rate(3, 300), &[0, 100_000, 200_000, 300_000]);
    assert_eq!(at_boundary[3], None);
    let behind_it = run(rate(3, 300), &[0, 100_000, 200_000, 300_001]);
    assert_eq!(behind_it[3], Some(10_000));
}

// Proves F23.
#[test]
fn failure_rate_never_gives_up_on_failures_that_are_rare_enough() {
    let a_day: Vec<u64> = (0..86_400 / 101).map(|n| n * 101_000).collect();
    assert!(run(rate(3, 300), &a_day).iter().all(Option::is_some));
}

// Proves F24.
#[test]
fn failure_rate_of_one_a_minute_tells_59_from_61_seconds() {
    assert_eq!(run(rate(1, 60), &[0, 59_000])[1], None);
    assert_eq!(run(rate(1, 60), &[0, 61_000])[1], Some(10_000));
    assert_eq!(
        rate(1, 60).to_string(),
        "FailureRateRestartBackoffTimeStrategy(failuresIntervalMS=60000, backoffTimeMS=10000, \
         maxFailuresPerInterval=1)"
    );
}

// Proves F25.
#[test]
fn exponential_delay_grows_by_half_each_time_up_to_its_maximum() {
    let mut strategy = RestartStrategy::new(RestartStrategyConfig::ExponentialDelay(exponential(
        0.0, None,
    )));
    let mut now = MonoTime::ZERO;
    let mut delays = Vec::new();
    for _ in 0..4_000 {
        let RestartDecision::Restart { delay, .. } = strategy.on_failure(now, HALF) else {
            panic!("unlimited");
        };
        delays.push(delay);
        now = now + delay + Duration::from_millis(1);
    }
    let first = [1.0, 1.5, 2.25, 3.375].map(seconds);
    assert_eq!(delays[..4], first);
    assert_eq!(delays[20..], vec![Duration::from_secs(60); 3_980]);
}

// Proves F26: the hour counts from the planned restart, not from the failure.
#[test]
fn exponential_delay_is_small_again_after_a_quiet_hour() {
    let config = || RestartStrategyConfig::ExponentialDelay(exponential(0.0, None));
    let second_restart = 2_000 + 1_500;
    let hour = 3_600_000;
    let reset = run(config(), &[0, 2_000, second_restart + hour]);
    assert_eq!(reset, [Some(1_000), Some(1_500), Some(1_000)]);
    let too_early = run(config(), &[0, 2_000, second_restart + hour - 1]);
    assert_eq!(too_early[2], Some(2_250));
}

// Proves F27.
#[test]
fn jitter_stays_within_a_tenth_and_between_initial_and_maximum() {
    let config = exponential(0.1, None);
    for attempt in 0..60 {
        let exact = 1.5f64.powi(attempt as i32);
        let lowest = (0.9 * exact).clamp(1.0, 60.0);
        let highest = (1.1 * exact).clamp(1.0, 60.0);
        for random in [0, 1, HALF, u64::MAX - 1, u64::MAX] {
            let delay = backoff(&config, attempt, random).as_secs_f64();
            assert!(
                (lowest - 1e-6..=highest + 1e-6).contains(&delay),
                "attempt {attempt}, random {random}: {delay} outside {lowest}..={highest}"
            );
        }
    }
    let exact = 1.5f64.powi(5);
    for (random, factor) in [(0, 0.9), (HALF, 1.0), (u64::MAX, 1.1)] {
        let delay = backoff(&config, 5, random).as_secs_f64();
        assert!((delay - factor * exact).abs() < 1e-6, "{random}: {delay}");
    }
}

// Proves F28.
#[test]
fn exponential_delay_of_two_attempts_gives_up_at_the_third() {
    let config = RestartStrategyConfig::ExponentialDelay(exponential(0.0, Some(2)));
    assert_eq!(
        run(config, &[0, 2_000, 5_000]),
        [Some(1_000), Some(1_500), None]
    );
}

#[test]
fn a_failure_before_the_planned_restart_is_no_new_attempt_of_exponential_delay() {
    let mut strategy = RestartStrategy::new(RestartStrategyConfig::ExponentialDelay(exponential(
        0.0,
        Some(1),
    )));
    strategy.on_failure(MonoTime::ZERO, HALF);
    assert_eq!(
        strategy.on_failure(MonoTime::from_millis(400), HALF),
        RestartDecision::Restart {
            delay: Duration::from_millis(600),
            is_new_attempt: false
        }
    );
    assert_eq!(
        strategy.on_failure(MonoTime::from_millis(1_000), HALF),
        RestartDecision::Restart {
            delay: Duration::ZERO,
            is_new_attempt: false
        }
    );
    assert_eq!(
        strategy.on_failure(MonoTime::from_millis(1_001), HALF),
        RestartDecision::GiveUp
    );
}
