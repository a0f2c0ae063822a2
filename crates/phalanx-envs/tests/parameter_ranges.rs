//! Every parameter may be at either end of its range without breaking the numbers or the bounds of observations.

use phalanx_core::batch::{BatchConfig, ObsMut};
use phalanx_core::policy::Policy;
use phalanx_core::rollout::Rollout;
use phalanx_core::safety::SafetyMode;
use phalanx_envs::registry;

#[test]
fn states_stay_finite_at_either_end_of_every_range() {
    for entry in registry::ENTRIES {
        let spec = entry.spec();
        for param in &spec.params {
            for value in [param.min, param.max] {
                let mut config = BatchConfig { num_envs: 8, ..BatchConfig::default() };
                config.settings.push((param.name.to_string(), value.to_string()));
                // Without constraints nothing ends an episode that has run away.
                config.safety.mode = SafetyMode::Off;
                let what = format!("{} with {} = {value}", spec.name, param.name);
                let mut batch = match entry.batch(&config) {
                    Ok(batch) => batch,
                    Err(error) => {
                        assert!(error.to_string().contains("do not go together"), "{what}: {error}");
                        continue;
                    }
                };
                let mut rollout = Rollout::new(Policy::parse("random", &[], batch.spec()).unwrap(), batch.as_ref());
                rollout.run(batch.as_mut(), 250, 50, |_| true).unwrap();
                for env in 0..8 {
                    let state = batch.state(env).unwrap();
                    assert!(state.iter().all(|value| value.is_finite()), "{what}: {state:?}");
                }
                let observation = &batch.spec().observation;
                // Gymnasium's environments have Gymnasium's bounds, which know the usual parameters only.
                if !spec.constraints.is_empty() {
                    let mut obs = vec![0.0; 8 * observation.dim()];
                    batch.observe_into(ObsMut::F32(&mut obs)).unwrap();
                    for (i, value) in obs.iter().enumerate().map(|(at, value)| (at % observation.dim(), value)) {
                        let (low, high) = (observation.low[i], observation.high[i]);
                        let name = observation.names[i];
                        // What the parameters bound; the rest is physics, which large time steps can push below 0.
                        let bounded = low.is_finite() && high.is_finite();
                        assert!(
                            !bounded || (low..=high).contains(value),
                            "{what}: {name} {value} outside of {low} to {high}"
                        );
                    }
                }
            }
        }
    }
}
