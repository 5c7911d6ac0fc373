//! `thalweg set`: change a setting of a run, or of all processes of a session, or a value of its shared map,
//! while they run.

use std::collections::BTreeSet;
use std::path::Path;

use thalweg_host::settings::written;
use thalweg_host::{Change, Changed, LiveRun, MAP_PREFIX, spaces};
use thalweg_space::Adoption;
use thalweg_space::lease::Terms;

use crate::Terminal;
use crate::commands::control::{Lease, print_result};
use crate::commands::get;
use crate::failure::Failure;
use crate::units::duration;

const EXAMPLES: &str = "\
Examples:
  # of the newest run
  thalweg set monitor.mode full
  # of process 4242
  thalweg set 4242 exec.quantum 128
  # NAME=VALUE, as with `thalweg run --set`
  thalweg set 4242 exec.quantum=128
  # lets one worker take part and parks the others
  thalweg set exec.workers 1
  # a time or a size may have a unit
  thalweg set exec.quantum_us 1ms
  # switches probes off, by a pattern of their names
  thalweg set 'probe/net.*.on' 0
  # moves task 17 to worker 1
  thalweg set task/17.worker 1
  # puts the former value back after 10 s
  thalweg set exec.quantum 8 --for 10s
  # in each process of a session
  thalweg set des-nodes-4242 link.encoding lz4
  # a value that boxes of all nodes share
  thalweg set des-nodes-4242 map.limit 80
  # only if the value is 80
  thalweg set map.limit 90 --if 80";

/// The arguments of `thalweg set`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "thalweg set [OPTIONS] [SPACE] NAME VALUE")]
pub(crate) struct Arguments {
    /// A space (as in `thalweg report`; the newest if omitted) or a session, in which each process that has
    /// the setting is changed; the name of a setting or of a key of the shared map (`thalweg get` lists
    /// them), a value.
    #[arg(value_name = "[SPACE] NAME VALUE", num_args = 1..=3, required = true, allow_negative_numbers = true)]
    space_name_value: Vec<String>,
    /// Write a value of the shared map only if its present value is this one.
    #[arg(long = "if", value_name = "VALUE", allow_hyphen_values = true)]
    expected: Option<String>,
    #[command(flatten)]
    lease: Lease,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (space, name, value) = split(&arguments.space_name_value)?;
    if let Some(key) = name.strip_prefix(MAP_PREFIX) {
        return of_map(space, (key, value), &arguments, terminal);
    }
    if arguments.expected.is_some() {
        return Err(Failure::Usage(format!(
            "--if is for values of the shared map (map.KEY), not for `{name}`"
        )));
    }
    if let Some(session) = spaces::session(space)? {
        return of_session(&session, name, value, &arguments.lease, terminal);
    }
    let run = LiveRun::find(space)?.called("thalweg set");
    let terms = arguments.lease.terms();
    let text = change_text(&changed(&run, name, value, terms)?, name);
    print_result(&arguments.lease.with_time(text), terminal)
}

/// Makes a change for a person. If the change moves a task, it also pins the task against tuners, because a tuner sees
/// no difference between this move and one that the run itself makes. A move under a lease ends by itself and pins
/// nothing.
pub(crate) fn changed(
    run: &LiveRun,
    name: &str,
    value: &str,
    terms: Option<Terms>,
) -> Result<Changed, thalweg_host::Error> {
    let changed = run.change(name, value, terms)?;
    if matches!(changed, Changed::Moved(_)) && terms.is_none() {
        // Without the pin the move is as good.
        let _ = thalweg_tune::pin(run.path(), name);
    }
    Ok(changed)
}

/// Writes a value of a run's shared map.
fn of_map(
    space: Option<&str>,
    (key, value): (&str, &str),
    arguments: &Arguments,
    terminal: Terminal,
) -> Result<(), Failure> {
    if arguments.lease.lasts.is_some() {
        return Err(Failure::Usage(
            "--for is for settings: a value of the shared map has no lease".to_owned(),
        ));
    }
    let run = get::run_of(space)?.called("thalweg set");
    let old = run.write_map(key, value, arguments.expected.as_deref())?;
    print_result(&format!("{MAP_PREFIX}{key} = {value} (was {old})"), terminal)
}

/// Changes the setting in each live process of a session that has it.
fn of_session(
    session: &Path,
    name: &str,
    value: &str,
    lease: &Lease,
    terminal: Terminal,
) -> Result<(), Failure> {
    let mut runs = Vec::new();
    let mut names = BTreeSet::new();
    for (called, run) in LiveRun::of_session(session)? {
        let run = run.called("thalweg set");
        let settings = run.settings()?;
        if settings.iter().any(|setting| setting.name == name) {
            runs.push((called, run));
        }
        names.extend(settings.into_iter().map(|setting| setting.name));
    }
    if runs.is_empty() {
        return Err(Failure::Usage(match spaces::nearest(name, names.iter().map(String::as_str)) {
            _ if names.is_empty() => format!("no process of the session {} runs", session.display()),
            Some(near) => {
                format!("no process of the session has a setting `{name}`: did you mean `{near}`?")
            }
            None => format!("no process of the session has a setting `{name}`"),
        }));
    }
    for (called, run) in runs {
        let text = change_text(&run.change(name, value, lease.terms())?, name);
        print_result(&lease.with_time(format!("{called}: {text}")), terminal)?;
    }
    Ok(())
}

/// The line that reports a change.
pub(crate) fn change_text(changed: &Changed, name: &str) -> String {
    let Change { before, value, adopted } = match changed {
        Changed::Moved(obeyed) => return obeyed.result.clone(),
        Changed::Setting(change) => change,
    };
    let changed = match &before {
        Some(setting) => {
            format!("{name} = {} (was {})", written(setting, *value), written(setting, setting.value))
        }
        None => format!("{name} = {value}"),
    };
    match adopted {
        Some(after) => format!("{changed}, adopted after {}", duration(after.as_nanos() as f64)),
        None if before.as_ref().is_some_and(|setting| setting.value == *value) => {
            format!("{changed}: nothing to adopt")
        }
        // Switches of probes are shared memory, and the sampling rate is read where a trace begins, so no run
        // has to adopt them.
        None if name.starts_with("probe") => format!("{changed}, from now on"),
        None if before.as_ref().is_some_and(|setting| setting.adoption == Some(Adoption::NextMade)) => {
            format!("{changed}: for the tasks, streams and components that are made from now on")
        }
        None => format!("{changed}, not adopted yet: the run does so at its next safe point"),
    }
}

/// The space, if one is given, the name and the value: `[SPACE] NAME VALUE`, or `[SPACE] NAME=VALUE` as with
/// `thalweg run --set`. The name of each setting begins with a letter and has a dot, unlike that of a space, so
/// `SPACE NAME=VALUE` differs from `NAME VALUE`.
fn split(arguments: &[String]) -> Result<(Option<&str>, &str, &str), Failure> {
    let (space, both) = match arguments {
        [space, name, value] => return Ok((Some(space), name, value)),
        [space, both] if space.starts_with(['/', '.']) || !space.contains('.') => {
            (Some(space.as_str()), both)
        }
        [name, value] => return Ok((None, name, value)),
        [both] => (None, both),
        _ => unreachable!("the command line has one to three of them"),
    };
    match both.split_once('=') {
        Some((name, value)) if name.contains('.') => Ok((space, name, value)),
        _ if space.is_some() => Ok((None, &arguments[0], both)),
        _ => Err(Failure::Usage(
            "a setting takes a name and a value, such as `thalweg set exec.quantum 128`".to_owned(),
        )),
    }
}
