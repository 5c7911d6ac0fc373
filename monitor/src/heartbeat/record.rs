//! How long a component's messages usually take, as recorded: read only when one of its tasks stands still.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use thalweg_scope::{Backlog, Leaf, Scope, Sketch, Target, Tree, View};

/// For so long a record that was read is not read again.
const HOLDS: Duration = Duration::from_secs(10);
/// Tuples that are read of a process's past, at most about.
const TUPLES_MAX: u64 = 4_000_000;
/// The share of the messages that the longest usual time is for.
const QUANTILE: f64 = 0.999;

/// The records of the processes of a scope, by number of process and component.
#[derive(Debug, Default)]
pub(super) struct Records {
    usual_ns: HashMap<(u32, String), f64>,
    read: HashMap<u32, Instant>,
}

impl Records {
    /// What 99.9 % of the messages of a component of a process took at most, by dispatches and messages that its space still holds.
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
            // A dispatch says what its messages took together; one without any says nothing of them.
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
