//! Merges the events of all writers in time order. The memory is bounded by one block and the longest event
//! of each element.

use super::blocks::Place;
use super::element::{ElementReader, Found, Next, Outline, Start};
use super::kinds::{Catalogs, FieldRef, KindInfo, length_at};
use super::numbers::Numbers;
use crate::catalog::FieldInfo;
use crate::error::Error;
use crate::kind::{FieldType, NameRef};
use crate::layout::event as layout;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An event, valid while the callback runs.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The time of the event, in ticks of the space's clock.
    pub time: u64,
    /// The number of the writer.
    pub writer: u32,
    /// The writer's name; 0 if another writer has taken over its element since.
    pub writer_name: NameRef,
    /// The thread that made the writer; 0: not known.
    pub thread: u32,
    /// The index of the event among that writer's events, from 0; dropped events count, too.
    pub sequence: u64,
    /// The kind of the event.
    pub kind: &'a Arc<KindInfo>,
    /// The event's flags, which [`Event::is_same_time`] and the methods after it read.
    pub flags: u8,
    /// The arguments: checked to hold the kind's fixed part.
    pub(super) arguments: &'a [u8],
}

/// A field's value, for generic use.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Name(NameRef),
    Site(crate::kind::SiteRef),
    /// An enum: the value and the choice's name, if the catalog has one.
    Choice(u64, Option<&'a str>),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unsigned(value) => write!(f, "{value}"),
            Value::Signed(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Name(name) => write!(f, "name#{}", name.0),
            Value::Site(site) => write!(f, "site#{}", site.0),
            Value::Choice(_, Some(name)) => f.write_str(name),
            Value::Choice(value, None) => write!(f, "{value}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl<'a> Event<'a> {
    /// Whether the event was written without reading the clock, with the time of the event before it.
    pub fn is_same_time(&self) -> bool {
        self.flags & layout::FLAG_SAME_TIME != 0
    }

    /// Whether the event's time was computed, not read from the clock.
    pub fn is_interpolated(&self) -> bool {
        self.flags & layout::FLAG_INTERPOLATED != 0
    }

    /// Whether a text or byte field was cut because the event would not have fitted into its element.
    pub fn is_truncated(&self) -> bool {
        self.flags & layout::FLAG_TRUNCATED != 0
    }

    /// The field's bits; a signed number is sign-extended. 0 for a field of another kind.
    #[inline]
    pub fn u64(&self, field: FieldRef) -> u64 {
        let bits = self.bits(field.offset, field.field_type.bytes());
        match field.field_type {
            FieldType::I8 => bits as u8 as i8 as u64,
            FieldType::I16 => bits as u16 as i16 as u64,
            FieldType::I32 => bits as u32 as i32 as u64,
            _ => bits,
        }
    }

    /// Up to eight bytes from an offset on. Arguments are whole words, so eight bytes can nearly always be
    /// loaded.
    #[inline]
    fn bits(&self, offset: usize, bytes: usize) -> u64 {
        if let (Some(word), 1..=8) = (self.arguments.get(offset..offset + 8), bytes) {
            let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            return word & u64::MAX >> (64 - 8 * bytes);
        }
        let Some(slice) = self.arguments.get(offset..offset + bytes) else { return 0 };
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(slice);
        u64::from_le_bytes(word)
    }

    /// A signed number.
    pub fn i64(&self, field: FieldRef) -> i64 {
        self.u64(field) as i64
    }

    /// A floating-point number; integers are converted.
    pub fn f64(&self, field: FieldRef) -> f64 {
        let bits = self.u64(field);
        match field.field_type {
            FieldType::F64 => f64::from_bits(bits),
            FieldType::F32 => f64::from(f32::from_bits(bits as u32)),
            FieldType::I8 | FieldType::I16 | FieldType::I32 | FieldType::I64 => bits as i64 as f64,
            _ => bits as f64,
        }
    }

    /// A truth value: anything but 0.
    pub fn bool(&self, field: FieldRef) -> bool {
        self.u64(field) != 0
    }

    /// The bytes of a text or byte field; nothing for others.
    pub fn bytes(&self, field: FieldRef) -> &'a [u8] {
        if !field.field_type.is_variable() {
            return &[];
        }
        let mut at = 8 * self.kind.words;
        for (n, offset) in self.kind.variable.iter().enumerate() {
            let length = length_at(self.arguments, *offset);
            if n == field.variable {
                return self.arguments.get(at..at.saturating_add(length)).unwrap_or(&[]);
            }
            at = at.saturating_add(length.next_multiple_of(8));
        }
        &[]
    }

    /// The text of a text field; broken UTF-8 is replaced.
    pub fn str(&self, field: FieldRef) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes(field))
    }

    /// The name of an enum field's choice.
    pub fn choice(&self, name: &str) -> Option<&'a str> {
        let n = self.kind.fields.iter().position(|f| f.name == name)?;
        let value = self.u64(self.kind.field_at(n));
        let choices = &self.kind.fields[n].choices;
        choices.iter().find(|(v, _)| *v == value).map(|(_, name)| name.as_str())
    }

    /// All fields with their values, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a FieldInfo, Value<'a>)> + '_ {
        let kind: &'a Arc<KindInfo> = self.kind;
        kind.fields.iter().enumerate().map(move |(n, info)| (info, self.value(info, kind.field_at(n))))
    }

    fn value(&self, info: &'a FieldInfo, field: FieldRef) -> Value<'a> {
        let bits = self.u64(field);
        match info.field_type {
            FieldType::U8 | FieldType::U16 | FieldType::U32 | FieldType::U64 => Value::Unsigned(bits),
            FieldType::I8 | FieldType::I16 | FieldType::I32 | FieldType::I64 => Value::Signed(bits as i64),
            FieldType::F32 | FieldType::F64 => Value::Float(self.f64(field)),
            FieldType::Bool => Value::Bool(bits != 0),
            FieldType::Name => Value::Name(NameRef(bits)),
            FieldType::Site => Value::Site(crate::kind::SiteRef(bits)),
            FieldType::Enum => {
                let name = info.choices.iter().find(|(v, _)| *v == bits).map(|(_, name)| name.as_str());
                Value::Choice(bits, name)
            }
            FieldType::Str => Value::Text(self.str(field)),
            FieldType::Bytes => Value::Bytes(self.bytes(field)),
        }
    }
}

