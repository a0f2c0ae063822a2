//! Settings that are known to work, as files that ship with the library; each lies under what the user gives.

/// A file of settings.
#[derive(Debug)]
pub(crate) struct Preset {
    pub(crate) agent: &'static str,
    pub(crate) env: &'static str,
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! preset {
    ($agent:literal, $env:literal) => {{
        let name = concat!("presets/", $agent, "/", $env, ".toml");
        Preset { agent: $agent, env: $env, name, text: include_str!(concat!($agent, "/", $env, ".toml")) }
    }};
}

/// Of agents, for any environment.
const DEFAULTS: &[Preset] = &[preset!("ppo", "default"), preset!("dqn", "default"), preset!("pqn", "default")];

/// Of agents for an environment.
pub(crate) const ALL: &[Preset] = &[
    preset!("ppo", "CartPole-v1"),
    preset!("ppo", "Acrobot-v1"),
    preset!("ppo", "MountainCar-v0"),
    preset!("ppo", "Pendulum-v1"),
    preset!("ppo", "MountainCarContinuous-v0"),
    preset!("ppo", "gene-circuit"),
    preset!("ppo", "ChemicalReactor-v0"),
    preset!("dqn", "CartPole-v1"),
    preset!("dqn", "Acrobot-v1"),
    preset!("dqn", "gene-circuit"),
    preset!("pqn", "CartPole-v1"),
    preset!("pqn", "Acrobot-v1"),
    preset!("pqn", "MountainCar-v0"),
    preset!("pqn", "gene-circuit"),
    preset!("q_learning", "TicTacToe-v0"),
    preset!("pid", "CartPole-v1"),
    preset!("pid", "gene-circuit"),
    preset!("pid", "ChemicalReactor-v0"),
    preset!("bangbang", "gene-circuit"),
    preset!("bangbang", "MountainCar-v0"),
    preset!("bangbang", "MountainCarContinuous-v0"),
];

/// Other names of environments: the engine's aliases, which presets must not depend on.
const ALIASES: &[(&str, &[&str])] = &[
    ("CartPole-v1", &["cartpole", "cartpole-control"]),
    ("Pendulum-v1", &["pendulum"]),
    ("MountainCar-v0", &["mountain-car"]),
    ("MountainCarContinuous-v0", &["mountain-car-continuous"]),
    ("Acrobot-v1", &["acrobot"]),
    ("gene-circuit", &["ccasr-gfp-control", "gene-circuit-v1", "ccas-ccar-control"]),
    ("ChemicalReactor-v0", &["chemical-reactor", "cstr"]),
    ("TicTacToe-v0", &["tic-tac-toe"]),
];

/// The presets for an environment and an agent, the more general first.
pub(crate) fn of(env: &str, agent: &str) -> Vec<&'static Preset> {
    let named = |(name, aliases): &&(&str, &[&str])| {
        std::iter::once(name).chain(*aliases).any(|known| known.eq_ignore_ascii_case(env))
    };
    let env = ALIASES.iter().find(named).map(|(name, _)| *name);
    let defaults = DEFAULTS.iter().filter(|preset| preset.agent == agent);
    defaults.chain(ALL.iter().filter(|preset| preset.agent == agent && Some(preset.env) == env)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::config::create_config;
    use super::*;

    #[test]
    fn every_preset_is_a_configuration_of_its_own() {
        for preset in ALL {
            let config =
                create_config(preset.env, preset.agent, &[]).unwrap_or_else(|e| panic!("{}: {e}", preset.name));
            assert!(config.warnings().is_empty(), "{}: {:?}", preset.name, config.warnings());
            assert_eq!(of(preset.env, preset.agent).last().map(|found| found.name), Some(preset.name));
        }
    }

    /// The names are written here once more, since learning does not depend on the environments.
    #[test]
    fn every_alias_of_the_registry_finds_its_preset() {
        for preset in ALL {
            let entry = phalanx_envs::registry::find(preset.env).unwrap();
            for alias in entry.aliases {
                let found = of(alias, preset.agent);
                assert_eq!(found.last().map(|found| found.name), Some(preset.name), "{alias}");
            }
        }
    }

    #[test]
    fn every_file_is_listed() {
        let mut files = 0;
        for folder in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/run/presets")).unwrap() {
            let folder = folder.unwrap().path();
            if folder.is_dir() {
                files += std::fs::read_dir(folder).unwrap().count();
            }
        }
        assert_eq!(files, DEFAULTS.len() + ALL.len());
    }

    #[test]
    fn aliases_and_other_spellings_find_the_preset() {
        let name = |env| of(env, "pqn").last().map(|preset| preset.name);
        assert_eq!(name("ccasr-gfp-control"), Some("presets/pqn/gene-circuit.toml"));
        assert_eq!(name("cartpole-V1"), Some("presets/pqn/CartPole-v1.toml"));
        assert_eq!(name("Other-v0"), Some("presets/pqn/default.toml"));
        assert_eq!(create_config("gene-circuit", "pqn", &[]).unwrap().run.total_timesteps(), 3_145_728);
    }
}
