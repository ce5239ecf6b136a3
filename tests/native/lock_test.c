/* The lock: owned by a thread, taken from it, and shared by several. */

#include "lock.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* More than a thread needs to own a lock that was taken from it but once. */
#define ENOUGH 5000
#define TURNS 40
#define THREADS 4

static ia_lock lock;
static uint64_t counted; /* guarded by the lock, and no atomic on purpose */

static void
count(int n)
{
    for (int i = 0; i < n; i++) {
        ia_lock_take(&lock);
        counted++;
        ia_lock_give(&lock);
    }
}

static const void *
owner(void)
{
    return atomic_load(&lock.owner);
}

static void *
count_enough(void *arg)
{
    (void)arg;
    count(ENOUGH);
    return NULL;
}

static void *
count_one(void *arg)
{
    (void)arg;
    count(1);
    return NULL;
}

static void
on_another_thread(void *(*what)(void *))
{
    pthread_t thread;
    assert(pthread_create(&thread, NULL, what, NULL) == 0);
    pthread_join(thread, NULL);
}

/* Returns whether the kernel lets anybody own it. */
static int
one_thread_owns_it(void)
{
    count(10);
    assert(owner() == NULL);
    count(ENOUGH);
    assert(owner() == NULL || owner() == &ia_lock_me);
    return owner() != NULL;
}

static void
it_is_taken_from_the_owner(void)
{
    on_another_thread(count_one);
    assert(owner() == NULL);
    count(ENOUGH);
    assert(owner() == &ia_lock_me);
}

static void
an_owner_that_ended_waits_for_nobody(void)
{
    on_another_thread(count_enough);
    assert(owner() != NULL && owner() != &ia_lock_me);
    count(1);
    assert(owner() == NULL || owner() == &ia_lock_me);
}

/* Each time it is harder to earn. */
static void
those_who_take_turns_do_not_own_it(void)
{
    for (int i = 0; i < TURNS; i++) {
        count(ENOUGH / 2);
        on_another_thread(count_one);
    }
    count(ENOUGH / 2);
    assert(owner() == NULL);
}

static void
all_at_once(void)
{
    pthread_t threads[THREADS];
    uint64_t before = counted;
    for (int i = 0; i < THREADS; i++)
        assert(pthread_create(&threads[i], NULL, count_enough, NULL) == 0);
    count(ENOUGH);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert(counted == before + (THREADS + 1) * ENOUGH);
}

static void
a_child_has_it_to_itself(void)
{
    int status;
    ia_lock_take(&lock);
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        ia_lock_after_fork(&lock);
        count(ENOUGH);
        _exit(owner() != NULL && owner() != &ia_lock_me);
    }
    ia_lock_give(&lock);
    assert(waitpid(child, &status, 0) == child && status == 0);
    count(1);
}

int
main(void)
{
    int can_be_owned = one_thread_owns_it();
    a_child_has_it_to_itself();
    all_at_once();
    lock = (ia_lock){0};
    if (can_be_owned) {
        count(2 * ENOUGH);
        it_is_taken_from_the_owner();
        a_child_has_it_to_itself();
        an_owner_that_ended_waits_for_nobody();
        lock = (ia_lock){0};
        those_who_take_turns_do_not_own_it();
        all_at_once();
    }
    puts("lock: ok");
    return 0;
}
