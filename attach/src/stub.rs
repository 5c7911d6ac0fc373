//! Trampolines: code that runs before the beginning of a function.
//!
//! A trampoline saves the registers that it changes, counts, keeps the requested values, and continues with
//! the function's beginning, which is copied to its end. The trampoline of a point that only counts calls
//! no other code; all other trampolines call the routines in `blob.s`.

use crate::blob::{BUCKET_FACTOR, GO_BYTES};
use crate::code::Beginning;
use crate::error::Error;
use crate::histogram::Scale;
use crate::points::{Argument, Change, Comparison, Condition, Details, Layout, Only, STRIPES};
use crate::types::{Form, Place};

/// The memory of a trampoline, which is more than any trampoline needs.
pub(crate) const STUB_BYTES: u64 = 768;
/// The offsets of the arguments' registers in the stack frame that the routines of `blob.s` expect.
pub(crate) const FRAME_ARGUMENTS: [u8; 6] = [16, 24, 32, 40, 8, 0];

/// `push rax; lahf; seto al; push rax`: the flags, without the cost of `pushf`.
const SAVE_FLAGS: [u8; 6] = [0x50, 0x9f, 0x0f, 0x90, 0xc0, 0x50];
/// `pop rax; add al, 0x7f; sahf; pop rax`
const RESTORE_FLAGS: [u8; 5] = [0x58, 0x04, 0x7f, 0x9e, 0x58];
/// rcx, rdx, rsi, rdi, r8, r9
const PUSH_REST: [u8; 8] = [0x51, 0x52, 0x56, 0x57, 0x41, 0x50, 0x41, 0x51];
const POP_REST: [u8; 8] = [0x41, 0x59, 0x41, 0x58, 0x5f, 0x5e, 0x5a, 0x59];

/// How `blob.s` reads the bits of a result.
const UNSIGNED: u64 = 0;
const SIGNED: u64 = 1;
const DOUBLE: u64 = 2;
const SINGLE: u64 = 3;

/// How the bits of a value of this form are read, as a number for `blob.s`.
pub(crate) fn how(form: Form) -> u64 {
    match form.read() {
        (Scale::Unsigned, _) => UNSIGNED,
        (Scale::Signed, _) => SIGNED,
        (Scale::Float, 4) => SINGLE,
        (Scale::Float, _) => DOUBLE,
    }
}

/// An assembler of trampolines.
#[derive(Debug)]
struct Assembler {
    bytes: Vec<u8>,
    place: u64,
}

