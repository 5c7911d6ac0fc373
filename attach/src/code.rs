//! Beginnings of functions: whether a jump can replace them, and their form at another address.

use crate::error::Error;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register, RflagsBits,
};

/// Bytes of the jump that replaces the beginning of a function.
pub(crate) const JUMP_BYTES: usize = 5;
/// Registers of the arguments, as the ABI of System V orders them.
pub(crate) const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];
/// Registers of the floating-point arguments, each named by the largest register that it is a part of.
pub(crate) const FLOATS: [Register; 8] = [
    Register::ZMM0,
    Register::ZMM1,
    Register::ZMM2,
    Register::ZMM3,
    Register::ZMM4,
    Register::ZMM5,
    Register::ZMM6,
    Register::ZMM7,
];

/// A function's code.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) address: u64,
    /// The function's instructions, and the bytes after them up to the length of the jump.
    bytes: Vec<u8>,
    /// The length of the function.
    len: usize,
}

/// The beginning of a function: whole instructions that the jump overwrites.
#[derive(Clone, Debug)]
pub(crate) struct Beginning {
    instructions: Vec<Instruction>,
    bytes: Vec<u8>,
    /// The address after the overwritten instructions.
    pub(crate) end: u64,
    /// Whether the function, or its caller, may use the flags that the processor has on entry.
    pub(crate) may_use_flags: bool,
}

/// A beginning moved to another address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) bytes: Vec<u8>,
    /// The old address of each instruction after the first, and the new one as an offset.
    pub(crate) places: Vec<(u64, usize)>,
}

impl Code {
    /// The code of a function of `len` bytes. `bytes` also has the bytes after the function that the jump may
    /// need.
    pub(crate) fn new(address: u64, bytes: Vec<u8>, len: usize) -> Code {
        Code { address, bytes, len }
    }

    fn decoded(&self) -> impl Iterator<Item = Instruction> + '_ {
        let end = self.len.min(self.bytes.len());
        let mut decoder = Decoder::with_ip(64, &self.bytes[..end], self.address, DecoderOptions::NONE);
        std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
    }

    /// The instructions that the jump overwrites, if nothing enters them in the middle.
    pub(crate) fn beginning(&self, name: &str) -> Result<Beginning, Error> {
        if self.address % 4096 > 4096 - JUMP_BYTES as u64 {
            return Err(Error::new(format!(
                "`{name}` begins {} bytes before the end of a page: a jump across it cannot be written at once",
                4096 - self.address % 4096
            )));
        }
        let mut decoder = Decoder::with_ip(64, &self.bytes, self.address, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        let mut covered = 0;
        while covered < JUMP_BYTES {
            let instruction = decoder.decode();
            let is_padding = covered >= self.len;
            if instruction.is_invalid() || (is_padding && !is_filler(&instruction)) {
                return Err(Error::new(format!(
                    "`{name}` has {} bytes: it is too short for a jump of {JUMP_BYTES} bytes at its beginning",
                    self.len
                )));
            }
            covered += instruction.len();
            instructions.push(instruction);
        }
        let end = self.address + covered as u64;
        if let Some(from) = self.enters(self.address + 1..end) {
            return Err(Error::new(format!(
                "`{name}` jumps into its own first {covered} bytes (from {from:#x}): they cannot be replaced"
            )));
        }
        let may_use_flags = self.may_use_flags();
        Ok(Beginning { instructions, bytes: self.bytes[..covered].to_vec(), end, may_use_flags })
    }

    /// The address of an instruction that jumps into this range.
    pub(crate) fn enters(&self, there: std::ops::Range<u64>) -> Option<u64> {
        let mut jumps = self.decoded().filter(is_branch);
        jumps.find(|jump| there.contains(&jump.near_branch_target())).map(|jump| jump.ip())
    }

    /// Whether the flags that the processor has on entry may be used: before the function's first branch, they
    /// are not all written, or one is read before that.
    fn may_use_flags(&self) -> bool {
        const ALL: u32 = RflagsBits::OF
            | RflagsBits::SF
            | RflagsBits::ZF
            | RflagsBits::AF
            | RflagsBits::CF
            | RflagsBits::PF;
        let mut written = 0;
        for instruction in self.decoded() {
            if instruction.rflags_read() & ALL & !written != 0 {
                return true;
            }
            written |= instruction.rflags_modified();
            if written & ALL == ALL {
                return false;
            }
            if instruction.flow_control() != FlowControl::Next {
                return true;
            }
        }
        true
    }

    /// Whether the function's own instructions write this register, or a part of it.
    pub(crate) fn writes(&self, register: Register) -> bool {
        let mut factory = InstructionInfoFactory::new();
        self.decoded().any(|instruction| {
            let used = factory.info(&instruction).used_registers();
            used.iter().any(|used| {
                used.register().full_register() == register
                    && matches!(
                        used.access(),
                        OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
                    )
            })
        })
    }
}

