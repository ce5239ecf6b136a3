/* Who reads it still: saved tensors, compared by their memory. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../ledger/journal.h"
#include "needed.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    ia_sink sink; /* first: the framework calls back through it */
    ia_walk *w;
    ia_needed *of;
    ia_ptrmap index; /* key -> place in `of` */
    ia_ptrmap calls; /* node that is told by name -> site of its call */
    uint32_t entry;  /* of the node that is asked */
    int failed;
} search;

/* -- who reads ------------------------------------------------------------- */

static void
note(search *s, uint32_t i, ia_edge_kind kind, const char *name,
     Py_ssize_t index)
{
    ia_needed *n = &s->of[i];
    const char *what = kind == IA_EDGE_PACKED ? "packed" : "saved";
    if (n->first == NULL)
        n->first = calloc(IA_MAX_READERS, sizeof *n->first);
    if (n->first == NULL) {
        s->failed = 1;
        return;
    }
    if (n->count < IA_MAX_READERS) {
        ia_reader *r = &n->first[n->count];
        r->entry = s->entry;
        if (name != NULL)
            snprintf(r->saved, sizeof r->saved, "%s[%s]", what, name);
        else
            snprintf(r->saved, sizeof r->saved, "%s[%zd]", what, index);
    }
    n->count++;
}

static int
sink_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
             const char *name, Py_ssize_t index)
{
    search *s = (search *)sink;
    if (kind != IA_EDGE_SAVED && kind != IA_EDGE_PACKED)
        return 0;
    const ia_reached *item = ia_storages_get(s->w->storages, storage);
    uint32_t i = item == NULL ? IA_PTRMAP_NONE
                              : ia_ptrmap_get(&s->index, item->key);
    if (i != IA_PTRMAP_NONE)
        note(s, i, kind, name, index);
    return 0;
}

static int
sink_object(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
            Py_ssize_t index)
{
    ia_storage storage;
    /* What a custom Function saved lies in its ctx. */
    if (kind == IA_EDGE_FUNCTION &&
        ia_kind_of(Py_TYPE(op)) == IA_KIND_FUNCTION)
        return ia_the_framework->expand_object(op, IA_KIND_FUNCTION, sink);
    if ((kind == IA_EDGE_SAVED || kind == IA_EDGE_PACKED) &&
        ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR &&
        ia_the_framework->storage_of(op, &storage))
        return sink_storage(sink, &storage, kind, name, index);
    return 0;
}

static void
find_readers(search *s)
{
    const ia_walk *w = s->w;
    s->sink = (ia_sink){sink_object, ia_pass_node, sink_storage, NULL};
    for (uint32_t e = 0; e < w->count && !s->failed; e++) {
        uintptr_t ref = w->queue[e].ref;
        if (IA_TAG(ref) != IA_TAG_NODE)
            continue;
        s->entry = e;
        ia_the_framework->expand_node((void *)IA_ADDRESS(ref), &s->sink);
    }
}

/* -- where they were called ------------------------------------------------ */

/* In place of a site: results of one call that were born at two lines, so that
 * one of them was given other memory since. */
#define TWO_SITES (IA_PTRMAP_NONE - 1)

static void
sink_made(ia_sink *sink, void *node, const ia_storage *storage)
{
    search *s = (search *)sink;
    uint32_t known = ia_ptrmap_get(&s->calls, (uintptr_t)node);
    if (known == IA_PTRMAP_NONE)
        return;
    const ia_reached *item = ia_storages_get(s->w->storages, storage);
    if (item == NULL || !item->in_ledger || item->site == known)
        return;
    ia_ptrmap_set(&s->calls, (uintptr_t)node,
                  known == IA_NO_SITE ? item->site : TWO_SITES);
}

/* What a call gave back is among the tensors that the walk has met, or in what
 * a node saved, its own or one after it. */
static void
find_results(search *s)
{
    const ia_walk *w = s->w;
    s->sink = (ia_sink){ia_pass_object, ia_pass_node, ia_pass_storage,
                        sink_made};
    for (uint32_t e = 0; e < w->count; e++) {
        uintptr_t ref = w->queue[e].ref;
        PyObject *op = (PyObject *)IA_ADDRESS(ref);
        if (IA_TAG(ref) == IA_TAG_NODE)
            ia_the_framework->expand_node(op, &s->sink);
        else if (IA_TAG(ref) == IA_TAG_OBJECT &&
                 ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR)
            ia_the_framework->expand_object(op, IA_KIND_TENSOR, &s->sink);
    }
}

static uint32_t
told(const ia_needed *n)
{
    return n->count < IA_MAX_READERS ? n->count : IA_MAX_READERS;
}

static void *
node_of(const ia_walk *w, const ia_reader *r)
{
    return (void *)IA_ADDRESS(w->queue[r->entry].ref);
}

static uint64_t
number_of(uint32_t site)
{
    if (site == IA_NO_SITE || site == TWO_SITES)
        return 0;
    ia_ledger_lock();
    uint64_t number = ia_site_number(site);
    ia_ledger_unlock();
    return number;
}

/* Of those that are told by name. */
static void
find_calls(search *s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t r = 0; r < told(&s->of[i]) && !s->failed; r++)
            if (ia_ptrmap_set(&s->calls,
                              (uintptr_t)node_of(s->w, &s->of[i].first[r]),
                              IA_NO_SITE) < 0)
                s->failed = 1;
    if (s->failed || s->calls.used == 0)
        return;
    find_results(s);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t r = 0; r < told(&s->of[i]); r++) {
            ia_reader *reader = &s->of[i].first[r];
            reader->site = number_of(ia_ptrmap_get(
                &s->calls, (uintptr_t)node_of(s->w, reader)));
        }
}

int
ia_needed_find(ia_walk *w, ia_needed *of, uint32_t count)
{
    search s = {.w = w, .of = of};
    for (uint32_t i = 0; i < count && !s.failed; i++) {
        uint32_t known = of[i].key == 0 ? i
                                        : ia_ptrmap_get(&s.index, of[i].key);
        of[i].same = known == IA_PTRMAP_NONE ? i : known;
        if (known == IA_PTRMAP_NONE &&
            ia_ptrmap_set(&s.index, of[i].key, i) < 0)
            s.failed = 1;
    }
    if (w->graph && !s.failed)
        find_readers(&s);
    if (!s.failed)
        find_calls(&s, count);
    ia_ptrmap_free(&s.index);
    ia_ptrmap_free(&s.calls);
    return s.failed ? -1 : 0;
}

void
ia_needed_free(ia_needed *of, uint32_t count)
{
    for (uint32_t i = 0; of != NULL && i < count; i++)
        free(of[i].first);
}

PyObject *
ia_needed_build(const ia_walk *w, const ia_needed *of, Py_ssize_t i)
{
    const ia_needed *n = &of[of[i].same];
    if (!w->graph || n->key == 0)
        return Py_NewRef(Py_None);
    PyObject *list = PyList_New(0);
    const ia_reader *end = n->first + told(n);
    for (const ia_reader *r = n->first; list && r < end; r++) {
        char node[128];
        ia_the_framework->describe_node(node_of(w, r), node, sizeof node);
        ia_list_add(&list, Py_BuildValue("(NNK)", ia_str(node),
                                         ia_str(r->saved),
                                         (unsigned long long)r->site));
    }
    return list ? Py_BuildValue("(IN)", n->count, list) : NULL;
}
