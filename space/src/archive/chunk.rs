//! A chunk: the bytes that an element's writer committed between two positions. The bytes are coded by
//! columns, and decoding restores them bit for bit.
//!
//! The bytes are those of the element: headers of blocks, and events. The events are divided into *groups* by
//! their kind and by whether they have the time of the event before. Each field of a group is a
//! [column](mod@super::column). Further columns hold the times, the shapes of the events (kind, length,
//! flags) in their order, and the fields of the blocks' headers. A kind without a description is a group
//! whose fields are words. Bytes that are no events (a damaged block) are stored unchanged. Only the bytes
//! after the last event of a block, which no reader uses, become zero.
//!
//! The first byte states how the chunk is coded. In a chunk coded by columns, shapes, groups with the widths
//! of their fields, counts, and columns follow.

use super::coding::{Damaged, Input, Output, Packer, Unpacker};
use super::column::{self, Column, Scratch};
use super::survey;
use crate::file::word;
use crate::layout::{block, event};
use std::collections::HashMap;
use std::sync::Arc;

/// The longest chunk in bytes of the element; a block is never longer.
pub(super) const CHUNK_BYTES_MAX: usize = block::BYTES_MAX;
/// Fields are read only from this many first words of an event's arguments; further words are kept as bytes.
const COLUMN_WORDS_MAX: usize = 32;

const BY_COLUMNS: u8 = 1;
const AS_IT_IS: u8 = 0;

/// The division of a kind's fixed part: the width of each field in order, including the gaps between fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Division {
    widths: Vec<u8>,
}

impl Division {
    /// How `words` words of an event are divided, if the fields have these offsets and widths in bytes.
    pub(crate) fn new(fields: impl IntoIterator<Item = (usize, usize)>, words: usize) -> Division {
        let mut widths = Vec::new();
        let mut at = 0;
        let mut fill = |at: &mut usize, to: usize| {
            while *at < to {
                let aligned = 1 << at.trailing_zeros().min(3);
                let width = [8, 4, 2, 1].into_iter().find(|width| *width <= aligned && *at + width <= to);
                let width = width.expect("one byte always fits");
                widths.push((*at, width as u8));
                *at += width;
            }
        };
        let mut given = Vec::new();
        for (offset, width) in fields {
            let is_field = matches!(width, 1 | 2 | 4 | 8) && offset.is_multiple_of(width);
            if offset < at || offset + width > 8 * words || !is_field {
                return Division::of_words(words);
            }
            fill(&mut at, offset);
            given.push((offset, width as u8));
            at = offset + width;
        }
        fill(&mut at, 8 * words);
        widths.extend(given);
        widths.sort_unstable();
        Division { widths: widths.into_iter().map(|(_, width)| width).collect() }
    }

    fn of_words(words: usize) -> Division {
        Division { widths: vec![8; words.min(COLUMN_WORDS_MAX)] }
    }

    fn bytes(&self) -> usize {
        self.widths.iter().map(|width| usize::from(*width)).sum()
    }
}

/// A function that returns the division of a kind; `None` for a kind without a description.
pub(crate) type Divisions<'a> = &'a mut dyn FnMut(u16) -> Option<Arc<Division>>;

/// Kind, words and flags of an event, as in the high half of its first word; or a mark that bytes follow
/// which are no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape(u64);

impl Shape {
    /// The mark that no event follows before the end of the block or chunk.
    const RAW: Shape = Shape(1 << 32);

    fn of(first: u64) -> Shape {
        Shape(first >> 32)
    }

    fn kind(self) -> u16 {
        self.0 as u16
    }

    fn words(self) -> usize {
        (self.0 >> 16 & 0xfff) as usize
    }

    fn is_same_time(self) -> bool {
        self.0 >> 28 & u64::from(event::FLAG_SAME_TIME) != 0
    }

    fn is_padding(self) -> bool {
        self.kind() == event::KIND_PADDING && self.words() == 0
    }
}