/// An item of a stream of events.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// An event.
    Event(Event<'a>),
    /// Events that are lost: overwritten, dropped or damaged.
    Gap {
        /// A time in ticks, which is not later than the writer's next event; 0 if no event of the writer was read.
        time: u64,
        /// The number of the writer.
        writer: u32,
        /// The number of lost events. The number is 1 for a damaged last block, whose number of events is not
        /// known: it lost at least one. The number is 0 if events were passed over on purpose
        /// ([`EventStream::leave_out`]).
        lost: u64,
        /// Sequence number of the first lost event.
        from_sequence: u64,
        /// Whether the gap is a single event of a kind that no catalog describes. A gap of this kind has no
        /// other lost events.
        kind_unknown: bool,
    },
}

/// The events of all writers of a space.
#[derive(Debug)]
pub struct EventStream {
    path: PathBuf,
    numbers: Numbers,
    sources: Vec<Source>,
    catalogs: Catalogs,
    by_block: bool,
    is_consumer: bool,
    since: Option<u64>,
    /// Whether all events of each writer's first block are handed over, also those before the start of the
    /// stream.
    whole_blocks: bool,
    until: u64,
    from_sequence: Vec<(u32, u64)>,
    /// A time in ticks, and the kinds, chosen by their names, whose events before that time are handed over.
    outline: Option<(u64, Wanted)>,
    /// Whether the next look passes over the blocks that were not read.
    leaves_out: bool,
    /// The sources, ordered by the time of their next item, and at equal times by the number of the writer.
    order: BinaryHeap<Reverse<(u64, usize)>>,
}

/// Decides by its name whether a kind is wanted.
#[derive(Clone)]
struct Wanted(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wanted")
    }
}

#[derive(Debug)]
struct Source {
    element: ElementReader,
    /// The index of the catalog that describes the writer's kinds.
    catalog: usize,
    next: Next,
    /// The time after which events are not handed over.
    until: u64,
    /// Whether the source met an event later than `until`.
    is_cut: bool,
    /// Whether the next item was found but not examined yet.
    is_moved: bool,
    failed: bool,
}

impl EventStream {
    pub(super) fn new(path: PathBuf) -> EventStream {
        EventStream {
            path,
            numbers: Numbers::default(),
            sources: Vec::new(),
            catalogs: Catalogs::default(),
            by_block: false,
            is_consumer: false,
            since: None,
            whole_blocks: false,
            until: u64::MAX,
            from_sequence: Vec::new(),
            outline: None,
            leaves_out: false,
            order: BinaryHeap::new(),
        }
    }

