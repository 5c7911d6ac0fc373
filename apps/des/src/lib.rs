//! The DES cipher, twice: as a plain loop and as the boxes of the network `des.snet`.
#![deny(unsafe_code)]

pub mod des;