/// The events of a group while a chunk is coded.
#[derive(Debug, Default)]
struct Group {
    kind: u16,
    same_time: bool,
    division: Arc<Division>,
    bytes: usize,
    /// Where each event begins in the chunk.
    starts: Vec<u32>,
    /// The difference of each event's time from that of the event before, as 32 bits.
    times: Vec<u64>,
    /// The bytes after the fields.
    tail: Vec<u8>,
}

/// The positions of a chunk in its element, and the size of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Position of the first byte in the element.
    pub(crate) from: u64,
    /// Position after the last byte.
    pub(crate) to: u64,
    /// Bytes of a block.
    pub(crate) block_bytes: u64,
}

impl Extent {
    pub(super) fn is_block_start(&self, at: usize) -> bool {
        (self.from + at as u64).is_multiple_of(self.block_bytes)
    }

    /// The offset of the end of the block in which `at` lies, or of the chunk if that is earlier.
    pub(super) fn block_end(&self, at: usize) -> usize {
        let position = self.from + at as u64;
        let end = (position / self.block_bytes + 1) * self.block_bytes;
        (end.min(self.to) - self.from) as usize
    }

    fn length(&self) -> Result<usize, Damaged> {
        let good = self.from.is_multiple_of(8)
            && self.to.is_multiple_of(8)
            && self.block_bytes.is_power_of_two()
            && self.block_bytes >= block::BYTES_MIN as u64
            && self.to >= self.from
            && self.to < 1 << 62;
        let length = if good { self.to - self.from } else { u64::MAX };
        usize::try_from(length).ok().filter(|length| *length <= CHUNK_BYTES_MAX).ok_or(Damaged)
    }
}

/// Codes chunks.
#[derive(Debug)]
pub(crate) struct Encoder {
    packer: Packer,
    scratch: Scratch,
    /// Whether chunks are stored uncompressed.
    is_plain: bool,
}

/// The description of a chunk for the index, which coding computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Events by their kinds; the reserved kinds are not counted.
    pub(crate) kinds: Vec<(u16, u64)>,
    /// The numbers of the writers that took the element over in this chunk, in order.
    pub(crate) owners: Vec<u32>,
    /// The least and the greatest time of an event, if there is one.
    pub(crate) times: Option<(u64, u64)>,
}

impl Encoder {
    /// Makes an encoder with the compressor at this level; at level 0 chunks are neither coded nor
    /// compressed.
    pub(crate) fn new(level: i32) -> std::io::Result<Encoder> {
        let packer = Packer::new(level.max(1))?;
        Ok(Encoder { packer, scratch: Scratch::default(), is_plain: level == 0 })
    }

    /// Codes `bytes`, which the element has at `extent`, and appends the result to `out`. If they begin
    /// within a block, `base` is the base of that block.
    pub(crate) fn encode(
        &mut self,
        bytes: &[u8],
        extent: Extent,
        base: u64,
        divisions: Divisions<'_>,
        out: &mut Vec<u8>,
    ) -> Contents {
        debug_assert_eq!(extent.length(), Ok(bytes.len()));
        if self.is_plain {
            let mut output = Output::new(&mut self.packer);
            output.meta.push(AS_IT_IS);
            output.finish_plain(bytes, out);
            return survey::of(bytes, extent, base);
        }
        let mut parted = Parted { base, ..Parted::default() };
        parted.order = self.scratch.column(4).values;
        let mut output = Output::new(&mut self.packer);
        if parted.part(bytes, extent, divisions) {
            output.meta.push(BY_COLUMNS);
            parted.write(bytes, &mut output, &mut self.scratch);
        } else {
            output.meta.push(AS_IT_IS);
            output.bytes(bytes);
        }
        output.finish(out);
        parted.contents()
    }
}

