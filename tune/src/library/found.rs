//! Finds the processes that use a library, and the children of processes.

use thalweg_pack::Glob;

/// The processes of this machine that may be inspected.
pub(super) fn processes() -> Vec<i32> {
    let Ok(list) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = list.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = std::process::id().cast_signed();
    numbers.filter(|pid| *pid != own).collect()
}

/// The processes that have mapped a library's code.
pub(super) fn using(library: &Glob) -> Vec<i32> {
    let uses = |pid: &i32| {
        let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        String::from_utf8_lossy(&maps).lines().any(|line| {
            let file = line.rsplit('/').next().unwrap_or("");
            line.contains("r-xp") && line.contains('/') && library.matches(file)
        })
    };
    processes().into_iter().filter(uses).collect()
}

/// The children of a process.
pub(super) fn children(of: i32) -> Vec<i32> {
    processes().into_iter().filter(|pid| parent(*pid) == Some(of)).collect()
}

/// The processes `of` and their descendants.
pub(super) fn with_children(of: &[i32]) -> Vec<i32> {
    let parents: Vec<(i32, i32)> =
        processes().into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = of.to_vec();
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        for (child, _) in parents.iter().filter(|(_, parent)| *parent == pid) {
            if !found.contains(child) {
                found.push(*child);
            }
        }
    }
    found
}

/// The parent of a process.
pub(super) fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let own = std::process::id().cast_signed();
        let found = with_children(&[own]);
        let _ = child.kill();
        let _ = child.wait();
        assert!(found[0] == own && found.contains(&child.id().cast_signed()), "{found:?}");
        assert!(!using(&Glob::new("no-such-library*")).contains(&own));
    }
}
