//! What pairs of processes that took turns allow to say, and whether the machine was quiet enough to say it.
//!
//! On a shared machine some guard refuses most of the time, yet sides that take turns see the same disturbances. So a
//! disturbed comparison is held against a control: side A against itself, each turn with the next but one, further apart
//! in time than A and B are. Where that may have moved by x %, differences up to x % are noise and larger ones remain what
//! they are. That two sides are alike is believed unless A certainly differs from itself.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::campaign::{Clock, PairRun, compared, control};
use crate::guards::{BUILDS, Readings};
use crate::record::{self, Checksum};
use crate::stats::calibration::Calibration;
use crate::stats::interval::{Interval, minimum_detectable_effect, pairs_needed};
use crate::stats::paired::{Comparison, Method};
use crate::stats::verdict::{Finding, Tier, Verdict, judge};

/// The share of pairs without a steady ratio beyond which a comparison says nothing.
const UNSTEADY_SHARE: f64 = 0.1;

/// How pairs are judged.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// Log ratios up to this are no difference.
    pub theta: f64,
    /// Confidence of the interval: 0.95 for one look at one case, less error for each of several.
    pub confidence: f64,
    /// Seed of the resampling.
    pub seed: u64,
    /// What the guards found.
    pub guards: &'a Readings,
    /// What identical code shows on this machine, if that is known.
    pub calibration: Option<&'a Calibration>,
}

/// A comparison and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// What the ratio goes by.
    pub clock: Option<Clock>,
    /// A against B.
    pub comparison: Option<Comparison>,
    /// A against itself in the same minutes.
    pub control: Option<Comparison>,
    /// Log ratios up to this were no difference.
    pub theta: f64,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Seed of the resampling.
    pub seed: Checksum,
    /// Turns of each pair that came before its ratio settled.
    pub discarded: Vec<usize>,
    /// The smallest log ratio that as many pairs find in four of five campaigns.
    pub minimum_detectable_effect: Option<f64>,
    /// Pairs that it would take to tell, if these do not.
    pub pairs_needed: Option<usize>,
    /// Guards that refuse.
    pub refusing: Vec<String>,
    /// Pairs whose ratio did not settle; of what took too few turns to tell nothing is said.
    pub unsteady_pairs: usize,
    /// The verdict.
    pub finding: Finding,
}

impl Judgement {
    /// Judges pairs.
    pub fn of(pairs: &[PairRun], rules: &Rules<'_>) -> Self {
        let comparison = compared(pairs, rules.confidence, rules.seed);
        let control = control(pairs, rules.confidence, rules.seed);
        let refusing: Vec<String> = rules.guards.refusing().map(str::to_owned).collect();
        let unsteady_pairs = pairs.iter().filter(|pair| pair.is_unsteady()).count();
        let (verdict, reason) = match &comparison {
            None => (Verdict::Noisy, "too few pairs or samples".to_owned()),
            // No control can tell what another compiler or profile does to the code.
            Some(_) if refusing.iter().any(|name| name == BUILDS) => {
                (Verdict::Noisy, format!("the builds differ in more than their code: {}", rules.guards.text(BUILDS)))
            }
            Some(_) if unsteady_pairs as f64 > UNSTEADY_SHARE * pairs.len() as f64 => {
                (Verdict::Noisy, format!("{unsteady_pairs} of {} pairs reached no steady ratio", pairs.len()))
            }
            Some(_) if rules.calibration.is_some_and(|calibration| calibration.miscalibrated) => {
                (Verdict::Noisy, "identical code raises too many false alarms here (bench doctor)".to_owned())
            }
            Some(comparison) => {
                under_guards(comparison.deciding, rules.theta, control.map(|control| control.deciding), &refusing)
            }
        };
        let undecided = matches!(verdict, Verdict::Inconclusive | Verdict::Noisy);
        Self {
            clock: pairs.first().map(|pair| pair.clock),
            minimum_detectable_effect: comparison
                .and_then(|found| minimum_detectable_effect(found.sd, found.pairs, rules.confidence)),
            // To tell a ratio from the margin: as small an effect as the distance between them.
            pairs_needed: comparison
                .filter(|_| undecided)
                .and_then(|found| pairs_needed(found.sd, found.test.difference.abs() - rules.theta, rules.confidence)),
            theta: rules.theta,
            confidence: rules.confidence,
            seed: Checksum(rules.seed),
            discarded: pairs.iter().map(PairRun::discarded).collect(),
            refusing,
            unsteady_pairs,
            finding: Finding {
                verdict,
                tier: Tier::Paired,
                ratio: comparison.map(|found| found.speed_up()),
                interval: comparison.map(|found| found.speed_up_interval()),
                reason,
            },
            comparison,
            control,
        }
    }

