//! The recorded times of a component's messages, read only when one of its tasks makes no progress.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use thalweg_scope::{Backlog, Leaf, Scope, Sketch, Target, Tree, View};

/// The time for which the recorded times of a component are used before they are read again.
const HOLDS: Duration = Duration::from_secs(10);
/// The approximate maximal number of tuples that are read from the past events of a process.
const TUPLES_MAX: u64 = 4_000_000;
/// The quantile of message times that is used as the longest usual time.
const QUANTILE: f64 = 0.999;

/// The recorded message times of a scope's components, by the process's number and the component.
#[derive(Debug, Default)]
pub(super) struct Records {
    usual_ns: HashMap<(u32, String), f64>,
    read: HashMap<u32, Instant>,
}

impl Records {
    /// The 99.9 % quantile of the times of a component's messages, from the dispatches and messages that the
    /// process's space still holds.
    pub(super) fn usual_ns(
        &mut self,
        (process, space): (u32, &std::path::Path),
        component: &str,
    ) -> Option<f64> {
        if self.read.get(&process).is_none_or(|read| read.elapsed() > HOLDS) {
            self.read.insert(process, Instant::now());
            for (component, sketch) in read(space).unwrap_or_default() {
                self.usual_ns.insert((process, component), sketch.quantile(QUANTILE));
            }
        }
        self.usual_ns.get(&(process, component.to_owned())).copied()
    }
}

fn read(space: &std::path::Path) -> Result<HashMap<String, Sketch>, thalweg_scope::Error> {
    let leaf = Leaf::of_kinds(["exec.dispatch", "exec.dispatch_long", "exec.message_worked"]);
    let about = "What do messages usually take?";
    let view = View::new("usual", about, Tree::leaf(leaf)).expect("it names what there is");
    let mut scope = Scope::open(&view, Target::of(space), Backlog::All)?;
    let (mut sketches, mut left) = (HashMap::<String, Sketch>::new(), TUPLES_MAX);
    loop {
        let pulled = scope.pull_since();
        for tuple in pulled.batch.tuples() {
            let number = |name: &str| tuple.field(name).and_then(|value| value.number());
            let Some(duration_ns) = number("duration") else { continue };
            // A dispatch records the total time of its messages; a dispatch without messages is left out.
            let messages = number("reads").unwrap_or(1.0);
            if messages < 1.0 {
                continue;
            }
            if let Some(thalweg_scope::Value::Text(component)) = tuple.field("task.component") {
                sketches.entry(component.to_owned()).or_default().add(duration_ns / messages);
            }
        }
        let count = pulled.batch.len() as u64;
        left = left.saturating_sub(count);
        if count == 0 || left == 0 || pulled.is_over {
            return Ok(sketches);
        }
    }
}
