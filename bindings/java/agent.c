/* The functions of Native.java, which Java cannot perform itself. This library is built with the agent where
   there is a C compiler; without the library, the agent takes the time from System.nanoTime. */
#include <jni.h>

#include "../c/thalweg_ring.h"

JNIEXPORT jlong JNICALL Java_org_thalweg_agent_Native_ticks(JNIEnv *env, jclass of)
{
    (void)env, (void)of;
    return (jlong)thalweg_now();
}

JNIEXPORT jlong JNICALL Java_org_thalweg_agent_Native_frequency(JNIEnv *env, jclass of)
{
    (void)env, (void)of;
    thalweg_choose_clock();
    return thalweg_process.is_monotonic ? 0 : (jlong)thalweg_process.hz;
}

JNIEXPORT jint JNICALL Java_org_thalweg_agent_Native_thread(JNIEnv *env, jclass of)
{
    (void)env, (void)of;
    return (jint)syscall(SYS_gettid);
}

JNIEXPORT jint JNICALL Java_org_thalweg_agent_Native_lock(JNIEnv *env, jclass of, jbyteArray path)
{
    char text[4096];
    jsize count = (*env)->GetArrayLength(env, path);
    int file;
    (void)of;
    if (count >= (jsize)sizeof text)
        return -1;
    (*env)->GetByteArrayRegion(env, path, 0, count, (jbyte *)text);
    text[count] = 0;
    file = thalweg_open_file(text, O_RDONLY);
    if (file >= 0 && !thalweg_flock(file)) {
        syscall(SYS_close, (long)file);
        return -1;
    }
    return file;
}

JNIEXPORT void JNICALL Java_org_thalweg_agent_Native_unlock(JNIEnv *env, jclass of, jint file)
{
    (void)env, (void)of;
    if (file >= 0)
        syscall(SYS_close, (long)file);
}
