//! The division of a lane's time among states, in a bounded number of cells of equal length.
//!
//! Spans are added once, roughly in order of time. When there are too many cells, pairs of cells are merged,
//! so the width of cells is always the initial width times a power of two; the time that a lane spent in each
//! state is the sum of its cells, however long the time. Sums are exact: a span across several cells is
//! divided among them.

/// The state of a task or worker in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The task or worker runs.
    Busy = 0,
    /// The task waits for messages, or the worker for a ready task.
    Starved = 1,
    /// The task waits for room in a stream.
    Blocked = 2,
    /// The task is ready, but its worker runs another task.
    Ready = 3,
}

impl State {
    /// The state with the number `number`.
    pub(crate) fn of(number: i64) -> State {
        match number {
            0 => State::Busy,
            1 => State::Starved,
            2 => State::Blocked,
            _ => State::Ready,
        }
    }
}

/// The number of states.
pub const STATES: usize = 4;

/// The time of one cell, by state.
pub type Cell = [u64; STATES];

/// The sums of a lane: see the module.
#[derive(Clone, Debug)]
pub struct Summary {
    origin: u64,
    /// The number of ticks in a cell.
    width: u64,
    cells: Vec<Cell>,
    /// The number of spans that began in each cell.
    begun: Vec<u32>,
    cells_max: usize,
    /// The time before which no cell has changed since the last call of [`Summary::take_touched`].
    touched: u64,
}

impl Summary {
    /// A summary from `origin` on, of at most `cells_max` cells (a power of two, 2 at least), of `width`
    /// ticks each at first.
    pub fn new(origin: u64, width: u64, cells_max: usize) -> Summary {
        Summary {
            origin,
            width: width.max(1),
            cells: Vec::new(),
            begun: Vec::new(),
            cells_max: cells_max.next_power_of_two().max(2),
            touched: origin,
        }
    }

    /// The time from which on cells may have changed since the last call.
    pub(crate) fn take_touched(&mut self) -> u64 {
        std::mem::replace(&mut self.touched, u64::MAX)
    }

    /// The time spent in each state between two times, which must be edges of cells.
    pub(crate) fn sum(&self, from: u64, to: u64) -> Cell {
        let mut sum = Cell::default();
        for cell in &self.cells[self.range(from, to)] {
            sum.iter_mut().zip(cell).for_each(|(sum, ticks)| *sum = sum.saturating_add(*ticks));
        }
        sum
    }

    /// The number of ticks in a cell.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The cells, from the origin on; after the last cell nothing was added.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Makes cells for a time. Returns its start and end since the origin; `None` if it is empty or before the
    /// origin.
    fn reach(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let at = start.max(self.origin) - self.origin;
        let end = end.checked_sub(self.origin).filter(|&end| end > at)?;
        while (end - 1) / self.width >= self.cells_max as u64 {
            self.halve();
        }
        let cells = ((end - 1) / self.width + 1) as usize;
        if cells > self.cells.len() {
            // Memory is doubled as a vector does it, but not beyond the largest number of cells.
            let more = cells.next_power_of_two().min(self.cells_max) - self.cells.len();
            self.cells.reserve_exact(more);
            self.begun.reserve_exact(more);
            self.cells.resize(cells, Cell::default());
            self.begun.resize(cells, 0);
        }
        self.touched = self.touched.min(start);
        Some((at, end))
    }

    /// Adds a time of which it is known how long each state lasted, but not when: each cell gets its share.
    /// Parts that are longer than the time together are shortened, and of parts that are shorter the rest of
    /// the time is left empty. `spans` is the number of spans in the time.
    pub(crate) fn add_parts(&mut self, parts: Cell, start: u64, end: u64, spans: u64) {
        let Some((first, end)) = self.reach(start, end) else { return };
        let whole = end - first;
        let sum = parts.iter().fold(0_u64, |sum, &part| sum.saturating_add(part)).max(whole);
        let most = parts.map(|part| (u128::from(part) * u128::from(whole) / u128::from(sum)) as u64);
        let (mut at, mut given, mut begun) = (first, Cell::default(), 0);
        while at < end {
            let cell = (at / self.width) as usize;
            at = end.min((cell as u64 + 1).saturating_mul(self.width));
            // The share of the time up to the end of this cell. It is 1 at last, so nothing is lost over
            // several cells.
            let share = (at - first) as f64 / whole as f64;
            let up_to = |most: u64| if at < end { ((most as f64 * share) as u64).min(most) } else { most };
            for state in 0..STATES {
                let by_now = up_to(most[state]);
                self.cells[cell][state] += by_now.saturating_sub(given[state]);
                given[state] = by_now;
            }
            let by_now = up_to(spans);
            let here = u32::try_from(by_now.saturating_sub(begun)).unwrap_or(u32::MAX);
            self.begun[cell] = self.begun[cell].saturating_add(here);
            begun = by_now;
        }
    }

