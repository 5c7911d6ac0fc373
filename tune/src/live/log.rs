//! The log: the decisions of tuners, read from the events of a run, which may be live or have ended.

use std::path::Path;
use thalweg_space::Error;
use thalweg_space::reader::{Event, Feed, Item, PathFeed, Value};

use crate::action::Action;
use crate::control::{Decision, Gain, What};

/// The kind of the events that record a tuner's decisions.
const KIND: &str = "tuner.decided";
/// The number of events that are read at a time.
const PART: usize = 4096;

/// The decisions in the events of the space in the directory `path`, oldest first. The times of decisions are
/// seconds from the run's start.
///
/// # Errors
/// Fails when the directory is no space, or cannot be read.
pub fn log(path: &Path) -> Result<Vec<Decision>, Error> {
    let mut feed = PathFeed::open(path)?;
    let mut clock = None;
    if let Some(space) = feed.spaces().first() {
        let info = space.info()?;
        clock = Some((info.clock.anchor().ticks, info.clock.hz()));
    }
    let seconds = |ticks: u64| clock.map_or(f64::NAN, |(begin, hz)| ticks.saturating_sub(begin) as f64 / hz);
    let mut decisions = Vec::new();
    let mut take = |_: usize, item: Item<'_>| {
        if let Item::Event(event) = item
            && event.kind.name == KIND
        {
            decisions.extend(decision(&event, seconds(event.time)));
        }
    };
    // A part that is not full ends what was there when reading began; the run goes on meanwhile.
    while feed.poll(PART, &mut take)? == PART {}
    Ok(decisions)
}

/// The decision in an event; `None` if a field is missing because the event is from another version.
fn decision(event: &Event<'_>, at: f64) -> Option<Decision> {
    let text = |name: &str| {
        let (_, value) = event.fields().find(|(field, _)| field.name == name)?;
        Some(match value {
            Value::Text(text) => text.into_owned(),
            Value::Choice(_, Some(word)) => word.to_owned(),
            other => other.to_string(),
        })
    };
    let figure = |name: &str| Some(event.f64(event.kind.field(name)?));
    let whole = |name: &str| Some(event.u64(event.kind.field(name)?));
    let known = |figure: f64| figure.is_finite().then_some(figure);
    let gain = known(figure("gain")?).map(|mean| Gain {
        mean,
        least: figure("least").unwrap_or(f64::NAN),
        most: figure("most").unwrap_or(f64::NAN),
        pairs: whole("pairs").unwrap_or(0) as usize,
    });
    Some(Decision {
        number: whole("number")?,
        at,
        what: What::of_word(&text("what")?.replace('_', " "))?,
        action: Action::read(&text("values")?, &text("back")?).filter(|action| !action.changes.is_empty()),
        change: text("change")?,
        model: text("model")?,
        predicted: known(figure("predicted")?),
        gain,
        why: text("why")?,
    })
}
