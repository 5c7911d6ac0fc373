# What trampolines share: position-independent, copied into the target beside each module that has points.
#
# Registers at a function's entry are all saved and restored, the flags too: callers in the same file may rely on more than the ABI says.
# The frame that a trampoline makes, from the stack pointer up:
#   r9 0, r8 8, rdi 16, rsi 24, rdx 32, rcx 40, flags 48, rax 56, the slot with the return address 64.
# The routines are called, so for them everything lies 8 higher.
#
# The table of calls under way: 1024 buckets of 4 entries of 64 bytes; a call is found by the place of its return address (its slot), so neither
# longjmp nor stacks that threads hand to each other confuse it.
#   entry: slot 0, return address 8, begin 16, descriptor 24, thread 32, replaced argument 40, state 48, the call's record 56 (0: none)
#   state: 0 in use or free (slot 0), 1 its slot was put back before an exception, 2 being taken over
# A descriptor: stripes' begin 0, a stripe's bytes 8, 8 more than the frame offset of the argument to restore 16 (0: none), the value it was given 24,
#   offset of the results' histogram 32 (0: none), 1 at 40 if times are kept plus 2 if the clock is read, unused bits of a result's register 48,
#   how results are read 56 (0 unsigned, 1 signed, 2 double, 3 float). Where calls are kept: offset of the stripe's ring of records 64,
#   records in it less one 72 (it has a power of two), bytes of a record 80, whether the first calls are kept and not the last 88. Where callers are
#   counted: offset of the stripe's table of callers 96: 256 entries of a return address 0 and its calls 8.
# A stripe: calls 0, calls that were not timed 8, sums 16 (time), 24 .. 64 (arguments), 72 (results), calls that were given a record 80, calls that
#   found theirs being written by another thread 88, calls whose caller found no room in the table 96, the histogram of times at 128.
# A histogram, as histogram.rs has it: words with the counts of the buckets. Unsigned numbers have 252, then the greatest key (word 252) and the
#   greatest complement of a key (253): keys are unsigned numbers in the order of the values. Signed numbers have the same, and the buckets of
#   negative ones from word 256 on. Floating-point numbers: zero 0, below 2^-128 1, then four for each power of two, from 2^128 on 1026, no number
#   1027; negative ones from word 1028 on; the sum 2056, the greatest key 2057, the greatest complement of a key 2058.
# A record of a call: being written 0, number from 1 on 8, begin 16, ticks that it lasted 24, thread 32, result 40, how it ended 48 (0 not yet, 1 it
#   returned, 2 it went on in another function), xmm0 on return 56; where a record has more bytes: the six arguments in registers 64, xmm0 .. 7 112, the slot 176.

thalweg_attach_blob:
    .quad 0                                     # the table's address
    .quad ta_count - thalweg_attach_blob
    .quad ta_unsigned - thalweg_attach_blob
    .quad ta_enter - thalweg_attach_blob
    .quad ta_leave - thalweg_attach_blob
    .quad ta_unwind - thalweg_attach_blob
    .quad ta_once - thalweg_attach_blob
    .quad thalweg_attach_blob_end - thalweg_attach_blob     # in the target: where timed functions return to, the same in all modules
    .quad ta_keep - thalweg_attach_blob
    .quad ta_caller - thalweg_attach_blob
    .quad ta_signed - thalweg_attach_blob
    .quad ta_double - thalweg_attach_blob
    .quad ta_single - thalweg_attach_blob
    .quad 0                                     # whether any timed function's clock is read

# Takes the stripe of descriptor rdi into rsi, by where the stack is: threads have stacks of their own. Clobbers r9.
.macro stripe
    mov r9, rsp
    shr r9, 12
    and r9d, 7
    imul r9, [rdi + 8]
    add r9, [rdi]
    mov rsi, r9
.endm

