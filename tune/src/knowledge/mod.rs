//! Rules as data: packs that state which change is proposed under which condition, and its expected gain.

mod grain;

use thalweg_pack::{Change, Pack, Problem, Refused, Schema, Values};
use thalweg_space::Undo;
use thalweg_space::reader::SettingView;

use crate::action::{Action, Candidate};
use crate::control::Goal;
use crate::live::{Progress, Window};

/// The packs that come with the program: one for each run, and one for runs that have the settings of the
/// language.
const OURS: &str = include_str!("../../packs/network.toml");
const LANGUAGE: &str = include_str!("../../packs/language.toml");
/// A setting that each network in the language has.
const LANGUAGE_SETTING: &str = "net.fuse";
/// The area that packs about networks state.
const AREA: &str = "network";
/// The gain that is expected of a change if its rule states none.
const GAIN: f64 = 0.05;

/// The measures of a run, by the names that rules use.
const FIELDS: [(&str, &str); 22] = [
    ("run.rate", "/s"),
    ("run.workers", ""),
    ("run.machine_processors", ""),
    ("run.processors", ""),
    ("run.tasks", ""),
    ("run.held", ""),
    ("run.memory", "B"),
    ("run.unfolding", "share"),
    ("run.crossing", "share"),
    ("run.busy_per_message", "ns"),
    ("run.messages_per_dispatch", ""),
    ("worker.most", "share"),
    ("worker.least", "share"),
    ("worker.sum", ""),
    ("worker.dispatching", ""),
    ("source.room_wait", "share"),
    ("stream.full_share", "share"),
    ("stream.capacity", ""),
    ("goal.keeps_rate", ""),
    ("goal.processor", ""),
    ("goal.latency", ""),
    ("exec.workers_max", ""),
];

/// The packs that a tuner follows.
#[derive(Clone, Debug)]
pub struct Rules {
    packs: Vec<Pack>,
    settings: Vec<String>,
}

/// A pack that cannot be followed.
#[derive(Clone, Debug)]
pub struct BadPack {
    /// The pack's file; empty for a built-in pack.
    pub file: String,
    /// The pack's text, which the problems' places refer to.
    pub text: String,
    /// The mistakes in the pack.
    pub problems: Vec<Problem>,
}

impl std::fmt::Display for BadPack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            let before = self.text.get(..problem.span.start).unwrap_or("");
            let line = 1 + before.matches('\n').count();
            let end = if n + 1 < self.problems.len() { "\n" } else { "" };
            write!(f, "{}:{line}: {}{end}", self.file, problem)?;
        }
        Ok(())
    }
}

impl std::error::Error for BadPack {}

/// The figures of a run, at the indices that their fields have in the schema.
struct Figures(Vec<f64>);

impl Values for Figures {
    fn number(&self, field: usize) -> f64 {
        self.0.get(field).copied().unwrap_or(f64::NAN)
    }
}

impl Rules {
    /// Reads the built-in packs and further packs, given by file name and text, for a run that has the given
    /// settings.
    ///
    /// # Errors
    /// Fails when a pack has mistakes, or is not about networks.
    pub fn read(others: &[(String, String)], settings: &[SettingView]) -> Result<Rules, BadPack> {
        let (schema, names) = schema(settings);
        let own = |text: &str| ("(ours)".to_owned(), text.to_owned());
        let mut ours = vec![own(OURS)];
        if settings.iter().any(|setting| setting.name == LANGUAGE_SETTING) {
            ours.push(own(LANGUAGE));
        }
        let mut packs = Vec::new();
        for (file, text) in ours.iter().chain(others) {
            let bad = |problems| BadPack { file: file.clone(), text: text.clone(), problems };
            let pack = Pack::read(text, &schema).map_err(bad)?;
            if pack.area != AREA {
                let message =
                    format!("this pack is about `{}`; a run is tuned by those about `{AREA}`", pack.area);
                return Err(bad(vec![Problem::new(0..0, message)]));
            }
            if let Some(fit) = pack.fits.first() {
                let message =
                    format!("the coefficients of `{}` are only fitted in packs about libraries", fit.name);
                return Err(bad(vec![Problem::new(0..0, message)]));
            }
            packs.push(pack);
        }
        Ok(Rules { packs, settings: names })
    }

    /// The actions that the rules propose for a run with these measurements.
    pub(crate) fn propose(
        &self,
        window: &Window,
        rate: f64,
        goal: Goal,
        settings: &[SettingView],
        machine: f64,
        progress: Progress,
    ) -> Vec<Candidate> {
        let mut figures = Figures(figures(window, rate, goal, settings, machine));
        let measure = |name| {
            FIELDS.iter().position(|(known, _)| *known == name).map_or(f64::NAN, |at| figures.number(at))
        };
        let grain = grain::Measures {
            message_ns: measure("run.busy_per_message"),
            unfolding: measure("run.unfolding"),
            workers: measure("run.workers"),
            most: measure("worker.most"),
            least: measure("worker.least"),
            sum: measure("worker.sum"),
            keeps_rate: goal.keeps_the_rate(),
        };
        let value = |name: &String| settings.iter().find(|setting| setting.name == *name);
        figures.0.extend(self.settings.iter().map(|name| value(name).map_or(f64::NAN, |it| it.value as f64)));
        let mut candidates = Vec::new();
        for pack in &self.packs {
            let measured = pack.measured(&figures);
            for (action, to) in pack.due(&measured) {
                // Actions that make calls are left out, because they only apply to foreign libraries.
                let (Change::Setting { point, .. }, Some(to)) = (&action.change, to) else { continue };
                let name = &pack.points[*point].setting;
                let Some(setting) = settings.iter().find(|setting| setting.name == *name) else { continue };
                let to = (to.round().max(0.0) as u64).clamp(setting.min, setting.max.max(setting.min));
                // A value that the process only shows cannot be set.
                if to == setting.value || setting.undo == Some(Undo::Nothing) {
                    continue;
                }
                let model = action.gain.map(|model| &pack.models[model]);
                let gain = model.map_or(GAIN, |model| model.is.number(&measured));
                let of = model.map_or(pack.conditions[action.on].name.as_str(), |model| model.name.as_str());
                candidates.push(Candidate {
                    action: Action::set(name, setting.value, to),
                    model: format!("{}/{of}", pack.name),
                    gain,
                    why: pack.conditions[action.on].says.clone(),
                });
            }
        }
        // With another grain a task makes another number of dispatches for the same work, so such a change can
        // only be judged by what sources write or sinks read.
        if matches!(progress, Progress::Sinks | Progress::Sources) {
            candidates.extend(grain::propose(grain, settings));
        }
        candidates
    }
}

