//! Compares 64 bytes at once, by the widest instructions of the processor; each result has 64 bits, one for
//! each byte.
//!
//! Code that is generic over its [`Lanes`] is compiled once for each set of instructions, as a whole, and
//! [`widest`] chooses one of these versions at run time. On processors other than x86-64 there are no lanes.

/// 64 bytes in vector registers. Only code that [`widest`] has chosen can have a value of such a type, so the
/// processor supports the type's instructions.
pub(crate) trait Lanes: Copy {
    fn load(bytes: &[u8; 64]) -> Self;
    /// The bytes that are equal to `byte`.
    fn equal(self, byte: u8) -> u64;
    /// The bytes that are equal to `byte` after bit 5 is set in them.
    fn equal_folded(self, byte: u8) -> u64;
    /// The bytes that are less than `bound`, as unsigned numbers.
    fn below(self, bound: u8) -> u64;
    /// For each bit, whether an odd number of the bits up to it is set.
    fn prefix_xor(bits: u64) -> u64;
}

/// Code that works on [`Lanes`]; `run` must always be inlined, with all functions that it calls.
pub(crate) trait Work {
    type Output;
    fn run<L: Lanes>(self) -> Self::Output;
}

/// Runs the work with the widest available lanes; `None` without any.
#[inline]
pub(crate) fn widest<W: Work>(work: W) -> Option<W::Output> {
    #[cfg(target_arch = "x86_64")]
    return Some(x86::widest(work));
    #[cfg(not(target_arch = "x86_64"))]
    return None;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Lanes, Work};
    use std::arch::asm;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    struct Sse2([__m128i; 4]);
    #[derive(Clone, Copy)]
    struct Avx2([__m256i; 2]);
    #[derive(Clone, Copy)]
    struct Avx512(__m512i);

    #[inline]
    pub(super) fn widest<W: Work>(work: W) -> W::Output {
        if has_avx512() {
            // SAFETY: the check above has shown that the processor has these instructions.
            return unsafe { with_avx512(work) };
        }
        if has_avx2() {
            // SAFETY: the check above has shown that the processor has these instructions.
            return unsafe { with_avx2(work) };
        }
        work.run::<Sse2>()
    }

    pub(super) fn has_avx512() -> bool {
        is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("bmi2")
            && has_avx2()
    }

    pub(super) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("pclmulqdq")
    }

    #[target_feature(enable = "avx512bw,avx512f,avx2,bmi1,bmi2,popcnt,pclmulqdq")]
    pub(super) fn with_avx512<W: Work>(work: W) -> W::Output {
        work.run::<Avx512>()
    }

    #[target_feature(enable = "avx2,bmi1,popcnt,pclmulqdq")]
    pub(super) fn with_avx2<W: Work>(work: W) -> W::Output {
        work.run::<Avx2>()
    }

    #[cfg(test)]
    pub(super) fn with_sse2<W: Work>(work: W) -> W::Output {
        work.run::<Sse2>()
    }

    impl Lanes for Sse2 {
        #[inline(always)]
        fn load(bytes: &[u8; 64]) -> Sse2 {
            let first: *const __m128i = bytes.as_ptr().cast();
            // SAFETY: `bytes` has 64 bytes, which are four parts of 16; all x86-64 processors have SSE2.
            Sse2([0, 1, 2, 3].map(|index| unsafe { _mm_loadu_si128(first.add(index)) }))
        }

        #[inline(always)]
        fn equal(self, byte: u8) -> u64 {
            // SAFETY: all of x86-64 has SSE2.
            self.bits(|part| unsafe { _mm_cmpeq_epi8(part, _mm_set1_epi8(byte as i8)) })
        }

        #[inline(always)]
        fn equal_folded(self, byte: u8) -> u64 {
            // SAFETY: all of x86-64 has SSE2.
            self.bits(|part| unsafe {
                _mm_cmpeq_epi8(_mm_or_si128(part, _mm_set1_epi8(0x20)), _mm_set1_epi8(byte as i8))
            })
        }

        #[inline(always)]
        fn below(self, bound: u8) -> u64 {
            // SAFETY: all of x86-64 has SSE2.
            self.bits(|part| unsafe {
                _mm_cmpeq_epi8(_mm_min_epu8(part, _mm_set1_epi8(bound.wrapping_sub(1) as i8)), part)
            })
        }

        #[inline(always)]
        fn prefix_xor(bits: u64) -> u64 {
            [1, 2, 4, 8, 16, 32].iter().fold(bits, |bits, distance| bits ^ bits << distance)
        }
    }

    impl Sse2 {
        #[inline(always)]
        fn bits(self, compare: impl Fn(__m128i) -> __m128i) -> u64 {
            // SAFETY: all of x86-64 has SSE2.
            let [a, b, c, d] =
                self.0.map(|part| u64::from(unsafe { _mm_movemask_epi8(compare(part)) } as u32));
            as_number(a | b << 16 | c << 32 | d << 48)
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        fn load(bytes: &[u8; 64]) -> Avx2 {
            let first: *const __m256i = bytes.as_ptr().cast();
            // SAFETY: twice 32 bytes are 64; only `with_avx2` makes these lanes.
            Avx2([0, 1].map(|index| unsafe { _mm256_loadu_si256(first.add(index)) }))
        }

        #[inline(always)]
        fn equal(self, byte: u8) -> u64 {
            // SAFETY: only `with_avx2` makes these lanes.
            self.bits(|part| unsafe { _mm256_cmpeq_epi8(part, _mm256_set1_epi8(byte as i8)) })
        }

        #[inline(always)]
        fn equal_folded(self, byte: u8) -> u64 {
            // SAFETY: only `with_avx2` makes these lanes.
            self.bits(|part| unsafe {
                let folded = _mm256_or_si256(part, _mm256_set1_epi8(0x20));
                _mm256_cmpeq_epi8(folded, _mm256_set1_epi8(byte as i8))
            })
        }

        #[inline(always)]
        fn below(self, bound: u8) -> u64 {
            // SAFETY: only `with_avx2` makes these lanes.
            self.bits(|part| unsafe {
                let most = _mm256_set1_epi8(bound.wrapping_sub(1) as i8);
                _mm256_cmpeq_epi8(_mm256_min_epu8(part, most), part)
            })
        }

        #[inline(always)]
        fn prefix_xor(bits: u64) -> u64 {
            // SAFETY: only `with_avx2` makes these lanes.
            unsafe { carryless_prefix_xor(bits) }
        }
    }

    impl Avx2 {
        #[inline(always)]
        fn bits(self, compare: impl Fn(__m256i) -> __m256i) -> u64 {
            // SAFETY: only `with_avx2` makes these lanes.
            let [low, high] =
                self.0.map(|part| u64::from(unsafe { _mm256_movemask_epi8(compare(part)) } as u32));
            as_number(low | high << 32)
        }
    }

    impl Lanes for Avx512 {
        #[inline(always)]
        fn load(bytes: &[u8; 64]) -> Avx512 {
            // SAFETY: these are 64 bytes; only `with_avx512` makes these lanes.
            Avx512(unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) })
        }

        #[inline(always)]
        fn equal(self, byte: u8) -> u64 {
            // SAFETY: only `with_avx512` makes these lanes.
            as_number(unsafe { _mm512_cmpeq_epi8_mask(self.0, _mm512_set1_epi8(byte as i8)) })
        }

        #[inline(always)]
        fn equal_folded(self, byte: u8) -> u64 {
            // SAFETY: only `with_avx512` makes these lanes.
            as_number(unsafe {
                let folded = _mm512_or_si512(self.0, _mm512_set1_epi8(0x20));
                _mm512_cmpeq_epi8_mask(folded, _mm512_set1_epi8(byte as i8))
            })
        }

        #[inline(always)]
        fn below(self, bound: u8) -> u64 {
            // SAFETY: only `with_avx512` makes these lanes.
            as_number(unsafe { _mm512_cmplt_epu8_mask(self.0, _mm512_set1_epi8(bound as i8)) })
        }

        #[inline(always)]
        fn prefix_xor(bits: u64) -> u64 {
            // SAFETY: only `with_avx512` makes these lanes.
            unsafe { carryless_prefix_xor(bits) }
        }
    }

    /// Returns the same bits, but hides from the compiler where they come from. Otherwise the compiler would
    /// turn operations on the bits back into slow operations on single bytes of vectors.
    #[inline(always)]
    fn as_number(mut bits: u64) -> u64 {
        // SAFETY: the assembly contains no instruction.
        unsafe { asm!("/* {0} */", inout(reg) bits, options(pure, nomem, nostack, preserves_flags)) };
        bits
    }

    /// The carry-less product with a number whose bits are all ones.
    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn carryless_prefix_xor(bits: u64) -> u64 {
        let product = _mm_clmulepi64_si128(_mm_set_epi64x(0, bits as i64), _mm_set1_epi8(-1), 0);
        _mm_cvtsi128_si64(product) as u64
    }
}

