/* Rare operations of probes: operations are declared, traces begin and cross threads and processes. See
 * thalweg_probe.h. */
#ifndef THALWEG_PROBE_COLD_H
#define THALWEG_PROBE_COLD_H

#ifdef __cplusplus
extern "C" {
#endif

/* The most parts of a pattern; a longer pattern has no effect on probes that are declared after it. */
#define THALWEG_PATTERN_PARTS 1024

/* The number of bytes of a character in UTF-8. */
THALWEG_HOT size_t thalweg_character(const char *text)
{
    size_t count = 1;
    while (((unsigned char)text[count] & 0xc0) == 0x80)
        count++;
    return count;
}

/* Whether the pattern matches all of `text`: `*` matches any characters but `/`, `**` any, `?` one character
 * but `/`. */
THALWEG_COLD int thalweg_matches(const char *pattern, size_t pattern_bytes, const char *text)
{
    unsigned char reached[2][THALWEG_PATTERN_PARTS + 1];
    int now = 0;
    size_t n;
    if (pattern_bytes > THALWEG_PATTERN_PARTS)
        return 0;
    memset(reached, 0, sizeof reached);
    reached[0][0] = 1;
    for (n = 0; n < pattern_bytes && pattern[n] == '*'; n++)
        reached[0][n + 1] = 1;
    while (*text) {
        size_t count = thalweg_character(text);
        unsigned char *here = reached[now], *next = reached[!now];
        memset(next, 0, pattern_bytes + 1);
        for (n = 0; n < pattern_bytes; n++) {
            if (!here[n])
                continue;
            if (pattern[n] == '*') {
                /* A star next to another star matches a `/` as well. */
                int any = (n > 0 && pattern[n - 1] == '*') || (n + 1 < pattern_bytes && pattern[n + 1] == '*');
                next[n] |= any || *text != '/';
            } else if (pattern[n] == '?') {
                next[n + 1] |= *text != '/';
            } else if (n + count <= pattern_bytes && memcmp(pattern + n, text, count) == 0) {
                next[n + count] |= 1;
            }
        }
        for (n = 0; n < pattern_bytes; n++)
            if (next[n] && pattern[n] == '*')
                next[n + 1] = 1;
        now = !now;
        text += count;
    }
    return reached[now][pattern_bytes];
}

/* The state that the last matching pattern gives to a new probe; -1 if none matches. The caller holds the
 * lock. */
THALWEG_COLD int thalweg_switched(const char *name)
{
    char path[4200];
    int file, said = -1;
    uint64_t at = THALWEG_CATALOG_HEADER;
    uint32_t header[4];
    thalweg_path(path, sizeof path, "probes");
    file = thalweg_open_file(path, O_RDONLY);
    while (file >= 0 && syscall(SYS_pread64, (long)file, header, 16L, (long)at) == 16 && header[0] >= 16 && header[0] <= 65536 / 2) {
        uint32_t words[4];
        long count = (long)header[0] - 16;
        if (syscall(SYS_pread64, (long)file, thalweg_record, count, (long)(at + 16)) != count)
            break;
        if (header[1] == THALWEG_CATALOG_SWITCH && count >= 16) {
            memcpy(words, thalweg_record, 16);
            if ((long)words[3] <= count - 16 && thalweg_matches((const char *)thalweg_record + 16, words[3], name))
                said = words[0] != 0;
        }
        at += header[0];
    }
    if (file >= 0)
        syscall(SYS_close, (long)file);
    return said;
}

/* The name of a function without return type and parameters: `shop::Cart::add` of `int shop::Cart::add(int)
 * [with …]`. */
THALWEG_COLD void thalweg_short_name(const char *name, char *text, size_t room)
{
    size_t n, begin = 0, end = strlen(name), count;
    int angles = 0;
    const char *of = strstr(name, " [with ");
    if (of)
        end = (size_t)(of - name);
    for (n = 0; n < end; n++) {
        if (name[n] == '<')
            angles++;
        else if (name[n] == '>' && angles > 0)
            angles--;
        else if (angles == 0 && name[n] == ' ' && strncmp(name + n + 1, "operator", 8))
            begin = n + 1;
        else if (angles == 0 && name[n] == '(' && n > begin && name[n + 1] != 'a' /* (anonymous namespace) */)
            break;
        if (angles == 0 && !strncmp(name + n, "operator", 8) && (n == 0 || strchr(" :*&", name[n - 1]))) {
            /* The name of an operator may contain brackets of any kind. */
            n += 8;
            n += strcspn(name + n, "(");
            if (name[n] == '(' && name[n + 1] == ')')
                n += 2;
            break;
        }
    }
    while (begin < n && (name[begin] == '*' || name[begin] == '&'))
        begin++;
    count = n > begin ? n - begin : end;
    if (count >= room)
        count = room - 1;
    memcpy(text, n > begin ? name + begin : name, count);
    text[count] = 0;
}

THALWEG_COLD uint32_t thalweg_declare_operation(struct thalweg_operation *operation)
{
    /* The lock guards this buffer. */
    static char short_name[THALWEG_TEXT_BYTES];
    const char *name = operation->name;
    const int is_function = !strcmp(operation->kind, "function");
    uint64_t signals, *on;
    uint32_t id = 0, chunk = 0, number, before;
    size_t record;
    int said;
    if (__atomic_load_n(&thalweg_process.state, __ATOMIC_ACQUIRE) == 2 || !thalweg_enter_cold(&signals))
        return 0;
    if (operation->id == 0 && thalweg_has_space()) {
        for (number = thalweg_process.probes; number >= thalweg_switches_of(chunk); chunk++)
            number -= thalweg_switches_of(chunk);
        before = number;
        if (chunk < THALWEG_SWITCHES_MAX && (thalweg_process.switches[chunk] || thalweg_make_switches(chunk, 0))) {
            if (is_function) {
                thalweg_short_name(operation->name, short_name, sizeof short_name);
                name = short_name;
            }
            on = thalweg_word(thalweg_process.switches[chunk], THALWEG_SWITCHES_WORDS + 8 * (size_t)before);
            __atomic_store_n(on, 1, __ATOMIC_RELAXED);
            record = thalweg_begin_record(1);
            thalweg_record_u32(1);
            thalweg_record_text(name, THALWEG_TEXT_BYTES);
            thalweg_seal_record(record, THALWEG_CATALOG_PROBE);
            record = thalweg_begin_record(0);
            id = thalweg_process.sites + 1;
            thalweg_record_u64(id);
            thalweg_record_u64(0);
            thalweg_record_u32(operation->line);
            thalweg_record_u32(0);
            thalweg_record_text(name, THALWEG_TEXT_BYTES);
            thalweg_record_text(is_function ? "operation" : operation->kind, 64);
            thalweg_record_text(operation->file, 4096);
            thalweg_seal_record(record, THALWEG_CATALOG_SITE);
            if (thalweg_append_own()) {
                thalweg_process.probes++;
                thalweg_process.sites = id;
                /* A process that switches probes from here on finds this probe; switches made earlier are in
                   the space's file `probes`. */
                said = thalweg_switched(name);
                if (said >= 0)
                    __atomic_store_n(on, (uint64_t)said, __ATOMIC_RELAXED);
                __atomic_store_n(&operation->on, on, __ATOMIC_RELEASE);
                __atomic_store_n(&operation->id, id, __ATOMIC_RELEASE);
            } else {
                id = 0;
            }
        }
    } else {
        id = operation->id;
    }
    thalweg_leave_cold(&signals);
    return id;
}

THALWEG_COLD int thalweg_begin_trace(struct thalweg_thread *thread, uint64_t sample)
{
    /* If this trace continues one of another thread or process, the other one has decided whether it is
     * recorded. */
    uint32_t skip = thread->skip;
    thread->skip = 0;
    if (!skip && (thread->has_trace || thread->traces++ % (sample ? sample : 1) == 0))
        return 1;
    thread->muted = 1;
    return 0;
}

THALWEG_COLD uint64_t thalweg_new_span(void)
{
    /* A bijection of the count, so no two spans of a process are equal; the random number makes the spans of
     * different processes differ. */
    uint64_t span = (__atomic_add_fetch(&thalweg_process.spans, 1, __ATOMIC_RELAXED) ^ thalweg_process.span_base) *
                    UINT64_C(0x9e3779b97f4a7c15);
    return span ? span : 1;
}

THALWEG_COLD uint64_t thalweg_hand_over(void)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    uint64_t span;
    if (!thread || thread->muted)
        return 0;
    span = thalweg_new_span();
    thalweg_emit_probe_handed_over_at(thread, thalweg_now(), span, thalweg_depth(thread->depth));
    return span;
}

