//! `thalweg get`: show settings of a run, and the values of its shared map.

use serde_json::json;
use thalweg_glob::Glob;
use thalweg_host::settings::{range, written};
use thalweg_host::spaces::{self, nearest};
use thalweg_host::{Error, LiveRun, MAP_PREFIX};
use thalweg_space::reader::SettingView;
use thalweg_space::shared_map::MapView;
use thalweg_space::{Adoption, Affects, MapValue, Undo};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{ShapeArguments, Table, number, prose, text};
use crate::units::duration;

const EXAMPLES: &str = "\
Examples:
  # all settings of the newest run
  thalweg get
  # those of process 4242 that begin with exec.
  thalweg get 4242 'exec.*'
  # the shared map of a run over nodes, by its session
  thalweg get des-nodes-4242 'map.*'
  # one setting of the newest run
  thalweg get monitor.mode";

/// The arguments of `thalweg get`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "thalweg get [OPTIONS] [SPACE] [PATTERN]")]
pub(crate) struct Arguments {
    /// A space or the session of a run over nodes (as in `thalweg report`; the newest space if omitted), and
    /// a pattern of names, where `*` stands for any characters but `/`, `**` for any, `?` for one.
    #[arg(value_name = "[SPACE] [PATTERN]", num_args = 0..=2)]
    space_and_pattern: Vec<String>,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: ShapeArguments,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (run, wanted) = split(&arguments.space_and_pattern)?;
    let settings = run.settings()?;
    let pattern = wanted.as_deref().map(Glob::new);
    let shown: Vec<&SettingView> = settings
        .iter()
        .filter(|setting| pattern.as_ref().is_none_or(|pattern| pattern.matches(&setting.name)))
        .collect();
    let map = run.shared_map()?;
    let is_key = |key: &&MapView| {
        pattern.as_ref().is_none_or(|pattern| pattern.matches(&format!("{MAP_PREFIX}{}", key.key)))
    };
    let keys: Vec<&MapView> = map.iter().filter(is_key).collect();
    if shown.is_empty() && keys.is_empty() {
        return Err(nothing(wanted.as_deref().unwrap_or("*"), (&settings, &map), run.path()));
    }
    let mut output = Output::shaped(terminal, &arguments.shape);
    if arguments.json {
        let keys = keys.into_iter().map(key_object);
        for object in shown.into_iter().map(object).chain(keys) {
            output.line(&object.to_string())?;
        }
    } else {
        output.table(&table(&shown, &keys))?;
    }
    output.flush()
}

/// Splits the arguments: a single argument is a space if a space of that name exists, else a pattern.
fn split(arguments: &[String]) -> Result<(LiveRun, Option<String>), Failure> {
    Ok(match arguments {
        [] => (run_of(None)?, None),
        [one] if spaces::session(Some(one))?.is_some() => (run_of(Some(one))?, None),
        [one] => match spaces::find(Some(one)) {
            Ok(path) => (LiveRun::open(&path)?, None),
            Err(_) if !one.contains('/') => (run_of(None)?, Some(one.clone())),
            Err(error) => return Err(error.into()),
        },
        [space, pattern, ..] => (run_of(Some(space))?, Some(pattern.clone())),
    })
}

/// The run of this name, or the newest; of a session, and of a run over nodes whose part is the newest space,
/// the process that began it.
pub(crate) fn run_of(name: Option<&str>) -> Result<LiveRun, Failure> {
    let session = match spaces::session(name)? {
        Some(session) => session,
        None => {
            let run = LiveRun::find(name)?;
            match run.whole().filter(|_| name.is_none()) {
                Some(session) => session,
                None => return Ok(run),
            }
        }
    };
    let mut runs = LiveRun::of_session(&session)?;
    runs.retain(|(called, _)| !spaces::is_part(called));
    match (runs.pop(), runs.len()) {
        (Some((_, run)), 0) => Ok(run),
        (None, _) => Err(Failure::Usage(format!("no process of the session {} runs", session.display()))),
        // Programs that joined a session by themselves have settings of their own.
        _ => Err(Error::usage(format!(
            "{} is a session of several processes: give one of their spaces, which `thalweg ls` lists",
            session.display()
        ))
        .into()),
    }
}

