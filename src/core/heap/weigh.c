/* What a walk has reached, weighed; and what no root leads to. */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "weigh.h"

static int
add_unlisted(PyObject *op, void *arg)
{
    if (op != NULL && !(ia_is_gc(op) && ia_is_tracked(op)))
        ia_tally_add(arg, op, IA_NO_ENTRY);
    return 0;
}

typedef struct {
    ia_tally *tally;
    const ia_walk *w;
} rest;

static void
add_unreached(PyObject *op, void *arg)
{
    const rest *r = arg;
    if (ia_bitmap_test(r->tally->counted, (uintptr_t)op))
        return;
    ia_tally_add(r->tally, op, IA_NO_ENTRY);
    ia_walk_traverse(r->w, op, add_unlisted, r->tally);
}

int
ia_weigh(ia_tally *t, const ia_walk *w)
{
    rest r = {t, w};
    for (uint32_t i = 0; i < w->count; i++) {
        uintptr_t ref = w->queue[i].ref;
        if (IA_TAG(ref) == IA_TAG_OBJECT)
            ia_tally_add(t, (PyObject *)ref, w->queue[i].parent);
        else if (IA_TAG(ref) == IA_TAG_NODE)
            t->nodes +=
                ia_the_framework->node_bytes((void *)IA_ADDRESS(ref));
    }
    ia_each_gc_object(add_unreached, &r);
    return t->failed || t->counted->failed ? -1 : 0;
}
