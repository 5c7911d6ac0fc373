//! `thalweg get`: show settings of a run.

use serde_json::json;
use thalweg_host::LiveRun;
use thalweg_host::settings::{range, written};
use thalweg_host::spaces::{self, nearest};
use thalweg_space::reader::SettingView;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::pattern;
use crate::table::{Table, number, text};

const EXAMPLES: &str = "\
Examples:
  thalweg get                    all settings of the newest run
  thalweg get 4242 'exec.*'      those of process 4242 that begin with exec.
  thalweg get monitor.mode       one setting of the newest run";

/// What `thalweg get` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A space (as in `thalweg report`; the newest if omitted), and a pattern of names, where `*` stands for anything.
    #[arg(value_name = "[SPACE] [PATTERN]", num_args = 0..=2)]
    space_and_pattern: Vec<String>,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (run, wanted) = split(&arguments.space_and_pattern)?;
    let settings = run.settings()?;
    let shown: Vec<&SettingView> = settings
        .iter()
        .filter(|setting| wanted.as_deref().is_none_or(|wanted| pattern::matches(wanted, &setting.name)))
        .collect();
    if shown.is_empty() {
        return Err(nothing(wanted.as_deref().unwrap_or("*"), &settings, run.path()));
    }
    let mut output = Output::new(terminal);
    if arguments.json {
        for setting in shown {
            output.line(&object(setting).to_string())?;
        }
    } else {
        output.text(&table(&shown).render(output.width, output.colour))?;
    }
    output.flush()
}

/// One argument is a space if there is such a space, else a pattern.
fn split(arguments: &[String]) -> Result<(LiveRun, Option<String>), Failure> {
    Ok(match arguments {
        [] => (LiveRun::find(None)?, None),
        [one] => match spaces::find(Some(one)) {
            Ok(path) => (LiveRun::open(&path)?, None),
            Err(_) if !one.contains('/') => (LiveRun::find(None)?, Some(one.clone())),
            Err(error) => return Err(error.into()),
        },
        [space, pattern, ..] => (LiveRun::find(Some(space))?, Some(pattern.clone())),
    })
}

fn nothing(wanted: &str, settings: &[SettingView], path: &std::path::Path) -> Failure {
    let names = settings.iter().map(|setting| setting.name.as_str());
    let hint = nearest(wanted, names).map_or_else(
        || "`thalweg get` without a pattern lists all".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    Failure::Usage(format!("no setting of {} matches `{wanted}`: {hint}", path.display()))
}

fn table(settings: &[&SettingView]) -> Table {
    let mut table = Table::new(&[
        text("SETTING"),
        number("VALUE", 0),
        text("UNIT").droppable(3),
        number("DEFAULT", 2),
        text("RANGE").droppable(1),
        text("WHAT IT DOES").droppable(4),
    ]);
    for setting in settings {
        let cells = vec![
            setting.name.clone(),
            written(setting, setting.value),
            setting.unit.clone(),
            written(setting, setting.default),
            range(setting),
            setting.doc.clone(),
        ];
        table.row(cells, setting.value != setting.default);
    }
    table
}

fn object(setting: &SettingView) -> serde_json::Value {
    json!({
        "name": setting.name,
        "value": setting.value,
        "choice": setting.choices.get(usize::try_from(setting.value).unwrap_or(usize::MAX)),
        "unit": setting.unit,
        "min": setting.min,
        "max": setting.max,
        "default": setting.default,
        "choices": setting.choices,
        "doc": setting.doc,
    })
}
