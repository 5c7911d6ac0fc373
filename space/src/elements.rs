//! The elements of a space: files with one each for writers, pools of small ones for collectors. A dropped writer's
//! element is used again by a later one, so threads that come and go need no more elements than live at once.

use crate::catalog::Catalog;
use crate::declared::Declared;
use crate::element::Ring;
use crate::error::Error;
use crate::layout::{PAGE, VERSION, element, pool};
use crate::map::{Fork, Line, Map, Region};
use crate::space::{ElementOptions, Shared};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The largest pool in bytes, unless one element takes more.
const POOL_BYTES_MAX: usize = 1 << 20;
/// Elements of the first pool of a size; each later one has four times as many as the one before.
const POOL_SLOTS_FIRST: usize = 16;

/// All elements of a space; the space's lock guards it.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// How many numbers were given to writers and pools. After a failure a number is not used again; readers skip it.
    numbers: u32,
    /// Released by writers, the longest ago first.
    free: Vec<(ElementOptions, VecDeque<Released>)>,
    pools: Vec<(ElementOptions, Pools)>,
}

/// An element that a writer released, with the catalog of its kinds.
type Released = (Ring, Arc<Declared>);

/// The pools of one size and policy.
#[derive(Debug, Default)]
struct Pools {
    /// Released by collectors, the longest ago first.
    free: VecDeque<Slot>,
    /// How many pools there are.
    count: u32,
    /// The one that has elements never used yet, if any has.
    fresh: Option<Pool>,
}

/// A file of many elements.
#[derive(Debug)]
struct Pool {
    map: Arc<Map>,
    declared: Arc<Declared>,
    slots: usize,
    used: usize,
}

/// An element of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) ring: Ring,
    pub(crate) latest: Line,
    pub(crate) declared: Arc<Declared>,
}

impl Elements {
    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// An element of its own for a writer, with the writer's number.
    pub(crate) fn take(
        &mut self,
        shared: &Shared,
        options: ElementOptions,
    ) -> Result<(Ring, Arc<Declared>, u32), Error> {
        let number = self.number();
        if let Some((ring, declared)) = entry(&mut self.free, options).pop_front() {
            return Ok((ring, declared, number));
        }
        let catalog = Catalog::create(shared.path.join(format!("{number:04}.catalog")), number)?;
        let ElementOptions { block_bytes, block_count, .. } = options;
        let data_bytes = checked_bytes(&options)?;
        let path = shared.path.join(format!("{number:04}.element"));
        let map = Arc::new(Map::create(&path, element::DATA + data_bytes, Fork::Wipe)?);
        write_header(&map, 0, shared, number, &options);
        let ring = Ring::new(
            Region::new(map, 0, element::DATA, data_bytes),
            block_bytes,
            block_count,
            options.policy,
        );
        Ok((ring, Arc::new(Declared::new(catalog)), number))
    }

    pub(crate) fn give_back(&mut self, ring: Ring, declared: Arc<Declared>, options: ElementOptions) {
        entry(&mut self.free, options).push_back((ring, declared));
    }

    /// A pool's element for a collector, with the collector's number.
    pub(crate) fn take_slot(
        &mut self,
        shared: &Shared,
        options: ElementOptions,
    ) -> Result<(Slot, u32), Error> {
        let pools = entry(&mut self.pools, options);
        if let Some(slot) = pools.free.pop_front() {
            return Ok((slot, self.number()));
        }
        if pools.fresh.is_none() {
            let count = pools.count;
            let number = self.number();
            let pool = Pool::create(shared, options, number, count)?;
            let pools = entry(&mut self.pools, options);
            pools.count += 1;
            pools.fresh = Some(pool);
        }
        let number = self.number();
        let pools = entry(&mut self.pools, options);
        let fresh = pools.fresh.as_mut().expect("just made if there was none");
        let slot = fresh.next(shared, number, &options);
        if fresh.used == fresh.slots {
            pools.fresh = None;
        }
        Ok((slot, number))
    }

    pub(crate) fn give_back_slot(&mut self, slot: Slot, options: ElementOptions) {
        entry(&mut self.pools, options).free.push_back(slot);
    }
}

impl Pool {
    fn create(shared: &Shared, options: ElementOptions, number: u32, before: u32) -> Result<Pool, Error> {
        let slot_bytes = element::HEADER + checked_bytes(&options)?;
        let slots = (POOL_SLOTS_FIRST << (2 * before.min(4))).min(POOL_BYTES_MAX / slot_bytes);
        let slots = slots.clamp(1, pool::SLOTS_MAX);
        let catalog = Catalog::create(shared.path.join(format!("{number:04}.catalog")), number)?;
        let path = shared.path.join(format!("{number:04}.pool"));
        let bytes = pool::elements(slots) + slots * slot_bytes;
        let map = Map::create(&path, bytes.next_multiple_of(PAGE), Fork::Wipe)?;
        let put = |at, value: u64| map.word(at).store(value, Ordering::Relaxed);
        put(pool::VERSION, u64::from(VERSION) | u64::from(options.policy.code()) << 32);
        put(pool::BLOCKS, options.block_bytes as u64 | (options.block_count as u64) << 32);
        put(pool::SLOTS, slots as u64);
        map.word(pool::MAGIC).store(pool::MAGIC_VALUE, Ordering::Release);
        let declared = Arc::new(Declared::new(catalog));
        Ok(Pool { map: Arc::new(map), declared, slots, used: 0 })
    }

    /// The next element that was never used, for its first owner.
    fn next(&mut self, shared: &Shared, owner: u32, options: &ElementOptions) -> Slot {
        let ElementOptions { block_bytes, block_count, policy } = *options;
        let index = self.used;
        let header = pool::elements(self.slots) + index * pool::slot_bytes(block_bytes, block_count);
        write_header(&self.map, header, shared, owner, options);
        self.used += 1;
        // Release, paired with the reader's look: the element's header is complete.
        self.map.word(pool::USED).store(self.used as u64, Ordering::Release);
        let data = header + element::HEADER;
        let region = Region::new(self.map.clone(), header, data, block_bytes * block_count);
        Slot {
            ring: Ring::new(region, block_bytes, block_count, policy),
            latest: Line::new(self.map.clone(), pool::LINES + index * pool::LINE_BYTES),
            declared: self.declared.clone(),
        }
    }
}

/// What belongs to elements of this size and policy.
fn entry<T: Default>(all: &mut Vec<(ElementOptions, T)>, options: ElementOptions) -> &mut T {
    let index = all.iter().position(|(of, _)| *of == options).unwrap_or_else(|| {
        all.push((options, T::default()));
        all.len() - 1
    });
    &mut all[index].1
}

fn checked_bytes(options: &ElementOptions) -> Result<usize, Error> {
    let bytes = options.block_bytes.checked_mul(options.block_count);
    bytes.ok_or_else(|| Error::new("the element would be too large"))
}

fn write_header(map: &Map, start: usize, shared: &Shared, number: u32, options: &ElementOptions) {
    let put = |at, value: u64| map.word(start + at).store(value, Ordering::Relaxed);
    put(element::VERSION, u64::from(VERSION) | u64::from(options.policy.code()) << 32);
    put(element::BLOCKS, options.block_bytes as u64 | (options.block_count as u64) << 32);
    put(element::PROCESS, u64::from(shared.pid));
    put(element::PROCESS_START, shared.process_start);
    put(element::WRITER, u64::from(number));
    put(element::FREQUENCY, shared.clock().hz().round() as u64);
    put(element::STATE, 1);
    map.word(start + element::MAGIC).store(element::MAGIC_VALUE, Ordering::Release);
}
