//! The comparison of verdicts with measured gains.
//!
//! A verdict is *right* if its remedy gains at least 80 % of the gain of the best single remedy, or if it
//! names no remedy and no remedy gains 5 %. A verdict is *misleading* if its remedy gains less than 5 % where
//! another remedy gains more than 20 %. Otherwise a verdict is *partly right* if its remedy gains 5 % or
//! more, and *wrong* if it gains less. If the noise of the trials could change the mark, the mark is counted
//! as *undecided* as well.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Gained;
use super::generator::Planted;
use super::remedy::{Remedy, remedies};

/// The least gain for which a remedy counts as useful.
pub(super) const WORTH: f64 = 0.05;
/// A verdict is right if its remedy gains at least this part of what the best remedy gains.
const RIGHT: f64 = 0.8;
/// If a remedy gains more than this, a verdict whose remedy gains nothing is misleading.
const MISLEADING: f64 = 0.2;

/// The mark of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    Right,
    Partly,
    Wrong,
    Misleading,
}

/// The remedies that a verdict names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Advice {
    /// The verdict names no remedy, or is unclear.
    Nothing,
    /// Any of these.
    Do(Vec<Remedy>),
    /// An advice that corresponds to no remedy of the table.
    Other(String),
}

/// The box that is the last part of a component's path, or of a task's name.
fn box_of(name: &str) -> Option<usize> {
    let path = name.split('[').next()?;
    let last = path.rsplit('/').next()?.split('#').next()?;
    last.strip_prefix('w')?.parse().ok()
}

/// The advice of a verdict, as remedies from the table of the network. The function uses only the data of the
/// finding, not its rule or its words.
pub(super) fn advice_of(planted: &Planted, verdict: &Value) -> Advice {
    let table = remedies(&planted.case, planted.healthy);
    let kind = verdict["kind"].as_str().unwrap_or_default();
    let component = verdict["component"].as_str().unwrap_or_default();
    let mut named = of_kind(planted, &table, kind, component);
    let has_figure = |name: &str| {
        verdict["figures"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|figure| figure["name"].as_str() == Some(name))
    };
    if ["asleep_for_lock", "spinning_of_busy", "gain_without_lock", "gain_unlocked"]
        .into_iter()
        .any(has_figure)
    {
        named.push(Remedy::Unlock);
    }
    if has_figure("gain_of_replicas") {
        named.extend(box_of(component).map(Remedy::Replicate));
    }
    let acts = verdict["actions"].as_array().is_some_and(|actions| !actions.is_empty());
    if kind == "mapping" && !acts {
        named.push(Remedy::Unplace);
    }
    for action in verdict["actions"].as_array().into_iter().flatten() {
        named.extend(of_action(&table, action, verdict));
    }
    named.retain(|remedy| table.contains(remedy) || matches!(remedy, Remedy::Part(..) | Remedy::Place(..)));
    named.dedup();
    let waits_for_source = matches!(kind, "nothing" | "source");
    match named.is_empty() {
        false => Advice::Do(named),
        // A healthy network waits for its source, so this verdict names no remedy.
        true if matches!(kind, "nothing" | "unclear" | "unknown") => Advice::Nothing,
        true if waits_for_source && planted.healthy => Advice::Nothing,
        true => Advice::Other(format!("{kind} {component}")),
    }
}

fn of_kind(planted: &Planted, table: &[Remedy], kind: &str, component: &str) -> Vec<Remedy> {
    let the_box = box_of(component);
    let every = |wanted: fn(&Remedy) -> bool| table.iter().copied().filter(wanted).collect::<Vec<_>>();
    match kind {
        "task" | "burst" if component.ends_with("source") => vec![Remedy::Source],
        "task" | "burst" if component.ends_with("sink") => vec![Remedy::Sink],
        "task" | "burst" => the_box.map(Remedy::Faster).into_iter().collect(),
        "replica" => {
            let of_box = the_box.into_iter().flat_map(|at| [Remedy::FasterReplica(at), Remedy::Faster(at)]);
            of_box.chain([Remedy::EvenKeys]).collect()
        }
        "worker" => {
            let more = Remedy::Workers(planted.case.workers + 1);
            the_box.map(Remedy::Faster).into_iter().chain([more]).collect()
        }
        "capacity" => every(|remedy| matches!(remedy, Remedy::Capacity(_))),
        "quantum" => every(|remedy| matches!(remedy, Remedy::Quantum(_))),
        "contention" => vec![Remedy::Alone],
        "order" => {
            // If several combinators keep the order, the verdict's path does not tell which remedy is meant.
            let ordered = every(|remedy| matches!(remedy, Remedy::Unordered(_)));
            if ordered.len() == 1 { ordered } else { Vec::new() }
        }
        "source" | "nothing" => vec![Remedy::Source],
        "sink" => vec![Remedy::Sink],
        _ => Vec::new(),
    }
}