/// A chunk's bytes, divided into events, headers and the rest.
#[derive(Debug, Default)]
struct Parted {
    shapes: Vec<(Shape, usize)>,
    groups: Vec<Group>,
    /// The shape of each event, as an index, in the order of events.
    order: Vec<u64>,
    /// Base, sequence number and drops of each block that begins in the chunk.
    headers: [Vec<u64>; 3],
    raw: Vec<u8>,
    owners: Vec<u32>,
    base: u64,
    times: Option<(u64, u64)>,
}

/// The properties of the shape of the last event.
#[derive(Clone, Copy, Debug, Default)]
struct Like {
    high: u64,
    bytes: usize,
    /// The index of the shape, and the index of its group.
    index: u32,
    group: usize,
    /// Whether bytes follow the fields.
    has_tail: bool,
    is_reserved: bool,
    is_same_time: bool,
}

/// The shapes so far, in a table for few entries, because nearly all chunks have few shapes.
struct ShapeTable {
    recent: [(u64, u32); 256],
    all: HashMap<Shape, u32>,
}

impl ShapeTable {
    fn new() -> ShapeTable {
        ShapeTable { recent: [(u64::MAX, 0); 256], all: HashMap::new() }
    }

    #[inline(always)]
    fn recent(&mut self, shape: Shape) -> &mut (u64, u32) {
        &mut self.recent[(shape.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize]
    }
}

impl Parted {
    /// Divides the bytes into events; `false` if they do not form blocks.
    fn part(&mut self, bytes: &[u8], extent: Extent, divisions: Divisions<'_>) -> bool {
        let mut table = ShapeTable::new();
        self.order.reserve(bytes.len() / 32);
        let mut at = 0;
        let mut time = 0_u32;
        let mut times = (u64::MAX, 0);
        // The initial `high` equals that of no event, because the high half of a first word has 32 bits.
        let mut like = Like { high: u64::MAX, ..Like::default() };
        while at < bytes.len() {
            let end = extent.block_end(at);
            if extent.is_block_start(at) {
                let number = (extent.from + at as u64) / extent.block_bytes + 1;
                if end - at < block::HEADER || word(bytes, at + block::NUMBER) != number {
                    self.times = (times.0 <= times.1).then_some(times);
                    return false;
                }
                for (header, from) in
                    self.headers.iter_mut().zip([block::BASE, block::SEQUENCE, block::DROPS])
                {
                    header.push(word(bytes, at + from));
                }
                self.base = word(bytes, at + block::BASE);
                at += block::HEADER;
            }
            while at < end {
                let first = word(bytes, at);
                let is_alike = first >> 32 == like.high;
                let next = at + if is_alike { like.bytes } else { 8 * Shape::of(first).words() };
                if next > end || next == at {
                    self.end_of_block(Shape::of(first), &bytes[at..end], &mut table, divisions);
                    at = end;
                    break;
                }
                if !is_alike {
                    like = self.like(Shape::of(first), &mut table, divisions);
                }
                self.order.push(u64::from(like.index));
                let group = &mut self.groups[like.group];
                group.starts.push(at as u32);
                let low = first as u32;
                if group.same_time {
                    group.times.push(u64::from(low));
                } else {
                    group.times.push(u64::from(low.wrapping_sub(time)));
                    time = low;
                }
                if like.has_tail {
                    group.tail.extend_from_slice(&bytes[at + 8 + group.bytes..next]);
                }
                if like.is_reserved {
                    self.reserved(Shape::of(first), bytes, at);
                } else if !like.is_same_time {
                    let full = self.base & !u64::from(u32::MAX) | u64::from(low);
                    times = (times.0.min(full), times.1.max(full));
                }
                at = next;
            }
        }
        self.times = (times.0 <= times.1).then_some(times);
        true
    }

