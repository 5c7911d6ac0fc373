/* A library that is loaded and unloaded while others patch it. */
__attribute__((noinline)) long part(long a, long b) { __asm__ volatile(""); return a * 5 + b; }
__attribute__((noinline)) long other_part(long a, long b) { __asm__ volatile(""); return a * 7 + b; }
__attribute__((noinline)) long part_of_two(long a, long b) { __asm__ volatile(""); return part(a, b) + other_part(a, b); }
