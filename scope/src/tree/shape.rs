//! The shape of the tree that gathers sources.

/// How many sources a node gathers, how deep the tree is, how many threads pull, how much is read at a time. None of it changes what
/// is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sources, or nodes, that a node gathers at most: 1 to 4,096.
    pub fan_out: usize,
    /// Levels of nodes at most; the root gathers what is left, however much that is: 1 to 16.
    pub depth: usize,
    /// Threads that read during a pull: 1 to 256.
    pub threads: usize,
    /// Events that are read of a source before something is done with them: 64 to 1,048,576.
    pub batch: usize,
    /// Tuples that a source gives in one pull at most, about; the rest comes with the next ones. All sources together give four million
    /// at most, or 256 MiB.
    pub buffer: usize,
}

impl Default for Shape {
    /// One thread, nodes of 16 sources, batches of 4,096 events, a million tuples a pull and source.
    fn default() -> Shape {
        Shape { fan_out: 16, depth: 16, threads: 1, batch: 4096, buffer: 1 << 20 }
    }
}

impl Shape {
    /// The shape within what is possible.
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
