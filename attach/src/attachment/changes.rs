//! Changes of arguments: whether a caller could notice one, and another value for one.

use super::{Added, Attachment, Patch, Point, may_be_read};
use crate::code::{ARGUMENTS, Code, FLOATS, jump_from};
use crate::error::Error;
use crate::modules::Function;
use crate::points::{Argument, Change, Details};
use crate::reliance::Text;
use crate::types::Place;
use iced_x86::Register;
use std::time::{Duration, Instant};

impl Attachment {
    /// The change of an argument that no caller can notice.
    pub(super) fn change(
        &self,
        function: &Function,
        code: &Code,
        (argument, value): (Argument, u64),
    ) -> Result<Change, Error> {
        let name = &function.name;
        may_be_read(name, argument)?;
        let register = match argument.place {
            Place::Integer(number) => ARGUMENTS[number],
            Place::Float(number) => FLOATS[number],
        };
        // Callers of a library's function, and of a function that writes the register itself, rely on the ABI
        // alone.
        let by_abi = function.is_exported && self.modules.get(function.module_index).is_library;
        let is_relied_on = !by_abi && !code.writes(register) && self.is_relied_on(function, register);
        let restored = match argument.place {
            _ if !is_relied_on => None,
            Place::Integer(number) if number != 2 => Some(number),
            place => {
                let (register, or) = match place {
                    Place::Integer(number) => {
                        (format!("integer register {number}"), ", or on a result in it")
                    }
                    Place::Float(number) => (format!("floating-point register {number}"), ""),
                };
                return Err(Error::new(format!(
                    "the argument of `{name}` in {register} cannot be changed: the function leaves the register alone, and a caller in the \
                     same program may rely on that{or}"
                )));
            }
        };
        Ok(Change { argument, value, restored })
    }

    /// Whether a caller in the function's module may rely on an argument's register after a call. If the
    /// module's code cannot be read, it may.
    fn is_relied_on(&self, function: &Function, register: Register) -> bool {
        let Some(text) = self.code_of(function.module_index) else { return true };
        let bounds = |place| self.modules.at(place).map(|(found, _)| (found.address, found.size));
        text.relies(function.address, register, bounds)
    }

    /// A module's code as it was before it was attached to.
    fn code_of(&self, module: usize) -> Option<Text> {
        let module = self.modules.get(module);
        let maps = self.process.maps().ok()?;
        let is_code = |begin| (module.begin..module.end).contains(&begin);
        let mut parts = Vec::new();
        for mapping in maps.iter().filter(|mapping| mapping.is_executable && is_code(mapping.begin)) {
            let mut bytes = vec![0; (mapping.end - mapping.begin) as usize];
            self.process.read(mapping.begin, &mut bytes).ok()?;
            let points = self.points.iter().filter(|point| point.is_on).map(|point| &point.patch);
            for patch in points.chain(&self.others).filter(|patch| mapping.has(patch.address)) {
                let at = (patch.address - mapping.begin) as usize;
                bytes.get_mut(at..at + patch.old.len())?.copy_from_slice(&patch.old);
            }
            parts.push((mapping.begin, bytes));
        }
        (!parts.is_empty()).then(|| Text::new(parts))
    }

    /// Sets another value, the bits of a register, for the argument that a point changes; calls that have
    /// begun keep their value.
    ///
    /// # Errors
    /// The point changes no argument, or the change is not safe.
    pub fn set_argument(&mut self, point: usize, value: u64) -> Result<Added, Error> {
        let Point { function, change, one_in, .. } = &self.points[point];
        let Some(change) = change.map(|change| Change { value, ..change }) else {
            return Err(Error::new(format!("no argument of `{}` is changed", function.name)));
        };
        let added = self.remake(point, Some(change), *one_in)?;
        let changed = &mut self.points[point];
        changed.change = Some(change);
        changed.wish.set = Some((change.argument, value));
        Ok(added)
    }

    /// Measures one in `one_in` of a point's counted calls, to save the others the time; all are counted, and
    /// changed.
    ///
    /// # Errors
    /// The number is no power of two, or the point's calls are only counted, or each call's register has to be
    /// restored.
    pub fn thin(&mut self, point: usize, one_in: u64) -> Result<Added, Error> {
        const MOST: u32 = 1 << 20;
        let number = u32::try_from(one_in).ok().filter(|number| number.is_power_of_two() && *number <= MOST);
        let Some(one_in) = number else {
            return Err(Error::new(format!(
                "one call in {one_in} cannot be measured: the number is a power of two, up to {MOST}"
            )));
        };
        let Point { function, change, .. } = &self.points[point];
        if !self.points[point].can_be_thinned() {
            return Err(Error::new(format!(
                "of the calls of `{}`, each has to be counted, or its argument restored: none can be left out",
                function.name
            )));
        }
        let added = self.remake(point, *change, one_in)?;
        self.points[point].one_in = one_in;
        Ok(added)
    }

    /// Makes a new trampoline for a point, and lets the function's jump lead to it.
    fn remake(&mut self, point: usize, change: Option<Change>, one_in: u32) -> Result<Added, Error> {
        let begin = Instant::now();
        let Point { function, beginning, layout, stripes, wish, patch, is_on, .. } = &self.points[point];
        let (function, beginning, layout, old) =
            (function.clone(), beginning.clone(), layout.clone(), patch.clone());
        let (stripes, is_on) = (*stripes, *is_on);
        let details = Details { change, only: wish.only, one_in };
        self.make_room(&[function.module_index], 0)?;
        let stub = self.stub(&function, &beginning, &layout, stripes, details)?;
        let place = self.neighbour(function.module_index).put(&stub)?;
        let new = jump_from(function.address, place, &function.name)?.to_vec();
        let patch = Patch { new, places: stub.places, ..old.clone() };
        self.memory.as_mut().expect("there is room").record(&[patch.record()])?;
        let mut stopped = Duration::ZERO;
        if is_on {
            // One jump is replaced by another, and no thread can be inside the bytes of a jump.
            let step = Patch { old: old.new, new: patch.new.clone(), places: Vec::new(), ..patch.clone() };
            stopped = self.swap(std::slice::from_ref(&step), |patch| (&patch.old, &patch.new), true)?;
        }
        self.points[point].patch = patch;
        Ok(Added { stopped, took: begin.elapsed() })
    }
}
