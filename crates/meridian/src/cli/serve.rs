//! `meridian serve`: opens the data, listens, and stops cleanly on SIGTERM and SIGINT. SIGHUP stops nothing:
//! a terminal that closes sends it, and operators who expect settings to be read again.

use super::log;
use super::settings::{SettingArguments, Settings, TlsMode};
use crate::commands;
use crate::server::{Listener, Tls};
use crate::service::{AuditLog, Service};
use anyhow::Context as _;
use clap::Args;
use meridian_engine::{Engine, EngineOptions};
use rustix::process::{Resource, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long running commands may go on after a signal.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);

/// Flags of `meridian serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "The environment variable MERIDIAN_LOG chooses what is logged: info, \
                        debug, meridian_engine=trace, ..."
)]
pub struct ServeArguments {
    #[command(flatten)]
    settings: SettingArguments,
    /// TOML file with the same settings (data, listen, cache-size, ...); flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Serves until a signal comes.
pub fn run(arguments: ServeArguments) -> anyhow::Result<()> {
    let file = match &arguments.config {
        Some(path) => SettingArguments::from_file(path)?,
        None => SettingArguments::default(),
    };
    let settings = arguments.settings.or(file).complete()?;
    log::start(settings.log_format);
    serve(settings)
}

fn serve(mut settings: Settings) -> anyhow::Result<()> {
    limit_connections(&mut settings, raise_file_limit());
    // Before the engine opens, so that an early signal is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot wait for signals")?;
    let tls = Tls::from_settings(&settings)?;
    let listener = Listener::bind(settings.listen, tls.clone())
        .with_context(|| format!("cannot listen on {}", settings.listen))?;
    let engine = open_engine(&settings)?;
    let mut service = Service::new(
        Arc::clone(&engine),
        settings.clone(),
        listener.address(),
        commands::COMMANDS,
    );
    service.rotate_certificates = tls.map(|tls| Box::new(move || tls.reload()) as _);
    if let Some(path) = &settings.audit_log {
        let (filter, address) = (settings.audit_filter.as_deref(), listener.address());
        let audit = AuditLog::open(path, filter, settings.audit_sync, address)?;
        audit.write("startup", None, bson::Document::new(), 0);
        service.audit = Some(audit);
    }
    let service = Arc::new(service);
    // Not before: clients that connect while the engine opens would wait for as long as that takes.
    let pool = listener
        .listen(&service)
        .with_context(|| format!("cannot listen on {}", settings.listen))?;
    let handle = listener
        .shutdown_handle()
        .context("cannot duplicate the listening socket")?;
    let accepting = thread::Builder::new()
        .name("accept".to_owned())
        .spawn(move || listener.run(&pool))
        .context("cannot start the accepting thread")?;
    for warning in &service.startup_warnings {
        tracing::warn!("{}", warning.message);
    }
    announce(&settings, handle.address()?);
    let signal = next_stop(&mut signals, &service);
    tracing::info!(signal, "stopping: running commands may finish");
    exit_on_second_signal(signals, Arc::clone(&service));
    let busy = handle.stop(SHUTDOWN_PATIENCE);
    if busy > 0 {
        tracing::warn!(
            busy,
            "connections still busy after the grace period are cut off"
        );
    }
    accepting.join().ok();
    engine.shutdown();
    if let Some(audit) = &service.audit {
        audit.write("shutdown", None, bson::Document::new(), 0);
    }
    tracing::info!("stopped");
    Ok(())
}

fn open_engine(settings: &Settings) -> anyhow::Result<Arc<Engine>> {
    meridian_engine::javascript::enable(settings.javascript);
    let options = EngineOptions {
        master_key: settings.key.master_key()?,
        cache_bytes: settings.cache_bytes,
        journal: settings.journal,
        ttl_sweep_seconds: settings.ttl_sweep_seconds,
        accept_unbuilt_indexes: settings.accept_unbuilt_indexes,
        ..EngineOptions::default()
    };
    Engine::open(&settings.data, options)
        .map_err(|error| anyhow::anyhow!("{}", error.message))
        .with_context(|| format!("cannot open the data directory {}", settings.data.display()))
}

/// A connection and a table file each need a descriptor; shells often allow only 1024. Returns how many there
/// may be, none for any number.
fn raise_file_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    getrlimit(Resource::Nofile).current
}

/// Leaves a fifth of the descriptors to the storage, as MongoDB does: without them it could write nothing.
fn limit_connections(settings: &mut Settings, files: Option<u64>) {
    let most = files.map_or(u32::MAX, |files| {
        u32::try_from(files / 5 * 4).unwrap_or(u32::MAX)
    });
    if settings.max_connections > most {
        tracing::warn!(
            wanted = settings.max_connections,
            most,
            "fewer connections than wanted: the limit of open files is low"
        );
        settings.max_connections = most;
    }
}

/// Prints what a person needs to connect. On stdout, so that scripts can read it; the log is
/// on stderr.
fn announce(settings: &Settings, address: SocketAddr) {
    let reachable = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
        }
        _ => address,
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        data = %settings.data.display(),
        listen = %address,
        cache_bytes = settings.cache_bytes,
        journal = settings.journal,
        "serving"
    );
    let mut out = std::io::stdout();
    // A closed stdout must not stop a server.
    let _ = writeln!(
        out,
        "Meridian {} serves {}\nConnect with: mongodb://{reachable}/{}",
        env!("CARGO_PKG_VERSION"),
        settings.data.display(),
        if settings.tls_mode == TlsMode::Require {
            "?tls=true"
        } else {
            ""
        }
    );
    let _ = out.flush();
}

/// Waits for a signal to stop. SIGHUP has files be read or begun anew.
fn next_stop(signals: &mut Signals, service: &Service) -> Option<i32> {
    signals.forever().find(|signal| {
        if *signal == SIGHUP {
            hang_up(service);
        }
        *signal != SIGHUP
    })
}

fn hang_up(service: &Service) {
    let certificates = service.rotate_certificates.as_ref().map(|rotate| rotate());
    let audit = service.audit.as_ref().map(AuditLog::reopen);
    for (what, outcome) in [("certificates", certificates), ("audit log", audit)] {
        match outcome {
            None => {}
            Some(Ok(())) => tracing::info!(what, "SIGHUP: read anew"),
            Some(Err(error)) => {
                tracing::error!(what, error = format!("{error:#}"), "SIGHUP: kept as before")
            }
        }
    }
    tracing::info!("SIGHUP: settings are read at the start only");
}

fn exit_on_second_signal(mut signals: Signals, service: Arc<Service>) {
    thread::spawn(move || {
        if next_stop(&mut signals, &service).is_some() {
            tracing::warn!("a second signal: leaving without waiting");
            std::process::exit(130);
        }
    });
}
