//! What pairs of processes that took turns allow to say, and whether the machine was quiet enough to say it.
//!
//! On a shared machine some guard refuses most of the time, yet sides that take turns see the same disturbances. So a
//! disturbed comparison is held against a control: side A against itself, one turn with the next, further apart in
//! time than A and B are. Where that may have moved by x %, differences up to x % are noise and larger ones remain what
//! they are. That two sides are alike is believed unless A certainly differs from itself.

use serde::{Deserialize, Serialize};

use crate::campaign::{Clock, PairRun, compared, control};
use crate::guards::Readings;
use crate::record;
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
    /// The smallest log ratio that as many pairs find in four of five campaigns.
    pub minimum_detectable_effect: Option<f64>,
    /// Pairs that it would take to tell, if these do not.
    pub pairs_needed: Option<usize>,
    /// Guards that refuse.
    pub refusing: Vec<String>,
    /// Pairs whose ratio did not settle.
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
        let unsteady_pairs = pairs.iter().filter(|pair| !pair.is_steady()).count();
        let (verdict, reason) = match &comparison {
            None => (Verdict::Noisy, "too few pairs or samples".to_owned()),
            Some(_) if unsteady_pairs as f64 > UNSTEADY_SHARE * pairs.len() as f64 => {
                (Verdict::Noisy, format!("{unsteady_pairs} of {} pairs reached no steady ratio", pairs.len()))
            }
            Some(_) if rules.calibration.is_some_and(|calibration| calibration.miscalibrated) => {
                (Verdict::Noisy, "identical code raises too many false alarms here (bench doctor)".to_owned())
            }
            Some(comparison) => {
                let control = control.filter(|_| !refusing.is_empty()).map(|control| control.deciding);
                under_guards(comparison.deciding, rules.theta, control, &refusing)
            }
        };
        let undecided = matches!(verdict, Verdict::Inconclusive | Verdict::Noisy);
        Self {
            clock: pairs.first().map(|pair| pair.clock),
            minimum_detectable_effect: comparison.and_then(|found| minimum_detectable_effect(found.sd, found.pairs)),
            // To tell a ratio from the margin: as small an effect as the distance between them.
            pairs_needed: comparison
                .filter(|_| undecided)
                .and_then(|found| pairs_needed(found.sd, found.test.difference.abs() - rules.theta)),
            theta: rules.theta,
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

    /// Its record.
    pub fn record(&self, run_id: &str, case_id: &str, exit_code: u8) -> record::Verdict {
        let finding = &self.finding;
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
            extra: serde_json::Map::new(),
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
    let Some(control) = control else { return (verdict, plain) };
    let moved = control.low.abs().max(control.high.abs());
    let guards = refusing.join(", ");
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
