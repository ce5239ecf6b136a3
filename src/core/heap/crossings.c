/* Noted in a first pass, for a second one. */

#include "../base/array.h"
#include "crossings.h"

#include <stdlib.h>

void
ia_crossings_begin(ia_crossings *c, const ia_bitmap *seen, uint32_t entries)
{
    c->before = ia_bitmap_copy(seen);
    c->met = ia_bitmap_new();
    c->first = c->end = entries;
    c->failed = c->before == NULL || c->met == NULL;
    c->open = !c->failed;
}

void
ia_crossings_end(ia_crossings *c, uint32_t entries)
{
    c->end = entries;
    c->open = 0;
}

void
ia_crossings_free(ia_crossings *c)
{
    ia_bitmap_free(c->before);
    ia_bitmap_free(c->met);
    free(c->refs);
    *c = (ia_crossings){0};
}

void
ia_crossings_add(ia_crossings *c, uintptr_t ref)
{
    if (ia_bitmap_mark(c->met, IA_ADDRESS(ref))) {
        c->failed |= c->met->failed;
        return;
    }
    if (IA_ROOM(c->refs, c->capacity, (uint64_t)c->count + 1) < 0)
        c->failed = 1;
    else
        c->refs[c->count++] = ref;
}
