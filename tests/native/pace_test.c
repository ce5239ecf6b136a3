/* What is a preparation, and what the program's work that stood still. */

#include "../base/clock.h"
#include "pace.h"

#undef NDEBUG
#include <assert.h>
#include <stdio.h>

static double
processor(void)
{
    return (double)ia_clock_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9;
}

static void
work_for(double seconds)
{
    double end = processor() + seconds;
    while (processor() < end)
        ;
}

/* A thousand turns in two seconds on the wall; time begins with them. */
static void
begin_quickly(void)
{
    ia_pace_reset();
    assert(ia_pace_begins(0, 100.0, 0.0));
    work_for(0.01);
    assert(!ia_pace_begins(900, 101.0, 0.0));
    assert(!ia_pace_begins(1000, 102.0, 0.0));
}

static void
what_took_more_work_begins_anew(void)
{
    begin_quickly();
    work_for(0.02);
    assert(ia_pace_begins(1020, 200.0, 0.0));
}

static void
what_stood_still_goes_on(void)
{
    begin_quickly();
    assert(!ia_pace_begins(1020, 200.0, 0.0));
    assert(ia_pace_is_known());
}

static void
what_looks_took_is_no_work(void)
{
    begin_quickly();
    work_for(0.02);
    assert(!ia_pace_begins(1020, 200.0, 0.02));
}

int
main(void)
{
    what_took_more_work_begins_anew();
    what_stood_still_goes_on();
    what_looks_took_is_no_work();
    puts("pace: ok");
    return 0;
}
