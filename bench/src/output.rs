//! Formats outcomes as JSON lines, as a table for terminals, or as a table for `BENCHMARKS.md`.

use crate::measure::{self, Figures, Outcome};
use serde_json::{Value, json};

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Columns on a terminal.
    Table,
    /// One object a line.
    Json,
    /// A table in Markdown.
    Markdown,
}

/// The text before the outcomes.
pub(crate) fn head(form: Form) -> Option<String> {
    match form {
        Form::Json => None,
        Form::Table => Some(machine()),
        Form::Markdown => Some(format!(
            "{}\n\n| what | ours | interval, n | limit | ratio | goal | | rivals |\n|---|---|---|---|---|---|---|---|",
            machine()
        )),
    }
}

/// Formats one outcome.
pub(crate) fn line(form: Form, outcome: &Outcome) -> String {
    match form {
        Form::Json => object(outcome).to_string(),
        Form::Table => row(outcome),
        Form::Markdown => markdown(outcome),
    }
}

fn object(outcome: &Outcome) -> Value {
    let middle = outcome.ours.middle;
    let params: serde_json::Map<String, Value> =
        outcome.params.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({
        "group": outcome.group,
        "name": outcome.name,
        "params": params,
        "unit": outcome.unit,
        "ours": {
            "median": middle.map(|m| m.median),
            "lo": middle.map(|m| m.lo),
            "hi": middle.map(|m| m.hi),
            "n": middle.map_or(0, |m| m.n),
            "why": outcome.ours.why,
        },
        "rivals": outcome.rivals.iter().map(rival).collect::<Vec<_>>(),
        "limit": outcome.limit.as_ref().map(rival),
        "ratio": outcome.ratio,
        "goal": outcome.goal.told(outcome.unit),
        "ok": outcome.ok,
    })
}

fn rival(figures: &Figures) -> Value {
    json!({
        "name": figures.name,
        "version": figures.version,
        "median": figures.middle.map(|m| m.median),
        "why": figures.why,
    })
}

fn row(outcome: &Outcome) -> String {
    let mut text = format!(
        "{:<6} {:<44} {:>9} {:<5} {:<19} {:>9} {:>7}  {:<16} {}",
        outcome.group,
        title(outcome),
        median(&outcome.ours),
        outcome.unit,
        interval(&outcome.ours),
        outcome.limit.as_ref().map_or(String::new(), median),
        outcome.ratio.map_or(String::new(), |ratio| format!("× {ratio:.3}")),
        outcome.goal.told(outcome.unit).unwrap_or_default(),
        verdict(outcome),
    );
    for figures in
        std::iter::once(&outcome.ours).chain(&outcome.limit).filter(|figures| figures.why.is_some())
    {
        text += &format!("\n         {}", named(figures));
    }
    for figures in &outcome.rivals {
        text += &format!(
            "\n         {:<42} {:>9} {}",
            told(figures),
            median(figures),
            figures.why.as_deref().unwrap_or(outcome.unit)
        );
    }
    text
}

fn markdown(outcome: &Outcome) -> String {
    let rivals: Vec<String> = outcome.rivals.iter().map(named).collect();
    format!(
        "| {} | {} {} | {} | {} | {} | {} | {} | {} |",
        title(outcome),
        median(&outcome.ours),
        outcome.unit,
        interval(&outcome.ours),
        outcome.limit.as_ref().map_or(String::new(), named),
        outcome.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")),
        outcome.goal.told(outcome.unit).unwrap_or_default(),
        verdict(outcome),
        rivals.join(" · "),
    )
}

fn title(outcome: &Outcome) -> String {
    measure::title(&outcome.name, &outcome.params)
}

fn verdict(outcome: &Outcome) -> &'static str {
    match outcome.ok {
        None => "",
        Some(true) => "ok",
        Some(false) => "MISS",
    }
}

fn told(figures: &Figures) -> String {
    format!("{} {}", figures.name, figures.version).trim_end().to_owned()
}

fn named(figures: &Figures) -> String {
    match &figures.why {
        Some(why) => format!("{}: – ({why})", told(figures)),
        None => format!("{}: {}", told(figures), median(figures)),
    }
}

fn median(figures: &Figures) -> String {
    figures.middle.map_or("–".to_owned(), |middle| short(middle.median))
}

fn interval(figures: &Figures) -> String {
    figures.middle.map_or(String::new(), |m| format!("{}–{}, {}", short(m.lo), short(m.hi), m.n))
}

/// Formats a figure with three or four significant digits.
fn short(figure: f64) -> String {
    match figure.abs() {
        size if size < 10.0 => format!("{figure:.2}"),
        size if size < 100.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

/// The description of this machine, in one line.
pub(crate) fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{}, {cores} cores, Linux {}, {}",
        model.map_or("unknown processor", |(_, model)| model.trim()),
        read("/proc/sys/kernel/osrelease").trim(),
        env!("BENCH_RUSTC"),
    )
}