# Takes the bucket of slot rcx into r8.
.macro bucket
    movabs r8, 0x9e3779b97f4a7c15
    imul r8, rcx
    shr r8, 54
    shl r8, 8
    add r8, [rip + thalweg_attach_blob]
.endm

# Counts a call. In: rdi descriptor. Out: rsi stripe. Clobbers r9.
    .p2align 5
ta_count:
    stripe
    lock inc qword ptr [rsi]
    ret

# Raises the word at r9 to r8, and the one behind it to the complement of r8. Clobbers r8.
.macro extremes
    cmp r8, [r9]
    jbe 31f
    call ta_raise
31: not r8
    cmp r8, [r9 + 8]
    jbe 32f
    add r9, 8
    call ta_raise
32:
.endm

# Raises the word at r9 to r8.
    .p2align 4
ta_raise:
    push rax
    mov rax, [r9]
21: cmp rax, r8
    jae 2f
    lock cmpxchg [r9], r8
    jne 21b
2:  pop rax
    ret

# Adds a value to a sum, the extremes and a histogram. In: rax value, rsi stripe, rcx the histogram's and rdx the sum's offset.
# Clobbers rax, rcx, r8, r9.
    .p2align 5
ta_unsigned:
    mov r8, rax
    lea r9, [rsi + rcx + 252 * 8]
    extremes
# The same without the extremes.
ta_value:
    lock add [rsi + rdx], rax
ta_bucket:
    cmp rax, 4
    jb 21f
    bsr r8, rax
    sub r8d, 2
    mov r9, rcx
    mov ecx, r8d
    shr rax, cl
    lea rax, [rax + r8 * 4]
    mov rcx, r9
21:  add rcx, rsi
    lock inc qword ptr [rcx + rax * 8]
    ret

# The same for a number in two's complement.
    .p2align 5
ta_signed:
    mov r8, rax
    btc r8, 63
    lea r9, [rsi + rcx + 252 * 8]
    extremes
    lock add [rsi + rdx], rax
    test rax, rax
    jns ta_bucket
    neg rax
    add rcx, 256 * 8
    jmp ta_bucket

# The same for a floating-point number of 32 bits, whose sum is in the histogram. Clobbers rdx, too. The program's own rounding, and its flags of
# exceptions, are not used and not changed.
    .p2align 5
ta_single:
    sub rsp, 40
    movups [rsp], xmm0
    stmxcsr [rsp + 32]
    mov dword ptr [rsp + 36], 0x1f80
    ldmxcsr [rsp + 36]
    movd xmm0, eax
    cvtss2sd xmm0, xmm0
    movq rax, xmm0
    ldmxcsr [rsp + 32]
    movups xmm0, [rsp]
    add rsp, 40
# The same for a floating-point number of 64 bits.
ta_double:
    add rcx, rsi
    mov r8, rax
    btr r8, 63
    movabs r9, 0x7ff0000000000000
    cmp r8, r9
    ja 24f
    mov r8, rax
    sar r8, 63
    bts r8, 63
    xor r8, rax
    lea r9, [rcx + 2057 * 8]
    extremes
    sub rsp, 40
    movups [rsp], xmm0
    mov [rsp + 16], rax
    stmxcsr [rsp + 32]
    mov dword ptr [rsp + 36], 0x1f80
    ldmxcsr [rsp + 36]
    mov rax, [rcx + 2056 * 8]
21: movq xmm0, rax
    addsd xmm0, [rsp + 16]
    movq r8, xmm0
    lock cmpxchg [rcx + 2056 * 8], r8
    jne 21b
    ldmxcsr [rsp + 32]
    movups xmm0, [rsp]
    mov rax, [rsp + 16]
    add rsp, 40
    btr rax, 63
    jnc 22f
    add rcx, 1028 * 8
22: test rax, rax
    jz 3f
    shr rax, 50
    sub rax, 3580
    jns 23f
    mov eax, -1
23: cmp eax, 1024
    jle 2f
    mov eax, 1024
