//! Makes tuples of the events and live rows of a process that a leaf selects.

use super::columns::{Around, Column};
use super::tasks::{Role, Tasks};
use super::texts::{ByNumber, Texts};
use crate::tuple::{Batch, Element, Head, KIND_GAP, Tables, TupleKind, row_id};
use crate::view::{Leaf, is_of_task, with_task};
use std::sync::Arc;
use thalweg_glob::Glob;
use thalweg_space::Clock;
use thalweg_space::reader::{Event, Item, KindInfo, LiveView, SpaceReader};

/// Marks an element that was not examined yet; `UNWANTED` marks an element that the leaf does not select.
const UNSEEN: u32 = 0;
const UNWANTED: u32 = u32::MAX;

/// Makes tuples of events and live rows.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(crate) space: SpaceReader,
    pub(crate) clock: Clock,
    leaf: Arc<Wanted>,
    tables: Arc<Tables>,
    pub(crate) process: u32,
    /// The number of the element of each writer.
    elements: Vec<u32>,
    rows_element: u32,
    texts: Texts,
    tasks: Tasks,
    components: ByNumber<bool>,
    row_plans: ByNumber<Option<Arc<RowPlan>>>,
    ns_per_tick: f64,
    /// The beginning of the process, in ticks.
    begin: u64,
    /// Whether all events of each writer come in order, so that recorded bases belong to the dispatches that
    /// follow.
    pub(crate) is_in_order: bool,
}

/// A leaf with compiled patterns.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) leaf: Leaf,
    kinds: Vec<Glob>,
    rows: Vec<Glob>,
    element: Option<Glob>,
}

impl Wanted {
    pub(crate) fn new(leaf: &Leaf) -> Wanted {
        let globs = |patterns: &[String]| patterns.iter().map(|pattern| Glob::new(pattern)).collect();
        Wanted {
            kinds: globs(&leaf.kinds),
            rows: globs(&leaf.rows),
            element: leaf.element.as_deref().map(Glob::new),
            leaf: leaf.clone(),
        }
    }

    pub(crate) fn wants_events(&self) -> bool {
        !self.kinds.is_empty() || self.rows.is_empty()
    }

    pub(crate) fn wants_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    fn kind(&self, name: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.matches(name))
    }
}

/// The plans for the kinds of a stream of events, by [`KindInfo::index`].
#[derive(Debug, Default)]
pub(crate) struct Plans {
    plans: Vec<Option<Plan>>,
}

#[derive(Debug)]
struct Plan {
    role: Role,
    /// The tuples' kind and columns, if the leaf selects the kind.
    wanted: Option<(u16, Vec<Column>)>,
}

/// The conversion of rows of a kind to tuples.
#[derive(Debug)]
struct RowPlan {
    kind: u16,
    columns: Vec<Column>,
    /// Whether the rows describe tasks.
    is_task: bool,
    /// Whether each row describes a task, or names the task to which its object belongs. The number and the
    /// component of this task follow the columns.
    names_task: bool,
}

impl Decoder {
    pub(crate) fn new(
        (space, begin): (SpaceReader, u64),
        clock: Clock,
        leaf: Arc<Wanted>,
        tables: Arc<Tables>,
        process: u32,
    ) -> Decoder {
        let ns_per_tick = 1e9 / clock.hz();
        Decoder {
            space,
            clock,
            leaf,
            tables,
            process,
            elements: Vec::new(),
            rows_element: UNSEEN,
            texts: Texts::default(),
            tasks: Tasks::default(),
            components: ByNumber::default(),
            row_plans: ByNumber::default(),
            ns_per_tick,
            begin,
            is_in_order: true,
        }
    }

