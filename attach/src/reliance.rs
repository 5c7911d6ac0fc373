//! Whether the callers of a function rely on the register of one of its arguments after a call.
//!
//! By the ABI no caller does. But a compiler that sees both functions lets a caller keep a value in a register
//! that the called function does not write (`-fipa-ra` of gcc). Such a caller has a direct call, in the same
//! module. This module looks at the instructions behind all direct calls of a function: as long as on each way
//! the register is written before it is read, nothing relies on it. If in doubt, it is relied on.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use std::collections::HashSet;

/// The largest number of instructions that are looked at behind a call.
const INSTRUCTIONS_MAX: usize = 256;
/// The largest number of bytes of code in which calls are searched.
const BYTES_MAX: usize = 64 << 20;

/// The code of a module: each part's address and bytes.
#[derive(Debug, Default)]
pub(crate) struct Text(Vec<(u64, Vec<u8>)>);

/// A jump or call to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Site {
    address: u64,
    end: u64,
    is_call: bool,
}

impl Text {
    pub(crate) fn new(parts: Vec<(u64, Vec<u8>)>) -> Text {
        Text(parts)
    }

    /// Whether a caller of the function at `target` may read the register after a call, before it writes it.
    /// `bounds` returns the beginning and the size of the function that contains an address.
    pub(crate) fn relies(
        &self,
        target: u64,
        register: Register,
        bounds: impl Fn(u64) -> Option<(u64, u64)>,
    ) -> bool {
        if self.0.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > BYTES_MAX {
            return true;
        }
        // A caller that writes the register itself does not promise its own callers to keep it.
        let is_written_in = |place: u64| {
            bounds(place).is_some_and(|(begin, size)| {
                let code = self.from(begin).unwrap_or_default();
                writes(&code[..code.len().min(size as usize)], begin, register)
            })
        };
        self.sites(target).into_iter().any(|site| match site.is_call {
            true => self.is_read(site.end, register, || is_written_in(site.address)),
            // A jump to the function from within it is no call; another function that ends by a jump to it
            // passes its promise on.
            false => {
                bounds(site.address).is_none_or(|(begin, _)| begin != target) && !is_written_in(site.address)
            }
        })
    }

    /// The bytes from an address on.
    fn from(&self, address: u64) -> Option<&[u8]> {
        let holds =
            |(begin, bytes): &&(u64, Vec<u8>)| (*begin..*begin + bytes.len() as u64).contains(&address);
        let (begin, bytes) = self.0.iter().find(holds)?;
        Some(&bytes[(address - begin) as usize..])
    }

    /// All bytes that may be direct calls of the target, or jumps to it.
    fn sites(&self, target: u64) -> Vec<Site> {
        let mut sites = Vec::new();
        for (begin, bytes) in &self.0 {
            // call, jmp, and the second byte of conditional jumps, each with a distance of 32 bits
            let mut far = |at: usize, is_call: bool| {
                let Some(distance) = bytes.get(at + 1..at + 5) else { return };
                let distance = i32::from_le_bytes(distance.try_into().expect("4 bytes"));
                let address = begin + at as u64;
                if (address + 5).wrapping_add_signed(i64::from(distance)) == target {
                    sites.push(Site { address, end: address + 5, is_call });
                }
            };
            memchr::memchr_iter(0xe8, bytes).for_each(|at| far(at, true));
            memchr::memchr_iter(0xe9, bytes).for_each(|at| far(at, false));
            let is_conditional = |at: &usize| bytes.get(at + 1).is_some_and(|byte| byte & 0xf0 == 0x80);
            memchr::memchr_iter(0x0f, bytes).filter(is_conditional).for_each(|at| far(at + 1, false));
            for (at, two) in bytes.windows(2).enumerate().skip((target.saturating_sub(begin + 130)) as usize)
            {
                let address = begin + at as u64;
                if address > target + 130 {
                    break;
                }
                let is_short = two[0] == 0xeb || two[0] & 0xf0 == 0x70 || (0xe0..=0xe3).contains(&two[0]);
                let to = (address + 2).wrapping_add_signed(i64::from(two[1].cast_signed()));
                if is_short && to == target {
                    sites.push(Site { address, end: address + 2, is_call: false });
                }
            }
        }
        sites
    }

    /// Whether the register may be read before it is written, from `begin` on. `is_written` says whether the
    /// function that contains this code writes the register anywhere.
    fn is_read(&self, begin: u64, register: Register, is_written: impl Fn() -> bool) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let mut seen = HashSet::new();
        let mut ways = vec![begin];
        while let Some(mut place) = ways.pop() {
            while seen.insert(place) {
                if seen.len() > INSTRUCTIONS_MAX {
                    return true;
                }
                let Some(code) = self.from(place) else { return true };
                let instruction = Decoder::with_ip(64, code, place, DecoderOptions::NONE).decode();
                match use_of(&mut factory, &instruction, register) {
                    Use::Read => return true,
                    Use::Write => break,
                    Use::None => {}
                }
                let is_near = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
                match instruction.flow_control() {
                    FlowControl::Next => place = instruction.next_ip(),
                    FlowControl::UnconditionalBranch if is_near => place = instruction.near_branch_target(),
                    FlowControl::ConditionalBranch if is_near => {
                        ways.push(instruction.near_branch_target());
                        place = instruction.next_ip();
                    }
                    FlowControl::Return if is_written() => break,
                    FlowControl::Exception if instruction.mnemonic() == Mnemonic::Ud2 => break,
                    // Another call may have the register as its own argument.
                    _ => return true,
                }
            }
        }
        false
    }
}