/// The results of the work with each type of lanes that this processor supports.
#[cfg(test)]
pub(crate) fn each<W: Work + Clone>(work: &W) -> Vec<W::Output> {
    let mut all = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        all.push(x86::with_sse2(work.clone()));
        if x86::has_avx2() {
            // SAFETY: the check above has shown that the processor has these instructions.
            all.push(unsafe { x86::with_avx2(work.clone()) });
        }
        if x86::has_avx512() {
            // SAFETY: the check above has shown that the processor has these instructions.
            all.push(unsafe { x86::with_avx512(work.clone()) });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone)]
    struct Look([u8; 64], u8, u64);

    impl Work for Look {
        type Output = [u64; 4];

        #[inline(always)]
        fn run<L: Lanes>(self) -> [u64; 4] {
            let lanes = L::load(&self.0);
            [
                lanes.equal(self.1),
                lanes.equal_folded(self.1),
                lanes.below(self.1.max(1)),
                L::prefix_xor(self.2),
            ]
        }
    }

    proptest! {
        #[test]
        fn all_lanes_see_the_same(bytes in proptest::collection::vec(0_u8..=255, 64), byte in 0_u8..=255, bits: u64) {
            let bytes: [u8; 64] = bytes.try_into().unwrap();
            let bits_of = |is: &dyn Fn(u8) -> bool| (0..64).fold(0, |bits, k| bits | u64::from(is(bytes[k])) << k);
            let parities = (0..64).fold(0, |found, k| found | u64::from((bits << (63 - k)).count_ones() & 1) << k);
            let wanted = [
                bits_of(&|b| b == byte),
                bits_of(&|b| b | 0x20 == byte),
                bits_of(&|b| b < byte.max(1)),
                parities,
            ];
            for seen in each(&Look(bytes, byte, bits)) {
                prop_assert_eq!(seen, wanted);
            }
        }
    }
}
