/* A program without a C library, which also compiles for 32 bits. It has no `syscall; ret` that an attaching
   process could use. */
static long say(const char *text, long bytes)
{
    long result;
#ifdef __x86_64__
    __asm__ volatile("syscall; nop" : "=a"(result) : "a"(1L), "D"(1L), "S"(text), "d"(bytes) : "rcx", "r11", "memory");
#else
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(4L), "b"(1L), "c"(text), "d"(bytes) : "memory");
#endif
    return result;
}

void _start(void)
{
    say("ready\n", 6);
    for (;;) {
#ifdef __x86_64__
        long number = 34;
        __asm__ volatile("syscall; nop" : "+a"(number) : : "rcx", "r11", "memory");
#else
        long number = 29;
        __asm__ volatile("int $0x80" : "+a"(number) : : "memory");
#endif
    }
}
