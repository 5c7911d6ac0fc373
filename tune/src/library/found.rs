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
    listed_children(of).unwrap_or_else(|| looked_for_children(of))
}

fn looked_for_children(of: i32) -> Vec<i32> {
    processes().into_iter().filter(|pid| parent(*pid) == Some(of)).collect()
}

/// The processes `of` and their descendants.
pub(super) fn with_children(of: &[i32]) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let mut found = of.to_vec();
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        for child in children(pid) {
            if child != own && !found.contains(&child) {
                found.push(child);
            }
        }
    }
    found
}

/// The children of a process as the kernel lists them for each thread, which costs much less than to look at all
/// processes; `None` if this kernel has no such lists.
fn listed_children(of: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{of}/task")).ok()?.flatten() {
        let list = match std::fs::read_to_string(thread.path().join("children")) {
            Ok(list) => list,
            // A thread may have ended.
            Err(_) if !thread.path().exists() => continue,
            Err(_) => return None,
        };
        found.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(found)
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
        let (listed, looked_for) = (listed_children(own), looked_for_children(own));
        let _ = child.kill();
        let _ = child.wait();
        let pid = child.id().cast_signed();
        assert!(found[0] == own && found.contains(&pid), "{found:?}");
        assert!(listed.is_none_or(|listed| listed.contains(&pid)) && looked_for.contains(&pid));
        assert!(!using(&Glob::new("no-such-library*")).contains(&own));
    }
}
