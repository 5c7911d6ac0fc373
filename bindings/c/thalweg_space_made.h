/* Making a space, joining a session, and ending the space. See thalweg_space.h. */
#ifndef THALWEG_SPACE_MADE_H
#define THALWEG_SPACE_MADE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Locks a file or directory, waiting at most two seconds. */
THALWEG_COLD int thalweg_flock(int file)
{
    uint64_t begun = thalweg_monotonic();
    while (syscall(SYS_flock, (long)file, 6L /* exclusive, without waiting */) != 0) {
        if (thalweg_monotonic() - begun > UINT64_C(2000000000))
            return 0;
        syscall(SYS_sched_yield);
    }
    return 1;
}

/* Makes a directory and its parents. */
THALWEG_COLD int thalweg_make_directories(const char *path)
{
    char part[4096];
    size_t n, count = strlen(path);
    if (count == 0 || count >= sizeof part)
        return 0;
    memcpy(part, path, count + 1);
    for (n = 1; n <= count; n++) {
        if (part[n] == '/' || part[n] == 0) {
            part[n] = 0;
            if (syscall(SYS_mkdirat, THALWEG_HERE, part, 0700L) != 0 && errno != EEXIST && n == count)
                return 0;
            if (n < count)
                part[n] = '/';
        }
    }
    return 1;
}

/* The directory of all spaces. */
THALWEG_COLD int thalweg_parent(char *path, size_t room)
{
    const char *chosen = getenv("THALWEG_SPACES"), *runtime;
    if (chosen && *chosen)
        return snprintf(path, room, "%s", chosen) < (int)room;
    if (syscall(SYS_faccessat, THALWEG_HERE, "/dev/shm", 0L) == 0)
        return snprintf(path, room, "/dev/shm/thalweg-%u", (unsigned)syscall(SYS_geteuid)) < (int)room;
    runtime = getenv("XDG_RUNTIME_DIR");
    return runtime && *runtime && snprintf(path, room, "%s/thalweg", runtime) < (int)room;
}

/* Opens and locks the session's manifest, which is created if it does not exist. */
THALWEG_COLD int thalweg_enter_session(void)
{
    char path[4200], made[4300];
    int file;
    snprintf(path, sizeof path, "%s/session", thalweg_process.session);
    file = thalweg_open_file(path, O_RDWR | O_APPEND);
    if (file < 0) {
        snprintf(made, sizeof made, "%s.new-%u", path, (unsigned)syscall(SYS_gettid));
        syscall(SYS_unlinkat, THALWEG_HERE, made, 0L);
        if (!thalweg_make_catalog(made, 0))
            return -1;
        syscall(SYS_linkat, THALWEG_HERE, made, THALWEG_HERE, path, 0L);
        syscall(SYS_unlinkat, THALWEG_HERE, made, 0L);
        file = thalweg_open_file(path, O_RDWR | O_APPEND);
    }
    if (file >= 0 && !thalweg_flock(file)) {
        syscall(SYS_close, (long)file);
        return -1;
    }
    return file;
}

/* Appends the record in memory to the manifest, after cutting off a record that a killed process left
 * incomplete. */
THALWEG_COLD int thalweg_append_locked(int file)
{
    uint64_t at = THALWEG_CATALOG_HEADER, bytes;
    uint32_t header[4];
    bytes = (uint64_t)syscall(SYS_lseek, (long)file, 0L, 2L);
    while (at + 16 <= bytes && syscall(SYS_pread64, (long)file, header, 16L, (long)at) == 16 && header[0] >= 16 &&
           header[0] % 8 == 0 && at + header[0] <= bytes)
        at += header[0];
    if (at < bytes && syscall(SYS_ftruncate, (long)file, (long)at) != 0)
        return 0;
    return syscall(SYS_write, (long)file, thalweg_record, (long)thalweg_record_bytes) == (long)thalweg_record_bytes;
}

/* Makes a directory for the space: NAME-PID. */
THALWEG_COLD int thalweg_make_space_directory(const char *parent, const char *name)
{
    char safe[65];
    unsigned n, again;
    for (n = 0; n < 64 && name[n]; n++) {
        char c = name[n];
        int good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
        safe[n] = good && !(n == 0 && c == '.') ? c : '_';
    }
    safe[n] = 0;
    for (again = 0; again < 10000; again++) {
        char *path = thalweg_process.path;
        int written = again == 0 ? snprintf(path, sizeof thalweg_process.path, "%s/%s-%u", parent, safe, thalweg_process.pid)
                                 : snprintf(path, sizeof thalweg_process.path, "%s/%s-%u.%u", parent, safe, thalweg_process.pid, again);
        if (written >= (int)sizeof thalweg_process.path - 64)
            return 0;
        if (syscall(SYS_mkdirat, THALWEG_HERE, path, 0700L) == 0)
            return 1;
        if (errno != EEXIST)
            return 0;
    }
    return 0;
}

