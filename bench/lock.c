/* When a thread gives up the lock of the interpreter, and when it asks for it again.

   Loaded before Python (LD_PRELOAD), these two functions are called in place of Python's own, by all
   modules outside of it. They write down the processor time of one thread: of that which called
   lock_record. Give up, ask, give up, ask ... */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>

static _Thread_local int64_t *next, *end; /* both NULL in a thread that is not recorded */

int64_t lock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Write the times to come into this room; return the end of those written before. */
int64_t *lock_record(int64_t *room, int64_t size) {
    int64_t *written = next;
    next = room, end = room + size;
    return written;
}

static void write_down(void) {
    if (next < end) *next++ = lock_now();
}

void *PyEval_SaveThread(void) {
    void *(*own)(void) = (void *(*)(void))dlsym(RTLD_NEXT, "PyEval_SaveThread");
    void *state = own();
    write_down();
    return state;
}

void PyEval_RestoreThread(void *state) {
    void (*own)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "PyEval_RestoreThread");
    write_down();
    own(state);
}