impl Assembler {
    /// Counts a call in the counter of the thread's stripe, and changes an argument that is not restored.
    fn counted(&mut self, (beginning, stripes): (&Beginning, u64), change: Option<Change>, only: Only) {
        let saves_flags = beginning.may_use_flags;
        self.put(if saves_flags { &SAVE_FLAGS } else { &SAVE_FLAGS[..1] });
        let past = self.unless(only, if saves_flags { 16 } else { 8 });
        // push rcx; mov rcx, rsp; shr rcx, 6; and ecx, 7 << 6
        self.put(&[0x51, 0x48, 0x89, 0xe1, 0x48, 0xc1, 0xe9, 0x06, 0x81, 0xe1]);
        self.put(&((STRIPES as u32 - 1) << 6).to_le_bytes());
        self.put_with(&[0x48, 0xb8], stripes);
        // lock inc qword ptr [rax + rcx]; pop rcx
        self.put(&[0xf0, 0x48, 0xff, 0x04, 0x08, 0x59]);
        if let Some(change) = change {
            match change.argument.place {
                Place::Integer(number) => {
                    let load: [&[u8]; 6] = [
                        &[0x48, 0xbf],
                        &[0x48, 0xbe],
                        &[0x48, 0xba],
                        &[0x48, 0xb9],
                        &[0x49, 0xb8],
                        &[0x49, 0xb9],
                    ];
                    self.put_with(load[number], change.value);
                }
                Place::Float(number) => self.load_float(number, change),
            }
        }
        self.all_land(&past);
        self.put(if saves_flags { &RESTORE_FLAGS } else { &RESTORE_FLAGS[..1] });
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    fn put_with(&mut self, code: &[u8], word: u64) {
        self.put(code);
        self.put(&word.to_le_bytes());
    }

    fn call(&mut self, target: u64) {
        let next = self.place + self.bytes.len() as u64 + 5;
        self.bytes.push(0xe8);
        // The called routine is in the same region of code, so the distance fits into 32 bits.
        self.put(&(target.wrapping_sub(next) as u32).to_le_bytes());
    }

    /// `jmp target`
    fn jump(&mut self, target: u64) {
        let next = self.place + self.bytes.len() as u64 + 5;
        match i32::try_from(target.wrapping_sub(next).cast_signed()) {
            Ok(distance) => {
                self.put(&[0xe9]);
                self.put(&distance.to_le_bytes());
            }
            // The target is in the code near another module: jmp [rip], with the address behind it.
            Err(_) => self.put_with(&[0xff, 0x25, 0, 0, 0, 0], target),
        }
    }

    fn save(&mut self) {
        self.put(&SAVE_FLAGS);
        self.put(&PUSH_REST);
    }

    fn restore(&mut self) {
        self.put(&POP_REST);
        self.put(&RESTORE_FLAGS);
    }

    /// `mov [rsp + offset], rax`
    fn store(&mut self, offset: u8) {
        self.put(&[0x48, 0x89, 0x44, 0x24, offset]);
    }

    /// `mov rax, [rsp + offset]`
    fn load(&mut self, offset: u8) {
        self.put(&[0x48, 0x8b, 0x44, 0x24, offset]);
    }

    /// Loads an argument into rax: extended to 64 bits if it is an integer; as its bits if it is a
    /// floating-point number.
    fn load_argument(&mut self, argument: Argument) {
        let number = match argument.place {
            // movq rax, xmm0 to xmm7
            Place::Float(number) => return self.put(&[0x66, 0x48, 0x0f, 0x7e, 0xc0 | (number as u8) << 3]),
            Place::Integer(number) => number,
        };
        let code: &[u8] = match argument.form.read() {
            (Scale::Signed, 1) => &[0x48, 0x0f, 0xbe],
            (Scale::Signed, 2) => &[0x48, 0x0f, 0xbf],
            (Scale::Signed, 4) => &[0x48, 0x63],
            (Scale::Unsigned, 1) => &[0x0f, 0xb6],
            (Scale::Unsigned, 2) => &[0x0f, 0xb7],
            (Scale::Unsigned, 4) => &[0x8b],
            _ => &[0x48, 0x8b],
        };
        self.put(code);
        self.put(&[0x44, 0x24, FRAME_ARGUMENTS[number]]);
    }

    /// Changes an argument, in the frame if its register is saved there.
    fn changed(&mut self, change: Change) {
        let number = match change.argument.place {
            Place::Float(number) => return self.load_float(number, change),
            Place::Integer(number) => number,
        };
        let offset = FRAME_ARGUMENTS[number];
        if change.restored.is_some() {
            // Without an entry in the table of calls under way, the argument could not be restored, so the
            // change is skipped: test r8, r8; jz behind the change. If the call has an entry, the word [r8 +
            // 40] of the entry keeps the old value.
            self.put(&[0x4d, 0x85, 0xc0, 0x74, 5 + 4 + 10 + 5]);
            self.load(offset);
            self.put(&[0x49, 0x89, 0x40, 40]);
        }
        self.put_with(&[0x48, 0xb8], change.value);
        self.store(offset);
    }

    /// Loads the new value of a changed argument into its floating-point register. Clobbers rax.
    fn load_float(&mut self, number: usize, change: Change) {
        self.put_with(&[0x48, 0xb8], change.value);
        // movq xmm, rax, or movd xmm, eax
        let modrm = 0xc0 | (number as u8) << 3;
        match change.argument.form.read() {
            (_, 4) => self.put(&[0x66, 0x0f, 0x6e, modrm]),
            _ => self.put(&[0x66, 0x48, 0x0f, 0x6e, modrm]),
        }
    }

    /// Appends jumps, which are taken if a call is not to be counted; [`Assembler::all_land`] sets their
    /// targets. `slot` is the offset of the return address from the stack pointer. Clobbers rax and the flags.
    fn unless(&mut self, only: Only, slot: u8) -> Vec<usize> {
        let mut past = Vec::new();
        if let Some((first, last)) = only.from {
            // mov rax, -first; add rax, [rsp + slot]; cmp rax, last - first; ja past
            self.put_with(&[0x48, 0xb8], first.wrapping_neg());
            self.put(&[0x48, 0x03, 0x44, 0x24, slot, 0x48, 0x3d]);
            self.put(&((last - first).min(i32::MAX as u64) as u32).to_le_bytes());
            past.push(self.jump_if(0x87));
        }
        let Some(when) = only.when else { return past };
        let (scale, bytes) = when.argument.form.read();
        match when.argument.place {
            Place::Integer(number) => {
                self.put_with(&[0x48, 0xb8], when.value);
                // cmp REGISTER, rax, or the lower parts of both
                let modrm = [0xc7, 0xc6, 0xc2, 0xc1, 0xc0, 0xc1][number];
                let extended = u8::from(number > 3);
                match bytes {
                    1 => self.put(&[0x40 | extended, 0x38, modrm]),
                    2 => self.put(&[0x66, 0x40 | extended, 0x39, modrm]),
                    4 => self.put(&[0x40 | extended, 0x39, modrm]),
                    _ => self.put(&[0x48 | extended, 0x39, modrm]),
                }
                past.push(self.jump_if(when.is.opposite(scale)));
            }
            Place::Float(number) => self.unless_float(number, when, &mut past),
        }
        past
    }

    /// Compares a floating-point argument in the processor's state of a new program, which is put back, so
    /// that no flag of an exception is raised in the program's state.
    fn unless_float(&mut self, number: usize, when: Condition, past: &mut Vec<usize>) {
        let wide = f64::from_bits(when.value);
        let is_single = when.argument.form.read().1 == 4;
        let bits = if is_single { u64::from(when.is.single(wide).to_bits()) } else { when.value };
        // lea rsp, [rsp - 16]; stmxcsr [rsp]; mov dword ptr [rsp + 4], 0x1f80; ldmxcsr [rsp + 4]
        self.put(&[0x48, 0x8d, 0x64, 0x24, 0xf0, 0x0f, 0xae, 0x1c, 0x24]);
        self.put(&[0xc7, 0x44, 0x24, 4, 0x80, 0x1f, 0, 0, 0x0f, 0xae, 0x54, 0x24, 4]);
        // mov rax, the number; mov [rsp + 8], rax; ucomisd or ucomiss xmm, [rsp + 8]
        self.put_with(&[0x48, 0xb8], bits);
        self.store(8);
        let compare = [0x66, 0x0f, 0x2e, 0x44 | (number as u8) << 3, 0x24, 8];
        self.put(&compare[usize::from(is_single)..]);
        // ldmxcsr [rsp]; lea rsp, [rsp + 16]
        self.put(&[0x0f, 0xae, 0x14, 0x24, 0x48, 0x8d, 0x64, 0x24, 0x10]);
        // What is not a number is different from every number, and neither less nor greater: jp, or for `!=`
        // jp over the next jump.
        match when.is {
            Comparison::Other => self.put(&[0x7a, 6]),
            _ => past.push(self.jump_if(0x8a)),
        }
        past.push(self.jump_if(when.is.opposite(Scale::Unsigned)));
    }

    /// Appends a conditional jump with the second byte `code`; returns the place behind it.
    fn jump_if(&mut self, code: u8) -> usize {
        self.put(&[0x0f, code, 0, 0, 0, 0]);
        self.bytes.len()
    }

    /// Changes an argument that is restored on return, and counts the call, in few instructions: if the call's
    /// entry can be the first of its bucket in the table of calls under way, and the call does not replace
    /// another one that has an entry. Otherwise the code that follows does the same in all cases. Returns the
    /// place of the distance to the function's beginning, which [`Assembler::lands`] sets.
    fn given(
        &mut self,
        beginning: &Beginning,
        routines: Routines,
        (descriptor, stripes): (u64, u64),
        (number, value): (usize, u64),
        only: Only,
    ) -> usize {
        let saves_flags = beginning.may_use_flags;
        self.put(if saves_flags { &SAVE_FLAGS } else { &SAVE_FLAGS[..1] });
        let unlike = self.unless(only, if saves_flags { 16 } else { 8 });
        // push rcx; push rdx; push r8; lea rcx, [the slot]; mov rdx, [rcx]; mov rax, ta_leave; cmp rdx, rax; je
        self.put(&[0x51, 0x52, 0x41, 0x50, 0x48, 0x8d, 0x4c, 0x24, if saves_flags { 40 } else { 32 }]);
        self.put(&[0x48, 0x8b, 0x11]);
        self.put_with(&[0x48, 0xb8], routines.go + GO_BYTES);
        self.put(&[0x48, 0x39, 0xc2]);
        let mut slow = vec![self.jump_if(0x84)];
        // The bucket, as in `blob.s`: mov r8, the factor; imul r8, rcx; shr r8, 46; and r8d, 0x3ff00; mov rax,
        // the table; add r8, rax
        self.put_with(&[0x49, 0xb8], BUCKET_FACTOR);
        self.put(&[0x4c, 0x0f, 0xaf, 0xc1, 0x49, 0xc1, 0xe8, 46, 0x41, 0x81, 0xe0, 0, 0xff, 3, 0]);
        self.put_with(&[0x48, 0xb8], routines.table);
        self.put(&[0x49, 0x01, 0xc0]);
        // No entry may have this slot: cmp [r8 + 0, 64, 128, 192], rcx; je
        let same: [&[u8]; 4] = [
            &[0x49, 0x39, 0x08],
            &[0x49, 0x39, 0x48, 64],
            &[0x49, 0x39, 0x88, 128, 0, 0, 0],
            &[0x49, 0x39, 0x88, 192, 0, 0, 0],
        ];
        for compare in same {
            self.put(compare);
            slow.push(self.jump_if(0x84));
        }
        // xor eax, eax; lock cmpxchg [r8], rcx; jne
        self.put(&[0x31, 0xc0, 0xf0, 0x49, 0x0f, 0xb1, 0x08]);
        slow.push(self.jump_if(0x85));
        // mov [r8 + 8], rdx; mov rdx, rsp; shr rdx, 6; and edx, 7 << 6; mov rax, stripes; lock inc [rax + rdx]
        self.put(&[0x49, 0x89, 0x50, 8, 0x48, 0x89, 0xe2, 0x48, 0xc1, 0xea, 6, 0x81, 0xe2]);
        self.put(&((STRIPES as u32 - 1) << 6).to_le_bytes());
        self.put_with(&[0x48, 0xb8], stripes);
        self.put(&[0xf0, 0x48, 0xff, 0x04, 0x10]);
        // The entry's descriptor, thread and record; a free entry has the state of one in use: mov rax, descriptor;
        // mov [r8 + 24], rax; mov rax, fs:[0]; mov [r8 + 32], rax; mov qword ptr [r8 + 56], 0
        self.put_with(&[0x48, 0xb8], descriptor);
        self.put(&[0x49, 0x89, 0x40, 24, 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x49, 0x89, 0x40, 32]);
        self.put(&[0x49, 0xc7, 0x40, 56, 0, 0, 0, 0]);
        self.give(number, value);
        // lea rax, [rip + the function's beginning]; mov [the slot - 72], rax
        self.put(&[0x48, 0x8d, 0x05, 0, 0, 0, 0]);
        let moved = self.bytes.len();
        self.put(&[0x48, 0x89, 0x41, 0xb8]);
        let leave = |stub: &mut Assembler| {
            // pop r8; pop rdx; pop rcx
            stub.put(&[0x41, 0x58, 0x5a, 0x59]);
            stub.put(if saves_flags { &RESTORE_FLAGS } else { &RESTORE_FLAGS[..1] });
        };
        leave(self);
        // lea rsp, [rsp + 8]
        self.put(&[0x48, 0x8d, 0x64, 0x24, 8]);
        self.jump(routines.go);
        self.all_land(&slow);
        // The condition is decided anew below.
        leave(self);
        let over = (!unlike.is_empty()).then(|| {
            let over = self.jump_over();
            self.all_land(&unlike);
            self.put(if saves_flags { &RESTORE_FLAGS } else { &RESTORE_FLAGS[..1] });
            over
        });
        if let Some(over) = over {
            self.lands(over);
        }
        moved
    }

    /// Keeps the argument in the call's entry, and gives it the new value; rcx and r8 are on the stack.
    fn give(&mut self, number: usize, value: u64) {
        // mov [r8 + 40], REGISTER; mov REGISTER, value
        let direct: Option<(&[u8], &[u8])> = match number {
            0 => Some((&[0x49, 0x89, 0x78, 40], &[0x48, 0xbf])),
            1 => Some((&[0x49, 0x89, 0x70, 40], &[0x48, 0xbe])),
            5 => Some((&[0x4d, 0x89, 0x48, 40], &[0x49, 0xb9])),
            _ => None,
        };
        if let Some((keep, set)) = direct {
            self.put(keep);
            return self.put_with(set, value);
        }
        // mov rax, [rsp + offset]; mov [r8 + 40], rax; mov rax, value; mov [rsp + offset], rax
        let offset = if number == 3 { 16 } else { 0 };
        self.load(offset);
        self.put(&[0x49, 0x89, 0x40, 40]);
        self.put_with(&[0x48, 0xb8], value);
        self.store(offset);
    }

    /// Appends a jump; [`Assembler::lands`] sets its target. Returns the place behind the jump.
    fn jump_over(&mut self) -> usize {
        self.put(&[0xe9, 0, 0, 0, 0]);
        self.bytes.len()
    }

    /// Appends, for a call that has a new entry in the table of calls under way, the call of the function by
    /// `go`. Another call continues behind this. Returns the place of the distance to the function's
    /// beginning, which [`Assembler::lands`] sets.
    fn go(&mut self, go: u64) -> usize {
        // test r9d, r9d; jz behind this
        self.put(&[0x45, 0x85, 0xc9, 0x0f, 0x84, 0, 0, 0, 0]);
        let other = self.bytes.len();
        // lea rax, [rip + the function's beginning]; mov [rsp - 8], rax
        self.put(&[0x48, 0x8d, 0x05, 0, 0, 0, 0]);
        let moved = self.bytes.len();
        self.put(&[0x48, 0x89, 0x44, 0x24, 0xf8]);
        self.restore();
        // lea rsp, [rsp + 8]
        self.put(&[0x48, 0x8d, 0x64, 0x24, 8]);
        self.jump(go);
        self.lands(other);
        moved
    }

    /// Lets the jump or the address that ends at `past` lead here.
    fn lands(&mut self, past: usize) {
        let distance = (self.bytes.len() - past) as u32;
        self.bytes[past - 4..past].copy_from_slice(&distance.to_le_bytes());
    }

    fn all_land(&mut self, past: &[usize]) {
        past.iter().for_each(|past| self.lands(*past));
    }

    fn end(mut self, name: &str, beginning: &Beginning) -> Result<Stub, Error> {
        let begin = self.bytes.len();
        let moved = beginning.at(name, self.place + begin as u64)?;
        self.put(&moved.bytes);
        debug_assert!(self.bytes.len() as u64 <= STUB_BYTES, "{}", self.bytes.len());
        let places = moved.places.iter().map(|(old, new)| (*old, self.place + (begin + new) as u64));
        Ok(Stub { places: places.collect(), bytes: self.bytes })
    }
}

/// A trampoline for a given address.
#[derive(Clone, Debug)]
pub(crate) struct Stub {
    pub(crate) bytes: Vec<u8>,
    /// For each instruction of the function's beginning: its address, and the address in the copy at which a
    /// thread continues.
    pub(crate) places: Vec<(u64, u64)>,
}

/// The addresses of a region's shared routines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routines {
    pub(crate) count: u64,
    pub(crate) unsigned: u64,
    pub(crate) signed: u64,
    pub(crate) double: u64,
    pub(crate) single: u64,
    pub(crate) enter: u64,
    pub(crate) unwind: u64,
    pub(crate) once: u64,
    pub(crate) keep: u64,
    pub(crate) caller: u64,
    /// The call after which timed functions return to their trampoline.
    pub(crate) go: u64,
    /// The table of calls under way.
    pub(crate) table: u64,
}