    /// Whether more pairs could change the answer.
    pub fn is_open(&self) -> bool {
        matches!(self.finding.verdict, Verdict::Inconclusive | Verdict::Noisy)
    }

    /// Its record, with all that it takes to compute it again from the samples.
    pub fn record(&self, run_id: &str, case_id: &str, exit_code: u8) -> record::Verdict {
        let finding = &self.finding;
        let extra = [
            ("clock", json!(self.clock)),
            ("confidence", json!(self.confidence)),
            ("seed", json!(self.seed)),
            ("discarded", json!(self.discarded)),
        ];
        record::Verdict {
            run_id: Some(run_id.to_owned()),
            case_id: case_id.to_owned(),
            tier: finding.tier as u64,
            baseline_run: None,
            ratio: finding.ratio,
            lo: finding.interval.map(|interval| interval.low),
            hi: finding.interval.map(|interval| interval.high),
            method: match self.comparison.map(|comparison| comparison.method) {
                Some(Method::Bootstrap) => "bootstrap",
                _ => "student",
            }
            .to_owned(),
            theta: Some(self.theta),
            mde: self.minimum_detectable_effect,
            p: self.comparison.map(|comparison| comparison.test.p),
            verdict: finding.verdict.name().to_owned(),
            reason: finding.reason.clone(),
            exit_code,
            extra: extra.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
        }
    }
}

