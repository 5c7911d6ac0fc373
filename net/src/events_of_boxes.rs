//! Events that boxes of libraries write: each thread that runs boxes gets a writer of its own at its first
//! event.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_space::kind::{Schema, SchemaId};
use thalweg_space::{Space, Writer};

/// A kind of event of a library, in one space.
#[derive(Debug)]
pub(crate) struct Kind {
    /// A number that distinguishes this kind from all other kinds of the process, also from those that were
    /// dropped.
    number: u64,
    space: Space,
    schema: Schema,
}

/// The writer of a thread for one space.
struct Writing {
    space: Space,
    writer: Writer,
    /// The kinds that were declared so far, by their numbers. `None` if the declaration failed.
    kinds: Vec<(u64, Option<SchemaId>)>,
}

thread_local! {
    static WRITING: RefCell<Vec<Writing>> = const { RefCell::new(Vec::new()) };
}

impl Kind {
    pub(crate) fn new(space: &Space, schema: Schema) -> Kind {
        static KINDS: AtomicU64 = AtomicU64::new(0);
        Kind { number: KINDS.fetch_add(1, Ordering::Relaxed), space: space.clone(), schema }
    }

    pub(crate) fn field_count(&self) -> usize {
        self.schema.fields.len()
    }

    /// Writes an event, a word for each field. If the space cannot be written any more, the event is dropped.
    pub(crate) fn write(&self, words: &[u64]) {
        // A thread that is ending has already dropped its writers; its event is lost.
        let _ = WRITING.try_with(|all| {
            let mut all = all.borrow_mut();
            if let Some(writing) = self.writing(&mut all)
                && let Some(kind) = writing.declared(self)
            {
                writing.writer.emit_words(kind, words);
            }
        });
    }

    fn writing<'a>(&self, all: &'a mut Vec<Writing>) -> Option<&'a mut Writing> {
        let index = match all.iter().position(|writing| writing.space.path() == self.space.path()) {
            Some(index) => index,
            None => {
                let writer = self.space.writer("boxes").ok()?;
                all.push(Writing { space: self.space.clone(), writer, kinds: Vec::new() });
                all.len() - 1
            }
        };
        all.get_mut(index)
    }
}

impl Writing {
    fn declared(&mut self, kind: &Kind) -> Option<SchemaId> {
        if let Some((_, id)) = self.kinds.iter().find(|(number, _)| *number == kind.number) {
            return *id;
        }
        let id = self.writer.declare_schema(&kind.schema).ok();
        self.kinds.push((kind.number, id));
        id
    }
}
