//! The elements of a space: a file with one element for each writer, and pools of small elements for
//! collectors. A later writer reuses the element of a dropped writer, so a space needs no more elements than
//! writers live at once.

use crate::catalog::Catalog;
use crate::declared::Declared;
use crate::element::Ring;
use crate::error::Error;
use crate::identity::Identity;
use crate::layout::{PAGE, VERSION, element, pool};
use crate::map::{Fork, Line, Map, Region};
use crate::options::ElementOptions;
use crate::place::{self, Wanted};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The largest pool in bytes, unless one element takes more.
const POOL_BYTES_MAX: usize = 1 << 20;
/// Elements of the first pool of a size; each later one has four times as many as the one before.
const POOL_SLOTS_FIRST: usize = 16;

/// All elements of a space, guarded by the space's lock.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// The last number given to a writer or pool. A number whose creation failed is not used again; readers
    /// skip it.
    numbers: u32,
    /// Elements released by writers, the longest ago first.
    free: Vec<(Wanted, VecDeque<Released>)>,
    pools: Vec<(Wanted, Pools)>,
    /// The space's other directories: the parent that was requested, and the directory made in it.
    directories: Vec<(PathBuf, PathBuf)>,
}

/// An element that a writer released, with the catalog of its kinds.
type Released = (Ring, Arc<Declared>);

/// The pools of one size and policy.
#[derive(Debug, Default)]
struct Pools {
    /// Elements released by collectors, the longest ago first.
    free: VecDeque<Slot>,
    /// How many pools there are.
    count: u32,
    /// The pool that has elements never used yet, if there is one.
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
    /// The index of the directory for elements below `parent`, as [`Wanted`] holds it.
    pub(crate) fn directory(&mut self, identity: &Identity, parent: &Path) -> Result<usize, Error> {
        if let Some(index) = self.directories.iter().position(|(asked, _)| asked == parent) {
            return Ok(index + 1);
        }
        self.directories.push((parent.to_path_buf(), place::make_directory(parent, identity.uuid())?));
        Ok(self.directories.len())
    }