/* Declares a setting in the cell with this number. If its values have names, `choices` has the names of the values
   from 0 on and ends with NULL; otherwise `choices` is NULL. */
THALWEG_COLD uint64_t *thalweg_make_setting(unsigned cell, const char *name, const char *doc, const char *unit, uint64_t min,
                                            uint64_t value, int is_shown, const char *const *choices)
{
    uint32_t n, count = 0;
    unsigned char *at = thalweg_process.settings + THALWEG_SETTINGS_CELLS + cell * THALWEG_SETTINGS_CELL_BYTES;
    size_t record = thalweg_begin_record(1);
    thalweg_store(at, THALWEG_SETTINGS_CONFIRMED, value);
    thalweg_store(at, THALWEG_SETTINGS_LEASE_VERSION, THALWEG_SETTINGS_DESCRIBED);
    thalweg_store(at, THALWEG_SETTINGS_VALUE, value);
    thalweg_record_u64(cell);
    while (choices && choices[count])
        count++;
    thalweg_record_u64(min);
    thalweg_record_u64(count ? (uint64_t)count - 1 : ~UINT64_C(0));
    thalweg_record_u64(value);
    thalweg_record_text(name, 256);
    thalweg_record_text(doc, 512);
    thalweg_record_text(unit, 64);
    thalweg_record_u32(count);
    for (n = 0; n < count; n++)
        thalweg_record_text(choices[n], 64);
    thalweg_record_text("run", 16);
    thalweg_record_text(is_shown ? "never" : "by what is made next", 32);
    thalweg_record_text(is_shown ? "nothing" : "set back", 16);
    thalweg_seal_record(record, THALWEG_CATALOG_SETTING);
    if (!thalweg_append_own())
        return NULL;
    __atomic_store_n(thalweg_word(thalweg_process.identity, THALWEG_IDENTITY_SETTINGS), (uint64_t)cell + 1, __ATOMIC_RELEASE);
    return thalweg_word(at, THALWEG_SETTINGS_VALUE);
}

THALWEG_COLD void thalweg_write_identity(const char *name, const char *host, const char *command)
{
    unsigned char *map = thalweg_process.identity;
    unsigned char bytes[16];
    thalweg_store(map, THALWEG_IDENTITY_VERSION, THALWEG_VERSION | (uint64_t)THALWEG_PAGE << 32);
    thalweg_random(bytes, 16);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    memcpy(map + THALWEG_IDENTITY_UUID, bytes, 16);
    thalweg_store(map, THALWEG_IDENTITY_PID, thalweg_process.pid);
    thalweg_store(map, THALWEG_IDENTITY_PROCESS_START, thalweg_process.process_start);
    thalweg_boot(bytes);
    memcpy(map + THALWEG_IDENTITY_BOOT, bytes, 16);
    thalweg_store(map, THALWEG_IDENTITY_CLOCK, thalweg_process.is_monotonic ? 2 : 1);
    thalweg_store(map, THALWEG_IDENTITY_FREQUENCY, thalweg_process.hz);
    thalweg_anchor(THALWEG_IDENTITY_ANCHOR_FIRST);
    thalweg_store(map, THALWEG_IDENTITY_STATE, 1);
    thalweg_put_text(THALWEG_IDENTITY_NAME, THALWEG_IDENTITY_NAME_BYTES, name);
    thalweg_put_text(THALWEG_IDENTITY_HOST, THALWEG_IDENTITY_HOST_BYTES, host);
    thalweg_put_text(THALWEG_IDENTITY_COMMAND, THALWEG_IDENTITY_COMMAND_BYTES, command);
    __atomic_store_n(thalweg_word(map, THALWEG_IDENTITY_MAGIC), THALWEG_IDENTITY_MAGIC_VALUE, __ATOMIC_RELEASE);
}