    /// The properties that events of a shape have in common.
    fn like(&mut self, shape: Shape, table: &mut ShapeTable, divisions: Divisions<'_>) -> Like {
        let (index, group) = self.known(shape, table, divisions);
        Like {
            high: shape.0,
            bytes: 8 * shape.words(),
            index,
            group,
            has_tail: 8 * shape.words() > 8 + self.groups[group].bytes,
            is_reserved: shape.kind() < event::KIND_FIRST,
            is_same_time: shape.is_same_time(),
        }
    }

    /// Adds the rest of a block, which is padding or bytes that are no event.
    fn end_of_block(&mut self, shape: Shape, rest: &[u8], table: &mut ShapeTable, divisions: Divisions<'_>) {
        let shape = if shape.is_padding() { shape } else { Shape::RAW };
        if shape == Shape::RAW {
            self.raw.extend_from_slice(rest);
        }
        let (index, _) = self.known(shape, table, divisions);
        self.order.push(u64::from(index));
    }

    /// Processes an event of a reserved kind: a full time, or a change of owner.
    fn reserved(&mut self, shape: Shape, bytes: &[u8], at: usize) {
        match (shape.kind(), shape.words()) {
            (event::KIND_FULL_TIME, 2) => self.base = word(bytes, at + 8),
            (event::KIND_OWNER, event::OWNER_WORDS) => self.owners.push(word(bytes, at + 8) as u32),
            _ => {}
        }
    }

    /// The index of a shape, which is added if it is new, and the index of its group.
    #[inline(always)]
    fn known(&mut self, shape: Shape, table: &mut ShapeTable, divisions: Divisions<'_>) -> (u32, usize) {
        let recent = table.recent(shape);
        if recent.0 == shape.0 {
            return (recent.1, self.shapes[recent.1 as usize].1);
        }
        let index = match table.all.get(&shape) {
            Some(index) => *index,
            None => {
                let group = self.group(shape, divisions);
                self.shapes.push((shape, group));
                let index = self.shapes.len() as u32 - 1;
                table.all.insert(shape, index);
                index
            }
        };
        *table.recent(shape) = (shape.0, index);
        (index, self.shapes[index as usize].1)
    }

    /// The group of a shape, made if there is none.
    fn group(&mut self, shape: Shape, divisions: Divisions<'_>) -> usize {
        let arguments = shape.words().saturating_sub(1);
        let has_events = shape != Shape::RAW && !shape.is_padding();
        let described =
            if has_events && shape.kind() >= event::KIND_FIRST { divisions(shape.kind()) } else { None };
        // An event that is shorter than its kind's description, or of a kind without a description, belongs
        // to a group of words.
        let fitting = described.filter(|division| division.bytes() <= 8 * arguments);
        let division = fitting.unwrap_or_else(|| Arc::new(Division::of_words(arguments)));
        let (kind, same_time) = (shape.kind(), shape.is_same_time());
        let same = |group: &Group| {
            group.kind == kind
                && group.same_time == same_time
                && group.division == division
                && group.bytes > 0
        };
        if let Some(found) = self.groups.iter().position(same).filter(|_| has_events) {
            return found;
        }
        let bytes = division.bytes();
        self.groups.push(Group { kind, same_time, division, bytes, ..Group::default() });
        self.groups.len() - 1
    }

    fn write(&mut self, bytes: &[u8], output: &mut Output<'_>, scratch: &mut Scratch) {
        output.varint(self.shapes.len() as u64);
        for (shape, group) in &self.shapes {
            output.varint(shape.0);
            output.varint(*group as u64);
        }
        output.varint(self.groups.len() as u64);
        for group in &self.groups {
            output.meta.push(u8::from(group.same_time));
            output.varint(group.division.widths.len() as u64);
            output.meta.extend_from_slice(&group.division.widths);
        }
        output.varint(self.order.len() as u64);
        output.varint(self.headers[0].len() as u64);
        for header in &self.headers {
            let column = Column::of(8, header.clone());
            column::encode(&column, &[], Some(0), output, scratch);
        }
        let order = Column::of(4, std::mem::take(&mut self.order));
        column::encode(&order, &[], None, output, scratch);
        scratch.spare.push(order);
        output.varint(self.raw.len() as u64);
        output.bytes(&self.raw);
        let mut groups: Vec<_> = self.groups.iter_mut().filter(|group| !group.starts.is_empty()).collect();
        groups.iter_mut().for_each(|group| group.write_times(output, scratch));
        for group in groups {
            group.write(bytes, output, scratch);
        }
    }

