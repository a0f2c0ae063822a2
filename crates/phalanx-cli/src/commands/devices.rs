//! `phalanx devices`: what can compute, and what is there but cannot.

use std::collections::BTreeSet;

use clap::Args;
use phalanx_lab::format::format_bytes;
use phalanx_lab::machine::Machine;
use serde::Serialize;

use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::machine;

#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    devices: Vec<Device>,
    /// Threads that this process may use at once.
    usable_threads: usize,
    machine: Machine,
}

#[derive(Serialize)]
struct Device {
    /// What `--device` calls it.
    device: &'static str,
    name: String,
    usable: bool,
}

pub(crate) fn run(args: &DevicesArgs) -> Result<(), Failure> {
    let machine = Machine::detect();
    let cpu = machine.cpu.clone().unwrap_or_else(|| machine.architecture.clone());
    let mut devices = vec![Device { device: "cpu", name: cpu, usable: true }];
    devices.extend(gpus().into_iter().map(|name| Device { device: "gpu", name, usable: false }));
    let report = Report { devices, usable_threads: machine::cores(), machine };
    if args.json { print_json(&report) } else { print(&text(&report)) }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for Device { device, name, usable } in &report.devices {
        let note = if *usable { "" } else { "  (not used: this build computes on the CPU only)" };
        text += &format!("{device}  {name}{note}\n");
    }
    let Machine { cores, threads, caches, isa, mem, virt, .. } = &report.machine;
    let number = |value: &Option<usize>| value.map_or("unknown".to_owned(), |value| value.to_string());
    let kib = |value: Option<u64>| value.map_or("unknown".to_owned(), |kib| format_bytes(kib as f64 * 1024.0));
    text += &format!(
        "     {} cores, {} threads, of which this process may use {}\n     caches {}, {}, {}\n     {}\n",
        number(cores),
        number(threads),
        report.usable_threads,
        kib(caches.l1_kib),
        kib(caches.l2_kib),
        kib(caches.l3_kib),
        isa.join(" "),
    );
    let bytes = |value: Option<u64>| value.map_or("unknown".to_owned(), |bytes| format_bytes(bytes as f64));
    text += &format!("     memory {}, available {}\n", bytes(mem.total_bytes), bytes(mem.available_bytes));
    if let Some(virt) = virt {
        text += &format!("     virtual machine: {virt}\n");
    }
    if report.devices.iter().all(|device| device.usable) {
        text += "gpu  none found; this build would not use one\n";
    }
    text
}

/// Graphics processors that the kernel has render nodes for.
fn gpus() -> Vec<String> {
    let Ok(nodes) = std::fs::read_dir("/sys/class/drm") else { return Vec::new() };
    let names: BTreeSet<String> = nodes
        .filter_map(|node| Some(node.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("renderD")))
        .filter_map(|path| {
            let vendor = std::fs::read_to_string(path.join("device/vendor")).ok()?;
            let maker = match vendor.trim() {
                "0x10de" => "NVIDIA".to_owned(),
                "0x1002" => "AMD".to_owned(),
                "0x8086" => "Intel".to_owned(),
                other => format!("vendor {other}"),
            };
            Some(format!("{maker} graphics ({})", path.file_name()?.to_string_lossy()))
        })
        .collect();
    names.into_iter().collect()
}
