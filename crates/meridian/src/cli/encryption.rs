//! Encryption at rest: where the master key comes from, `meridian encrypt` and `meridian rekey`.

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use meridian_engine::MasterKey;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A key takes 45 bytes; whatever is longer than this is none.
const KEY_TEXT_BYTES_MAX: u64 = 4096;
/// How long a command may take to print a key.
const COMMAND_PATIENCE: Duration = Duration::from_secs(60);
/// How long its output may stay open once it has ended.
const AFTERWARDS: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// Where the master key is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct KeyArguments {
    /// File with the master key of an encrypted data directory: 32 bytes in base64, readable by its owner alone
    #[arg(long, value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,
    /// Command that prints the master key, for a key manager; run by sh
    #[arg(long, value_name = "COMMAND", conflicts_with = "encryption_key_file")]
    pub encryption_key_command: Option<String>,
}

/// Flags of `meridian encrypt`.
#[derive(Debug, Args)]
pub struct EncryptArguments {
    /// The data directory; no server may be using it
    #[arg(value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

/// Flags of `meridian rekey`.
#[derive(Debug, Args)]
pub struct RekeyArguments {
    /// The data directory; no server may be using it
    #[arg(value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
    /// File with the new master key
    #[arg(long, value_name = "FILE")]
    new_encryption_key_file: Option<PathBuf>,
    /// Command that prints the new master key; run by sh
    #[arg(
        long,
        value_name = "COMMAND",
        conflicts_with = "new_encryption_key_file"
    )]
    new_encryption_key_command: Option<String>,
}

impl KeyArguments {
    /// Whether there is one.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }

    /// The key; `None` when nobody said where one is.
    ///
    /// # Errors
    /// When it cannot be had, or is none; in words that do not show it.
    pub fn master_key(&self) -> anyhow::Result<Option<MasterKey>> {
        match (&self.encryption_key_file, &self.encryption_key_command) {
            (Some(_), Some(_)) => bail!(
                "encryption-key-file and encryption-key-command both say where the master key is: give one"
            ),
            (Some(path), None) => from_file(path).map(Some),
            (None, Some(command)) => from_command(command).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn required(&self, flags: &str) -> anyhow::Result<MasterKey> {
        self.master_key()?
            .with_context(|| format!("say where the {flags} is"))
    }
}

/// Encrypts a directory, and shows how far it is.
pub fn encrypt(arguments: &EncryptArguments) -> anyhow::Result<()> {
    let key = arguments.key.required(
        "master key: --encryption-key-file FILE (openssl rand -base64 32 makes one) or --encryption-key-command COMMAND",
    )?;
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(
        "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
    )?);
    let place = arguments.data.display();
    let mut total = 0;
    meridian_engine::encrypt_directory(&arguments.data, &key, &mut |done, of| {
        total = of;
        bar.set_length(of);
        bar.set_position(done);
    })
    .map_err(|error| anyhow::anyhow!("{}", error.message))
    .with_context(|| format!("cannot encrypt {place}"))?;
    bar.finish_and_clear();
    println!("encrypted {place}, {total} bytes; it cannot be read without the master key");
    Ok(())
}

/// Turns the master key of a directory over.
pub fn rekey(arguments: &RekeyArguments) -> anyhow::Result<()> {
    let new = KeyArguments {
        encryption_key_file: arguments.new_encryption_key_file.clone(),
        encryption_key_command: arguments.new_encryption_key_command.clone(),
    };
    let old = arguments.key.required(
        "present master key: --encryption-key-file FILE or --encryption-key-command COMMAND",
    )?;
    let new = new.required(
        "new master key: --new-encryption-key-file FILE or --new-encryption-key-command COMMAND",
    )?;
    let place = arguments.data.display();
    meridian_engine::rekey_directory(&arguments.data, &old, &new)
        .map_err(|error| anyhow::anyhow!("{}", error.message))
        .with_context(|| format!("cannot turn the master key of {place} over"))?;
    println!("{place} is opened by the new master key, and no more by the old one");
    Ok(())
}

fn from_file(path: &Path) -> anyhow::Result<MasterKey> {
    let shown = path.display();
    let mode = std::fs::metadata(path)
        .with_context(|| format!("cannot read the master key from {shown}"))?
        .permissions()
        .mode();
    ensure!(
        mode & 0o077 == 0,
        "permissions on {shown} are too open: nobody but its owner may read a master key (chmod 600 {shown})"
    );
    let file = std::fs::File::open(path)
        .with_context(|| format!("cannot read the master key from {shown}"))?;
    let mut text = String::new();
    file.take(KEY_TEXT_BYTES_MAX)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read the master key from {shown}"))?;
    MasterKey::from_base64(&text).map_err(|error| anyhow::anyhow!("{shown}: {error}"))
}

fn from_command(command: &str) -> anyhow::Result<MasterKey> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run sh for encryption-key-command")?;
    let out = child.stdout.take().expect("it is piped");
    // Read beside it, so that one that prints too much, or nothing, does not stop us.
    let (sender, reading) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = out.take(KEY_TEXT_BYTES_MAX).read_to_string(&mut text);
        let _ = sender.send(read.map(|_| text));
    });
    let status = wait(&mut child)?;
    ensure!(
        status.success(),
        "encryption-key-command printed no master key: {status}"
    );
    let text = reading.recv_timeout(AFTERWARDS).context(
        "encryption-key-command ended, and something that it began keeps its output open",
    )?;
    let text = text.context("cannot read what encryption-key-command prints")?;
    MasterKey::from_base64(&text)
        .map_err(|error| anyhow::anyhow!("what encryption-key-command prints: {error}"))
}

fn wait(child: &mut Child) -> anyhow::Result<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("encryption-key-command")? {
            return Ok(status);
        }
        if begun.elapsed() > COMMAND_PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            bail!(
                "encryption-key-command printed no master key in {} seconds",
                COMMAND_PATIENCE.as_secs()
            );
        }
        std::thread::sleep(POLL);
    }
}
