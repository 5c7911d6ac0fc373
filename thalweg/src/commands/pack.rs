//! `thalweg pack`: packs about libraries, checked, and tried on recorded measures.

use std::path::PathBuf;

use thalweg_pack::Fits;
use thalweg_tune::library::{Tried, tried};

use crate::Terminal;
use crate::commands::tune::library_pack;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  # is it right? Each mistake with its line
  thalweg pack check mine.toml
  # what does it say of these measures?
  thalweg tune 4242 --library pvm --record seen.jsonl
  thalweg pack try mine.toml seen.jsonl";

/// The arguments of `thalweg pack`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Check a pack about a library: names, units, calls, limits.
    Check {
        /// A pack's file, or the name of one that comes with the program.
        #[arg(value_name = "PACK")]
        pack: String,
    },
    /// Print what a pack would do with measures that `thalweg tune --record` wrote.
    Try {
        /// A pack's file, or the name of one that comes with the program.
        #[arg(value_name = "PACK")]
        pack: String,
        /// The measures: one JSON object a line.
        #[arg(value_name = "RECORDING")]
        recording: PathBuf,
    },
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::new(terminal);
    match &arguments.what {
        What::Check { pack } => {
            let pack = library_pack(pack)?;
            output.line(&format!("{}: {}", pack.name, pack.about))?;
            let counts = [
                ("probe", pack.probes.len()),
                ("reading", pack.readings.len()),
                ("fit", pack.fits.len()),
                ("measure", pack.measures.len()),
                ("condition", pack.conditions.len()),
                ("model", pack.models.len()),
                ("point", pack.points.len()),
                ("action", pack.actions.len()),
            ];
            let counts: Vec<String> =
                counts.iter().map(|(what, count)| crate::units::counted(*count as u64, what)).collect();
            output.line(&format!("it is right: {}", counts.join(", ")))?;
        }
        What::Try { pack, recording } => {
            let pack = library_pack(pack)?;
            let text = std::fs::read_to_string(recording)
                .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", recording.display())))?;
            let (mut fits, mut last) = (Fits::default(), None::<Tried>);
            for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                let (at, process, values) = measures(line).ok_or_else(|| {
                    let place = format!("{}:{}", recording.display(), number + 1);
                    Failure::Usage(format!("{place}: this is no window that `thalweg tune --record` wrote"))
                })?;
                let now = tried(&pack, &mut fits, &values);
                let is_same =
                    last.as_ref().is_some_and(|last| last.holds == now.holds && last.sets == now.sets);
                if !is_same {
                    show(&mut output, at, &process, &now)?;
                }
                last = Some(now);
            }
            match last {
                None => print_stderr!("{} has no windows", recording.display()),
                Some(_) if pack.fits.is_empty() => {}
                Some(last) if last.fitted.is_empty() => {
                    let why = "too few windows, or too much alike";
                    output.line(&format!(
                        "    end    nothing is fitted for the last values of points: {why}"
                    ))?;
                }
                Some(last) => output.line(&format!("    end    fitted    {}", last.fitted))?,
            }
        }
    }
    output.flush()
}

/// The time, the process and the measures of a window.
type Window = (f64, String, Vec<(String, f64)>);

fn measures(line: &str) -> Option<Window> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let values = value.get("values")?.as_object()?;
    let values = values.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    let process = match value.get("process")? {
        // A process of a node has the node's name before its number.
        serde_json::Value::String(name) => name.clone(),
        number => number.as_i64()?.to_string(),
    };
    Some((value.get("at_s")?.as_f64()?, process, values.collect()))
}

fn show(output: &mut Output, at: f64, process: &str, tried: &Tried) -> Result<(), Failure> {
    output.line(&format!("{at:>7.2} s  process {process}"))?;
    let figures = tried.figures.iter().filter(|(_, value)| value.is_finite());
    let figures: Vec<String> = figures.map(|(name, value)| format!("{name} {value:.4}")).collect();
    if !figures.is_empty() {
        output.line(&format!("           figures   {}", figures.join(", ")))?;
    }
    if !tried.fitted.is_empty() {
        output.line(&format!("           fitted    {}", tried.fitted))?;
    }
    for (name, sentence) in &tried.holds {
        output.line(&format!("           holds     {name}: {sentence}"))?;
    }
    for (setting, to, forbidden) in &tried.sets {
        let why = forbidden.as_ref().map_or(String::new(), |why| format!(", but it is forbidden: {why}"));
        output.line(&format!("           would set {setting} to {}{why}", to.round()))?;
    }
    Ok(())
}
