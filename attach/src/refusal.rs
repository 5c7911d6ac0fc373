//! Programs to which attaching is refused, each with the reason in a sentence.

use crate::error::Error;
use crate::modules::Modules;
use crate::process::{Mapping, Process};
use std::os::unix::fs::FileExt;

/// Refuses processes that cannot be attached to safely, by the kernel's information.
pub(crate) fn of_process(process: &Process, may_filter: bool) -> Result<(), Error> {
    let pid = process.pid();
    if pid.cast_unsigned() == std::process::id() {
        return Err(Error::new("a process cannot attach to itself"));
    }
    let program = std::fs::File::open(process.proc("exe"));
    let program = program.map_err(|_| {
        Error::new(format!("process {pid} has no program that can be read: it is the kernel's own, perhaps"))
    })?;
    let mut header = [0; 20];
    program
        .read_exact_at(&mut header, 0)
        .map_err(|error| Error::of("cannot read the program's file", error))?;
    if header[4] == 1 {
        return Err(Error::new(format!(
            "process {pid} is a 32-bit program: only those of 64 bits can be attached to"
        )));
    }
    for thread in process.threads() {
        // A thread that has just ended is no reason to refuse.
        let path = process.proc(&format!("task/{thread}/status"));
        let Ok(status) = std::fs::read_to_string(path) else { continue };
        of_status(pid, &status, may_filter)?;
    }
    Ok(())
}

/// Refuses a thread by its `/proc/PID/task/TID/status`.
fn of_status(pid: i32, status: &str, may_filter: bool) -> Result<(), Error> {
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    if let Some(tracer) = field("TracerPid").filter(|tracer| *tracer != "0") {
        return Err(Error::new(format!(
            "process {pid} is traced by process {tracer}, a debugger perhaps: end that first, since a process has one tracer"
        )));
    }
    if !may_filter && field("Seccomp").is_some_and(|mode| mode != "0") {
        return Err(Error::new(format!(
            "the system calls of process {pid} are filtered (seccomp), and the filter may kill it when it makes those that attaching \
             needs: mmap, munmap, memfd_create, close. `--filtered` says that the filter lets them pass"
        )));
    }
    if field("x86_Thread_features").is_some_and(|features| features.contains("shstk")) {
        return Err(Error::new(format!(
            "process {pid} has a shadow stack (CET), which forbids changed return addresses: start it with \
             GLIBC_TUNABLES=glibc.cpu.x86_shstk=off"
        )));
    }
    Ok(())
}

/// Refuses programs that execute a translation of their code, check their own memory, or call functions in a
/// way of their own.
pub(crate) fn of_code(process: &Process, maps: &[Mapping], modules: &Modules) -> Result<(), Error> {
    let pid = process.pid();
    let has_file = |part: &str| maps.iter().any(|mapping| mapping.path.contains(part));
    if has_file("/vgpreload_") || has_file("/valgrind/") {
        return Err(Error::new(format!(
            "process {pid} runs under valgrind, which executes a translation of its code"
        )));
    }
    if has_file("/qemu-x86_64") {
        return Err(Error::new(format!(
            "process {pid} runs under qemu, which executes a translation of its code"
        )));
    }
    for sanitizer in ["asan", "tsan", "msan", "hwasan"] {
        if has_file(&format!("/lib{sanitizer}.so")) || modules.have(&format!("__{sanitizer}_init")) {
            return Err(Error::new(format!(
                "process {pid} was built with a sanitizer ({sanitizer}), which takes what is attached for a mistake of the program"
            )));
        }
    }
    if modules.all().iter().any(|module| module.is_go) {
        return Err(Error::new(format!(
            "process {pid} is a program in Go, whose functions have other conventions and whose stacks move"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_by_their_status() {
        let of = |text: &str, may_filter| of_status(7, text, may_filter).map_err(|error| error.to_string());
        assert_eq!(of("Name:\tx\nTracerPid:\t0\nSeccomp:\t0\nx86_Thread_features:\t\n", false), Ok(()));
        assert!(of("TracerPid:\t12\n", true).is_err_and(|reason| reason.contains("traced by process 12")));
        assert!(of("Seccomp:\t2\n", false).is_err_and(|reason| reason.contains("seccomp")));
        assert_eq!(of("Seccomp:\t2\n", true), Ok(()));
        let shadow = of("x86_Thread_features:\tshstk wrss\n", true);
        assert!(shadow.is_err_and(|reason| reason.contains("shadow stack (CET)")));
    }
}