    fn contents(&self) -> Contents {
        let mut kinds: Vec<(u16, u64)> = Vec::new();
        for group in self.groups.iter().filter(|group| group.kind >= event::KIND_FIRST) {
            match kinds.iter_mut().find(|(kind, _)| *kind == group.kind) {
                Some((_, count)) => *count += group.starts.len() as u64,
                None => kinds.push((group.kind, group.starts.len() as u64)),
            }
        }
        kinds.retain(|(_, count)| *count > 0);
        kinds.sort_unstable();
        let mut owners = self.owners.clone();
        owners.dedup();
        Contents { kinds, owners, times: self.times }
    }
}

impl Group {
    /// The name of the column of the field at this byte of the events.
    fn column_name(&self, at: usize) -> u64 {
        (at as u64) << 17 | u64::from(self.kind) << 1 | u64::from(self.same_time)
    }

    fn write_times(&mut self, output: &mut Output<'_>, scratch: &mut Scratch) {
        let times = Column::of(4, std::mem::take(&mut self.times));
        let name = self.same_time.then(|| self.column_name(0));
        column::encode(&times, &[], name, output, scratch);
        self.times = times.values;
    }

    fn write(&mut self, bytes: &[u8], output: &mut Output<'_>, scratch: &mut Scratch) {
        let words = varying(bytes, &self.starts, self.bytes / 8);
        let mut columns = vec![Column::of(4, std::mem::take(&mut self.times))];
        let mut at = 8;
        for width in &self.division.widths {
            let width = usize::from(*width);
            let (first, varies) = words[at / 8 - 1];
            let (shift, mask) = (8 * (at % 8), column::mask(width));
            if varies >> shift & mask == 0 {
                // Most fields of most kinds have the same value in all events.
                let value = first >> shift & mask;
                column::encode_constant(value, output);
                columns.push(Column::constant(width, value));
            } else {
                let mut column = scratch.column(width);
                gather(bytes, &self.starts, at, &mut column);
                column::encode(&column, &columns, Some(self.column_name(at)), output, scratch);
                columns.push(column);
            }
            at += width;
        }
        scratch.spare.extend(columns.into_iter().filter(|column| column.values.capacity() > 0));
        output.varint(self.tail.len() as u64);
        output.bytes(&self.tail);
    }
}

/// For each of the first `words` argument words, its value in the first event and the bits in which another
/// event differs.
fn varying(bytes: &[u8], starts: &[u32], words: usize) -> Vec<(u64, u64)> {
    let of = |word_at: usize| {
        let load = |start: &u32| word(bytes, *start as usize + word_at);
        let first = starts.first().map_or(0, load);
        (first, starts.iter().fold(0, |varies, start| varies | (load(start) ^ first)))
    };
    (1..=words).map(|n| of(8 * n)).collect()
}

/// Gathers the numbers at `at` bytes after each start into the column.
fn gather(bytes: &[u8], starts: &[u32], at: usize, column: &mut Column) {
    // An event's fields fill whole words, so a load of eight bytes that ends with the field lies within the
    // chunk.
    let shift = (8 * (8 - column.width)) as u32;
    let back = 8 - column.width;
    let load = |start: &u32| {
        let from = *start as usize + at - back;
        u64::from_le_bytes(bytes[from..from + 8].try_into().expect("8 bytes")) >> shift
    };
    column.values.extend(starts.iter().map(load));
}

/// Decodes chunks.
#[derive(Debug)]
pub(crate) struct Decoder {
    unpacker: Unpacker,
    scratch: Scratch,
}

/// A group while its events are decoded.
#[derive(Debug, Default)]
struct Read {
    same_time: bool,
    widths: Vec<u8>,
    bytes: usize,
    count: usize,
    times: Column,
    starts: Vec<u32>,
    /// Whether bytes follow the fields of some events, and how many bytes follow for each event.
    has_tails: bool,
    tails: Vec<u32>,
}

impl Decoder {
    pub(crate) fn new() -> std::io::Result<Decoder> {
        Ok(Decoder { unpacker: Unpacker::new()?, scratch: Scratch::default() })
    }