/// The trampoline of a point: it counts, keeps values, begins a timed call, and changes an argument, as the
/// layout and the change say.
pub(crate) fn point(
    name: &str,
    place: u64,
    beginning: &Beginning,
    routines: Routines,
    (layout, descriptor, stripes): (&Layout, u64, u64),
    Details { change, only, one_in }: Details,
) -> Result<Stub, Error> {
    let mut stub = Assembler { bytes: Vec::new(), place };
    let needs_entry =
        layout.is_timed || layout.result.is_some() || change.is_some_and(|change| change.restored.is_some());
    let keeps = !layout.arguments.is_empty() || layout.callers.is_some() || layout.kept.is_some();
    if !needs_entry && !keeps {
        stub.counted((beginning, stripes), change, only);
        return stub.end(name, beginning);
    }
    let given = match change.and_then(|change| Some((change.restored?, change.value))) {
        Some(given) if layout.is_plain() => {
            Some(stub.given(beginning, routines, (descriptor, stripes), given, only))
        }
        _ => None,
    };
    stub.save();
    let past = stub.unless(only, 64);
    stub.put_with(&[0x48, 0xbf], descriptor);
    stub.call(routines.count);
    // A call that is not measured: test dword ptr [rsi], one_in - 1; jnz
    let skipped = (one_in > 1).then(|| {
        stub.put(&[0xf7, 0x06]);
        stub.put(&(one_in - 1).to_le_bytes());
        stub.jump_if(0x85)
    });
    for (argument, histogram) in &layout.arguments {
        stub.load_argument(*argument);
        stub.put(&[0xb9]);
        stub.put(&histogram.to_le_bytes());
        stub.put(&[0xba]);
        stub.put(&argument.sum_offset().to_le_bytes());
        stub.call(match how(argument.form) {
            SIGNED => routines.signed,
            DOUBLE => routines.double,
            SINGLE => routines.single,
            _ => routines.unsigned,
        });
    }
    if layout.callers.is_some() {
        stub.call(routines.caller);
    }
    if needs_entry {
        stub.call(routines.enter);
    }
    if layout.kept.is_some() {
        if !needs_entry {
            // xor r8d, r8d: the call has no entry in the table of calls under way.
            stub.put(&[0x45, 0x31, 0xc0]);
        }
        stub.call(routines.keep);
    }
    if let Some(skipped) = skipped {
        // xor r9d, r9d: the call has no entry, so the function is not called by `ta_go`.
        let over = stub.jump_over();
        stub.lands(skipped);
        stub.put(&[0x45, 0x31, 0xc9]);
        stub.lands(over);
    }
    if let Some(change) = change {
        stub.changed(change);
    }
    let moved = needs_entry.then(|| stub.go(routines.go));
    stub.all_land(&past);
    stub.restore();
    for moved in moved.into_iter().chain(given) {
        stub.lands(moved);
    }
    stub.end(name, beginning)
}

/// The trampoline of a function that throws or unwinds: it restores return addresses first.
pub(crate) fn unwinder(
    name: &str,
    place: u64,
    beginning: &Beginning,
    routines: Routines,
) -> Result<Stub, Error> {
    let mut stub = Assembler { bytes: Vec::new(), place };
    stub.save();
    stub.call(routines.unwind);
    stub.restore();
    stub.end(name, beginning)
}

/// The trampoline that makes an ordered call once.
pub(crate) fn caller(
    name: &str,
    place: u64,
    beginning: &Beginning,
    routines: Routines,
    order: u64,
) -> Result<Stub, Error> {
    let mut stub = Assembler { bytes: Vec::new(), place };
    stub.save();
    stub.put_with(&[0x48, 0xbf], order);
    stub.call(routines.once);
    stub.restore();
    stub.end(name, beginning)
}

/// The trampoline that jumps to another function.
pub(crate) fn replacement(target: u64) -> Stub {
    let mut bytes = vec![0xff, 0x25, 0, 0, 0, 0];
    bytes.extend(target.to_le_bytes());
    Stub { bytes, places: Vec::new() }
}
