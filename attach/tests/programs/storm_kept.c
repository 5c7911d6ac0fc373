/* A library that stays loaded, one of whose functions is replaced by another, and one of which is called from outside. */
static long sum;
__attribute__((noinline)) long kept(long a, long b) { __asm__ volatile(""); return a * 5 + b; }
__attribute__((noinline)) long instead(long a, long b) { __asm__ volatile(""); return a * 7 + b; }
__attribute__((noinline)) long called(long by) { return __atomic_add_fetch(&sum, by, __ATOMIC_SEQ_CST); }
__attribute__((noinline)) long called_sum(void) { return __atomic_load_n(&sum, __ATOMIC_SEQ_CST); }