    /// Decodes the bytes of `extent` into `bytes`.
    pub(crate) fn decode(
        &mut self,
        chunk: &[u8],
        extent: Extent,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Damaged> {
        let length = extent.length()?;
        let mut input = Input::new(&mut self.unpacker, chunk)?;
        match input.byte()? {
            AS_IT_IS => input.bytes(length, bytes)?,
            BY_COLUMNS => {
                bytes.clear();
                bytes.try_reserve_exact(length).map_err(|_| Damaged)?;
                bytes.resize(length, 0);
                put_together(&mut input, extent, bytes, &mut self.scratch)?;
            }
            _ => return Err(Damaged),
        }
        if input.is_empty() { Ok(()) } else { Err(Damaged) }
    }
}

fn put_together(
    input: &mut Input<'_>,
    extent: Extent,
    bytes: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), Damaged> {
    let words = bytes.len() / 8;
    let shapes = read_shapes(input, words)?;
    let mut groups = read_groups(input, shapes.len())?;
    let count = input.count(words)?;
    let blocks = input.count(bytes.len() / extent.block_bytes as usize + 2)?;
    let mut headers = [(); 3].map(|()| Column::of(8, Vec::new()));
    for header in &mut headers {
        column::decode(header, blocks, &mut [], input, scratch)?;
    }
    let mut order = scratch.column(4);
    column::decode(&mut order, count, &mut [], input, scratch)?;
    let raw_bytes = input.count(bytes.len())?;
    let mut raw = Vec::new();
    input.bytes(raw_bytes, &mut raw)?;
    let placed = placed(&shapes, &mut groups)?;
    for index in &order.values {
        let placed = placed.get(*index as usize).ok_or(Damaged)?;
        if placed.class == Class::Event {
            groups[placed.group].count += 1;
        }
    }
    for group in groups.iter_mut().filter(|group| group.count > 0) {
        group.starts.try_reserve_exact(group.count).map_err(|_| Damaged)?;
        group.times = scratch.column(4);
        column::decode(&mut group.times, group.count, &mut [], input, scratch)?;
    }
    let frame = Frame { extent, placed: &placed, order: &order.values, headers: &headers, raw: &raw };
    frame.lay_out(bytes, &mut groups)?;
    for group in groups.iter_mut().filter(|group| group.count > 0) {
        group.read(input, bytes, scratch)?;
    }
    scratch.spare.push(order);
    Ok(())
}

/// The properties of a shape, before its events are decoded.
#[derive(Clone, Copy, Debug)]
struct Placed {
    /// The high half of the first word of each event with this shape.
    high: u64,
    bytes: usize,
    group: usize,
    class: Class,
}

/// The sort of entry that a shape describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Event,
    Padding,
    Raw,
}

/// Checks that the events of each shape are long enough for the fields of its group.
fn placed(shapes: &[(Shape, usize)], groups: &mut [Read]) -> Result<Vec<Placed>, Damaged> {
    let mut all = Vec::with_capacity(shapes.len());
    for (shape, number) in shapes {
        let group = groups.get_mut(*number).ok_or(Damaged)?;
        let (bytes, high) = (8 * shape.words(), shape.0 << 32);
        let class = match *shape {
            Shape::RAW => Class::Raw,
            shape if shape.is_padding() => Class::Padding,
            _ if bytes < 8 + group.bytes => return Err(Damaged),
            _ => Class::Event,
        };
        group.has_tails |= class == Class::Event && bytes > 8 + group.bytes;
        all.push(Placed { high, bytes, group: *number, class });
    }
    Ok(all)
}

fn read_shapes(input: &mut Input<'_>, words: usize) -> Result<Vec<(Shape, usize)>, Damaged> {
    let count = input.count(words)?;
    let mut shapes = Vec::with_capacity(count.min(1 << 16));
    for _ in 0..count {
        let shape = Shape(input.varint()?);
        let has_length = shape == Shape::RAW || shape.is_padding() || shape.words() > 0;
        if shape.0 > Shape::RAW.0 || !has_length {
            return Err(Damaged);
        }
        shapes.push((shape, input.count(words)?));
    }
    Ok(shapes)
}

fn read_groups(input: &mut Input<'_>, max: usize) -> Result<Vec<Read>, Damaged> {
    let count = input.count(max)?;
    let mut groups = Vec::with_capacity(count);
    for _ in 0..count {
        let same_time = input.byte()? == 1;
        let fields = input.count(8 * event::WORDS_MAX)?;
        let mut widths = Vec::with_capacity(fields);
        for _ in 0..fields {
            widths.push(input.byte()?);
        }
        // Each field lies at a multiple of its width, so no field spans two words.
        let mut bytes = 0;
        for width in widths.iter().map(|width| usize::from(*width)) {
            if !matches!(width, 1 | 2 | 4 | 8) || !usize::is_multiple_of(bytes, width) {
                return Err(Damaged);
            }
            bytes += width;
        }
        if !bytes.is_multiple_of(8) {
            return Err(Damaged);
        }
        groups.push(Read { same_time, widths, bytes, ..Read::default() });
    }
    Ok(groups)
}

/// The order of a chunk's events, with their headers and the bytes between them.
struct Frame<'a> {
    extent: Extent,
    placed: &'a [Placed],
    order: &'a [u64],
    headers: &'a [Column; 3],
    raw: &'a [u8],
}