    /// Adds a span. Time before the origin is ignored.
    pub fn add(&mut self, state: State, start: u64, end: u64) {
        let Some((mut at, end)) = self.reach(start, end) else { return };
        let begun = &mut self.begun[(at / self.width) as usize];
        *begun = begun.saturating_add(1);
        while at < end {
            let cell = at / self.width;
            let until = end.min((cell + 1).saturating_mul(self.width));
            self.cells[cell as usize][state as usize] += until - at;
            at = until;
        }
    }

    /// Limits the number of cells from now on to `cells_max`, rounded up to a power of two; cells are merged
    /// if there are more, and the memory that they took is given back.
    pub fn limit(&mut self, cells_max: usize) {
        self.cells_max = self.cells_max.min(cells_max.next_power_of_two().max(2));
        while self.cells.len() > self.cells_max {
            self.halve();
        }
        self.cells.shrink_to(self.cells_max);
        self.begun.shrink_to(self.cells_max);
    }

    /// The bytes of memory that the cells take.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + self.begun.capacity() * size_of::<u32>()
    }

    /// An upper limit of the number of spans in a time: the spans that began in the cells of that time.
    pub fn spans(&self, from: u64, to: u64) -> u64 {
        self.range(from, to).map(|cell| u64::from(self.begun[cell])).sum()
    }

    /// The cells that overlap the time.
    pub fn range(&self, from: u64, to: u64) -> std::ops::Range<usize> {
        let cell = |time: u64| time.saturating_sub(self.origin) / self.width;
        let first = (cell(from) as usize).min(self.cells.len());
        let behind = if to > self.origin { cell(to - 1) as usize + 1 } else { 0 };
        first..behind.min(self.cells.len()).max(first)
    }

    /// The beginning of the cell in which a time lies.
    pub fn begin_of(&self, time: u64) -> u64 {
        self.origin + time.saturating_sub(self.origin) / self.width * self.width
    }

    /// The number of spans that began in the n-th cell.
    pub(crate) fn begun(&self, n: usize) -> u64 {
        self.begun.get(n).copied().map_or(0, u64::from)
    }

    /// Encodes all data as bytes for [`Summary::read`].
    pub fn write(&self, out: &mut Vec<u8>) {
        let head = [self.origin, self.width, self.cells_max as u64, self.cells.len() as u64];
        head.iter().for_each(|word| out.extend(word.to_le_bytes()));
        for (cell, begun) in self.cells.iter().zip(&self.begun) {
            cell.iter().for_each(|ticks| out.extend(ticks.to_le_bytes()));
            out.extend(begun.to_le_bytes());
        }
    }

    /// Decodes the bytes of [`Summary::write`] and advances past them; `None` if the bytes are invalid.
    pub fn read(bytes: &mut &[u8]) -> Option<Summary> {
        let mut word = || Some(u64::from_le_bytes(taken(bytes)?));
        let (origin, width, cells_max, count) = (word()?, word()?, word()?, word()?);
        let (cells_max, count) = (usize::try_from(cells_max).ok()?, usize::try_from(count).ok()?);
        let bytes_of_cell = 8 * STATES + 4;
        if width == 0
            || !cells_max.is_power_of_two()
            || count > cells_max
            || bytes.len() / bytes_of_cell < count
        {
            return None;
        }
        let mut summary = Summary { cells_max, ..Summary::new(origin, width, 2) };
        for _ in 0..count {
            let mut cell = Cell::default();
            for ticks in &mut cell {
                *ticks = u64::from_le_bytes(taken(bytes)?);
            }
            summary.cells.push(cell);
            summary.begun.push(u32::from_le_bytes(taken(bytes)?));
        }
        Some(summary)
    }

    /// Makes the cells at least `width` ticks wide, by doubling their width until it is large enough.
    pub fn widen(&mut self, width: u64) {
        while self.width < width {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let half = self.cells.len().div_ceil(2);
        for at in 0..half {
            let mut sum = self.cells[2 * at];
            if let Some(other) = self.cells.get(2 * at + 1) {
                sum.iter_mut().zip(other).for_each(|(sum, other)| *sum = sum.saturating_add(*other));
            }
            self.cells[at] = sum;
            let other = self.begun.get(2 * at + 1).copied().unwrap_or(0);
            self.begun[at] = self.begun[2 * at].saturating_add(other);
        }
        self.cells.truncate(half);
        self.begun.truncate(half);
        self.width = self.width.saturating_mul(2);
    }
}

