//! What the figures were taken on.

use serde::Serialize;

/// The machine's facts that a reader needs to judge absolute figures.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name as the kernel tells it.
    pub processor: String,
    /// Processors this process may use.
    pub cores: usize,
    /// Memory in mebibytes.
    pub memory_mib: u64,
    /// Kernel name and release.
    pub kernel: String,
}

impl Machine {
    /// Reads the facts from `/proc`; what is not there is `unknown` or 0.
    pub fn read() -> Self {
        Self {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: field("/proc/meminfo", "MemTotal")
                .and_then(|text| text.trim_end_matches(" kB").trim().parse::<u64>().ok())
                .unwrap_or(0)
                / 1024,
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(
                |_| std::env::consts::OS.into(),
                |release| format!("Linux {}", release.trim()),
            ),
        }
    }
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