2:  add eax, 2
3:  lock inc qword ptr [rcx + rax * 8]
    ret
24: lock inc qword ptr [rcx + 1027 * 8]
    ret

# Begins a timed call. In: rdi descriptor, rsi stripe. Out: r8 its entry, 0 if there is no room; r9 whether the function is to be called by ta_go,
# which puts the other return address into the slot. Clobbers rax, rcx, rdx.
    .p2align 5
ta_enter:
    lea rcx, [rsp + 72]
    mov rdx, [rcx]
    mov rax, [rip + thalweg_attach_blob + 56]
    bucket
    cmp rdx, rax
    je 8f
    mov r9d, 4
21:  cmp [r8], rcx
    je 6f
2:  add r8, 64
    dec r9d
    jnz 21b
    sub r8, 256
    mov r9d, 4
3:  cmp qword ptr [r8], 0
    jne 4f
    xor eax, eax
    lock cmpxchg [r8], rcx
    je 7f
4:  add r8, 64
    dec r9d
    jnz 3b
    # An entry whose slot was put back may be taken over.
    sub r8, 256
    mov r9d, 4
5:  mov eax, 1
    push rdx
    mov edx, 2
    lock cmpxchg [r8 + 48], edx
    pop rdx
    je 22f
    add r8, 64
    dec r9d
    jnz 5b
    lock inc qword ptr [rsi + 8]
    xor r8d, r8d
    xor r9d, r9d
    ret
6:  # This very slot, left by longjmp or an exception before.
    cmp dword ptr [r8 + 48], 0
    je 7f
    mov eax, 1
    push rdx
    mov edx, 2
    lock cmpxchg [r8 + 48], edx
    pop rdx
    jne 2b
22: mov [r8], rcx
7:  mov [r8 + 8], rdx
    mov [r8 + 24], rdi
    mov rax, fs:[0]
    mov [r8 + 32], rax
    mov qword ptr [r8 + 56], 0
    mov dword ptr [r8 + 48], 0
    mov r9d, 1
    test byte ptr [rdi + 40], 2
    jz 28f
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov [r8 + 16], rax
28: ret
8:  # The caller is timed, and ends by a jump to this function: its call ends here, and this one has its entry.
    mov r9d, 4
9:  cmp [r8], rcx
    je 23f
    add r8, 64
    dec r9d
    jnz 9b
    ud2
23:
    push rdi
    push r8
    mov rdi, [r8 + 24]
    cmp qword ptr [rdi + 16], 0
    jne 25f
    test byte ptr [rdi + 40], 1
    jz 24f
    push rsi
    stripe
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r9, rax
    sub r9, [r8 + 16]
    mov rcx, [r8 + 56]
    test rcx, rcx
    jz 26f
    mov edx, 1
    xchg [rcx], rdx
    test rdx, rdx
    jnz 26f
    mov rdx, [r8 + 16]
    cmp [rcx + 16], rdx
    jne 27f
    mov [rcx + 24], r9
    mov qword ptr [rcx + 48], 2
27: mov qword ptr [rcx], 0
26: mov rax, r9
    mov ecx, 128
    mov edx, 16
    call ta_value
    pop rsi
24: pop r8
    pop rdi
    mov [r8 + 24], rdi
    mov qword ptr [r8 + 56], 0
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov [r8 + 16], rax
    xor r9d, r9d
    ret

25: # The caller's argument is to be restored when it returns, so the entry stays the caller's.
    pop r8
    pop rdi
    lock inc qword ptr [rsi + 8]
    xor r8d, r8d
    xor r9d, r9d
    ret

# Counts a call by its return address. In: rdi descriptor, rsi stripe. Clobbers rax, rcx, rdx, r8, r9.
    .p2align 5
ta_caller:
    mov r8, [rsp + 72]
    movabs r9, 0x9e3779b97f4a7c15
    imul r9, r8
    shr r9, 56
    mov ecx, 16
