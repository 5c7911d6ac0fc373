//! Parts of sentences: formats the figures and names of a finding.

use crate::ids::WorkerId;
use crate::report::{Action, Figure, Finding, Subject, Words};
use crate::wording::percent;

/// The sentence of the verdict on a run in which no task worked.
pub(super) const NOTHING: &str = "Nothing stands out: no task did any work.";

/// Adds to the words of a rule the parts that every finding has: the root of waiting, whether the run was
/// short, and whether messages were lost.
pub(super) fn whole(mut words: Words, finding: &Finding) -> Words {
    words.evidence.extend(root(finding));
    if finding.figure("short_ns").is_some() {
        let lasted_ms = finding.value("short_ns") / 1e6;
        words.text.push_str(&format!(
            " Beware: the run lasted {lasted_ms:.1} ms, most of which was its start. Something else may limit a longer one."
        ));
    }
    if finding.figure("broken").is_some() {
        words.text.push_str(" Beware: not every stream conserves its messages.");
    }
    words
}

/// The sentence about the root of most waiting.
fn root(finding: &Finding) -> Option<String> {
    let (figure, state) = finding.figures.iter().find_map(|figure| {
        let state = match figure.name.as_str() {
            "waiting_for_running" => " while it runs",
            "waiting_for_ready" => " while it is ready and does not run",
            "waiting_for_itself" => " and back to itself",
            "waiting_for" => "",
            _ => return None,
        };
        Some((figure, state))
    })?;
    Some(format!("{} of all waiting leads to {}{state}", percent(figure.value), named(Some(figure))))
}

impl Words {
    /// The words of a finding with this sentence only.
    pub(super) fn text(text: impl Into<String>) -> Words {
        Words { text: text.into(), ..Words::default() }
    }

    /// Adds evidence.
    pub(super) fn because(mut self, evidence: impl Into<Option<String>>) -> Words {
        self.evidence.extend(evidence.into());
        self
    }

    /// Adds a suggestion.
    pub(super) fn so(self, suggestion: impl Into<String>) -> Words {
        Words { suggestion: Some(suggestion.into()), ..self }
    }
}

/// A finding's figures, formatted for sentences.
impl Finding {
    /// A figure that is a share, in percent.
    pub(super) fn percent(&self, figure: &str) -> String {
        percent(self.value(figure))
    }

    /// A figure that is a count.
    pub(super) fn count(&self, figure: &str) -> u64 {
        self.value(figure) as u64
    }

    /// The name of a figure's subject.
    pub(super) fn name_of(&self, figure: &str) -> String {
        named(self.figure(figure))
    }

    /// The id of the worker that is a figure's subject.
    pub(super) fn worker_of(&self, figure: &str) -> WorkerId {
        match self.figure(figure).and_then(|figure| figure.of.as_ref()) {
            Some(Subject::Worker(worker)) => *worker,
            _ => WorkerId::default(),
        }
    }

    /// The path of the finding's component.
    pub(super) fn path(&self) -> &str {
        self.component.as_deref().unwrap_or_default()
    }

    /// The name of the finding's task.
    pub(super) fn task_name(&self) -> &str {
        self.task.as_ref().map_or("", |task| &task.name)
    }

    /// The path of the component of the finding's task.
    pub(super) fn task_path(&self) -> &str {
        self.task.as_ref().map_or("", |task| task.component())
    }

    /// The id of the finding's worker.
    pub(super) fn worker_id(&self) -> WorkerId {
        self.worker.unwrap_or_default()
    }

    /// The first action, as a command line.
    pub(super) fn action(&self) -> String {
        self.actions.first().map_or(String::new(), Action::to_string)
    }
}

fn named(figure: Option<&Figure>) -> String {
    figure.and_then(|figure| figure.of.as_ref()).map_or(String::new(), Subject::to_string)
}

/// A source or sink as the subject of a sentence; a name equal to the role is not repeated.
pub(super) fn the(role: &str, name: &str) -> String {
    if name.is_empty() || name == role { format!("The {role}") } else { format!("The {role} {name}") }
}
