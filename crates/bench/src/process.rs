//! A server process of our own: started, observed, ended.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Resource, getrlimit, setrlimit};

/// How long a server may take to listen.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take to end after its signal before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Kernel clock ticks a second in `/proc/PID/stat` (fixed at 100 on Linux's user interface).
const TICKS_PER_SECOND: f64 = 100.0;

/// Lets this process and those it starts have as many files and connections as the system allows.
pub fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Whoever needs more than there are says so.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// An account that a server runs as.
#[derive(Debug, Clone, Copy)]
pub struct Account {
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

/// A server's command line, kept so that the same server can be started again.
#[derive(Debug)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The directory that it is started in, when it matters.
    pub directory: Option<PathBuf>,
    /// The account that it runs as, when not this process's.
    pub account: Option<Account>,
    /// The file that its output is appended to.
    pub log: PathBuf,
    /// The port that it listens on.
    pub port: u16,
    /// The signal that ends it in good order: `TERM`, or `INT` where that one waits for clients.
    pub stop_signal: &'static str,
}

impl Launch {
    /// A server of this account, ended by SIGTERM.
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: Vec<OsString>,
        log: &Path,
        port: u16,
    ) -> Self {
        Self {
            program: program.into(),
            arguments,
            directory: None,
            account: None,
            log: log.to_owned(),
            port,
            stop_signal: "TERM",
        }
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        if let Some(Account { user, group }) = self.account {
            command.uid(user).gid(group);
        }
        command
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))
    }
}

/// A child process that listens on a port; stopped when dropped.
pub struct ServerProcess {
    child: Child,
    launch: Launch,
    is_asked_to_stop: bool,
}

impl ServerProcess {
    /// Starts a server and waits until its port answers.
    ///
    /// # Errors
    /// When it cannot be started, ends at once or does not listen in time; the end of its log is quoted.
    pub fn start(launch: Launch) -> anyhow::Result<Self> {
        let child = launch.spawn()?;
        let mut process = Self {
            child,
            launch,
            is_asked_to_stop: false,
        };
        process.wait_until_listening()?;
        Ok(process)
    }

    /// Stops the server, runs `between`, and starts it again on the same data.
    ///
    /// # Errors
    /// As [`ServerProcess::start`].
    pub fn restart(&mut self, between: impl FnOnce()) -> anyhow::Result<()> {
        self.stop();
        between();
        self.child = self.launch.spawn()?;
        self.is_asked_to_stop = false;
        self.wait_until_listening()
    }