impl Beginning {
    /// The instructions moved to another address, followed by a jump to the rest of the function.
    pub(crate) fn at(&self, name: &str, place: u64) -> Result<Moved, Error> {
        let mut moved = Moved { bytes: Vec::new(), places: Vec::new() };
        let mut has_ended = false;
        for instruction in self.instructions.iter() {
            if has_ended {
                break;
            }
            if instruction.ip() != self.instructions[0].ip() {
                moved.places.push((instruction.ip(), moved.bytes.len()));
            }
            let at = (instruction.ip() - self.instructions[0].ip()) as usize;
            let bytes = &self.bytes[at..at + instruction.len()];
            self.one(name, instruction, bytes, place, &mut moved.bytes)?;
            let flow = instruction.flow_control();
            has_ended |= matches!(flow, FlowControl::Return | FlowControl::UnconditionalBranch);
        }
        if !has_ended {
            jump(&mut moved.bytes, place, self.end, name)?;
        }
        Ok(moved)
    }

    fn one(
        &self,
        name: &str,
        instruction: &Instruction,
        bytes: &[u8],
        place: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let refused = |what: &str| {
            Err(Error::new(format!("`{name}` begins with {what}, which cannot be moved elsewhere")))
        };
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::Return => {
                let begin = into.len();
                into.extend(bytes);
                if instruction.is_ip_rel_memory_operand() {
                    let Some((at, old)) = displacement(instruction, bytes) else {
                        return refused("an unusual instruction");
                    };
                    let target = instruction.ip_rel_memory_address();
                    debug_assert_eq!(instruction.next_ip().wrapping_add_signed(i64::from(old)), target);
                    let next = place + (begin + bytes.len()) as u64;
                    let new = distance(next, target, name)?;
                    into[begin + at..begin + at + 4].copy_from_slice(&new.to_le_bytes());
                }
                Ok(())
            }
            FlowControl::UnconditionalBranch if is_branch(instruction) => {
                jump(into, place, instruction.near_branch_target(), name)
            }
            FlowControl::ConditionalBranch
                if is_branch(instruction) && instruction.is_jcc_short_or_near() =>
            {
                let condition =
                    if bytes.contains(&0x0f) { bytes[bytes.len() - 5] } else { bytes[bytes.len() - 2] } & 0xf;
                into.extend([0x0f, 0x80 | condition]);
                let new = distance(place + into.len() as u64 + 4, instruction.near_branch_target(), name)?;
                into.extend(new.to_le_bytes());
                Ok(())
            }
            FlowControl::Call if is_branch(instruction) => {
                // The moved call has the original return address, so that no code finds an address of the
                // copy on the stack.
                let back = instruction.next_ip();
                if back < self.instructions[0].ip() + JUMP_BYTES as u64 {
                    return refused("a short call");
                }
                into.push(0x68);
                into.extend((back as u32).to_le_bytes());
                into.extend([0xc7, 0x44, 0x24, 0x04]);
                into.extend(((back >> 32) as u32).to_le_bytes());
                jump(into, place, instruction.near_branch_target(), name)
            }
            FlowControl::Interrupt | FlowControl::Exception => refused("a trap, a debugger's perhaps"),
            _ if instruction.mnemonic() == Mnemonic::Syscall => refused("a system call"),
            _ => refused("a branch of an unusual kind"),
        }
    }
}

