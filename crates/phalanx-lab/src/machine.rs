//! The machine that a measurement was made on. What the system does not tell is `None`, never guessed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{hash, linux, memory};

/// A machine, as records store it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// 16 hex digits over what identifies the machine: not over free memory, kernel or system version.
    pub fingerprint: String,
    /// A readable and specific name, such as `Ryzen5950X_16c_64GB`.
    pub name: String,
    /// The CPU's model, as it calls itself.
    pub cpu: Option<String>,
    /// Physical cores.
    pub cores: Option<usize>,
    /// CPUs as the system counts them, hardware threads included.
    pub threads: Option<usize>,
    /// Sizes of the caches.
    pub caches: Caches,
    /// Vector and related instruction sets, among those that matter to the engine.
    pub isa: Vec<String>,
    /// Main memory.
    pub mem: Memory,
    /// NUMA nodes.
    pub numa: Option<usize>,
    /// The operating system.
    pub os: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// What virtualises the machine; `None` if nothing does or nothing says so.
    pub virt: Option<String>,
    /// The architecture, as Rust calls it.
    pub architecture: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Sizes of the caches that the first core uses, in KiB.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Caches {
    /// First level, data only.
    pub l1_kib: Option<u64>,
    /// Second level.
    pub l2_kib: Option<u64>,
    /// Third level.
    pub l3_kib: Option<u64>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Main memory, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// All of it.
    pub total_bytes: Option<u64>,
    /// What could still be had when the machine was looked at.
    pub available_bytes: Option<u64>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Machine {
    /// This machine.
    pub fn detect() -> Self {
        let cpuinfo = linux::read("/proc/cpuinfo").unwrap_or_default();
        let online = linux::online_cpus();
        let mut machine = Self {
            fingerprint: String::new(),
            name: String::new(),
            cpu: cpu_model(&cpuinfo),
            cores: online.as_ref().and_then(linux::physical_cores),
            threads: online.as_ref().map(BTreeSet::len).or_else(available_threads),
            caches: caches(),
            isa: instruction_sets(),
            mem: Memory {
                total_bytes: memory::total_bytes(),
                available_bytes: memory::available_bytes(),
                extra: Map::new(),
            },
            numa: linux::read("/sys/devices/system/node/online")
                .and_then(|nodes| linux::number_list(&nodes))
                .map(|nodes| nodes.len()),
            os: linux::read("/etc/os-release")
                .and_then(|text| os_name(&text))
                .unwrap_or_else(|| std::env::consts::OS.to_owned()),
            kernel: linux::read("/proc/sys/kernel/osrelease"),
            virt: virtualisation(&cpuinfo),
            architecture: std::env::consts::ARCH.to_owned(),
            extra: Map::new(),
        };
        machine.name = machine.readable_name();
        machine.fingerprint = machine.identity();
        machine
    }

    /// `Ryzen5950X_16c_64GB`; parts that are unknown are left out.
    fn readable_name(&self) -> String {
        let model = self.cpu.as_deref().map(short_model).filter(|model| !model.is_empty());
        let size = self.cores.map(|cores| format!("{cores}c")).or(self.threads.map(|threads| format!("{threads}t")));
        let memory = self.mem.total_bytes.map(|bytes| format!("{}GB", installed_gib(bytes)));
        let parts = [Some(model.unwrap_or_else(|| self.architecture.clone())), size, memory];
        parts.into_iter().flatten().collect::<Vec<_>>().join("_")
    }

    /// The hash of what stays the same for as long as the machine does.
    fn identity(&self) -> String {
        hash::of_value(&(
            (&self.architecture, &self.cpu, self.cores, self.threads),
            (&self.caches, &self.isa, self.numa, &self.virt),
            // The total that the kernel reports moves a little from one kernel to the next.
            self.mem.total_bytes.map(installed_gib),
            std::env::consts::OS,
        ))
        .expect("a tuple of text and numbers is JSON")
    }
}

fn available_threads() -> Option<usize> {
    std::thread::available_parallelism().ok().map(Into::into)
}

/// The model of `/proc/cpuinfo`: its name, or the numbers by which Arm cores are known.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    value("model name").or_else(|| Some(format!("Arm-{}-{}", value("CPU implementer")?, value("CPU part")?)))
}

/// What distinguishes a model, without what makers add to it: `Ryzen5950X`, `XeonPlatinum8375C`.
fn short_model(model: &str) -> String {
    let model = model.split(" @ ").next().unwrap_or(model).split(" with ").next().unwrap_or(model);
    let plain = model.replace("(R)", " ").replace("(TM)", " ").replace("(r)", " ").replace("(tm)", " ");
    let decoration = |word: &str| {
        matches!(word, "AMD" | "Intel" | "CPU" | "Processor" | "Gen")
            || word.ends_with("-Core")
            // The tier of `Ryzen 9 5950X`, the generation of `12th Gen`.
            || (word.len() == 1 && word.starts_with(|c: char| c.is_ascii_digit()))
            || word.strip_suffix("th").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let words = plain.split_whitespace().filter(|word| !decoration(word));
    words.flat_map(str::chars).filter(|c| c.is_ascii_alphanumeric() || ".-".contains(*c)).collect()
}

/// Memory as it was bought, in GiB: the kernel keeps some to itself, at most a sixteenth.
fn installed_gib(total_bytes: u64) -> u64 {
    let gib = total_bytes.div_ceil(1 << 30).max(1);
    let step = (gib.next_power_of_two() / 16).max(1);
    gib.next_multiple_of(step)
}

fn caches() -> Caches {
    let mut caches = Caches::default();
    for index in 0.. {
        let file = |name: &str| linux::cpu_file(0, &format!("cache/index{index}/{name}"));
        let Some(kind) = file("type") else { break };
        let size = file("size").and_then(|text| cache_kib(&text));
        match file("level").as_deref() {
            Some("1") if kind != "Instruction" => caches.l1_kib = size,
            Some("2") => caches.l2_kib = size,
            Some("3") => caches.l3_kib = size,
            _ => {}
        }
    }
    caches
}

/// KiB of a size such as `512K` or `32M`.
fn cache_kib(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "K" => Some(number),
        "M" => number.checked_mul(1024),
        _ => None,
    }
}

