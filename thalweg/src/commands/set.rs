//! `thalweg set`: change a setting of a run while it runs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use thalweg_space::reader::{Event, EventStream, Item, SettingView, SpaceReader};
use thalweg_space::{Answer, NameRef};

use crate::Terminal;
use crate::commands::get::{range, written};
use crate::failure::Failure;
use crate::mailbox::move_command;
use crate::output::Output;
use crate::spaces::{self, nearest};
use crate::units::duration;

const EXAMPLES: &str = "\
Examples:
  thalweg set monitor.mode full        of the newest run
  thalweg set 4242 exec.quantum 128    of process 4242
  thalweg set exec.workers 1           lets one worker take part and parks the others
  thalweg set 'probe/net.*.on' 0       switches probes off, by a pattern of their names
  thalweg set task/17.worker 1         moves task 17 to worker 1";

/// How long to wait for the run to say that it adopted the value.
const ADOPTION_MAX: Duration = Duration::from_secs(1);

/// How long to wait for the run's answer to a command.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What `thalweg set` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A space (as in `thalweg report`; the newest if omitted), a setting's name (`thalweg get` lists them), a value.
    #[arg(value_name = "[SPACE] NAME VALUE", num_args = 2..=3, required = true)]
    space_name_value: Vec<String>,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (path, name, value) = split(&arguments.space_name_value)?;
    let usage = |error: thalweg_space::Error| Failure::Usage(error.to_string());
    let reader = SpaceReader::open(&path).map_err(usage)?;
    if let Some(task) = name.strip_prefix("task/").and_then(|name| name.strip_suffix(".worker")) {
        return move_task(&reader, task, value, terminal);
    }
    let settings = reader.settings().map_err(usage)?;
    let probes = probes(name);
    let setting = match &probes {
        Some(probes) => probes,
        None => known(&settings, name)?,
    };
    let value = value_of(setting, value)?;
    if !reader.is_alive() {
        return Err(Failure::Usage(format!(
            "the process of {} has ended: its settings have no effect any more. `thalweg ls` shows what runs",
            path.display()
        )));
    }
    let mut events = reader.events();
    skip(&mut events);
    let begun = Instant::now();
    reader.set(name, value).map_err(usage)?;
    let adopted = wait(&reader, &mut events, name, value);
    let mut output = Output::new(terminal);
    let changed = match probes {
        Some(_) => format!("{name} = {value}"),
        None => format!("{name} = {} (was {})", written(setting, value), written(setting, setting.value)),
    };
    output.line(&if adopted {
        format!("{changed}, adopted after {}", duration(begun.elapsed().as_nanos() as f64))
    } else if value == setting.value && probes.is_none() {
        format!("{changed}: nothing to adopt")
    } else {
        format!("{changed}, not adopted yet: the run does so at its next safe point")
    })?;
    output.flush()
}

/// A task's worker is no setting, of which there would be too many: it is moved by a command.
fn move_task(reader: &SpaceReader, task: &str, worker: &str, terminal: Terminal) -> Result<(), Failure> {
    let number = |text: &str, what| {
        text.parse::<u64>().map_err(|_| Failure::Usage(format!("`{text}` is no number of a {what}")))
    };
    let command = move_command(number(task, "task")?, number(worker, "worker")?);
    let failed = |error: thalweg_space::Error| Failure::Run(error.to_string());
    match reader.send(&command).map_err(failed)?.wait(ANSWER_MAX).map_err(failed)? {
        Answer::Done { result, .. } => {
            let mut output = Output::new(terminal);
            output.line(&result)?;
            output.flush()
        }
        Answer::Failed { why } => Err(Failure::Run(why)),
    }
}

fn split(arguments: &[String]) -> Result<(PathBuf, &str, &str), Failure> {
    match arguments {
        [name, value] => Ok((spaces::find(None)?, name, value)),
        [space, name, value] => Ok((spaces::find(Some(space))?, name, value)),
        _ => Err(Failure::Usage("set takes a setting's name and a value".to_owned())),
    }
}

/// What `probe/PATTERN.on` stands for: a switch of all probes that match.
fn probes(name: &str) -> Option<SettingView> {
    name.strip_prefix("probe/")?.strip_suffix(".on")?;
    Some(SettingView::switch(name))
}

/// The setting of this name; a mistake names the nearest.
pub(super) fn known<'s>(settings: &'s [SettingView], name: &str) -> Result<&'s SettingView, Failure> {
    settings.iter().find(|setting| setting.name == name).ok_or_else(|| {
        let hint = nearest(name, settings.iter().map(|setting| setting.name.as_str())).map_or_else(
            || "`thalweg get` lists the settings".to_owned(),
            |near| format!("did you mean `{near}`? `thalweg get` lists the settings"),
        );
        Failure::Usage(format!("there is no setting `{name}`: {hint}"))
    })
}

/// What a person wrote as a setting's value: one of its choices, or a number within its range.
pub(super) fn value_of(setting: &SettingView, text: &str) -> Result<u64, Failure> {
    let name = &setting.name;
    if let Some(n) = setting.choices.iter().position(|choice| choice == text) {
        return Ok(n as u64);
    }
    if let Ok(value) = text.replace('_', "").parse::<u64>() {
        if (setting.min..=setting.max).contains(&value) {
            return Ok(value);
        }
        let unit = if setting.unit.is_empty() { String::new() } else { format!(" {}", setting.unit) };
        return Err(Failure::Usage(format!(
            "{value} is out of range: `{name}` takes {}{unit}",
            range(setting)
        )));
    }
    Err(Failure::Usage(if setting.choices.is_empty() {
        format!("`{text}` is not a number: `{name}` takes {}", range(setting))
    } else {
        let near = nearest(text, setting.choices.iter().map(String::as_str));
        let hint = near.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
        format!("`{name}` has no choice `{text}`, it takes {}.{hint}", range(setting))
    }))
}

/// Passes over the events so far.
fn skip(events: &mut EventStream) {
    const ITEMS: usize = 1 << 16;
    while events.poll(ITEMS, &mut |_| {}).is_ok_and(|taken| taken == ITEMS) {}
}

/// Whether the run says, within a while, that it adopted the value.
fn wait(reader: &SpaceReader, events: &mut EventStream, name: &str, value: u64) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < ADOPTION_MAX {
        let mut adopted = false;
        let mut look = |item: Item<'_>| {
            if let Item::Event(event) = item {
                adopted |= says_adopted(&event, reader, name, value);
            }
        };
        if events.poll(1 << 16, &mut look).is_err() {
            return false;
        }
        if adopted {
            return true;
        }
        if !reader.is_alive() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn says_adopted(event: &Event<'_>, reader: &SpaceReader, name: &str, value: u64) -> bool {
    if name == "monitor.mode" && event.kind.name == "exec.mode_changed" {
        return event.kind.field("mode").is_some_and(|mode| event.u64(mode) == value);
    }
    if event.kind.name == "space.probes_switched" {
        let (Some(pattern), Some(on)) = (event.kind.field("pattern"), event.kind.field("on")) else {
            return false;
        };
        return name == format!("probe/{}.on", event.str(pattern)) && event.u64(on) == value;
    }
    if !matches!(event.kind.name.as_str(), "exec.setting_adopted" | "space.setting_adopted") {
        return false;
    }
    let (Some(of), Some(new)) = (event.kind.field("name"), event.kind.field("new")) else { return false };
    event.u64(new) == value && reader.name(NameRef(event.u64(of))).as_deref() == Some(name)
}
