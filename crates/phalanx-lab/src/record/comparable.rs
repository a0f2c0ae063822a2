//! Whether two cases measure the same thing.

use std::fmt::{self, Display};

use super::Case;

/// Cases that must not be compared, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Incomparable {
    /// The fields that differ, at least one.
    pub differences: Vec<Difference>,
}

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its name in the records.
    pub field: &'static str,
    /// Its value in the first case.
    pub a: String,
    /// Its value in the second case.
    pub b: String,
}

impl Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not comparable: ")?;
        for (i, Difference { field, a, b }) in self.differences.iter().enumerate() {
            let joint = if i == 0 { "" } else { ", " };
            write!(f, "{joint}{field} is {a} in one and {b} in the other")?;
        }
        Ok(())
    }
}

/// Whether two cases may be compared: what is timed and what a step means must agree.
pub fn comparable(a: &Case, b: &Case) -> Result<(), Incomparable> {
    let fields = |case: &Case| {
        let semantics = &case.semantics;
        [
            ("kind", case.kind.to_string()),
            ("unit", case.unit.to_string()),
            ("env", case.env.clone()),
            ("autoreset", semantics.autoreset.clone()),
            ("obs_materialised", semantics.obs_materialised.to_string()),
            ("precision", semantics.precision.clone()),
            ("action_source", semantics.action_source.clone()),
        ]
    };
    let differences: Vec<_> = fields(a)
        .into_iter()
        .zip(fields(b))
        .filter(|((_, a), (_, b))| a != b)
        .map(|((field, a), (_, b))| Difference { field, a, b })
        .collect();
    if differences.is_empty() { Ok(()) } else { Err(Incomparable { differences }) }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::record::{Kind, Semantics, Unit};

    fn case() -> Case {
        Case {
            run_id: "r".to_owned(),
            case_id: "c".to_owned(),
            case_version: "v".to_owned(),
            suite: "s".to_owned(),
            env: "CartPole-v1".to_owned(),
            agent: None,
            kind: Kind::HostApiRandom,
            unit: Unit::EnvStep,
            multiplier: 1.0,
            params: Map::new(),
            semantics: Semantics {
                autoreset: "next_step".to_owned(),
                obs_materialised: true,
                precision: "f32".to_owned(),
                action_source: "random".to_owned(),
                checksum_stride: 16,
                extra: Map::new(),
            },
            extra: Map::new(),
        }
    }

    #[test]
    fn names_and_parameters_may_differ() {
        let other = Case { run_id: "q".to_owned(), case_id: "d".to_owned(), multiplier: 2.0, ..case() };
        assert_eq!(comparable(&case(), &other), Ok(()));
    }

    #[test]
    fn each_field_that_matters_is_named() {
        let text = |value: &str| value.to_owned();
        type Change = fn(&mut Case);
        let broken: [(&str, Change); 7] = [
            ("kind", |case| case.kind = Kind::Training),
            ("unit", |case| case.unit = Unit::Frame),
            ("env", |case| case.env = "CartPole-v0".to_owned()),
            ("autoreset", |case| case.semantics.autoreset = "disabled".to_owned()),
            ("obs_materialised", |case| case.semantics.obs_materialised = false),
            ("precision", |case| case.semantics.precision = "f64".to_owned()),
            ("action_source", |case| case.semantics.action_source = "replay".to_owned()),
        ];
        for (field, change) in broken {
            let mut other = case();
            change(&mut other);
            let refused = comparable(&case(), &other).unwrap_err();
            assert_eq!(refused.differences.iter().map(|d| d.field).collect::<Vec<_>>(), [field]);
        }
        let other = Case { kind: Kind::Training, env: text("Acrobot-v1"), ..case() };
        assert_eq!(
            comparable(&case(), &other).unwrap_err().to_string(),
            "not comparable: kind is host_api_random in one and training in the other, \
             env is CartPole-v1 in one and Acrobot-v1 in the other"
        );
    }
}