impl Frame<'_> {
    /// Writes the headers of blocks, the first words of events and the bytes that are no event, and finds
    /// where the events of each group begin.
    fn lay_out(&self, bytes: &mut [u8], groups: &mut [Read]) -> Result<(), Damaged> {
        let extent = self.extent;
        let mut order = self.order.iter();
        let mut raw = self.raw;
        let mut blocks = 0;
        let mut time = 0_u32;
        let mut at = 0;
        while at < bytes.len() {
            let end = extent.block_end(at);
            if extent.is_block_start(at) {
                if end - at < block::HEADER || blocks >= self.headers[0].values.len() {
                    return Err(Damaged);
                }
                let number = (extent.from + at as u64) / extent.block_bytes + 1;
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
                for (header, to) in self.headers.iter().zip([block::BASE, block::SEQUENCE, block::DROPS]) {
                    bytes[at + to..at + to + 8].copy_from_slice(&header.values[blocks].to_le_bytes());
                }
                blocks += 1;
                at += block::HEADER;
            }
            while at < end {
                let Placed { high, bytes: length, group, class } =
                    self.placed[*order.next().ok_or(Damaged)? as usize];
                if class == Class::Raw {
                    let (part, rest) = raw.split_at_checked(end - at).ok_or(Damaged)?;
                    bytes[at..end].copy_from_slice(part);
                    raw = rest;
                    at = end;
                    break;
                }
                if class == Class::Padding {
                    bytes[at..at + 8].copy_from_slice(&high.to_le_bytes());
                    at = end;
                    break;
                }
                let group = &mut groups[group];
                let value = *group.times.values.get(group.starts.len()).ok_or(Damaged)? as u32;
                if at + length > end {
                    return Err(Damaged);
                }
                // Each time is relative to that of the event before, of whatever kind that is.
                time = if group.same_time { time } else { time.wrapping_add(value) };
                let low = if group.same_time { value } else { time };
                bytes[at..at + 8].copy_from_slice(&(high | u64::from(low)).to_le_bytes());
                group.starts.push(at as u32);
                if group.has_tails {
                    group.tails.push((length - 8 - group.bytes) as u32);
                }
                at += length;
            }
        }
        if order.next().is_some() || !raw.is_empty() || blocks != self.headers[0].values.len() {
            return Err(Damaged);
        }
        Ok(())
    }
}

