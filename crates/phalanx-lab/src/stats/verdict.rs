//! Verdicts: what an interval allows to say, and the exit code that says it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::interval::Interval;

/// What can be said about a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Slower by more than the margin.
    Regressed,
    /// Faster by more than the margin.
    Improved,
    /// Different by less than the margin.
    Equivalent,
    /// The interval is too wide to say.
    Inconclusive,
    /// Too few earlier runs to know what is usual.
    InsufficientHistory,
    /// The machine was disturbed, or processes reached no steady state.
    Noisy,
    /// The two sides measure different things, or one of them cannot be measured.
    Incomparable,
    /// The two sides computed different things.
    ChecksumMismatch,
}

impl Verdict {
    /// Its name in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::Improved => "improved",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
            Self::InsufficientHistory => "insufficient_history",
            Self::Noisy => "noisy",
            Self::Incomparable => "incomparable",
            Self::ChecksumMismatch => "checksum_mismatch",
        }
    }

    /// The exit code of a gate. Not knowing fails only a strict one.
    pub fn exit_code(self, strict: bool) -> u8 {
        match self {
            Self::Improved | Self::Equivalent => 0,
            Self::Regressed => 10,
            Self::Inconclusive | Self::InsufficientHistory => 11 * u8::from(strict),
            Self::Noisy => 12,
            Self::Incomparable => 13,
            Self::ChecksumMismatch => 14,
        }
    }
}

/// Judges the interval of a log ratio ln(t_before / t_after) by a margin `theta`.
pub fn judge(log_ratio: Interval, theta: f64) -> Verdict {
    match log_ratio {
        Interval { high, .. } if high < -theta => Verdict::Regressed,
        Interval { low, .. } if low > theta => Verdict::Improved,
        Interval { low, high } if -theta < low && high < theta => Verdict::Equivalent,
        _ => Verdict::Inconclusive,
    }
}

/// What a verdict rests on, the strongest first. Records hold its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Tier {
    /// A and B in pairs, in this campaign.
    Paired = 1,
    /// A stored baseline of the same machine.
    Baseline = 2,
    /// The history of the case.
    History = 3,
}

impl From<Tier> for u8 {
    fn from(tier: Tier) -> Self {
        tier as Self
    }
}

impl TryFrom<u8> for Tier {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        let tiers = [Self::Paired, Self::Baseline, Self::History];
        tiers
            .into_iter()
            .find(|&tier| tier as u8 == number)
            .ok_or_else(|| format!("no tier {number}: there are 1 to 3"))
    }
}

/// A verdict with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// What it rests on.
    pub tier: Tier,
    /// The speed-up, if one was measured.
    pub ratio: Option<f64>,
    /// The interval of the speed-up.
    pub interval: Option<Interval>,
    /// Why, in words.
    pub reason: String,
}

impl fmt::Display for Finding {
    /// The line that ends every report.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        write!(
            out,
            "VERDICT {} tier={} ratio={} [{},{}] reason={}",
            self.verdict.name(),
            self.tier as u8,
            number(self.ratio),
            number(self.interval.map(|interval| interval.low)),
            number(self.interval.map(|interval| interval.high)),
            self.reason
        )
    }
}

/// Which values of an indicator are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Times, memory, overheads.
    Lower,
    /// Throughputs.
    Higher,
}

impl Better {
    /// Whether a whole interval is better than a limit.
    fn all_better(self, interval: Interval, limit: f64) -> bool {
        match self {
            Self::Lower => interval.high < limit,
            Self::Higher => interval.low > limit,
        }
    }

    /// Whether a whole interval is worse than a limit.
    fn all_worse(self, interval: Interval, limit: f64) -> bool {
        match self {
            Self::Lower => interval.low > limit,
            Self::Higher => interval.high < limit,
        }
    }
}

/// Whether a target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetVerdict {
    /// The whole interval is better than the target.
    Met,
    /// The whole interval is worse.
    Missed,
    /// The target lies inside the interval, or nothing was measured.
    NotShown,
}

impl TargetVerdict {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::NotShown => "not shown",
        }
    }
}

/// Judges an indicator by a target.
pub fn judge_target(measured: Option<Interval>, target: f64, better: Better) -> TargetVerdict {
    match measured {
        Some(interval) if better.all_better(interval, target) => TargetVerdict::Met,
        Some(interval) if better.all_worse(interval, target) => TargetVerdict::Missed,
        _ => TargetVerdict::NotShown,
    }
}

/// The state of an indicator with a target and an alert limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KpiVerdict {
    /// Better than the target.
    Met,
    /// Between target and alert limit.
    Warn,
    /// Worse than the alert limit.
    Alert,
    /// A limit lies inside the interval, or nothing was measured.
    NotShown,
}