THALWEG_COLD void thalweg_join(int session, const char *name, const char *host)
{
    unsigned char boot[16];
    uint32_t parent = (uint32_t)syscall(SYS_getppid);
    size_t record = thalweg_begin_record(1);
    thalweg_record_raw(thalweg_process.identity + THALWEG_IDENTITY_UUID, 16);
    thalweg_record_u32(thalweg_process.pid);
    thalweg_record_u32(parent);
    thalweg_record_u64(thalweg_process.process_start);
    thalweg_record_u64(thalweg_start_of(parent));
    thalweg_boot(boot);
    thalweg_record_raw(boot, 16);
    thalweg_record_u64(thalweg_real_ns());
    thalweg_record_text(strrchr(thalweg_process.path, '/') + 1, 1024);
    thalweg_record_text(name, 256);
    thalweg_record_text(host, 256);
#if defined(__x86_64__)
    thalweg_record_text("x86_64", 16);
#else
    thalweg_record_text("aarch64", 16);
#endif
    thalweg_seal_record(record, THALWEG_CATALOG_JOINED);
    thalweg_process.in_session = (uint32_t)thalweg_append_locked(session);
}

/* Copies the catalog of the parent of a fork, so that operations keep their numbers. */
THALWEG_COLD int thalweg_copy_catalog(const char *from, const char *to, uint64_t bytes)
{
    int source = thalweg_open_file(from, O_RDONLY), target = thalweg_open_file(to, O_WRONLY | O_CREAT | O_EXCL);
    while (source >= 0 && target >= 0 && bytes > 0) {
        long count = syscall(SYS_read, (long)source, thalweg_record,
                             (long)(bytes < THALWEG_RECORD_BYTES ? bytes : THALWEG_RECORD_BYTES));
        if (count <= 0 || syscall(SYS_write, (long)target, thalweg_record, count) != count)
            break;
        bytes -= (uint64_t)count;
    }
    if (source >= 0)
        syscall(SYS_close, (long)source);
    if (target >= 0)
        syscall(SYS_close, (long)target);
    return bytes == 0;
}

/* The number of words of a chunk of switches. */
THALWEG_COLD uint32_t thalweg_switches_of(uint32_t chunk)
{
    uint32_t words = THALWEG_SWITCHES_CHUNK_WORDS_FIRST << (chunk < 16 ? chunk : 16);
    return words < THALWEG_SWITCHES_CHUNK_WORDS_MAX ? words : THALWEG_SWITCHES_CHUNK_WORDS_MAX;
}

/* Makes a chunk of switches; in the child of a fork at the address of the parent's chunk, with the same
 * content. */
THALWEG_COLD int thalweg_make_switches(uint32_t chunk, int again)
{
    char path[4200], name[32];
    size_t n, words = thalweg_switches_of(chunk), bytes = THALWEG_SWITCHES_WORDS + 8 * words;
    unsigned char *before = NULL, *map;
    snprintf(name, sizeof name, "switches.%u", chunk);
    thalweg_path(path, sizeof path, name);
    if (again) {
        before = (unsigned char *)thalweg_memory(bytes);
        if (!before)
            return 0;
        memcpy(before, thalweg_process.switches[chunk], bytes);
    }
    map = thalweg_make_map(path, bytes, again ? thalweg_process.switches[chunk] : NULL);
    if (map) {
        for (n = 0; n < words; n++)
            thalweg_store(map, THALWEG_SWITCHES_WORDS + 8 * n, before ? *thalweg_word(before, THALWEG_SWITCHES_WORDS + 8 * n) : 1);
        thalweg_store(map, 8, THALWEG_VERSION);
        __atomic_store_n(thalweg_word(map, 0), THALWEG_SWITCHES_MAGIC_VALUE, __ATOMIC_RELEASE);
        thalweg_process.switches[chunk] = map;
    }
    if (before)
        syscall(SYS_munmap, before, (long)bytes);
    return map != NULL;
}