/// What an instruction does with a register first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    None,
    Read,
    /// The whole register gets another value.
    Write,
}

fn use_of(factory: &mut InstructionInfoFactory, instruction: &Instruction, register: Register) -> Use {
    if instruction.is_invalid() {
        return Use::Read;
    }
    let mut found = Use::None;
    let info = factory.info(instruction);
    for used in info.used_registers().iter().filter(|used| used.register().full_register() == register) {
        match used.access() {
            OpAccess::Write if used.register().size() >= 4 => found = Use::Write,
            // A part of the register, or the register under a condition: the rest stays.
            OpAccess::Write | OpAccess::CondWrite | OpAccess::None | OpAccess::NoMemAccess => {}
            _ => return Use::Read,
        }
    }
    found
}

/// Whether any of these instructions writes the register.
fn writes(code: &[u8], begin: u64, register: Register) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let mut decoder = Decoder::with_ip(64, code, begin, DecoderOptions::NONE);
    while decoder.can_decode() {
        if use_of(&mut factory, &decoder.decode(), register) == Use::Write {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTION: u64 = 0x2000;
    const CALLER: u64 = 0x1000;

    /// Whether a caller relies on `rsi` that calls the function, and goes on with this code.
    fn relies(behind: &[u8]) -> bool {
        let mut code = vec![0xe8];
        code.extend(((FUNCTION - CALLER - 5) as u32).to_le_bytes());
        code.extend(behind);
        let size = code.len() as u64;
        code.resize(code.len() + 16, 0xcc);
        let text = Text::new(vec![(CALLER, code), (FUNCTION, vec![0xc3; 16])]);
        text.relies(FUNCTION, Register::RSI, |place| (place < CALLER + size).then_some((CALLER, size)))
    }

    #[test]
    fn the_first_use_behind_a_call_decides() {
        for (behind, expected) in [
            // mov rax, rsi; ret
            (&[0x48, 0x89, 0xf0, 0xc3][..], true),
            // xor esi, esi; mov rax, rsi; ret
            (&[0x31, 0xf6, 0x48, 0x89, 0xf0, 0xc3], false),
            // mov sil, 1; ret: a part of the register is kept
            (&[0x40, 0xb6, 1, 0xc3], true),
            // cmovz rsi, rax, which may keep the register; mov esi, 1; ret
            (&[0x48, 0x0f, 0x44, 0xf0, 0xbe, 1, 0, 0, 0, 0xc3], false),
            // ret, of a function that does not write the register
            (&[0xc3], true),
            // jmp over mov esi, 1; ret: the function does write it
            (&[0xeb, 5, 0xbe, 1, 0, 0, 0, 0xc3], false),
            // test al, al; je to the ret; mov [rsi], al; ret; mov esi, 1
            (&[0x84, 0xc0, 0x74, 2, 0x88, 0x06, 0xc3, 0xbe, 1, 0, 0, 0], true),
            // call rax
            (&[0xff, 0xd0, 0xbe, 1, 0, 0, 0, 0xc3], true),
            // mov esi, 1; call rax; ret
            (&[0xbe, 1, 0, 0, 0, 0xff, 0xd0, 0xc3], false),
            // ud2
            (&[0x0f, 0x0b], false),
            // jmp rax
            (&[0xff, 0xe0], true),
            // an endless loop
            (&[0xeb, 0xfe], false),
        ] {
            assert_eq!(relies(behind), expected, "{behind:x?}");
        }
    }

    #[test]
    fn jumps_to_the_function_pass_the_promise_on() {
        let caller = |bytes: &[u8]| {
            let mut code = bytes.to_vec();
            let next = CALLER + code.len() as u64 + 4;
            code.extend(((FUNCTION - next) as u32).to_le_bytes());
            let size = code.len() as u64;
            let text = Text::new(vec![(CALLER, code), (FUNCTION, vec![0xc3; 16])]);
            text.relies(FUNCTION, Register::RSI, |place| (place < FUNCTION).then_some((CALLER, size)))
        };
        // jmp; je; mov esi, 1 and jmp
        assert!(caller(&[0xe9]) && caller(&[0x0f, 0x84]));
        assert!(!caller(&[0xbe, 1, 0, 0, 0, 0xe9]));
        // A short jump: jmp +0x0e, and the function behind it.
        let text =
            Text::new(vec![(FUNCTION - 16, [vec![0xeb, 0x0e], vec![0x90; 14], vec![0xc3; 8]].concat())]);
        assert!(text.relies(FUNCTION, Register::RSI, |_| None));
        // Nothing calls it: then it is called by its address, and so by the ABI.
        let text = Text::new(vec![(FUNCTION - 16, vec![0x90; 32])]);
        assert!(!text.relies(FUNCTION, Register::RSI, |_| None));
    }
}