    /// Follows block by block: the events of a live writer are handed over when it has filled a block. A poll
    /// for the latest events takes a cache line from a busy writer; a poll block by block does not.
    pub fn by_block(mut self) -> EventStream {
        self.by_block = true;
        for source in &mut self.sources {
            source.element.follow_by_block();
        }
        self
    }

    /// Makes this stream the consumer: writers with the policy *wait* wait until it has read a block, and
    /// writers that drop the newest drop events while no block is free. The next poll permits writers to
    /// overwrite, block by block, the events that the last poll handed over. A caller that stores the events
    /// before the next poll thus loses no event of a writer that waits. The writers stop waiting when this
    /// stream is dropped or the process that reads it ends. A space has one consumer at a time; an
    /// [`Archiver`](crate::archive::Archiver) is a consumer, too.
    ///
    /// ```
    /// use thalweg_space::{Kind, Policy, Space, SpaceOptions, reader::{Item, SpaceReader}};
    ///
    /// /// A step was made.
    /// #[derive(Kind)]
    /// #[kind(name = "example.step")]
    /// struct Step {
    ///     count: u64,
    /// }
    /// # let parent = std::env::temp_dir().join(format!("thalweg-consumer-{}", std::process::id()));
    /// # let options = SpaceOptions { parent: Some(parent.clone()), ..Default::default() };
    /// let space = Space::create(options)?;
    /// let mut writer = space.writer("main")?;
    /// let step = writer.declare::<Step>()?;
    /// let mut events = SpaceReader::open(space.path())?.events().consuming();
    /// for count in 0..3 {
    ///     writer.emit(step, &Step { count });
    /// }
    /// let mut lines = String::new();
    /// while events.poll(1024, &mut |item| match item {
    ///     Item::Event(event) => lines += &format!("{}\n", event.u64(event.kind.field("count").unwrap())),
    ///     Item::Gap { lost, .. } => lines += &format!("{lost} lost\n"),
    /// })? > 0
    /// {
    ///     // Keep the lines here, wherever you like.
    /// }
    /// assert_eq!(lines, "0\n1\n2\n");
    /// # std::fs::remove_dir_all(parent).unwrap();
    /// # Ok::<(), thalweg_space::Error>(())
    /// ```
    pub fn consuming(mut self) -> EventStream {
        self.is_consumer = true;
        self
    }

    /// Begins with the events at `ticks` of the space's clock or later. Earlier events are neither read nor
    /// counted as lost, because the headers of blocks show where to begin.
    pub fn since(mut self, ticks: u64) -> EventStream {
        self.since = Some(ticks);
        self
    }

    /// Begins as [`EventStream::since`] does, but hands over all events of each writer's first block, also
    /// those older than `ticks`, because later events may depend on data that an earlier event of the same
    /// block states.
    pub fn since_block(mut self, ticks: u64) -> EventStream {
        self.since = Some(ticks);
        self.whole_blocks = true;
        self
    }

    /// Ends with the events at `ticks` of the space's clock. Later events are not handed over, and blocks
    /// that begin later are not read.
    pub fn until(mut self, ticks: u64) -> EventStream {
        self.until = ticks;
        for source in &mut self.sources {
            source.element.end_at(ticks);
            source.until = ticks;
        }
        self
    }