/// The pretty name of `/etc/os-release`.
fn os_name(os_release: &str) -> Option<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim_matches('"');
    (!name.is_empty()).then(|| name.to_owned())
}

/// The hypervisor by name where the system has one, or only that there is one.
fn virtualisation(cpuinfo: &str) -> Option<String> {
    linux::read("/sys/hypervisor/type").or_else(|| {
        cpu_is_virtual(cpuinfo).then(|| {
            let product = linux::read("/sys/class/dmi/id/product_name").filter(|name| !name.is_empty());
            product.unwrap_or_else(|| "unnamed hypervisor".to_owned())
        })
    })
}

fn cpu_is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The names among those given that this CPU has.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! detected {
    ($detect:ident: $($name:tt)*) => {{
        let features = [$(($name, std::arch::$detect!($name))),*];
        features.into_iter().filter(|(_, present)| *present).map(|(name, _)| name.to_owned()).collect()
    }};
}

#[cfg(target_arch = "x86_64")]
fn instruction_sets() -> Vec<String> {
    detected!(is_x86_feature_detected:
        "sse2" "sse4.1" "sse4.2" "avx" "avx2" "fma" "f16c" "bmi1" "bmi2"
        "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16")
}

#[cfg(target_arch = "aarch64")]
fn instruction_sets() -> Vec<String> {
    detected!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "bf16" "i8mm" "sve" "sve2")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn instruction_sets() -> Vec<String> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(total_kib: u64, available: u64) -> Memory {
        Memory { total_bytes: Some(total_kib * 1024), available_bytes: Some(available), extra: Map::new() }
    }

    fn machine() -> Machine {
        Machine {
            fingerprint: String::new(),
            name: String::new(),
            cpu: Some("AMD Ryzen 9 5950X 16-Core Processor".to_owned()),
            cores: Some(16),
            threads: Some(32),
            caches: Caches { l1_kib: Some(32), l2_kib: Some(512), l3_kib: Some(32_768), extra: Map::new() },
            isa: vec!["avx2".to_owned()],
            mem: memory(65_760_000, 1),
            numa: Some(1),
            os: "Debian".to_owned(),
            kernel: Some("6.1".to_owned()),
            virt: None,
            architecture: "x86_64".to_owned(),
            extra: Map::new(),
        }
    }

    #[test]
    fn models_keep_what_distinguishes_them() {
        for (model, short) in [
            ("AMD Ryzen 9 5950X 16-Core Processor", "Ryzen5950X"),
            ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "XeonPlatinum8375C"),
            ("12th Gen Intel(R) Core(TM) i9-12900K", "Corei9-12900K"),
            ("AMD Ryzen 7 PRO 7840U with Radeon 780M Graphics", "RyzenPRO7840U"),
            ("AMD EPYC", "EPYC"),
            ("Arm-0x41-0xd0c", "Arm-0x41-0xd0c"),
        ] {
            assert_eq!(short_model(model), short);
        }
    }

    #[test]
    fn a_name_says_model_cores_and_memory_and_is_never_generic() {
        assert_eq!(machine().readable_name(), "Ryzen5950X_16c_64GB");
        let unknown = Machine { cpu: None, cores: None, mem: Memory::default(), ..machine() };
        assert_eq!(unknown.readable_name(), "x86_64_32t");
        let nameless = Machine { cpu: Some("CPU".to_owned()), ..machine() };
        assert_eq!(nameless.readable_name(), "x86_64_16c_64GB");
    }

    #[test]
    fn the_fingerprint_follows_the_hardware_only() {
        let same = Machine {
            kernel: Some("6.2".to_owned()),
            os: "Debian, upgraded".to_owned(),
            mem: memory(65_700_000, 2),
            ..machine()
        };
        assert_eq!(machine().identity(), same.identity());
        assert_eq!(machine().identity().len(), 16);
        let other = Machine { cores: Some(8), ..machine() };
        assert_ne!(machine().identity(), other.identity());
    }

    #[test]
    fn memory_is_named_as_it_was_bought() {
        for (kib, gib) in [(65_760_000, 64), (24_682_416, 24), (32_700_000, 32), (16_300_000, 16), (500_000, 1)] {
            assert_eq!(installed_gib(kib * 1024), gib);
        }
    }

    #[test]
    fn text_of_the_system_is_understood() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 hypervisor\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("AMD EPYC"));
        assert!(cpu_is_virtual(cpuinfo));
        assert!(!cpu_is_virtual("flags : fpu"));
        let arm = "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("Arm-0x41-0xd0c"));
        assert_eq!(cpu_model(""), None);
        assert_eq!(
            [cache_kib("512K"), cache_kib("32M"), cache_kib(""), cache_kib("é")],
            [Some(512), Some(32_768), None, None]
        );
        assert_eq!(os_name("ID=debian\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
        assert_eq!(os_name("ID=debian"), None);
    }

    #[test]
    fn this_machine_has_a_name_and_the_same_fingerprint_each_time() {
        let here = Machine::detect();
        assert_eq!(here.fingerprint, Machine::detect().fingerprint);
        assert!(here.name.contains('_') && !here.name.to_uppercase().starts_with("CPU"), "{}", here.name);
    }
}
