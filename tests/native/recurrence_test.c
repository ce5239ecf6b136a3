/* Which place of a loop is taken for its mark, and how often it comes. */

#include "random.h"
#include "ledger.h"
#include "recurrence.h"

#undef NDEBUG
#include <assert.h>
#include <stdio.h>

#define MANY 500

const ia_framework *ia_the_framework; /* none */

static int asked;

static int
come(void)
{
    asked++;
    return 0;
}

/* A birth at each of these places in turn. */
static void
go_round(const uint64_t *places, int count)
{
    for (int i = 0; i < count; i++)
        if (ia_recurrence_birth(places[i]))
            ia_recurrence_ask();
}

/* Turns of such a loop that are counted. */
static uint32_t
counted(const uint64_t *places, int count, int turns)
{
    ia_recurrence_follow(come);
    for (int turn = 0; turn < turns; turn++)
        go_round(places, count);
    return ia_recurrence_take();
}

/* Wherever the code lies by which they go. */
static void
a_loop_of_few_places_is_found(void)
{
    uint64_t places[4];
    for (uint64_t i = 0; i < 4; i++)
        places[i] = UINT64_C(0x1234567800000001) + 2 * i;
    for (int count = 2; count <= 4; count++)
        assert(counted(places, count, 10) == 9);
    assert(asked > 0);
}

static void
a_loop_of_many_places_is_found(void)
{
    static uint64_t places[MANY];
    for (int seed = 0; seed < 100; seed++) {
        for (int i = 0; i < MANY; i++)
            places[i] = random_number(UINT64_MAX) | 1;
        assert(counted(places, MANY, 10) == 9);
    }
}

/* Such as what is made for each key of a memo, when it is asked for first. */
static void
what_comes_ever_more_rarely_is_no_clock(void)
{
    uint64_t loop[3] = {0x1000000001, 0x2000000001, 0x3000000001};
    uint64_t made = 0x4000000001;
    ia_recurrence_follow(come);
    for (int turn = 1, next = 1; turn < 100000; turn++) {
        if (turn == next) {
            go_round(&made, 1);
            next += 1 + next / 50;
        }
        go_round(loop, 3);
        if (turn == 50000)
            ia_recurrence_take();
    }
    assert(ia_recurrence_take() > 49000);
}

static void
a_watch_that_begins_in_a_look_counts(void)
{
    uint64_t places[2] = {0x1000000001, 0x2000000001};
    ia_recurrence_pause(1);
    assert(counted(places, 2, 10) == 0);
    ia_recurrence_follow(come);
    ia_recurrence_pause(0);
    assert(counted(places, 2, 10) == 9);
}

static void
a_child_that_is_forked_in_a_look_counts(void)
{
    uint64_t places[2] = {0x1000000001, 0x2000000001};
    ia_recurrence_pause(1);
    ia_recurrence_after_fork();
    assert(counted(places, 2, 10) == 9);
    ia_recurrence_pause(0);
    assert(counted(places, 2, 10) == 9);
}

static void
what_never_comes_again_is_no_loop(void)
{
    uint64_t places[MANY];
    for (int i = 0; i < MANY; i++)
        places[i] = random_number(UINT64_MAX) | 1;
    assert(counted(places, MANY, 1) == 0);
}

int
main(void)
{
    a_loop_of_few_places_is_found();
    a_loop_of_many_places_is_found();
    what_comes_ever_more_rarely_is_no_clock();
    what_never_comes_again_is_no_loop();
    a_watch_that_begins_in_a_look_counts();
    a_child_that_is_forked_in_a_look_counts();
    ia_recurrence_follow(NULL);
    puts("recurrence: ok");
    return 0;
}
