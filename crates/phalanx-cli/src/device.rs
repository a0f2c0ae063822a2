//! What computes: `--device`, or the variable PHALANX_PLATFORM, or JAX's. There is the CPU only.

use clap::Args;
use phalanx_core::Error;

use crate::failure::Failure;

/// The variable that names the device, for all commands of a session.
const VARIABLE: &str = "PHALANX_PLATFORM";
/// JAX's, for those who come with scripts that set it.
const JAX_VARIABLE: &str = "JAX_PLATFORM_NAME";

#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    /// What computes: cpu (this build has no other; see `phalanx devices`) [default: PHALANX_PLATFORM, else
    /// cpu]
    #[arg(long, value_name = "D")]
    device: Option<String>,
}

impl DeviceArgs {
    /// The name of the device, after what the user says in any way.
    pub(crate) fn resolve(&self) -> Result<&'static str, Failure> {
        self.device.as_ref().map_or_else(of_variables, |device| named("--device", device))
    }
}

/// The name of the device by the variables alone, for commands that have no flag for it.
pub(crate) fn of_variables() -> Result<&'static str, Failure> {
    match (variable(VARIABLE), variable(JAX_VARIABLE)) {
        (Some(name), _) => named(VARIABLE, &name),
        (None, Some(name)) => {
            let device = named(JAX_VARIABLE, &name)?;
            say!("note: the device is {device}, as {JAX_VARIABLE} says; {VARIABLE} is Phalanx's own variable");
            Ok(device)
        }
        (None, None) => Ok("cpu"),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn named(source: &str, name: &str) -> Result<&'static str, Failure> {
    match name.to_ascii_lowercase().as_str() {
        "cpu" => Ok("cpu"),
        "gpu" | "cuda" | "rocm" => Err(Failure::input(format!(
            "{source} asks for {name}, but this build computes on the CPU only: use cpu (see 'phalanx devices')"
        ))),
        _ => Err(Error::unknown("device", name, Some(source), ["cpu", "gpu"]).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_the_cpu_only() {
        assert_eq!(named("--device", "CPU").unwrap(), "cpu");
        assert!(named("--device", "gpu").unwrap_err().to_string().contains("computes on the CPU only"));
        let error = named("PHALANX_PLATFORM", "cpuu").unwrap_err().to_string();
        assert!(error.contains("unknown device 'cpuu' for PHALANX_PLATFORM") && error.contains("'cpu'"), "{error}");
    }
}
