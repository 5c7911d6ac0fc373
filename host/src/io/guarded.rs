//! An input that ends when the run should end, and that limits the number of bytes of each record.

use std::io::{self, BufRead, Read};

use super::place::Input;
use crate::interrupt::Interrupt;

/// An input for parsers that read a whole record in one call.
pub(crate) struct Guarded {
    pub(crate) input: Input,
    interrupt: Interrupt,
    consumed: bool,
    bytes_max: usize,
    left: usize,
}

impl Guarded {
    pub(crate) fn new(input: Input, interrupt: Interrupt, bytes_max: usize) -> Guarded {
        Guarded { input, interrupt, consumed: true, bytes_max, left: bytes_max }
    }

    /// Marks the beginning of the next record.
    pub(crate) fn begin(&mut self) {
        self.left = self.bytes_max;
        self.input.begin();
    }
}

impl Read for Guarded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Guarded {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let more = std::mem::take(&mut self.consumed);
        if more && !self.input.wait_for_more(&self.interrupt)? {
            return Ok(&[]);
        }
        let available = self.input.fill_buf()?;
        if self.left == 0 && !available.is_empty() {
            let most = self.bytes_max;
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a record of more than {most} bytes; --record-bytes allows for more"),
            ));
        }
        Ok(&available[..available.len().min(self.left)])
    }

    fn consume(&mut self, count: usize) {
        self.consumed = true;
        self.left -= count;
        self.input.consume(count);
    }
}
