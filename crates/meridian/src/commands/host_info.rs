//! `hostInfo`: what this machine is, from `/proc` and `/etc/os-release`.

use super::context::Context;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;
use std::fs;

/// Answers with the machine, the operating system and its kernel.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let memory_mb = memory_total_kib() / 1024;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let cores = i32::try_from(cores).unwrap_or(i32::MAX);
    let kernel = read_line("/proc/sys/kernel/osrelease");
    reply
        .document("system")
        .date("currentTime", bson::DateTime::now())
        .string("hostname", &context.service.host)
        .int32("cpuAddrSize", 64)
        .int64("memSizeMB", memory_mb)
        .int64("memLimitMB", memory_mb)
        .int32("numCores", cores)
        .string("cpuArch", std::env::consts::ARCH)
        .boolean("numaEnabled", false);
    reply
        .document("os")
        .string("type", "Linux")
        .string("name", &distribution())
        .string("version", &format!("Kernel {kernel}"));
    reply
        .document("extra")
        .string("versionString", &read_line("/proc/version"))
        .string("kernelVersion", &kernel)
        .int32("pageSize", 4096);
    Ok(())
}

fn memory_total_kib() -> i64 {
    let table = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = table
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    total
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0)
}

fn distribution() -> String {
    let table = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = table
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("Linux").trim_matches('"').to_owned()
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}
