//! Structured logs on stderr, of which the latest lines stay in memory for `getLog`.
//!
//! Values come from clients too. One is written up to [`VALUE_BYTES_MAX`], and control characters are escaped,
//! so that no value looks like the next line or talks to the terminal.

use super::settings::LogFormat;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::fmt::{self, Debug, Write as _};
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The environment variable that chooses what is logged, as `info` or `meridian=debug`.
const FILTER_VARIABLE: &str = "MERIDIAN_LOG";
/// As many lines as MongoDB keeps.
const LINES_KEPT_MAX: usize = 1024;
/// A longer value is cut.
const VALUE_BYTES_MAX: usize = 1024;
/// What ends a value that was cut.
const CUT: &str = "…";

/// The greatest verbosity, as in MongoDB.
pub const LEVEL_MAX: u8 = 5;

static LATEST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
static VERBOSITY: Mutex<Verbosity> = Mutex::new(Verbosity {
    level: 0,
    is_quiet: false,
});
/// Changes what is logged, once logging has started.
static CHANGE: OnceLock<Box<dyn Fn(EnvFilter) + Send + Sync>> = OnceLock::new();

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verbosity {
    /// 0 is what [`FILTER_VARIABLE`] says, else the usual; 1 and 2 also what helps to find faults; 3 to [`LEVEL_MAX`] all.
    pub level: u8,
    /// Without connections that come and go.
    pub is_quiet: bool,
}

impl Verbosity {
    /// That of now.
    pub fn current() -> Self {
        *VERBOSITY.lock()
    }

    /// Makes it that of the process.
    pub fn apply(self) {
        let mut current = VERBOSITY.lock();
        *current = self;
        if let Some(change) = CHANGE.get() {
            change(self.filter());
        }
    }

    fn filter(self) -> EnvFilter {
        let own = |level: &str| format!("info,meridian={level},meridian_engine={level}");
        let filter = match self.level {
            0 => EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| "info".into()),
            1 | 2 => own("debug").into(),
            _ => own("trace").into(),
        };
        match "meridian::server=warn".parse() {
            Ok(without_connections) if self.is_quiet => filter.add_directive(without_connections),
            _ => filter,
        }
    }
}

/// Starts logging for the rest of the process.
pub fn start(format: LogFormat) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(Verbosity::current().filter())
        .with_writer(|| Line)
        .with_target(false);
    match format {
        LogFormat::Text => {
            let lines = lines
                .with_ansi(io::stderr().is_terminal())
                .fmt_fields(debug_fn(write_field).delimited(" "))
                .with_filter_reloading();
            let handle = lines.reload_handle();
            keep(move |filter| handle.reload(filter).is_ok());
            lines.init();
        }
        LogFormat::Json => {
            let lines = lines.event_format(JsonLine).with_filter_reloading();
            let handle = lines.reload_handle();
            keep(move |filter| handle.reload(filter).is_ok());
            lines.init();
        }
    }
}

/// Keeps the way to change what is logged, which fails only when nothing is logged any more.
fn keep(change: impl Fn(EnvFilter) -> bool + Send + Sync + 'static) {
    let change = move |filter| {
        change(filter);
    };
    let _ = CHANGE.set(Box::new(change));
}

/// The latest lines, oldest first.
pub fn latest() -> Vec<String> {
    LATEST.lock().iter().cloned().collect()
}

/// Writes one line to stderr and keeps it. The formatter hands over whole lines.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut latest = LATEST.lock();
        if latest.len() == LINES_KEPT_MAX {
            latest.pop_front();
        }
        latest.push_back(String::from_utf8_lossy(bytes).trim_end().to_owned());
        drop(latest);
        // Nobody to tell if stderr is closed; the server goes on.
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let value = bounded(value, is_control);
    match field.name() {
        "message" => write!(writer, "{value}"),
        name => write!(writer, "{name}={value}"),
    }
}

/// One JSON object: time and level, then the message and its fields.
struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), time.into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        event.record(&mut JsonFields(&mut line));
        writeln!(writer, "{}", Value::Object(line))
    }
}

struct JsonFields<'a>(&'a mut Map<String, Value>);

impl JsonFields<'_> {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for JsonFields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, bounded(&format_args!("{value}"), is_unknown_to_json));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, bounded(value, is_unknown_to_json));
    }
}

/// What a terminal may act upon, or what turns the text around it.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// [`is_control`], without what JSON escapes itself.
fn is_unknown_to_json(character: char) -> bool {
    character >= ' ' && is_control(character)
}

/// The value as text, up to a bound, with these characters escaped.
fn bounded(value: &dyn Debug, is_escaped: fn(char) -> bool) -> String {
    let mut bounded = Bounded {
        text: String::new(),
        is_escaped,
    };
    // Fails once it is full, which ends the value's own formatting.
    if write!(bounded, "{value:?}").is_err() {
        bounded.text.push_str(CUT);
    }
    bounded.text
}

struct Bounded {
    text: String,
    is_escaped: fn(char) -> bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for character in more.chars() {
            if self.text.len() + character.len_utf8() > VALUE_BYTES_MAX {
                return Err(fmt::Error);
            }
            match (self.is_escaped)(character) {
                true => self.text.extend(character.escape_default()),
                false => self.text.push(character),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_at_the_bound() {
        let text = |length: usize| bounded(&format_args!("{}", "x".repeat(length)), is_control);
        assert_eq!(text(VALUE_BYTES_MAX).len(), VALUE_BYTES_MAX);
        for length in [VALUE_BYTES_MAX + 1, VALUE_BYTES_MAX * 1000] {
            assert_eq!(text(length).len(), VALUE_BYTES_MAX + CUT.len());
            assert!(text(length).ends_with(CUT));
        }
        let wide = bounded(&format_args!("{}", "é".repeat(VALUE_BYTES_MAX)), is_control);
        assert!(wide.len() <= VALUE_BYTES_MAX + CUT.len());
        let escaped = bounded(
            &format_args!("{}", "\u{1b}".repeat(VALUE_BYTES_MAX)),
            is_control,
        );
        assert!(escaped.len() <= VALUE_BYTES_MAX + CUT.len() + 10);
    }

    #[test]
    fn no_value_forges_a_line_or_talks_to_the_terminal() {
        let evil = "a\nb\r\u{1b}[31m\u{9b}2J\u{2028}\u{202e}\0\u{7f}";
        for text in [
            bounded(&format_args!("{evil}"), is_control),
            bounded(&evil, is_control),
        ] {
            assert!(!text.chars().any(is_control), "{text:?}");
            assert!(text.contains("\\n") && text.contains("\\u{1b}"), "{text}");
        }
        let json = Value::from(bounded(&format_args!("{evil}"), is_unknown_to_json)).to_string();
        assert!(!json.chars().any(is_control), "{json:?}");
        assert_eq!(
            bounded(&format_args!("Zürich 東京"), is_control),
            "Zürich 東京"
        );
    }
}