/* Makes the files of a space in its directory. */
THALWEG_COLD int thalweg_fill_space(const char *name, const char *host, const char *command, const char *parents)
{
    static const char *const policies[] = {"overwrite", "drop", "wait", NULL};
    char path[4200], named[4200];
    uint64_t ring = thalweg_process.block_bytes * thalweg_process.block_count;
    uint32_t chunk;
    thalweg_path(path, sizeof path, "space.new");
    thalweg_process.identity = thalweg_make_map(path, THALWEG_PAGE, NULL);
    thalweg_path(path, sizeof path, "settings");
    thalweg_process.settings = thalweg_make_map(
        path, THALWEG_SETTINGS_TOOLS + THALWEG_SETTINGS_TOOL_BYTES * THALWEG_SETTINGS_CELL_COUNT, NULL);
    thalweg_path(path, sizeof path, "0000.catalog");
    if (!thalweg_process.identity || !thalweg_process.settings)
        return 0;
    if (parents) {
        if (!thalweg_copy_catalog(parents, path, thalweg_process.catalog_bytes))
            return 0;
        for (chunk = 0; chunk < THALWEG_SWITCHES_MAX && thalweg_process.switches[chunk]; chunk++)
            if (!thalweg_make_switches(chunk, 1))
                return 0;
    } else if (thalweg_make_catalog(path, 0)) {
        thalweg_process.catalog_bytes = THALWEG_CATALOG_HEADER;
    } else {
        return 0;
    }
    thalweg_path(path, sizeof path, "probes");
    if (!thalweg_make_catalog(path, 0))
        return 0;
    thalweg_store(thalweg_process.settings, 8, THALWEG_VERSION);
    __atomic_store_n(thalweg_word(thalweg_process.settings, 0), THALWEG_SETTINGS_MAGIC_VALUE, __ATOMIC_RELEASE);
    thalweg_write_identity(name, host, command);
    if (parents) {
        /* The child's catalog has the settings; their values are those of the parent. */
        unsigned char *cells = thalweg_process.settings + THALWEG_SETTINGS_CELLS;
        uint64_t values[4] = {thalweg_process.no_sample, 0, thalweg_process.policy, ring};
        for (chunk = 0; chunk < 4; chunk++) {
            unsigned char *cell = cells + chunk * THALWEG_SETTINGS_CELL_BYTES;
            thalweg_store(cell, THALWEG_SETTINGS_LEASE_VERSION, THALWEG_SETTINGS_DESCRIBED);
            thalweg_store(cell, THALWEG_SETTINGS_CONFIRMED, values[chunk]);
            thalweg_store(cell, THALWEG_SETTINGS_VALUE, values[chunk]);
        }
        thalweg_store(thalweg_process.identity, THALWEG_IDENTITY_SETTINGS, 4);
        thalweg_process.sample = thalweg_word(cells, THALWEG_SETTINGS_VALUE);
        thalweg_process.lost = thalweg_word(cells + THALWEG_SETTINGS_CELL_BYTES, THALWEG_SETTINGS_VALUE);
    } else {
        thalweg_process.sample = thalweg_make_setting(0, "probe.sample", "Of so many traces one is recorded", "traces", 1, 1, 0, NULL);
        thalweg_process.lost = thalweg_make_setting(1, "probe.lost", "Events for which no element could be made", "events", 0, 0, 1, NULL);
        if (!thalweg_make_setting(2, "probe.full", "What happens when a thread's memory is full", "", 0, thalweg_process.policy, 1, policies)
            || !thalweg_make_setting(3, "probe.bytes", "The memory for each thread's events", "B", 0, ring, 1, NULL))
            return 0;
    }
    if (!thalweg_process.sample || !thalweg_process.lost)
        return 0;
    thalweg_path(path, sizeof path, "space.new");
    thalweg_path(named, sizeof named, "space");
    return syscall(SYS_renameat, THALWEG_HERE, path, THALWEG_HERE, named) == 0;
}

/* Removes the files that were made before a failure. */
THALWEG_COLD void thalweg_remove_space(void)
{
    static const char *const names[] = {"space.new", "settings", "0000.catalog", "probes"};
    char path[4200], name[32];
    unsigned n;
    for (n = 0; n < 4 + 16; n++) {
        if (n < 4)
            snprintf(name, sizeof name, "%s", names[n]);
        else
            snprintf(name, sizeof name, "switches.%u", n - 4);
        thalweg_path(path, sizeof path, name);
        syscall(SYS_unlinkat, THALWEG_HERE, path, 0L);
    }
    syscall(SYS_unlinkat, THALWEG_HERE, thalweg_process.path, 0x200L /* a directory */);
}

/* A number in the environment, such as 64k or 16M; any other text counts as not set. */
THALWEG_COLD uint64_t thalweg_number(const char *text, uint64_t otherwise)
{
    char *end;
    uint64_t value;
    if (!text || *text < '0' || *text > '9')
        return otherwise;
    value = strtoull(text, &end, 10);
    if (*end == 'k' || *end == 'K')
        value <<= 10, end++;
    else if (*end == 'M')
        value <<= 20, end++;
    else if (*end == 'G')
        value <<= 30, end++;
    return *end == 0 ? value : otherwise;
}

