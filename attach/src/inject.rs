//! Making a stopped thread of the target run a system call.
//!
//! No code is written for the system call. The tracer sets the thread's program counter to a `syscall; ret`
//! in the target's code, with a stack on which the return goes to the end of signal handlers
//! (`rt_sigreturn`), followed by a signal frame with the thread's own registers. Returning through that
//! frame, the thread restores its registers by itself if this process is killed meanwhile. If this process is
//! not killed, it restores the thread's registers, which restarts an interrupted system call.

use crate::error::Error;
use crate::process::{Mapping, Process};
use crate::stacks::segments;
use crate::tracer::{Registers, Thread};

/// `syscall`
const SYSCALL: &[u8] = &[0x0f, 0x05];
/// `syscall; ret`
const CALL: &[u8] = &[0x0f, 0x05, 0xc3];
/// `mov rax, 15; syscall`, as glibc has it and as musl has it.
const RESTORERS: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]];
/// The size of the red zone, which the thread may use below its stack pointer.
const RED_ZONE: u64 = 128;
/// The size of a signal frame without the vector registers.
const FRAME_BYTES: usize = 512;
/// The offset of the user registers in the frame, after flags, link and alternate stack.
const FRAME_REGISTERS: usize = 40;
const FRAME_MASK: usize = FRAME_REGISTERS + 256;
/// The offset, within the saved vector registers, of the part in which a signal frame states their size.
const XSTATE_SIZES: usize = 464;
const XSTATE_MAGIC_1: u32 = 0x4650_5853;
const XSTATE_MAGIC_2: u32 = 0x4650_5845;

/// The addresses of instructions in the target's code that a stopped thread is made to execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gadgets {
    call: u64,
    /// The address of the code to which signal handlers return (`rt_sigreturn`).
    pub(crate) restorer: u64,
}

impl Gadgets {
    /// Searches the target's code for these instructions, in the C library first.
    pub(crate) fn find(process: &Process, maps: &[Mapping]) -> Result<Gadgets, Error> {
        let mut code: Vec<&Mapping> =
            maps.iter().filter(|mapping| mapping.is_executable && mapping.is_readable).collect();
        code.sort_by_key(|mapping| !is_c_library(&mapping.path));
        let (mut call, mut restorer) = (None, None);
        for mapping in code.into_iter().filter(|mapping| mapping.path != "[vsyscall]") {
            let mut bytes = vec![0; (mapping.end - mapping.begin).min(64 << 20) as usize];
            let read = process.read_some(mapping.begin, &mut bytes);
            let bytes = &bytes[..read];
            for at in memchr::memmem::find_iter(bytes, SYSCALL) {
                if call.is_none() && bytes[at..].starts_with(CALL) {
                    call = Some(mapping.begin + at as u64);
                }
                let ends = |restorer: &&&[u8]| bytes[..at + SYSCALL.len()].ends_with(restorer);
                if restorer.is_none()
                    && let Some(found) = RESTORERS.iter().find(ends)
                {
                    restorer = Some(mapping.begin + (at + SYSCALL.len() - found.len()) as u64);
                }
                if call.is_some() && restorer.is_some() {
                    break;
                }
            }
            if let (Some(call), Some(restorer)) = (call, restorer) {
                return Ok(Gadgets { call, restorer });
            }
        }
        Err(Error::new(
            "the program has neither the C library of GNU nor musl: attaching uses a few instructions of it",
        ))
    }

