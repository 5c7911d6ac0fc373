//! Ordered calls: a function is called once, by a thread of the target that enters a given function; and inserted
//! calls, which are made at each entry.

use super::{Added, Attachment, Point, chosen, overlap};
use crate::error::Error;
use crate::memory::Record;
use crate::modules::Function;
use crate::restore::INSERTED_BYTES;
use crate::stub;
use crate::tracer::{Stopped, Waited, traced};
use std::time::{Duration, Instant};

impl Attachment {
    /// Calls a function once, in the first thread that enters one of the functions `at` from outside the
    /// called function's module and outside signal handlers. Waits at most `wait` for the return. Returns the
    /// result.
    ///
    /// # Errors
    /// No thread entered these functions, or the call is not safe.
    pub fn call(
        &mut self,
        function: &Function,
        arguments: &[u64],
        at: &[Function],
        wait: Duration,
    ) -> Result<u64, Error> {
        if function.is_chosen_at_start {
            return Err(chosen(function));
        }
        // A point at a function of `at` is removed for the duration of the call.
        let is_there = |point: &Point| point.is_on && at.iter().any(|place| overlap(place, &point.function));
        let lifted: Vec<usize> =
            (0..self.points.len()).filter(|number| is_there(&self.points[*number])).collect();
        for number in &lifted {
            self.remove(*number)?;
        }
        let called = self.call_at(function, arguments, at, wait);
        for number in &lifted {
            self.renew(*number)?;
        }
        called
    }

    /// Makes a call at functions that have no points.
    fn call_at(
        &mut self,
        function: &Function,
        arguments: &[u64],
        at: &[Function],
        wait: Duration,
    ) -> Result<u64, Error> {
        let mut beginnings = Vec::new();
        let mut refused = None;
        for (number, place) in at.iter().enumerate() {
            if at[..number].iter().any(|other| overlap(other, place)) {
                continue;
            }
            match self.beginning(place) {
                Ok((_, beginning)) => beginnings.push((place, beginning)),
                Err(error) => refused = Some(error),
            }
        }
        if beginnings.is_empty() {
            return Err(refused.unwrap_or_else(|| {
                Error::new("the program has none of the functions at whose entry the call could be made")
            }));
        }
        let modules: Vec<usize> = beginnings.iter().map(|(place, _)| place.module_index).collect();
        self.make_room(&modules, 0)?;
        let order = self.order(function, arguments, None)?;
        let mut patches = Vec::new();
        for (place, beginning) in &beginnings {
            let (neighbour, at, routines) = self.room(place.module_index)?;
            let stub = stub::caller(&place.name, at, beginning, routines, order)?;
            let address = neighbour.put(&stub)?;
            patches.push(self.patch(place, address, &stub)?);
        }
        self.memory.as_mut().expect("there is room").record(&[Record::Order { address: order }])?;
        self.apply(&patches)?;
        let mut waited = Waited::begin();
        let state = || self.process.read_word(order).map_err(|_| Error::new("the target has ended"));
        while state()? != 2 && waited.time() < wait {
            std::thread::sleep(Duration::from_micros(200));
        }
        // From here on no thread begins the call; a thread that has begun it is waited for.
        self.take_back(&patches)?;
        if state()? != 2 {
            self.withdraw(order)?;
        }
        let mut waited = Waited::begin();
        while state()? == 1 && waited.time() < wait {
            std::thread::sleep(Duration::from_micros(200));
        }
        match state()? {
            2 => {
                self.process.read_word(order + 80).map_err(|error| Error::of("cannot read the result", error))
            }
            1 => Err(Error::new(format!("`{}` was called and has not returned yet", function.name))),
            _ => {
                let names: Vec<&str> =
                    beginnings.iter().take(8).map(|(place, _)| place.name.as_str()).collect();
                Err(Error::new(format!(
                    "`{}` was not called: within {wait:?} no thread entered {} from outside of {}",
                    function.name,
                    names.join(", "),
                    function.module
                )))
            }
        }
    }

    /// Allocates an unused word of eight bytes in the target, zero at first, whose address can be passed to
    /// calls.
    ///
    /// # Errors
    /// There is no room for the word.
    pub fn word(&mut self) -> Result<u64, Error> {
        self.make_room(&[], 0)?;
        let address = self.memory.as_mut().expect("there is room").private(64)?;
        self.write(address, &[0; 64])?;
        Ok(address)
    }

