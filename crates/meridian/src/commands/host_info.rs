//! `hostInfo`: what this machine is, from `/proc` and `/etc/os-release`.

use super::context::Context;
use meridian_engine::Result;
use meridian_wire::DocumentWriter;
use std::collections::BTreeSet;
use std::fs;

/// Answers with the machine, the operating system and its kernel.
pub fn run(context: &mut Context<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let memory_mb = memory_total_kib() / 1024;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let cores = i32::try_from(cores).unwrap_or(i32::MAX);
    let processors = Processors::read(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    let kernel = read_line("/proc/sys/kernel/osrelease");
    reply
        .document("system")
        .date("currentTime", bson::DateTime::now())
        .string("hostname", &context.service.host)
        .int32("cpuAddrSize", 64)
        .int64("memSizeMB", memory_mb)
        .int64("memLimitMB", memory_mb)
        .int32("numCores", cores)
        .int32("numPhysicalCores", processors.cores)
        .int32("numCpuSockets", processors.sockets)
        .string("cpuArch", std::env::consts::ARCH)
        .boolean("numaEnabled", numa_nodes() > 1)
        .int32("numNumaNodes", numa_nodes());
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

/// Cores and sockets, as `/proc/cpuinfo` tells them of each thread; one of each where it does not.
struct Processors {
    cores: i32,
    sockets: i32,
}

impl Processors {
    fn read(table: &str) -> Self {
        let (mut cores, mut sockets) = (BTreeSet::new(), BTreeSet::new());
        let mut socket = "";
        for line in table.lines() {
            match line
                .split_once(':')
                .map(|(name, value)| (name.trim(), value.trim()))
            {
                Some(("physical id", id)) => {
                    socket = id;
                    sockets.insert(id);
                }
                Some(("core id", id)) => {
                    cores.insert((socket, id));
                }
                _ => {}
            }
        }
        let number = |found: usize| i32::try_from(found.max(1)).unwrap_or(i32::MAX);
        Self {
            cores: number(cores.len()),
            sockets: number(sockets.len()),
        }
    }
}

/// Nodes of memory, of which there is at least one.
fn numa_nodes() -> i32 {
    let entries = fs::read_dir("/sys/devices/system/node")
        .into_iter()
        .flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    let is_node = |name: &std::ffi::OsString| {
        let number = name.to_str().and_then(|name| name.strip_prefix("node"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let nodes = names.filter(is_node).count();
    i32::try_from(nodes.max(1)).unwrap_or(i32::MAX)
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