    /// Lets `thread` run the system call `number`. `data` is in the target's memory during the call, and its
    /// address is the first argument.
    pub(crate) fn call(
        &self,
        process: &Process,
        thread: &Thread,
        (number, mut arguments): (i64, [u64; 6]),
        data: &[u8],
    ) -> Result<i64, Error> {
        let failed = |error| Error::of("cannot run a system call in the target", error);
        let own = thread.registers().map_err(failed)?;
        let mask = thread.signal_mask().map_err(failed)?;
        let vectors = thread.vectors().map_err(failed)?;

        let mut top = own.rsp - RED_ZONE;
        let mut put = |bytes: &[u8], align: u64| {
            top = (top - bytes.len() as u64) & !(align - 1);
            process.write(top, bytes).map(|()| top)
        };
        if !data.is_empty() {
            arguments[0] = put(data, 8).map_err(failed)?;
        }
        let vectors = put(&vectors_of_frame(vectors), 64).map_err(failed)?;
        let frame = frame(&restarting(&own), mask, vectors);
        let frame = put(&frame, 16).map_err(failed)?;
        // The `ret` pops the restorer's address; the stack pointer then points to the frame, as after a
        // handler's return.
        let stack = put(&self.restorer.to_le_bytes(), 8).map_err(failed)?;
        debug_assert_eq!(stack + 8, frame);

        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let rax = number as u64;
        let calling = Registers {
            rip: self.call,
            rsp: stack,
            rax,
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..own
        };
        let result = (|| {
            // The registers are set before the signal mask, and restored after it: from the first step on,
            // the thread returns through the signal frame, which restores both, even if this process is
            // killed.
            thread.set_registers(&calling).map_err(failed)?;
            thread.set_signal_mask(u64::MAX).map_err(failed)?;
            thread.run_to_kernel()?;
            thread.run_to_kernel()?;
            let result = thread.registers().map_err(failed)?.rax.cast_signed();
            thread.interrupt()?;
            Ok(result)
        })();
        thread.set_signal_mask(mask).map_err(failed)?;
        thread.set_registers(&own).map_err(failed)?;
        result
    }
}

/// Whether the file is the C library or the loader.
fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl")
}

/// The registers with which the thread continues by itself: an interrupted system call is restarted.
fn restarting(own: &Registers) -> Registers {
    const RESTART_BLOCK: i64 = -516;
    let mut registers = *own;
    if own.orig_rax == u64::MAX {
        return registers;
    }
    match own.rax.cast_signed() {
        -514..=-512 => {
            registers.rax = own.orig_rax;
            registers.rip -= 2;
        }
        // Returning through a signal frame loses the remaining time of an interrupted wait, so its system
        // call returns EINTR.
        RESTART_BLOCK => registers.rax = (-i64::from(libc::EINTR)).cast_unsigned(),
        _ => {}
    }
    registers
}

/// The vector registers in the format of a signal frame.
fn vectors_of_frame(mut vectors: Vec<u8>) -> Vec<u8> {
    let size = vectors.len() as u32;
    // `ptrace` has the mask of present parts of the registers at this offset; a signal frame has it 8 bytes
    // later.
    let parts: [u8; 8] = vectors[XSTATE_SIZES..XSTATE_SIZES + 8].try_into().expect("8 bytes");
    vectors[XSTATE_SIZES..XSTATE_SIZES + 4].copy_from_slice(&XSTATE_MAGIC_1.to_le_bytes());
    vectors[XSTATE_SIZES + 4..XSTATE_SIZES + 8].copy_from_slice(&(size + 4).to_le_bytes());
    vectors[XSTATE_SIZES + 8..XSTATE_SIZES + 16].copy_from_slice(&parts);
    vectors[XSTATE_SIZES + 16..XSTATE_SIZES + 20].copy_from_slice(&size.to_le_bytes());
    vectors.extend(XSTATE_MAGIC_2.to_le_bytes());
    vectors
}

/// The user context of a signal frame.
fn frame(of: &Registers, mask: u64, vectors: u64) -> [u8; FRAME_BYTES] {
    /// The frame has vector registers, and a stack segment that is to be restored.
    const FLAGS: u64 = 1 | 2 | 4;
    /// Flags that no alternate stack has, so the kernel rejects them and leaves the thread's alternate stack
    /// unchanged.
    const NO_STACK: u64 = 0x1234;
    let segments = segments(of);
    let registers = [
        of.r8, of.r9, of.r10, of.r11, of.r12, of.r13, of.r14, of.r15, of.rdi, of.rsi, of.rbp, of.rbx, of.rdx,
        of.rax, of.rcx, of.rsp, of.rip, of.eflags, segments, 0, 0, 0, 0, vectors,
    ];
    let mut frame = [0; FRAME_BYTES];
    let mut put = |at: usize, word: u64| frame[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(0, FLAGS);
    put(24, NO_STACK);
    for (number, register) in registers.into_iter().enumerate() {
        put(FRAME_REGISTERS + 8 * number, register);
    }
    put(FRAME_MASK, mask);
    frame
}
