//! What is known of the binary that measures: compiler, commit, target, and its own hash.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{hash, memory};

/// How the binary was built, as records store it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// The compiler's version.
    pub rustc: Option<String>,
    /// `debug` with debug assertions, else `release`.
    pub profile: String,
    /// The CPU that was compiled for, if one was asked for.
    pub target_cpu: Option<String>,
    /// Target features that the compiler could use everywhere.
    pub features: Vec<String>,
    /// How much the compiler optimised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opt_level: Option<String>,
    /// Link-time optimisation, which a binary cannot know of itself.
    pub lto: Option<String>,
    /// The allocator: `counting` if the binary has installed the lab's own, else `system`.
    pub allocator: Option<String>,
    /// The hash of the binary, marked with its kind, which is not the one that the name of the field suggests.
    #[serde(rename = "binary_sha")]
    pub binary_hash: Option<String>,
    /// The version of this crate, which all crates of the workspace share.
    pub version: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The commit that a binary was built from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Git {
    /// The commit; unknown if built outside of a checkout.
    pub sha: Option<String>,
    /// Whether tracked files had changes.
    pub dirty: Option<bool>,
    /// The branch, if one was checked out.
    pub branch: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl BuildInfo {
    /// This binary. Reads it whole to hash it.
    pub fn of_this_binary() -> Self {
        Self {
            rustc: known(option_env!("PHALANX_RUSTC")),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            target_cpu: known(option_env!("PHALANX_TARGET_CPU")),
            features: option_env!("PHALANX_TARGET_FEATURES").map(features).unwrap_or_default(),
            opt_level: known(option_env!("PHALANX_OPT_LEVEL")),
            lto: None,
            allocator: Some(if memory::allocator().is_some() { "counting" } else { "system" }.to_owned()),
            binary_hash: std::env::current_exe()
                .and_then(std::fs::read)
                .ok()
                .map(|bytes| format!("xxh3:{}", hash::of_bytes(&bytes))),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extra: Map::new(),
        }
    }
}

impl Git {
    /// The commit of this binary.
    pub fn of_this_binary() -> Self {
        Self {
            sha: known(option_env!("PHALANX_GIT_SHA")),
            dirty: option_env!("PHALANX_GIT_DIRTY").map(|dirty| dirty == "true"),
            branch: known(option_env!("PHALANX_GIT_BRANCH")),
            extra: Map::new(),
        }
    }
}

fn known(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

fn features(list: &str) -> Vec<String> {
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_knows_itself() {
        let build = BuildInfo::of_this_binary();
        assert_eq!(build.profile == "debug", cfg!(debug_assertions));
        assert!(build.opt_level.is_some() && build.allocator.as_deref() == Some("system"), "{build:?}");
        assert!(build.rustc.is_some_and(|rustc| rustc.starts_with("rustc ")));
        assert!(build.binary_hash.is_some_and(|hash| hash.len() == "xxh3:".len() + 16));
        assert_eq!(build.features.iter().any(|name| name == "sse2"), cfg!(target_feature = "sse2"));
    }

    #[test]
    fn a_commit_is_known_whole_or_not_at_all() {
        let git = Git::of_this_binary();
        assert_eq!(git.sha.is_some(), git.dirty.is_some());
        assert!(git.sha.is_none_or(|sha| sha.len() >= 40 && sha.bytes().all(|b| b.is_ascii_hexdigit())));
    }

    #[test]
    fn an_empty_list_has_no_features() {
        assert!(features("").is_empty());
        assert_eq!(features("avx,fma"), ["avx", "fma"]);
    }
}
