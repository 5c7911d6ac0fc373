//! The shape of the tree that gathers sources.

/// The shape of a scope's tree: how many sources a node gathers, how deep the tree is, how many threads read,
/// how much is read at a time. The shape does not change which tuples are pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The most sources or nodes that a node gathers: 1 to 4,096.
    pub fan_out: usize,
    /// The most levels of nodes: 1 to 16. The root gathers all remaining nodes.
    pub depth: usize,
    /// Threads that read during a pull: 1 to 256.
    pub threads: usize,
    /// The number of events that are read of a source before operators run on them: 64 to 1,048,576.
    pub batch: usize,
    /// The approximate limit of tuples that a source gives in one pull; the next pulls return the rest. All
    /// sources together give at most four million tuples, or 256 MiB, in one pull.
    pub buffer: usize,
}

impl Default for Shape {
    /// One thread, nodes of 16 sources, batches of 4,096 events, a million tuples a pull and source.
    fn default() -> Shape {
        Shape { fan_out: 16, depth: 16, threads: 1, batch: 4096, buffer: 1 << 20 }
    }
}

impl Shape {
    /// The shape with all values clamped to their ranges.
    #[must_use]
    pub fn clamped(self) -> Shape {
        Shape {
            fan_out: self.fan_out.clamp(1, 4096),
            depth: self.depth.clamp(1, 16),
            threads: self.threads.clamp(1, 256),
            batch: self.batch.clamp(64, 1 << 20),
            buffer: self.buffer.clamp(64, 1 << 24),
        }
    }
}