impl Read {
    /// Reads the columns of the group and writes their values into its events.
    fn read(
        &mut self,
        input: &mut Input<'_>,
        bytes: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), Damaged> {
        let count = self.starts.len();
        if count != self.count {
            return Err(Damaged);
        }
        let mut columns = vec![std::mem::take(&mut self.times)];
        let mut words = vec![Parts::default(); self.bytes / 8];
        let mut at = 0;
        for width in &self.widths {
            let width = usize::from(*width);
            let (parts, shift) = (&mut words[at / 8], 8 * (at % 8) as u32);
            let mut column = scratch.column(width);
            if column::decode_varying(&mut column, count, &mut columns, input, scratch)? {
                parts.columns.push((columns.len(), shift));
            } else {
                parts.constant |= column.constant << shift;
            }
            columns.push(column);
            at += width;
        }
        for (n, parts) in words.iter().enumerate() {
            parts.put(bytes, &self.starts, 8 * (n + 1), &columns);
        }
        scratch.spare.extend(columns.into_iter().filter(|column| column.values.capacity() > 0));
        let tail_bytes = input.count(bytes.len())?;
        input.bytes(tail_bytes, &mut scratch.tail)?;
        let mut tail = &scratch.tail[..];
        for (start, length) in self.starts.iter().zip(&self.tails) {
            let (part, rest) = tail.split_at_checked(*length as usize).ok_or(Damaged)?;
            let from = *start as usize + 8 + self.bytes;
            bytes[from..from + part.len()].copy_from_slice(part);
            tail = rest;
        }
        if tail.is_empty() { Ok(()) } else { Err(Damaged) }
    }
}

/// The fields that one word of a group's events consists of.
#[derive(Clone, Debug, Default)]
struct Parts {
    /// The bits of fields that have the same value in all events.
    constant: u64,
    /// The columns of the other fields, and by how many bits their values are shifted to the left.
    columns: Vec<(usize, u32)>,
}

impl Parts {
    /// Writes the word `at` bytes after each start.
    fn put(&self, bytes: &mut [u8], starts: &[u32], at: usize, columns: &[Column]) {
        let mut put = |start: &u32, value: u64| {
            let from = *start as usize + at;
            bytes[from..from + 8].copy_from_slice(&value.to_le_bytes());
        };
        let values = |n: usize| columns[n].values.iter();
        match self.columns[..] {
            // The word is zero already, so nothing has to be stored.
            [] if self.constant == 0 => {}
            [] => starts.iter().for_each(|start| put(start, self.constant)),
            [(one, shift)] => {
                starts
                    .iter()
                    .zip(values(one))
                    .for_each(|(start, value)| put(start, value << shift | self.constant));
            }
            [(one, left), (other, right)] => {
                let pairs = starts.iter().zip(values(one).zip(values(other)));
                pairs.for_each(|(start, (a, b))| put(start, a << left | b << right | self.constant));
            }
            ref several => {
                let value = |n: usize| {
                    several.iter().fold(self.constant, |word, (column, shift)| {
                        word | columns[*column].values[n] << shift
                    })
                };
                starts.iter().enumerate().for_each(|(n, start)| put(start, value(n)));
            }
        }
    }
}