    /// Makes the file of an element or pool in the requested directory.
    fn make_file(
        &self,
        identity: &Identity,
        directory: usize,
        (number, ending): (u32, &str),
        bytes: usize,
    ) -> Result<Map, Error> {
        let name = format!("{number:04}.{ending}");
        let Some(other) = directory.checked_sub(1) else {
            return Map::create(&identity.path.join(name), bytes, Fork::Wipe);
        };
        let directory = &self.directories[other].1;
        let map = Map::create(&directory.join(&name), bytes, Fork::Wipe)?;
        place::write_link(&identity.path, number, directory)?;
        Ok(map)
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns an element with a file of its own for a writer, and the writer's number.
    pub(crate) fn take(
        &mut self,
        identity: &Identity,
        wanted: Wanted,
    ) -> Result<(Ring, Arc<Declared>, u32), Error> {
        let number = self.number();
        if let Some((ring, declared)) = entry(&mut self.free, wanted).pop_front() {
            return Ok((ring, declared, number));
        }
        let catalog = Catalog::create(identity.path.join(format!("{number:04}.catalog")), number)?;
        let Wanted { options, directory } = wanted;
        let ElementOptions { block_bytes, block_count, .. } = options;
        let data_bytes = checked_bytes(&options)?;
        let bytes = element::DATA + data_bytes;
        let map = Arc::new(self.make_file(identity, directory, (number, "element"), bytes)?);
        write_header(&map, 0, identity, number, &options);
        let ring = Ring::new(
            Region::new(map, 0, element::DATA, data_bytes),
            block_bytes,
            block_count,
            options.policy,
        );
        Ok((ring, Arc::new(Declared::new(catalog)), number))
    }

    pub(crate) fn give_back(&mut self, ring: Ring, declared: Arc<Declared>, wanted: Wanted) {
        entry(&mut self.free, wanted).push_back((ring, declared));
    }

    /// Returns an element of a pool for a collector, and the collector's number.
    pub(crate) fn take_slot(&mut self, identity: &Identity, wanted: Wanted) -> Result<(Slot, u32), Error> {
        let pools = entry(&mut self.pools, wanted);
        if let Some(slot) = pools.free.pop_front() {
            return Ok((slot, self.number()));
        }
        if pools.fresh.is_none() {
            let count = pools.count;
            let number = self.number();
            let pool = self.make_pool(identity, wanted, number, count)?;
            let pools = entry(&mut self.pools, wanted);
            pools.count += 1;
            pools.fresh = Some(pool);
        }
        let number = self.number();
        let pools = entry(&mut self.pools, wanted);
        let fresh = pools.fresh.as_mut().expect("just made if there was none");
        let slot = fresh.next(identity, number, &wanted.options);
        if fresh.used == fresh.slots {
            pools.fresh = None;
        }
        Ok((slot, number))
    }

    /// Makes the pool of this number, after `before` pools of the same size and policy.
    fn make_pool(
        &self,
        identity: &Identity,
        wanted: Wanted,
        number: u32,
        before: u32,
    ) -> Result<Pool, Error> {
        let Wanted { options, directory } = wanted;
        let slot_bytes = element::HEADER + checked_bytes(&options)?;
        let slots = (POOL_SLOTS_FIRST << (2 * before.min(4))).min(POOL_BYTES_MAX / slot_bytes);
        let slots = slots.clamp(1, pool::SLOTS_MAX);
        let catalog = Catalog::create(identity.path.join(format!("{number:04}.catalog")), number)?;
        let bytes = (pool::elements(slots) + slots * slot_bytes).next_multiple_of(PAGE);
        let map = self.make_file(identity, directory, (number, "pool"), bytes)?;
        let put = |at, value: u64| map.word(at).store(value, Ordering::Relaxed);
        put(pool::VERSION, u64::from(VERSION) | u64::from(options.policy.code()) << 32);
        put(pool::BLOCKS, options.block_bytes as u64 | (options.block_count as u64) << 32);
        put(pool::SLOTS, slots as u64);
        map.word(pool::MAGIC).store(pool::MAGIC_VALUE, Ordering::Release);
        let declared = Arc::new(Declared::new(catalog));
        Ok(Pool { map: Arc::new(map), declared, slots, used: 0 })
    }

    pub(crate) fn give_back_slot(&mut self, slot: Slot, wanted: Wanted) {
        entry(&mut self.pools, wanted).free.push_back(slot);
    }
}

impl Pool {
    /// The next element that was never used, for its first owner.
    fn next(&mut self, identity: &Identity, owner: u32, options: &ElementOptions) -> Slot {
        let ElementOptions { block_bytes, block_count, policy } = *options;
        let index = self.used;
        let header = pool::elements(self.slots) + index * pool::slot_bytes(block_bytes, block_count);
        write_header(&self.map, header, identity, owner, options);
        self.used += 1;
        // Release, paired with the reader's acquire load: the element's header is complete.
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

/// The entry for elements of this size, policy and directory; made if there is none.
fn entry<T: Default>(all: &mut Vec<(Wanted, T)>, wanted: Wanted) -> &mut T {
    let index = all.iter().position(|(of, _)| *of == wanted).unwrap_or_else(|| {
        all.push((wanted, T::default()));
        all.len() - 1
    });
    &mut all[index].1
}

fn checked_bytes(options: &ElementOptions) -> Result<usize, Error> {
    let bytes = options.block_bytes.checked_mul(options.block_count);
    bytes.ok_or_else(|| Error::new("the element would be too large"))
}

fn write_header(map: &Map, start: usize, identity: &Identity, number: u32, options: &ElementOptions) {
    let put = |at, value: u64| map.word(start + at).store(value, Ordering::Relaxed);
    put(element::VERSION, u64::from(VERSION) | u64::from(options.policy.code()) << 32);
    put(element::BLOCKS, options.block_bytes as u64 | (options.block_count as u64) << 32);
    put(element::PROCESS, u64::from(identity.pid));
    put(element::PROCESS_START, identity.process_start);
    put(element::WRITER, u64::from(number));
    put(element::FREQUENCY, identity.clock.hz().round() as u64);
    put(element::STATE, 1);
    map.word(start + element::MAGIC).store(element::MAGIC_VALUE, Ordering::Release);
}
