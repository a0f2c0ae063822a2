//! Agents that learn on the Phalanx engine.
//!
//! | module | owns |
//! |---|---|
//! | [`nn`] | small networks: layers, gradients, initialisation, optimisers, schedules, action distributions |
//! | [`random`] | streams of random numbers by purpose, each with a position that can be stored |
//! | [`returns`] | generalised advantages and λ-returns, with the right ends |

pub mod nn;
pub mod random;
pub mod returns;