/// Appends a jump to `target` to a sequence of instructions that begins at the address `place`.
fn jump(into: &mut Vec<u8>, place: u64, target: u64, name: &str) -> Result<(), Error> {
    let new = distance(place + into.len() as u64 + JUMP_BYTES as u64, target, name)?;
    into.push(0xe9);
    into.extend(new.to_le_bytes());
    Ok(())
}

/// A jump from one place to another.
pub(crate) fn jump_from(place: u64, target: u64, name: &str) -> Result<[u8; JUMP_BYTES], Error> {
    let mut bytes = Vec::new();
    jump(&mut bytes, place, target, name)?;
    Ok(bytes.try_into().expect("a jump has five bytes"))
}

fn distance(from: u64, to: u64, name: &str) -> Result<i32, Error> {
    i32::try_from(to.wrapping_sub(from).cast_signed()).map_err(|_| {
        Error::new(format!("`{name}` refers to something more than 2 GiB from any free memory near it"))
    })
}

fn is_branch(instruction: &Instruction) -> bool {
    instruction.op_count() > 0
        && matches!(
            instruction.op0_kind(),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
        )
}

/// Whether the instruction is padding that compilers put between functions.
fn is_filler(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
}

/// The offset of the displacement in the instruction, and its value.
fn displacement(instruction: &Instruction, bytes: &[u8]) -> Option<(usize, i32)> {
    let old = instruction.ip_rel_memory_address().wrapping_sub(instruction.next_ip()) as i32;
    // Only immediates follow the displacement, so the last position with these bytes is taken.
    (0..=bytes.len().checked_sub(4)?).rev().map(|at| (at, &bytes[at..at + 4])).find_map(|(at, four)| {
        let found = i32::from_le_bytes(four.try_into().ok()?);
        let with = |new: i32| {
            let mut changed = bytes.to_vec();
            changed[at..at + 4].copy_from_slice(&new.to_le_bytes());
            let other = Decoder::with_ip(64, &changed, instruction.ip(), DecoderOptions::NONE).decode();
            other.code() == instruction.code()
                && other.is_ip_rel_memory_operand()
                && other.ip_rel_memory_address() == instruction.next_ip().wrapping_add_signed(i64::from(new))
        };
        (found == old && with(old ^ 0x10)).then_some((at, old))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beginning(bytes: &[u8], len: usize) -> Result<Beginning, Error> {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len() + 16, 0xcc);
        Code::new(0x1000, padded, len).beginning("f")
    }

    fn moved(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let beginning = beginning(bytes, bytes.len()).map_err(|error| error.to_string())?;
        beginning.at("f", 0x5000).map(|moved| moved.bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn plain_instructions_stay_as_they_are() {
        // push rbp; mov rbp, rsp; sub rsp, 16; ret
        let bytes = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3];
        let moved =
            beginning(&bytes, 9).and_then(|beginning| beginning.at("f", 0x5000)).expect("it can be moved");
        assert_eq!(moved.bytes[..8], bytes[..8]);
        // jmp 0x1008, from 0x500d
        assert_eq!(moved.bytes[8..], [0xe9, 0xfb, 0xbf, 0xff, 0xff]);
        assert_eq!(moved.places, [(0x1001, 1), (0x1004, 4)]);
    }

    #[test]
    fn operands_relative_to_the_instruction_are_found_again() {
        // mov rax, [rip + 0x100] refers to 0x1107; at 0x5000 that is 0x4000 less.
        let moved = moved(&[0x48, 0x8b, 0x05, 0, 1, 0, 0, 0xc3]).expect("it can be moved");
        assert_eq!(moved[..7], [0x48, 0x8b, 0x05, 0, 0xc1, 0xff, 0xff]);
        // cmp dword ptr [rip + 5], 5: the immediate looks like the distance.
        let moved = super::tests::moved(&[0x83, 0x3d, 5, 0, 0, 0, 5, 0xc3]).expect("it can be moved");
        assert_eq!(moved[..7], [0x83, 0x3d, 5, 0xc0, 0xff, 0xff, 5]);
    }

    #[test]
    fn branches_are_made_long() {
        // test edi, edi; je +0x20: 0x1024
        let moved = moved(&[0x85, 0xff, 0x74, 0x20, 0x90, 0xc3]).expect("it can be moved");
        assert_eq!(moved[..8], [0x85, 0xff, 0x0f, 0x84, 0x1c, 0xc0, 0xff, 0xff]);
        // sub rsp, 8; call 0x2009: returns to 0x1009
        let moved =
            super::tests::moved(&[0x48, 0x83, 0xec, 8, 0xe8, 0, 0x10, 0, 0, 0xc3]).expect("it can be moved");
        assert_eq!(moved[4..9], [0x68, 9, 0x10, 0, 0]);
        assert_eq!(moved[9..17], [0xc7, 0x44, 0x24, 4, 0, 0, 0, 0]);
        assert_eq!(moved[17], 0xe9);
    }

    #[test]
    fn what_cannot_be_moved_is_refused() {
        let error = |bytes: &[u8], len| beginning(bytes, len).expect_err("it is refused").to_string();
        assert_eq!(
            error(&[0xc3, 0x55, 0x48, 0x89, 0xe5], 1),
            "`f` has 1 bytes: it is too short for a jump of 5 bytes at its beginning"
        );
        // xor eax, eax; dec edi; jne to the dec; ret
        assert_eq!(
            error(&[0x31, 0xc0, 0xff, 0xcf, 0x75, 0xfc, 0xc3], 7),
            "`f` jumps into its own first 6 bytes (from 0x1004): they cannot be replaced"
        );
        // call rax; ret
        assert_eq!(
            moved(&[0xff, 0xd0, 0x90, 0x90, 0x90, 0xc3]),
            Err("`f` begins with a branch of an unusual kind, which cannot be moved elsewhere".to_owned())
        );
        // A lone `ret` before padding is long enough.
        assert!(beginning(&[0xc3, 0x90, 0x90, 0x90, 0x90, 0x90], 1).is_ok());
        let late = Code::new(0x1ffd, vec![0x90; 16], 16).beginning("f").expect_err("it crosses a page");
        assert!(late.to_string().contains("3 bytes before the end of a page"), "{late}");
    }

    #[test]
    fn flags_that_may_be_used() {
        for (bytes, expected) in [
            // push rbp; mov rbp, rsp; sub rsp, 16; ret
            (&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3][..], false),
            // lea eax, [rdi + rdi * 2]; ret
            (&[0x8d, 0x04, 0x7f, 0xc3, 0x90, 0x90], true),
            // adc eax, eax; ret
            (&[0x11, 0xc0, 0xc3, 0x90, 0x90], true),
            // inc eax, which leaves the carry; jc +5; ret
            (&[0xff, 0xc0, 0x72, 5, 0xc3, 0x90], true),
            // inc eax; test eax, eax; jc +5; ret
            (&[0xff, 0xc0, 0x85, 0xc0, 0x72, 5, 0xc3], false),
        ] {
            let found = beginning(bytes, bytes.len()).expect("it can be moved").may_use_flags;
            assert_eq!(found, expected, "{bytes:x?}");
        }
    }

    #[test]
    fn written_registers() {
        // mov edx, 5; ret
        let code = Code::new(0x1000, vec![0xba, 5, 0, 0, 0, 0xc3], 6);
        assert!(code.writes(ARGUMENTS[2]) && !code.writes(ARGUMENTS[1]));
        // cvtss2sd xmm1, xmm1; ret
        let code = Code::new(0x1000, vec![0xf3, 0x0f, 0x5a, 0xc9, 0xc3], 5);
        assert!(code.writes(FLOATS[1]) && !code.writes(FLOATS[0]));
    }
}