    /// Restricts the events before `ticks` of the space's clock to the kinds whose names `is_wanted` accepts.
    /// Chunks of an archive that have no event of these kinds are not read. Lost events are counted whatever
    /// their kind.
    pub fn outlined(
        mut self,
        ticks: u64,
        is_wanted: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> EventStream {
        self.outline = Some((ticks, Wanted(Arc::new(is_wanted))));
        self
    }

    /// Makes the next look for new events pass over the blocks that were not read, but for the block that each
    /// writer fills at present. Of a writer that filled less than a block since the last look, all events are
    /// handed over. The events passed over do not count as lost; an [`Item::Gap`] of no lost events stands for
    /// them.
    pub fn leave_out(&mut self) {
        self.leaves_out = true;
    }

    /// Whether there are events after the time that [`EventStream::until`] set.
    pub fn has_more(&self) -> bool {
        self.sources.iter().any(|source| source.is_cut || source.element.is_past_last())
    }

    /// The time, in ticks, before which events of some writer after the start of the stream are overwritten.
    /// Such events are not counted as lost. `None` if no writer's are; known after the first poll.
    pub fn overwritten_until(&self) -> Option<u64> {
        self.sources.iter().filter_map(|source| source.element.overwritten_until()).max()
    }

    /// Begins the events of the writer `writer` at the sequence number `sequence`. Earlier events are neither
    /// read nor counted as lost. Has no effect for a writer whose element another writer had before.
    pub fn from_sequence(mut self, writer: u32, sequence: u64) -> EventStream {
        self.from_sequence.push((writer, sequence));
        self
    }

    /// The kinds met so far, at their [`KindInfo::index`].
    pub fn kinds(&self) -> &[Arc<KindInfo>] {
        self.catalogs.kinds()
    }

    /// Hands at most `limit` items to `take`; returns how many. 0 means that there is nothing more now.
    ///
    /// When no items of the last poll remain, a poll merges the events that all writers have committed by the
    /// time of the poll. Events of one writer always come in the order in which it wrote them. Events of
    /// several writers come in the order of time, except events that are committed after a poll has handed
    /// over later ones.
    ///
    /// # Errors
    /// Fails when files are damaged, after everything that could be read was handed over. A writer whose
    /// files cannot be read is reported once and left out from then on.
    pub fn poll(&mut self, limit: usize, take: &mut impl FnMut(Item<'_>)) -> Result<usize, Error> {
        let problem = self.begin();
        let taken = self.poll_until(limit, u64::MAX, take);
        problem.map_or(taken, Err)
    }

    /// Looks for new events before a poll. Not inlined, because there is a copy of a poll for each closure.
    #[inline(never)]
    fn begin(&mut self) -> Option<Error> {
        let mut problem = None;
        self.look_if_empty(&mut problem);
        if self.is_consumer {
            self.consume(&mut problem);
        }
        problem
    }

    /// Permits the writers to overwrite the blocks whose events were handed over before.
    fn consume(&mut self, problem: &mut Option<Error>) {
        for source in self.sources.iter_mut().filter(|source| !source.failed) {
            if let Err(error) = source.element.consume() {
                problem.get_or_insert(error);
            }
        }
    }

    /// Reads the positions of all writers if no items of the last poll remain.
    pub(super) fn look_if_empty(&mut self, problem: &mut Option<Error>) {
        if self.order.is_empty() {
            self.look(problem);
        }
    }

    /// The time, in ticks, of the earliest item that was found and not handed over yet.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((time, _))| *time)
    }

    /// Hands over items as [`EventStream::poll`] does, but does not look for new events, and stops at the
    /// time `last`, in ticks.
    pub(super) fn poll_until(
        &mut self,
        limit: usize,
        last: u64,
        take: &mut impl FnMut(Item<'_>),
    ) -> Result<usize, Error> {
        let mut problem = None;
        let mut taken = 0;
        while taken < limit && self.next_time().is_some_and(|time| time <= last) {
            let Some(Reverse((_, index))) = self.order.pop() else { break };
            let until = self.order.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
            let source = &mut self.sources[index];
            loop {
                source.hand_over(&self.catalogs, take);
                taken += 1;
                if !source.advance_plainly(&self.catalogs)
                    && let Err(error) = source.advance(&mut self.catalogs)
                {
                    source.failed = true;
                    source.next = Next::Nothing;
                    problem.get_or_insert(error);
                }
                let Some(time) = source.next_time() else { break };
                if taken >= limit || time > last || (time, index) > until {
                    self.order.push(Reverse((time, index)));
                    break;
                }
            }
        }
        problem.map_or(Ok(taken), Err)
    }

    fn look(&mut self, problem: &mut Option<Error>) {
        if let Err(error) = self.find_writers(problem) {
            problem.get_or_insert(error);
        }
        if let Err(error) = self.pass_outline() {
            problem.get_or_insert(error);
        }
        let leaves_out = std::mem::take(&mut self.leaves_out);
        for (index, source) in self.sources.iter_mut().enumerate().filter(|(_, s)| !s.failed) {
            let looked = source.element.look();
            let looked = if leaves_out { looked.and_then(|()| source.element.leave_out()) } else { looked };
            match looked.and_then(|()| source.advance(&mut self.catalogs)) {
                Ok(()) => self.order.extend(source.next_time().map(|time| Reverse((time, index)))),
                Err(error) => {
                    source.failed = true;
                    problem.get_or_insert(error);
                }
            }
        }
    }

    /// Computes which of the kinds known so far are left out before the time of the outline, and passes the
    /// result to the sources.
    fn pass_outline(&mut self) -> Result<(), Error> {
        let Some((until, wanted)) = self.outline.clone() else { return Ok(()) };
        let mut known: Option<(usize, Arc<[bool]>)> = None;
        for source in &mut self.sources {
            let left_out = match &known {
                Some((catalog, left_out)) if *catalog == source.catalog => left_out.clone(),
                _ => {
                    let kinds = self.catalogs.all_of(source.catalog)?;
                    kinds.iter().map(|kind| kind.as_ref().is_some_and(|kind| !wanted.0(&kind.name))).collect()
                }
            };
            known = Some((source.catalog, left_out.clone()));
            source.element.outline(Outline { until, left_out });
        }
        Ok(())
    }

    fn find_writers(&mut self, problem: &mut Option<Error>) -> Result<(), Error> {
        for place in self.numbers.new_ones(&self.path, problem)? {
            match Source::open(&self.path, &place, &mut self.catalogs) {
                Ok(Some(mut source)) => {
                    if self.by_block {
                        source.element.follow_by_block();
                    }
                    if let Some(ticks) = self.since {
                        let whole = self.whole_blocks;
                        source.element.start_at(if whole { Start::Block(ticks) } else { Start::Time(ticks) });
                    }
                    source.element.end_at(self.until);
                    source.until = self.until;
                    let number = source.element.first_writer();
                    if let Some((_, sequence)) =
                        self.from_sequence.iter().find(|(writer, _)| *writer == number)
                    {
                        source.element.start_at(Start::Sequence(*sequence));
                    }
                    self.sources.push(source);
                }
                Ok(None) => {}
                Err(error) => drop(problem.get_or_insert(error)),
            }
        }
        Ok(())
    }
}

impl Source {
    fn open(path: &Path, place: &Place, catalogs: &mut Catalogs) -> Result<Option<Source>, Error> {
        let Some(element) = ElementReader::open(place)? else { return Ok(None) };
        let catalog = catalogs.open(path, place.id.file)?;
        Ok(Some(Source {
            element,
            catalog,
            next: Next::Nothing,
            until: u64::MAX,
            is_cut: false,
            is_moved: false,
            failed: false,
        }))
    }

    /// Moves to the next item if it is a plain event, as nearly all items are; otherwise returns `false`, and
    /// the caller has to use [`Source::advance`].
    #[inline]
    fn advance_plainly(&mut self, catalogs: &Catalogs) -> bool {
        let Some(found) = self.element.next_plain() else { return false };
        self.next = Next::Event(found);
        let is_right = found.time <= self.until
            && catalogs
                .kind(self.catalog, found.kind)
                .is_some_and(|kind| kind.fits(self.element.arguments(&found)));
        self.is_moved = !is_right;
        is_right
    }

    /// Moves to the next item whose kind is known and whose size is right. Not inlined, because it is seldom
    /// needed, and there is a copy of a poll for each closure.
    #[inline(never)]
    fn advance(&mut self, catalogs: &mut Catalogs) -> Result<(), Error> {
        // An earlier call may have moved to the item and stopped before examining it.
        if !std::mem::replace(&mut self.is_moved, false) {
            self.next = self.element.next()?;
        }
        while let Next::Event(found) = self.next {
            let is_late = found.time > self.until;
            if !is_late && !self.element.is_before_start(&found) && !self.element.is_left_out(&found) {
                break;
            }
            self.is_cut |= is_late;
            self.next = self.element.next()?;
        }
        if let Next::Event(found) = self.next {
            let kind = catalogs.find(self.catalog, found.kind)?;
            if !kind.is_some_and(|kind| kind.fits(self.element.arguments(&found))) {
                let Found { owner, sequence, .. } = found;
                let (writer, kind_unknown) = (owner.number, kind.is_none());
                self.next = Next::Gap { writer, lost: 1, from_sequence: sequence, kind_unknown };
            }
        }
        Ok(())
    }

    fn next_time(&self) -> Option<u64> {
        match self.next {
            Next::Event(found) => Some(found.time),
            Next::Gap { .. } => Some(self.element.time()),
            Next::Nothing => None,
        }
    }

    fn hand_over(&self, catalogs: &Catalogs, take: &mut impl FnMut(Item<'_>)) {
        match self.next {
            Next::Event(found) => take(Item::Event(Event {
                time: found.time,
                writer: found.owner.number,
                writer_name: found.owner.name,
                thread: found.owner.thread,
                sequence: found.sequence,
                kind: catalogs.kind(self.catalog, found.kind).expect("advance looked"),
                flags: found.flags,
                arguments: self.element.arguments(&found),
            })),
            Next::Gap { writer, lost, from_sequence, kind_unknown } => {
                take(Item::Gap { time: self.element.time(), writer, lost, from_sequence, kind_unknown });
            }
            Next::Nothing => {}
        }
    }
}