    fn wait_until_listening(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        let program = self.launch.program.display().to_string();
        let port = self.launch.port;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{program} ended at once ({status}):\n{}", self.log_tail());
            }
            if started.elapsed() > START_TIMEOUT {
                bail!(
                    "{program} does not listen on port {port}:\n{}",
                    self.log_tail()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The last lines that the server wrote.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.launch.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.launch.port
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How a process ended that nobody asked to, and what it wrote last.
    pub fn unasked_end(&mut self) -> Option<String> {
        if self.is_asked_to_stop {
            return None;
        }
        let status = self.child.try_wait().ok()??;
        let (program, said) = (self.launch.program.display(), self.log_tail());
        Some(format!(
            "{program} ended by itself ({status}); its last words:\n{said}"
        ))
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the process to end and waits; kills it when it does not.
    pub fn stop(&mut self) {
        if !self.is_running() {
            return;
        }
        self.is_asked_to_stop = true;
        // The standard library can only kill; a milder signal lets the server close its files.
        let _ = Command::new("kill")
            .arg(format!("-{}", self.launch.stop_signal))
            .arg(self.child.id().to_string())
            .status();
        let asked = Instant::now();
        while self.is_running() {
            if asked.elapsed() > STOP_TIMEOUT {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Its log goes away with its data; the error that ends the run only knows that it is gone.
        if let Some(end) = self.unasked_end() {
            eprintln!("{end}");
        }
        self.stop();
    }
}

/// A port that nobody listens on now, and that was given to nobody else in this process.
///
/// # Errors
/// When the machine has none.
pub fn free_port() -> anyhow::Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    // Ports of this round stay open until it ends: the system would offer the same again.
    let mut offered = Vec::new();
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        if given.insert(port) {
            return Ok(port);
        }
        offered.push(listener);
    }
}

/// Memory of a process and its descendants in bytes, shared pages counted once.
pub fn memory_bytes(id: u32) -> Option<u64> {
    let total: u64 = family(id)
        .into_iter()
        .filter_map(process_memory_bytes)
        .sum();
    (total > 0).then_some(total)
}

/// The most that one process ever had resident, in bytes.
pub fn memory_peak_bytes(id: u32) -> Option<u64> {
    kibibytes(
        &std::fs::read_to_string(format!("/proc/{id}/status")).ok()?,
        "VmHWM:",
    )
}

/// Bytes that a process and its descendants, ended ones included, had written to disk so far:
/// the kernel adds a process's bytes to its parent's once it has ended.
pub fn written_bytes(id: u32) -> Option<u64> {
    let written = family(id).into_iter().filter_map(process_written_bytes);
    written.reduce(|one, other| one + other)
}

fn process_written_bytes(id: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/io")).ok()?;
    let line = text.lines().find(|line| line.starts_with("write_bytes:"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

/// Writes back all files and drops the machine's file cache, so that a server that starts reads
/// from the disk. `false` where the machine does not allow it.
pub fn drop_file_cache() -> bool {
    let synced = Command::new("sync")
        .status()
        .is_ok_and(|status| status.success());
    synced && std::fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

/// Processor seconds spent so far by a process and its living descendants.
pub fn processor_seconds(id: u32) -> f64 {
    family(id).into_iter().filter_map(process_seconds).sum()
}

fn process_memory_bytes(id: u32) -> Option<u64> {
    let proportional = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup"))
        .ok()
        .and_then(|text| kibibytes(&text, "Pss:"));
    proportional.or_else(|| {
        kibibytes(
            &std::fs::read_to_string(format!("/proc/{id}/status")).ok()?,
            "VmRSS:",
        )
    })
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(
        line[name.len()..]
            .trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .ok()?
            * 1024,
    )
}

/// State, parent and times are the fields after the parenthesised name.
fn stat_fields(id: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let rest = &text[text.rfind(')')? + 1..];
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Processor seconds spent so far by the living threads of this process, servers that it
/// started left out. Finer than the kernel's ticks of 10 ms: a load may cost the client less.
pub fn own_processor_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks
        .filter_map(|task| scheduled_seconds(&task.ok()?.path()))
        .sum()
}

/// Processor seconds spent so far by the calling thread.
pub fn thread_processor_seconds() -> f64 {
    scheduled_seconds(Path::new("/proc/thread-self")).unwrap_or_default()
}

fn scheduled_seconds(task: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

fn process_seconds(id: u32) -> Option<f64> {
    let fields = stat_fields(id)?;
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}

fn family(id: u32) -> Vec<u32> {
    let mut members = vec![id];
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|process| Some((process, stat_fields(process)?.get(1)?.parse().ok()?)))
        .collect();
    let mut next = 0;
    while next < members.len() {
        let parent = members[next];
        members.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(process, _)| *process),
        );
        next += 1;
    }
    members
}

/// Bytes that a directory's files take on disk (allocated blocks, as `du`).
pub fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: BTreeSet<u16> = (0..1_000).map(|_| free_port().expect("a port")).collect();
        assert_eq!(ports.len(), 1_000);
    }

    #[test]
    fn this_process_has_memory_and_time() {
        let id = std::process::id();
        assert!(memory_bytes(id).expect("memory") > 100_000);
        assert!(memory_peak_bytes(id).expect("peak") > 100_000);
        assert!(processor_seconds(id) >= 0.0);
        assert!(own_processor_seconds() > 0.0);
    }

    #[test]
    fn what_is_written_by_a_process_that_has_ended_still_counts() {
        let directory = tempfile::tempdir().expect("tempdir");
        let id = std::process::id();
        let before = written_bytes(id).expect("counted");
        let file = directory.path().join("file");
        let output = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", "count=4", "conv=fsync"])
            .arg(format!("of={}", file.display()))
            .output()
            .expect("dd runs");
        assert!(output.status.success());
        // A file system in memory writes nothing.
        if process_is_on_disk(directory.path()) {
            assert!(written_bytes(id).expect("counted") >= before + (4 << 20));
        }
    }

    fn process_is_on_disk(directory: &Path) -> bool {
        let output = Command::new("stat")
            .args(["-f", "-c", "%T"])
            .arg(directory)
            .output();
        output.is_ok_and(|output| !output.stdout.starts_with(b"tmpfs"))
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_words() {
        let directory = tempfile::tempdir().expect("tempdir");
        let arguments = vec!["-c".into(), "echo this is why; exit 3".into()];
        let log = directory.path().join("log");
        let launch = Launch::new("sh", arguments, &log, free_port().expect("port"));
        let error = ServerProcess::start(launch).err().expect("fails");
        assert!(error.to_string().contains("this is why"), "{error}");
    }

    #[test]
    fn a_server_that_ends_later_is_told_of_and_one_that_is_stopped_is_not() {
        let directory = tempfile::tempdir().expect("tempdir");
        let log = directory.path().join("log");
        // The test listens in the server's place.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let start = |script: &str| {
            let arguments = vec!["-c".into(), script.into()];
            ServerProcess::start(Launch::new("sh", arguments, &log, port)).expect("starts")
        };
        let mut ended = start("echo no room left; exit 3");
        ended.child.wait().expect("ends");
        let end = ended.unasked_end().expect("nobody asked it to");
        assert!(end.contains("no room left"), "{end}");
        assert!(end.contains("exit status: 3"), "{end}");
        let mut stopped = start("exec sleep 1000");
        assert_eq!(stopped.unasked_end(), None);
        stopped.stop();
        assert_eq!(stopped.unasked_end(), None);
    }
}
