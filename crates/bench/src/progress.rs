//! Progress bars with rate and estimate, on standard error.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `total` things called `what`; silent when standard error is not a terminal.
pub fn bar(total: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    bar.set_style(style(
        "{msg:<36} [{bar:30}] {human_pos}/{human_len} {elapsed} {per_sec:>14} eta {eta}",
    ));
    bar.set_message(what.to_owned());
    bar
}

/// A spinner for a step whose length is not known.
pub fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_style(style("{spinner} {msg} {elapsed}"));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the template is a constant and valid")
        .progress_chars("=> ")
}

/// Says a step's name on standard error where no bar would show it.
pub fn say(text: &str) {
    eprintln!("{text}");
}
