//! "Did you mean": the known name nearest to an unknown one.

/// The name nearest to `word`, if at most a third of the word's letters (at least one) are wrong, missing,
/// too many or swapped. Any number of letters that differ only in case count as one wrong letter.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let limit = (word.chars().count() / 3).max(1);
    let distance_to = |name: &str| if word.eq_ignore_ascii_case(name) { 1 } else { distance(word, name) };
    names
        .into_iter()
        .filter(|name| *name != word && name.len().abs_diff(word.len()) <= limit)
        .map(|name| (distance_to(name), name))
        .filter(|&(distance, name)| distance <= limit && distance < name.len().max(word.len()))
        .min()
        .map(|(_, name)| name)
}

/// Edits (change, add, remove a letter, swap two neighbours) from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    if swapped { best.min(rows[i - 2][j - 2] + 1) } else { best }
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let check =
            |word, names: &[&str], expected| assert_eq!(nearest(word, names.iter().copied()), expected);
        check("conect", &["net", "connect"], Some("connect"));
        check("inx", &["dec", "inc"], Some("inc"));
        check("Inc", &["inc", "inx"], Some("inc"));
        check("teh_box", &["the_box"], Some("the_box"));
        check("quux", &["inc", "dec"], None);
        check("a", &["b"], None);
        check("inc", &["inc"], None);
    }
}