/// The remedy that moves a task to a worker: a box, or of a box with several tasks the one in a replica or stage.
fn placed(task: &str, worker: usize) -> Option<Remedy> {
    let at = box_of(task)?;
    let part = task.rsplit_once('[').and_then(|(_, part)| part.strip_suffix(']')?.parse().ok());
    Some(part.map_or(Remedy::Place(at, worker), |part| Remedy::Part(at, part, worker)))
}

/// The remedies that correspond to an action.
fn of_action(table: &[Remedy], action: &Value, verdict: &Value) -> Vec<Remedy> {
    let every = |wanted: fn(&Remedy) -> bool| table.iter().copied().filter(wanted).collect::<Vec<_>>();
    if let (Some(setting), Some(value)) = (action["set"]["setting"].as_str(), action["set"]["value"].as_str())
    {
        let task = verdict["task"]["name"].as_str().or_else(|| verdict["component"].as_str());
        return match setting {
            "exec.capacity" => every(|remedy| matches!(remedy, Remedy::Capacity(_))),
            "exec.quantum" | "exec.quantum_us" => every(|remedy| matches!(remedy, Remedy::Quantum(_))),
            "exec.unfinished" => vec![Remedy::NoLimit],
            "exec.steal" => vec![Remedy::Steal],
            "exec.workers" => value.parse().ok().map(Remedy::Workers).into_iter().collect(),
            _ if setting.starts_with("task/") && setting.ends_with(".worker") => {
                let worker = value.parse().ok();
                task.zip(worker).and_then(|(task, worker)| placed(task, worker)).into_iter().collect()
            }
            _ => Vec::new(),
        };
    }
    let mut arguments = action["run"]["arguments"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match arguments.next() {
        Some("--capacity") => every(|remedy| matches!(remedy, Remedy::Capacity(_))),
        Some("--quantum" | "--quantum-us") => every(|remedy| matches!(remedy, Remedy::Quantum(_))),
        Some("--unfinished") => vec![Remedy::NoLimit],
        Some("--steal") => vec![Remedy::Steal],
        Some("--mapper") => vec![Remedy::OtherMapper],
        Some("--workers") => {
            arguments.next().and_then(|count| count.parse().ok()).map(Remedy::Workers).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The mark of a verdict whose remedy gains `gained`, where the best remedy gains `best`.
fn mark_by(advice: &Advice, best: f64, gained: f64) -> Mark {
    match advice {
        Advice::Nothing if best < WORTH => Mark::Right,
        Advice::Nothing => Mark::Wrong,
        _ if best < WORTH => Mark::Wrong,
        _ if gained >= RIGHT * best => Mark::Right,
        _ if gained >= WORTH => Mark::Partly,
        _ if best > MISLEADING => Mark::Misleading,
        _ => Mark::Wrong,
    }
}

/// The mark of a verdict by the measured gains, and whether the noise of the trials leaves the mark open. The
/// mark is open if the mark would differ with the least gain of the verdict's remedy and the largest gains of
/// the others, or the other way round.
pub(super) fn mark(advice: &Advice, gains: &BTreeMap<Remedy, Gained>) -> (Mark, bool) {
    let of_named = |of: fn(&Gained) -> f64| match advice {
        Advice::Do(named) => named.iter().filter_map(|remedy| gains.get(remedy)).map(of).fold(0.0, f64::max),
        Advice::Nothing | Advice::Other(_) => 0.0,
    };
    let is_named = |remedy: &Remedy| matches!(advice, Advice::Do(named) if named.contains(remedy));
    // A remedy that was tried once and was not the best counts with its measured gain: among many remedies
    // with little gain, there would always be one that seems to gain much at the upper end of its interval.
    let others = |of: fn(&Gained) -> f64| {
        let others = gains.iter().filter(|(remedy, _)| !is_named(remedy));
        others.map(|(_, gained)| if gained.again { of(gained) } else { gained.gain }).fold(0.0, f64::max)
    };
    let by = |named: f64, others: f64| mark_by(advice, named.max(others), named);
    let (gain, least, most) = (|of: &Gained| of.gain, |of: &Gained| of.least, |of: &Gained| of.most);
    let marked = by(of_named(gain), others(gain));
    let is_open =
        [by(of_named(least), others(most)), by(of_named(most), others(least))].iter().any(|it| *it != marked);
    (marked, is_open)
}

/// The predicted gains of the remedies in the table, with their intervals, from `thalweg diagnose --what-if
/// --json`.
pub(super) fn predicted(planted: &Planted, what_if: &Value) -> BTreeMap<Remedy, [f64; 3]> {
    let table = remedies(&planted.case, planted.healthy);
    let mut gains = BTreeMap::new();
    for row in what_if["changes"].as_array().into_iter().flatten() {
        let Some(remedy) = of_change(&table, &row["change"]) else { continue };
        let figures = ["gain", "least", "most"].map(|name| row[name].as_f64().unwrap_or(f64::NAN));
        let is_tried = table.contains(&remedy) || matches!(remedy, Remedy::Part(..));
        if is_tried && figures.iter().all(|figure| figure.is_finite()) {
            gains.insert(remedy, figures);
        }
    }
    gains
}

fn of_change(table: &[Remedy], change: &Value) -> Option<Remedy> {
    let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
    if change.as_str() == Some("steal") {
        return Some(Remedy::Steal);
    }
    if change.as_str() == Some("unplaced") {
        return Some(Remedy::Unplace);
    }
    let (what, of) = change.as_object()?.iter().next()?;
    let component = of["component"].as_str().unwrap_or_default();
    let task = of["task"].as_str();
    match what.as_str() {
        "faster" if of["times"].as_f64() == Some(2.0) && task.is_none() => match component {
            "source" => Some(Remedy::Source),
            "sink" => Some(Remedy::Sink),
            _ => box_of(component).map(Remedy::Faster),
        },
        "replicas" => box_of(component).map(Remedy::Replicate),
        "place" => placed(task.unwrap_or(component), number(&of["worker"])?),
        "workers" => Some(Remedy::Workers(number(&of["workers"])?)),
        "capacity" => table.iter().copied().find(|remedy| matches!(remedy, Remedy::Capacity(_))),
        "no_limit" => Some(Remedy::NoLimit),
        "mapper" => Some(Remedy::OtherMapper),
        "unlocked" => Some(Remedy::Unlock),
        "unordered" => {
            let mut ordered = table.iter().copied().filter(|remedy| matches!(remedy, Remedy::Unordered(_)));
            // If several combinators keep the order, the suggestion's path does not tell which remedy is
            // meant.
            ordered.next().filter(|_| ordered.next().is_none())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_follow_what_was_gained_and_are_open_where_noise_could_turn_them() {
        let gained = |gain: f64, off: f64| Gained { gain, least: gain - off, most: gain + off, again: true };
        let gains = |off: f64| {
            let gains = [(0, 0.5), (1, 0.42), (2, 0.1), (3, 0.01)];
            BTreeMap::from(gains.map(|(at, gain)| (Remedy::Faster(at), gained(gain, off))))
        };
        for (at, wanted) in [(0, Mark::Right), (1, Mark::Right), (2, Mark::Partly), (3, Mark::Misleading)] {
            let advice = Advice::Do(vec![Remedy::Faster(at)]);
            assert_eq!(mark(&advice, &gains(0.01)), (wanted, false));
            // Within the noise, a measured gain of 0.42 beside 0.5 could as well be 0.38 beside 0.54, which
            // would change the mark.
            assert_eq!(mark(&advice, &gains(0.04)).1, at == 1 || at == 3);
        }
        assert_eq!(mark(&Advice::Nothing, &gains(0.01)), (Mark::Wrong, false));
        assert_eq!(mark(&Advice::Other("grain".into()), &gains(0.01)).0, Mark::Misleading);
        let none = BTreeMap::from([(Remedy::Steal, gained(0.02, 0.01))]);
        assert_eq!(mark(&Advice::Nothing, &none), (Mark::Right, false));
        assert_eq!(mark(&Advice::Do(vec![Remedy::Steal]), &none), (Mark::Wrong, false));
        let none = BTreeMap::from([(Remedy::Steal, gained(0.04, 0.02))]);
        assert_eq!(mark(&Advice::Nothing, &none), (Mark::Right, true));
    }

    #[test]
    fn names_of_components_and_tasks_lead_to_their_boxes() {
        for (name, wanted) in [
            ("network/split/w3", Some(3)),
            ("network/w10[2]", Some(10)),
            ("network/w1#2", Some(1)),
            ("source", None),
        ] {
            assert_eq!(box_of(name), wanted, "{name}");
        }
        assert_eq!(placed("network/w1", 0), Some(Remedy::Place(1, 0)));
        assert_eq!(placed("network/split/w10[2]", 1), Some(Remedy::Part(10, 2, 1)));
    }

    #[test]
    fn a_move_to_any_worker_is_tried_as_the_verdict_says() {
        let planted = super::super::planted(0);
        let verdict = serde_json::json!({
            "kind": "mapping", "component": "network/w0", "task": {"name": "network/w0"},
            "actions": [{"set": {"setting": "task/2.worker", "value": "5"}}],
        });
        assert_eq!(advice_of(&planted, &verdict), Advice::Do(vec![Remedy::Place(0, 5)]));
    }
}