THALWEG_COLD void thalweg_choose_element(void)
{
    const char *full = getenv("THALWEG_PROBE_FULL");
    uint64_t bytes = thalweg_number(getenv("THALWEG_PROBE_BYTES"), 1 << 20);
    uint64_t block = 65536;
    while (block > 4096 && block * 4 > bytes)
        block /= 2;
    thalweg_process.block_bytes = block;
    thalweg_process.block_count = (uint32_t)(bytes / block < 2 ? 2 : bytes / block > 1u << 20 ? 1u << 20 : bytes / block);
    thalweg_process.policy = full && !strcmp(full, "drop") ? 1 : full && !strcmp(full, "wait") ? 2 : 0;
    thalweg_process.wait_ns = UINT64_C(1000000000);
}

/* Makes the space of this process; the caller holds the lock. */
THALWEG_COLD int thalweg_make_space(int is_child)
{
    char parent[4096], host[256], command[4096], parents[4200], name[80];
    const char *session_name = getenv("THALWEG_SESSION"), *off = getenv("THALWEG_PROBE"), *base;
    size_t n, count;
    int session = -1, directory, made;
    if (off && !strcmp(off, "off"))
        return 0;
    thalweg_path(parents, sizeof parents, "0000.catalog");
    thalweg_process.pid = (uint32_t)syscall(SYS_getpid);
    thalweg_process.process_start = thalweg_start_of(thalweg_process.pid);
    if (!is_child) {
        thalweg_choose_clock();
        thalweg_choose_element();
    }
    thalweg_random(&thalweg_process.span_base, 8);
    thalweg_process.writers = 0;
    count = thalweg_read_text("/proc/self/cmdline", command, sizeof command);
    base = strrchr(command, '/') ? strrchr(command, '/') + 1 : command;
    snprintf(name, sizeof name, "%.64s", *base ? base : "program");
    for (n = 0; n + 1 < count; n++)
        if (command[n] == 0)
            command[n] = ' ';
    thalweg_read_text("/proc/sys/kernel/hostname", host, sizeof host);
    host[strcspn(host, "\n")] = 0;
    if (!thalweg_parent(parent, sizeof parent))
        return 0;
    thalweg_process.session[0] = 0;
    if (session_name && *session_name) {
        if (snprintf(thalweg_process.session, sizeof thalweg_process.session, strchr(session_name, '/') ? "%.0s%s" : "%s/%s", parent,
                     session_name) >= (int)sizeof thalweg_process.session ||
            !thalweg_make_directories(thalweg_process.session) || (session = thalweg_enter_session()) < 0)
            return 0;
    } else if (!thalweg_make_directories(parent)) {
        return 0;
    }
    made = thalweg_make_space_directory(session >= 0 ? thalweg_process.session : parent, name);
    directory = made ? thalweg_open_file(thalweg_process.path, O_RDONLY) : -1;
    if (directory >= 0)
        thalweg_flock(directory);
    if (made && !thalweg_fill_space(name, host, command, is_child ? parents : NULL)) {
        thalweg_remove_space();
        made = 0;
    }
    if (made && session >= 0)
        thalweg_join(session, name, host);
    if (session >= 0)
        syscall(SYS_close, (long)session);
    if (directory >= 0)
        syscall(SYS_close, (long)directory);
    return made;
}

/* Marks the orderly end of the process; called when the process exits. */
THALWEG_COLD void thalweg_finish(void)
{
    uint64_t signals;
    if (__atomic_load_n(&thalweg_process.state, __ATOMIC_ACQUIRE) != 1 || thalweg_process.pid != (uint32_t)syscall(SYS_getpid))
        return;
    if (!thalweg_enter_cold(&signals))
        return;
    {
        uint64_t version = *thalweg_word(thalweg_process.identity, THALWEG_IDENTITY_ANCHOR_SECOND) | 1;
        thalweg_store(thalweg_process.identity, THALWEG_IDENTITY_ANCHOR_SECOND, version);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        thalweg_anchor(THALWEG_IDENTITY_ANCHOR_SECOND + 8);
        __atomic_store_n(thalweg_word(thalweg_process.identity, THALWEG_IDENTITY_ANCHOR_SECOND), version + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(thalweg_word(thalweg_process.identity, THALWEG_IDENTITY_STATE), 2, __ATOMIC_RELEASE);
    if (thalweg_process.in_session) {
        int session = thalweg_enter_session();
        if (session >= 0) {
            size_t record = thalweg_begin_record(1);
            thalweg_record_raw(thalweg_process.identity + THALWEG_IDENTITY_UUID, 16);
            thalweg_record_u64(thalweg_real_ns());
            thalweg_seal_record(record, THALWEG_CATALOG_LEFT);
            thalweg_append_locked(session);
            syscall(SYS_close, (long)session);
        }
    }
    thalweg_leave_cold(&signals);
}

#ifdef __cplusplus
}
#endif

#endif