    /// Replaces the clock by a more exact one.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        (self.clock, self.ns_per_tick) = (clock, 1e9 / clock.hz());
    }

    pub(crate) fn new_pull(&mut self) {
        self.texts.new_pull();
        self.tasks.new_pull();
    }

    pub(crate) fn new_batch(&mut self) {
        self.texts.new_batch();
    }

    /// Adds the tuple of an item of the space's events, if the leaf selects it.
    #[inline]
    pub(crate) fn item(&mut self, item: Item<'_>, plans: &mut Plans, batch: &mut Batch) {
        match item {
            Item::Event(event) => self.event(&event, plans, batch),
            Item::Gap { time, writer, lost, from_sequence, kind_unknown } => {
                // After an event of an unknown kind, the bases from earlier events of its writer stay valid.
                if !kind_unknown {
                    self.tasks.forget(writer);
                }
                let element = self.element(writer, None);
                if element != UNWANTED {
                    // Tuples are sorted by time, and a gap must stay before the next tuple of its element, which may
                    // be earlier than tuples of other elements.
                    let time_ns = self.time_ns(if time == 0 { self.begin } else { time });
                    batch.begin((time_ns, from_sequence), element, KIND_GAP, 0);
                    batch.words.extend([lost, from_sequence]);
                }
            }
        }
    }

    /// Adds the tuple of an event, if the leaf selects it.
    #[inline]
    pub(crate) fn event(&mut self, event: &Event<'_>, plans: &mut Plans, batch: &mut Batch) {
        let index = event.kind.index;
        if plans.plans.get(index).is_none_or(Option::is_none) {
            self.plan(event.kind, plans);
        }
        let Some(Some(plan)) = plans.plans.get(index) else { return };
        let task =
            if plan.role == Role::None { 0 } else { self.tasks.take(plan.role, event, self.is_in_order) };
        let Some((kind, columns)) = &plan.wanted else { return };
        if self.leaf.leaf.task.is_some_and(|wanted| wanted != task) {
            return;
        }
        let component = if plan.role == Role::None { 0 } else { self.tasks.component(task, &self.space) };
        if !self.wants_component(component) {
            return;
        }
        let known = self.elements.get(event.writer as usize).copied().unwrap_or(UNSEEN);
        let element = if known == UNSEEN { self.element(event.writer, Some(event)) } else { known };
        if element == UNWANTED {
            return;
        }
        let time_ns = self.time_ns(event.time);
        batch.begin((time_ns, event.sequence), element, *kind, 0);
        let Decoder { space, clock, texts, ns_per_tick, .. } = self;
        let mut around = Around { space, clock, ns_per_tick: *ns_per_tick, texts };
        columns.iter().for_each(|column| column.put(event, &mut around, batch));
        if plan.role != Role::None {
            put_task(task, component, &mut around, batch);
        }
    }

    /// The time that [`Clock::real_ns`] computes, without a division.
    #[inline]
    fn time_ns(&self, ticks: u64) -> u64 {
        let anchor = self.clock.anchor();
        let offset = ticks.wrapping_sub(anchor.ticks) as i64;
        anchor.real_ns.saturating_add_signed((offset as f64 * self.ns_per_tick) as i64)
    }

    #[cold]
    fn plan(&mut self, kind: &KindInfo, plans: &mut Plans) {
        if plans.plans.len() <= kind.index {
            plans.plans.resize_with(kind.index + 1, || None);
        }
        let role = Role::of(kind);
        let wanted = self.leaf.kind(&kind.name).then(|| {
            let (columns, fields) = Column::of_kind(kind);
            let made = with_task(TupleKind { name: kind.name.clone(), doc: kind.doc.clone(), fields });
            (self.tables.kind(made), columns)
        });
        plans.plans[kind.index] = Some(Plan { role, wanted });
    }

    /// The number of a writer's element, or [`UNWANTED`].
    #[cold]
    fn element(&mut self, writer: u32, event: Option<&Event<'_>>) -> u32 {
        // Writers are numbered consecutively; a larger number is damage, and its events belong to no element.
        const WRITERS_MAX: usize = 1 << 24;
        let at = writer as usize;
        if at >= WRITERS_MAX {
            return UNWANTED;
        }
        if let Some(known) = self.elements.get(at).filter(|known| **known != UNSEEN) {
            return *known;
        }
        let name = match event {
            Some(event) => self.space.name(event.writer_name),
            // For a gap only the writer's number is known.
            None => self.name_of(writer),
        };
        let name = name.unwrap_or_default();
        let is_wanted = self.leaf.element.as_ref().is_none_or(|element| element.matches(&name));
        let number = match is_wanted {
            true => self.tables.element(Element { process: self.process, writer, name }),
            false => UNWANTED,
        };
        if self.elements.len() <= at {
            self.elements.resize(at + 1, UNSEEN);
        }
        self.elements[at] = number;
        number
    }

    fn name_of(&self, writer: u32) -> Option<Arc<str>> {
        let writers = self.space.writers().ok()?;
        writers.into_iter().find(|found| found.number == writer).map(|found| found.name.into())
    }

    #[inline]
    fn wants_component(&mut self, site: u64) -> bool {
        let Some(wanted) = &self.leaf.leaf.component else { return true };
        if let Some(known) = self.components.get(&site) {
            return *known;
        }
        let path = self.texts.path(site, &self.space);
        let fits = !path.is_empty() && is_called(&path, wanted);
        // An unknown path is not stored, because it may become known later.
        if !path.is_empty() {
            self.components.insert(site, fits);
        }
        fits
    }

    /// Adds the tuples of the live rows that the leaf selects, with the time `now_ns`.
    pub(crate) fn rows(&mut self, now_ns: u64, batch: &mut Batch) -> Result<(), thalweg_space::Error> {
        let rows = self.space.live_rows()?;
        if self.rows_element == UNSEEN {
            let name = "live table".into();
            self.rows_element = self.tables.element(Element { process: self.process, writer: 0, name });
        }
        for row in rows {
            self.row(&row, now_ns, batch);
        }
        Ok(())
    }

    fn row(&mut self, row: &LiveView, now_ns: u64, batch: &mut Batch) {
        let Decoder { leaf, tables, row_plans, .. } = self;
        let plan = row_plans.entry(row.code.into()).or_insert_with(|| {
            let info =
                row.kind.as_ref().filter(|info| leaf.rows.iter().any(|glob| glob.matches(&info.name)))?;
            let (columns, mut fields) = Column::of_cells(&info.cells);
            fields.insert(0, row_id());
            let kind = TupleKind { name: info.name.clone(), doc: info.doc.clone(), fields };
            let (is_task, names_task) = (info.name == "exec.task", is_of_task(&kind));
            Some(Arc::new(RowPlan { kind: tables.kind(with_task(kind)), columns, is_task, names_task }))
        });
        let Some(plan) = plan.clone() else { return };
        let RowPlan { kind, columns, is_task, names_task } = &*plan;
        let (kind, names_task) = (*kind, *names_task);
        let (task, component) = match () {
            () if *is_task => (row.id, row.cell("component").unwrap_or(0)),
            () if names_task => {
                let task = row.cell("task").unwrap_or(0);
                (task, self.tasks.component(task, &self.space))
            }
            () => (0, 0),
        };
        if self.leaf.leaf.task.is_some_and(|wanted| !names_task || wanted != task)
            || !self.wants_component(component)
        {
            return;
        }
        batch.begin((now_ns, row.id), self.rows_element, kind, Head::ROW);
        batch.words.push(row.id);
        let Decoder { space, clock, texts, ns_per_tick, .. } = self;
        let mut around = Around { space, clock, ns_per_tick: *ns_per_tick, texts };
        for (column, cell) in columns.iter().zip(row.cells) {
            column.put_cell(cell, &mut around, batch);
        }
        if names_task {
            put_task(task, component, &mut around, batch);
        }
        debug_assert_eq!(
            batch.words.len() - batch.heads.last().map_or(0, |head| head.first as usize),
            self.tables.now().kinds[usize::from(kind)].fields.len(),
            "a word for each field"
        );
    }
}

fn put_task(task: u64, component: u64, around: &mut Around<'_>, batch: &mut Batch) {
    let path = around.texts.word(super::texts::TextOf::Site(component), around.space, batch);
    batch.words.extend([task, path]);
}

/// Whether a component's path equals or ends in the name that the user wrote.
fn is_called(path: &str, name: &str) -> bool {
    path == name
        || path.strip_suffix(name).is_some_and(|head| head.ends_with('/'))
        || name.contains(['*', '?']) && Glob::new(name).matches(path)
}
