//! Shortening of names so that all stay different.

use std::collections::{HashMap, HashSet};

use super::shortened;

/// The text before and after the part in which names differ is kept only if it has at least this many
/// characters.
const APART_MIN: usize = 8;

/// The names in at most `width` characters each, so that equal names stay equal and different names stay
/// different; none if no way was found.
pub(crate) fn apart(names: &[&str], width: usize) -> Option<Vec<String>> {
    let mut different: Vec<&str> = names.to_vec();
    different.sort_unstable();
    different.dedup();
    let short = different_ones(&different, width)?;
    let short: HashMap<&str, &String> = different.iter().copied().zip(&short).collect();
    Some(names.iter().map(|name| short[name].clone()).collect())
}

/// As [`apart`], for names that are all different.
fn different_ones(names: &[&str], width: usize) -> Option<Vec<String>> {
    let mut short: Vec<String> = names.iter().map(|name| shortened(name, width)).collect();
    if all_differ(&short) {
        return fits(short, width);
    }
    let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
    for (n, short) in short.iter().enumerate() {
        alike.entry(short.clone()).or_default().push(n);
    }
    for group in alike.values().filter(|group| group.len() > 1) {
        let of_group: Vec<&str> = group.iter().map(|&n| names[n]).collect();
        for (&n, kept) in group.iter().zip(around_differences(&of_group, width)?) {
            short[n] = kept;
        }
    }
    if all_differ(&short) { fits(short, width) } else { None }
}

/// The common beginning and end of all names are shortened, and the differing middle is kept.
fn around_differences(names: &[&str], width: usize) -> Option<Vec<String>> {
    let names: Vec<Vec<char>> = names.iter().map(|name| name.chars().collect()).collect();
    let shortest = names.iter().map(Vec::len).min()?;
    let same = |at: &dyn Fn(&Vec<char>) -> char| names.iter().all(|name| at(name) == at(&names[0]));
    let head = (0..shortest).take_while(|&n| same(&|name| name[n])).count();
    let tail = (0..shortest - head).take_while(|&n| same(&|name| name[name.len() - 1 - n])).count();
    // A cut at a `/` keeps the parts of a path complete, which is easier to read.
    let from = names[0][..head].iter().rposition(|&c| c == '/').map_or(0, |slash| slash + 1);
    let until = names[0][names[0].len() - tail..].iter().position(|&c| c == '/').map_or(0, |n| tail - n);
    kept_between(&names, from, until, width).or_else(|| kept_between(&names, head, tail, width))
}

/// Shortens the middles of the names, without their first `head` and last `tail` characters.
fn kept_between(names: &[Vec<char>], head: usize, tail: usize, width: usize) -> Option<Vec<String>> {
    if width < APART_MIN {
        return None;
    }
    let middles: Vec<String> =
        names.iter().map(|name| name[head..name.len() - tail].iter().collect()).collect();
    let longest = middles.iter().map(|middle| middle.chars().count()).max()?;
    let room = width - 4;
    let middles = match longest <= room {
        true => middles,
        false if head + tail == 0 => return splits(names, width),
        false => different_ones(&middles.iter().map(String::as_str).collect::<Vec<_>>(), room)?,
    };
    let rest = width - 2 - longest.min(room);
    let tail_kept = tail.min(rest.div_ceil(2));
    let head_kept = head.min(rest - tail_kept);
    let tail_kept = tail.min(rest - head_kept);
    let each = names.iter().zip(middles).map(|(name, middle)| {
        let mut text: String = name[..head_kept].iter().collect();
        text.push_str(if head_kept < head { "…" } else { "" });
        text.push_str(&middle);
        text.push_str(if tail_kept < tail { "…" } else { "" });
        text.extend(&name[name.len() - tail_kept..]);
        text
    });
    Some(each.collect())
}

/// Cuts the names in their middles, with the longest kept beginning for which all names stay different.
fn splits(names: &[Vec<char>], width: usize) -> Option<Vec<String>> {
    let kept = |name: &Vec<char>, head: usize| -> String {
        if name.len() <= width {
            return name.iter().collect();
        }
        let tail = width - 1 - head;
        let (start, end) = (&name[..head], &name[name.len() - tail..]);
        start.iter().chain(&['…']).chain(end).collect()
    };
    (0..width)
        .rev()
        .map(|head| names.iter().map(|name| kept(name, head)).collect())
        .find(|all: &Vec<_>| all_differ(all))
}

fn all_differ(names: &[String]) -> bool {
    names.iter().collect::<HashSet<_>>().len() == names.len()
}

fn fits(names: Vec<String>, width: usize) -> Option<Vec<String>> {
    names.iter().all(|name| name.chars().count() <= width.max(3)).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], width: usize, want: &[&str]) {
        assert_eq!(
            apart(names, width).as_deref(),
            Some(want.iter().map(|&w| w.to_owned()).collect::<Vec<_>>().as_slice())
        );
    }

    #[test]
    fn what_differs_is_kept() {
        check(&["net/alpha", "net/beta"], 20, &["net/alpha", "net/beta"]);
        // Only middles are shortened, as long as the names stay different.
        check(&["net/a/long/path/left", "net/a/long/path/right"], 14, &["net/…path/left", "net/…ath/right"]);
        // The two names differ in the middle, so the part in which they differ is kept.
        check(
            &["network/rounds/star[1]/filter/at/the/end", "network/rounds/star[12]/filter/at/the/end"],
            20,
            &["netwo…star[1]…e/end", "netwo…star[12]…e/end"],
        );
        // Equal names stay equal.
        check(&["a/very/long/name", "a/very/long/name"], 10, &["a/v…g/name", "a/v…g/name"]);
    }

    #[test]
    fn different_names_stay_different_or_are_not_made_so_short() {
        let mut chance = thalweg_chance::Chance::new(7);
        for _ in 0..300 {
            let words = ["a", "net", "left", "right", "star[1]", "star[12]", "collector", "filter#2"];
            let count = 2 + chance.below(20) as usize;
            let name = |chance: &mut thalweg_chance::Chance| {
                let parts = 1 + chance.below(9);
                let parts: Vec<&str> = (0..parts).map(|_| words[chance.below(8) as usize]).collect();
                parts.join("/")
            };
            let names: Vec<String> = (0..count).map(|_| name(&mut chance)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            for width in 8..80 {
                let Some(short) = apart(&names, width) else { continue };
                for (a, short_a) in names.iter().zip(&short) {
                    assert!(short_a.chars().count() <= width, "{a} in {width}: {short_a}");
                    for (b, short_b) in names.iter().zip(&short) {
                        assert_eq!(a == b, short_a == short_b, "{a} and {b} in {width}: {short_a}");
                    }
                }
            }
            let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
            assert!(apart(&names, longest).is_some());
        }
    }
}