    /// Writes up to 64 bytes to a [`word`](Attachment::word) of the target.
    ///
    /// # Errors
    /// The target has ended.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let bytes = &bytes[..bytes.len().min(64)];
        self.process.write(address, bytes).map_err(|error| Error::of("cannot write to the target", error))
    }

    /// Reads a [`word`](Attachment::word) of the target.
    ///
    /// # Errors
    /// The target has ended.
    pub fn read(&self, address: u64) -> Result<u64, Error> {
        self.process.read_word(address).map_err(|error| Error::of("cannot read the target's memory", error))
    }

    /// Gives the guard a text, which [`guard`](crate::guard()) returns if this process is killed; only the
    /// last text is kept.
    pub fn note(&mut self, text: &str) {
        if let Some(guard) = &self.guard {
            guard.note(text);
        }
    }

    /// Renews the lease of this process, if its guard has one: see [`guard`](crate::guard()).
    pub fn renew_lease(&mut self) {
        if let Some(guard) = &self.guard {
            guard.renew();
        }
    }

    /// Withdraws the order of a call, unless a thread has begun the call.
    fn withdraw(&self, order: u64) -> Result<(), Error> {
        const WITHDRAWN: u64 = 3;
        let process = &self.process;
        let failed = |error| Error::of("cannot withdraw a call", error);
        traced(|| {
            let _stopped = Stopped::all(process)?;
            match process.read_word(order).map_err(failed)? {
                0 => process.write(order, &WITHDRAWN.to_le_bytes()).map_err(failed),
                _ => Ok(()),
            }
        })
    }

    /// The size of the vector registers, and the mask of those that exist, which are the same for all
    /// threads.
    fn vector_registers(&self) -> Result<(u64, u64), Error> {
        let process = &self.process;
        let vectors = traced(|| {
            let stopped = Stopped::one(process, process.via())?;
            let thread = stopped.threads.first().ok_or_else(|| Error::new("the target has ended"))?;
            thread.vectors().map_err(|error| Error::of("cannot read the target's registers", error))
        })?;
        let parts = u64::from_le_bytes(vectors[464..472].try_into().expect("8 bytes"));
        Ok(((vectors.len() as u64).next_multiple_of(64) + 64, parts))
    }

    /// Inserts a call: from now on, each thread that enters `at` from outside the called function's module, and
    /// outside signal handlers, calls `function` before. The arguments of the call are those given, or those of
    /// `at`. Within the call it is not made again.
    ///
    /// # Errors
    /// The call cannot be inserted there.
    pub fn insert(
        &mut self,
        function: &Function,
        arguments: Option<&[u64]>,
        at: &Function,
    ) -> Result<Added, Error> {
        let begin = Instant::now();
        if function.is_chosen_at_start {
            return Err(chosen(function));
        }
        let (_, beginning) = self.beginning(at)?;
        self.make_room(&[at.module_index], 0)?;
        let order = self.order(function, arguments.unwrap_or(&[]), Some(arguments.is_none()))?;
        let (neighbour, place, routines) = self.room(at.module_index)?;
        let stub = stub::caller(&at.name, place, &beginning, routines, order)?;
        let address = neighbour.put(&stub)?;
        let patch = self.patch(at, address, &stub)?;
        self.memory.as_mut().expect("there is room").record(&[Record::Inserted { address: order }])?;
        let stopped = self.apply(std::slice::from_ref(&patch))?;
        self.others.push(patch);
        self.inserted.push((at.address, order));
        Ok(Added { stopped, took: begin.elapsed() })
    }

    /// How often the call that was inserted at a function was made, and how often it was left out, because too many
    /// others were under way.
    pub fn inserted(&self, at: &Function) -> (u64, u64) {
        let order = self.inserted.iter().rfind(|(address, _)| *address == at.address);
        let word = |offset| order.and_then(|(_, order)| self.process.read_word(order + offset).ok());
        (word(80).unwrap_or(0), word(120).unwrap_or(0))
    }

    /// Switches off what replaces a function, or is inserted at it, or switches it on again.
    ///
    /// # Errors
    /// There is no such change, or the target's code has changed.
    pub fn switch(&mut self, function: &Function, on: bool) -> Result<Added, Error> {
        let begin = Instant::now();
        let found = self.others.iter().find(|patch| patch.address == function.address);
        let Some(patch) = found else {
            return Err(Error::new(format!("nothing replaces `{}`", function.name)));
        };
        let patch = std::slice::from_ref(patch);
        let stopped = match on {
            true => self.swap(patch, |patch| (&patch.old, &patch.new), true)?,
            false => self.take_back(patch)?,
        };
        Ok(Added { stopped, took: begin.elapsed() })
    }

    /// Writes an order for a call. That of an inserted call has more room; the call gets the arguments of the
    /// function that is entered if that is so.
    fn order(
        &mut self,
        function: &Function,
        arguments: &[u64],
        inserted: Option<bool>,
    ) -> Result<u64, Error> {
        if arguments.len() > 6 {
            return Err(Error::new("a call has six arguments at most"));
        }
        let (room, parts) = match self.vectors {
            Some(known) => known,
            None => *self.vectors.insert(self.vector_registers()?),
        };
        let module = self.modules.get(function.module_index);
        let mut words = [0_u64; 16];
        words[1] = function.address;
        words[2..2 + arguments.len()].copy_from_slice(arguments);
        words[8] = module.begin;
        words[9] = module.end;
        (words[11], words[12]) = (room, parts);
        words[13] = self.gadgets.restorer;
        words[14] = inserted.map_or(0, |has_arguments| 1 + u64::from(has_arguments));
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if inserted.is_some() {
            bytes.resize(INSERTED_BYTES as usize, 0);
        }
        let at = self.memory.as_mut().expect("there is room").private(bytes.len() as u64)?;
        self.process.write(at, &bytes).map_err(|error| Error::of("cannot write to the target", error))?;
        Ok(at)
    }
}
