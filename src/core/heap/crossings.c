/* Noted in a first pass, followed in a second one. */

#include "crossings.h"

#include <stdlib.h>

void
ia_crossings_begin(struct ia_crossings *c, const ia_walk *w)
{
    c->before = ia_bitmap_copy(w->seen);
    c->met = ia_bitmap_new();
    c->first = c->end = w->count;
    c->failed = c->before == NULL || c->met == NULL;
    c->open = !c->failed;
}

void
ia_crossings_end(struct ia_crossings *c, const ia_walk *w)
{
    c->end = w->count;
    c->open = 0;
}

void
ia_crossings_free(struct ia_crossings *c)
{
    ia_bitmap_free(c->before);
    ia_bitmap_free(c->met);
    free(c->refs);
    *c = (struct ia_crossings){0};
}

void
ia_crossings_add(struct ia_crossings *c, uintptr_t ref)
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

int
ia_crossings_suffice(const struct ia_crossings *c, const ia_cut *cuts,
                     uint32_t count)
{
    if (c == NULL || c->before == NULL || c->failed)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (cuts[i].entry >= c->first)
            return 0;
    return 1;
}

void
ia_crossings_hide(const struct ia_crossings *c, const ia_walk *full,
                  ia_walk *w)
{
    for (uint32_t i = c->first; i < c->end; i++)
        ia_walk_hide(w, (void *)IA_ADDRESS(full->queue[i].ref));
    ia_walk_keep(w, c->first, c->end);
}

void
ia_crossings_follow(const struct ia_crossings *c, ia_walk *w)
{
    for (uint32_t i = 0; i < c->count; i++)
        ia_walk_follow(w, c->refs[i], IA_NO_ENTRY);
    ia_walk_run(w);
}
