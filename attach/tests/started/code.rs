//! The code of a process.

/// The lines of `/proc/PID/maps` for code from files, each with the bytes of the code in memory.
#[allow(dead_code, reason = "the benchmark has its own questions")]
pub(crate) fn code_of(pid: impl std::fmt::Display) -> Vec<(String, Vec<u8>)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("memory");
    let code = maps.lines().filter(|line| line.contains("r-xp") && line.contains('/'));
    let read = code.map(|line| {
        let (begin, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let [begin, end] = [begin, end].map(|text| u64::from_str_radix(text, 16).expect("a number"));
        let mut bytes = vec![0; (end - begin) as usize];
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, begin).expect("code");
        (line.to_owned(), bytes)
    });
    read.collect()
}