impl KpiVerdict {
    /// The exit code of a check: only an alert fails it.
    pub fn exit_code(self) -> u8 {
        10 * u8::from(self == Self::Alert)
    }
}

/// Judges an indicator by a target and an alert limit.
pub fn judge_kpi(measured: Option<Interval>, target: f64, alert: f64, better: Better) -> KpiVerdict {
    match measured {
        Some(interval) if better.all_better(interval, target) => KpiVerdict::Met,
        Some(interval) if better.all_worse(interval, alert) => KpiVerdict::Alert,
        Some(interval) if better.all_worse(interval, target) && better.all_better(interval, alert) => KpiVerdict::Warn,
        _ => KpiVerdict::NotShown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    const ALL: [Verdict; 8] = [
        Verdict::Regressed,
        Verdict::Improved,
        Verdict::Equivalent,
        Verdict::Inconclusive,
        Verdict::InsufficientHistory,
        Verdict::Noisy,
        Verdict::Incomparable,
        Verdict::ChecksumMismatch,
    ];

    #[test]
    fn intervals_are_judged_by_the_margin() {
        assert_eq!(judge(interval(0.018, 0.038), 0.01), Verdict::Improved);
        assert_eq!(judge(interval(-0.05, -0.012), 0.01), Verdict::Regressed);
        assert_eq!(judge(interval(-0.004, 0.006), 0.01), Verdict::Equivalent);
        assert_eq!(judge(interval(-0.02, 0.004), 0.01), Verdict::Inconclusive);
        assert_eq!(judge(interval(f64::NAN, f64::NAN), 0.01), Verdict::Inconclusive);
    }

    #[test]
    fn exit_codes() {
        assert_eq!(ALL.map(|verdict| verdict.exit_code(true)), [10, 0, 0, 11, 11, 12, 13, 14]);
        assert_eq!(ALL.map(|verdict| verdict.exit_code(false)), [10, 0, 0, 0, 0, 12, 13, 14]);
    }

    #[test]
    fn names_are_those_of_records() {
        for verdict in ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
        assert_eq!(serde_json::to_value(Tier::Baseline).unwrap(), 2);
        assert_eq!(serde_json::from_str::<Tier>("3").unwrap(), Tier::History);
        assert!(serde_json::from_str::<Tier>("4").is_err());
    }

    #[test]
    fn the_final_line() {
        let finding = Finding {
            verdict: Verdict::Improved,
            tier: Tier::Paired,
            ratio: Some(1.02851),
            interval: Some(interval(1.01827, 1.03886)),
            reason: "interval above margin".into(),
        };
        assert_eq!(
            finding.to_string(),
            "VERDICT improved tier=1 ratio=1.0285 [1.0183,1.0389] reason=interval above margin"
        );
        let unmeasured = Finding {
            verdict: Verdict::Incomparable,
            tier: Tier::Baseline,
            ratio: None,
            interval: None,
            reason: "kinds differ".into(),
        };
        assert_eq!(unmeasured.to_string(), "VERDICT incomparable tier=2 ratio=- [-,-] reason=kinds differ");
    }

    #[test]
    fn a_target_inside_the_interval_is_not_met() {
        let verdict = |low, high| judge_target(Some(interval(low, high)), 1000.0, Better::Higher);
        assert_eq!(verdict(1001.0, 1200.0), TargetVerdict::Met);
        assert_eq!(verdict(900.0, 1200.0), TargetVerdict::NotShown);
        assert_eq!(verdict(900.0, 999.0), TargetVerdict::Missed);
        assert_eq!(judge_target(None, 1000.0, Better::Higher), TargetVerdict::NotShown);
    }

    #[test]
    fn indicators_have_two_limits() {
        let step_time = |low, high| judge_kpi(Some(interval(low, high)), 1.0, 5.0, Better::Lower);
        assert_eq!(step_time(0.1, 0.2), KpiVerdict::Met);
        assert_eq!(step_time(2.0, 3.0), KpiVerdict::Warn);
        assert_eq!(step_time(6.0, 7.0), KpiVerdict::Alert);
        assert_eq!(step_time(0.5, 2.0), KpiVerdict::NotShown);
        assert_eq!(step_time(4.0, 6.0), KpiVerdict::NotShown);
        let training = |low, high| judge_kpi(Some(interval(low, high)), 1000.0, 100.0, Better::Higher);
        assert_eq!(training(2000.0, 3000.0), KpiVerdict::Met);
        assert_eq!(training(200.0, 300.0), KpiVerdict::Warn);
        assert_eq!(training(20.0, 30.0), KpiVerdict::Alert);
        assert_eq!(judge_kpi(None, 1.0, 5.0, Better::Lower), KpiVerdict::NotShown);
        assert_eq!((KpiVerdict::Alert.exit_code(), KpiVerdict::Warn.exit_code()), (10, 0));
    }
}
