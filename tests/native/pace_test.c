/* What is a preparation, and what the program's work that stood still. */

#include "pace.h"

#undef NDEBUG
#include <assert.h>
#include <stdio.h>

#define BEGUN 100.0 /* on the wall */

/* A thousand turns in two seconds on the wall, of which the processor worked
 * for one in each; time begins with them. */
static void
begin_quickly(void)
{
    ia_pace_reset();
    assert(ia_pace_is_due(BEGUN));
    assert(ia_pace_begins(0, BEGUN, 0.0));
    assert(ia_pace_is_due(BEGUN + 1));
    assert(!ia_pace_begins(500, BEGUN + 1, 1.0));
    assert(ia_pace_is_due(BEGUN + 2));
    assert(!ia_pace_begins(1000, BEGUN + 2, 2.0));
}

static void
nothing_is_due_at_once(void)
{
    ia_pace_reset();
    assert(ia_pace_begins(0, BEGUN, 0.0));
    assert(!ia_pace_is_due(BEGUN));
}

static void
what_took_more_work_begins_anew(void)
{
    begin_quickly();
    assert(ia_pace_begins(1020, BEGUN + 100, 4.0));
}

static void
what_stood_still_goes_on(void)
{
    begin_quickly();
    assert(!ia_pace_begins(1020, BEGUN + 100, 2.0));
    assert(ia_pace_is_known());
}

int
main(void)
{
    nothing_is_due_at_once();
    what_took_more_work_begins_anew();
    what_stood_still_goes_on();
    puts("pace: ok");
    return 0;
}