21: mov rdx, r9
    shl rdx, 4
    add rdx, [rdi + 96]
    add rdx, rsi
    mov rax, [rdx]
    cmp rax, r8
    je 3f
    test rax, rax
    jnz 2f
    lock cmpxchg [rdx], r8
    je 3f
    cmp rax, r8
    je 3f
2:  inc r9
    movzx r9d, r9b
    dec ecx
    jnz 21b
    lock inc qword ptr [rsi + 96]
    ret
3:  lock inc qword ptr [rdx + 8]
    ret

# Keeps a call: gives it a record, unless the first ones have all of them. In: rdi descriptor, rsi stripe, r8 the call's entry, 0 if it has none.
# Clobbers rax, rcx, rdx.
    .p2align 5
ta_keep:
    cmp qword ptr [rdi + 88], 0
    je 21f
    mov rax, [rsi + 80]
    cmp rax, [rdi + 72]
    ja 9f
21: mov eax, 1
    lock xadd [rsi + 80], rax
    cmp qword ptr [rdi + 88], 0
    je 2f
    cmp rax, [rdi + 72]
    ja 9f
2:  mov rcx, [rdi + 72]
    and rcx, rax
    imul rcx, [rdi + 80]
    add rcx, [rdi + 64]
    add rcx, rsi
    mov edx, 1
    xchg [rcx], rdx
    test rdx, rdx
    jnz 8f
    inc rax
    mov [rcx + 8], rax
    mov qword ptr [rcx + 48], 0
    mov rax, fs:[0]
    mov [rcx + 32], rax
    test r8, r8
    jz 3f
    mov rax, [r8 + 16]
    mov [r8 + 56], rcx
    jmp 4f
3:  rdtsc
    shl rdx, 32
    or rax, rdx
4:  mov [rcx + 16], rax
    cmp qword ptr [rdi + 80], 64
    jbe 5f
    mov rax, [rsp + 24]
    mov [rcx + 64], rax
    mov rax, [rsp + 32]
    mov [rcx + 72], rax
    mov rax, [rsp + 40]
    mov [rcx + 80], rax
    mov rax, [rsp + 48]
    mov [rcx + 88], rax
    mov rax, [rsp + 16]
    mov [rcx + 96], rax
    mov rax, [rsp + 8]
    mov [rcx + 104], rax
    movq [rcx + 112], xmm0
    movq [rcx + 120], xmm1
    movq [rcx + 128], xmm2
    movq [rcx + 136], xmm3
    movq [rcx + 144], xmm4
    movq [rcx + 152], xmm5
    movq [rcx + 160], xmm6
    movq [rcx + 168], xmm7
    lea rax, [rsp + 72]
    mov [rcx + 176], rax
5:  mov qword ptr [rcx], 0
    ret
8:  lock inc qword ptr [rsi + 88]
9:  ret

# Calls a timed function whose address is 72 bytes below the slot of its return address, while the stack pointer is above the slot. So the processor
# expects the return to ta_leave, and the one from there to the caller.
    .p2align 5
    .fill 28, 1, 0xcc
ta_go:
    call qword ptr [rsp - 80]
# Where timed functions return to.
ta_leave:
    lea rsp, [rsp - 8]
    push rax
    lahf
    seto al
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    cmp byte ptr [rip + thalweg_attach_blob + 104], 0
    je 29f
    rdtsc
    shl rdx, 32
    or rax, rdx
29: lea rcx, [rsp + 64]
    bucket
    mov r9d, 4
21:  cmp [r8], rcx
    je 2f
    add r8, 64
    dec r9d
    jnz 21b
    # Its return address was put back at this very moment.
    mov rax, [rip + thalweg_attach_blob + 56]
    cmp [rcx], rax
    jne 6f
    ud2
