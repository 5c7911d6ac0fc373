//! A replay of the recording predicts that another change gains more than the changes that the other rules
//! suggest, or that no single change gains anything.

use crate::report::{
    Action, BusyAccount, Figure, Finding, Subject, Suggestion, Task, TaskRef, VerdictKind, Words,
    component_of,
};
use crate::verdict::accounts::{COMMAND, asleep_part, of_command, relieve_command, sleeps_of};
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::ASLEEP;
use crate::wording::{declare_blocking, percent};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let replay = facts.report.replay.as_ref().filter(|replay| replay.overruled.is_some())?;
    let Some(head) = replay.suggestions.first() else { return Some(Finding::new(VerdictKind::Unclear)) };
    let gain = |name: &str, value: f64| Figure::share(name, value);
    let mut found = Finding { component: head.component.clone(), ..Finding::new(head.kind) };
    let busiest = worked_on(facts, head);
    found.task = moved(facts, head).or(busiest.map(TaskRef::from));
    // If the task mostly sleeps in its busy time, the verdict's sentence says so.
    let account = busiest.and_then(|task| facts.account(task)).filter(|account| sleeps_most(account));
    if let Some((task, account)) = busiest.zip(account) {
        found = found.slept(account, task).with(of_command(facts, task, account));
    }
    let of = head.component.clone().map(Subject::Component);
    let figure = Figure { of, ..gain("gain", head.gain) };
    found = found.with(figure).with(gain("gain_least", head.least)).with(gain("gain_most", head.most));
    found = replay.suggestions.iter().skip(1).take(2).fold(found, |found, other| {
        let of = other.component.clone().map(Subject::Component);
        let name = if found.figure("second_gain").is_none() { "second_gain" } else { "third_gain" };
        found.with(Figure { of, ..gain(name, other.gain) })
    });
    found = found.with((replay.replayed_per_s.is_none()).then(|| gain("by_sums", 1.0)));
    if head.words.starts_with(crate::report::NO_LOCK) {
        found = found.with(gain("gain_without_lock", head.gain));
    }
    if let Some(action) = &head.action {
        found = found.so(action.clone());
    }
    Some(found.with(Figure::share("leads", head.leads)))
}

/// The busiest task of the component that the suggestion makes faster.
fn worked_on<'r>(facts: &Facts<'r>, head: &Suggestion) -> Option<&'r Task> {
    let path = head.component.as_deref().filter(|_| head.kind == VerdictKind::Task)?;
    let tasks = facts.tasks().filter(|(task, _)| component_of(&task.name) == path);
    tasks.max_by(|a, b| a.1.busy.total_cmp(&b.1.busy)).map(|(task, _)| task)
}

fn sleeps_most(account: &BusyAccount) -> bool {
    asleep_part(Some(account)).is_some_and(|part| part > ASLEEP)
}

/// The task that the suggestion moves.
fn moved(facts: &Facts<'_>, head: &Suggestion) -> Option<TaskRef> {
    let Some(Action::Set(set)) = &head.action else { return None };
    let number: u64 = set.setting.strip_prefix("task/")?.strip_suffix(".worker")?.parse().ok()?;
    facts.report.tasks.iter().find(|task| task.id.number == number).map(TaskRef::from)
}

pub(super) fn describe(found: &Finding) -> Words {
    if found.figure("gain").is_none() {
        return Words::text(
            "No single change raises the flow by 3 %: several things limit it about evenly, each hidden behind the others.",
        );
    }
    let path = found.path();
    let task = found.task.as_ref().map_or(path, |task| task.name.as_str());
    let action = found.action();
    let (text, so) = match found.kind {
        VerdictKind::Task if found.figure("gain_without_lock").is_some() => (
            format!("A lock that {path} shares with others limits the flow"),
            format!("let {path} compute without it, or hold it for less"),
        ),
        VerdictKind::Mapping if found.actions.is_empty() => (
            "Where the network places its boxes limits the flow".to_owned(),
            "leave out `@` in the network".to_owned(),
        ),
        VerdictKind::Mapping if found.task.is_none() => {
            ("The mapping limits the flow".to_owned(), format!("`{action}`"))
        }
        VerdictKind::Source => {
            (format!("{path} limits the flow, the source"), format!("let {path} bring more"))
        }
        VerdictKind::Sink => (format!("{path} limits the flow, the sink"), format!("make {path} faster")),
        VerdictKind::Replica => (
            format!("One replica of {path} limits the flow"),
            format!("give it less to do, or make {path} faster"),
        ),
        VerdictKind::Mapping => {
            ("The mapping limits the flow".to_owned(), format!("move {task} (`{action}`)"))
        }
        VerdictKind::Worker => ("The number of workers limits the flow".to_owned(), format!("`{action}`")),
        VerdictKind::Capacity => {
            ("What may be under way, or in a stream, limits the flow".to_owned(), format!("`{action}`"))
        }
        VerdictKind::Quantum => {
            ("The length of dispatches limits the flow".to_owned(), format!("`{action}`"))
        }
        VerdictKind::Order => {
            (format!("The order that {path} keeps limits the flow"), format!("write {path} without order"))
        }
        _ => match found.slept_for() {
            Some(what) => (
                format!(
                    "{path} limits the flow: it {} {} of its busy time",
                    sleeps_of(found, what),
                    found.percent("asleep_of_busy")
                ),
                match found.figure(COMMAND) {
                    Some(_) => relieve_command(path),
                    None => declare_blocking(path),
                },
            ),
            None => (format!("{path} limits the flow"), format!("make {path} faster, or replicate it")),
        },
    };
    let (least, most) = (found.value("gain_least"), percent(found.value("gain_most")));
    let range = match least < 0.0 {
        true => format!("lie between a loss of {} and a gain of {most}", percent(-least)),
        false => format!("gain {} to {most}", percent(least)),
    };
    let because = match found.figure("by_sums") {
        Some(_) => format!(
            "what the tasks took, added up by worker, explains how long the run lasted; with many changes in turn it was added up anew, and the results with this one {range}"
        ),
        None => format!(
            "the recording was replayed with each of many changes; of this one nine of ten samples {range}"
        ),
    };
    Words::text(format!("{text}; relieved of it, {} more flows.", percent(found.value("gain"))))
        .so(so)
        .because(because)
}
