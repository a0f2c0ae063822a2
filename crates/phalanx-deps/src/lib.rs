//! No code: the features that all builds share.
//!
//! Cargo compiles a crate once for each set of features that a build asks it for, and with it everything that stands on
//! it. The command, the Python module, the tests and a crate of one's own bring different dependencies along, which ask
//! `syn`, `serde_core` and others for different features, so the engine and all environments were compiled three times for
//! `cargo xtask test`. `phalanx-core`, which is in every build, depends on this crate, which asks for all of them.