THALWEG_COLD void thalweg_take_over_work(uint64_t span)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    if (!thread || thread->muted)
        return;
    if (span == 0) {
        /* The work was handed over in a trace that is not recorded. */
        thread->skip = thread->depth == 0;
        return;
    }
    thread->has_trace |= thread->depth == 0;
    thalweg_emit_probe_taken_over_at(thread, thalweg_now(), span);
}

THALWEG_COLD int thalweg_traceparent_out(char text[THALWEG_TRACEPARENT_BYTES], uint64_t bytes)
{
    struct thalweg_thread *thread = thalweg_thread_here();
    uint64_t span;
    text[0] = 0;
    if (!thread || thread->muted)
        return 0;
    span = thalweg_new_span();
    if (thread->has_trace != 2) {
        thread->trace_high = thalweg_new_span();
        thread->trace_low = thalweg_new_span();
        thread->has_trace = thread->depth > 0 ? 2 : thread->has_trace;
        thalweg_emit_probe_trace_begun_at(thread, thalweg_now(), thread->trace_high, thread->trace_low, 0);
    }
    thalweg_emit_probe_sent_at(thread, thalweg_now(), span, bytes, thalweg_depth(thread->depth));
    snprintf(text, THALWEG_TRACEPARENT_BYTES, "00-%016llx%016llx-%016llx-01", (unsigned long long)thread->trace_high,
             (unsigned long long)thread->trace_low, (unsigned long long)span);
    return 1;
}