/// The names that rules may use: the measures, and each setting by its name.
fn schema(settings: &[SettingView]) -> (Schema, Vec<String>) {
    let mut schema = Schema::default();
    for (name, unit) in FIELDS {
        // A test checks that each name of a measure is unique and its unit known.
        let _ = schema.number(name, unit);
    }
    let mut names = Vec::new();
    for setting in settings {
        let declared = match schema.number(&setting.name, &setting.unit) {
            Err(Refused::Unit(_)) => schema.number(&setting.name, ""),
            declared => declared,
        };
        if declared.is_ok() {
            names.push(setting.name.clone());
        }
    }
    (schema, names)
}

/// The figures of [`FIELDS`], in their order.
fn figures(window: &Window, rate: f64, goal: Goal, settings: &[SettingView], machine: f64) -> Vec<f64> {
    let loads = || window.workers.iter().map(|worker| worker.busy);
    let on_workers = || window.tasks.iter().filter(|task| task.worker.is_some());
    let (reads, busy): (f64, f64) =
        on_workers().fold((0.0, 0.0), |(reads, busy), task| (reads + task.reads, busy + task.busy));
    // In a network that unfolds, most tasks end before the window ends, so the figures of workers are used
    // instead of those of tasks.
    let unfolding = window.made * window.lasted / (window.made * window.lasted + window.tasks.len() as f64);
    let total: f64 = loads().sum();
    let (messages, busy) = if unfolding > 0.2 { (window.dispatches, total) } else { (reads, busy) };
    let dispatches: f64 = on_workers().map(|task| task.dispatches).sum();
    let full = window.tasks.iter().map(|task| task.output_wait).fold(0.0, f64::max);
    let workers_max = settings.iter().find(|setting| setting.name == "exec.workers");
    let truth = |yes: bool| f64::from(u8::from(yes));
    vec![
        rate,
        window.workers.len() as f64,
        machine,
        window.processors,
        window.tasks.len() as f64,
        window.held,
        window.memory,
        unfolding,
        window.crossing(),
        1e9 * busy / messages,
        reads / dispatches,
        loads().fold(0.0, f64::max),
        loads().fold(f64::INFINITY, f64::min),
        total,
        window.workers.iter().map(|worker| worker.busy / worker.had).sum(),
        window.sources().map(|task| task.output_wait).fold(0.0, f64::max),
        full,
        window.streams.iter().map(|stream| stream.capacity as f64).fold(f64::INFINITY, f64::min),
        truth(goal.keeps_the_rate()),
        truth(goal == Goal::Processor),
        truth(goal == Goal::Latency),
        workers_max.map_or(f64::NAN, |setting| setting.max as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_unit_that_is_known() {
        let (schema, _) = schema(&[]);
        assert!(schema.names().eq(FIELDS.iter().map(|(name, _)| *name)));
    }

    #[test]
    fn a_pack_with_mistakes_names_its_file_and_line() {
        let pack = "format = 1\nname = \"x\"\nabout = \"y\"\narea = \"network\"\n\n[[condition]]\nname = \"c\"\nwhen = \"run.tas > 0\"\nsays = \"z\"\n";
        // The built-in pack names settings that do not exist in this test, so only the problems of the other
        // packs are compared.
        let others = [("mine.toml".to_owned(), pack.to_owned())];
        let settings: Vec<SettingView> =
            ["quantum", "capacity", "unfinished", "workers", "mapper", "steal", "spread"]
                .map(|name| SettingView::switch(&format!("exec.{name}")))
                .to_vec();
        let bad = Rules::read(&others, &settings).unwrap_err().to_string();
        assert!(bad.starts_with("mine.toml:8: ") && bad.contains("run.tas"), "{bad}");
        let other = [("m.toml".to_owned(), pack.replace("network", "mpi").replace("run.tas ", "run.tasks "))];
        let bad = Rules::read(&other, &settings).unwrap_err().to_string();
        assert!(bad.contains("about `mpi`"), "{bad}");
        let fit = pack.replace("run.tas ", "run.tasks ")
            + "[[fit]]\nname = \"f\"\nis = \"run.tasks\"\n[[fit.term]]\nname = \"t\"\ntimes = \"1\"\nstart = 1\n";
        let bad = Rules::read(&[("m.toml".to_owned(), fit)], &settings).unwrap_err().to_string();
        assert!(bad.contains("the coefficients of `f` are only fitted"), "{bad}");
        assert_eq!(Rules::read(&[], &settings).map(|rules| rules.packs.len()).ok(), Some(1));
        let more = ["net.fuse", "net.fold_after", "exec.order"].map(SettingView::switch);
        let settings = [settings, more.to_vec()].concat();
        let rules = Rules::read(&[], &settings).map_err(|bad| bad.to_string()).unwrap();
        assert_eq!(rules.packs[1].name, "language");
    }
}
