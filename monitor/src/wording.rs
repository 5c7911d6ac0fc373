//! Formats numbers for sentences.

/// A count of things, in singular or plural: `1 record`, `2 records`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The line of a box library that declares the box at this path as blocking.
pub(crate) fn declare_blocking(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    format!(
        "declare {path} blocking, so that it has a thread of its own: in the table of its library, `\"box {name} (…)\" => blocking {name},` \
         in Rust, or THALWEG_BLOCKING_BOX for its THALWEG_BOX in C (docs/boxes.md, \"Boxes that wait\")"
    )
}

/// A share of 1: `48 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
