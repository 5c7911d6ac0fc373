//! Patterns of names: `*` stands for any characters; a pattern without one matches what contains it.

/// Whether `name` matches `pattern`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return name.contains(pattern) };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars() {
        for (pattern, name, want) in [
            ("exec", "exec.quantum", true),
            ("exec.*", "exec.quantum", true),
            ("*.quantum", "exec.quantum", true),
            ("e*c.*m", "exec.quantum", true),
            ("*", "", true),
            ("quantum*", "exec.quantum", false),
            ("*a*a*", "a", false),
            ("exec.quantum_us", "exec.quantum", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}
