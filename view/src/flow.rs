//! The order of a network's components along the flow: from sources to sinks, along the streams between them.

use std::collections::{HashMap, HashSet};

use thalweg_monitor::{Report, Stream};

/// The place of each component in the flow. If streams form a circle, the order of its components begins at
/// the first one that is reached.
#[derive(Debug)]
pub struct Flow {
    places: HashMap<String, usize>,
}

impl Flow {
    /// The flow along a report's streams.
    pub fn of(report: &Report) -> Flow {
        let nodes = nodes(&report.streams);
        let number: HashMap<&str, usize> = nodes.iter().enumerate().map(|(n, &path)| (path, n)).collect();
        // Streams that leave the network come last.
        let (exits, others): (Vec<&Stream>, Vec<&Stream>) =
            report.streams.iter().partition(|stream| stream.role == "exit");
        let edges = others.into_iter().chain(exits).filter_map(|stream| {
            Some((number[stream.writer.as_deref()?], number[stream.reader.as_deref()?]))
        });
        let order = order(nodes.len(), &edges.collect::<Vec<_>>());
        let places = order.iter().enumerate().map(|(place, &n)| (nodes[n].to_owned(), place)).collect();
        Flow { places }
    }

    /// A component's place; components without streams come after all others.
    pub fn place(&self, path: &str) -> usize {
        self.places.get(path).copied().unwrap_or(usize::MAX)
    }

    /// The place of a task in the flow, by its name.
    pub fn place_of_task(&self, name: &str) -> usize {
        self.place(name.rsplit_once('[').map_or(name, |(component, _)| component))
    }

    /// The place of a stream in the flow: the place of its writer, and then that of its reader.
    pub fn place_of_stream(&self, stream: &Stream) -> (usize, usize) {
        let place = |path: &Option<String>| path.as_deref().map_or(usize::MAX, |path| self.place(path));
        (place(&stream.writer), place(&stream.reader))
    }
}

/// The components with streams: those that write input messages first, then the others, in the order of the
/// streams.
fn nodes(streams: &[Stream]) -> Vec<&str> {
    let entries = streams.iter().filter(|stream| stream.role == "entry");
    let ends = entries.chain(streams).flat_map(|stream| [stream.writer.as_deref(), stream.reader.as_deref()]);
    let mut seen = HashSet::new();
    ends.flatten().filter(|path| seen.insert(*path)).collect()
}

/// The numbers below `count` in an order in which each edge leads forward, except edges that close a circle;
/// it is the reverse post-order of a depth-first search.
pub fn order(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut next = vec![Vec::new(); count];
    let mut has_input = vec![false; count];
    for &(from, to) in edges.iter().filter(|(from, to)| from != to) {
        next[from].push(to);
        has_input[to] = true;
    }
    let mut seen = vec![false; count];
    let mut ended = Vec::with_capacity(count);
    // The node that is visited last comes first in the order. Therefore nodes without incoming edges are
    // visited in reverse order; then circles without incoming edges, each from its first node.
    let begins = (0..count).rev().filter(|&n| !has_input[n]);
    for root in begins.chain(0..count) {
        visit(root, &next, &mut seen, &mut ended);
    }
    ended.reverse();
    ended
}

/// Visits the unseen nodes that can be reached from `root`, and appends each to `ended` after the nodes that
/// can be reached from it.
fn visit(root: usize, next: &[Vec<usize>], seen: &mut [bool], ended: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[root], true) {
        return;
    }
    // The number of unvisited successors of each node on the path; the first successor is visited last, so it
    // comes first in the order.
    let mut path = vec![(root, next[root].len())];
    while let Some((n, left)) = path.last_mut() {
        if *left == 0 {
            ended.push(*n);
            path.pop();
            continue;
        }
        *left -= 1;
        let to = next[*n][*left];
        if !std::mem::replace(&mut seen[to], true) {
            path.push((to, next[to].len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: usize, edges: &[(usize, usize)], want: &[usize]) {
        assert_eq!(order(count, edges), want, "{edges:?}");
    }

    #[test]
    fn along_the_streams() {
        check(0, &[], &[]);
        check(4, &[(2, 0), (0, 3), (3, 1)], &[2, 0, 3, 1]);
        // The branches of a network are listed one after the other, and the node that joins them comes after
        // them.
        check(5, &[(0, 2), (0, 1), (1, 3), (2, 3), (3, 4)], &[0, 2, 1, 3, 4]);
        // Two flows that are not connected are listed one after the other.
        check(4, &[(0, 1), (2, 3)], &[0, 1, 2, 3]);
    }

    #[test]
    fn circles_have_a_beginning() {
        check(4, &[(0, 1), (1, 2), (2, 1), (2, 3)], &[0, 1, 2, 3]);
        check(3, &[(0, 1), (1, 1), (1, 2)], &[0, 1, 2]);
        check(3, &[(0, 1), (1, 2), (2, 0)], &[0, 1, 2]);
        check(5, &[(3, 4), (0, 1), (1, 0), (1, 2)], &[0, 1, 2, 3, 4]);
    }

    #[test]
    fn every_order_has_all_and_only_edges_of_circles_lead_back() {
        let mut chance = thalweg_chance::Chance::new(11);
        for _ in 0..500 {
            let count = 1 + chance.below(12) as usize;
            let mut edges: Vec<(usize, usize)> = Vec::new();
            for _ in 0..chance.below(20) {
                edges.push((chance.below(count as u64) as usize, chance.below(count as u64) as usize));
            }
            let found = order(count, &edges);
            let mut sorted = found.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            let place = |n: usize| found.iter().position(|&m| m == n).unwrap();
            for &(from, to) in &edges {
                assert!(
                    place(from) <= place(to) || leads(to, from, &edges),
                    "{from} to {to}: {edges:?}, {found:?}"
                );
            }
        }
    }

    /// Whether the node `to` can be reached from the node `from`.
    fn leads(from: usize, to: usize, edges: &[(usize, usize)]) -> bool {
        let mut reached = vec![from];
        while let Some(&(_, next)) = edges.iter().find(|(a, b)| reached.contains(a) && !reached.contains(b)) {
            reached.push(next);
        }
        reached.contains(&to)
    }
}
