//! How numbers are written in sentences.

/// A count of things, in singular or plural: `1 record`, `2 records`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A share of 1: `48 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