/// Removes the first `N` bytes from `bytes` and returns them.
pub(crate) fn taken<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;

    #[test]
    fn cells_equal_a_count_of_every_tick() {
        let mut chance = Chance::new(29);
        for round in 0..200 {
            let (origin, cells_max) = (chance.below(50), 1 << (1 + chance.below(5)));
            let mut summary = Summary::new(origin, 1 + chance.below(7), cells_max);
            let mut ticks: Vec<Option<usize>> = vec![None; 4000];
            let mut at = chance.below(60);
            while at < 3000 {
                let end = at + chance.below(120);
                let state =
                    [State::Busy, State::Starved, State::Blocked, State::Ready][chance.below(4) as usize];
                summary.add(state, at, end);
                (at..end).for_each(|tick| ticks[tick as usize] = Some(state as usize));
                at = end + chance.below(30);
                if chance.below(40) == 0 {
                    break;
                }
            }
            assert!(summary.cells().len() <= cells_max, "round {round}");
            let width = summary.width();
            for (n, cell) in summary.cells().iter().enumerate() {
                let first = (origin + n as u64 * width) as usize;
                let inside = &ticks[first.min(4000)..(first + width as usize).min(4000)];
                for (state, sum) in cell.iter().enumerate() {
                    let counted = inside.iter().filter(|tick| **tick == Some(state)).count() as u64;
                    assert_eq!(*sum, counted, "round {round}, cell {n}, state {state}");
                }
            }
        }
    }

    #[test]
    fn parts_of_a_time_are_shared_among_its_cells_and_nothing_is_lost() {
        let mut chance = Chance::new(31);
        for round in 0..300 {
            let mut summary = Summary::new(chance.below(50), 1 + chance.below(9), 1 << (2 + chance.below(5)));
            let (mut at, mut all, mut spans) = (summary.begin_of(0) + chance.below(40), Cell::default(), 0);
            for _ in 0..chance.below(20) {
                let end = at + chance.below(90);
                let mut left = end - at;
                let parts = [0; STATES].map(|_| {
                    let part = chance.below(left + 1);
                    left -= part;
                    part
                });
                summary.add_parts(parts, at, end, 7);
                if end > at {
                    all.iter_mut().zip(parts).for_each(|(all, part)| *all += part);
                    spans += 7;
                }
                at = end;
            }
            let sum = |state: usize| summary.cells().iter().map(|cell| cell[state]).sum::<u64>();
            assert_eq!([0, 1, 2, 3].map(sum), all, "round {round}");
            assert_eq!(summary.spans(0, u64::MAX), spans, "round {round}");
            let width = summary.width();
            for cell in summary.cells() {
                // Each of at most 20 times may be rounded up by less than 1.
                assert!(cell.iter().sum::<u64>() <= width + 4 * 20, "round {round}: {cell:?} of {width}");
            }
        }
        // A time with one mixture has this mixture in each cell.
        let mut summary = Summary::new(0, 10, 16);
        summary.add_parts([40, 30, 0, 10], 0, 80, 16);
        assert_eq!(summary.cells().len(), 8);
        for cell in summary.cells() {
            let is_near =
                cell.iter().zip([5.0, 3.75, 0.0, 1.25]).all(|(&part, want)| (part as f64 - want).abs() < 1.0);
            assert!(is_near, "{cell:?}");
        }
    }

    #[test]
    fn what_was_written_is_read_and_what_was_damaged_is_not() {
        let mut chance = Chance::new(30);
        let mut summary = Summary::new(17, 4, 64);
        let mut at = 20;
        for _ in 0..300 {
            let end = at + 1 + chance.below(9);
            summary.add(State::Ready, at, end);
            at = end + chance.below(5);
        }
        assert_eq!(summary.spans(0, u64::MAX), 300);
        let mut bytes = Vec::new();
        summary.write(&mut bytes);
        let read = Summary::read(&mut &bytes[..]).unwrap();
        assert_eq!(
            (read.cells(), read.width(), &read.begun),
            (summary.cells(), summary.width(), &summary.begun)
        );
        for cut in 0..bytes.len() {
            assert!(Summary::read(&mut &bytes[..cut]).is_none(), "{cut} bytes");
        }
        // Damaged lengths in the header are detected.
        for (place, value) in [(1, 0), (2, 3), (3, u64::MAX), (3, 65)] {
            let mut damaged = bytes.clone();
            damaged[8 * place..8 * place + 8].copy_from_slice(&u64::to_le_bytes(value));
            assert!(Summary::read(&mut &damaged[..]).is_none(), "word {place}");
        }
        let whole: u64 = summary.cells().iter().map(|cell| cell[3]).sum();
        let mut narrow = summary.clone();
        narrow.limit(4);
        assert!(narrow.cells().len() <= 4 && narrow.spans(0, u64::MAX) == 300);
        assert_eq!(narrow.cells().iter().map(|cell| cell[3]).sum::<u64>(), whole);
    }

    #[test]
    fn memory_is_bounded_by_the_number_of_cells_and_given_back_when_it_is_limited() {
        let mut summary = Summary::new(0, 1, 1 << 10);
        for at in 0..5000 {
            summary.add(State::Busy, 2 * at, 2 * at + 1);
            assert!(summary.bytes() <= (1 << 10) * (size_of::<Cell>() + 4), "{} at {at}", summary.bytes());
        }
        summary.limit(1 << 4);
        assert!(summary.bytes() <= (1 << 4) * (size_of::<Cell>() + 4), "{}", summary.bytes());
    }

    #[test]
    fn a_span_without_end_or_before_the_origin_does_no_harm() {
        let mut summary = Summary::new(100, 1, 8);
        summary.add(State::Busy, 0, 100);
        summary.add(State::Busy, 90, 80);
        assert!(summary.cells().is_empty());
        summary.add(State::Busy, 0, u64::MAX);
        assert!(summary.cells().len() <= 8);
        assert_eq!(summary.cells().iter().map(|cell| cell[0]).sum::<u64>(), u64::MAX - 100);
    }
}