/// The verdict of an interval, with the control where guards refuse.
fn under_guards(interval: Interval, theta: f64, control: Option<Interval>, refusing: &[String]) -> (Verdict, String) {
    let verdict = judge(interval, theta);
    let percent = |log: f64| format!("{:.1} %", 100.0 * log.exp_m1());
    let plain = match verdict {
        Verdict::Regressed => format!("slower by more than {}", percent(theta)),
        Verdict::Improved => format!("faster by more than {}", percent(theta)),
        Verdict::Equivalent => format!("within {}", percent(theta)),
        _ => format!("the interval reaches across {}", percent(theta)),
    };
    if refusing.is_empty() {
        return (verdict, plain);
    }
    let guards = refusing.join(", ");
    let Some(control) = control else {
        return (
            Verdict::Noisy,
            format!("{plain}, but {guards} refused, and A took too few turns to tell how it moved"),
        );
    };
    let moved = control.low.abs().max(control.high.abs());
    match (verdict, judge(interval, theta.max(moved))) {
        (Verdict::Regressed | Verdict::Improved, careful) if careful == verdict => {
            (verdict, format!("{plain}, and by more than the {} that {guards} moved A against itself", percent(moved)))
        }
        (Verdict::Equivalent, _) if control.contains(0.0) => {
            (verdict, format!("{plain}, as A against itself in spite of {guards}"))
        }
        _ => (Verdict::Noisy, format!("{plain}, but {guards} moved A against itself by up to {}", percent(moved))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Process;
    use crate::record::Order;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    #[test]
    fn a_quiet_machine_needs_no_control() {
        let verdict = |low, high| under_guards(interval(low, high), 0.01, None, &[]).0;
        assert_eq!(verdict(-0.05, -0.02), Verdict::Regressed);
        assert_eq!(verdict(0.02, 0.05), Verdict::Improved);
        assert_eq!(verdict(-0.005, 0.005), Verdict::Equivalent);
        assert_eq!(verdict(-0.03, 0.005), Verdict::Inconclusive);
        let control = Some(interval(-0.1, 0.1));
        assert_eq!(under_guards(interval(-0.05, -0.02), 0.01, control, &[]).0, Verdict::Regressed);
    }

    /// Pairs of which B takes 5 % longer, on a machine with these readings.
    fn judged(turns: usize, guards: &Readings) -> Judgement {
        let pair = |number: usize| {
            let time = |turn: usize| 10.0 + 0.01 * ((turn * 7 + number) % 5) as f64;
            let side = |factor: f64| Process::of_times((0..turns).map(|turn| factor * time(turn)));
            PairRun { clock: Clock::Wall, order: Order::Ab, a: side(1.0), b: side(1.05 + 1e-4 * number as f64) }
        };
        let pairs: Vec<PairRun> = (0..6).map(pair).collect();
        Judgement::of(&pairs, &Rules { theta: 0.01, confidence: 0.975, seed: 3, guards, calibration: None })
    }

    fn refusing(name: &str) -> Readings {
        let reading = serde_json::from_value(json!({"value": "x against y", "status": "refuse"})).unwrap();
        Readings([(name.to_owned(), reading)].into())
    }

    #[test]
    fn what_guards_refuse_without_a_control_is_noisy() {
        assert_eq!(judged(24, &Readings::default()).finding.verdict, Verdict::Regressed);
        assert_eq!(judged(24, &refusing("steal")).finding.verdict, Verdict::Regressed, "A agrees with itself");
        let steal = ["steal".to_owned()];
        let (verdict, reason) = under_guards(interval(-0.06, -0.04), 0.01, None, &steal);
        assert_eq!(verdict, Verdict::Noisy, "{reason}");
    }

    #[test]
    fn builds_that_differ_in_more_than_their_code_are_not_judged() {
        let Finding { verdict, reason, .. } = judged(24, &refusing(BUILDS)).finding;
        assert_eq!((verdict, reason.contains("x against y")), (Verdict::Noisy, true), "{reason}");
    }

    #[test]
    fn turns_too_few_to_tell_a_steady_ratio_disarm_no_verdict() {
        for turns in [2, 6, 23] {
            let few = judged(turns, &Readings::default());
            assert_eq!((few.unsteady_pairs, few.finding.verdict), (0, Verdict::Regressed), "{turns}");
        }
        assert_eq!(judged(6, &refusing("steal")).finding.verdict, Verdict::Regressed, "A took turns enough");
        assert_eq!(judged(2, &refusing("steal")).finding.verdict, Verdict::Noisy, "it did not");
    }

    #[test]
    fn what_can_be_detected_depends_on_the_confidence() {
        let found = judged(24, &Readings::default());
        let sd = found.comparison.unwrap().sd;
        assert_eq!(found.minimum_detectable_effect, minimum_detectable_effect(sd, 6, 0.975));
        assert!(found.minimum_detectable_effect > minimum_detectable_effect(sd, 6, 0.95));
    }

    #[test]
    fn a_disturbed_machine_lets_only_larger_effects_pass() {
        let steal = ["steal".to_owned()];
        let verdict = |low, high, control| under_guards(interval(low, high), 0.01, Some(control), &steal);
        let (calm, wild) = (interval(-0.004, 0.006), interval(-0.01, 0.03));
        assert_eq!(verdict(-0.06, -0.04, wild).0, Verdict::Regressed);
        assert_eq!(verdict(-0.06, -0.02, wild).0, Verdict::Noisy, "the control moved by 3 %");
        assert_eq!(verdict(-0.06, -0.02, calm).0, Verdict::Regressed);
        assert_eq!(verdict(-0.005, 0.005, calm).0, Verdict::Equivalent);
        assert_eq!(verdict(-0.005, 0.005, wild).0, Verdict::Equivalent);
        assert_eq!(verdict(-0.005, 0.005, interval(0.002, 0.004)).0, Verdict::Noisy, "A differs from itself");
        assert_eq!(verdict(-0.03, 0.005, calm).0, Verdict::Noisy, "no answer is no better for being disturbed");
        let (_, reason) = verdict(-0.06, -0.04, wild);
        assert_eq!(reason, "slower by more than 1.0 %, and by more than the 3.0 % that steal moved A against itself");
    }
}
