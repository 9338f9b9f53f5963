//! Shows the progress of a new copy to a person that waits for it.

use protocol::message::FillReport;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that shows the visited rows. It is hidden without a terminal.
pub(super) struct CopyProgressBar(ProgressBar);

impl CopyProgressBar {
    pub fn new(name: &str) -> CopyProgressBar {
        let bar = ProgressBar::new(0);
        let template =
            "{prefix} [{bar:32}] {percent:>3}% {pos}/{len} rows read from other copies {eta}";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.expect("the template is fixed").progress_chars("=> "));
        bar.set_prefix(name.to_string());
        CopyProgressBar(bar)
    }

    pub fn show(&self, fill: &FillReport) {
        self.0.set_length(fill.of_rows);
        self.0.set_position(fill.rows.min(fill.of_rows));
    }
}

impl Drop for CopyProgressBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