fn nothing(wanted: &str, (settings, map): (&[SettingView], &[MapView]), path: &std::path::Path) -> Failure {
    let keys: Vec<String> = map.iter().map(|key| format!("{MAP_PREFIX}{}", key.key)).collect();
    let names = settings.iter().map(|setting| setting.name.as_str());
    let hint = nearest(wanted, names.chain(keys.iter().map(String::as_str))).map_or_else(
        || "`thalweg get` without a pattern lists all".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    Failure::Usage(format!("no setting of {} matches `{wanted}`: {hint}", path.display()))
}

fn table(settings: &[&SettingView], keys: &[&MapView]) -> Table {
    let mut table = Table::new(&[
        text("SETTING"),
        number("VALUE", 0),
        text("UNIT").loose().droppable(2),
        number("DEFAULT", 3),
        prose("RANGE").droppable(4),
        prose("WHAT IT DOES"),
        text("AFFECTS").loose().droppable(5),
        text("ADOPTED").loose().droppable(6),
        prose("LEASE").droppable(1),
    ]);
    for setting in settings {
        let cells = vec![
            setting.name.clone(),
            written(setting, setting.value),
            setting.unit.clone(),
            written(setting, setting.default),
            range(setting),
            setting.doc.clone(),
            setting.affects.map_or("", Affects::name).to_owned(),
            setting.adoption.map_or("", Adoption::name).to_owned(),
            lease(setting),
        ];
        table.row(cells, setting.value != setting.default);
    }
    for key in keys {
        let cells = vec![
            format!("{MAP_PREFIX}{}", key.key),
            key.value.to_string(),
            String::new(),
            key.initial.to_string(),
            key.initial.type_of().name().to_owned(),
            key.doc.clone(),
            Affects::Box.name().to_owned(),
            Adoption::AtOnce.name().to_owned(),
            String::new(),
        ];
        table.row(cells, key.value != key.initial);
    }
    table
}

fn key_object(key: &MapView) -> serde_json::Value {
    let value = |value: &MapValue| match value {
        MapValue::Integer(number) => json!(number),
        MapValue::Float(number) => json!(number),
        MapValue::Text(text) => json!(text),
    };
    json!({
        "name": format!("{MAP_PREFIX}{}", key.key),
        "value": value(&key.value),
        "type": key.initial.type_of().name(),
        "default": value(&key.initial),
        "doc": key.doc,
        "written_us": key.stamp.microseconds(),
        "writer": key.writer,
    })
}

/// The holder of a lease, its remaining time, and the value to which the setting returns.
fn lease(setting: &SettingView) -> String {
    let (Some(lease), Some(setter)) = (&setting.lease, &setting.setter) else { return String::new() };
    let left = lease.left.map(|left| format!("{} left", duration(left.as_nanos() as f64)));
    let alive = lease.while_alive.then(|| "while its holder lives".to_owned());
    let terms: Vec<String> = left.into_iter().chain(alive).collect();
    let (then, terms) = (written(setting, lease.confirmed), terms.join(", "));
    format!("then {then}, {terms} ({}, process {})", setter.tool, setter.pid)
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
        "affects": setting.affects.map(Affects::name),
        "adopted": setting.adoption.map(Adoption::name),
        "undo": setting.undo.map(Undo::name),
        "setter": setting.setter.as_ref().map(|setter| {
            json!({ "pid": setter.pid, "user": setter.user, "tool": setter.tool })
        }),
        "lease": setting.lease.as_ref().map(|lease| {
            json!({
                "left_ns": lease.left.map(|left| left.as_nanos() as u64),
                "while_alive": lease.while_alive,
                "confirmed": lease.confirmed,
            })
        }),
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use thalweg_host::settings;
    use thalweg_space::SettingSpec;

    /// The declared settings of runs, and of the links of runs over nodes.
    fn declared() -> Vec<SettingSpec<'static>> {
        let mut all = settings::declared();
        all.extend(thalweg_node::Settings::DECLARED.all());
        all.sort_unstable_by_key(|setting| setting.name);
        all
    }

    const BEGIN: &str = "<!-- The table is written from the declarations. -->\n";

    fn page() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md")
    }

    /// The page's text before its table, followed by the table of the declarations.
    fn written() -> String {
        let page = std::fs::read_to_string(page()).unwrap();
        let (text, _) = page.split_once(BEGIN).expect("the page has a table");
        let mut page = format!("{text}{BEGIN}\n");
        page += "| Setting | Range | Unit | Default | What it is | Affects | Adopted | Taken back by |\n";
        page += "|---|---|---|---|---|---|---|---|\n";
        for SettingSpec { name, doc, unit, min, max, default, choices, affects, adoption, undo } in declared()
        {
            let word =
                |value: u64| choices.get(value as usize).map_or(value.to_string(), |word| (*word).into());
            let range = match max {
                u64::MAX => format!("{min}–…"),
                _ if choices.is_empty() => format!("{min}–{max}"),
                _ => choices.join(", "),
            };
            let (default, affects) = (word(default), affects.name());
            let (adoption, undo) = (adoption.name(), undo.name());
            page += &format!(
                "| `{name}` | {range} | {unit} | {default} | {doc} | {affects} | {adoption} | {undo} |\n"
            );
        }
        page
    }

    #[test]
    fn the_page_lists_every_setting_as_it_is_declared() {
        let page = std::fs::read_to_string(page()).unwrap();
        assert!(
            page == written(),
            "write docs/settings.md anew: cargo test -p thalweg write_settings -- --ignored"
        );
    }

    #[test]
    #[ignore = "writes docs/settings.md"]
    fn write_settings() {
        std::fs::write(page(), written()).unwrap();
    }
}