2:  mov rdx, [r8 + 8]
    mov [rcx], rdx
    mov rdi, [r8 + 24]
    sub rax, [r8 + 16]
    jnc 3f
    xor eax, eax
3:  mov rdx, [rdi + 16]
    test rdx, rdx
    jz 4f
    mov r9, [rsp + rdx - 8]
    cmp r9, [rdi + 24]
    jne 4f
    mov r9, [r8 + 40]
    mov [rsp + rdx - 8], r9
4:  mov rcx, [r8 + 56]
    test rcx, rcx
    jz 44f
    # The record is this call's still if no other thread writes it, and it has the same begin.
    mov r9d, 1
    xchg [rcx], r9
    test r9, r9
    jnz 43f
    mov r9, [r8 + 16]
    cmp [rcx + 16], r9
    jne 42f
    mov [rcx + 24], rax
    mov r9, [rsp + 56]
    mov [rcx + 40], r9
    movq [rcx + 56], xmm0
    mov qword ptr [rcx + 48], 1
42: mov qword ptr [rcx], 0
    jmp 44f
43: stripe
    lock inc qword ptr [rsi + 88]
44: # A free entry names no thread: one that looks for its own must not find it while another takes it.
    mov qword ptr [r8 + 32], 0
    mov qword ptr [r8], 0
    test byte ptr [rdi + 40], 1
    jz 5f
    stripe
    mov ecx, 128
    mov edx, 16
    call ta_value
5:  cmp qword ptr [rdi + 32], 0
    je 6f
    stripe
    mov r8, [rdi + 56]
    cmp r8d, 2
    jae 52f
    mov rax, [rsp + 56]
    mov ecx, [rdi + 48]
    shl rax, cl
    test r8d, r8d
    jnz 51f
    shr rax, cl
    mov ecx, [rdi + 32]
    mov edx, 72
    call ta_unsigned
    jmp 6f
51: sar rax, cl
    mov ecx, [rdi + 32]
    mov edx, 72
    call ta_signed
    jmp 6f
52: movq rax, xmm0
    mov ecx, [rdi + 32]
    je 53f
    call ta_single
    jmp 6f
53: call ta_double
6:  pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    add al, 0x7f
    sahf
    pop rax
    ret

# Before an exception or a walk over the stack: puts all return addresses of this thread back. Clobbers rax, rcx, rdx, rsi, rdi, r8, r9.
# A stack that a coroutine had may be gone. A system call that refuses its first argument, but reads the second one before, shows whether it is.
    .p2align 5
ta_unwind:
    push r10
    push r11
    mov r8, [rip + thalweg_attach_blob]
    lea r9, [r8 + 1024 * 256]
21: mov rsi, [r8]
    test rsi, rsi
    jz 2f
    mov rax, rsi
    sub rax, rsp
    cmp rax, 1 << 28
    jae 2f
    mov rax, fs:[0]
    cmp rax, [r8 + 32]
    jne 2f
    cmp dword ptr [r8 + 48], 0
    jne 2f
    mov eax, 14
    mov edi, 99
    xor edx, edx
    mov r10d, 8
    syscall
    cmp rax, -14
    je 3f
    mov rax, [rip + thalweg_attach_blob + 56]
    mov rdx, [r8 + 8]
    lock cmpxchg [rsi], rdx
    jne 2f
3:  mov dword ptr [r8 + 48], 1
2:  add r8, 64
    cmp r8, r9
    jb 21b
    pop r11
    pop r10
    ret

# Calls a function at the entry of another, in a thread that comes from outside the called function's module: once, in the first such thread, or at
# each entry (an inserted call).
# In: rdi its order: state 0 (0 wanted, 1 under way, 2 done), function 8, arguments 16 .. 56, the module's begin 64 and end 72, result, or how often
#   the inserted call was made 80, bytes for XSAVE 88, parts for XSAVE 96, the end of signal handlers 104, 0 for a call that is made once 112 (1 for an
#   inserted call, 2 for one that gets the arguments of the function that is entered). An inserted call has more: how often it was left out, because
#   64 others were under way 120, the threads in which it is under way 128 .. 640.
# Clobbers rax, rcx, rdx, rsi, r8, r9.
    .p2align 5