/* A number of `digits` hexadecimal digits, lower case as in the standard; -1 if there are other characters. */
THALWEG_COLD int thalweg_hexadecimal(const char *text, unsigned digits, uint64_t *value)
{
    unsigned n;
    *value = 0;
    for (n = 0; n < digits; n++) {
        char c = text[n];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return 0;
        *value = *value << 4 | (unsigned)digit;
    }
    return 1;
}

THALWEG_COLD int thalweg_traceparent_in(const char *text, uint64_t bytes)
{
    struct thalweg_thread *thread;
    uint64_t version, high, low, span, flags;
    if (!text || strlen(text) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-' ||
        !thalweg_hexadecimal(text, 2, &version) || !thalweg_hexadecimal(text + 3, 16, &high) ||
        !thalweg_hexadecimal(text + 19, 16, &low) || !thalweg_hexadecimal(text + 36, 16, &span) ||
        !thalweg_hexadecimal(text + 53, 2, &flags) || version == 255 || (text[55] != 0 && (version == 0 || text[55] != '-')) ||
        (high | low) == 0 || span == 0)
        return 0;
    thread = thalweg_thread_here();
    if (!thread)
        return 1;
    if (!(flags & 1)) {
        /* The sender's trace is not recorded, so this thread's trace is not recorded either, unless it has
           begun. */
        thread->skip = thread->depth == 0;
        return 1;
    }
    if (thread->muted)
        return 1;
    thread->trace_high = high;
    thread->trace_low = low;
    thread->has_trace = 2;
    thalweg_emit_probe_trace_begun_at(thread, thalweg_now(), high, low, span);
    thalweg_emit_probe_received_at(thread, thalweg_now(), span, bytes, thalweg_depth(thread->depth));
    return 1;
}

#ifdef __cplusplus
}
#endif

#endif