ta_once:
    cmp qword ptr [rdi], 0
    jne 9f
    mov rax, [rsp + 72]
    sub rax, [rdi + 64]
    mov rcx, [rdi + 72]
    sub rcx, [rdi + 64]
    cmp rax, rcx
    jb 9f
    cmp qword ptr [rdi + 112], 0
    je 23f
    # Within the inserted call it is not made again.
    mov rax, fs:[0]
    mov ecx, 64
22: cmp [rdi + rcx * 8 + 120], rax
    je 9f
    dec ecx
    jnz 22b
23: push rbx
    push rbp
    push r10
    push r11
    push r12
    mov rbp, rsp
    mov rbx, rdi
    # Is a signal handler at work here? It may have interrupted the very library.
    sub rsp, 8192 + 64
    mov [rsp + 8192], rsp
    mov qword ptr [rsp + 8200], 8192
    lea rax, [rbp + 48]
    mov [rsp + 8208], rax
    mov qword ptr [rsp + 8216], 8192
    mov eax, 39
    syscall
    mov edi, eax
    mov eax, 310
    lea rsi, [rsp + 8192]
    mov edx, 1
    lea r10, [rsp + 8208]
    mov r8d, 1
    xor r9d, r9d
    syscall
    mov rcx, rax
    shr rcx, 3
    cmp rcx, 1024
    ja 8f
    mov rdx, [rbx + 104]
21:  test rcx, rcx
    jz 2f
    cmp [rsp + rcx * 8 - 8], rdx
    je 8f
    dec rcx
    jmp 21b
2:  cmp qword ptr [rbx + 112], 0
    jne 24f
    xor eax, eax
    mov ecx, 1
    lock cmpxchg [rbx], rcx
    jne 8f
    jmp 26f
24: lea r12, [rbx + 128]
    mov rcx, fs:[0]
    mov edx, 64
25: xor eax, eax
    lock cmpxchg [r12], rcx
    je 26f
    add r12, 8
    dec edx
    jnz 25b
    lock inc qword ptr [rbx + 120]
    jmp 8f
26: mov rsp, rbp
    sub rsp, [rbx + 88]
    and rsp, -64
    # The header of the area has to be zero.
    lea rdi, [rsp + 512]
    xor eax, eax
    mov ecx, 8
    cld
    rep stosq
    mov eax, [rbx + 96]
    mov edx, [rbx + 100]
    xsave64 [rsp]
    cmp qword ptr [rbx + 112], 2
    je 27f
    mov rdi, [rbx + 16]
    mov rsi, [rbx + 24]
    mov rdx, [rbx + 32]
    mov rcx, [rbx + 40]
    mov r8, [rbx + 48]
    mov r9, [rbx + 56]
    xor eax, eax
    jmp 28f
27: mov rdi, [rbp + 64]
    mov rsi, [rbp + 72]
    mov rdx, [rbp + 80]
    mov rcx, [rbp + 88]
    mov r8, [rbp + 56]
    mov r9, [rbp + 48]
    mov eax, 8
28: call qword ptr [rbx + 8]
    mov rcx, rax
    mov eax, [rbx + 96]
    mov edx, [rbx + 100]
    xrstor64 [rsp]
    cmp qword ptr [rbx + 112], 0
    je 29f
    lock inc qword ptr [rbx + 80]
    mov qword ptr [r12], 0
    jmp 8f
29: mov [rbx + 80], rcx
    mov qword ptr [rbx], 2
8:  mov rsp, rbp
    mov rdi, rbx
    pop r12
    pop r11
    pop r10
    pop rbp
    pop rbx
9:  ret
    .p2align 5
thalweg_attach_blob_end:
